"""The seal of a run: sizes and checksums of its files, taken when the run is collected.

``run.json`` keeps the seal under ``files``. Each file is divided into pieces of equal size, each with a
checksum::

    {"raw/host.42.log": {"size": 2500, "crc32": "1d0f2a3b9c44e0716ab1f802"}}      three pieces of 1024 bytes

A reader compares the files with the seal (:func:`flaws`), names each one that is no longer what was recorded,
and reads only the pieces that are (:func:`salvage`): a byte that was changed costs no more than its piece. No
checksum is computed while the program runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from zlib import crc32

from ..errors import UserError
from ..named_tuple import NamedTuple
from . import drift, monitor, series, spans, stacks
from .event import LOG, SENT
from .place import data_files
from .run_json import read_info, write_info

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

PIECE = 1024
"""Bytes of the smallest piece that has a checksum of its own."""
PIECES = 256
"""The most pieces of a file. Pieces of larger files are larger."""
LINES = (LOG, monitor.SUFFIX, SENT, drift.SUFFIX)
"""The suffixes of files of JSON lines."""
SUFFIXES = (*LINES, spans.SUFFIX, spans.PACKED, series.SUFFIX, stacks.SUFFIX)
"""The suffixes of all files in ``raw/`` that readers read."""
ARTIFACTS = "artifacts"
"""The folder within a run folder for files that the program adds."""
_INDIVISIBLE = ".parquet"
"""The suffix of files that cannot be read in part. Artifacts cannot either."""

Seal = Mapping[str, "Any"]
"""By a file's name within the run folder: ``{"size": bytes, "crc32": eight hex digits a piece}``."""


class Flaw(NamedTuple):
    """A file that is not what was recorded."""

    name: str
    """Its name within the run folder."""
    sentence: str
    """What is wrong with it, for a report."""
    bad: frozenset[int] | None
    """The numbers of the pieces that are not as they were; None if no piece can be used."""


def names(folder: str) -> list[str]:
    """The files of the run in ``folder`` that readers read, by their names within it, without artifacts."""
    data = data_files(_listed(folder))
    raw = [name for name in _listed(os.path.join(folder, "raw")) if name.endswith(SUFFIXES)]
    return [*data, *(os.path.join("raw", name) for name in raw)]


def artifacts(folder: str) -> list[str]:
    """The files that the program of the run in ``folder`` added, by their names within it."""
    folders = os.walk(os.path.join(folder, ARTIFACTS))
    paths = (os.path.join(place, name) for place, _, names in folders for name in names)
    return sorted(os.path.relpath(path, folder) for path in paths)


def stem_of(name: str) -> str:
    """The part of a raw file's name that all files of one process share: ``raw/HOST.PID``."""
    if name.endswith(series.SUFFIX):
        return name[: -len(series.SUFFIX)].rpartition(".")[0]
    return next(name[: -len(suffix)] for suffix in SUFFIXES if name.endswith(suffix))


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def mark_changed(folder: str) -> None:
    """Set the time of change of each file that readers read to now, for tools that copy what has changed.

    Raw files are mapped into memory: the kernel notes the time of the first write to a page, but not of those
    that follow, until it has written the page to the disk, half a minute later. So rsync would leave out the
    last records of a run that it has copied before.
    """
    for name in names(folder):
        try:
            os.utime(os.path.join(folder, name))
        except OSError:
            pass  # it is not ours


def seal(folder: str, which: Sequence[str] | None = None) -> dict[str, Any]:
    """The seal of the run in ``folder``, or of the files ``which``, without those that cannot be read."""
    sealed: dict[str, Any] = {}
    for name in [*names(folder), *artifacts(folder)] if which is None else which:
        try:
            size = os.path.getsize(os.path.join(folder, name))
            sums = [f"{crc32(piece):08x}" for piece in _pieces(os.path.join(folder, name), size)]
        except OSError:
            continue
        sealed[name] = {"size": size, "crc32": "".join(sums)}
    return sealed


def piece_of(size: int) -> int:
    """Bytes of each piece but the last of a file of ``size`` bytes: a power of two."""
    return max(PIECE, 1 << max(0, -(-size // PIECES) - 1).bit_length())


def _pieces(path: str, size: int) -> Iterator[bytes]:
    """The pieces of a file that had ``size`` bytes when it was sealed. Those cut off are shorter."""
    length = piece_of(size)
    with open(path, "rb") as file:
        for start in range(0, size, length):
            yield file.read(min(length, size - start))


def flaws(folder: str, sealed: Seal, content: bool = True) -> list[Flaw]:
    """The files of the run in ``folder`` that are not as they were when it was ``sealed``, or were not there.

    Without ``content`` only names and sizes are compared, and no file is read.
    """
    present = names(folder)
    result = [
        flaw
        for name, facts in sealed.items()
        if (flaw := _flaw(folder, name, facts, content)) is not None
    ]
    added = [name for name in present if name not in sealed]
    return result + [
        Flaw(name, f"{name} is no file of this run and is left out", None) for name in added
    ]


def _flaw(folder: str, name: str, facts: Any, content: bool) -> Flaw | None:
    """What is wrong with the file ``name``, of which ``facts`` are in the seal; None if nothing is."""
    path, size, sums = os.path.join(folder, name), facts["size"], facts["crc32"]
    known = [sums[at : at + 8] for at in range(0, len(sums), 8)]
    try:
        now = os.stat(path).st_size
        pieces = enumerate(_pieces(path, size)) if content else ()
        bad = frozenset(at for at, piece in pieces if f"{crc32(piece):08x}" != known[at])
    except FileNotFoundError:
        return Flaw(name, f"{name} is missing", None)
    except OSError as error:
        return Flaw(name, f"{name} cannot be read: {error.strerror or error}", None)
    indivisible = name.endswith(_INDIVISIBLE) or name.startswith(ARTIFACTS + os.sep)
    left_out = None if indivisible and (bad or now != size) else bad
    if now < size:
        left = f"{now} of its {size} bytes are left" if now else f"its {size} bytes are lost"
        return Flaw(name, f"{name} is {'cut' if now else 'empty'}: {left}", left_out)
    if bad and len(bad) == len(known):
        return Flaw(name, f"{name} was replaced: nothing in it is as it was recorded", left_out)
    if bad:
        verb = "is" if len(bad) == 1 else "are"
        lost = f"{len(bad)} of its {len(known)} pieces of {piece_of(size)} bytes {verb} left out"
        lost = "nothing in it can be read" if left_out is None else lost
        return Flaw(name, f"{name} was changed after the run: {lost}", left_out)
    if now > size:
        return Flaw(
            name, f"{name} has {now - size} bytes more than the run wrote: left out", left_out
        )
    return None


def salvage(folder: str, sealed: Seal, damage: Sequence[Flaw], into: str) -> None:
    """Put into the folder ``into`` everything of the run in ``folder`` that is as it was ``sealed``.

    ``damage`` is what :func:`flaws` returned. Files that are as they were are links. In copies of the others,
    NUL stands in the place of what was changed or lost, which readers take as never written. Raises OSError.
    """
    os.mkdir(os.path.join(into, "raw"))
    flawed = {flaw.name: flaw.bad for flaw in damage}
    for name, facts in sealed.items():
        path, target = os.path.join(folder, name), os.path.join(into, name)
        bad = flawed.get(name, frozenset())
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if name not in flawed:
            os.symlink(os.path.abspath(path), target)
        elif bad is not None:
            _salvage(path, facts["size"], bad, target)
        elif name.endswith(LOG):
            # Its process keeps its place among the others; run.json says which process it was.
            open(target, "wb").close()


def _salvage(path: str, size: int, bad: frozenset[int], target: str) -> None:
    """Copy the file ``path`` to ``target``, with NUL for the pieces ``bad``. It had ``size`` bytes."""
    with open(target, "wb") as file:
        for number, piece in enumerate(_pieces(path, size)):
            if number not in bad:
                file.seek(number * piece_of(size))
                file.write(piece)
        file.truncate(size)


def pack(folder: str) -> tuple[int, int]:
    """Pack the files of spans of the run in ``folder``. Returns their bytes together, before and after.

    Raises UserError for a run that has not ended, that is damaged, or that a later version wrote; OSError.
    """
    info = read_info(folder)
    if not info:
        raise UserError(
            f"{folder}: this run still goes on, or was never collected: it cannot be packed"
        )
    damage = flaws(folder, info.get("files") or {}) if "files" in info else []
    if damage:
        sentences = "; ".join(flaw.sentence for flaw in damage[:3])
        raise UserError(f"{folder}: this run is damaged and cannot be packed: {sentences}")
    # The seal is renewed when all are packed, and the first file is removed after that. Whenever this is
    # killed, each row is in a file that the seal names.
    paths = [os.path.join(folder, name) for name in names(folder) if name.endswith(spans.SUFFIX)]
    for path in paths:
        spans.pack_file(path)
    if paths and "files" in info:
        kept = {k: v for k, v in info["files"].items() if not k.endswith(spans.SUFFIX)}
        new = [os.path.relpath(spans.packed_path(path), folder) for path in paths]
        write_info(folder, {**info, "files": {**kept, **seal(folder, new)}})
    before = sum(os.path.getsize(path) for path in paths)
    for path in paths:
        os.unlink(path)
    return before, sum(os.path.getsize(spans.packed_path(path)) for path in paths)
