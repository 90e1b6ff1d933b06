"""Sources of programs that are no installed packages: repositories at a commit and source archives, patched.

A source lies in ``BASE/sources/NAME-DIGEST/`` and is there as a whole or not at all. What its files
were is recorded beside it, so that a change by hand is noticed: a benchmark whose program was changed is
another benchmark under the same name. A repository without a commit is an error, since no two results of a
branch that moves can be compared.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...analysis.wording import leading
from . import commands, folders, git
from .commands import CommandFailed, Failed, Say, call, locked, staged
from .installers import pip
from .origins import Origin, manifest

RECORD = "source.json"
SCHEMA = 1


def install_source(origin: Origin, base: Path, say: Say, force: bool = False) -> bool:
    """Make the source of ``origin`` below ``base`` unless it is there; returns whether it was made.

    ``force`` makes it anew, even if it was changed by hand. Raises Failed if it cannot be fetched or patched,
    it was changed by hand, or it has no such folder as the origin names.
    """
    is_made = origin.path is None and _make_unless_there(origin, base, say, force)
    if text := _missing_folder(origin, base):
        raise Failed(text)
    return is_made


def _missing_folder(origin: Origin, base: Path) -> str | None:
    """That a source which is there lacks the folder of the program, as a sentence; None if it has it."""
    if origin.folder(base).is_dir():
        return None
    return f"{origin} has no folder {origin.inside}: mend origin.folder"


def _make_unless_there(origin: Origin, base: Path, say: Say, force: bool) -> bool:
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
    return _missing_folder(origin, base)


def _make_source(origin: Origin, home: Path, base: Path) -> None:
    """Fetch and patch the source in the folder ``home``, and record there what its files are."""
    tree = home / origin.name
    if origin.archive:
        unpack_package(origin.archive, tree, base)
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
        unpack_commit(origin.commit_archive, origin.commit, tree, origin.only)
    else:
        try:
            git.check_out(origin.git, origin.commit, tree, origin.submodules, origin.only)
        except git.Unreachable as error:
            match = _GITHUB.fullmatch(origin.git)
            if match is None or origin.submodules:
                raise
            url = f"https://codeload.github.com/{match[1]}/{match[2]}/tar.gz/{origin.commit}"
            folders.remove(tree)
            try:
                unpack_commit(url, origin.commit, tree, origin.only)
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


# --- archives -----------------------------------------------------------------------------------------

# ``git archive``, which GitHub uses too, writes the commit into the archive's header: that proves of which
# commit an archive is.
_GITHUB = re.compile(r"(?:https://|ssh://git@|git@)github\.com[/:]([\w.-]+)/([\w.-]+?)(?:\.git)?/?")
SILENCE = 60
"""Seconds without a byte after which a server counts as unreachable."""


def unpack_package(pin: str, tree: Path, base: Path) -> None:
    """Create the folder ``tree`` with the content of a package's source archive; ``pin`` is NAME==VERSION.

    Raises Failed if it cannot be downloaded, or is no archive.
    """
    folder = tree.with_name("archive")
    words = ["download", "--quiet", "--no-deps", "--no-binary=:all:", "--dest", str(folder), pin]
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
    (archive,) = folder.iterdir()
    unpack(archive, folder)
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    unpacked.rename(tree)
    folders.remove(folder)


def unpack_commit(where: str, commit: str, tree: Path, only: Sequence[str]) -> None:
    """Create the folder ``tree`` with the content of the archive of ``commit`` at ``where``, a path or URL.

    With ``only``, these folders of it are kept, with the files beside them and above them. Raises Failed if
    it cannot be downloaded, is no archive, or is not of that commit.
    """
    temporary = tree.with_name(f"{tree.name}.archive")
    folders.remove(temporary)
    temporary.mkdir(parents=True)
    try:
        archive = Path(where)
        if "://" in where:
            archive = temporary / "archive.tar.gz"
            _download(where, archive)
        elif not archive.is_file():
            raise Failed(f"there is no file {where}")
        _check_commit(archive, where, commit)
        unpack(archive, temporary / "unpacked")
        unpacked = list((temporary / "unpacked").iterdir())
        if len(unpacked) != 1 or not unpacked[0].is_dir():
            raise Failed(f"{where} holds more than one folder: {_HINT.format(commit=commit)}")
        if only:
            _keep(unpacked[0], only)
        unpacked[0].rename(tree)
    finally:
        folders.remove(temporary)


def _keep(tree: Path, only: Sequence[str]) -> None:
    """Remove the folders below ``tree`` that are neither among ``only``, nor in one, nor around one."""
    for folder in [path for path in tree.rglob("*") if path.is_dir() and not path.is_symlink()]:
        name = folder.relative_to(tree)
        if not any(name.is_relative_to(each) or Path(each).is_relative_to(name) for each in only):
            folders.remove(folder)


_HINT = "make one with `git archive --format=tar.gz --prefix=source/ --output=FILE {commit}`"


def _check_commit(archive: Path, where: str, commit: str) -> None:
    """Raise Failed if an archive is not of ``commit``."""
    try:
        with tarfile.open(archive) as packed:
            found = packed.pax_headers.get("comment", "")
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise Failed(f"{where} is no archive of a commit: {error}") from None
    if found != commit:
        what = f"is of commit {found}" if found else "does not say which commit it is of"
        raise Failed(f"{where} {what}, and {commit} is wanted: {_HINT.format(commit=commit)}")


def _download(url: str, file: Path) -> None:
    """Download ``url`` into a file. Raises Failed."""
    try:
        with urllib.request.urlopen(url, timeout=SILENCE) as answer, open(file, "wb") as out:
            shutil.copyfileobj(answer, out)
    except urllib.error.HTTPError as error:
        raise Failed(f"{url}: the server answers {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        raise Failed(f"{url} cannot be reached: {getattr(error, 'reason', error)}") from None


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a wheel or a source archive (zip or tar) into ``folder``.

    Raises Failed if it is no archive, or has a file that would be written outside of ``folder``.
    """
    try:
        if archive.suffix in (".zip", ".whl"):
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(folder)
            return
        with tarfile.open(archive) as packed:
            if hasattr(tarfile, "data_filter"):  # from Python 3.10.12, 3.11.4
                packed.extractall(folder, filter="data")
                return
            for name in packed.getnames():
                if not (folder / name).resolve().is_relative_to(folder.resolve()):
                    raise Failed(f"{archive.name} means to write to {name}")
            packed.extractall(folder)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise Failed(f"{archive.name} cannot be unpacked: {error}") from None
