"""Sources of programs that are no installed packages: repositories at a commit and source archives, patched.

A source lies in ``BASE/sources/NAME-DIGEST/`` and is there as a whole or not at all. What its files
were is recorded beside it, so that a change by hand is noticed: a benchmark whose program was changed is
another benchmark under the same name. A repository without a commit is an error, since no two results of a
branch that moves can be compared.
"""

from __future__ import annotations

import json
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...analysis.wording import leading
from . import archives, folders, git
from .commands import CommandFailed, Failed, Say, locked, staged
from .origins import Origin, manifest

RECORD = "source.json"
SCHEMA = 1


def install_source(origin: Origin, base: Path, say: Say, force: bool = False) -> bool:
    """Make the source of ``origin`` below ``base`` unless it is there; returns whether it was made.

    ``force`` makes it anew, even if it was changed by hand. Raises Failed if it cannot be fetched or patched,
    or it was changed by hand.
    """
    if origin.path is not None:  # a folder of the user's, which is used where it is
        return False
    home = folders.sources(base) / origin.key
    if not force and home.is_dir() and _intact(origin, home):
        return False
    with locked(folders.locks(base) / f"source-{origin.key}", f"the source {origin.name}", say):
        if not force and home.is_dir() and _intact(origin, home):
            return False  # another process has made it meanwhile
        say(f"source {origin.name}: {origin}")
        with staged(home) as new:
            _make_source(origin, new, base)
        return True


def why_missing_source(origin: Origin, base: Path) -> str | None:
    """Why the source of ``origin`` cannot be used, as a sentence; None if it can."""
    if origin.path is not None:
        return None if origin.path.is_dir() else f"there is no folder {origin.path}"
    home = folders.sources(base) / origin.key
    if not (home / RECORD).is_file():
        return f"the source {origin} is not installed"
    try:
        _intact(origin, home)
    except Failed as error:
        return str(error)
    return None


def _make_source(origin: Origin, home: Path, base: Path) -> None:
    """Fetch and patch the source in the folder ``home``, and record there what its files are."""
    tree = home / origin.name
    if origin.archive:
        archives.unpack_package(origin.archive, tree, base)
    elif not git.COMMIT.fullmatch(origin.commit):
        raise Failed(_unpinned(origin))
    elif origin.into and origin.definition is not None:
        # A script of the definition expects the repository in a folder beside it. Both are put together
        # here, since the definition's own folder may be in an installed package.
        for name, _ in manifest(origin.definition, origin.into):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(origin.definition / name, tree / name, follow_symlinks=False)
        _check_out(origin, tree / origin.into)
    else:
        _check_out(origin, tree)
    for patch in origin.patches:
        git.apply(patch, tree / origin.into)
    record = {"schema": SCHEMA, "origin": str(origin), "url": origin.git or None}
    record |= {"commit": origin.commit or None, "package": origin.archive or None}
    record |= {"patches": [patch.name for patch in origin.patches], "made": time.time()}
    (home / RECORD).write_text(json.dumps(record | _state(origin, home), indent=1))


def _check_out(origin: Origin, tree: Path) -> None:
    """Make ``tree`` the working tree of a commit: from its archive if one is named, else with git.

    If git is not installed, or does not reach a repository of GitHub's, GitHub's archive of the commit is
    fetched instead, unless submodules are needed: an archive has none.
    """
    if origin.commit_archive:
        archives.unpack_commit(origin.commit_archive, origin.commit, tree, origin.only)
    else:
        try:
            git.check_out(origin.git, origin.commit, tree, origin.submodules, origin.only)
        except git.Unreachable as error:
            url = archives.of_github(origin.git, origin.commit)
            if url is None or origin.submodules:
                raise
            folders.remove(tree)
            try:
                archives.unpack_commit(url, origin.commit, tree, origin.only)
            except Failed as second:
                raise Failed(
                    f"{error}\nNor can its archive: {second}\nOne that is here can be named: "
                    "`origin.archive`, a path"
                ) from None
    missing = [name for name in origin.only if not (tree / name).is_dir()]
    if missing:
        raise Failed(
            f"{origin.git}: commit {origin.commit} has no folder {' or '.join(missing)}: "
            "mend origin.only"
        )


def _unpinned(origin: Origin) -> str:
    """What is wrong with an origin without a whole commit, and if it can be found out what to write."""
    name = origin.commit or origin.branch or "HEAD"
    now = None
    try:
        now = git.where_is(origin.git, name)
        if now is None:
            name, now = "HEAD", git.where_is(origin.git, "HEAD")
    except Failed:
        pass  # the commit to write is only a hint
    what = f"{origin.commit!r} is no whole commit" if origin.commit else "there is no commit"
    where = f"{name} is at {now} today: write `commit: {now}`" if now else "write `commit:`"
    return (
        f"{origin.git}: {what}, and results of a source that moves cannot be compared; {where} "
        "under `origin`"
    )


# --- whether a source is unchanged -----------------------------------------------------------------


def _state(origin: Origin, home: Path) -> dict[str, Any]:
    """What the files of a source are: git's digest of a checkout, and digests of files outside of it.

    Git compares ten thousands of files by their times, in a fraction of the time that reading them takes.
    """
    tree = home / origin.name
    if not (tree / origin.into / ".git").exists():  # it comes from an archive
        return {"files": dict(manifest(tree))}
    files = dict(manifest(tree, origin.into)) if origin.into else {}
    return {"git": git.state(tree / origin.into), "files": files}


def _intact(origin: Origin, home: Path) -> bool:
    """Whether the source in ``home`` is complete and unchanged; False if it is not there.

    Raises Failed if it was changed by hand. It is not made anew, since the change would be lost.
    """
    try:
        record = json.loads((home / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    tree = home / origin.name
    now = dict(manifest(tree)) if record["files"] else {}
    by_git = record.get("git")
    changed = [name for name, digest in record["files"].items() if now.get(name) != digest]
    state = None
    with suppress(CommandFailed):
        state = git.state(tree / origin.into) if by_git else None
    if by_git != state:
        changed += git.changed_files(tree / origin.into) or ["its commit"]
    if changed:
        raise Failed(
            f"{tree} was changed since it was made from {origin}: {leading(changed, 5)}\n"
            "Make a patch of the change (`origin.patches`), or have it made anew: "
            "inject suite install --force"
        )
    return True
