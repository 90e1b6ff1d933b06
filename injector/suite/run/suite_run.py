"""A suite from its plan to an exit code: run anew, or resumed.

On resuming, what has finished is kept, what runs still is waited for, what was lost runs again.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TextIO

from ..._version import __version__
from ...analysis.wording import count
from ..plan.jobs import Job, Plan
from . import active_job, journal, suite_folder
from .engine import JobEngine, QueuedJob
from .engines import engine_of
from .job_loop import JobLoop, LoopOutcome
from .journal import JobRecord, Journal
from .policy import RunPolicy
from .progress import Progress, print_through

RERUNS = ("never", "onfail", "always")


@dataclass
class RemainingWork:
    """What an earlier call has left to do."""

    queued: list[QueuedJob] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    """Keys of the jobs that are not run again, since they went well; and"""
    failed: dict[str, str] = field(default_factory=dict)
    """those that are not run again although they did not, with the reason."""


def remaining_work(
    engine: JobEngine, plan: Plan, folder: str, rerun: str = "never", dry: bool = False
) -> RemainingWork:
    """What is to be done of ``plan``, which ``engine`` ran in ``folder``.

    ``rerun``: which jobs that have finished run once more, one of :data:`RERUNS`. Jobs that run still
    come first; what was lost when the suite or the machine died runs again in a new attempt. What is
    left of it is ended now, unless ``dry``.
    """
    found = RemainingWork()
    records = journal.read(folder)
    for job in plan.jobs:
        before = records.get(job.key, JobRecord())
        if before.state in (journal.STARTED, journal.QUEUED):
            found.queued.append(_lost_or_running(engine, job, before, folder, dry))
        else:
            _classify(found, job, before, folder, rerun)
    found.queued.sort(key=lambda queued: queued.adopted is None)
    return found


def _classify(found: RemainingWork, job: Job, before: JobRecord, folder: str, rerun: str) -> None:
    if before.state == journal.NEVER:
        found.queued.append(QueuedJob(job, 1))
    elif before.state == journal.FINISHED:
        if rerun == "always" or (rerun == "onfail" and not before.ok):
            found.queued.append(_queued_again(job, before.attempt + 1, folder))
        elif before.ok:
            found.passed.append(job.key)
        else:
            found.failed[job.key] = before.reason
    else:
        found.queued.append(_queued_again(job, _next_attempt(job, before.attempt, folder), folder))


def _queued_again(job: Job, attempt: int, folder: str) -> QueuedJob:
    return QueuedJob(job.attempt(attempt, folder), attempt)


def _next_attempt(job: Job, attempt: int, folder: str) -> int:
    """The attempt that is to be made: the same again, as long as nothing has begun in it."""
    tried = job.attempt(attempt, folder)
    return attempt + any(active_job.has_begun(folder, each) for each in tried.processes)


def _lost_or_running(
    engine: JobEngine, job: Job, before: JobRecord, folder: str, dry: bool
) -> QueuedJob:
    """A job whose end was not recorded: it runs, has ended, or was lost."""
    tried = job.attempt(before.attempt, folder)
    if engine.goes_on(tried, before, dry):
        return QueuedJob(tried, before.attempt, before.time, before.handle)
    return _queued_again(job, _next_attempt(job, before.attempt, folder), folder)


PASSED, FAILED, INTERRUPTED = 0, 1, 130


def run(plan: Plan, folder: str, policy: RunPolicy, stream: TextIO | None = None) -> int:
    """Run ``plan`` in its new run folder; the exit code.

    Raises:
        UserError: the folder cannot be written.
    """
    suite_folder.write_plan(folder, plan)
    held = suite_folder.FolderLock(folder)
    try:
        remaining = RemainingWork([QueuedJob(job, 1) for job in plan.jobs])
        engine = engine_of(plan, folder)
        return _execute(engine, plan, folder, remaining, policy, "begin", stream or sys.stderr)
    finally:
        held.release()


def resume(
    plan: Plan,
    folder: str,
    policy: RunPolicy,
    rerun: str = "never",
    dry: bool = False,
    stream: TextIO | None = None,
) -> int:
    """Go on with ``plan``, which was run in ``folder``; the exit code is that of the whole suite.

    With ``dry`` nothing is started or ended, and what would be is printed.

    Raises:
        UserError: another process runs it.
    """
    held = suite_folder.FolderLock(folder)
    try:
        engine = engine_of(plan, folder)
        remaining = remaining_work(engine, plan, folder, rerun, dry)
        if dry:
            print("\n".join(_dry_lines(remaining)))
            return PASSED
        return _execute(engine, plan, folder, remaining, policy, "resume", stream or sys.stderr)
    finally:
        held.release()


def _dry_lines(remaining: RemainingWork) -> Iterator[str]:
    for each in remaining.queued:
        how = "goes on" if each.adopted is not None else "is run"
        yield f"{each.job.key} {how}" + (f", attempt {each.attempt}" if each.attempt > 1 else "")
    kept = len(remaining.passed) + len(remaining.failed)
    are = "is" if kept == 1 else "are"
    yield f"{count(len(remaining.queued), 'job')} to do, {kept} {are} kept"


def _execute(
    engine: JobEngine,
    plan: Plan,
    folder: str,
    remaining: RemainingWork,
    policy: RunPolicy,
    event: str,
    stream: TextIO,
) -> int:
    journal = Journal(folder)
    journal.write(event, pid=os.getpid(), host=socket.gethostname(), version=__version__)
    done = len(plan.jobs) - len(remaining.queued)
    progress = Progress(stream, len(plan.jobs), done, policy.max_parallel or engine.at_once)
    try:
        with policy.around():
            loop = JobLoop(engine, plan, folder, remaining.queued, journal, progress, policy)
            outcome = loop.run()
        failed = {**remaining.failed, **outcome.failed}
        code = _exit_code(plan, failed, outcome)
        if outcome.interrupted:
            journal.write("interrupted", signal=outcome.interrupted[0])
        else:
            passed = len(remaining.passed) + len(outcome.passed)
            journal.write("end", code=code, passed=passed, failed=len(failed))
    finally:
        progress.close()
        journal.close()
    _print_summary(plan, folder, remaining, outcome, stream)
    return code


def _exit_code(plan: Plan, failed: dict[str, str], outcome: LoopOutcome) -> int:
    if outcome.interrupted:
        return INTERRUPTED
    wrong = failed or outcome.problem or any(each.failure for each in plan.left_out)
    return FAILED if wrong else PASSED


def _print_summary(
    plan: Plan, folder: str, remaining: RemainingWork, outcome: LoopOutcome, stream: TextIO
) -> None:
    """The last lines: what became of it, and where it lies."""
    failed = {**remaining.failed, **outcome.failed}
    passed = len(remaining.passed) + len(outcome.passed)
    lines = [f"{each.benchmark} was left out: {each.reason}" for each in plan.left_out]
    lines += [f"{key} failed: {reason}" for key, reason in failed.items()]
    if outcome.problem:
        lines.append(f"the record is not whole: {outcome.problem}")
    left = len(plan.jobs) - passed - len(failed)
    counts = f"{passed} of {len(plan.jobs)} passed, {len(failed)} failed"
    lines.append(f"{counts}, {left} left to run" if left else counts)
    if outcome.interrupted:
        lines.append(f"interrupted; go on with: inject suite run --resume {folder}")
    lines.append(f"run: {folder}")
    print_through(stream, "".join(f"inject suite: {line}\n" for line in lines))
