"""A suite while it runs, for people and for a page: its summary at one moment as rows, and these as lines.

Rates are added up over the processes of a benchmark, devices and hosts are shown once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ...analysis.recorded import sum_of_known
from ...analysis.wording import some
from ...live.snapshot import EPOCH, DeviceRow, HostRow, Snapshot, TaskRow
from ...report import panel
from ...report.output import room
from ...report.text import bar, clean, duration, figure, fit, left, wrap
from ..run import journal
from ..run.progress import seconds_left
from . import scores
from .suite_summary import (
    ENDED,
    INTERRUPTED,
    RUNNING,
    STOPPED,
    JobSummary,
    ProcessSummary,
    SuiteSummary,
)

QUEUED, FAILED = "queued", "failed"


@dataclass(frozen=True)
class ProcessRow:
    """One process of a job."""

    key: str
    """``resnet50.R0.D1``."""
    devices: tuple[str, ...]
    state: str = QUEUED
    """``queued``, ``ended``, ``failed``, ``interrupted``; of one that runs that of its run: ``starting``,
    ``training``, …"""
    reason: str = ""
    """Why it failed; of one that runs, what its run warns of."""
    steps: int = 0
    goal: int | None = None
    """Steps after which it is stopped, those that are skipped included."""
    unit: str = "items/s"
    rate: float | None = None
    """Over the last seconds; of one that has ended its perf, as the report has it."""
    step: float | None = None
    """Seconds of a step."""
    loss: float | None = None
    rss: float | None = None
    """Bytes that it holds."""
    ranks: int = 0
    left: float | None = None
    """Seconds until its goal at the present speed."""


@dataclass(frozen=True)
class BenchmarkRow:
    """One benchmark: all its jobs, and the processes of the latest one."""

    name: str
    state: str
    """``queued``, ``running``, ``ended``, ``failed``, ``interrupted``."""
    reason: str
    """Why it failed."""
    jobs: int
    done: int
    """Jobs that have ended, those that failed included."""
    unit: str
    rate: float | None
    """The sum over its processes."""
    processes: tuple[ProcessRow, ...]


@dataclass(frozen=True)
class SuiteSnapshot(Snapshot):
    """A suite at one moment: its ``steps`` are jobs that have ended, its ``tasks`` benchmarks that run.

    ``state`` is ``starting``, ``running``, ``ended``, ``interrupted`` or ``stopped`` (it was killed).
    """

    failed: int = 0
    """Jobs that failed."""
    benchmarks: tuple[BenchmarkRow, ...] = ()


def snapshot(summary: SuiteSummary, now: float) -> SuiteSnapshot:
    """``summary``, which was read at ``now`` (unix seconds), as rows."""
    rows = tuple(_benchmark_rows(summary))
    running = [row for row in rows if row.state == RUNNING]
    runs = summary.state == RUNNING
    until = now if runs or summary.ended is None else summary.ended
    shown = [process.live for process in summary.processes if process.live]
    is_paused = summary.state in (INTERRUPTED, STOPPED)
    paused = ["nothing more is started: inject suite run --resume goes on"] if is_paused else []
    left_out = (f"left out: {each.benchmark}: {each.reason}" for each in summary.left_out)
    return SuiteSnapshot(
        name=summary.name,
        elapsed=max(until - (now if summary.resumed is None else summary.resumed), 0.0),
        state=summary.state,
        steps=sum(job.record.over for job in summary.jobs),
        goal=len(summary.jobs),
        left=_left(summary.jobs, now) if runs else None,
        unit=running[0].unit if running else "items/s",
        rate=None,
        overall=None,
        step=None,
        regions={},
        values={},
        ranks=(),
        devices=_devices(shown),
        hosts=_hosts(shown),
        tasks=tuple(map(_task, running)),
        missing=() if runs else tuple(summary.missing),
        notes=(*paused, *left_out),
        failed=sum(job.failed for job in summary.jobs),
        benchmarks=rows,
    )


# --- rows -----------------------------------------------------------------------------------------


def _benchmark_rows(summary: SuiteSummary) -> Iterator[BenchmarkRow]:
    by_name: dict[str, list[JobSummary]] = {}
    for job in summary.jobs:
        by_name.setdefault(job.job.benchmark, []).append(job)
    together = {each.name: each.findings for each in summary.benchmarks}
    for name, jobs in by_name.items():
        latest = max(jobs, key=lambda job: job.record.time)
        rows = tuple(map(_process_row, latest.processes))
        failed = [job.record.reason for job in jobs if job.failed]
        failed += [row.reason for row in rows if row.state == FAILED]
        failed += [each.sentence for each in together.get(name, ()) if each.fails]
        reason = next(filter(None, failed), "")
        state = _state(jobs)
        units = list(dict.fromkeys(row.unit for row in rows if row.rate is not None))
        yield BenchmarkRow(
            name=name,
            state=FAILED if reason and state == ENDED else state,
            reason=reason,
            jobs=len(jobs),
            done=sum(job.record.over for job in jobs),
            unit=" or ".join(units) or "items/s",
            rate=sum_of_known(row.rate for row in rows) if len(units) == 1 else None,
            processes=rows,
        )


def _state(jobs: Sequence[JobSummary]) -> str:
    """Of a benchmark with these jobs."""
    states = {job.record.state for job in jobs}
    if journal.STARTED in states:
        return RUNNING
    if any(job.failed for job in jobs):
        return FAILED
    if journal.INTERRUPTED in states:
        return INTERRUPTED
    return QUEUED if states & set(journal.WAITING) else ENDED


def _process_row(process: ProcessSummary) -> ProcessRow:
    row = ProcessRow(process.key, process.devices)
    if process.live is not None:
        return _live_row(row, process.live)
    if process.state in journal.WAITING:
        return row
    if process.state == journal.INTERRUPTED:
        return replace(row, state=INTERRUPTED)
    record = process.record
    perf = scores.perf(process.rates)
    found = (each.sentence for each in process.findings if each.fails)
    reason = (process.reason or next(found, "")) if process.failed else ""
    return replace(
        row,
        state=FAILED if process.failed else ENDED,
        reason=reason,
        rate=perf.mean if perf else None,
        unit=record.unit if record else "items/s",
    )


def _live_row(row: ProcessRow, shown: Snapshot) -> ProcessRow:
    """The row of a process whose run is at present ``shown``."""
    notes = [*shown.notes, *(note for rank in shown.ranks for note in rank.notes)]
    losses = [rank.loss for rank in shown.ranks if rank.loss is not None]
    return replace(
        row,
        state=shown.state,
        reason="; ".join(notes[:2]),
        steps=shown.steps,
        goal=shown.goal,
        unit=shown.unit,
        rate=shown.rate if shown.rate is not None else shown.overall,
        step=shown.step,
        loss=losses[0] if losses else None,
        rss=sum_of_known(host.rss for host in shown.hosts),
        ranks=len(shown.ranks),
        left=shown.left,
    )


def _task(row: BenchmarkRow) -> TaskRow:
    """A benchmark that runs, as a plot of rates takes it."""
    steps = min((process.steps for process in row.processes), default=0)
    return TaskRow(row.name, len(row.processes), steps, row.unit, row.rate, None, None, True)


def _devices(shown: Iterable[Snapshot]) -> tuple[DeviceRow, ...]:
    """Each device once, as the monitors of the processes that run see them."""
    found: dict[tuple[str, str], list[DeviceRow]] = {}
    for device in (each for snapshot in shown for each in snapshot.devices):
        # Each process counts the devices that it sees from 0.
        number = device.number if device.index is None else str(device.index)
        own = replace(device, number=number)
        found.setdefault((own.host, own.uuid or number), []).append(own)
    return tuple(
        replace(same[-1], rate=sum_of_known(row.rate for row in same)) for same in found.values()
    )


def _hosts(shown: Iterable[Snapshot]) -> tuple[HostRow, ...]:
    """Each host once, with what all processes hold of its memory."""
    found: dict[str, list[HostRow]] = {}
    for host in (each for snapshot in shown for each in snapshot.hosts):
        found.setdefault(host.host, []).append(host)
    return tuple(
        replace(same[-1], rss=sum_of_known(row.rss for row in same)) for same in found.values()
    )


def _left(jobs: Sequence[JobSummary], now: float) -> float:
    """Seconds that the suite will probably take from ``now`` on, with as many jobs at once as now.

    A job takes what the last one of its benchmark took, else what its plan expects; one that runs
    what its steps suggest, where their number is known.
    """
    passed = [job for job in jobs if job.record.over and not job.failed]
    took = {job.job.benchmark: job.record.seconds for job in passed}
    running, waiting = [], 0.0
    for each in jobs:
        expected = took.get(each.job.benchmark, each.job.expected)
        if each.record.state in journal.WAITING:
            waiting += expected
        elif each.record.state == journal.STARTED:
            running_now = (process.live for process in each.processes if process.live)
            by_steps = [
                view.left for view in running_now if view.left is not None and view.left_of != EPOCH
            ]
            by_plan = max(expected - (now - each.record.time), 0.0)
            running.append(max(by_steps) if by_steps else by_plan)
    return seconds_left(running, waiting, len(running))


# --- lines ----------------------------------------------------------------------------------------


ORDER = (RUNNING, FAILED, INTERRUPTED, ENDED)
"""Of the benchmarks: what a reader wants first stands first. Those that wait stand in one line."""
NAMED = 6
"""Benchmarks that wait that are named."""
BAR = 30


def has_begun(snapshot: SuiteSnapshot) -> bool:
    """A suite is always worth showing: its jobs wait for devices, or have ended."""
    return True


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
        found.append(_benchmark_line(row, min(names, 40)))
        if row.state == RUNNING or (row.state == FAILED and len(row.processes) > 1):
            found += [_process_line(each) for each in row.processes]
    if waiting := [clean(row.name) for row in snapshot.benchmarks if row.state == QUEUED]:
        found.append(f"  queued: {some(waiting, NAMED)}")
    found += panel.machines(snapshot)
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


def _benchmark_line(row: BenchmarkRow, width: int) -> str:
    jobs = f"{row.done} of {row.jobs} jobs" if row.jobs > 1 else ""
    parts = [left(fit(row.name, width), width), f"{row.state:<11}", _rate(row), jobs]
    if row.state == FAILED:
        parts.append(clean(row.reason))
    return "  " + "  ".join(part for part in parts if part).rstrip()


def _rate(row: BenchmarkRow | ProcessRow) -> str:
    if row.rate is None:
        return "no rate yet" if row.state == RUNNING else ""
    return f"{figure(row.rate):>8} {row.unit}"


def _process_line(row: ProcessRow) -> str:
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
