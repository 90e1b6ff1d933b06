"""The runs of a folder as lines of a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ..analysis.runs import Listed
from .layout import room
from .terminal import signal_name
from .text import clean, columns, duration, table

_FIGURES = 16
"""Columns of the widest figure beside it."""
HEADS = ("run", "started", "took", "exit", "processes", "lost", "verdict")


def lines(runs: Iterable[Listed], now: float | None = None) -> list[str]:
    """A table of ``runs``; the last column takes what a reader has to know of a broken one."""
    now = time.time() if now is None else now
    rows = [_row(run, now) for run in runs]
    # A name that is cut could not be pasted.
    least = min(max((columns(row[0]) for row in rows), default=0), room() - _FIGURES)
    title, *heads = HEADS
    made = table(title, [*heads[:-1], f"{heads[-1]}:"], rows, indent=0, least=least)
    return made[:-1] or ["  ".join(HEADS)]


def _row(run: Listed, now: float) -> tuple[str, ...]:
    return (
        clean(run.run),
        ago(now - run.started) if run.started is not None else "",
        duration(run.duration) if run.duration is not None else "",
        _exit(run),
        "" if run.processes is None else str(run.processes),
        str(run.lost) if run.lost else "",
        clean(run.problem or ", ".join(filter(None, (run.broken, run.verdict)))),
    )


def _exit(run: Listed) -> str:
    if run.exit is None:
        return "?"
    if run.exit < 0:
        return signal_name(-run.exit)
    return "stopped" if run.stopped and run.exit == 0 else str(run.exit)


def ago(seconds: float) -> str:
    """``3 min ago``, ``2 h ago``, ``5 days ago``."""
    if seconds < 60:
        return "just now"
    for limit, size, unit in ((3600, 60, "min"), (86_400, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds // size)} {unit} ago"
    days = int(seconds // 86_400)
    return f"{days} day{'s' * (days != 1)} ago"
