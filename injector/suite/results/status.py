"""What the plan and the journal of a suite's run say: its state, its jobs, and where their run folders are.

No run folder is read here. :mod:`.suite_reader` adds what these hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise

from ...analysis.runs import Listed
from ...analysis.wording import count, leading
from ...errors import UserError
from ...store.folder import is_run
from ..plan import jobs as plans
from ..plan.jobs import Job, Plan
from ..run import journal, suite_folder
from ..run.journal import JobRecord
from .suite_summary import ENDED, INTERRUPTED, RUNNING, STARTING, STOPPED, seconds_run

RUN_JSON = "run.json"
NO_RECORD = JobRecord()
"""The record of a job that the journal does not have."""


class SuiteStatus:
    """The plan and the journal of the suite's run in ``folder``, read at one moment.

    The journal may end anywhere, as that of a suite that was killed does. ``plan`` is the plan of the folder
    if it has been read already. Raises UserError if there is none, or it cannot be read.
    """

    def __init__(self, folder: str, plan: Plan | None = None) -> None:
        self.folder = folder
        self.plan = plans.read_plan(folder) if plan is None else plan
        self.lines = journal.read_lines(folder)
        self.records = journal.jobs_of(self.lines.records)
        times = [float(record["time"]) for record in self.lines.records]
        self.started, self.ended = min(times, default=None), max(times, default=None)
        self.pauses = tuple(
            (float(before["time"]), float(after["time"]))
            for before, after in pairwise(self.lines.records)
            if after["event"] == "resume"
        )
        events = [record["event"] for record in self.lines.records if record["event"] != "job"]
        self._last = events[-1] if events else ""
        # A call that was killed leaves one truncated line at most: the next one begins a new line. What began
        # and did not end was killed, or goes on and may be at a line; so may who resumes after an interrupt.
        begins = events.count("begin") + events.count("resume")
        ends = events.count("end") + events.count(journal.INTERRUPTED)
        self._kills = max(begins - ends, 0)
        self._kills += self._last == journal.INTERRUPTED

    @property
    def name(self) -> str:
        """The suite's name; the folder's if the plan has none."""
        return str(self.plan.suite.get("name") or os.path.basename(self.folder))

    @property
    def state(self) -> str:
        """The state of the suite: one of those in :mod:`.suite_summary`."""
        if self._last == "end":
            return ENDED
        if self._last == journal.INTERRUPTED:
            return INTERRUPTED
        if not suite_folder.is_held(self.folder):
            return STOPPED
        return RUNNING if self.lines.records else STARTING

    def record(self, job: Job) -> JobRecord:
        """The record of ``job`` in the journal; :data:`NO_RECORD` if it has none."""
        return self.records.get(job.key, NO_RECORD)

    def started_processes(self) -> Iterator[tuple[str, str, JobRecord, str]]:
        """Key, benchmark, job record and latest run folder of every process of a job that has started."""
        for job in self.plan.jobs:
            record = self.record(job)
            for process in job.processes if record.state not in journal.WAITING else ():
                folder = os.path.join(self.folder, record.run_of(process))
                yield process.key, job.benchmark, record, folder

    def why_unfinished(self, record: JobRecord) -> str:
        """Why a job with ``record`` did not run, or did not finish; empty if it did."""
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
        """What a reader has to know before trusting the results, as sentences."""
        if not self.records and self._last != "end":
            yield "nothing has run yet"
        elif self._last != "end":
            yield "the suite did not come to its end: inject suite run --resume goes on"
        # More than the kills explain are damage.
        if 0 < self.lines.changed <= self._kills:
            yield f"{count(self.lines.changed, 'line')} of {journal.FILE} truncated, and left out"

    def damage(self) -> Iterator[str]:
        """What of the journal is lost or not as it was written, as sentences."""
        changed = max(self.lines.changed - self._kills, self.lines.lost)
        if changed:
            yield f"{journal.FILE}: {count(changed, 'line')} not as written, and left out"
        if self.lines.doubled:
            yield f"{journal.FILE}: {count(self.lines.doubled, 'line')} there twice"
        if unrecorded := self._unrecorded_jobs():
            lines, have = ("no line", "has") if len(unrecorded) == 1 else ("no lines", "have")
            yield f"{journal.FILE}: {lines} of {leading(unrecorded, 3)}, which {have} run"

    def _unrecorded_jobs(self) -> list[str]:
        """The keys of jobs with run folders but no line in the journal: it is written before they start."""
        keys = [
            job.key
            for job in self.plan.jobs
            if job.key not in self.records
            and any(is_run(os.path.join(self.folder, process.run)) for process in job.processes)
        ]
        # One that has started since the journal was read is in it now.
        now = journal.read(self.folder) if keys else {}
        return [key for key in keys if key not in now]


def damage_of(path: str) -> list[str]:
    """What of the journal and the run folders of the suite in ``path`` is lost or changed, as sentences.

    Of run folders it is only what the journal is needed for: a run without a ``run.json`` is damaged if its
    job has finished, else it may still go on. Raises UserError.
    """
    status = SuiteStatus(path)
    damage = list(status.damage())
    for key, _, record, folder in status.started_processes():
        if not is_run(folder):
            damage.append(f"{key}: it has no run folder")
        elif record.state == journal.FINISHED and not os.path.exists(
            os.path.join(folder, RUN_JSON)
        ):
            damage.append(f"{key}: {RUN_JSON} is missing, and its job has finished")
    return damage


def runs_of(path: str) -> list[tuple[dict[str, str], str]]:
    """The latest run folder of each process of the suite in ``path``, and before it the labels of that run.

    Raises UserError if there is no plan, or it cannot be read.
    """
    return [
        ({"benchmark": benchmark, "run": key}, folder)
        for key, benchmark, _, folder in SuiteStatus(path).started_processes()
    ]


def listed(runs: str) -> list[Listed]:
    """The suites in the folder ``runs``, as entries of a list of runs."""
    return [_listed(path) for path in suite_folder.newest_runs(runs)]


def _listed(path: str) -> Listed:
    name = os.path.basename(path)
    # What is None: started to exit, processes to host, verdict to problem.
    unknown = Listed(name, name, *(None,) * 3, False, *(None,) * 4, "", *(None,) * 3)
    try:
        status = SuiteStatus(path)
    except UserError as error:
        return unknown._replace(problem=str(error).replace(path, "it", 1))
    plan, state, records = status.plan, status.state, status.lines.records
    jobs = [status.record(job) for job in plan.jobs]
    failed, over = sum(job.failed for job in jobs), sum(job.over for job in jobs)
    verdict = f"suite {state}: {over - failed} of {count(len(jobs), 'job')} passed"
    states = [job.state for job in jobs] if state == RUNNING else []
    running = states.count(journal.STARTED)
    waiting = sum(states.count(each) for each in journal.WAITING)
    began = next((record["time"] for record in records if record["event"] == "begin"), None)
    code = records[-1].get("code") if records else None
    return unknown._replace(
        name=status.name,
        started=began,
        duration=seconds_run(began, status.pauses, records[-1]["time"])
        if began is not None and state != RUNNING
        else None,
        exit={ENDED: code, INTERRUPTED: 130}.get(state),
        processes=sum(len(job.processes) for job in plan.jobs),
        host=str(plan.machine.get("host")),
        command=f"inject suite run {plan.suite.get('file')}",
        verdict=verdict
        + (f", {failed} failed" if failed else "")
        + (f", {running} running, {waiting} queued" if states else ""),
    )
