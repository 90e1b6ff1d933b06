"""Starting the program, and waiting until it and all that it has started have ended.

The program shares our terminal, streams and process group. Signals are blocked and waited for, not handled,
so that their senders are known: what the whole group was sent (Ctrl-C) has reached the program already, what
was sent to us alone is passed on (:mod:`.signals`).

The supervisor adopts orphans, so that it sees the end of every descendant of the program. Once the program
has ended, what is left of these has a time of grace, and is then ended, politely first and by force next.
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
"""Seconds from the request to end to the kill, and those that processes have which outlive the program."""
AGAIN = 0.1
"""Seconds after which what was killed and still exists is killed again."""
STUBBORN = 30.0
"""Seconds after which a process that cannot be killed (in a driver that hangs, another user's) is left."""

MANY = 4096
"""How many processes' ends are remembered."""

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
        """Whether its time was up. Then our own exit code is :data:`TIMED_OUT`."""
        self.stopped = False
        """Whether one of its processes has ended all of them. Then ``code`` is 0."""
        self.outlived: list[str] = []
        """The command lines of processes that outlived it, and that we had to end."""
        self.peak_rss = 0
        """Bytes that the largest of its processes held, as the kernel counts: not less than what we held
        ourselves when we forked it."""
        self.interrupted: tuple[int, float] | None = None
        """The first signal that was sent to end it, and when, as unix time."""
        self.exits: dict[int, int] = {}
        """By process id, how the program and those of its descendants ended whose parents had ended before,
        in the form of ``code``."""


class Limits:
    """How long the program may run, and how long what has to end may take, in seconds."""

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
    """Start the program ``words`` from the file ``path``, and return when nothing is left of what it started.

    ``meanwhile(pid)`` is called once the program has started. Each action of ``later`` is called if the
    program still runs after so many seconds, and again after as many as long as it returns True. None of
    these may take long. Processes in ``apart``, to which ``meanwhile`` may add, are ours and are left alone.
    What comes into ``inbox`` is read.

    Raises OSError when the program cannot be started.
    """
    numbers = (*FORWARDED, *INTERRUPTS, *JOB_CONTROL)
    own = {_signal.SIGCHLD, SIGNAL}
    watched = {*own, *(n for n in numbers if not _ignored(n))}
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, watched)
    try:
        reaper.adopt_orphans()
        started = time.time()
        # Python ignores these two from its start. The program must not inherit that.
        quiet = (_signal.SIGPIPE, _signal.SIGXFSZ)
        pid = os.posix_spawn(path, words, environ, setsigmask=before, setsigdef=quiet)
        # Not before the program: a signal from before its start would count as one that it has had.
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
        # The Ctrl-C that ended the program must not end us, once signals are let through.
        while take(watched) is not None:
            pass
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _ignored(number: int) -> bool:
    """Whether we ignore a signal since our start (``nohup``, ``&``); then so does the program."""
    return bool(_signal.getsignal(number) == _signal.SIG_IGN)


class _Supervision:
    """Watches the program and its descendants, from its start until none of them is left."""

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
        self._due: dict[Callable[[], None], float] = {}  # actions, and when each is due (monotonic)
        self._inbox: Inbox | None = None
        # Processes with whose ends all others are to end; 0 is among them once that is due.
        self._stopping: set[int] = set()
        self._deadlock: object = None  # what all threads waited in when that was looked at
        if relay.sentinel is not None:
            apart.add(relay.sentinel.pid)
        if limits.timeout is not None:
            self._call_in(limits.timeout, self._time_is_up)

    # --- waiting -----------------------------------------------------------------------------------

    def over(self) -> bool:
        """Call the actions that are due. Returns whether the program and all its descendants have ended."""
        self._reap()
        now = time.monotonic()
        for action, moment in list(self._due.items()):
            if moment <= now and action in self._due:
                del self._due[action]
                action()
        return self._gave_up or (self._alone and not self._alive)

    def wait(self, watched: set[int]) -> Any:
        """Wait for the next signal, and return it; None when an action is due before that."""
        if not self._due:
            return _signal.sigwaitinfo(watched)
        return take(watched, max(0.0, min(self._due.values()) - time.monotonic()))

    def when_it_runs(self, seconds: float, action: Callable[[], object]) -> None:
        """Call ``action`` if the program still runs in so many seconds, and again while it returns True."""

        def act() -> None:
            if self._alive and action() is True:
                self._call_in(seconds, act)

        self._call_in(seconds, act)

    def _call_in(self, seconds: float, action: Callable[[], None]) -> None:
        """Call ``action`` in so many seconds, in place of when it was due before."""
        self._due[action] = time.monotonic() + seconds

    def _reap(self) -> None:
        """Note which of our children have ended."""
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
                self._note_end(status)
            elif not os.WIFSTOPPED(status):
                self._apart.discard(pid)  # from now on, another process may have its number
                self._remember(pid, status)

    def _remember(self, pid: int, status: int) -> None:
        if len(self.ended.exits) < MANY:
            self.ended.exits[pid] = os.waitstatus_to_exitcode(status)

    def _others(self) -> bool:
        """Whether children are left that are not ours. Only if we have some, they have to be looked for."""
        return not self._apart or bool(reaper.descendants(os.getpid(), self._apart))

    def _note_end(self, status: int) -> None:
        """Note that the program itself was stopped, or has ended, and plan what follows from that."""
        if os.WIFSTOPPED(status):
            if os.WSTOPSIG(status) in reaper.KEYED_STOPS:
                # The shell that waits for us is to see us stopped as well. It will have both of us go on.
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
        self._due.pop(self._end_deadlock, None)
        self.hear()
        if self.ended.stopped:
            # Even if it had to be killed: a launcher of several processes may take longer than its grace.
            self.ended.code = 0
        if self._force_all in self._due:
            return  # it was killed with all others, whose end is under way
        if self.ended.code < 0 or self.ended.timed_out or self.ended.stopped:
            self._end_all()
        else:
            self._call_in(self._limits.grace, self._end_left)

    # --- signals -----------------------------------------------------------------------------------

    def listen(self, inbox: Inbox) -> None:
        """Read what comes into the inbox, from now on."""
        self._inbox = inbox
        inbox.listen()
        self.hear()

    def hear(self, close: bool = False) -> None:
        """Read what has come into the inbox: processes with whose ends all others are to end."""
        if self._inbox is None:
            return
        for pid in self._inbox.read():
            if pid < 0:
                self._call_in(self._limits.grace, self._end_deadlock)
                continue
            self.ended.stopped = True
            self._stopping.add(pid)
            self._call_in(0, self._stop_all)
        if close:
            self._inbox.close()

    def take(self, signal: Any) -> None:
        """Deal with a signal that was sent to us, perhaps to the program as well."""
        if signal is not None and signal.si_signo == SIGNAL:
            self.hear()
            return
        if signal is None or signal.si_signo == _signal.SIGCHLD:
            return
        # If the program has ended before the signal came, SIGCHLD may be reported only after it.
        self._reap()
        number = signal.si_signo
        if number in ENDING and self._alive and signal.si_pid != self._pid:
            self.ended.interrupted = self.ended.interrupted or (number, time.time())
        if not self._alive:
            self._cut_grace_short(signal.si_signo)
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

    def _cut_grace_short(self, number: int) -> None:
        """Cut the time of grace short: a signal to end came after the program had ended."""
        if number in (*INTERRUPTS, _signal.SIGTERM, _signal.SIGHUP):
            for action in (self._end_left, self._end_all, self._force_all):
                if action in self._due:
                    self._call_in(0, action)

    # --- ends --------------------------------------------------------------------------------------

    def _time_is_up(self) -> None:
        """Request the program to end. It may know best how to end what it has started."""
        self.ended.timed_out = True
        process = reaper.find(self._pid)
        if process is not None:
            reaper.end_politely([process])
        self._call_in(self._limits.grace, self._end_all)

    def _stop_all(self) -> None:
        """End all processes, once one that has stopped has ended, and others have had time to follow."""
        if 0 in self._stopping:
            reaper.end_politely(self._left())
            self._call_in(self._limits.grace, self._end_all)
        elif any(map(reaper.find, self._stopping)):
            self._call_in(AGAIN, self._stop_all)
        else:
            self._stopping.add(0)
            self._call_in(self._limits.grace, self._stop_all)

    def _end_deadlock(self) -> None:
        """End what waits for good, since a process that it waits for has stopped; else look again later."""
        from .deadlock import deadlock  # here, since few programs are stopped

        before, self._deadlock = self._deadlock, deadlock(self._left())
        if before is None or before != self._deadlock:
            self._call_in(self._limits.grace, self._end_deadlock)
            return
        self.ended.stopped = True
        reaper.end_politely(self._left())
        self._call_in(self._limits.grace, self._end_all)

    def _end_left(self) -> None:
        """End what has outlived the program, and has had its time of grace."""
        self.ended.outlived += map(reaper.command, self._left())
        self._end_all()

    def _end_all(self) -> None:
        """End what is left politely, and the program, if it still runs, by force: it has had its time."""
        left = self._left()
        reaper.end_politely([process for process in left if process.pid != self._pid])
        reaper.end_by_force([process for process in left if process.pid == self._pid])
        self._call_in(self._limits.grace, self._force_all)
        self._call_in(self._limits.grace + STUBBORN, self._give_up)

    def _force_all(self) -> None:
        """Kill what is left, and again after a moment, until nothing is."""
        left = self._left()
        reaper.end_by_force(left)
        if left or not self._alone:
            self._call_in(AGAIN, self._force_all)

    def _give_up(self) -> None:
        """Leave what cannot be killed, and say so."""
        left = self._left()
        self.ended.outlived += [f"{reaper.command(process)} (cannot be ended)" for process in left]
        if self._alive:
            self.ended.code = -_signal.SIGKILL
        self._gave_up = True

    def _left(self) -> list[reaper.Process]:
        """Return the descendants of the program that still run, and the program itself."""
        return reaper.descendants(os.getpid(), self._apart)


def die(number: int) -> int:
    """End as the program did, by the same signal, without a core dump of our own.

    Returns the exit code that a shell has for such a death, if the signal does not end us.
    """
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    if number not in (_signal.SIGKILL, _signal.SIGSTOP):
        _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number
