"""Archives: the source archive of a package, and an archive of a repository's commit.

``git archive`` writes the commit into the archive's head, and so does GitHub, whose archives it makes: that
an archive is of the commit is read there.
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
    """Make ``tree`` what the source archive of a package holds; ``pin``: ``NAME==VERSION``.

    Raises:
        Failed: it cannot be had, or is no archive.
    """
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


def of_github(url: str, commit: str) -> str | None:
    """Where GitHub has the archive of a commit; None where ``url`` is not a repository of GitHub."""
    named = _GITHUB.fullmatch(url)
    return named and f"https://codeload.github.com/{named[1]}/{named[2]}/tar.gz/{commit}"


def unpack_commit(where: str, commit: str, tree: Path, only: Sequence[str] = ()) -> None:
    """Make ``tree`` what an archive of ``commit`` holds; ``where``: its path or URL.

    ``only``: the folders of it that are kept, with the files beside them and above them.

    Raises:
        Failed: it cannot be had, is no archive, or is not of that commit.
    """
    got = tree.with_name(f"{tree.name}.archive")
    folders.remove(got)
    got.mkdir(parents=True)
    try:
        archive = Path(where)
        if "://" in where:
            archive = got / "archive.tar.gz"
            _download(where, archive)
        elif not archive.is_file():
            raise Failed(f"there is no file {where}")
        _check_commit(archive, where, commit)
        unpack(archive, got / "unpacked")
        inside = list((got / "unpacked").iterdir())
        if len(inside) != 1 or not inside[0].is_dir():
            raise Failed(f"{where} holds more than one folder: {_MAKE.format(commit=commit)}")
        if only:
            _keep(inside[0], only)
        inside[0].rename(tree)
    finally:
        folders.remove(got)


def _keep(tree: Path, only: Sequence[str]) -> None:
    """Remove the folders that are neither among ``only``, nor in one, nor around one."""
    for folder in [path for path in tree.rglob("*") if path.is_dir() and not path.is_symlink()]:
        name = folder.relative_to(tree)
        if not any(name.is_relative_to(each) or Path(each).is_relative_to(name) for each in only):
            folders.remove(folder)


_MAKE = "make one with `git archive --format=tar.gz --prefix=source/ --output=FILE {commit}`"


def _check_commit(archive: Path, where: str, commit: str) -> None:
    try:
        with tarfile.open(archive) as packed:
            of = packed.pax_headers.get("comment", "")
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise Failed(f"{where} is no archive of a commit: {error}") from None
    if of != commit:
        what = f"is of commit {of}" if of else "does not say which commit it is of"
        raise Failed(f"{where} {what}, and {commit} is wanted: {_MAKE.format(commit=commit)}")


def _download(url: str, file: Path) -> None:
    try:
        with urllib.request.urlopen(url, timeout=SILENCE) as answer, open(file, "wb") as out:
            shutil.copyfileobj(answer, out)
    except urllib.error.HTTPError as error:
        raise Failed(f"{url}: the server answers {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        raise Failed(f"{url} cannot be reached: {getattr(error, 'reason', error)}") from None


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
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise Failed(f"{archive.name} cannot be unpacked: {error}") from None
