"""The loop that runs a suite: an engine starts job after job, and the journal records how each one ends.

::

    JobLoop -- asks --> JobEngine    which jobs can start, and to start them
            -- asks --> RunPolicy    whether a benchmark is ready, and whether a job has passed
            -- tells -> Journal      every change of a job's state, before the next step is taken
            -- tells -> Progress     what people see

There is one thread. It sleeps until a child ends, a signal comes, or a deadline of a job has come. A job that
fails or cannot be started never stops the others.
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
from .engine import JobEngine, QueuedJob, RunningJob
from .journal import FINISHED, INTERRUPTED, NOT_STARTED, Journal
from .policy import RunPolicy
from .processes import CannotStartError
from .progress import Progress

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that end a suite."""


class SignalWaiter:
    """Turns signals into a wake-up of :meth:`wait`, from its creation until :meth:`close`.

    A signal that was ignored before (SIGHUP under ``nohup``) stays ignored.
    """

    def __init__(self) -> None:
        # The wake-up descriptor of Python, a pipe, is what wait() selects on: with a handler alone, a signal
        # that comes between the last check and the sleep would be noticed only when the sleep is over.
        self._wakeups, self._wakeup_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._handlers_before: dict[int, Any] = {}
        self.stops: list[int] = []
        """The signals to stop, in the order in which they came."""
        for number in (signal.SIGCHLD, *STOPS):
            if number == signal.SIGCHLD or signal.getsignal(number) != signal.SIG_IGN:
                self._handlers_before[number] = signal.signal(number, self._on_signal)
        # A full pipe loses nothing: wait() only needs one byte to wake up.
        self._fd_before = signal.set_wakeup_fd(self._wakeup_end, warn_on_full_buffer=False)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            self.stops.append(number)

    def wait(self, seconds: float | None) -> None:
        """Sleep for so many seconds, or less if a signal comes or has come since the last call."""
        select.select([self._wakeups], [], [], None if seconds is None else max(0.0, seconds))
        try:
            while os.read(self._wakeups, 4096):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Restore what signals did before."""
        signal.set_wakeup_fd(self._fd_before)
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler)
        os.close(self._wakeups)
        os.close(self._wakeup_end)


WAIT = "wait"
"""In place of a reason: a job cannot start now, but may later."""
LOOK = 0.5
"""Seconds between two looks at devices that other processes use."""


@dataclass
class LoopOutcome:
    """How the jobs of a suite ended: those of one run of the loop, and those that earlier ones have run."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """The reason for which each other job failed, by its key."""
    interrupted: list[int] = field(default_factory=list)
    """The signals to stop, in the order in which they came."""
    problem: str | None = None
    """Why the journal is incomplete, if it is."""


class JobLoop:
    """Runs the ``queued`` jobs of ``plan`` on ``engine``; ``folder`` is the suite's run folder.

    How they end is added to ``outcome``, which has how others ended.
    """

    def __init__(
        self,
        engine: JobEngine,
        plan: Plan,
        folder: str,
        queued: Sequence[QueuedJob],
        journal: Journal,
        progress: Progress,
        policy: RunPolicy,
        outcome: LoopOutcome | None = None,
    ) -> None:
        self.engine = engine
        self.plan = plan
        self.folder = folder
        self.journal = journal
        self.progress = progress
        self.policy = policy
        self.outcome = outcome or LoopOutcome()
        self._waiting = list(queued)
        self._active: list[RunningJob] = []
        self._recorded: dict[str, tuple[str, int]] = {}
        """By job, the state and attempt that the journal has of one that runs."""
        self._repeats = any(job.repeat for job in plan.jobs)
        self._blocked_since: float | None = None
        """The monotonic time since which the next job has been waiting for devices."""
        self._look_at = 0.0
        """The monotonic time at which its devices are looked at again."""
        self._at_once = engine.limited(policy.max_parallel)
        self._signals: SignalWaiter
        progress.watch(self._active, self._waiting)

    def run(self) -> LoopOutcome:
        """Run all jobs; return when all have ended, after a signal all those that were running."""
        self.engine.open()
        self._signals = SignalWaiter()
        try:
            while self._waiting or self._active:
                self._start_some()
                if self._active or self._waiting:
                    self._signals.wait(self._seconds_until_due())
                # First look, then act: a job that has just ended by itself must not be ended by force because
                # its time is up as well.
                self.engine.look(self._active)
                for active in self._active:
                    active.act()
                    self._record_change(active)
                for over in [active for active in self._active if active.over]:
                    self._finish(over)
                    self._active.remove(over)
                self._handle_signals()
                self.progress.tick()
        finally:
            self.engine.close()
            self._signals.close()
        self.outcome.problem = self.journal.problem
        return self.outcome

    # --- waiting -----------------------------------------------------------------------------------

    def _seconds_until_due(self) -> float:
        """Seconds until something has to be done, unless a signal comes before."""
        moments = [active.until() for active in self._active]
        if self._blocked_since is not None:
            moments.append(self._look_at)
        if (tick := self.progress.next_tick()) is not None:
            moments.append(tick)
        return min(moments, default=time.monotonic()) - time.monotonic()

    def _handle_signals(self) -> None:
        """End the jobs that run: after a first signal politely, after a second one at once."""
        handled = len(self.outcome.interrupted)
        for number in self._signals.stops[handled:]:
            self.outcome.interrupted.append(number)
            first = len(self.outcome.interrupted) == 1
            self._waiting.clear()
            self._blocked_since = None
            self.progress.stopping(first, len(self._active))
            for active in self._active:
                active.end() if first else active.end_now()

    # --- starting ----------------------------------------------------------------------------------

    def _start_some(self) -> None:
        """Start as many jobs as may run side by side, in the order of the plan."""
        while self._waiting and len(self._active) < self._at_once and not self._signals.stops:
            queued = self._waiting[0]
            # A job that was started before us needs neither room nor free devices: it has them.
            if queued.adopted is None and not self.engine.has_room(queued.job):
                return
            blocker = None if queued.adopted is not None else self._blocker(queued)
            if blocker == WAIT:
                return
            self._waiting.pop(0)
            self._blocked_since = None
            if blocker is not None:
                self._not_started(queued, blocker)
            else:
                self._start([queued, *self._take_together(queued)])

    def _blocker(self, queued: QueuedJob) -> str | None:
        """Why a job can never start, or :data:`WAIT` if it may later; None if it can start now.

        With None the engine has locked the job's devices, so it has to be started next.
        """
        if self._blocked_since is not None and time.monotonic() < self._look_at:
            return WAIT
        if (why := self.policy.ready(queued.job.benchmark)) is not None:
            return why
        obstacles = [] if self.policy.allow_busy else self.engine.obstacles(queued)
        if not obstacles:
            return None
        now = time.monotonic()
        if self._blocked_since is None:
            self._blocked_since = now
            self.progress.blocked(queued.job, obstacles)
        if now - self._blocked_since >= self.policy.patience:
            return f"{'; '.join(obstacles)} (waited {self.policy.patience:g} s)"
        self._look_at = now + LOOK
        return WAIT

    def _take_together(self, first: QueuedJob) -> list[QueuedJob]:
        """Take from the waiting jobs those that the engine starts in one go with ``first``."""
        if first.adopted is not None:
            return []
        ready = self.policy.ready
        together = self.engine.together(first, self._waiting)
        # One that is not ready stays where it is, and fails with its reason when its turn comes.
        together = [queued for queued in together if ready(queued.job.benchmark) is None]
        if together:
            keys = {queued.job.key for queued in together}
            self._waiting[:] = [queued for queued in self._waiting if queued.job.key not in keys]
        return together

    def _start(self, batch: Sequence[QueuedJob]) -> None:
        engine, first = self.engine, batch[0]
        try:
            adopted = first.adopted is not None
            started = [engine.adopt(first)] if adopted else engine.start(batch, self._opened)
        except (CannotStartError, OSError) as error:
            for queued in batch:
                self._not_started(queued, _error_text(error))
            return
        # Those that the engine had no room for wait again, before all others.
        self._waiting[:0] = batch[len(started) :]
        for active in started:
            self._recorded[active.job.key] = (active.state, active.attempt)
            self._active.append(active)
            self.progress.started(active)

    def _opened(self, queued: QueuedJob, state: str, **facts: Any) -> None:
        """Record the start of a job, before an engine really starts it.

        The other way round, a suite that is killed in between would not know of the job, and start it twice.
        """
        self._write(queued.job, state, queued.attempt, facts)

    def _record_change(self, active: RunningJob) -> None:
        """Record that a queued job has started, or was queued again by its scheduler."""
        now = (active.state, active.attempt)
        if now != self._recorded[active.job.key]:
            self._recorded[active.job.key] = now
            self._write(active.job, active.state, active.attempt, {"handle": active.handle})
            self.progress.started(active)

    def _write(self, job: Job, state: str, attempt: int, facts: dict[str, Any]) -> None:
        runs = {process.key: {"run": process.run} for process in job.processes}
        self.journal.job(job.key, state, attempt, benchmark=job.benchmark, processes=runs, **facts)

    def _not_started(self, queued: QueuedJob, reason: str) -> None:
        """Record that a job failed because it could not be started."""
        job = queued.job
        self.journal.job(
            job.key, NOT_STARTED, queued.attempt, benchmark=job.benchmark, reason=reason, ok=False
        )
        self.outcome.failed[job.key] = reason
        self.progress.not_started(job, reason)

    # --- finishing ---------------------------------------------------------------------------------

    def _finish(self, active: RunningJob) -> None:
        """Judge a job that is over, and record how it ended."""
        # First of all nothing may be left running: it would hold the devices of the next job.
        active.problems += self.engine.clear_up(active)
        job = active.job
        ends = {process.key: active.results[process.key] for process in job.processes}
        state = INTERRUPTED if active.interrupted else FINISHED
        # An interrupted job is neither passed nor failed: when the suite is resumed it runs again.
        if not active.interrupted:
            active.problems[:0] = self.policy.judge(self.folder, job, ends)
            try:
                if self.policy.links:
                    suite_folder.link_data(self.folder, job, self._repeats)
            except OSError as error:
                active.problems.append(_error_text(error))
            active.problems += self.policy.log(self.folder, self.plan, job, ends)
        reason = "; ".join(active.problems)
        ok = not reason and not active.interrupted
        # Last: a job whose end is in the journal is never looked at again.
        self.journal.job(
            job.key,
            state,
            active.attempt,
            benchmark=job.benchmark,
            ok=ok,
            reason=reason,
            seconds=round(active.seconds, 3),
            processes={key: end.as_json() for key, end in ends.items()},
        )
        if ok:
            self.outcome.passed.append(job.key)
        elif not active.interrupted:
            self.outcome.failed[job.key] = reason
        self.progress.finished(active, ok, reason)


def _error_text(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'start'}: {error.strerror}"
    return str(error)
