"""One record as one line of JSON that every reader takes.

What JSON cannot express is marked: a value of a foreign type is ``{"$unserializable": repr}``, a float
that is not finite is the string ``"NaN"``, ``"Infinity"`` or ``"-Infinity"`` (as in the JSON form
of protocol buffers; bare ``NaN`` is refused by most readers, while SQL engines and data frames turn
these strings back into numbers), and half a surrogate pair is spelled out as ``\\udcff``.
"""

from __future__ import annotations

import os
import sys
import time

from ..schema import SCHEMA

try:
    # What json.encoder itself is made of; json with all it imports takes ten times as long to load.
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
"""Files of such lines: what a process records, and what a program sends itself."""
REPR_LIMIT = 2_000
"""Characters kept of the ``repr`` of a value that is no JSON."""
DEPTH_LIMIT = 60
"""Levels of nesting kept; a reader's recursion limit lies above it."""


def line(event: str, data: object, t: int) -> bytes:
    """The record of ``event`` at ``t`` (nanoseconds of the monotonic clock), with its newline."""
    return b'{"event":%s,"data":%s,"t":%d}\n' % (_name(event), _text(data), t)


def value_line(series: str, value: object, t: int) -> bytes:
    """The record of one value of a series: :func:`line`, cheaper for plain numbers."""
    if type(value) is float and value - value == 0.0:  # finite
        name = _name(series)
        return b'{"event":"value","data":{"series":%s,"value":%a},"t":%d}\n' % (name, value, t)
    return line("value", {"series": series, "value": value}, t)


def line_of(record: dict[str, Any] | str) -> bytes:
    """``record`` itself as a line."""
    return _text(record) + b"\n"


PROMPT = 20_000
"""Nanoseconds between two readings of a clock that nothing came between."""


def by_both_clocks() -> tuple[int, float]:
    """This moment by the monotonic clock, nanoseconds, and in unix seconds: the closer pair of a few tries.

    All times of a host follow from one such pair, and a process may have to wait for a processor in between.
    """
    best, found = 1 << 62, (0, 0.0)
    for _ in range(4):
        before, unix = time.monotonic_ns(), time.time()
        took = time.monotonic_ns() - before
        if took < best:
            best, found = took, (before + took // 2, unix)
        if took < PROMPT:
            break
    return found


def process_line(meta: dict[str, Any]) -> bytes:
    """The first record of a process: who it is, and what its clock says in unix time.

    ``clock_moved`` of ``meta``: seconds to add to that, where its host's clock is not that of the run
    (:mod:`injector.cli.step_tasks`).
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
    """Of a process whose host's clock is moved by so many seconds, what :func:`process_line` takes."""
    return {"clock_moved": moved} if moved else {}


def lost_line(records: int, why: str, t: int) -> bytes:
    """How many records were lost so far; its length is always the same, so it can be rewritten."""
    return b'{"event":"lost","data":{"records":%20d,"why":"%-16.16s"},"t":%20d}\n' % (
        records,
        why.encode("ascii", "replace"),
        t,
    )


REASONS = {
    "NotReadyError": "times or values of a device that had not come to them when the process ended, or for "
    "which too many waited; the host's are all there"
}
"""What the names of errors that :func:`lost_line` keeps mean, where they do not say it."""


_names: dict[str, bytes] = {}


def _name(name: str) -> bytes:
    """``name`` as JSON, remembered: there are few, and each is written many times."""
    known = _names.get(name)
    if known is None:
        known = _text(name)
        if len(_names) < 1_000:
            _names[name] = known
    return known


TASKS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
"""Number of a task and of how many: of ``mpirun`` (Open MPI, MPICH), else of a Slurm step."""


def _rank() -> dict[str, int | None]:
    """This process among ranks, as a launcher numbered it, and of which task of ``mpirun`` or Slurm it is.

    Whether the task's number is its rank depends on the other processes of the task (:mod:`.logs`).
    """
    found = {"rank": _launcher_number("RANK"), "world": _launcher_number("WORLD_SIZE")}
    for task, tasks in TASKS:
        if (_launcher_number(tasks) or 0) > 1:
            return {**found, "task": _launcher_number(task), "tasks": _launcher_number(tasks)}
    return found


def _attempt() -> dict[str, int | str | None]:
    """How often an elastic launcher says that it has started this rank before, and what tells attempts apart.

    It does not count them all (:mod:`injector.analysis.attempts`).
    """
    number = _launcher_number("TORCHELASTIC_RESTART_COUNT")
    if number is None:
        return {"attempt": None}
    place = [os.environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT")]
    return {
        "attempt": number,
        "slot": _launcher_number("LOCAL_RANK"),
        "master": ":".join(place) if all(place) else None,
    }


def _launcher_number(variable: str) -> int | None:
    """What a launcher says in the environment: which rank this is, of how many, for the how manieth time."""
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else None


def _text(data: object) -> bytes:
    try:
        text = "".join(_encode(data, 0))
    except KeyboardInterrupt:
        raise
    except BaseException:  # a value's own methods may raise anything
        text = "".join(_encode(plain(data), 0))
    # An escaped surrogate may be half a pair, which strict readers refuse; pairs are rare enough
    # to be looked at twice.
    if "\\ud" in text:
        text = "".join(_encode(plain(data), 0))
    return text.encode("ascii")


def plain(data: object, around: tuple[int, ...] = ()) -> Any:
    """``data`` made of nothing but what JSON has; never raises but for KeyboardInterrupt."""
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
        int.__repr__(data)  # raises when it is longer than Python is willing to spell
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
    if number - number == 0.0:
        return number
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"


def _key(key: object) -> str:
    value = plain(key)
    if isinstance(value, str):
        return value
    # The keys that JSON spells itself stay as it spells them.
    return "".join(_encode(value, 0)) if not isinstance(value, (dict, list)) else _repr(key)


def _scalar(data: object) -> int | float | None:
    """The number in a numpy scalar or in an array or tensor without dimensions."""
    try:
        if getattr(data, "ndim", None) == 0:
            value = data.item()  # type: ignore[attr-defined]
            return value if type(value) in (int, float, bool) else None
    except KeyboardInterrupt:
        raise
    except BaseException:
        pass  # then it has no number to give, and is described instead
    return None


def unserializable(data: object) -> dict[str, str]:
    """What is kept of a value that is no JSON."""
    return {"$unserializable": _repr(data)}


def _repr(data: object) -> str:
    try:
        text = str.__str__(repr(data))[:REPR_LIMIT]
        return text.encode("utf-8", "backslashreplace").decode()
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"<{type(data).__name__} without a repr>"


def _default(data: object) -> Any:
    value = _scalar(data)
    return unserializable(data) if value is None else value


def _make_encoder() -> Callable[[Any, int], Any]:
    """The encoder that ``json`` makes anew for every call, made once."""
    try:
        # (markers, default, string encoder, indent, key and item separators, sort, skip keys, NaN):
        # without markers a circular structure is noticed as too deep a recursion.
        encoder: Callable[[Any, int], Any] = _make(
            None, _default, _quote, None, ":", ",", False, False, False
        )
        return encoder
    except TypeError:  # an interpreter without the C part, or with one that takes something else
        from json import JSONEncoder

        slow = JSONEncoder(default=_default, allow_nan=False, separators=(",", ":")).iterencode
        return lambda data, _: slow(data)


_encode = _make_encoder()
