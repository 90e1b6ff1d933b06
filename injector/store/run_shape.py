"""What kinds of values the keys of ``run.json`` have, for a file edited by hand, which has no checksum.

A *shape* is ``str``, ``float`` (any number), ``bool``, ``[shape]`` for a list of such values, or a map: of
the shapes of its known keys, or of the shape of all values by the key ``""``. Null fits every shape, as an
unknown value does, and so does whatever a key holds that is not named here.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

# One line for a few keys, not one for each of ninety.
# fmt: off
EXIT = {"code": float, "signal": float}
PROCESS = {
    "log": str, "pid": float, "ppid": float, "host": str, "rank": float, "world": float, "attempt": float,
    "argv": [str], "python": str, "time": float, "monotonic_ns": float, "ended": bool, "exit": EXIT,
    "gone": float, "error": str, "records": float, "lost": float, "why": str, "torn": float,
}
PLACE = {
    "module": str, "function": str, "file": str, "line": float, "source": str, "kind": str,
    "processes": [float],
}
SHAPE: dict[str, Any] = {
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


def misfit(value: object, shape: Any = SHAPE, key: str = "") -> str | None:
    """The first part of ``value``, of the key ``key``, that has not its ``shape``, as a sentence's end.

    None if all of it fits: ``misfit({"tags": 3})`` is ``its key tags is a number and no map``.
    """
    kind = shape if isinstance(shape, type) else type(shape)
    fits = (int, float) if kind is float else kind
    if value is None:
        return None
    if not isinstance(value, fits) or (kind is float and isinstance(value, bool)):
        return f"its key {key} is {_named(type(value))} and no {_named(kind).split()[-1]}"
    if isinstance(value, list):
        parts = [(each, shape[0], f"{key}[{at}]") for at, each in enumerate(value)]
    elif isinstance(value, dict):
        inner = f"{key}." if key else ""
        every = shape.get("")
        parts = [
            (each, shape.get(name, every), f"{inner}{name}")
            for name, each in value.items()
            if name in shape or every is not None
        ]
    else:
        return None
    return next((text for part in parts if (text := misfit(*part)) is not None), None)


def _named(kind: type) -> str:
    """What JSON calls a value of ``kind``."""
    names = {str: "a text", bool: "a boolean", list: "a list", dict: "a map"}
    return names.get(kind, "a number")
