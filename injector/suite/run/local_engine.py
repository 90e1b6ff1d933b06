"""The local engine: starts job after job, sees each through to its end, writes down what became of it.

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
from typing import Any, NamedTuple

from ... import reaper
from ..plan.jobs import Job, Plan
from . import active_job, processes, suite_folder
from .active_job import ActiveJob, end_leftovers, orphans
from .device_locks import DeviceLocks, release
from .journal import FINISHED, INTERRUPTED, NOT_STARTED, STARTED, Journal
from .policy import RunPolicy
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


class QueuedJob(NamedTuple):
    """A job that is to run, or that runs already."""

    job: Job
    """As this attempt starts it."""
    attempt: int
    adopted: float | None = None
    """When it was started (unix seconds), if that was done before us."""


@dataclass
class EngineOutcome:
    """What became of the jobs of one call."""

    passed: list[str] = field(default_factory=list)
    """Keys of jobs."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why, by the job's key."""
    interrupted: list[int] = field(default_factory=list)
    """The signals to stop, in the order in which they came."""
    problem: str | None = None
    """Why the record is not whole, if it is not."""


class LocalEngine:
    """Runs ``queued`` of ``plan`` in the suite's run folder ``folder``."""

    def __init__(
        self,
        plan: Plan,
        folder: str,
        queued: Sequence[QueuedJob],
        journal: Journal,
        progress: Progress,
        policy: RunPolicy,
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.journal = journal
        self.progress = progress
        self.policy = policy
        self.devices = DeviceLocks(plan.machine, os.path.join(plan.base, ".locks"))
        self.outcome = EngineOutcome()
        self._waiting = list(queued)
        self._active: list[ActiveJob] = []
        self._repeats = any(job.repeat for job in plan.jobs)
        self._blocked: float | None = None  # since when the next job waits for devices
        self._look_at = 0.0
        self._held: list[int] = []  # locks of devices, for the job that is about to begin
        self._childless = True
        self._alarm: SignalWaiter
        progress.watch(self._active, self._waiting)

    def run(self) -> EngineOutcome:
        """Run everything; returns when nothing is left to do, or a signal ended the suite."""
        _open_standard_streams()
        reaper.adopt_orphans()
        self._alarm = SignalWaiter()
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
        while self._waiting and len(self._active) < self.policy.max_parallel:
            queued = self._waiting[0]
            blocker = None if queued.adopted is not None else self._blocker(queued)
            if blocker == WAIT:
                return
            self._waiting.pop(0)
            self._blocked = None
            if blocker is None:
                self._begin(queued)
            else:
                self._not_started(queued, blocker)

    def _blocker(self, queued: QueuedJob) -> str | None:
        """Why a job will never begin, or :data:`WAIT`, or nothing; then its devices are held."""
        if self._blocked is not None and time.monotonic() < self._look_at:
            return WAIT
        if (why := self.policy.ready(queued.job.benchmark)) is not None:
            return why
        obstacles = [] if self.policy.allow_busy else self._obstacles(queued)
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

    def _obstacles(self, queued: QueuedJob) -> list[str]:
        """What else uses the devices of a job; if nothing does, they are locked for it from now on."""
        devices = queued.job.devices
        held = self.devices.take(devices, {"job": queued.job.key, "run": self.folder})
        if isinstance(held, str):
            return [held]
        obstacles = self.devices.obstacles(devices)
        if obstacles:
            release(held)
        else:
            self._held = held
        return obstacles

    def _begin(self, queued: QueuedJob) -> None:
        active = ActiveJob(
            queued.job, queued.attempt, self.folder, queued.adopted is not None, queued.adopted
        )
        if queued.adopted is None:
            try:
                self._start(queued, active)
            except (processes.CannotStartError, OSError) as error:
                self._not_started(queued, _error_text(error))
                return
        self._active.append(active)
        self.progress.started(active)

    def _start(self, queued: QueuedJob, active: ActiveJob) -> None:
        job = queued.job
        held, self._held = self._held, []

        def opened(pids: Sequence[int]) -> None:
            self.journal.job(
                job.key,
                STARTED,
                queued.attempt,
                benchmark=job.benchmark,
                boot=active_job.boot_id(),
                pids=list(pids),
                processes={each.key: {"run": each.run} for each in job.processes},
            )

        try:
            active.started_as(processes.start_processes(job.processes, self.folder, held, opened))
        finally:
            release(held)

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

    def _finish(self, active: ActiveJob) -> None:
        self._clear_up(active)
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
        try:
            suite_folder.link_data(self.folder, job, self._repeats)
        except OSError as error:
            return [_error_text(error)]
        return []

    def _clear_up(self, active: ActiveJob) -> None:
        """Leave nothing running of a job: only an ``inject run`` that was killed can have."""
        left = []
        if active.adopted:
            left = [
                p
                for each in active.job.processes
                for p in active_job.marked_processes(self.folder, each)
            ]
        elif not self._childless:
            left = orphans(lambda pid: any(each.is_its_child(pid) for each in self._active))
        if left:
            ended = end_leftovers(left, self._reap)
            active.problems += [
                f"a process of it was left running, and was ended: {words}" for words in ended
            ]


def _error_text(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'start'}: {error.strerror}"
    return str(error)


def _open_standard_streams() -> None:
    """Where one of them is closed, the next file would take its place, and a child's output."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
