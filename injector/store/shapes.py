"""Which records of raw files make sense: what a reader may rely on in the events that it uses.

Only runs without a seal are looked at so; what a seal vouches for needs no second look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

Check = Callable[[Any], bool]
HIGHEST = 1 << 62
"""Nanoseconds, bytes and counts stay below."""
HIGHEST_PID = 1 << 32


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < HIGHEST


def _number(value: Any) -> bool:
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    return known and abs(value) < HIGHEST and isfinite(value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _pid(value: Any) -> bool:
    return _integer(value) and 0 < value < HIGHEST_PID


def _moment(value: Any) -> bool:
    """Unix seconds of this century."""
    return _number(value) and 9e8 < value < 4.2e9


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _dict(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_number, value))


def _shape(needed: Mapping[str, Check], other: Mapping[str, Check] | None = None) -> Check:
    """A dictionary that has all keys of ``needed``, and of ``other`` any."""
    checks = {**(other or {}), **needed}

    def fits(value: Any) -> bool:
        return (
            isinstance(value, dict)
            and needed.keys() <= value.keys()
            and all(check(value[key]) for key, check in checks.items() if key in value)
        )

    return fits


_NUMBERS = _dict(_number)
_STATE: dict[str, Check] = {
    **dict.fromkeys(("load", "memory_load", "temperature", "power", "power_limit"), _number),
    **dict.fromkeys(("memory_used", "memory_total", "energy"), _number),
    "throttle": _list(_text),
    "processes": lambda value: isinstance(value, dict) and all(map(str.isdecimal, value)),
}
_PLACE = _shape({"file": _text, "line": _integer})
_SHAPES: dict[str, Check] = {
    "process": _shape(
        {"pid": _pid, "host": _text, "time": _moment, "monotonic_ns": _integer},
        {
            "argv": _list(_text),
            "path": _list(_text),
            "python": _text,
            "interval": _number,
            "ppid": _integer,
            **dict.fromkeys(("rank", "world", "attempt"), _or_none(_integer)),
        },
    ),
    "lost": _shape({"records": _integer, "why": _text}),
    "site": _shape(
        {"site": lambda n: _integer(n) and 0 < n < 1 << 22, "region": _text},
        {"thread": _integer, "place": _or_none(_PLACE), "of": _or_none(_integer)},
    ),
    "rank": _shape({"rank": _or_none(_integer), "world": _or_none(_integer)}),
    "value": _shape({"series": _text, "value": lambda value: True}),
    "end": _shape({}, {"code": _or_none(_number)}),
    "exited": _shape({"pid": _pid, "code": _or_none(_number)}),
    "exit": _shape({"pid": _pid, "code": _or_none(_number)}),
    "asked": _shape({"selector": _text}),
    "first": _shape({"selector": _text}),
    "probe": _shape({"selector": _text}),
    "miss": _shape({"selector": _text}),
    "fired": _NUMBERS,
    "compiled": _shape({"selectors": _list(_text)}),
    "voirfile": _shape({"name": _text, "library": _text}, {"version": _or_none(_text)}),
    "auto-missed": _shape({"voirfile": _text, "what": _text}),
    "phase": _shape({"name": _text}),
    "problem": _shape({"text": _text}),
    "host": _shape(
        {},
        {
            "cores": _list(_pair),
            "load": _list(_number),
            "memory": _shape({"used": _number, "total": _number, "fraction": _number}),
            "filesystem": _shape({"fraction": _number}),
            "swap": _NUMBERS,
            "disks": _dict(_pair),
            "nets": _dict(_pair),
            "pressure": _dict(_NUMBERS),
            "cgroup": _NUMBERS,
        },
    ),
    "tree": _shape(
        {
            "processes": _list(
                _shape(
                    {"pid": _pid, "cpu": _number, "rss": _integer, "threads": _integer},
                    dict.fromkeys(("started", "uss", "fds", "read", "written"), _number),
                )
            )
        }
    ),
    "devices": _dict(_shape({}, _STATE)),
    "device_list": _dict(_shape({}, {"index": _integer, "name": _text, "uuid": _text})),
}


def makes_sense(record: Mapping[str, Any]) -> bool:
    """Whether a reader can use ``record``, a line of a raw file."""
    check = _SHAPES.get(str(record.get("event")))
    return _integer(record.get("t")) and (check is None or check(record.get("data")))
