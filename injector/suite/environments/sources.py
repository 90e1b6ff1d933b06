"""Programs that no package brings: repositories at a commit, source archives, with patches.

A source lies in ``BASE/sources/NAME-DIGEST/`` and is there as a whole or not at all. What its files
were is recorded beside it, so that one that was changed by hand is known. A repository without a
commit is an error: of a source that moves no two results can be compared.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

from . import commands, folders, git
from .commands import CommandFailed, Failed, Say, call, locked, staged
from .installers import pip
from .origins import Origin, manifest

RECORD = "source.json"
SCHEMA = 1


def install_source(origin: Origin, base: Path, say: Say, force: bool = False) -> bool:
    """Have the source of ``origin`` below ``base``; whether anything had to be done for it.

    ``force`` makes it anew, even where it was changed by hand.

    Raises:
        Failed: it cannot be had, or was changed by hand.
    """
    if origin.path is not None:
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
    """Why the source cannot be used; None if it can."""
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
    tree = home / origin.name
    if origin.archive:
        _unpack(origin.archive, tree, base)
    elif not git.COMMIT.fullmatch(origin.commit):
        raise Failed(_unpinned(origin))
    elif origin.into and origin.definition is not None:
        for name, _ in manifest(origin.definition, origin.into):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(origin.definition / name, tree / name, follow_symlinks=False)
        git.check_out(origin.git, origin.commit, tree / origin.into, origin.submodules)
    else:
        git.check_out(origin.git, origin.commit, tree, origin.submodules)
    for patch in origin.patches:
        git.apply(patch, tree / origin.into)
    record = {"schema": SCHEMA, "origin": str(origin), "url": origin.git or None}
    record |= {"commit": origin.commit or None, "package": origin.archive or None}
    record |= {"patches": [patch.name for patch in origin.patches], "made": time.time()}
    (home / RECORD).write_text(json.dumps(record | _state(origin, home), indent=1))


def _unpinned(origin: Origin) -> str:
    name = origin.commit or origin.branch or "HEAD"
    now = None
    try:
        now = git.where_is(origin.git, name)
        if now is None:
            name, now = "HEAD", git.where_is(origin.git, "HEAD")
    except Failed:
        pass  # it is wrong without that, too
    what = f"{origin.commit!r} is no whole commit" if origin.commit else "there is no commit"
    where = f"{name} is at {now} today: write `commit: {now}`" if now else "write `commit:`"
    return (
        f"{origin.git}: {what}, and results of a source that moves cannot be compared; {where} "
        "under `origin`"
    )


# --- whether it is still what it was ---------------------------------------------------------------


def _state(origin: Origin, home: Path) -> dict[str, Any]:
    """What the files of the source are: a digest of git's, and each file that git does not keep."""
    tree = home / origin.name
    if not origin.git:
        return {"files": dict(manifest(tree))}
    files = {}
    if origin.into:
        files = dict(manifest(tree, origin.into))
    return {"git": git.state(tree / origin.into), "files": files}


def _intact(origin: Origin, home: Path) -> bool:
    """Whether the source is there as it was made.

    Raises:
        Failed: it was changed by hand.
    """
    try:
        record = json.loads((home / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    tree = home / origin.name
    now = dict(manifest(tree)) if record["files"] else {}
    changed = [name for name, digest in record["files"].items() if now.get(name) != digest]
    if origin.git and record["git"] != _git_state(tree / origin.into):
        changed += git.changed_files(tree / origin.into) or ["its commit"]
    if changed:
        shown = ", ".join(changed[:5]) + (", …" if len(changed) > 5 else "")
        raise Failed(
            f"{tree} was changed since it was made from {origin}: {shown}\n"
            "Make a patch of the change (`origin.patches`), or have it made anew: "
            "inject suite install --force"
        )
    return True


def _git_state(tree: Path) -> str | None:
    try:
        return git.state(tree)
    except CommandFailed:
        return None


# --- archives ---------------------------------------------------------------------------------------


def _unpack(pin: str, tree: Path, base: Path) -> None:
    """Unpack the source archive of a package."""
    got = tree.with_name("archive")
    words = ["download", "--quiet", "--no-deps", "--no-binary=:all:", "--dest", str(got), pin]
    try:
        call([*pip(base), *words])
    except CommandFailed as error:
        if commands.network_missing(error.tail):
            raise Failed(
                f"{pin}: its source archive cannot be reached\n{error.tail}\n"
                "Where there is a network, `pip download` it into a folder, and name that: "
                "PIP_FIND_LINKS"
            ) from None
        raise Failed(f"{pin}: its source archive cannot be had: {error}") from None
    (archive,) = got.iterdir()
    unpack(archive, got)
    (unpacked,) = (path for path in got.iterdir() if path.is_dir())
    unpacked.rename(tree)
    folders.remove(got)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a wheel or a source archive into ``folder``.

    Raises:
        Failed: it is no archive, or means to write elsewhere.
    """
    try:
        if archive.suffix in (".zip", ".whl"):
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(folder)
            return
        with tarfile.open(archive) as packed:
            if hasattr(tarfile, "data_filter"):  # from 3.10.12, 3.11.4
                packed.extractall(folder, filter="data")
                return
            for name in packed.getnames():
                if not (folder / name).resolve().is_relative_to(folder.resolve()):
                    raise Failed(f"{archive.name} means to write to {name}")
            packed.extractall(folder)
    except (tarfile.TarError, zipfile.BadZipFile) as error:
        raise Failed(f"{archive.name} cannot be unpacked: {error}") from None
