"""Records as lines of JSON: how any value that a program has becomes JSON that every reader takes.

What JSON cannot express is marked. A value of a foreign type is ``{"$unserializable": repr}``. A float that
is not finite is the string ``"NaN"``, ``"Infinity"`` or ``"-Infinity"``, as in the JSON form of protocol
buffers: most readers refuse a bare ``NaN``, while SQL engines and data frames turn these strings back into
numbers. Half a surrogate pair is spelled out as ``\\udcff``.

A record is encoded in one call of the C encoder of :mod:`json`. Only if that fails, the value is converted by
:func:`plain` first, in Python.
"""

from __future__ import annotations

import os
import sys
import time

from ..mpi import launcher_number
from ..schema import SCHEMA

try:
    # The parts that json.encoder itself is made of. To import json takes ten times as long.
    from _json import encode_basestring_ascii as _quote
    from _json import make_encoder as _make
except ImportError:  # an interpreter without the C part
    from json.encoder import encode_basestring_ascii as _quote

    _make = None  # type: ignore[assignment,misc]

TYPE_CHECKING = False  # typing itself is not imported: every process of every program pays for it
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LOG, SENT = ".log", ".sent"
"""The suffixes of files of such lines: of what a process records, and of what a program sends itself."""
REPR_LIMIT = 2_000
"""Characters that are kept of the ``repr`` of a value that is no JSON."""
DEPTH_LIMIT = 60
"""Levels of nesting that are kept, fewer than any reader's recursion limit."""


def line(event: str, data: object, t: int) -> bytes:
    """The record of ``event`` at ``t`` (nanoseconds of the monotonic clock), with its newline."""
    return b'{"event":%s,"data":%s,"t":%d}\n' % (_name(event), _text(data), t)


def value_line(series: str, value: object, t: int) -> bytes:
    """The record of one value of a series: as of :func:`line`, but faster for plain numbers."""
    if type(value) is float and value - value == 0.0:  # finite
        name = _name(series)
        return b'{"event":"value","data":{"series":%s,"value":%a},"t":%d}\n' % (name, value, t)
    return line("value", {"series": series, "value": value}, t)


def line_of(record: dict[str, Any] | str) -> bytes:
    """``record`` itself as a line of JSON."""
    return _text(record) + b"\n"


PROMPT = 20_000
"""Nanoseconds for reading the clocks, below which the process was not interrupted meanwhile."""


def by_both_clocks() -> tuple[int, float]:
    """This moment by the monotonic clock, nanoseconds, and in unix seconds.

    All times of a host follow from one such pair. The process may lose its processor between reading one
    clock and the other, so the closest pair of a few is taken.
    """
    shortest, closest = 1 << 62, (0, 0.0)
    for _ in range(4):
        before, unix = time.monotonic_ns(), time.time()
        took = time.monotonic_ns() - before
        if took < shortest:
            shortest, closest = took, (before + took // 2, unix)
        if took < PROMPT:
            break
    return closest


def process_line(meta: dict[str, Any]) -> bytes:
    """The first record of a process: what identifies it, and one moment by both clocks.

    ``meta`` is added to its data. ``clock_moved`` in it is added to the unix time: seconds by which the
    host's clock differs from that of the run (:mod:`injector.run.step_tasks`).
    """
    t, unix = by_both_clocks()
    data = {
        "schema": SCHEMA,
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "host": os.uname().nodename,
        **_rank(),
        **_attempt(),
        "argv": list(getattr(sys, "orig_argv", sys.argv)),
        "time": unix + meta.get("clock_moved", 0.0),
        "monotonic_ns": t,
        "python": sys.version.split()[0],
        "prefix": sys.prefix,
        "path": [str(entry) for entry in sys.path],
    }
    return line("process", {**data, **meta}, t)


def clock_meta(moved: float) -> dict[str, Any]:
    """The ``meta`` for :func:`process_line` on a host whose clock is moved by so many seconds."""
    return {"clock_moved": moved} if moved else {}


def lost_line(records: int, why: str, t: int) -> bytes:
    """The record of how many records were lost so far. It has a fixed length, so that it can be rewritten."""
    return b'{"event":"lost","data":{"records":%20d,"why":"%-16.16s"},"t":%20d}\n' % (
        records,
        why.encode("ascii", "replace"),
        t,
    )


REASONS = {
    "NotReadyError": "times or values of a device that had not come to them when the process ended, or for "
    "which too many waited; the host's are all there"
}
"""Explanations of those reasons in :func:`lost_line` that do not explain themselves."""


_encoded_names: dict[str, bytes] = {}


def _name(name: str) -> bytes:
    """``name`` as JSON. Results are kept, since there are few names and each is written many times."""
    encoded = _encoded_names.get(name)
    if encoded is None:
        encoded = _text(name)
        if len(_encoded_names) < 1_000:  # a program may make up a name for each step
            _encoded_names[name] = encoded
    return encoded


TASKS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
"""The variables with the number of a task and the number of tasks: of ``mpirun`` (Open MPI, MPICH), then of a
Slurm step.
"""


def _rank() -> dict[str, int | None]:
    """``rank`` and ``world`` as a launcher numbered this process, ``task`` and ``tasks`` as ``mpirun`` or
    Slurm did.

    Whether the task's number is the rank depends on the other processes of the task (:func:`.ranks_by_task`).
    """
    ranks = {"rank": launcher_number("RANK"), "world": launcher_number("WORLD_SIZE")}
    for task, tasks in TASKS:
        if (launcher_number(tasks) or 0) > 1:
            return {**ranks, "task": launcher_number(task), "tasks": launcher_number(tasks)}
    return ranks


def _attempt() -> dict[str, int | str | None]:
    """``attempt``: how often an elastic launcher has started this rank before, by its own count; ``slot`` and
    ``master``, which distinguish attempts.

    The launcher does not count all attempts (:mod:`injector.analysis.attempts`).
    """
    number = launcher_number("TORCHELASTIC_RESTART_COUNT")
    if number is None:
        return {"attempt": None}
    address = [os.environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT")]
    return {
        "attempt": number,
        "slot": launcher_number("LOCAL_RANK"),
        "master": ":".join(address) if all(address) else None,
    }


def _text(data: object) -> bytes:
    """``data`` as JSON, in ASCII. Raises KeyboardInterrupt only."""
    try:
        text = "".join(_encode(data, 0))
    except KeyboardInterrupt:
        raise
    except BaseException:
        # Methods of a program's own types may raise anything, and NaN is a ValueError.
        text = "".join(_encode(plain(data), 0))
    # An escaped surrogate may be half a pair, which strict readers refuse. Whole pairs, of emoji for
    # instance, are rare enough to be encoded twice.
    if "\\ud" in text:
        text = "".join(_encode(plain(data), 0))
    return text.encode("ascii")


def plain(data: object, around: tuple[int, ...] = ()) -> Any:
    """``data`` as values of JSON's own types. Raises KeyboardInterrupt only.

    ``around`` are the ids of the containers that it lies in, by which a circle is found.
    """
    try:
        return _plain(data, around)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return unserializable(data)


def _plain(data: object, around: tuple[int, ...]) -> Any:
    if data is None or data is True or data is False:
        return data
    if isinstance(data, str):
        return str.encode(data, "utf-8", "backslashreplace").decode()
    if isinstance(data, int):
        int.__repr__(data)  # raises ValueError if it has more digits than Python converts
        return int(data)
    if isinstance(data, float):
        return _finite(float(data))
    if isinstance(data, (dict, list, tuple)):
        if id(data) in around or len(around) >= DEPTH_LIMIT:
            return {"$unserializable": "..."}
        around = (*around, id(data))
        if isinstance(data, dict):
            return {_key(key): plain(value, around) for key, value in list(data.items())}
        return [plain(value, around) for value in list(data)]
    scalar = _scalar(data)
    return unserializable(data) if scalar is None else plain(scalar, (*around, 0))


def _finite(number: float) -> float | str:
    """``number``, or the string that stands for one that is not finite."""
    if number - number == 0.0:
        return number
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"


def _key(key: object) -> str:
    """A key of a dictionary as a string."""
    value = plain(key)
    if isinstance(value, str):
        return value
    # Numbers, True and None become the strings that JSON encoders make of such keys.
    return "".join(_encode(value, 0)) if not isinstance(value, (dict, list)) else _repr(key)


def _scalar(data: object) -> int | float | None:
    """The number in a numpy scalar, or in an array or tensor without dimensions; None for anything else."""
    try:
        if getattr(data, "ndim", None) == 0:
            value = data.item()  # type: ignore[attr-defined]
            return value if type(value) in (int, float, bool) else None
    except KeyboardInterrupt:
        raise
    except BaseException:
        pass  # such as a tensor that is traced; it is described by its repr
    return None


def unserializable(data: object) -> dict[str, str]:
    """What is recorded of a value that is no JSON: its ``repr``, cut at :data:`REPR_LIMIT` characters."""
    return {"$unserializable": _repr(data)}


def _repr(data: object) -> str:
    try:
        text = str.__str__(repr(data))[:REPR_LIMIT]  # it may be of a subclass with own methods
        return text.encode("utf-8", "backslashreplace").decode()
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"<{type(data).__name__} without a repr>"


def _default(data: object) -> Any:
    """What the encoder calls for a value that is not of JSON's types."""
    value = _scalar(data)
    return unserializable(data) if value is None else value


def _make_encoder() -> Callable[[Any, int], Any]:
    """The C encoder that ``json.dumps`` makes for every call, made once. It yields pieces of text."""
    try:
        # (markers, default, string encoder, indent, key and item separators, sort keys, skip keys, allow
        # NaN). Without markers, which cost time for each container, a circle ends in a RecursionError.
        encoder: Callable[[Any, int], Any] = _make(
            None, _default, _quote, None, ":", ",", False, False, False
        )
        return encoder
    except TypeError:
        # An interpreter without the C part, or one whose encoder takes other arguments.
        from json import JSONEncoder

        slow = JSONEncoder(default=_default, allow_nan=False, separators=(",", ":")).iterencode
        return lambda data, _: slow(data)


_encode = _make_encoder()
