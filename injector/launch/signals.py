"""Which signals that reach the supervisor are passed on to the program: those it has not had itself.

What is sent to a process group (by a terminal, a shell, ``timeout``, a batch system) has reached the program
already; what is sent to the supervisor alone has not. The kernel tells who sent a signal, but not to
how many. So another process of ours, the sentinel, stands in the group, starts nothing and dies of nothing
that the supervisor waits for: what reached both was sent to all.

Without it a program would get each Ctrl-C twice, or never a signal that only we were sent
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
"""Seconds that a signal waits which reached us alone. Some senders (``timeout``, systemd, Slurm) send to
one process after the other: within this time it has reached all, or it was meant for us."""
ANSWER = 10.0
"""Seconds that an answer of the sentinel may take on a machine that has much else to do."""
POLL = 0.001

Key = tuple[int, int, int]
"""A signal's number, its code and its sender (0 for the kernel, and for other name spaces)."""


def key(signal: Any) -> Key:
    """What tells a signal (of ``sigwaitinfo``) from another one."""
    return signal.si_signo, signal.si_code, signal.si_pid


def take(numbers: Collection[int], seconds: float = 0.0) -> Any:
    """The next of these signals, which are blocked; None if none came within so many seconds.

    CPython returns what was never written if the time is over when a process that was stopped goes on.
    """
    signal = _signal.sigtimedwait(numbers, seconds)
    return signal if signal is not None and signal.si_signo in numbers else None


class Relay:
    """Passes on to the program ``pid`` what was sent to us alone.

    ``numbers`` are the signals that we have blocked and wait for.
    """

    def __init__(self, pid: int, numbers: Iterable[int]) -> None:
        self._pid = pid
        self._held: list[tuple[float, Key]] = []
        try:
            self.sentinel: SignalSentinel | None = SignalSentinel(numbers)
        except OSError:  # no more processes or descriptors: the time of patience has to tell
            self.sentinel = None

    def take(self, signal: Any) -> None:
        """A signal came. What came from the program itself is its message to us, whatever it says."""
        if signal.si_code > 0 or signal.si_pid != self._pid:
            self._sort(signal.si_signo, [signal])

    def due(self) -> float | None:
        """When to call :meth:`pass_on` (of the monotonic clock)."""
        return min(self._held)[0] if self._held else None

    def pass_on(self) -> None:
        """Send the program what has waited long enough and has reached us alone."""
        now = time.monotonic()
        for number in {signal[0] for moment, signal in self._held if moment <= now}:
            self._sort(number, [])
        late = [signal for moment, signal in self._held if moment <= now]
        self._held = [held for held in self._held if held[0] > now]
        for number, _, _ in late:
            if number != _signal.SIGCONT or _is_stopped(self._pid):
                _send(self._pid, number)

    def end(self) -> None:
        """The program has ended."""
        self._held.clear()
        if self.sentinel is not None:
            self.sentinel.end()
            self.sentinel = None

    def _sort(self, number: int, new: list[Any]) -> None:
        """Hold back what came, and drop what others turn out to have been sent as well.

        Ends when we have taken all that was sent to both of us, so that nothing of it is left to be
        taken for what comes later. Signals of one number and sender may become one on their way to
        either of us, as signals do.
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
    try:
        os.kill(pid, number)
    except OSError:  # another user's (``sudo``): its sender could not have reached it either
        pass


def _is_stopped(pid: int) -> bool:
    process = reaper.find(pid)
    return process is not None and process.state == "T"


class SignalSentinel:
    """Stands in our process group until :meth:`end`, or until we end.

    ``numbers`` are the signals to be looked out for, which the caller has blocked. Raises OSError when
    there can be none.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        requests, self._request = _pipe()
        self._answer, answers = _pipe()
        try:
            # Not a program of its own, which would take the time of an interpreter's start.
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
        """What it was sent; of each number, since :meth:`forget` was last called for it."""
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
        """All signals of that number that both of us were sent have been dealt with."""
        self._seen = {each for each in self._seen if each[0] != number}

    def end(self) -> None:
        """Send it away, and wait for its end, unless it has ended already."""
        try:
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                os.kill(self.pid, _signal.SIGKILL)
                os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass
        self._close()

    def _read(self) -> None:
        """Take what it says, or give it time to say it."""
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
        """It may have been stopped, by itself or with the whole group."""
        found = reaper.find(self.pid)
        if found is not None and found.state == "T":
            os.kill(self.pid, _signal.SIGCONT)

    def _close(self) -> None:
        for descriptor in (self._request, self._answer):
            os.close(descriptor)


def _stand_in_group(numbers: set[int], requests: int, answers: int) -> NoReturn:
    """What the sentinel does, in a process that has just been forked.

    SIGIO says that the supervisor has a question, or has ended: then the pipe is at its end.
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
    except OSError:  # it was that of the list itself
        pass


def _take_own_name() -> None:
    """A signal for the supervisor by its name or its text (``pkill -f``) is not to be one for us as well."""
    try:
        with open("/proc/self/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        begin, end = int(words[45]), int(words[46])  # of the command line, in our own memory
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(begin)
            kept = memory.read(end - begin).find(b"\0") + 1
            memory.seek(begin + kept)
            memory.write(bytes(end - begin - kept))
        with open("/proc/self/comm", "w") as file:
            file.write(os.path.basename(sys.executable))
    except (OSError, ValueError, IndexError):
        pass  # a kernel that does not let us


def _answer_questions(numbers: set[int]) -> None:
    """Tell which of these signals came, whenever the supervisor asks, until it has ended."""
    import fcntl

    seen = set()

    def note(found: Any) -> Any:
        if found is not None and found.si_signo in numbers:
            seen.add(b"%d %d %d\n" % key(found))
        return found

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
            while note(_signal.sigtimedwait(numbers, 0)):
                pass
            os.write(1, b"".join(seen) + b".\n" * len(request))
            seen.clear()
        note(_signal.sigwaitinfo({*numbers, _signal.SIGIO}))


def settle() -> None:
    """Return when each process of our group has what any of them was sent.

    While a signal is sent to a group, the kernel lets no process change a group. So asking for a change,
    though to the group that we are in, waits until all have it.
    """
    try:
        os.setpgid(0, os.getpgrp())
    except OSError:
        pass  # a leader of a session may not, and was kept waiting nevertheless


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are no standard streams, should those be closed."""
    read, write = os.pipe()
    return _above_streams(read), _above_streams(write)


def _above_streams(descriptor: int) -> int:
    if descriptor > 2:
        return descriptor
    try:
        return _above_streams(os.dup(descriptor))
    finally:
        os.close(descriptor)
