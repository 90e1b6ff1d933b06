"""A process in the program's process group that says which signals the whole group was sent.

What is sent to a group (by a terminal, a shell, ``timeout``, a batch system) has reached the program
already; what is sent to the supervisor alone has not. The kernel tells who sent a signal, but not to
how many. So somebody else stands in the group who starts nothing and dies of nothing that the
supervisor waits for: what reached both was sent to all.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum
import os
import sys
import time

from injector import reaper

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

PATIENCE = 10.0
"""Seconds that an answer may take on a machine that has much else to do."""
POLL = 0.001

# SIGIO says that the supervisor asks, or has ended: then the pipe is at its end. Neither text nor name
# of the supervisor stands in the command line: ``pkill -f`` of those is meant for the supervisor alone.
_PROGRAM = """
import _signal, fcntl, posix, sys
numbers, seen = set(map(int, sys.argv[1:])), set()
def note(found):
    if found is not None and found.si_signo != _signal.SIGIO:
        seen.add(b"%d %d %d\\n" % (found.si_signo, found.si_code, found.si_pid))
    return found
fcntl.fcntl(0, fcntl.F_SETOWN, posix.getpid())
fcntl.fcntl(0, fcntl.F_SETFL, posix.O_NONBLOCK | posix.O_ASYNC)
while True:
    try:
        asked = posix.read(0, 64)
    except BlockingIOError:
        asked = None
    if asked == b"":
        break
    if asked:
        while note(_signal.sigtimedwait(numbers, 0)):
            pass
        posix.write(1, b"".join(seen) + b".\\n" * len(asked))
        seen.clear()
    note(_signal.sigwaitinfo({*numbers, _signal.SIGIO}))
"""

Key = tuple[int, int, int]
"""A signal's number, its code and its sender (0 for the kernel, and for other name spaces)."""


def key(signal: Any) -> Key:
    """What tells a signal (of ``sigwaitinfo``) from another one."""
    return signal.si_signo, signal.si_code, signal.si_pid


class Witness:
    """Stands in our process group until :meth:`end`, or until we end.

    ``numbers`` are the signals to be looked out for, which the caller has blocked. Raises OSError when
    there can be none.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        asked, self._ask = _pipe()
        self._answer, answered = _pipe()
        numbers = list(map(int, numbers))
        words = [sys.executable, "-I", "-S", "-c", _PROGRAM, *map(str, numbers)]
        streams: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_DUP2, asked, 0),
            (os.POSIX_SPAWN_DUP2, answered, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        try:
            self.pid = os.posix_spawn(
                sys.executable,
                words,
                dict(os.environ),
                file_actions=streams,
                setsigmask=[*numbers, _signal.SIGIO],
            )
        except BaseException:
            self._close()
            raise
        finally:
            os.close(asked)
            os.close(answered)
        os.set_blocking(self._answer, False)
        self._open = 0  # questions that wait for an answer
        self._text = b""
        self._seen: set[Key] = set()

    def seen(self) -> set[Key]:
        """What it was sent; of each number, since it was last told to :meth:`forget` that."""
        settle()
        try:
            os.write(self._ask, b"?")
        except OSError:  # it was killed
            return self._seen
        self._open += 1
        due = time.monotonic() + PATIENCE
        while self._open and time.monotonic() < due:
            self._read()
        return self._seen

    def forget(self, number: int) -> None:
        """All signals of that number that both of us were sent have been dealt with."""
        self._seen = {each for each in self._seen if each[0] != number}

    def end(self) -> None:
        """Send it away, and wait for its end, unless somebody did so before."""
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
        """Somebody may have stopped it, by itself or with the whole group."""
        found = reaper.find(self.pid)
        if found is not None and found.state == "T":
            os.kill(self.pid, _signal.SIGCONT)

    def _close(self) -> None:
        for descriptor in (self._ask, self._answer):
            os.close(descriptor)


def settle() -> None:
    """Return when everybody in our group has what any of us was sent.

    While a signal is sent to a group, the kernel lets nobody change a group. So asking for a change,
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
