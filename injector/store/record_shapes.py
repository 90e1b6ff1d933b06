"""The shapes of the records in the logs of processes, on which readers rely."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from .call_sites import MOST
from .shapes import misfit

HIGHEST = 1 << 62
"""All nanoseconds, bytes and counts are below this."""
HIGHEST_PID = 1 << 32


def makes_sense(record: Mapping[str, Any]) -> bool:
    """Whether ``record``, a line of a raw file, has the shape that readers rely on.

    An event without an entry in the table may have any data.
    """
    shape = _RECORDS.get(str(record.get("event")))
    return _integer(record.get("t")) and (
        shape is None or misfit(record.get("data"), shape) is None
    )


def _integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < HIGHEST


def _number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < HIGHEST and isfinite(value)


def _pid(value: object) -> bool:
    return isinstance(value, int) and _integer(value) and 0 < value < HIGHEST_PID


def _site(value: object) -> bool:
    return isinstance(value, int) and _integer(value) and 0 < value <= MOST


def _moment(value: object) -> bool:
    """Unix seconds of this century."""
    return isinstance(value, (int, float)) and _number(value) and 9e8 < value < 4.2e9


def _pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_number, value))


def _by_pid(value: object) -> bool:
    return isinstance(value, dict) and all(map(str.isdecimal, value))


def _or_null(shape: Any) -> Callable[[object], bool]:
    return lambda value: value is None or misfit(value, shape) is None


_COUNT = _or_null(_integer)
_CODE = _or_null(_number)
_NUMBERS = {"": _number}
# fmt: off
_RECORDS: dict[str, Any] = {
    "process": {
        "pid": _pid, "host": str, "time": _moment, "monotonic_ns": _integer, "argv?": [str], "path?": [str],
        "python?": str, "interval?": _number, "ppid?": _integer, "rank?": _COUNT, "world?": _COUNT,
        "attempt?": _COUNT, "task?": _COUNT, "tasks?": _COUNT, "slot?": _COUNT, "master?": _or_null(str),
    },
    "lost": {"records": _integer, "why": str},
    "site": {
        "site": _site, "region": str, "thread?": _integer, "of?": _COUNT,
        "place?": _or_null({"file": str, "line": _integer}),
    },
    "rank": {"rank": _COUNT, "world": _COUNT},
    "value": {"series": str, "value": lambda value: True},
    "end": {"code?": _CODE},
    "exited": {"pid": _pid, "code": _CODE},
    "exit": {"pid": _pid, "code": _CODE},
    **{name: {"selector": str} for name in ("request", "asked", "first", "probe", "miss")},
    "fired": _NUMBERS,
    "compiled": {"selectors": [str]},
    "voirfile": {"name": str, "library": str, "version?": _or_null(str)},
    "auto-missed": {"voirfile": str, "what": str},
    "phase": {"name": str},
    "problem": {"text": str},
    "host": {
        "cores?": [_pair], "load?": [_number], "swap?": _NUMBERS, "cgroup?": _NUMBERS,
        "memory?": {"used": _number, "total": _number, "fraction": _number},
        "filesystem?": {"fraction": _number}, "disks?": {"": _pair}, "nets?": {"": _pair},
        "pressure?": {"": _NUMBERS},
    },
    "tree": {
        "processes": [{
            "pid": _pid, "cpu": _number, "rss": _integer, "threads": _integer, "started?": _number,
            "uss?": _number, "fds?": _number, "read?": _number, "written?": _number,
        }],
    },
    "devices": {"": {
        "load?": _number, "memory_load?": _number, "temperature?": _number, "power?": _number,
        "power_limit?": _number, "memory_used?": _number, "memory_total?": _number, "energy?": _number,
        "throttle?": [str], "processes?": _by_pid,
    }},
    "device_list": {"": {"index?": _integer, "name?": str, "uuid?": str}},
}
# fmt: on
