"""The kinds of values in JSON that no checksum vouches for.

A *shape* is ``str``, ``float`` (any number), ``bool``, a function that says whether a value fits, ``[shape]``
for a list of such values, or a map: of the shapes of its known keys, or of the shape of all values by the key
``""``. A key that may be missing ends in ``?``. Whatever a key holds that is not named fits.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any


def misfit(value: object, shape: Any, key: str = "", sparse: bool = False) -> str | None:
    """The first part of ``value``, of the key ``key``, that has not its ``shape``, as a sentence's end.

    None if all of it fits: ``misfit({"tags": 3}, RUN)`` is ``its key tags is a number and no map``.
    ``sparse``: any key may be missing or null, as what is not known.
    """
    if value is None and sparse:
        return None
    if not isinstance(shape, (type, list, dict)):
        return None if shape(value) else f"its key {key} has another value than it can have"
    kind = shape if isinstance(shape, type) else type(shape)
    fits = (int, float) if kind is float else kind
    if not isinstance(value, fits) or (kind is float and isinstance(value, bool)):
        return f"its key {key} is {_named(type(value))} and no {_named(kind).split()[-1]}"
    if isinstance(value, list) and isinstance(shape, list):
        for at, each in enumerate(value):
            if (text := misfit(each, shape[0], f"{key}[{at}]", sparse)) is not None:
                return text
    elif isinstance(value, dict) and isinstance(shape, dict):
        inner = f"{key}." if key else ""
        for name in () if sparse else shape:
            if name not in value and name[-1:] not in ("", "?"):
                return f"it has no key {inner}{name}"
        for name, each in value.items():
            expected = shape.get(name, shape.get(f"{name}?", shape.get("")))
            if expected is None:
                continue
            if (text := misfit(each, expected, f"{inner}{name}", sparse)) is not None:
                return text
    return None


def _named(kind: type) -> str:
    """What JSON calls a value of ``kind``."""
    names = {str: "a text", bool: "a boolean", list: "a list", dict: "a map"}
    return names.get(kind, "a number")


# One line for a few keys, not one for each of ninety.
# fmt: off
EXIT = {"code": float, "signal": float, "stopped_by": {"rank": float, "step": float}}
PROCESS = {
    "log": str, "pid": float, "ppid": float, "host": str, "rank": float, "world": float, "attempt": float,
    "argv": [str], "python": str, "time": float, "monotonic_ns": float, "ended": bool, "exit": EXIT,
    "gone": float, "error": str, "records": float, "lost": float, "why": str, "torn": float,
}
PLACE = {
    "module": str, "function": str, "file": str, "line": float, "source": str, "kind": str,
    "processes": [float],
}
RUN: dict[str, Any] = {  # run.json, of which any key may be missing or null
    "name": str, "command": [str], "program": {"": str}, "voirfiles": [str], "started": float,
    "ended": float, "duration": float, "collected_at": float, "exit": EXIT, "stopped": bool, "tags": {},
    "params": {}, "price": {"per_hour": float, "currency": str},
    "flops": {
        "ranks": [{"rank": float, "flops": float}], "precisions": {"": float}, "task": str, "peak": float,
    },
    "artifacts": [{"name": str, "path": str, "size": float, "copied": bool}],
    "limits": {
        "phase": str, "skip": float, "stop": float, "max_duration": float, "timeout": float, "grace": float,
    },
    "sampling": {"rate": float, "sources": {"": [float]}}, "timed_out": bool,
    "profiled": {"first": float, "until": float},
    "interrupted": {"signal": float, "time": float}, "outlived": [str], "peak_rss": float,
    "problems": [str], "remarks": [str], "host": str, "platform": str, "python": str, "cpu": {},
    "git": {"root": str, "branch": str, "commit": str, "dirty": bool, "sha256": str},
    "packages": {"": str}, "processes": [PROCESS],
    "probes": [{
        "selector": str, "voirfile": str, "fired": float, "exact": bool, "compiled": bool, "places": [PLACE],
    }],
    "misses": [{"selector": str, "reason": str, "processes": [float]}],
    "failures": [{"where": str, "type": str, "message": str, "trace": str, "processes": [float]}],
    "automatic": [{"name": str, "library": str, "version": str, "processes": [float]}],
    "verdict": {"kind": str, "severity": str, "sentence": str}, "training": [{}], "broken": [{}],
    "records": float, "lost": float, "torn": float, "warnings": [{"kind": str, "text": str}],
}
# fmt: on
