"""A suite from its plan to an exit code: run anew, or gone on with."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from typing import TextIO

from ..._version import __version__
from ..plan.jobs import Plan
from . import folder as folders
from . import resuming
from .engine import Engine, Manner, Outcome, Todo
from .journal import Journal
from .progress import Progress, say
from .resuming import Rest

PASSED, FAILED, INTERRUPTED = 0, 1, 130


def run(plan: Plan, folder: str, manner: Manner, stream: TextIO | None = None) -> int:
    """Run ``plan`` in its new run folder; the exit code.

    Raises:
        UserError: the folder cannot be written.
    """
    folders.write_plan(folder, plan)
    held = folders.Held(folder)
    try:
        rest = Rest([Todo(job, 1) for job in plan.jobs])
        return _go(plan, folder, rest, manner, "begin", stream or sys.stderr)
    finally:
        held.release()


def resume(
    plan: Plan,
    folder: str,
    manner: Manner,
    rerun: str = "never",
    dry: bool = False,
    stream: TextIO | None = None,
) -> int:
    """Go on with ``plan``, which was run in ``folder``; the exit code is that of the whole suite.

    With ``dry`` nothing is started or ended, and what would be is printed.

    Raises:
        UserError: somebody runs it.
    """
    held = folders.Held(folder)
    try:
        rest = resuming.rest(plan, folder, rerun, dry)
        if dry:
            print("\n".join(_would(rest)))
            return PASSED
        return _go(plan, folder, rest, manner, "resume", stream or sys.stderr)
    finally:
        held.release()


def _would(rest: Rest) -> Iterator[str]:
    for each in rest.todo:
        how = "goes on" if each.adopted is not None else "is run"
        yield f"{each.job.key} {how}" + (f", attempt {each.attempt}" if each.attempt > 1 else "")
    kept = len(rest.passed) + len(rest.failed)
    yield f"{len(rest.todo)} jobs to do, {kept} are kept"


def _go(plan: Plan, folder: str, rest: Rest, manner: Manner, event: str, stream: TextIO) -> int:
    journal = Journal(folder)
    journal.write(event, pid=os.getpid(), host=socket.gethostname(), version=__version__)
    done = len(plan.jobs) - len(rest.todo)
    progress = Progress(stream, len(plan.jobs), done, manner.max_parallel)
    try:
        with manner.around():
            outcome = Engine(plan, folder, rest.todo, journal, progress, manner).run()
        failed = {**rest.failed, **outcome.failed}
        code = _code(plan, failed, outcome)
        if outcome.interrupted:
            journal.write("interrupted", signal=outcome.interrupted[0])
        else:
            passed = len(rest.passed) + len(outcome.passed)
            journal.write("end", code=code, passed=passed, failed=len(failed))
    finally:
        progress.close()
        journal.close()
    _tell(plan, folder, rest, outcome, stream)
    return code


def _code(plan: Plan, failed: dict[str, str], outcome: Outcome) -> int:
    if outcome.interrupted:
        return INTERRUPTED
    wrong = failed or outcome.problem or any(each.failure for each in plan.left_out)
    return FAILED if wrong else PASSED


def _tell(plan: Plan, folder: str, rest: Rest, outcome: Outcome, stream: TextIO) -> None:
    """The last lines: what became of it, and where it lies."""
    failed = {**rest.failed, **outcome.failed}
    passed = len(rest.passed) + len(outcome.passed)
    said = [f"{each.benchmark} was left out: {each.reason}" for each in plan.left_out]
    said += [f"{key} failed: {reason}" for key, reason in failed.items()]
    if outcome.problem:
        said.append(f"the record is not whole: {outcome.problem}")
    left = len(plan.jobs) - passed - len(failed)
    counts = f"{passed} of {len(plan.jobs)} passed, {len(failed)} failed"
    said.append(f"{counts}, {left} left to run" if left else counts)
    if outcome.interrupted:
        said.append(f"interrupted; go on with: inject suite run --resume {folder}")
    said.append(f"run: {folder}")
    say(stream, "".join(f"inject suite: {line}\n" for line in said))
