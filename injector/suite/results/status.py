"""What the plan and the journal of a suite's run say: its state, its jobs, and where their runs lie."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ...analysis.runs import Listed
from ...analysis.wording import count
from ...errors import UserError
from ...store.folder import is_run
from ..plan import jobs as plans
from ..plan.jobs import Job, Plan
from ..run import journal, suite_folder
from ..run.journal import JobRecord
from .suite_summary import ENDED, INTERRUPTED, RUNNING, STARTING, STOPPED

RUN_JSON = "run.json"
NO_RECORD = JobRecord()


class SuiteStatus:
    """Plan and journal of the suite's run in ``folder``, read at one moment.

    Any beginning of a journal can be read: it ends where a suite was killed. ``plan``: that of the
    folder, if it is known already. Raises UserError where there is none, or it cannot be read.
    """

    def __init__(self, folder: str, plan: Plan | None = None) -> None:
        self.folder = folder
        self.plan = plans.read_plan(folder) if plan is None else plan
        self.lines = journal.read_lines(folder)
        self.records = journal.jobs_of(self.lines.records)
        times = [float(record["time"]) for record in self.lines.records]
        self.started, self.ended = min(times, default=None), max(times, default=None)
        begun = [each for each in self.lines.records if each["event"] in ("begin", "resume")]
        self.resumed = float(begun[-1]["time"]) if begun else None
        """When it, or the last call that resumed it, began."""
        events = [record["event"] for record in self.lines.records if record["event"] != "job"]
        self._last = events[-1] if events else ""
        # Each time the suite was killed one line at most is truncated; the next writer begins a new one.
        ends = events.count("end") + events.count(journal.INTERRUPTED)
        self._kills = max(len(begun) - ends, 0)
        self._kills += self._last == journal.INTERRUPTED  # the line that goes on with it

    @property
    def name(self) -> str:
        """Of the suite."""
        return str(self.plan.suite.get("name") or os.path.basename(self.folder))

    @property
    def state(self) -> str:
        """Of the suite: one of those that :mod:`.suite_summary` names."""
        if self._last == "end":
            return ENDED
        if self._last == journal.INTERRUPTED:
            return INTERRUPTED
        if not suite_folder.is_held(self.folder):
            return STOPPED
        return RUNNING if self.lines.records else STARTING

    def record(self, job: Job) -> JobRecord:
        """What the journal has of ``job``."""
        return self.records.get(job.key, NO_RECORD)

    def started_processes(self) -> Iterator[tuple[str, str, JobRecord, str]]:
        """Key, benchmark, record and latest run folder of every process that the journal names."""
        for job in self.plan.jobs:
            record = self.record(job)
            for process in job.processes if record.state not in journal.WAITING else ():
                folder = os.path.join(self.folder, record.run_of(process))
                yield process.key, job.benchmark, record, folder

    def why_unfinished(self, record: JobRecord) -> str:
        """Why a job with ``record`` did not run, or did not finish."""
        if record.state == journal.QUEUED:
            return "it was queued and has not begun"
        if record is not NO_RECORD:
            begun = record.state in (journal.STARTED, journal.INTERRUPTED)
            return record.reason or ("it was begun and has not finished" if begun else "")
        if self._last == journal.INTERRUPTED:
            return "it never ran: the suite was interrupted"
        return "it never ran" + (
            "" if self._last == "end" else ": the suite did not come to its end"
        )

    def notes(self) -> Iterator[str]:
        """What a reader has to know before trusting the results."""
        if not self.records and self._last != "end":
            yield "nothing has run yet"
        elif self._last != "end":
            yield "the suite did not come to its end: inject suite run --resume goes on"
        if 0 < self.lines.changed <= self._kills:
            yield f"{count(self.lines.changed, 'line')} of {journal.FILE} truncated, and left out"

    def damage(self) -> Iterator[str]:
        """What of the journal is not as it was written, as sentences."""
        changed = max(self.lines.changed - self._kills, self.lines.lost)
        if changed:
            yield f"{journal.FILE}: {count(changed, 'line')} not as written, and left out"
        if self.lines.doubled:
            yield f"{journal.FILE}: {count(self.lines.doubled, 'line')} there twice"
        if unnamed := self._unnamed():
            names = ", ".join(unnamed[:3]) + (", …" if len(unnamed) > 3 else "")
            lines = "no line" if len(unnamed) == 1 else "no lines"
            yield f"{journal.FILE}: {lines} of {names}, which has run"

    def _unnamed(self) -> list[str]:
        """Jobs that have run and are not in the journal: a job is written down before it starts."""
        found = [
            job.key for job in self.plan.jobs if job.key not in self.records and self._has_run(job)
        ]
        # One that has started since the journal was read is in it now.
        now = journal.read(self.folder) if found else {}
        return [key for key in found if key not in now]

    def _has_run(self, job: Job) -> bool:
        return any(is_run(os.path.join(self.folder, process.run)) for process in job.processes)


def damage_of(path: str) -> list[str]:
    """What of the journal and the run folders of the suite in ``path`` is lost or changed, as sentences.

    Of a run only what it cannot know itself: alone, one without a ``run.json`` may still be running.
    """
    status = SuiteStatus(path)
    found = list(status.damage())
    for key, _, record, folder in status.started_processes():
        if not is_run(folder):
            found.append(f"{key}: it has no run folder")
        elif record.state == journal.FINISHED and not os.path.exists(
            os.path.join(folder, RUN_JSON)
        ):
            found.append(f"{key}: {RUN_JSON} is missing, and its job has finished")
    return found


def runs_of(path: str) -> list[tuple[dict[str, str], str]]:
    """Every run folder of the suite in ``path``, of each process the latest attempt, with its labels.

    Raises:
        UserError: there is no plan, or it cannot be read.
    """
    return [
        ({"benchmark": benchmark, "run": key}, folder)
        for key, benchmark, _, folder in SuiteStatus(path).started_processes()
    ]


def listed(runs: str) -> list[Listed]:
    """The suites that were run in the folder ``runs``, as a list of runs has them."""
    return [_listed(path) for path in suite_folder.newest_runs(runs)]


def _listed(path: str) -> Listed:
    name = os.path.basename(path)
    unknown = Listed(name, name, *(None,) * 2, None, False, *(None,) * 4, "", None, None, None)
    try:
        status = SuiteStatus(path)
    except UserError as error:
        return unknown._replace(problem=str(error).replace(path, "it", 1))
    plan, state, records = status.plan, status.state, status.lines.records
    jobs = [status.record(job) for job in plan.jobs]
    failed, over = sum(job.failed for job in jobs), sum(job.over for job in jobs)
    verdict = f"suite {state}: {over - failed} of {count(len(jobs), 'job')} passed"
    states = [job.state for job in jobs] if state == RUNNING else []
    runs = states.count(journal.STARTED)
    waits = sum(states.count(each) for each in journal.WAITING)
    began = next((each["time"] for each in records if each["event"] == "begin"), None)
    code = records[-1].get("code") if records else None
    return unknown._replace(
        name=status.name,
        started=began,
        duration=records[-1]["time"] - began if began is not None and state != RUNNING else None,
        exit={ENDED: code, INTERRUPTED: 130}.get(state),
        processes=sum(len(job.processes) for job in plan.jobs),
        host=str(plan.machine.get("host")),
        command=f"inject suite run {plan.suite.get('file')}",
        verdict=verdict
        + (f", {failed} failed" if failed else "")
        + (f", {runs} running, {waits} queued" if states else ""),
    )
