"""Running a suite, from its plan to an exit code: for the first time, or resumed.

When a suite is resumed, its journal decides what happens to each job::

    finished, well         kept; run again with --rerun always
    finished, not well     kept as a failure; run again with --rerun onfail or always
    started or queued      adopted if it still runs or left its record; else run again, as lost
    interrupted            run again
    not in the journal     run

The engine that runs it is chosen by name, for ``--engine``, with the options of the suite's ``system``.
"""

from __future__ import annotations

import os
import shlex
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from ..._version import __version__
from ...analysis.wording import count
from ...errors import UserError
from ..plan.jobs import Plan
from ..plan.machine import Machine, find_machine
from . import journal, ray_engine, slurm_engine, ssh_engine, suite_folder
from .engine import JobEngine, QueuedJob
from .job_loop import JobLoop, LoopOutcome
from .journal import JobRecord, Journal
from .local_engine import LocalEngine
from .policy import RunPolicy
from .progress import Progress, print_through

LOCAL = "local"
ENGINES: dict[str, Callable[[Plan, str], JobEngine]] = {
    LOCAL: LocalEngine,
    slurm_engine.NAME: slurm_engine.SlurmEngine,
    ssh_engine.NAME: ssh_engine.SshEngine,
    ray_engine.NAME: ray_engine.RayEngine,
}


def machine_of(name: str, system: Mapping[str, Any], devices: str | None) -> Machine:
    """The machine to plan for with the engine ``name``, which stands for all that the engine reaches.

    ``system`` is that of the suite, ``devices`` the value of ``--devices``. Raises UserError if there is no
    such machine.
    """
    if name == slurm_engine.NAME:
        return slurm_engine.machine_of(_options(system, name), devices)
    if name == ray_engine.NAME:
        return ray_engine.machine_of(_options(system, name), devices)
    if name == ssh_engine.NAME:
        return ssh_engine.machine_of(system, devices)
    return find_machine(devices)


def _options(system: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    options = system.get(name)
    if options is None:
        return {}
    if not isinstance(options, dict):
        raise UserError(f"system.{name} is a map of options, not {options!r}")
    return options


def check(plan: Plan) -> None:
    """Raise UserError if the engine of ``plan`` could never run one of its jobs."""
    if _engine_name(plan) == slurm_engine.NAME:
        slurm_engine.check(plan)
    if _engine_name(plan) == ray_engine.NAME:
        ray_engine.check(plan)


def engine_of(plan: Plan, folder: str) -> JobEngine:
    """The engine that ``plan`` was made for. ``folder`` is the suite's."""
    return ENGINES[_engine_name(plan)](plan, folder)


def _engine_name(plan: Plan) -> str:
    return str((plan.machine.get("engine") or {}).get("name") or LOCAL)


def remaining_work(
    engine: JobEngine, plan: Plan, folder: str, rerun: str, dry: bool
) -> tuple[list[QueuedJob], LoopOutcome]:
    """What is left to do of ``plan``, which was run in ``folder``, and how the jobs ended that are kept.

    Jobs that still run come first. ``engine`` ran it. ``rerun`` says which jobs that have finished run once
    more: ``never`` any, ``onfail`` or ``always``. What is left of jobs that were lost is ended now, unless
    ``dry``.
    """
    queued, kept = [], LoopOutcome()
    records = journal.read(folder)
    for job in plan.jobs:
        before = records.get(job.key, JobRecord())
        tried = job.attempt(max(before.attempt, 1), folder)
        if before.state == journal.NEVER:
            queued.append(QueuedJob(job, 1))
        elif before.state in (journal.STARTED, journal.QUEUED) and engine.goes_on(
            tried, before, dry
        ):
            queued.append(QueuedJob(tried, before.attempt, before.time, before.handle))
        elif before.state == journal.FINISHED and before.ok and rerun != "always":
            kept.passed.append(job.key)
        elif before.state == journal.FINISHED and rerun == "never":
            kept.failed[job.key] = before.reason
        else:
            # The same attempt again if none of its processes came to run: ``inject run`` creates this folder
            # before it starts a program.
            raw = (os.path.join(folder, process.run, "raw") for process in tried.processes)
            begun = before.state == journal.FINISHED or any(map(os.path.isdir, raw))
            attempt = before.attempt + begun
            queued.append(QueuedJob(job.attempt(attempt, folder), attempt))
    queued.sort(key=lambda each: each.adopted is None)
    return queued, kept


PASSED, FAILED, INTERRUPTED = 0, 1, 130
"""The exit codes of a suite."""


def run(plan: Plan, folder: str, policy: RunPolicy, stream: TextIO | None = None) -> int:
    """Run ``plan`` in its new run folder, and print to ``stream`` (stderr by default); the exit code.

    Raises UserError if the folder cannot be written.
    """
    suite_folder.write_plan(folder, plan)
    with suite_folder.locked(folder):
        queued = [QueuedJob(job, 1) for job in plan.jobs]
        engine, stream = engine_of(plan, folder), stream or sys.stderr
        return _execute(engine, plan, folder, queued, LoopOutcome(), policy, "begin", stream)


def resume(
    plan: Plan, folder: str, policy: RunPolicy, rerun: str = "never", dry: bool = False
) -> int:
    """Go on with ``plan``, which was run in ``folder``; the exit code is that of the whole suite.

    With ``dry`` nothing is started or ended, and what would be is printed. For ``rerun`` see
    :func:`remaining_work`. Raises UserError if another process runs it.
    """
    with suite_folder.locked(folder):
        engine = engine_of(plan, folder)
        queued, kept = remaining_work(engine, plan, folder, rerun, dry)
        if not dry:
            return _execute(engine, plan, folder, queued, kept, policy, "resume", sys.stderr)
    for job, attempt, adopted, _ in queued:
        how = "goes on" if adopted is not None else "is run"
        print(f"{job.key} {how}{f', attempt {attempt}' if attempt > 1 else ''}")
    number = len(kept.passed) + len(kept.failed)
    are = "is" if number == 1 else "are"
    print(f"{count(len(queued), 'job')} to do, {number} {are} kept")
    return PASSED


def _execute(
    engine: JobEngine,
    plan: Plan,
    folder: str,
    queued: list[QueuedJob],
    outcome: LoopOutcome,
    policy: RunPolicy,
    event: str,
    stream: TextIO,
) -> int:
    """Run the ``queued`` jobs, recorded as ``event`` (``begin`` or ``resume``); the exit code.

    ``outcome`` is that of the jobs that are kept.
    """
    journal = Journal(folder)
    journal.write(event, pid=os.getpid(), host=socket.gethostname(), version=__version__)
    done = len(plan.jobs) - len(queued)
    progress = Progress(stream, len(plan.jobs), done, policy.max_parallel or engine.at_once)
    try:
        with policy.around():
            JobLoop(engine, plan, folder, queued, journal, progress, policy, outcome).run()
        passed, failed = len(outcome.passed), len(outcome.failed)
        if outcome.interrupted:
            code = INTERRUPTED
            journal.write("interrupted", signal=outcome.interrupted[0])
        else:
            left_out = any(each.failure for each in plan.left_out)
            code = FAILED if failed or outcome.problem or left_out else PASSED
            journal.write("end", code=code, passed=passed, failed=failed)
    finally:
        progress.close()
        journal.close()
    _print_summary(plan, folder, outcome, stream)
    return code


def _print_summary(plan: Plan, folder: str, outcome: LoopOutcome, stream: TextIO) -> None:
    """Print the last lines: what failed and why, how many passed, and the run folder."""
    passed, failed = len(outcome.passed), len(outcome.failed)
    lines = [f"{left_out.benchmark} was left out: {left_out.reason}" for left_out in plan.left_out]
    lines += [f"{key} failed: {reason}" for key, reason in outcome.failed.items()]
    if outcome.problem:
        lines.append(f"the record is not whole: {outcome.problem}")
    left = len(plan.jobs) - passed - failed
    counts = f"{passed} of {len(plan.jobs)} passed, {failed} failed"
    lines.append(f"{counts}, {left} left to run" if left else counts)
    if outcome.interrupted:
        lines.append(f"interrupted; go on with: inject suite run --resume {shlex.quote(folder)}")
    lines.append(f"run: {folder}")
    print_through(stream, "".join(f"inject suite: {line}\n" for line in lines))
