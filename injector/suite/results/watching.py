"""A suite while it runs: what each benchmark and each of its processes does, from their files alone.

Each process of a suite records a run of its own. What the states of those runs tell is put together
here: rates are added up over the processes of a benchmark, devices and hosts are shown once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any

from ...analysis.runs import Listed
from ...analysis.wording import count
from ...errors import UserError
from ...live.snapshot import DeviceRow, HostRow, Snapshot, TaskRow
from ...live.state import State
from ..plan import jobs as plans
from ..plan.jobs import Job, PlannedProcess
from ..run import folder, journal, processes
from . import records, score
from .outcome import ProcessResult
from .reading import journal_damage

QUEUED, RUNNING, ENDED, FAILED = "queued", "running", "ended", "failed"
INTERRUPTED, STOPPED = "interrupted", "stopped"
CATCH_UP = 5.0
"""Seconds in which the records of one process that runs already are read at first."""


@dataclass(frozen=True)
class ProcessRow:
    """One process of a job."""

    key: str
    """``resnet50.R0.D1``."""
    devices: tuple[str, ...]
    state: str
    """``queued``, ``ended``, ``failed``, ``interrupted``; of one that runs that of its run: ``starting``,
    ``training``, …"""
    reason: str
    """Why it failed, or what is the matter with one that runs."""
    steps: int
    goal: int | None
    """Steps after which it is stopped, those that are skipped included."""
    unit: str
    rate: float | None
    """Over the last seconds; of one that has ended its perf, as the report has it."""
    step: float | None
    """Seconds of a step."""
    loss: float | None
    rss: float | None
    """Bytes that it holds."""
    ranks: int
    left: float | None
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


class SuiteState:
    """What the suite in ``path`` does: its plan, its journal, and the runs of its processes.

    Raises:
        UserError: there is no plan, or it cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.plan = plans.read_plan(path)
        self._goals = {name: _goal(each) for name, each in self.plan.benchmarks.items()}
        self._states: dict[str, State] = {}
        self._last: dict[str, Snapshot] = {}
        """By run folder, of those that run."""
        self._records: dict[str, records.Record | None] = {}
        """By run folder, of those that have ended."""

    def began(self) -> float:
        """Unix seconds at which the suite began, or was resumed."""
        return _began(journal.records(self.path), time.time())

    def tick(self, now: float | None = None) -> SuiteSnapshot:
        """Take in what is new, and return the snapshot. ``now`` is unix seconds."""
        now = time.time() if now is None else now
        told = journal.records(self.path)
        past = journal.jobs_of(told)
        self._follow(past, now)
        rows = tuple(self._benchmarks(past))
        ended = [each for each in past.values() if each.state in _OVER]
        began, state = _began(told, now), _state(self.path, told)
        devices, hosts = self._machines(past)
        running = [row for row in rows if row.state == RUNNING]
        return SuiteSnapshot(
            name=str(self.plan.suite.get("name") or os.path.basename(self.path)),
            elapsed=max((told[-1]["time"] if state != RUNNING and told else now) - began, 0.0),
            state=state,
            steps=len(ended),
            goal=len(self.plan.jobs),
            left=self._left(past, now) if state == RUNNING else None,
            unit=running[0].unit if running else "items/s",
            rate=None,
            overall=None,
            step=None,
            regions={},
            values={},
            ranks=(),
            devices=devices,
            hosts=hosts,
            tasks=tuple(map(_task, running)),
            missing=(*journal_damage(self.path), *self._missing(past)) if state != RUNNING else (),
            notes=tuple(self._notes(state)),
            failed=sum(_failed(each) for each in ended),
            benchmarks=rows,
        )

    def _follow(self, past: Mapping[str, journal.Past], now: float) -> None:
        """Read what the processes that run have written since the last time."""
        current = {}
        for job in self.plan.jobs:
            if job.key in past and past[job.key].state == journal.STARTED:
                for process in job.processes:
                    run = _run_of(process, past[job.key])
                    current[run] = self._goals.get(job.benchmark)
        self._last = {}
        for run, goal in current.items():
            if run not in self._states:
                self._states[run] = State(os.path.join(self.path, run), goal)
                self._states[run].catch_up(CATCH_UP)
            self._last[run] = self._states[run].tick(now)
        self._states = {run: state for run, state in self._states.items() if run in current}

    # -- rows

    def _benchmarks(self, past: Mapping[str, journal.Past]) -> Iterable[BenchmarkRow]:
        by_name: dict[str, list[Job]] = {}
        for job in self.plan.jobs:
            by_name.setdefault(job.benchmark, []).append(job)
        for name, jobs in by_name.items():
            known = [past[job.key] for job in jobs if job.key in past]
            shown = max(jobs, key=lambda job: past[job.key].time if job.key in past else 0.0)
            rows = tuple(self._process(process, past.get(shown.key)) for process in shown.processes)
            failed = next((each.reason for each in known if _failed(each)), "")
            failed = failed or next((row.reason for row in rows if row.state == FAILED), "")
            state = _state_of(known, len(jobs))
            units = dict.fromkeys(row.unit for row in rows if row.rate is not None)
            yield BenchmarkRow(
                name,
                FAILED if failed and state == ENDED else state,
                failed,
                len(jobs),
                sum(each.state in _OVER for each in known),
                " or ".join(units) or "items/s",
                _sum(row.rate for row in rows) if len(units) == 1 else None,
                rows,
            )

    def _process(self, process: PlannedProcess, past: journal.Past | None) -> ProcessRow:
        row = ProcessRow(
            process.key, process.devices, QUEUED, "", 0, None, "items/s", None, None, None, None, 0, None
        )  # fmt: skip
        if past is None:
            return row
        run = _run_of(process, past)
        if past.state == journal.STARTED:
            return _running(row, self._last[run], os.path.join(self.path, run))
        told = past.processes.get(process.key) or {}
        if past.state == journal.INTERRUPTED:
            return replace(row, state=INTERRUPTED)
        if past.state == journal.NOT_STARTED or not past.processes:
            return replace(row, state=FAILED, reason=past.reason)
        result = processes.ProcessEnd(
            run, told.get("code"), told.get("signal"), bool(told.get("timed_out"))
        )
        record = self._record_of(run)
        perf = score.perf(record.rates) if record else None
        missing = _ended(process, told, record)
        damage = f"its record is damaged: {missing[0]}" if missing else ""
        wrong = result.wrong(self.path) or damage
        return replace(
            row,
            state=FAILED if wrong else ENDED,
            reason=wrong,
            rate=perf.mean if perf else None,
            unit=record.unit if record else "items/s",
        )

    def _record_of(self, run: str) -> records.Record | None:
        """What a process that has ended recorded: read once."""
        if run not in self._records:
            self._records[run] = records.read(os.path.join(self.path, run))
        return self._records[run]

    def _missing(self, past: Mapping[str, journal.Past]) -> Iterable[str]:
        """What is missing of the records of all processes that have ended."""
        for job in self.plan.jobs:
            if job.key not in past or past[job.key].state != journal.FINISHED:
                continue
            for process in job.processes:
                told = past[job.key].processes.get(process.key) or {}
                record = self._record_of(_run_of(process, past[job.key]))
                for sentence in _ended(process, told, record):
                    yield f"{process.key}: {sentence}"

    def _machines(
        self, past: Mapping[str, journal.Past]
    ) -> tuple[tuple[DeviceRow, ...], tuple[HostRow, ...]]:
        """Each device and each host once, as the monitors of the processes that run see them."""
        devices: dict[tuple[str, str], list[DeviceRow]] = {}
        hosts: dict[str, list[HostRow]] = {}
        for snapshot in self._last.values():
            for device in snapshot.devices:
                # Each process counts the devices that it sees from 0.
                place = device.number if device.index is None else str(device.index)
                own = replace(device, number=place)
                devices.setdefault((own.host, own.uuid or place), []).append(own)
            for host in snapshot.hosts:
                hosts.setdefault(host.host, []).append(host)
        return (
            tuple(replace(same[-1], rate=_sum(row.rate for row in same)) for same in devices.values()),
            tuple(replace(same[-1], rss=_sum(row.rss for row in same)) for same in hosts.values()),
        )  # fmt: skip

    # -- the suite

    def _left(self, past: Mapping[str, journal.Past], now: float) -> float:
        """Seconds that the suite will probably take from now on, with as many jobs at once as now.

        A job takes what the last one of its benchmark took, else what its plan expects; one that runs
        what its steps say, where their number is known.
        """
        took = {
            job.benchmark: past[job.key].seconds
            for job in self.plan.jobs
            if job.key in past and past[job.key].state == journal.FINISHED and past[job.key].ok
        }
        running, waiting = [0.0], 0.0
        for job in self.plan.jobs:
            expected = took.get(job.benchmark, job.expected)
            each = past.get(job.key)
            if each is None:
                waiting += expected
            elif each.state == journal.STARTED:
                known = [self._last[_run_of(process, each)].left for process in job.processes]
                by_steps = [left for left in known if left is not None]
                by_plan = max(expected - (now - each.time), 0.0)
                running.append(max(by_steps) if by_steps else by_plan)
        at_once = max(len(running) - 1, 1)
        return max((fsum(running) + waiting) / at_once, *running)

    def _notes(self, state: str) -> Iterable[str]:
        if state in (INTERRUPTED, STOPPED):
            yield "nothing more is started: inject suite run --resume goes on"
        for each in self.plan.left_out:
            yield f"left out: {each.benchmark}: {each.reason}"


def listed(runs: str) -> list[Listed]:
    """The suites that were run in the folder ``runs``, as a list of runs has them."""
    try:
        names = os.listdir(runs)
    except OSError:
        return []
    paths = [os.path.join(runs, name) for name in names]
    return [_listed(path) for path in paths if os.path.isfile(os.path.join(path, plans.FILE))]


def _listed(path: str) -> Listed:
    name = os.path.basename(path)
    unknown = Listed(name, name, *(None,) * 2, None, False, *(None,) * 4, "", None, None, None)
    try:
        plan = plans.read_plan(path)
    except UserError as error:
        return unknown._replace(problem=str(error).replace(path, "it", 1))
    told = journal.records(path)
    past = journal.jobs_of(told)
    ended = [each for each in past.values() if each.state in _OVER]
    failed = sum(map(_failed, ended))
    state = _state(path, told)
    words = f"suite {state}: {len(ended) - failed} of {count(len(plan.jobs), 'job')} passed"
    began = next((each["time"] for each in told if each["event"] == "begin"), None)
    over = state != RUNNING and began is not None
    return unknown._replace(
        name=str(plan.suite.get("name") or name),
        started=began,
        duration=told[-1]["time"] - began if over else None,
        exit={ENDED: told[-1].get("code"), INTERRUPTED: 130}.get(state) if told else None,
        processes=sum(len(job.processes) for job in plan.jobs),
        host=str(plan.machine.get("host")),
        command=f"inject suite run {plan.suite.get('file')}",
        verdict=words + (f", {failed} failed" if failed else ""),
    )


def runs_of(path: str) -> list[tuple[dict[str, str], str]]:
    """Every run folder of the suite in ``path``, of each process the latest attempt, with its labels.

    Raises:
        UserError: there is no plan, or it cannot be read.
    """
    past = journal.read(path)
    found = []
    for job in plans.read_plan(path).jobs:
        for process in job.processes if job.key in past else ():
            labels = {"benchmark": job.benchmark, "run": process.key}
            found.append((labels, os.path.join(path, _run_of(process, past[job.key]))))
    return found


def _state(path: str, told: Sequence[Mapping[str, Any]]) -> str:
    """Of the suite in ``path``, of which the journal says ``told``."""
    last = next((each["event"] for each in reversed(told) if each["event"] != "job"), "")
    if last == "end":
        return ENDED
    if last == journal.INTERRUPTED:
        return INTERRUPTED
    if not folder.is_held(path):
        return STOPPED
    return RUNNING if told else "starting"


_OVER = (journal.FINISHED, journal.NOT_STARTED)


def _failed(past: journal.Past) -> bool:
    return past.state == journal.NOT_STARTED or (past.state == journal.FINISHED and not past.ok)


def _state_of(known: Sequence[journal.Past], jobs: int) -> str:
    """Of a benchmark with so many jobs, of which some are ``known`` to the journal."""
    states = {each.state for each in known}
    if journal.STARTED in states:
        return RUNNING
    if any(map(_failed, known)):
        return FAILED
    if journal.INTERRUPTED in states:
        return INTERRUPTED
    return ENDED if len(known) == jobs else QUEUED


def _running(row: ProcessRow, shown: Snapshot, path: str) -> ProcessRow:
    """The row of a process whose run looks like that."""
    notes = [*shown.notes, *(note for rank in shown.ranks for note in rank.notes)]
    losses = [rank.loss for rank in shown.ranks if rank.loss is not None]
    ended = processes.end_from_record(os.path.dirname(path), os.path.basename(path))
    return replace(
        row,
        state=ENDED if ended else shown.state,
        reason="; ".join(notes[:2]),
        steps=shown.steps,
        goal=shown.goal,
        unit=shown.unit,
        rate=shown.rate if shown.rate is not None else shown.overall,
        step=shown.step,
        loss=losses[0] if losses else None,
        rss=_sum(host.rss for host in shown.hosts),
        ranks=len(shown.ranks),
        left=shown.left,
    )


def _ended(
    process: PlannedProcess, told: Mapping[str, Any], record: records.Record | None
) -> tuple[str, ...]:
    """What is missing of the record of a process that has ended."""
    return ProcessResult(process.key, "", code=told.get("code"), record=record).missing


def _task(row: BenchmarkRow) -> TaskRow:
    """A benchmark that runs, as a plot of rates takes it."""
    steps = min((process.steps for process in row.processes), default=0)
    return TaskRow(row.name, len(row.processes), steps, row.unit, row.rate, None, None, True)


def _run_of(process: PlannedProcess, past: journal.Past) -> str:
    """The run folder of its latest attempt, below the suite's."""
    return str((past.processes.get(process.key) or {}).get("run") or process.run)


def _goal(told: Mapping[str, Any]) -> int | None:
    """Steps after which a benchmark is stopped, those that are skipped included."""
    options = ((told.get("settings") or {}).get("voir") or {}).get("options") or {}
    stop, skip = options.get("stop"), options.get("skip") or 0
    return int(stop + skip) if isinstance(stop, int) and isinstance(skip, int) else None


def _began(told: Sequence[Mapping[str, Any]], now: float) -> float:
    """When the suite, or what was resumed last of it, began."""
    times = [each["time"] for each in told if each["event"] in ("begin", "resume")]
    return float(times[-1]) if times else now


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fsum(known) if known else None
