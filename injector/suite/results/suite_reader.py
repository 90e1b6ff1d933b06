"""From the folder of a suite's runs to its summary: while the suite runs, again and again, or afterwards.

The plan says what should run, the journal how far each job has come, and a run folder what a process did. The
live view reads all of it again and again, so that what cannot change any more is kept from one reading to the
next: processes that have finished, and benchmarks none of whose processes changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol

from ...live.snapshot import Snapshot
from ...live.state import State
from ...store.folder import is_run, is_suite_run
from ..config.rules import FAILURE
from ..plan import jobs as plans
from ..plan.jobs import Job, LeftOut, PlannedProcess
from ..run import journal
from ..run.journal import JobRecord
from ..run.machine_part import apart_run, folder_of
from ..run.processes import ProcessEnd, end_from_record
from ..run.suite_folder import NoResultsError
from . import run_record, validation
from .status import SuiteStatus
from .suite_summary import (
    ENDED,
    RUNNING,
    BenchmarkSummary,
    Finding,
    JobSummary,
    ProcessSummary,
    SuiteSummary,
)

CATCH_UP = 5.0
"""Seconds that reading what a process has recorded already may take at first."""


class ForeignReader(Protocol):
    """Reads folders of runs that another program wrote."""

    def is_folder(self, folder: str) -> bool:
        """Whether the program wrote ``folder``. Raises OSError."""

    def read(self, folder: str) -> SuiteSummary:
        """The summary of ``folder``. Raises UserError, OSError."""


def summarise(folder: str, foreign: Sequence[ForeignReader] = ()) -> SuiteSummary:
    """The summary of the runs in ``folder``, which `inject suite run` or a program of ``foreign`` wrote.

    Raises UserError if there are none, a later version wrote them, or they cannot be read.
    """
    try:
        if is_suite_run(folder):
            return SuiteReader(folder).read()
        for reader in foreign:
            if reader.is_folder(folder):
                return reader.read(folder)
    except OSError as error:
        raise NoResultsError(f"{error.filename or folder}: {error.strerror}") from None
    if not os.path.isdir(folder):
        raise NoResultsError(f"{folder}: there is no such folder")
    hint = "; it is one run: inject report" if is_run(folder) else ""
    raise NoResultsError(
        f"{folder}: neither {plans.FILE} of inject suite run nor .data files of milabench{hint}"
    )


class SuiteReader:
    """Reads the suite's run in ``folder``, once or again and again.

    With ``follow`` the processes that run are followed by their raw files, as `inject watch` follows a run.
    Without, what they have recorded so far is read as if they had ended. Raises UserError if there is no
    plan, or it cannot be read.
    """

    def __init__(self, folder: str, follow: bool = False) -> None:
        self.folder = folder
        self.plan = plans.read_plan(folder)
        self._follow = follow
        self._states: dict[tuple[str, ...], State] = {}
        """The states of processes that run, by run folder, or by the folders of its parts."""
        self._finished: dict[str, tuple[JobRecord, ProcessSummary]] = {}
        """The processes that have finished, by key, each with the record of its job when it was read."""
        self._benchmarks: dict[str, BenchmarkSummary] = {}
        """The benchmarks of the last reading, by name."""

    def read(self, now: float | None = None) -> SuiteSummary:
        """The summary at ``now``, in unix seconds. Raises UserError if plan or journal make no sense."""
        try:
            return self._read(time.time() if now is None else now)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NoResultsError(f"{self.folder}: cannot be understood: {error!r}") from None

    def _read(self, now: float) -> SuiteSummary:
        plan, status = self.plan, SuiteStatus(self.folder, self.plan)
        summaries = self._processes(status, now)
        jobs = [
            JobSummary(
                job, status.record(job), tuple(summaries[process.key] for process in job.processes)
            )
            for job in plan.jobs
        ]
        state = status.state
        # A job that begins at this very moment has a run folder, and no line in the journal as it was read.
        unshown = self._follow and state == RUNNING
        return SuiteSummary(
            folder=self.folder,
            name=status.name,
            file=plan.suite.get("file"),
            state=state,
            started=status.started,
            ended=status.ended,
            pauses=status.pauses,
            machine=plan.machine,
            jobs=tuple(jobs),
            benchmarks=tuple(self._all_benchmarks(jobs)),
            left_out=plan.left_out,
            notes=tuple(status.notes()),
            damage=() if unshown else tuple(status.damage()),
        )

    # -- processes

    @property
    def settling(self) -> bool:
        """Whether it takes some more seconds to see which hosts of the followed processes are silent."""
        return any(state.settling for state in self._states.values())

    def _processes(self, status: SuiteStatus, now: float) -> dict[str, ProcessSummary]:
        """Every process of the plan, by its key."""
        summaries, unread, states = {}, [], self._states
        self._states = {}  # of processes that run no more, the state is dropped
        for job in self.plan.jobs:
            record = status.record(job)
            for process in job.processes:
                known = self._finished.get(process.key)
                if self._follow and record.state == journal.STARTED:
                    live = self._live(job, process, record, states, now)
                    summaries[process.key] = replace(_summary(job, process, record), live=live)
                elif known is not None and known[0] == record:
                    summaries[process.key] = known[1]
                else:
                    unread.append((job, process, record))
        if unread:
            with ThreadPoolExecutor(2) as pool:  # reading waits for the disk as often as it parses
                for summary in pool.map(lambda planned: self._ended(status, *planned), unread):
                    summaries[summary.key] = summary
        return summaries

    def _live(
        self,
        job: Job,
        process: PlannedProcess,
        record: JobRecord,
        states: Mapping[tuple[str, ...], State],
        now: float,
    ) -> Snapshot:
        """The state of the run of a process, after what it has written since the last reading."""
        run = record.run_of(process)
        parts = tuple(self._parts(job, process, record)) or (run,)
        state = states.get(parts)
        if state is None:
            paths = [os.path.join(self.folder, part) for part in parts]
            settings = self._settings(job.benchmark)
            stop, skip = _option(settings, "stop"), _option(settings, "skip") or 0
            # The run is stopped after so many steps, those that are skipped included.
            goal = None if stop is None else stop + skip
            state = State(os.path.join(self.folder, run), goal, paths)
            state.catch_up(CATCH_UP, now)
        self._states[parts] = state
        shown = state.tick(now)
        ended = end_from_record(self.folder, run) is not None
        return replace(shown, state=ENDED) if ended else shown

    def _parts(self, job: Job, process: PlannedProcess, record: JobRecord) -> Iterator[str]:
        """The folders in which machines record their parts of a process, until these are merged into one."""
        if len(process.machines) == 1 or os.path.isdir(
            os.path.join(self.folder, record.run_of(process), "raw")
        ):
            return
        for machine in process.machines:
            own = folder_of(self.folder, job.key, record.attempt, machine)
            yield apart_run(os.path.relpath(own, self.folder), process)

    def _ended(
        self, status: SuiteStatus, job: Job, process: PlannedProcess, record: JobRecord
    ) -> ProcessSummary:
        """A process that does not run, or is not followed, with its record and what is wrong with it."""
        settings = self._settings(job.benchmark)
        run = record.run_of(process)
        folder = os.path.join(self.folder, run)
        # A job that waits has no run yet.
        figures = (
            run_record.read(folder, _option(settings, "skip") or 0)
            if record.state not in journal.WAITING
            else None
        )
        summary = replace(_summary(job, process, record), folder=folder, record=figures)
        finished = summary.state == journal.FINISHED
        if finished:
            ended = ProcessEnd(run, summary.code, summary.signal, summary.timed_out)
            summary = replace(summary, reason=ended.problem(self.folder) or "")
        else:
            summary = replace(summary, reason=status.why_unfinished(record))
        summary = validation.judged_process(summary, settings)
        if finished:
            self._finished[summary.key] = (record, summary)
        return summary

    # -- benchmarks

    def _settings(self, benchmark: str) -> Mapping[str, Any]:
        return (self.plan.benchmarks.get(benchmark) or {}).get("settings") or {}

    def _all_benchmarks(self, jobs: Sequence[JobSummary]) -> Iterator[BenchmarkSummary]:
        """Every benchmark that ran or should have run; not those that were left out on purpose."""
        by_name: dict[str, list[ProcessSummary]] = {}
        problems: dict[str, list[str]] = {}
        for job in jobs:
            by_name.setdefault(job.job.benchmark, []).extend(job.processes)
            problems.setdefault(job.job.benchmark, []).extend(filter(None, [job.problem]))
        left_out = {skipped.benchmark: skipped for skipped in self.plan.left_out}
        failures = [skipped.benchmark for skipped in self.plan.left_out if skipped.failure]
        for name in dict.fromkeys([*self.plan.benchmarks, *by_name, *failures]):
            reason = left_out.get(name)
            if name in by_name or reason is None or reason.failure:
                processes = tuple(by_name.get(name, ()))
                yield self._benchmark(name, processes, reason, problems.get(name, ()))

    def _benchmark(
        self,
        name: str,
        processes: tuple[ProcessSummary, ...],
        reason: LeftOut | None,
        problems: Sequence[str],
    ) -> BenchmarkSummary:
        """The benchmark ``name``; ``reason`` is why it was left out, ``problems`` what failed of its jobs."""
        known = self._benchmarks.get(name)
        if known is not None and [*map(id, known.processes)] == [*map(id, processes)]:
            return known  # none of its processes has changed
        planned = self.plan.benchmarks.get(name, {})
        weight = planned.get("weight")
        why = f"it did not run: {reason.reason if reason else 'nothing was planned'}"
        sentences = problems if processes else [why]
        self._benchmarks[name] = validation.judged_benchmark(
            BenchmarkSummary(
                name=name,
                group=str(planned.get("group") or name),
                family=str(planned.get("family") or planned.get("group") or name),
                values=planned.get("values") or {},
                parameters=planned.get("parameters") or {},
                tags=tuple(map(str, planned.get("tags") or ())),
                weight=1.0 if weight is None else float(weight),
                settings=planned.get("settings") or {},
                processes=processes,
                findings=tuple(Finding("error", False, FAILURE, text) for text in sentences),
            )
        )
        return self._benchmarks[name]


def _summary(job: Job, process: PlannedProcess, record: JobRecord) -> ProcessSummary:
    """What plan and journal have of a process."""
    ended = record.ended(process)
    return ProcessSummary(
        key=process.key,
        benchmark=job.benchmark,
        repeat=job.repeat,
        slot=process.key.rpartition(".")[2],
        devices=process.devices,
        state=record.state,
        code=ended.get("code"),
        signal=ended.get("signal"),
        timed_out=bool(ended.get("timed_out")),
    )


def _option(settings: Mapping[str, Any], name: str) -> int | None:
    """A number of steps among the options of a benchmark; None if it is not set, or a template."""
    options = (settings.get("voir") or {}).get("options") or {}
    number = options.get(name)
    return number if isinstance(number, int) else None
