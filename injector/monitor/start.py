"""How the supervisor starts the monitor beside a program, and ends it."""

from __future__ import annotations

import os
import signal
import sys
import time

from ..reaper import KEYED_STOPS

PATIENCE = 5.0
"""Seconds that the monitor is given for its last sample."""

# It ends by os._exit, as `inject run` would have to wait while the interpreter is taken apart.
_PROGRAM = (
    "from injector.monitor.loop import Monitor; folder, pid, *numbers = sys.argv[1:]; "
    "Monitor(folder, int(pid), *map(float, numbers)).run(); os._exit(0)"
)


def spawn(
    program: str, words: list[str], output: int | None = None, blocked: tuple[int, ...] = ()
) -> int:
    """Start a process that runs the Python code ``program``. Returns its number. Raises OSError.

    ``words`` are its arguments. What it prints goes to the descriptor ``output``, or nowhere. The signals in
    ``blocked`` are blocked in it from the start.
    """
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    program = f"import os, sys; sys.path[:] = sys.argv.pop().split(os.pathsep); {program}"
    files: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)
    ]
    if output is not None:
        files[1] = (os.POSIX_SPAWN_DUP2, output, 1)
    # Isolated (-I), so that neither the current folder nor PYTHONPATH hides the modules that it imports; it
    # gets our path as an argument. In a process group of its own, since signals of the terminal are meant for
    # the program.
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-c", program, *words, path],
        dict(os.environ),
        file_actions=files,
        setpgroup=0,
        # Else it would inherit all that the supervisor has blocked.
        setsigmask=(*blocked, *KEYED_STOPS),
    )


class MonitorProcess:
    """A monitor that runs beside a program."""

    def __init__(self, folder: str, pid: int, interval: float, moved: float = 0.0) -> None:
        """Start one that samples the process ``pid`` into ``folder`` every ``interval`` seconds. Raises
        OSError.

        ``moved``: seconds to add to this host's clock.
        """
        self.pid = spawn(_PROGRAM, [folder, str(pid), repr(interval), repr(moved)])
        self._ended = False

    def end(self) -> None:
        """Have it take its last sample and end, and wait for that; kill it after :data:`PATIENCE` seconds."""
        if self._ended:
            return
        self._ended = True
        self._send(signal.SIGTERM)
        due = time.monotonic() + PATIENCE
        while time.monotonic() < due:
            if self._has_ended():
                return
            time.sleep(0.002)
        self._send(signal.SIGKILL)
        self._has_ended(block=True)

    def _send(self, number: int) -> None:
        """Send a signal to it, if it has not ended."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass

    def _has_ended(self, block: bool = False) -> bool:
        """Whether it has ended; with ``block``, wait until it has."""
        try:
            return os.waitpid(self.pid, 0 if block else os.WNOHANG)[0] == self.pid
        except ChildProcessError:
            return True  # other code has waited for it
