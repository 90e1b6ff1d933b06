"""From the folder of a suite's runs to its summary: while it runs, again and again, or afterwards."""

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
"""Seconds in which the records of one process that runs already are read at first."""


class ForeignReader(Protocol):
    """Reads folders of runs that another program wrote."""

    def is_folder(self, folder: str) -> bool: ...
    def read(self, folder: str) -> SuiteSummary: ...


def summarise(folder: str, foreign: Sequence[ForeignReader] = ()) -> SuiteSummary:
    """What the runs in ``folder`` came to: `inject suite run`'s, or what ``foreign`` reads.

    Raises:
        UserError: there are none, a later version wrote them, or they cannot be read.
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
    """Reads the suite's run in ``folder``, as often as it is wanted.

    With ``follow`` the processes that run are followed by their raw files, as `inject watch` follows a
    run; else what they have recorded so far is read as if they had ended. What has finished is read once.

    Raises:
        UserError: there is no plan, or it cannot be read.
    """

    def __init__(self, folder: str, follow: bool = False) -> None:
        self.folder = folder
        self.plan = plans.read_plan(folder)
        self._follow = follow
        self._states: dict[tuple[str, ...], State] = {}
        """By run folder, or those of its parts, of the processes that run."""
        self._finished: dict[str, tuple[JobRecord, ProcessSummary]] = {}
        self._benchmarks: dict[str, BenchmarkSummary] = {}

    def read(self, now: float | None = None) -> SuiteSummary:
        """The summary at ``now``, unix seconds. Raises UserError where the plan makes no sense."""
        try:
            return self._read(time.time() if now is None else now)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NoResultsError(f"{self.folder}: cannot be understood: {error!r}") from None

    def _read(self, now: float) -> SuiteSummary:
        plan, status = self.plan, SuiteStatus(self.folder, self.plan)
        found = self._processes(status, now)
        jobs = [
            JobSummary(job, status.record(job), tuple(found[each.key] for each in job.processes))
            for job in plan.jobs
        ]
        state = status.state
        unshown = self._follow and state == RUNNING  # a job that begins at this moment is no damage
        return SuiteSummary(
            folder=self.folder,
            name=status.name,
            file=plan.suite.get("file"),
            state=state,
            started=status.started,
            resumed=status.resumed,
            ended=status.ended,
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
        """Whether some seconds more will show which of its hosts are silent, where it is followed."""
        return any(each.settling for each in self._states.values())

    def _processes(self, status: SuiteStatus, now: float) -> dict[str, ProcessSummary]:
        """Every process of the plan, by its key."""
        found, unread, states = {}, [], self._states
        self._states = {}
        for job in self.plan.jobs:
            record = status.record(job)
            for process in job.processes:
                known = self._finished.get(process.key)
                if self._follow and record.state == journal.STARTED:
                    live = self._live(job, process, record, states, now)
                    found[process.key] = replace(_summary(job, process, record), live=live)
                elif known is not None and known[0] == record:
                    found[process.key] = known[1]
                else:
                    unread.append((job, process, record))
        if unread:
            with ThreadPoolExecutor(2) as pool:  # reading waits for the disk as often as it parses
                for each in pool.map(lambda one: self._ended(status, *one), unread):
                    found[each.key] = each
        return found

    def _live(
        self,
        job: Job,
        process: PlannedProcess,
        record: JobRecord,
        states: Mapping[tuple[str, ...], State],
        now: float,
    ) -> Snapshot:
        """What the run of a process looks like, after what it has written since the last time."""
        run = record.run_of(process)
        parts = tuple(self._parts(job, process, record)) or (run,)
        state = states.get(parts)
        if state is None:
            paths = [os.path.join(self.folder, each) for each in parts]
            settings = self._settings(job.benchmark)
            stop, skip = _option(settings, "stop"), _option(settings, "skip") or 0
            # Steps after which it is stopped, those that are skipped included.
            goal = None if stop is None else stop + skip
            state = State(os.path.join(self.folder, run), goal, paths)
            state.catch_up(CATCH_UP, now)
        self._states[parts] = state
        shown = state.tick(now)
        ended = end_from_record(self.folder, run) is not None
        return replace(shown, state=ENDED) if ended else shown

    def _parts(self, job: Job, process: PlannedProcess, record: JobRecord) -> Iterator[str]:
        """Where machines record their parts of a process apart, until these are merged."""
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
        found = (
            run_record.read(folder, _option(settings, "skip") or 0)
            if record.state not in journal.WAITING
            else None
        )
        made = replace(_summary(job, process, record), folder=folder, record=found)
        finished = made.state == journal.FINISHED
        if finished:
            ended = ProcessEnd(run, made.code, made.signal, made.timed_out)
            made = replace(made, reason=ended.problem(self.folder) or "")
        else:
            made = replace(made, reason=status.why_unfinished(record))
        made = validation.judged_process(made, settings)
        if finished:
            self._finished[made.key] = (record, made)
        return made

    # -- benchmarks

    def _settings(self, benchmark: str) -> Mapping[str, Any]:
        return (self.plan.benchmarks.get(benchmark) or {}).get("settings") or {}

    def _all_benchmarks(self, jobs: Sequence[JobSummary]) -> Iterator[BenchmarkSummary]:
        by_name: dict[str, list[ProcessSummary]] = {}
        problems: dict[str, list[str]] = {}
        for job in jobs:
            by_name.setdefault(job.job.benchmark, []).extend(job.processes)
            problems.setdefault(job.job.benchmark, []).extend(filter(None, [job.problem]))
        left_out = {each.benchmark: each for each in self.plan.left_out}
        failures = [each.benchmark for each in self.plan.left_out if each.failure]
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
                findings=tuple(Finding("error", False, FAILURE, each) for each in sentences),
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
    """A number of steps among the options of a benchmark, for a run that did not record it."""
    options = (settings.get("voir") or {}).get("options") or {}
    number = options.get(name)
    return number if isinstance(number, int) else None
