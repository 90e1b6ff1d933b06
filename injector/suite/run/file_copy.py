"""Files copied to the same paths of another machine, in pieces. Standard library only: both sides run it.

What a machine has is compared by size and time of change, as rsync does. A file takes its place when all
of it is there. Owners are not kept.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

PIECE = 16 << 20
"""Bytes of files that are read and sent at once."""


class FileEntry(NamedTuple):
    """One file, folder or symbolic link."""

    mode: int
    size: int
    changed: int
    """Nanoseconds of unix time; 0 of a folder or link."""
    target: str = ""
    """Where a symbolic link leads."""


class FilePiece(NamedTuple):
    """A part of a file, or all of what is none."""

    path: str
    entry: FileEntry
    offset: int
    data: bytes


def entries(paths: Iterable[str], excluded: Sequence[str] = ()) -> dict[str, FileEntry]:
    """What is at ``paths`` and below; folders come before what is in them.

    ``excluded``: absolute paths, and patterns of names.
    """
    found: dict[str, FileEntry] = {}
    for path in paths:
        _collect(path, excluded, found)
    return found


def _collect(path: str, excluded: Sequence[str], found: dict[str, FileEntry]) -> None:
    name = os.path.basename(path)
    if any(each in (path, name) or fnmatch.fnmatch(name, each) for each in excluded):
        return
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            found[path] = FileEntry(status.st_mode, 0, 0, os.readlink(path))
        elif stat.S_ISREG(status.st_mode):
            found[path] = FileEntry(status.st_mode, status.st_size, status.st_mtime_ns)
        elif stat.S_ISDIR(status.st_mode):
            found[path] = FileEntry(status.st_mode, 0, 0)
            for each in sorted(os.listdir(path)):
                _collect(os.path.join(path, each), excluded, found)
    except OSError:
        pass  # it was removed just now, or is not ours to read


def lacking(wanted: Mapping[str, FileEntry]) -> list[str]:
    """The paths of ``wanted`` that are missing here, or other than they should be."""
    here = {path: entry for each in wanted for path, entry in _one(each).items()}
    return [path for path, entry in wanted.items() if here.get(path) != entry]


def _one(path: str) -> dict[str, FileEntry]:
    """``path`` itself, without what is in it."""
    found: dict[str, FileEntry] = {}
    with suppress(OSError):
        if stat.S_ISDIR(mode := os.lstat(path).st_mode):
            return {path: FileEntry(mode, 0, 0)}
        _collect(path, (), found)
    return found


def batches(wanted: Mapping[str, FileEntry]) -> Iterator[list[tuple[str, FileEntry, int]]]:
    """What to :func:`read` one after the other: paths with offsets, about :data:`PIECE` bytes each time."""
    batch: list[tuple[str, FileEntry, int]] = []
    size = 0
    for path, entry in wanted.items():
        for offset in range(0, max(1, entry.size), PIECE):
            if batch and size + min(PIECE, entry.size - offset) > PIECE:
                yield batch
                batch, size = [], 0
            batch.append((path, entry, offset))
            size += min(PIECE, entry.size - offset)
    if batch:
        yield batch


def read(batch: Iterable[tuple[str, FileEntry, int]]) -> list[FilePiece]:
    """The content of a batch, each file as far as its entry says; without what has gone."""
    found = []
    for path, entry, offset in batch:
        data = b""
        if stat.S_ISREG(entry.mode) and entry.size:
            try:
                with open(path, "rb") as file:
                    file.seek(offset)
                    data = file.read(min(PIECE, entry.size - offset))
            except OSError:
                continue
        found.append(FilePiece(path, entry, offset, data))
    return found


def write(pieces: Iterable[FilePiece]) -> None:
    """Put pieces in their places, in the order of their offsets. Raises OSError."""
    for each in pieces:
        os.makedirs(os.path.dirname(each.path), exist_ok=True)
        if stat.S_ISDIR(each.entry.mode):
            os.makedirs(each.path, exist_ok=True)
            os.chmod(each.path, stat.S_IMODE(each.entry.mode))
        elif stat.S_ISLNK(each.entry.mode):
            beside = _beside(each.path)
            os.symlink(each.entry.target, beside)
            os.replace(beside, each.path)
        else:
            _write_file(each)


def _write_file(piece: FilePiece) -> None:
    beside, entry = _beside(piece.path), piece.entry
    with open(beside, "r+b" if piece.offset else "wb") as file:
        file.seek(piece.offset)
        file.write(piece.data)
    if piece.offset + PIECE >= entry.size:
        os.chmod(beside, stat.S_IMODE(entry.mode))
        os.utime(beside, ns=(entry.changed, entry.changed))
        os.replace(beside, piece.path)


def _beside(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.copy")
