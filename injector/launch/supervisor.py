"""Starting the program and seeing it, and all that it started, through to the end.

The terminal, the streams and the process group are the program's as much as ours. Signals are not
handled but waited for, so that their sender is known: what the whole group was sent (Ctrl-C) has
reached the program already, what was sent to us alone is passed on.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum
import os
import time

from injector import reaper
from injector.bus.inbox import SIGNAL
from injector.launch.signals import Relay, take

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from injector.bus.inbox import Inbox

FORWARDED = (_signal.SIGTERM, _signal.SIGHUP, _signal.SIGUSR1, _signal.SIGUSR2)
INTERRUPTS = (_signal.SIGINT, _signal.SIGQUIT)
ENDING = (_signal.SIGTERM, _signal.SIGHUP, *INTERRUPTS)
JOB_CONTROL = (_signal.SIGTSTP, _signal.SIGCONT)
GRACE = 5.0
"""Seconds between asking for an end and forcing it; and those which what outlives it is given."""
AGAIN = 0.1
"""Seconds after which what was killed and is still there is killed again."""
STUBBORN = 30.0
"""Seconds after which what cannot be killed (a driver that hangs, another user's) is left alone."""

MANY = 4096
"""Processes whose ends are remembered."""

CANNOT_EXECUTE, NOT_FOUND, TIMED_OUT = 126, 127, 124


class Ended:
    """How and when the program ended: ``code`` as of ``sys.exit``, or minus the deadly signal."""

    __slots__ = (
        "code",
        "ended",
        "exits",
        "interrupted",
        "outlived",
        "peak_rss",
        "pid",
        "started",
        "stopped",
        "timed_out",
    )

    def __init__(self, pid: int, code: int, started: float, ended: float) -> None:
        self.pid = pid
        self.code = code
        self.started = started
        """Unix time in seconds, as is ``ended``."""
        self.ended = ended
        self.timed_out = False
        """Whether its time was up: the exit code to give is :data:`TIMED_OUT` then."""
        self.stopped = False
        """Whether one of its processes had all of them end: ``code`` is 0 then."""
        self.outlived: list[str] = []
        """Command lines of the processes that outlived it and that we had to end."""
        self.peak_rss = 0
        """Bytes that the largest of its processes held, as the kernel counts: at least what we held
        ourselves when we forked it."""
        self.interrupted: tuple[int, float] | None = None
        """The first signal that was sent to end it, and when."""
        self.exits: dict[int, int] = {}
        """How it and those ended that were left to us: by number, in the form of ``code``."""


class Limits:
    """How long things may take, in seconds."""

    __slots__ = ("grace", "timeout")

    def __init__(self, timeout: float | None = None, grace: float = GRACE) -> None:
        self.timeout = timeout
        self.grace = grace


def run(
    path: str,
    words: list[str],
    environ: Mapping[str, str],
    meanwhile: Callable[[int], None],
    limits: Limits | None = None,
    apart: set[int] | None = None,
    later: Sequence[tuple[float, Callable[[], object]]] = (),
    inbox: Inbox | None = None,
) -> Ended:
    """Start ``words`` from the file ``path``; returns when nothing that it started is left.

    ``meanwhile(pid)`` is called once it has been started, each action of ``later`` if it still runs after
    so many seconds, and again after as many while it returns True; none is to take long. Processes in
    ``apart``, to which the first may add, are ours and live on. What comes into ``inbox`` is read. Raises
    OSError when the program cannot be started.
    """
    numbers = (*FORWARDED, *INTERRUPTS, *JOB_CONTROL)
    own = {_signal.SIGCHLD, SIGNAL}
    watched = {*own, *(n for n in numbers if not _ignored(n))}
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, watched)
    try:
        reaper.adopt_orphans()
        started = time.time()
        # Python ignores these two from its start, which the program should not inherit.
        quiet = (_signal.SIGPIPE, _signal.SIGXFSZ)
        pid = os.posix_spawn(path, words, environ, setsigmask=before, setsigdef=quiet)
        # Not before the program: what kills it now is not to be taken for what it will have had.
        relay = Relay(pid, watched - own)
        watch = _Supervision(
            pid, started, limits or Limits(), relay, set() if apart is None else apart
        )
        if inbox is not None:
            watch.listen(inbox)
        try:
            meanwhile(pid)
            for seconds, action in later:
                watch.when_it_runs(seconds, action)
            while not watch.over():
                watch.take(watch.wait(watched))
        finally:
            relay.end()
            watch.hear(close=True)
        return watch.ended
    finally:
        while take(watched) is not None:
            pass  # the Ctrl-C that ended the program is not to end us too
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _ignored(number: int) -> bool:
    """Whether we were started so (``nohup``, ``&``); the program then is as well."""
    return bool(_signal.getsignal(number) == _signal.SIG_IGN)


class _Supervision:
    """The program and its descendants, from its start until nothing is left of them."""

    def __init__(
        self, pid: int, started: float, limits: Limits, relay: Relay, apart: set[int]
    ) -> None:
        self.ended = Ended(pid, 0, started, started)
        self._pid = pid
        self._relay = relay
        self._limits = limits
        self._apart = apart
        self._alive = True
        self._alone = False  # no child is left
        self._gave_up = False
        self._due: dict[Callable[[], None], float] = {}  # what to do, and when
        self._inbox: Inbox | None = None
        self._stopping: set[int] = set()  # processes that have all others end with them; 0 for now
        if relay.sentinel is not None:
            apart.add(relay.sentinel.pid)
        if limits.timeout is not None:
            self._in(limits.timeout, self._time_is_up)

    # --- waiting -----------------------------------------------------------------------------------

    def over(self) -> bool:
        """Whether the program and all that it started have ended."""
        self._reap()
        now = time.monotonic()
        for action, moment in list(self._due.items()):
            if moment <= now and action in self._due:
                del self._due[action]
                action()
        return self._gave_up or (self._alone and not self._alive)

    def wait(self, watched: set[int]) -> Any:
        """The next signal, or None when something is due before."""
        if not self._due:
            return _signal.sigwaitinfo(watched)
        return take(watched, max(0.0, min(self._due.values()) - time.monotonic()))

    def when_it_runs(self, seconds: float, action: Callable[[], object]) -> None:
        """Do this if the program is still alive after so many seconds; again while it returns True."""

        def act() -> None:
            if self._alive and action() is True:
                self._in(seconds, act)

        self._in(seconds, act)

    def _in(self, seconds: float, action: Callable[[], None]) -> None:
        self._due[action] = time.monotonic() + seconds

    def _reap(self) -> None:
        """Take note of who has ended."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                self._alone = True
                return
            if pid == 0:
                self._alone = not self._alive and not self._others()
                return
            if pid not in self._apart:
                self.ended.peak_rss = max(self.ended.peak_rss, used.ru_maxrss * 1024)
            if pid == self._pid:
                self._note(status)
            elif not os.WIFSTOPPED(status):
                self._apart.discard(pid)  # from now on the number may be another one's
                self._remember(pid, status)

    def _remember(self, pid: int, status: int) -> None:
        if len(self.ended.exits) < MANY:
            self.ended.exits[pid] = os.waitstatus_to_exitcode(status)

    def _others(self) -> bool:
        """Whether children are left that are not ours to keep: looked for only if we keep some."""
        return not self._apart or bool(reaper.descendants(os.getpid(), self._apart))

    def _note(self, status: int) -> None:
        """Something became of the program itself."""
        if os.WIFSTOPPED(status):
            if os.WSTOPSIG(status) in reaper.KEYED_STOPS:
                # A shell that waits for us shall see us stopped as well: until it has us go on.
                os.kill(os.getpid(), _signal.SIGSTOP)
            return
        self._alive = False
        self.ended.code = os.waitstatus_to_exitcode(status)
        self.ended.ended = time.time()
        self._end_relay()
        self._remember(self._pid, status)
        self._due.pop(self._pass_on, None)
        self._due.pop(self._time_is_up, None)
        self._due.pop(self._stop_all, None)
        self.hear()
        if self.ended.stopped:
            # Even if it had to be killed: a launcher may take longer than its grace.
            self.ended.code = 0
        if self._force_all in self._due:
            return  # it was one of many that had to be killed
        if self.ended.code < 0 or self.ended.timed_out or self.ended.stopped:
            self._end_all()
        else:
            self._in(self._limits.grace, self._end_left)

    # --- signals -----------------------------------------------------------------------------------

    def listen(self, inbox: Inbox) -> None:
        """Read what comes into the inbox, when it comes."""
        self._inbox = inbox
        inbox.listen()
        self.hear()

    def hear(self, close: bool = False) -> None:
        """Read what has come into the inbox."""
        if self._inbox is None:
            return
        for pid in self._inbox.read():
            self.ended.stopped = True
            self._stopping.add(pid)
            self._in(0, self._stop_all)
        if close:
            self._inbox.close()

    def take(self, signal: Any) -> None:
        """A signal came: to us alone, or to all of us."""
        if signal is not None and signal.si_signo == SIGNAL:
            self.hear()
            return
        if signal is None or signal.si_signo == _signal.SIGCHLD:
            return
        self._reap()  # the end of the program, if it came first, is reported last
        number = signal.si_signo
        if number in ENDING and self._alive and signal.si_pid != self._pid:
            self.ended.interrupted = self.ended.interrupted or (number, time.time())
        if not self._alive:
            self._hurry(signal.si_signo)
        else:
            self._relay.take(signal)
            self._plan_relay()

    def _plan_relay(self) -> None:
        due = self._relay.due()
        if due is not None:
            self._due[self._pass_on] = due

    def _pass_on(self) -> None:
        self._relay.pass_on()
        self._plan_relay()

    def _end_relay(self) -> None:
        if self._relay.sentinel is not None:
            self._apart.discard(self._relay.sentinel.pid)
        self._relay.end()

    def _hurry(self, number: int) -> None:
        """A signal, after the program has ended, cuts the waiting for its remaining processes short."""
        if number in (*INTERRUPTS, _signal.SIGTERM, _signal.SIGHUP):
            for action in (self._end_left, self._end_all, self._force_all):
                if action in self._due:
                    self._in(0, action)

    # --- ends --------------------------------------------------------------------------------------

    def _time_is_up(self) -> None:
        """Ask the program, which may know best how to end what it started."""
        self.ended.timed_out = True
        process = reaper.find(self._pid)
        if process is not None:
            reaper.end_politely([process])
        self._in(self._limits.grace, self._end_all)

    def _stop_all(self) -> None:
        """One process has had enough: at once, or when it has ended and others may wait for it."""
        if 0 in self._stopping:
            reaper.end_politely(self._left())
            self._in(self._limits.grace, self._end_all)
        elif any(map(reaper.find, self._stopping)):
            self._in(AGAIN, self._stop_all)
        else:
            self._stopping.add(0)
            self._in(self._limits.grace, self._stop_all)

    def _end_left(self) -> None:
        """What outlived the program had its time."""
        self.ended.outlived += map(reaper.command, self._left())
        self._end_all()

    def _end_all(self) -> None:
        """End what is left politely; the program, if it still runs, by force: it has had its time."""
        left = self._left()
        reaper.end_politely([process for process in left if process.pid != self._pid])
        reaper.end_by_force([process for process in left if process.pid == self._pid])
        self._in(self._limits.grace, self._force_all)
        self._in(self._limits.grace + STUBBORN, self._give_up)

    def _force_all(self) -> None:
        left = self._left()
        reaper.end_by_force(left)
        if left or not self._alone:
            self._in(AGAIN, self._force_all)

    def _give_up(self) -> None:
        """What the kernel does not let go cannot be ended."""
        left = self._left()
        self.ended.outlived += [f"{reaper.command(process)} (cannot be ended)" for process in left]
        if self._alive:
            self.ended.code = -_signal.SIGKILL
        self._gave_up = True

    def _left(self) -> list[reaper.Process]:
        return reaper.descendants(os.getpid(), self._apart)


def die(number: int) -> int:
    """End as the program did, by the same signal, without a core dump of our own.

    Returns a shell's exit code for such a death, should we survive it.
    """
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    if number not in (_signal.SIGKILL, _signal.SIGSTOP):
        _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number
