"""A suite that runs, as a few lines of a terminal."""

from __future__ import annotations

from typing import Any

from ....report import live
from ....report.layout import room
from ....report.text import bar, clean, duration, figure, fit, left, wrap
from ....report.watching import Watching
from ..watching import (
    ENDED,
    FAILED,
    INTERRUPTED,
    QUEUED,
    RUNNING,
    BenchmarkRow,
    ProcessRow,
    SuiteSnapshot,
)

ORDER = (RUNNING, FAILED, INTERRUPTED, ENDED)
"""Of the benchmarks: what a reader wants first stands first. Those that wait stand in one line."""
NAMED = 6
"""Benchmarks that wait of which the name is said."""
BAR = 30


class SuiteWatching(Watching):
    """Draws what a suite does onto a terminal, or line by line."""

    def has_begun(self, snapshot: SuiteSnapshot) -> bool:
        """A suite is always worth showing: its jobs wait for devices, or have ended."""
        return True

    def lines(self, snapshot: Any, width: int) -> list[str]:
        """What a terminal shows."""
        return lines(snapshot, width)

    def one_line(self, snapshot: Any) -> str:
        """What a pipe is told."""
        return one_line(snapshot)


def lines(snapshot: SuiteSnapshot, width: int = 0) -> list[str]:
    """The panel: progress, then a row for each benchmark, and below it one for each of its processes."""
    width = width or room()
    found = [line for text in snapshot.missing for line in wrap(f"missing: {clean(text)}", width)]
    found.append(_progress(snapshot))
    share = done(snapshot)
    if share is not None and snapshot.state == RUNNING:
        found.append(f"  {left(bar(share, BAR), BAR)} {100 * share:.0f} %")
    rows = sorted(
        (row for row in snapshot.benchmarks if row.state != QUEUED),
        key=lambda row: ORDER.index(row.state),
    )
    names = max((len(row.name) for row in rows), default=0)
    for row in rows:
        found.append(_benchmark(row, min(names, 40)))
        if row.state == RUNNING or (row.state == FAILED and len(row.processes) > 1):
            found += [_process(each) for each in row.processes]
    found += _waiting([row.name for row in snapshot.benchmarks if row.state == QUEUED])
    found += live.machines(snapshot)
    found += [f"  {clean(note)}" for note in snapshot.notes]
    return [fit(line, width) for line in found]


def one_line(snapshot: SuiteSnapshot) -> str:
    """The same as a single line, for output that is no terminal."""
    running = [row for row in snapshot.benchmarks if row.state == RUNNING]
    rates = [f"{clean(row.name)} {_rate(row).strip()}" for row in running]
    return " · ".join([_progress(snapshot), *rates])


def done(snapshot: SuiteSnapshot) -> float | None:
    """The share of the suite that is done, by time as far as that is known, 0…1."""
    if not snapshot.goal:
        return None
    if snapshot.left is None or snapshot.elapsed + snapshot.left <= 0:
        return snapshot.steps / snapshot.goal
    return snapshot.elapsed / (snapshot.elapsed + snapshot.left)


def _progress(snapshot: SuiteSnapshot) -> str:
    parts = [f"suite {clean(snapshot.name)}", snapshot.state]
    parts.append(f"{snapshot.steps} of {snapshot.goal} jobs")
    parts += [f"{snapshot.failed} failed"] if snapshot.failed else []
    parts.append(duration(snapshot.elapsed))
    if snapshot.left is not None:
        parts.append(f"about {duration(snapshot.left)} left")
    return " · ".join(parts)


def _benchmark(row: BenchmarkRow, width: int) -> str:
    jobs = f"{row.done} of {row.jobs} jobs" if row.jobs > 1 else ""
    parts = [left(fit(row.name, width), width), f"{row.state:<11}", _rate(row), jobs]
    if row.state == FAILED:
        parts.append(clean(row.reason))
    return "  " + "  ".join(part for part in parts if part).rstrip()


def _rate(row: BenchmarkRow | ProcessRow) -> str:
    if row.rate is None:
        return "no rate yet" if row.state == RUNNING else ""
    return f"{figure(row.rate):>8} {row.unit}"


def _process(row: ProcessRow) -> str:
    who = row.key.rpartition(".")[2]
    steps = f"step {row.steps}" + (f" of {row.goal}" if row.goal else "") if row.steps else ""
    parts = [f"    {who:<4}", ", ".join(row.devices), f"{row.state:<10}", steps, _rate(row)]
    if row.step is not None:
        parts.append(f"{figure(row.step * 1e3)} ms a step")
    if row.loss is not None:
        parts.append(f"loss {figure(row.loss)}")
    parts += [f"{row.ranks} ranks"] if row.ranks > 1 else []
    parts += [f"{row.rss / 1e9:.2f} GB"] if row.rss else []
    parts += [f"{duration(row.left)} left"] if row.left is not None and row.state != ENDED else []
    parts += [clean(row.reason)] if row.reason else []
    return "  ".join(part for part in parts if part)


def _waiting(names: list[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return [f"  queued: {', '.join(map(clean, names[:NAMED]))}{more}"]
