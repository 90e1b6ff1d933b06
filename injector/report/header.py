"""What was run, how it ended, on what."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from ..analysis.missing import missing_of, said_first
from ..analysis.profile import Profile, Track
from ..analysis.rates import Summary, number
from ..store.folder import Run
from .text import LIMIT, clean, count, duration, joined, labelled, wrapped

_LISTED = 4
"""Hosts and devices named, at most."""


def missing(run: Run) -> list[str]:
    """What is missing of the record, which comes before all else; nothing of a record that is whole."""
    more = ["all that follows, the verdict too, is about what is left"] if missing_of(run) else []
    return as_missing(said_first(run), more)


def as_missing(said: Sequence[str], more: Sequence[str] = ()) -> list[str]:
    """The sentences ``said``, as many as fit, and ``more``; nothing where nothing is said."""
    if not said:
        return []
    rest = [f"… and {len(said) - LIMIT} more"] if len(said) > LIMIT else []
    return [*labelled("missing", [*said[:LIMIT], *rest, *more], indent=0, width=9), ""]


def lines(run: Run, summary: Summary, profile: Profile | None = None) -> list[str]:
    """The command, then how it ended and where it ran."""
    info = run.info
    if not info:
        return _foreign(run, summary)
    processes = info.get("processes") or []
    facts = [
        _exit(info),
        duration(number(info.get("duration")) or 0.0),
        count(len(processes), "process") if processes else "nothing recorded",
        *(_machine(info, profile) if profile else []),
        f"Python {info.get('python')}",
    ]
    words = [str(word) for word in info.get("command") or ()]
    # A command that is ours needs no further sign of who reports.
    command = " ".join(words if words[:1] == ["inject"] else ["inject:", *words])
    return [*wrapped(command), *joined("  ", facts), *_error(summary, _mapping(info.get("exit")))]


def ending(run: Run, summary: Summary) -> list[str]:
    """How it ended, in a line or two."""
    if not run.info:
        return [line.strip() for line in _foreign(run, summary)[1:]]
    said = [_exit(run.info), *(["ended by --timeout"] if run.info.get("timed_out") else [])]
    error = _error(summary, _mapping(run.info.get("exit")))
    return [" · ".join(said), *(line.strip() for line in error)]


def _machine(info: dict[str, Any], profile: Profile) -> list[str]:
    tracks = [track for loop in profile.loops for track in loop.tracks]
    ranks = {track.rank for track in tracks if track.rank is not None}
    hosts = _distinct(track.host for track in tracks) or _distinct([str(info.get("host") or "")])
    devices = _distinct(_device(track, len(hosts) > 1) for track in tracks)
    return [
        *([count(len(ranks), "rank")] if len(ranks) > 1 else []),
        *([f"on {_listed(hosts, 'host')}"] if hosts else []),
        *([_listed(devices, "device")] if devices else []),
    ]


def _device(track: Track, several: bool) -> str:
    device = track.device or ""
    return f"{track.host} {device}" if device and several else device


def _distinct(names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(map(clean, names)) if name]


def _listed(names: list[str], thing: str) -> str:
    return ", ".join(names) if len(names) <= _LISTED else count(len(names), thing)


def _error(summary: Summary, ended: dict[str, Any]) -> list[str]:
    """The last line of the exception that ended the program, if it did not end well."""
    if ended.get("code") == 0:
        return []
    for events in summary.benches.values():
        error = _mapping(events.get("error"))
        if error.get("type"):
            message = str(error.get("message") or "").strip().splitlines()
            text = ": ".join([str(error["type"]), *message[:1]])
            return wrapped(text, 2, 2)
    return []


def _foreign(run: Run, summary: Summary) -> list[str]:
    lines = wrapped(f"inject: {os.path.basename(run.path)}")
    for bench, events in summary.benches.items():
        start, end = _mapping(events.get("start")), _mapping(events.get("end"))
        began, ended = number(start.get("time")), number(end.get("time"))
        took = duration(ended - began) if began is not None and ended is not None else "no end"
        code = end.get("return_code")
        said = _code(code) if isinstance(code, int) else "exit not known"
        lines += wrapped(f"{bench + ': ' if bench else ''}{said} · {took}", 2)
    return lines


def _mapping(data: object) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def _exit(info: dict[str, Any]) -> str:
    ended = _mapping(info.get("exit"))
    if ended.get("signal") is not None:
        return _code(-int(ended["signal"]))
    if ended.get("code") is None:
        return "exit not known"
    stopped = "stopped as asked, " if info.get("stopped") else ""
    return stopped + _code(int(ended["code"]))


def _code(code: int) -> str:
    if code >= 0:
        return f"exit {code}"
    from signal import Signals  # 2 ms that only such an end is to cost

    try:
        name = Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"killed by {name}"
