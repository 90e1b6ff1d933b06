"""A suite while it runs: its summary at one moment as rows for a page, and these as lines for a terminal.

A benchmark has a row, with a row for each process of its latest job. Rates are added up over these processes;
devices and hosts are shown once, however many processes see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ...analysis.statistics import sum_of_known
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
    seconds_run,
)

QUEUED, FAILED = "queued", "failed"


@dataclass(frozen=True)
class ProcessRow:
    """One process of a job."""

    key: str
    """Such as ``resnet50.R0.D1``."""
    devices: tuple[str, ...]
    state: str = QUEUED
    """``queued``, ``ended``, ``failed`` or ``interrupted``; while it runs the state of its run, such as
    ``starting`` or ``training``."""
    reason: str = ""
    """Why it failed; while it runs, the notes of its run."""
    steps: int = 0
    goal: int | None = None
    """The number of steps after which it is stopped, those that are skipped included."""
    unit: str = "items/s"
    rate: float | None = None
    """The rate over the last seconds; its perf, as in the report, after it has ended."""
    step: float | None = None
    """Seconds of a step."""
    loss: float | None = None
    rss: float | None = None
    """Bytes of memory that it holds."""
    ranks: int = 0
    left: float | None = None
    """Seconds until it ends at the present speed."""


@dataclass(frozen=True)
class BenchmarkRow:
    """One benchmark: all of its jobs, and the processes of the latest one."""

    name: str
    state: str
    """``queued``, ``running``, ``ended``, ``failed`` or ``interrupted``."""
    reason: str
    jobs: int
    done: int
    """How many jobs have ended, those that failed included."""
    unit: str
    rate: float | None
    """The sum over its processes; None if these have different units."""
    processes: tuple[ProcessRow, ...]


@dataclass(frozen=True)
class SuiteSnapshot(Snapshot):
    """A suite at one moment, as the snapshot of a run: ``steps`` are jobs that have ended, ``goal`` is the
    number of all jobs, ``tasks`` are benchmarks that run.

    ``state`` is ``starting``, ``running``, ``ended``, ``interrupted`` or ``stopped`` (it was killed).
    """

    failed: int = 0
    benchmarks: tuple[BenchmarkRow, ...] = ()


def snapshot(summary: SuiteSummary, now: float) -> SuiteSnapshot:
    """The snapshot of ``summary``, which was read at ``now`` (unix seconds)."""
    rows = tuple(_benchmark_rows(summary))
    running = [row for row in rows if row.state == RUNNING]
    is_running = summary.state == RUNNING
    until = now if is_running or summary.ended is None else summary.ended
    began = until if summary.started is None else summary.started
    live = [process.live for process in summary.processes if process.live]
    is_paused = summary.state in (INTERRUPTED, STOPPED)
    paused = ["nothing more is started: inject suite run --resume goes on"] if is_paused else []
    left_out = (f"left out: {skipped.benchmark}: {skipped.reason}" for skipped in summary.left_out)
    return SuiteSnapshot(
        name=summary.name,
        elapsed=max(seconds_run(began, summary.pauses, until), 0.0),
        state=summary.state,
        steps=sum(job.record.over for job in summary.jobs),
        goal=len(summary.jobs),
        left=_seconds_left(summary.jobs, now) if is_running else None,
        unit=running[0].unit if running else "items/s",
        rate=None,
        overall=None,
        step=None,
        regions={},
        values={},
        ranks=(),
        devices=_devices(live),
        hosts=_hosts(live),
        tasks=tuple(map(_task, running)),
        # The record of what runs is never whole.
        missing=() if is_running else tuple(summary.missing),
        notes=(*paused, *left_out),
        failed=sum(job.failed for job in summary.jobs),
        benchmarks=rows,
    )


# --- rows -----------------------------------------------------------------------------------------


def _benchmark_rows(summary: SuiteSummary) -> Iterator[BenchmarkRow]:
    by_name: dict[str, list[JobSummary]] = {}
    for job in summary.jobs:
        by_name.setdefault(job.job.benchmark, []).append(job)
    findings = {benchmark.name: benchmark.findings for benchmark in summary.benchmarks}
    for name, jobs in by_name.items():
        latest = max(jobs, key=lambda job: job.record.time)
        rows = tuple(map(_process_row, latest.processes))
        reasons = [job.record.reason for job in jobs if job.failed]
        reasons += [row.reason for row in rows if row.state == FAILED]
        reasons += [finding.sentence for finding in findings.get(name, ()) if finding.fails]
        reason = next(filter(None, reasons), "")
        state = _benchmark_state(jobs)
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


def _benchmark_state(jobs: Sequence[JobSummary]) -> str:
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
    failures = (finding.sentence for finding in process.findings if finding.fails)
    reason = (process.reason or next(failures, "")) if process.failed else ""
    return replace(
        row,
        state=FAILED if process.failed else ENDED,
        reason=reason,
        rate=perf.mean if perf else None,
        unit=record.unit if record else "items/s",
    )


def _live_row(row: ProcessRow, run: Snapshot) -> ProcessRow:
    """``row`` with what the ``run`` of its process shows at present."""
    notes = [*run.notes, *(note for rank in run.ranks for note in rank.notes)]
    losses = [rank.loss for rank in run.ranks if rank.loss is not None]
    return replace(
        row,
        state=run.state,
        reason="; ".join(notes[:2]),
        steps=run.steps,
        goal=run.goal,
        unit=run.unit,
        rate=run.rate if run.rate is not None else run.overall,
        step=run.step,
        loss=losses[0] if losses else None,
        rss=sum_of_known(host.rss for host in run.hosts),
        ranks=len(run.ranks),
        left=run.left,
    )


def _task(row: BenchmarkRow) -> TaskRow:
    """A benchmark that runs as the task of a run, for the plot of rates."""
    steps = min((process.steps for process in row.processes), default=0)
    return TaskRow(row.name, len(row.processes), steps, row.unit, row.rate, None, None, True)


def _devices(live: Iterable[Snapshot]) -> tuple[DeviceRow, ...]:
    """Each device once, numbered as on its host: each process counts those that it sees from 0."""
    rows: dict[tuple[str, str], list[DeviceRow]] = {}
    for device in (device for snapshot in live for device in snapshot.devices):
        number = device.number if device.index is None else str(device.index)
        renumbered = replace(device, number=number)
        rows.setdefault((renumbered.host, renumbered.uuid or number), []).append(renumbered)
    return tuple(
        replace(same[-1], rate=sum_of_known(row.rate for row in same)) for same in rows.values()
    )


def _hosts(live: Iterable[Snapshot]) -> tuple[HostRow, ...]:
    """Each host once, with the memory that all processes hold of it."""
    rows: dict[str, list[HostRow]] = {}
    for host in (host for snapshot in live for host in snapshot.hosts):
        rows.setdefault(host.host, []).append(host)
    return tuple(
        replace(same[-1], rss=sum_of_known(row.rss for row in same)) for same in rows.values()
    )


def _seconds_left(jobs: Sequence[JobSummary], now: float) -> float:
    """Seconds that the suite will probably take from ``now`` on, with as many jobs at once as now.

    A job is expected to take as long as the last one of its benchmark, else what the plan has. For one that
    runs, its own steps are the better measure if their number is known.
    """
    passed = [job for job in jobs if job.record.over and not job.failed]
    took = {job.job.benchmark: job.record.seconds for job in passed}
    running, waiting = [], 0.0
    for job in jobs:
        expected = took.get(job.job.benchmark, job.job.expected)
        if job.record.state in journal.WAITING:
            waiting += expected
        elif job.record.state == journal.STARTED:
            live = (process.live for process in job.processes if process.live)
            lefts = [(run.left, run.left_of) for run in live if run.left is not None]
            by_steps = [left for left, of in lefts if of != EPOCH]
            # What is left of an epoch is the least that is left of the run.
            by_plan = [expected - (now - job.record.time), *(left for left, _ in lefts), 0.0]
            running.append(max(by_steps or by_plan))
    return seconds_left(running, waiting, len(running))


# --- lines ----------------------------------------------------------------------------------------


ORDER = (RUNNING, FAILED, INTERRUPTED, ENDED, QUEUED)
"""The order of benchmarks by their states, what a reader wants first. Those of which nothing has run share a
line."""
NAMED = 6
"""How many of the benchmarks that wait are named."""
BAR = 30
"""Columns of the bar of progress."""


def has_begun(snapshot: SuiteSnapshot) -> bool:
    """True: unlike a run, a suite is always worth showing, since its jobs wait for devices or have ended."""
    return True


def lines(snapshot: SuiteSnapshot, width: int = 0) -> list[str]:
    """The panel, cut at ``width`` columns, by default those of the terminal.

    It has the progress, then a line for each benchmark. Below one that runs, or whose several processes
    failed, each process has a line.
    """
    width = width or room()
    panel_lines = [
        line for text in snapshot.missing for line in wrap(f"missing: {clean(text)}", width)
    ]
    panel_lines.append(_progress(snapshot))
    fraction = done(snapshot)
    if fraction is not None and snapshot.state == RUNNING:
        panel_lines.append(f"  {left(bar(fraction, BAR), BAR)} {100 * fraction:.0f} %")
    rows = sorted(
        (row for row in snapshot.benchmarks if row.state != QUEUED or row.done),
        key=lambda row: ORDER.index(row.state),
    )
    names = max((len(row.name) for row in rows), default=0)
    for row in rows:
        panel_lines.append(_benchmark_line(row, min(names, 40)))
        if row.state == RUNNING or (row.state == FAILED and len(row.processes) > 1):
            panel_lines += [_process_line(process) for process in row.processes]
    waiting = [row for row in snapshot.benchmarks if row.state == QUEUED and not row.done]
    if waiting:
        panel_lines.append(f"  queued: {some([clean(row.name) for row in waiting], NAMED)}")
    panel_lines += panel.machines(snapshot)
    panel_lines += [f"  {clean(note)}" for note in snapshot.notes]
    return [fit(line, width) for line in panel_lines]


def one_line(snapshot: SuiteSnapshot) -> str:
    """The progress and the rates of what runs as a single line, for output that is no terminal."""
    running = [row for row in snapshot.benchmarks if row.state == RUNNING]
    rates = [f"{clean(row.name)} {_rate(row).strip()}" for row in running]
    return " · ".join([_progress(snapshot), *rates])


def done(snapshot: SuiteSnapshot) -> float | None:
    """The fraction of the suite that is done, 0…1: of its time, or of its jobs if the time is not known.

    None if it has no jobs.
    """
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
    place = row.key.rpartition(".")[2]
    steps = f"step {row.steps}" + (f" of {row.goal}" if row.goal else "") if row.steps else ""
    parts = [f"    {place:<4}", ", ".join(row.devices), f"{row.state:<10}", steps, _rate(row)]
    if row.step is not None:
        parts.append(f"{figure(row.step * 1e3)} ms a step")
    if row.loss is not None:
        parts.append(f"loss {figure(row.loss)}")
    parts += [f"{row.ranks} ranks"] if row.ranks > 1 else []
    parts += [f"{row.rss / 1e9:.2f} GB"] if row.rss else []
    parts += [f"{duration(row.left)} left"] if row.left is not None and row.state != ENDED else []
    parts += [clean(row.reason)] if row.reason else []
    return "  ".join(part for part in parts if part)
