"""Passing signals of the supervisor on to the program: those that have not reached the program itself.

A signal that is sent to a process group (by a terminal, a shell, ``timeout``, a batch system) has reached the
program already; one that is sent to the supervisor alone has not. The kernel tells who has sent a signal, but
not to how many processes. So another process of ours, the sentinel, is in the group. It starts nothing, and
blocks all signals that the supervisor waits for. A signal that has reached both was sent to the group.

Without the sentinel, a program would get each Ctrl-C twice, or never get a signal that was sent to us alone
(``tests/launch/test_signals.py``).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum
import os
import sys
import time

from injector import reaper

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any, NoReturn

PATIENCE = 0.25
"""Seconds that a signal is held back that has reached us alone. Some senders (``timeout``, systemd, Slurm)
send to one process after the other: within this time it reaches all of them, or it was meant for us."""
ANSWER = 10.0
"""Seconds that an answer of the sentinel may take on a busy machine."""
POLL = 0.001

Key = tuple[int, int, int]
"""The number of a signal, its code and its sender (0 for the kernel, and for other name spaces)."""


def key(signal: Any) -> Key:
    """Return what distinguishes a signal (of ``sigwaitinfo``) from others."""
    return signal.si_signo, signal.si_code, signal.si_pid


def take(numbers: Collection[int], seconds: float = 0.0) -> Any:
    """Return the next of these blocked signals; None if none comes within so many seconds."""
    # When a process that was stopped goes on after the time is over, CPython returns a structure that was
    # never written to.
    signal = _signal.sigtimedwait(numbers, seconds)
    return signal if signal is not None and signal.si_signo in numbers else None


class Relay:
    """Passes signals that were sent to us alone on to the program ``pid``.

    ``numbers`` are the signals that we have blocked and wait for.
    """

    def __init__(self, pid: int, numbers: Iterable[int]) -> None:
        self._pid = pid
        self._held: list[tuple[float, Key]] = []
        try:
            self.sentinel: SignalSentinel | None = SignalSentinel(numbers)
        except OSError:
            # No more processes or descriptors: every signal is passed on, after a while.
            self.sentinel = None

    def take(self, signal: Any) -> None:
        """Take a signal that was sent to us. What the program itself has sent is never passed on to it."""
        if signal.si_code > 0 or signal.si_pid != self._pid:
            self._hold_back(signal.si_signo, [signal])

    def due(self) -> float | None:
        """Return when to call :meth:`pass_on`, in seconds of the monotonic clock; None for never."""
        return min(self._held)[0] if self._held else None

    def pass_on(self) -> None:
        """Send the program the signals that were held back long enough and have reached us alone."""
        now = time.monotonic()
        for number in {signal[0] for moment, signal in self._held if moment <= now}:
            self._hold_back(number, [])
        late = [signal for moment, signal in self._held if moment <= now]
        self._held = [held for held in self._held if held[0] > now]
        for number, _, _ in late:
            # Only a program that is stopped has a use for SIGCONT.
            if number != _signal.SIGCONT or _is_stopped(self._pid):
                _send(self._pid, number)

    def end(self) -> None:
        """End the sentinel, and drop what is held back: the program has ended."""
        self._held.clear()
        if self.sentinel is not None:
            self.sentinel.end()
            self.sentinel = None

    def _hold_back(self, number: int, new: list[Any]) -> None:
        """Hold the ``new`` signals of this number back, and drop those that the sentinel was sent as well.

        Repeats that until no further signal has come, so that all that was sent to both of us has been taken,
        and nothing of it is left to be mistaken for a later one. Several signals of one number and sender may
        arrive as one, here or there, as is usual for signals.
        """
        due = time.monotonic() + PATIENCE
        while True:
            self._held += [(due, key(signal)) for signal in new]
            if self.sentinel is None:
                return
            seen = self.sentinel.seen()
            self._held = [held for held in self._held if held[1] not in seen]
            settle()
            new = list(iter(lambda: take({number}), None))
            if not new:
                self.sentinel.forget(number)
                return


def _send(pid: int, number: int) -> None:
    """Send a signal, if that is permitted."""
    try:
        os.kill(pid, number)
    except OSError:
        pass  # another user's process (``sudo``), which the sender could not have reached either


def _is_stopped(pid: int) -> bool:
    process = reaper.find(pid)
    return process is not None and process.state == "T"


class SignalSentinel:
    """A process in our process group that tells which signals it was sent, until :meth:`end` or our own end.

    ``numbers`` are the signals to watch for, which the caller has blocked. Raises OSError.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        requests, self._request = _pipe()
        self._answer, answers = _pipe()
        try:
            # A fork without exec: starting another interpreter would take too long.
            self.pid = os.fork()
            if self.pid == 0:
                _stand_in_group(set(map(int, numbers)), requests, answers)
        except BaseException:
            self._close()
            raise
        finally:
            os.close(requests)
            os.close(answers)
        os.set_blocking(self._answer, False)
        self._open = 0  # questions that wait for an answer
        self._text = b""
        self._seen: set[Key] = set()

    def seen(self) -> set[Key]:
        """Return what the sentinel was sent, of each number since :meth:`forget` was last called for it."""
        settle()
        try:
            os.write(self._request, b"?")
        except OSError:  # it was killed
            return self._seen
        self._open += 1
        due = time.monotonic() + ANSWER
        while self._open and time.monotonic() < due:
            self._read()
        return self._seen

    def forget(self, number: int) -> None:
        """Forget signals of a number: all that were sent to both of us have been dealt with."""
        self._seen = {each for each in self._seen if each[0] != number}

    def end(self) -> None:
        """Kill the sentinel, and wait for its end, unless it has ended already."""
        try:
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                os.kill(self.pid, _signal.SIGKILL)
                os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass
        self._close()

    def _read(self) -> None:
        """Read what the sentinel has answered, or give it time to answer."""
        try:
            text = os.read(self._answer, 1 << 16)
        except BlockingIOError:
            self._wake()
            time.sleep(POLL)
            return
        if not text:
            self._open = 0
        *lines, self._text = (self._text + text).split(b"\n")
        for line in lines:
            if line == b".":
                self._open -= 1
            else:
                number, code, sender = map(int, line.split())
                self._seen.add((number, code, sender))

    def _wake(self) -> None:
        """Have the sentinel go on, if it was stopped, alone or with the whole group."""
        process = reaper.find(self.pid)
        if process is not None and process.state == "T":
            os.kill(self.pid, _signal.SIGCONT)

    def _close(self) -> None:
        for descriptor in (self._request, self._answer):
            os.close(descriptor)


def _stand_in_group(numbers: set[int], requests: int, answers: int) -> NoReturn:
    """Be the sentinel, in a process that has just been forked.

    SIGIO comes when the supervisor has written a request, or has ended: then the pipe is at its end.
    """
    try:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, {*numbers, _signal.SIGIO})
        nowhere = _above_streams(os.open(os.devnull, os.O_WRONLY))
        for standard, descriptor in enumerate((requests, answers, nowhere)):
            os.dup2(descriptor, standard)
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            if descriptor > 2:
                _close(descriptor)
        _take_own_name()
        _answer_questions(numbers)
    finally:
        os._exit(0)


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:  # the descriptor by which the list itself was read
        pass


def _take_own_name() -> None:
    """Change the name and the command line of this process, which are the supervisor's after the fork.

    A signal that is sent to the supervisor by these (``pkill -f``) must not reach the sentinel as well: it
    would seem to have been sent to the group.
    """
    try:
        with open("/proc/self/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        begin, end = int(words[45]), int(words[46])  # arg_start and arg_end, see proc(5)
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(begin)
            kept = memory.read(end - begin).find(b"\0") + 1
            memory.seek(begin + kept)
            memory.write(bytes(end - begin - kept))
        with open("/proc/self/comm", "w") as file:
            file.write(os.path.basename(sys.executable))
    except (OSError, ValueError, IndexError):
        pass  # a kernel that does not permit it


def _answer_questions(numbers: set[int]) -> None:
    """Write which of these signals have come, at each request of the supervisor, until it has ended."""
    import fcntl

    seen = set()

    def note(signal: Any) -> Any:
        if signal is not None and signal.si_signo in numbers:
            seen.add(b"%d %d %d\n" % key(signal))
        return signal

    # The kernel sends SIGIO when something can be read, so that one call waits for signals and for requests.
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    while True:
        try:
            request = os.read(0, 64)
        except BlockingIOError:
            request = None
        if request == b"":
            return
        if request:
            # All that is pending now was sent before the request, and belongs to the answer.
            while note(_signal.sigtimedwait(numbers, 0)):
                pass
            os.write(1, b"".join(seen) + b".\n" * len(request))
            seen.clear()
        note(_signal.sigwaitinfo({*numbers, _signal.SIGIO}))


def settle() -> None:
    """Wait until a signal that is being sent to our process group has reached all of its processes.

    Meanwhile the kernel does not let any process change its group. So a change, although to the group that we
    are in, returns only when all have the signal.
    """
    try:
        os.setpgid(0, os.getpgrp())
    except OSError:
        pass  # the leader of a session may not change it, but has been kept waiting nevertheless


def _pipe() -> tuple[int, int]:
    """Return a pipe whose ends are not numbered like standard streams, which may be closed."""
    read, write = os.pipe()
    return _above_streams(read), _above_streams(write)


def _above_streams(descriptor: int) -> int:
    """Return a descriptor, or a copy of it in its place, with a number above those of standard streams."""
    if descriptor > 2:
        return descriptor
    try:
        return _above_streams(os.dup(descriptor))
    finally:
        os.close(descriptor)
