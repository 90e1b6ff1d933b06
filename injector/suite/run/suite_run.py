"""Running a suite, from its plan to an exit code: for the first time, or resumed.

When a suite is resumed, its journal decides what happens to each job::

    finished, well         kept; run again with --rerun always
    finished, not well     kept as a failure; run again with --rerun onfail or always
    started or queued      adopted if it still runs or left its record; else run again, as lost
    interrupted            run again
    not in the journal     run
"""

from __future__ import annotations

import os
import shlex
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


@dataclass
class RemainingWork:
    """What an earlier call has left to do, and what it has done."""

    queued: list[QueuedJob] = field(default_factory=list)
    """The jobs to be run or adopted."""
    passed: list[str] = field(default_factory=list)
    """The keys of the jobs that went well, and are not run again."""
    failed: dict[str, str] = field(default_factory=dict)
    """The keys of the jobs that did not go well, and are not run again all the same, with the reasons."""


def remaining_work(
    engine: JobEngine, plan: Plan, folder: str, rerun: str, dry: bool
) -> RemainingWork:
    """What is left to do of ``plan``, which was run in ``folder``; jobs that still run come first.

    ``engine`` ran it. ``rerun`` says which jobs that have finished run once more: ``never`` any, ``onfail``
    or ``always``. What is left of jobs that were lost is ended now, unless ``dry``.
    """
    remaining = RemainingWork()
    records = journal.read(folder)
    for job in plan.jobs:
        before = records.get(job.key, JobRecord())
        if before.state in (journal.STARTED, journal.QUEUED):
            remaining.queued.append(_adopted_or_again(engine, job, before, folder, dry))
        else:
            _classify(remaining, job, before, folder, rerun)
    remaining.queued.sort(key=lambda queued: queued.adopted is None)
    return remaining


def _classify(
    remaining: RemainingWork, job: Job, before: JobRecord, folder: str, rerun: str
) -> None:
    """Put a job that is neither started nor queued where it belongs in ``remaining``."""
    if before.state == journal.NEVER:
        remaining.queued.append(QueuedJob(job, 1))
    elif before.state == journal.FINISHED:
        if rerun == "always" or (rerun == "onfail" and not before.ok):
            remaining.queued.append(_queued_as(job, before.attempt + 1, folder))
        elif before.ok:
            remaining.passed.append(job.key)
        else:
            remaining.failed[job.key] = before.reason
    else:
        remaining.queued.append(_queued_as(job, _next_attempt(job, before.attempt, folder), folder))


def _queued_as(job: Job, attempt: int, folder: str) -> QueuedJob:
    return QueuedJob(job.attempt(attempt, folder), attempt)


def _next_attempt(job: Job, attempt: int, folder: str) -> int:
    """The number of the next attempt: the same again if none of the processes came to run in it."""
    tried = job.attempt(attempt, folder)
    return attempt + any(active_job.has_begun(folder, process) for process in tried.processes)


def _adopted_or_again(
    engine: JobEngine, job: Job, before: JobRecord, folder: str, dry: bool
) -> QueuedJob:
    """A job whose end is not in the journal, to be adopted, or to be run again if it was lost."""
    tried = job.attempt(before.attempt, folder)
    if engine.goes_on(tried, before, dry):
        return QueuedJob(tried, before.attempt, before.time, before.handle)
    return _queued_as(job, _next_attempt(job, before.attempt, folder), folder)


PASSED, FAILED, INTERRUPTED = 0, 1, 130
"""The exit codes of a suite."""


def run(plan: Plan, folder: str, policy: RunPolicy, stream: TextIO | None = None) -> int:
    """Run ``plan`` in its new run folder, and print to ``stream`` (stderr by default); the exit code.

    Raises UserError if the folder cannot be written.
    """
    suite_folder.write_plan(folder, plan)
    lock = suite_folder.FolderLock(folder)
    try:
        remaining = RemainingWork([QueuedJob(job, 1) for job in plan.jobs])
        engine = engine_of(plan, folder)
        return _execute(engine, plan, folder, remaining, policy, "begin", stream or sys.stderr)
    finally:
        lock.release()


def resume(
    plan: Plan,
    folder: str,
    policy: RunPolicy,
    rerun: str = "never",
    dry: bool = False,
    stream: TextIO | None = None,
) -> int:
    """Go on with ``plan``, which was run in ``folder``; the exit code is that of the whole suite.

    With ``dry`` nothing is started or ended, and what would be is printed. For ``rerun`` see
    :func:`remaining_work`. Raises UserError if another process runs it.
    """
    lock = suite_folder.FolderLock(folder)
    try:
        engine = engine_of(plan, folder)
        remaining = remaining_work(engine, plan, folder, rerun, dry)
        if dry:
            print("\n".join(_dry_lines(remaining)))
            return PASSED
        return _execute(engine, plan, folder, remaining, policy, "resume", stream or sys.stderr)
    finally:
        lock.release()


def _dry_lines(remaining: RemainingWork) -> Iterator[str]:
    for queued in remaining.queued:
        how = "goes on" if queued.adopted is not None else "is run"
        attempt = f", attempt {queued.attempt}" if queued.attempt > 1 else ""
        yield f"{queued.job.key} {how}{attempt}"
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
    """Run what remains, recorded as ``event`` (``begin`` or ``resume``); the exit code."""
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
    wrong = failed or outcome.problem or any(left_out.failure for left_out in plan.left_out)
    return FAILED if wrong else PASSED


def _print_summary(
    plan: Plan, folder: str, remaining: RemainingWork, outcome: LoopOutcome, stream: TextIO
) -> None:
    """Print the last lines: what failed and why, how many passed, and the run folder."""
    failed = {**remaining.failed, **outcome.failed}
    passed = len(remaining.passed) + len(outcome.passed)
    lines = [f"{left_out.benchmark} was left out: {left_out.reason}" for left_out in plan.left_out]
    lines += [f"{key} failed: {reason}" for key, reason in failed.items()]
    if outcome.problem:
        lines.append(f"the record is not whole: {outcome.problem}")
    left = len(plan.jobs) - passed - len(failed)
    counts = f"{passed} of {len(plan.jobs)} passed, {len(failed)} failed"
    lines.append(f"{counts}, {left} left to run" if left else counts)
    if outcome.interrupted:
        lines.append(f"interrupted; go on with: inject suite run --resume {shlex.quote(folder)}")
    lines.append(f"run: {folder}")
    print_through(stream, "".join(f"inject suite: {line}\n" for line in lines))
