"""The engine: starts one job after the other, sees each through to its end, writes down what became of it.

One thread that sleeps until a child ends, a signal comes or a time is up. A job that fails, or cannot be
started, never stops the others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple

from ... import reaper
from ..plan.jobs import Job, Plan
from . import adopting, isolation, links, results, starting
from .active import Active, clear, strangers
from .alarm import Alarm
from .isolation import Devices
from .journal import FINISHED, INTERRUPTED, NOT_STARTED, STARTED, Journal
from .progress import Progress
from .results import Result

WAIT = "wait"
LOOK = 0.5
"""Seconds between two looks at devices that somebody else uses."""


class Todo(NamedTuple):
    """A job that is to run, or that runs already."""

    job: Job
    """As this attempt starts it."""
    attempt: int
    adopted: float | None = None
    """When it was started (unix seconds), if that was done before us."""


@dataclass
class Manner:
    """How jobs are run."""

    max_parallel: int = 1
    patience: float = 60.0
    """Seconds to wait for devices that somebody else uses."""
    allow_busy: bool = False
    """Whether a job may begin on devices that somebody else uses."""
    ready: Callable[[str], str | None] = lambda benchmark: None
    """Why a benchmark cannot be started (not installed, not prepared), if it cannot."""
    around: Callable[[], AbstractContextManager[object]] = nullcontext
    """What is held while jobs run: environments, so that nobody changes them meanwhile."""
    judge: Callable[[str, Job, Mapping[str, Result]], list[str]] = results.by_codes
    """What is wrong with a job whose processes have ended so, as sentences; the suite's folder first."""


@dataclass
class Outcome:
    """What became of the jobs of one call."""

    passed: list[str] = field(default_factory=list)
    """Keys of jobs."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why, by the job's key."""
    interrupted: list[int] = field(default_factory=list)
    """The signals that asked us to stop."""
    problem: str | None = None
    """Why the record is not whole, if it is not."""


class Engine:
    """Runs ``todo`` of ``plan`` in the suite's run folder ``folder``."""

    def __init__(
        self,
        plan: Plan,
        folder: str,
        todo: Sequence[Todo],
        journal: Journal,
        progress: Progress,
        manner: Manner,
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.journal = journal
        self.progress = progress
        self.manner = manner
        self.devices = Devices(plan.machine, os.path.join(plan.base, ".locks"))
        self.outcome = Outcome()
        self._waiting = list(todo)
        self._active: list[Active] = []
        self._repeats = any(job.repeat for job in plan.jobs)
        self._blocked: float | None = None  # since when the next job waits for devices
        self._look_at = 0.0
        self._held: list[int] = []  # locks of devices, for the job that is about to begin
        self._childless = True
        self._alarm: Alarm
        progress.watch(self._active, self._waiting)

    def run(self) -> Outcome:
        """Run everything; returns when nothing is left to do, or somebody wanted us to stop."""
        _open_standard_streams()
        reaper.adopt_orphans()
        self._alarm = Alarm()
        try:
            while self._waiting or self._active:
                self._begin_some()
                if self._active or self._waiting:
                    self._alarm.wait(self._until())
                self._reap()
                for each in self._active:
                    each.act()
                self._finish_some()
                self._obey()
                self.progress.tick()
        finally:
            self._alarm.close()
        self.outcome.problem = self.journal.problem
        return self.outcome

    # --- waiting -----------------------------------------------------------------------------------

    def _until(self) -> float:
        """Seconds that nothing has to be done for."""
        moments = [each.until() for each in self._active]
        if self._blocked is not None:
            moments.append(self._look_at)
        if (tick := self.progress.next_tick()) is not None:
            moments.append(tick)
        return min(moments, default=time.monotonic()) - time.monotonic()

    def _reap(self) -> None:
        """Take note of every child that has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                return
            if pid == 0:
                self._childless = False
                return
            code = os.waitstatus_to_exitcode(status)
            any(each.reaped(pid, code) for each in self._active)

    def _obey(self) -> None:
        """Stop, if somebody wants that: first politely, when asked again at once."""
        seen = len(self.outcome.interrupted)
        for number in self._alarm.stops[seen:]:
            self.outcome.interrupted.append(number)
            first = len(self.outcome.interrupted) == 1
            self._waiting.clear()
            self._blocked = None
            self.progress.stopping(first, bool(self._active))
            for each in self._active:
                each.end() if first else each.end_now()

    # --- beginning ---------------------------------------------------------------------------------

    def _begin_some(self) -> None:
        """Start as many jobs as may run side by side."""
        while self._waiting and len(self._active) < self.manner.max_parallel:
            todo = self._waiting[0]
            hindrance = None if todo.adopted is not None else self._hindrance(todo)
            if hindrance == WAIT:
                return
            self._waiting.pop(0)
            self._blocked = None
            if hindrance is None:
                self._begin(todo)
            else:
                self._not_started(todo, hindrance)

    def _hindrance(self, todo: Todo) -> str | None:
        """Why a job will never begin, or :data:`WAIT`, or nothing; then its devices are held."""
        if self._blocked is not None and time.monotonic() < self._look_at:
            return WAIT
        if (why := self.manner.ready(todo.job.benchmark)) is not None:
            return why
        obstacles = [] if self.manner.allow_busy else self._obstacles(todo)
        if not obstacles:
            return None
        now = time.monotonic()
        if self._blocked is None:
            self._blocked = now
            self.progress.blocked(todo.job, obstacles)
        if now - self._blocked >= self.manner.patience:
            return f"{'; '.join(obstacles)} (waited {self.manner.patience:g} s)"
        self._look_at = now + LOOK
        return WAIT

    def _obstacles(self, todo: Todo) -> list[str]:
        """Who uses the devices of a job; if nobody does, they are held for it from now on."""
        devices = todo.job.devices
        held = self.devices.take(devices, {"job": todo.job.key, "run": self.folder})
        if isinstance(held, str):
            return [held]
        obstacles = self.devices.obstacles(devices)
        if obstacles:
            isolation.release(held)
        else:
            self._held = held
        return obstacles

    def _begin(self, todo: Todo) -> None:
        active = Active(todo.job, todo.attempt, self.folder, todo.adopted is not None, todo.adopted)
        if todo.adopted is None:
            try:
                self._start(todo, active)
            except (starting.CannotStartError, OSError) as error:
                self._not_started(todo, _sentence(error))
                return
        self._active.append(active)
        self.progress.started(active)

    def _start(self, todo: Todo, active: Active) -> None:
        job = todo.job
        held, self._held = self._held, []

        def opened(pids: Sequence[int]) -> None:
            self.journal.job(
                job.key,
                STARTED,
                todo.attempt,
                benchmark=job.benchmark,
                boot=adopting.boot(),
                pids=list(pids),
                processes={each.key: {"run": each.run} for each in job.processes},
            )

        try:
            active.has(starting.start(job.processes, self.folder, held, opened))
        finally:
            isolation.release(held)

    def _not_started(self, todo: Todo, reason: str) -> None:
        job = todo.job
        self.journal.job(
            job.key, NOT_STARTED, todo.attempt, benchmark=job.benchmark, reason=reason, ok=False
        )
        self.outcome.failed[job.key] = reason
        self.progress.not_started(job, reason)

    # --- finishing ---------------------------------------------------------------------------------

    def _finish_some(self) -> None:
        for each in [active for active in self._active if active.over]:
            self._finish(each)
            self._active.remove(each)

    def _finish(self, active: Active) -> None:
        self._clear_up(active)
        job = active.job
        ordered = {each.key: active.results[each.key] for each in job.processes}
        state = INTERRUPTED if active.interrupted else FINISHED
        if not active.interrupted:
            active.wrong[:0] = self.manner.judge(self.folder, job, ordered)
            active.wrong += self._linked(job)
        reason = "; ".join(active.wrong)
        ok = not reason and not active.interrupted
        self.journal.job(
            job.key,
            state,
            active.attempt,
            benchmark=job.benchmark,
            ok=ok,
            reason=reason,
            seconds=round(active.seconds, 3),
            processes={key: each.as_json() for key, each in ordered.items()},
        )
        if ok:
            self.outcome.passed.append(job.key)
        elif not active.interrupted:
            self.outcome.failed[job.key] = reason
        self.progress.finished(active, ok, reason)

    def _linked(self, job: Job) -> list[str]:
        """What went wrong with the links to its data."""
        try:
            links.link(self.folder, job, self._repeats)
        except OSError as error:
            return [_sentence(error)]
        return []

    def _clear_up(self, active: Active) -> None:
        """Leave nothing running of a job: only an ``inject run`` that was killed can have."""
        left = []
        if active.adopted:
            left = [p for each in active.job.processes for p in adopting.marked(self.folder, each)]
        elif not self._childless:
            left = strangers(lambda pid: any(each.knows(pid) for each in self._active))
        if left:
            ended = clear(left, self._reap)
            active.wrong += [f"left running, and was ended: {words}" for words in ended]


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'start'}: {error.strerror}"
    return str(error)


def _open_standard_streams() -> None:
    """Where one of them is closed, the next file would take its place, and a child's output."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
