"""From the folder of a suite's runs to what they came to: plan.json, journal.jsonl, jobs/; and finding it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol

from ...analysis.wording import count
from ...errors import UserError
from ...store.folder import LAST, is_run, resolve
from ..config.model import Suite
from ..config.rules import FAILURE
from ..plan import jobs as plans
from ..plan.jobs import Job, LeftOut, Plan, PlannedProcess, is_suite_run
from ..run import journal
from . import records, validation
from .outcome import NEVER, UNFINISHED, BenchmarkResult, Finding, ProcessResult, SuiteResult


class NoResultsError(UserError):
    """A folder that should hold the runs of a suite holds none."""


class ForeignReader(Protocol):
    """Reads folders of runs that another program wrote."""

    def is_folder(self, folder: str) -> bool: ...
    def read(self, folder: str) -> SuiteResult: ...


def read(folder: str, foreign: Sequence[ForeignReader] = ()) -> SuiteResult:
    """What the runs in ``folder`` came to, judged: `inject suite run`'s, or what ``foreign`` reads.

    Raises:
        UserError: there are none, a later version wrote them, or they cannot be read.
    """
    try:
        if is_suite_run(folder):
            return validation.judged(_read(folder))
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


def expected(result: SuiteResult, suite: Suite) -> SuiteResult:
    """``result`` as the result of ``suite``: its weights hold, and what it lacks of it has failed.

    For folders that do not say themselves what should have run.
    """
    weights = {each.name: each.weight for each in suite.benchmarks if each.enabled}
    known = {each.name for each in result.benchmarks} | {each.benchmark for each in result.left_out}
    why = Finding("error", False, FAILURE, "it did not run: there is no record of it")
    absent = [
        BenchmarkResult(
            each.name, each.group, each.family, tags=each.tags, weight=each.weight, findings=(why,)
        )
        for each in suite.benchmarks
        if each.enabled and each.name not in known
    ]
    found = [
        replace(each, weight=weights.get(each.name, each.weight)) for each in result.benchmarks
    ]
    left_out = tuple(
        replace(each, weight=weights.get(each.benchmark, each.weight)) for each in result.left_out
    )
    return replace(result, benchmarks=(*found, *absent), left_out=left_out)


def journal_damage(folder: str) -> list[str]:
    """What of the journal of the suite's run in ``folder`` is not as it was written, as sentences."""
    return list(_Journal(folder, plans.read_plan(folder)).damage()) if is_suite_run(folder) else []


def lost_runs(folder: str) -> list[str]:
    """What finished in the suite's run in ``folder`` and has no ``run.json`` any more, as sentences.

    The run folder alone cannot tell that from a run that goes on.
    """
    if not is_suite_run(folder):
        return []
    plan = plans.read_plan(folder)
    told = _Journal(folder, plan)
    finished = [
        (process.key, os.path.join(folder, str(ended.get("run") or process.run)))
        for job in plan.jobs
        for process in job.processes
        if (past := told.jobs.get(job.key)) and told.state(past) == journal.FINISHED
        for ended in [past.processes.get(process.key) or {}]
    ]
    return [
        f"{key}: run.json is missing, and its job has finished"
        for key, path in finished
        if is_run(path) and not os.path.exists(os.path.join(path, "run.json"))
    ]


def _read(folder: str) -> SuiteResult:
    plan = plans.read_plan(folder)
    try:
        return _result(folder, plan, _Journal(folder, plan))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NoResultsError(f"{folder}: cannot be understood: {error!r}") from None


def _result(folder: str, plan: Plan, told: _Journal) -> SuiteResult:
    return SuiteResult(
        folder=folder,
        name=str(plan.suite.get("name") or os.path.basename(folder)),
        file=plan.suite.get("file"),
        started=told.started,
        ended=told.ended,
        machine=plan.machine,
        options=plan.options,
        benchmarks=tuple(_benchmarks(plan, _processes(folder, plan, told))),
        left_out=plan.left_out,
        notes=tuple(told.notes()),
        damage=tuple(told.damage()),
    )


class _Journal:
    """What became of the plan. Any beginning of a journal can be read: it ends where a suite was killed."""

    def __init__(self, folder: str, plan: Plan) -> None:
        # Looked for before the journal is read: a suite may be running, and write on.
        run = [job.key for job in plan.jobs if _has_run(folder, job)]
        self.lines = journal.read_lines(folder)
        self.jobs = journal.jobs_of(self.lines.records)
        times = [float(record["time"]) for record in self.lines.records]
        self.started, self.ended = min(times, default=None), max(times, default=None)
        said = [record["event"] for record in self.lines.records if record["event"] != "job"]
        self.last = said[-1] if said else ""
        # Each time the suite was killed one line at most is truncated; the next writer begins a new one.
        begun, over = ("begin", "resume"), ("end", journal.INTERRUPTED)
        self.kills = max(sum(map(said.count, begun)) - sum(map(said.count, over)), 0)
        self.kills += self.last == journal.INTERRUPTED  # the line that goes on with it
        # A job is written down before it starts: where one has run, its line was lost.
        self.unnamed = [key for key in run if key not in self.jobs]

    def state(self, past: journal.Past | None) -> str:
        """Of a job, of which the journal says ``past``."""
        if past is None:
            return NEVER
        return past.state if past.state in (journal.FINISHED, journal.NOT_STARTED) else UNFINISHED

    def why(self, state: str) -> str:
        """Why a job of ``state`` did not run, where nothing else is known."""
        if state == NEVER and self.last == journal.INTERRUPTED:
            return "it never ran: the suite was interrupted"
        if state == NEVER and self.last != "end":
            return "it never ran: the suite did not come to its end"
        return {NEVER: "it never ran", UNFINISHED: "it was begun and has not finished"}.get(
            state, ""
        )

    def notes(self) -> Iterator[str]:
        """What a reader has to know."""
        if not self.jobs and self.last != "end":
            yield "nothing has run yet"
        elif self.last != "end":
            yield "the suite did not come to its end: inject suite run --resume goes on"
        if 0 < self.lines.changed <= self.kills:
            yield f"{count(self.lines.changed, 'line')} of {journal.FILE} truncated, and left out"

    def damage(self) -> Iterator[str]:
        """What of the journal is not as it was written."""
        changed = max(self.lines.changed - self.kills, self.lines.lost)
        if changed:
            yield f"{journal.FILE}: {count(changed, 'line')} not as written, and left out"
        if self.lines.doubled:
            yield f"{journal.FILE}: {count(self.lines.doubled, 'line')} there twice"
        if self.unnamed:
            names = ", ".join(self.unnamed[:3]) + (", …" if len(self.unnamed) > 3 else "")
            lines = "no line" if len(self.unnamed) == 1 else "no lines"
            yield f"{journal.FILE}: {lines} of {names}, which has run"


def _has_run(folder: str, job: Job) -> bool:
    return any(is_run(os.path.join(folder, process.run)) for process in job.processes)


def _processes(folder: str, plan: Plan, told: _Journal) -> list[ProcessResult]:
    skips = {name: _skip(each.get("settings") or {}) for name, each in plan.benchmarks.items()}

    def one(each: tuple[Job, PlannedProcess]) -> ProcessResult:
        return _process(folder, *each, told, skips.get(each[0].benchmark, 0))

    planned = [(job, process) for job in plan.jobs for process in job.processes]
    with ThreadPoolExecutor(2) as pool:  # reading waits for the disk as often as it parses
        return list(pool.map(one, planned))


def _skip(settings: Mapping[str, Any]) -> int:
    """Steps to skip, for a run that died before it could say so itself."""
    options = (settings.get("voir") or {}).get("options") or {}
    skip = options.get("skip")
    return skip if isinstance(skip, int) else 0


def _process(
    folder: str, job: Job, planned: PlannedProcess, told: _Journal, skip: int
) -> ProcessResult:
    past = told.jobs.get(job.key)
    ended = (past.processes if past else {}).get(planned.key) or {}
    path = os.path.join(folder, str(ended.get("run") or planned.run))
    state = told.state(past)
    return ProcessResult(
        key=planned.key,
        benchmark=job.benchmark,
        repeat=job.repeat,
        slot=planned.key.rpartition(".")[2],
        devices=planned.devices,
        state=state,
        code=ended.get("code"),
        signal=ended.get("signal"),
        timed_out=bool(ended.get("timed_out")),
        reason=(past.reason if past else "") or told.why(state),
        folder=path,
        record=records.read(path, skip) if state != NEVER else None,
    )


def _benchmarks(plan: Plan, processes: list[ProcessResult]) -> Iterator[BenchmarkResult]:
    by_name: dict[str, list[ProcessResult]] = {}
    for process in processes:
        by_name.setdefault(process.benchmark, []).append(process)
    left_out = {each.benchmark: each for each in plan.left_out}
    failures = [each.benchmark for each in plan.left_out if each.failure]
    for name in dict.fromkeys([*plan.benchmarks, *by_name, *failures]):
        reason = left_out.get(name)
        if name in by_name or reason is None or reason.failure:
            yield _benchmark(name, plan.benchmarks.get(name, {}), by_name.get(name, ()), reason)


def _benchmark(
    name: str,
    told: Mapping[str, Any],
    processes: Sequence[ProcessResult],
    reason: LeftOut | None,
) -> BenchmarkResult:
    weight = told.get("weight")
    why = f"it did not run: {reason.reason}" if reason else "it did not run: nothing was planned"
    return BenchmarkResult(
        name=name,
        group=str(told.get("group") or name),
        family=str(told.get("family") or told.get("group") or name),
        values=told.get("values") or {},
        tags=tuple(map(str, told.get("tags") or ())),
        weight=1.0 if weight is None else float(weight),
        settings=told.get("settings") or {},
        processes=tuple(processes),
        findings=() if processes else (Finding("error", False, FAILURE, why),),
    )


RUNS = "runs"
YAML = (".yaml", ".yml")


def find_suite_run(which: str | None, base: str) -> str:
    """The folder of a suite's runs that ``which`` names: a path, a name below ``base``, a suite.

    A suite's file, or its name, stands for the newest of its runs; None and ``LAST`` for the newest of
    all. Of a folder that holds several, the newest as well.

    Raises:
        NoResultsError: there is none; the text says where it was looked for.
        NotARunError: the beginning of several names.
    """
    runs = os.path.join(base, RUNS)
    named = which
    if which is not None and which.endswith(YAML):
        named = os.path.splitext(os.path.basename(which))[0]
    elif which is not None and is_suite_run(which):
        return os.path.abspath(which)
    elif which is not None and os.path.isdir(which):
        return resolve(None, which, is_suite_run) or which
    found = resolve(named, runs, is_suite_run)
    # A file stands for the runs of that suite, not for those of one whose name begins like its.
    if found is not None and (named == which or os.path.basename(found).startswith(f"{named}.")):
        return found
    if which is None or which == LAST:
        raise NoResultsError(f"no suite has been run in {runs}")
    if which.endswith(YAML):
        raise NoResultsError(f"{which}: no run of it is in {runs}")
    raise NoResultsError(f"{which}: there is no such folder, and {runs} has no run of that name")
