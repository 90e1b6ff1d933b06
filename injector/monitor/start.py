"""Starting the monitor beside a program, and ending it."""

from __future__ import annotations

import os
import signal
import sys
import time

PATIENCE = 5.0
"""Seconds that the monitor is given for its last sample."""

# Isolated: neither the program's folder nor its PYTHONPATH may hide what the monitor imports. It ends
# without taking the interpreter apart, for which the user of `inject run` would wait.
_PROGRAM = (
    "import os, sys; sys.path[:] = sys.argv.pop().split(os.pathsep); "
    "from injector.monitor.loop import Monitor; folder, pid, interval = sys.argv[1:]; "
    "Monitor(folder, int(pid), float(interval)).run(); os._exit(0)"
)


class MonitorProcess:
    """A monitor that samples the process ``pid`` into ``folder`` every ``interval`` seconds.

    Raises OSError when it cannot be started.
    """

    def __init__(self, folder: str, pid: int, interval: float) -> None:
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
        words = [sys.executable, "-I", "-S", "-c", _PROGRAM, folder]
        words += [str(pid), repr(interval), path]
        quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        # A group of its own: what the terminal sends is meant for the program.
        self.pid = os.posix_spawn(
            sys.executable,
            words,
            dict(os.environ),
            file_actions=quiet,
            setpgroup=0,
            setsigmask=(),  # the supervisor has blocked what it waits for
        )
        self._ended = False

    def end(self) -> None:
        """Ask for the last sample and wait for it; by force if it does not come."""
        if self._ended:
            return
        self._ended = True
        self._send(signal.SIGTERM)
        due = time.monotonic() + PATIENCE
        while time.monotonic() < due:
            if self._gone():
                return
            time.sleep(0.002)
        self._send(signal.SIGKILL)
        self._gone(block=True)

    def _send(self, number: int) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass

    def _gone(self, block: bool = False) -> bool:
        try:
            return os.waitpid(self.pid, 0 if block else os.WNOHANG)[0] == self.pid
        except ChildProcessError:
            return True  # somebody else has waited for it
