"""Starting the program and seeing it through to its end.

The terminal, the streams and the process group are the program's as much as ours. Signals are not
handled but waited for, so that their sender is known: what the terminal sent (Ctrl-C) has reached
the program already, what somebody sent to us alone is passed on.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum
import os
import time

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FORWARDED = (_signal.SIGTERM, _signal.SIGHUP, _signal.SIGUSR1, _signal.SIGUSR2)
INTERRUPTS = (_signal.SIGINT, _signal.SIGQUIT)
PATIENCE = 0.5
"""Seconds an interrupt from ``kill`` waits. Sent to the group, it ends the program before that."""

CANNOT_EXECUTE, NOT_FOUND = 126, 127


class Ended:
    """How and when the program ended: ``code`` as of ``sys.exit``, or minus the deadly signal."""

    __slots__ = ("code", "ended", "pid", "started")

    def __init__(self, pid: int, code: int, started: float, ended: float) -> None:
        self.pid = pid
        self.code = code
        self.started = started
        """Unix time in seconds, as is ``ended``."""
        self.ended = ended


def run(
    path: str, words: list[str], environ: Mapping[str, str], meanwhile: Callable[[], None]
) -> Ended:
    """Start ``words`` from the file ``path`` and wait for its end.

    ``meanwhile`` is called once it has been started, and is not to take long. Raises OSError when
    the program cannot be started.
    """
    watched = {_signal.SIGCHLD, *(n for n in (*FORWARDED, *INTERRUPTS) if not _ignored(n))}
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, watched)
    try:
        started = time.time()
        # Python ignores these two from its start, which the program should not inherit.
        quiet = (_signal.SIGPIPE, _signal.SIGXFSZ)
        pid = os.posix_spawn(path, words, environ, setsigmask=before, setsigdef=quiet)
        meanwhile()
        code = _wait(pid, watched)
        return Ended(pid, code, started, time.time())
    finally:
        while _signal.sigtimedwait(watched, 0) is not None:
            pass  # the Ctrl-C that ended the program is not to end us too
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _ignored(number: int) -> bool:
    """Whether we were started so (``nohup``, ``&``); the program then is as well."""
    return bool(_signal.getsignal(number) == _signal.SIG_IGN)


def _wait(pid: int, watched: set[int]) -> int:
    due: float | None = None
    held = 0
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if due is None:
            signal = _signal.sigwaitinfo(watched)
        else:
            signal = _signal.sigtimedwait(watched, max(0.0, due - time.monotonic()))
        if signal is None:
            os.kill(pid, held)
            due = None
        elif signal.si_code > 0 or signal.si_pid == pid:
            continue  # from the kernel, for a terminal; or from the program itself
        elif signal.si_signo in FORWARDED:
            os.kill(pid, signal.si_signo)
        elif signal.si_signo in INTERRUPTS and due is None:
            due, held = time.monotonic() + PATIENCE, signal.si_signo


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
