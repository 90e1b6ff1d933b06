"""Has an engine start job after job, sees each through to its end, writes down what became of it.

One thread that sleeps until a child ends, a signal comes or a time is up. A job that fails, or cannot be
started, never stops the others.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from ..plan.jobs import Job, Plan
from . import suite_folder
from .engine import JobEngine, Opened, QueuedJob, RunningJob
from .journal import FINISHED, INTERRUPTED, NOT_STARTED, Journal
from .policy import RunPolicy
from .processes import CannotStartError
from .progress import Progress

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalWaiter:
    """From its creation until :meth:`close` signals wake :meth:`wait`, and do nothing else.

    What was ignored when we started (SIGHUP under ``nohup``) stays so.
    """

    def __init__(self) -> None:
        self._inner, self._outer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[int, Any] = {}
        self.stops: list[int] = []
        """The signals to stop, in the order in which they came."""
        for number in (signal.SIGCHLD, *STOPS):
            if number == signal.SIGCHLD or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._came)
        self._fd_before = signal.set_wakeup_fd(self._outer, warn_on_full_buffer=False)

    def _came(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            self.stops.append(number)

    def wait(self, seconds: float | None) -> None:
        """Return when a signal has come since the last call, or after so many seconds."""
        select.select([self._inner], [], [], None if seconds is None else max(0.0, seconds))
        try:
            while os.read(self._inner, 4096):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Have signals do what they did before."""
        signal.set_wakeup_fd(self._fd_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._inner)
        os.close(self._outer)


WAIT = "wait"
LOOK = 0.5
"""Seconds between two looks at devices that other processes use."""


@dataclass
class LoopOutcome:
    """What became of the jobs of one call."""

    passed: list[str] = field(default_factory=list)
    """Keys of jobs."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why, by the job's key."""
    interrupted: list[int] = field(default_factory=list)
    """The signals to stop, in the order in which they came."""
    problem: str | None = None
    """Why the record is not whole, if it is not."""


class JobLoop:
    """Runs ``queued`` of ``plan`` on ``engine`` in the suite's run folder ``folder``."""

    def __init__(
        self,
        engine: JobEngine,
        plan: Plan,
        folder: str,
        queued: Sequence[QueuedJob],
        journal: Journal,
        progress: Progress,
        policy: RunPolicy,
    ) -> None:
        self.engine = engine
        self.plan = plan
        self.folder = folder
        self.journal = journal
        self.progress = progress
        self.policy = policy
        self.outcome = LoopOutcome()
        self._waiting = list(queued)
        self._active: list[RunningJob] = []
        self._noted: dict[
            str, tuple[str, int]
        ] = {}  # by job, what the journal has of one that runs
        self._repeats = any(job.repeat for job in plan.jobs)
        self._blocked: float | None = None  # since when the next job waits for devices
        self._look_at = 0.0
        self._at_once = engine.limited(policy.max_parallel)
        self._alarm: SignalWaiter
        progress.watch(self._active, self._waiting)

    def run(self) -> LoopOutcome:
        """Run everything; returns when nothing is left to do, or a signal ended the suite."""
        self.engine.open()
        self._alarm = SignalWaiter()
        try:
            while self._waiting or self._active:
                self._begin_some()
                if self._active or self._waiting:
                    self._alarm.wait(self._until())
                self.engine.look(self._active)
                for each in self._active:
                    each.act()
                    self._note(each)
                self._finish_some()
                self._obey()
                self.progress.tick()
        finally:
            self.engine.close()
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

    def _obey(self) -> None:
        """Stop after a signal: after the first one politely, after a second at once."""
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
        while self._waiting and len(self._active) < self._at_once and not self._alarm.stops:
            queued = self._waiting[0]
            if queued.adopted is None and not self.engine.has_room(queued.job):
                return
            blocker = None if queued.adopted is not None else self._blocker(queued)
            if blocker == WAIT:
                return
            self._waiting.pop(0)
            self._blocked = None
            if blocker is not None:
                self._not_started(queued, blocker)
            else:
                self._begin([queued, *self._with(queued)])

    def _blocker(self, queued: QueuedJob) -> str | None:
        """Why a job will never begin, or :data:`WAIT`, or nothing; then its devices are held."""
        if self._blocked is not None and time.monotonic() < self._look_at:
            return WAIT
        if (why := self.policy.ready(queued.job.benchmark)) is not None:
            return why
        obstacles = [] if self.policy.allow_busy else self.engine.obstacles(queued)
        if not obstacles:
            return None
        now = time.monotonic()
        if self._blocked is None:
            self._blocked = now
            self.progress.blocked(queued.job, obstacles)
        if now - self._blocked >= self.policy.patience:
            return f"{'; '.join(obstacles)} (waited {self.policy.patience:g} s)"
        self._look_at = now + LOOK
        return WAIT

    def _with(self, first: QueuedJob) -> list[QueuedJob]:
        """What is taken from those that wait, to begin in one go with ``first``."""
        if first.adopted is not None:
            return []
        ready = self.policy.ready
        found = self.engine.together(first, self._waiting)
        found = [each for each in found if ready(each.job.benchmark) is None]
        if found:
            taken = {each.job.key for each in found}
            self._waiting[:] = [each for each in self._waiting if each.job.key not in taken]
        return found

    def _begin(self, batch: Sequence[QueuedJob]) -> None:
        engine, first = self.engine, batch[0]
        try:
            adopted = first.adopted is not None
            begun = [engine.adopt(first)] if adopted else engine.start_all(batch, self._opened)
        except (CannotStartError, OSError) as error:
            for each in batch:
                self._not_started(each, _error_text(error))
            return
        self._waiting[:0] = batch[len(begun) :]
        for active in begun:
            self._began(active)

    def _opened(self, job: Job, attempt: int) -> Opened:
        def opened(state: str, **facts: Any) -> None:
            self._write(job, state, attempt, facts)

        return opened

    def _began(self, active: RunningJob) -> None:
        self._noted[active.job.key] = (active.state, active.attempt)
        self._active.append(active)
        self.progress.started(active)

    def _note(self, active: RunningJob) -> None:
        """Write down that a job which was queued has begun, or the other way round."""
        now = (active.state, active.attempt)
        if now != self._noted[active.job.key]:
            self._noted[active.job.key] = now
            self._write(active.job, active.state, active.attempt, {"handle": active.handle})
            self.progress.started(active)

    def _write(self, job: Job, state: str, attempt: int, facts: dict[str, Any]) -> None:
        runs = {each.key: {"run": each.run} for each in job.processes}
        self.journal.job(job.key, state, attempt, benchmark=job.benchmark, processes=runs, **facts)

    def _not_started(self, queued: QueuedJob, reason: str) -> None:
        job = queued.job
        self.journal.job(
            job.key, NOT_STARTED, queued.attempt, benchmark=job.benchmark, reason=reason, ok=False
        )
        self.outcome.failed[job.key] = reason
        self.progress.not_started(job, reason)

    # --- finishing ---------------------------------------------------------------------------------

    def _finish_some(self) -> None:
        for each in [active for active in self._active if active.over]:
            self._finish(each)
            self._active.remove(each)

    def _finish(self, active: RunningJob) -> None:
        active.problems += self.engine.clear_up(active)
        job = active.job
        ordered = {each.key: active.results[each.key] for each in job.processes}
        state = INTERRUPTED if active.interrupted else FINISHED
        if not active.interrupted:
            active.problems[:0] = self.policy.judge(self.folder, job, ordered)
            active.problems += self._linked(job)
            active.problems += self.policy.log(self.folder, self.plan, job, ordered)
        reason = "; ".join(active.problems)
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
        if not self.policy.links:
            return []
        try:
            suite_folder.link_data(self.folder, job, self._repeats)
        except OSError as error:
            return [_error_text(error)]
        return []


def _error_text(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'start'}: {error.strerror}"
    return str(error)
