"""What is still to do of a plan that was run before: what has finished is kept, what was lost runs again."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..plan.jobs import Job, Plan, Process
from . import adopting, journal
from .active import clear
from .engine import Todo
from .journal import Past

RERUNS = ("never", "onfail", "always")
PATIENCE = 10.0
"""Seconds in which a process that lives must turn out to be looked after by its ``inject run``."""


@dataclass
class Rest:
    """What an earlier call has left to do."""

    todo: list[Todo] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    """Keys of the jobs that are not run again, since they went well; and"""
    failed: dict[str, str] = field(default_factory=dict)
    """those that are not run again although they did not, with the reason."""


def rest(plan: Plan, folder: str, rerun: str = "never", dry: bool = False) -> Rest:
    """What is to be done of ``plan``, which was run in ``folder``.

    ``rerun``: which jobs that have finished run once more, one of :data:`RERUNS`. Jobs that run still
    come first; what was lost when the suite or the machine died runs again in a new attempt. What is
    left of it is ended now, unless ``dry``.
    """
    found = Rest()
    past = journal.read(folder)
    for job in plan.jobs:
        _sort(found, job, past.get(job.key), folder, rerun, dry)
    found.todo.sort(key=lambda todo: todo.adopted is None)
    return found


def _sort(found: Rest, job: Job, before: Past | None, folder: str, rerun: str, dry: bool) -> None:
    if before is None:
        found.todo.append(Todo(job, 1))
    elif before.state == journal.FINISHED:
        if rerun == "always" or (rerun == "onfail" and not before.ok):
            found.todo.append(_again(job, before.attempt + 1, folder))
        elif before.ok:
            found.passed.append(job.key)
        else:
            found.failed[job.key] = before.reason
    elif before.state == journal.STARTED:
        found.todo.append(_after_death(job, before, folder, dry))
    else:
        found.todo.append(_again(job, _next(job, before.attempt, folder), folder))


def _again(job: Job, attempt: int, folder: str) -> Todo:
    return Todo(job.attempt(attempt, folder), attempt)


def _next(job: Job, attempt: int, folder: str) -> int:
    """The attempt that is to be made: the same again, as long as nothing has begun in it."""
    tried = job.attempt(attempt, folder)
    return attempt + any(adopting.begun(folder, each) for each in tried.processes)


def _after_death(job: Job, before: Past, folder: str, dry: bool) -> Todo:
    """A job of which nobody wrote down how it ended: it runs, has ended, or was lost."""
    tried = job.attempt(before.attempt, folder)
    looked_after = [_looked_after(folder, each) for each in tried.processes]
    if all(looked_after):
        return Todo(tried, before.attempt, before.time)
    left = [each for process in tried.processes for each in adopting.marked(folder, process)]
    if not dry:
        clear(left, lambda: None)
    return _again(job, _next(job, before.attempt, folder), folder)


def _looked_after(folder: str, process: Process) -> bool:
    """Whether a process runs under its ``inject run``, or has left the record of its end."""
    end = time.monotonic() + PATIENCE
    while adopting.living(folder, process):
        # One that waited at the gate when we died ends; one that has just passed it is seen in a moment.
        if adopting.supervisors(folder, process):
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return adopting.ended(folder, process) is not None
