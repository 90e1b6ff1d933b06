"""Archives: the source archive of a package, and an archive of a repository's commit.

``git archive``, which GitHub uses too, writes the commit into the archive's header: that proves which commit
an archive is of.
"""

from __future__ import annotations

import re
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from . import commands, folders
from .commands import CommandFailed, Failed, call
from .installers import pip

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


def of_github(url: str, commit: str) -> str | None:
    """The URL of GitHub's archive of a commit; None if ``url`` is no repository of GitHub's."""
    match = _GITHUB.fullmatch(url)
    return match and f"https://codeload.github.com/{match[1]}/{match[2]}/tar.gz/{commit}"


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
