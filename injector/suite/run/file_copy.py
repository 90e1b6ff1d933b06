"""Copying files to the same paths on another machine, in pieces: what the engine of Ray has instead of rsync.

::

    wanted = entries(paths)           here     what there is, without content
    paths = lacking(wanted)           there    what is missing or different
    for batch in batches(...):        here
        pieces = read(batch)          here
        write(pieces)                 there

Files are compared by size, mode and time of change. A file takes its place once it is complete. Owners are
not kept. Standard library only: both sides run this module, and Ray's workers have no ``injector``.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

PIECE = 16 << 20
"""How many bytes of content are read and sent at once."""


class FileEntry(NamedTuple):
    """One file, folder or symbolic link."""

    mode: int
    """Type and permissions, as ``os.lstat`` gives them."""
    size: int
    """Bytes; 0 for a folder or link."""
    changed: int
    """Nanoseconds of Unix time; 0 for a folder or link."""
    target: str = ""
    """The path that a symbolic link holds."""


class FilePiece(NamedTuple):
    """A part of a file's content, or a folder or link as a whole."""

    path: str
    entry: FileEntry
    offset: int
    """The first byte's place in the file."""
    data: bytes


def entries(paths: Iterable[str], excluded: Sequence[str] = ()) -> dict[str, FileEntry]:
    """What is at ``paths`` and below, by path; folders come before what is in them.

    Without what is ``excluded``: absolute paths, and names or patterns of names. What cannot be read, and
    what is neither file, folder nor link, is left out.
    """
    collected: dict[str, FileEntry] = {}
    for path in paths:
        name = os.path.basename(path)
        if any(each in (path, name) or fnmatch.fnmatch(name, each) for each in excluded):
            continue
        with suppress(OSError):  # it was removed just now, or is not ours to read
            if entry := _entry_of(path):
                collected[path] = entry
            if entry and stat.S_ISDIR(entry.mode):
                inside = (os.path.join(path, child) for child in sorted(os.listdir(path)))
                collected |= entries(inside, excluded)
    return collected


def _entry_of(path: str) -> FileEntry | None:
    """The entry of ``path``; None if it is neither file, folder nor link. Raises OSError."""
    status = os.lstat(path)
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        return FileEntry(mode, 0, 0, os.readlink(path))
    if stat.S_ISREG(mode):
        return FileEntry(mode, status.st_size, status.st_mtime_ns)
    return FileEntry(mode, 0, 0) if stat.S_ISDIR(mode) else None


def lacking(wanted: Mapping[str, FileEntry]) -> list[str]:
    """The paths of ``wanted`` that are missing here or differ."""
    here: dict[str, FileEntry | None] = {}
    for path in wanted:
        with suppress(OSError):
            here[path] = _entry_of(path)
    return [path for path, entry in wanted.items() if here.get(path) != entry]


def batches(wanted: Mapping[str, FileEntry]) -> Iterator[list[tuple[str, FileEntry, int]]]:
    """Lists of paths with entries and offsets for :func:`read`, each of at most :data:`PIECE` bytes."""
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
    """The content of a batch; of a file that has grown since, as much as its entry says.

    Files that cannot be read any more are left out.
    """
    pieces = []
    for path, entry, offset in batch:
        data = b""
        if stat.S_ISREG(entry.mode) and entry.size:
            try:
                with open(path, "rb") as file:
                    file.seek(offset)
                    data = file.read(min(PIECE, entry.size - offset))
            except OSError:
                continue
        pieces.append(FilePiece(path, entry, offset, data))
    return pieces


def write(pieces: Iterable[FilePiece]) -> None:
    """Write pieces, in the order in which :func:`batches` lists them. Raises OSError."""
    for path, entry, offset, data in pieces:
        folder, name = os.path.split(path)
        draft = os.path.join(folder, f".{name}.copy")
        os.makedirs(folder, exist_ok=True)
        if stat.S_ISDIR(entry.mode):
            os.makedirs(path, exist_ok=True)
            os.chmod(path, stat.S_IMODE(entry.mode))
        elif stat.S_ISLNK(entry.mode):
            os.symlink(entry.target, draft)
            os.replace(draft, path)
        else:
            with open(draft, "r+b" if offset else "wb") as file:
                file.seek(offset)
                file.write(data)
            if offset + PIECE >= entry.size:
                os.chmod(draft, stat.S_IMODE(entry.mode))
                os.utime(draft, ns=(entry.changed, entry.changed))
                os.replace(draft, path)
