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
        _collect(path, excluded, collected)
    return collected


def _collect(path: str, excluded: Sequence[str], collected: dict[str, FileEntry]) -> None:
    name = os.path.basename(path)
    if any(each in (path, name) or fnmatch.fnmatch(name, each) for each in excluded):
        return
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            collected[path] = FileEntry(status.st_mode, 0, 0, os.readlink(path))
        elif stat.S_ISREG(status.st_mode):
            collected[path] = FileEntry(status.st_mode, status.st_size, status.st_mtime_ns)
        elif stat.S_ISDIR(status.st_mode):
            collected[path] = FileEntry(status.st_mode, 0, 0)
            for child in sorted(os.listdir(path)):
                _collect(os.path.join(path, child), excluded, collected)
    except OSError:
        pass  # it was removed just now, or is not ours to read


def lacking(wanted: Mapping[str, FileEntry]) -> list[str]:
    """The paths of ``wanted`` that are missing here or differ."""
    here = {path: entry for each in wanted for path, entry in _entry_at(each).items()}
    return [path for path, entry in wanted.items() if here.get(path) != entry]


def _entry_at(path: str) -> dict[str, FileEntry]:
    """The entry of ``path`` itself, without what a folder holds; empty if there is none."""
    collected: dict[str, FileEntry] = {}
    with suppress(OSError):
        if stat.S_ISDIR(mode := os.lstat(path).st_mode):
            return {path: FileEntry(mode, 0, 0)}
        _collect(path, (), collected)
    return collected


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
    for piece in pieces:
        os.makedirs(os.path.dirname(piece.path), exist_ok=True)
        if stat.S_ISDIR(piece.entry.mode):
            os.makedirs(piece.path, exist_ok=True)
            os.chmod(piece.path, stat.S_IMODE(piece.entry.mode))
        elif stat.S_ISLNK(piece.entry.mode):
            draft = _draft_of(piece.path)
            os.symlink(piece.entry.target, draft)
            os.replace(draft, piece.path)
        else:
            _write_file(piece)


def _write_file(piece: FilePiece) -> None:
    draft, entry = _draft_of(piece.path), piece.entry
    with open(draft, "r+b" if piece.offset else "wb") as file:
        file.seek(piece.offset)
        file.write(piece.data)
    if piece.offset + PIECE >= entry.size:
        os.chmod(draft, stat.S_IMODE(entry.mode))
        os.utime(draft, ns=(entry.changed, entry.changed))
        os.replace(draft, piece.path)


def _draft_of(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.copy")
