"""The runs of a folder as lines of a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ..analysis.runs import Listed
from .text import duration, fit

HEADS = ("run", "started", "took", "exit", "processes", "lost", "verdict")


def lines(runs: Iterable[Listed], now: float | None = None) -> list[str]:
    """A table of ``runs``; the last column takes what a reader has to know of a broken one."""
    now = time.time() if now is None else now
    rows = [_row(run, now) for run in runs]
    widths = [max(len(row[at]) for row in [HEADS, *rows]) for at in range(len(HEADS))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [HEADS, *rows]
    ]


def _row(run: Listed, now: float) -> tuple[str, ...]:
    return (
        fit(run.run, 60),
        ago(now - run.started) if run.started is not None else "",
        duration(run.duration) if run.duration is not None else "",
        _exit(run),
        "" if run.processes is None else str(run.processes),
        str(run.lost) if run.lost else "",
        fit(run.problem or ", ".join(filter(None, (run.broken, run.verdict))), 60),
    )


def _exit(run: Listed) -> str:
    if run.exit is None:
        return "?"
    if run.exit < 0:
        from signal import Signals

        try:
            return Signals(-run.exit).name
        except ValueError:
            return f"signal {-run.exit}"
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
