"""Starting the monitor beside a program, and ending it."""

from __future__ import annotations

import os
import signal
import sys
import time

from ..reaper import KEYED_STOPS

PATIENCE = 5.0
"""Seconds that the monitor is given for its last sample."""

# It ends without taking the interpreter apart, for which the user of `inject run` would wait.
_PROGRAM = (
    "from injector.monitor.loop import Monitor; folder, pid, *numbers = sys.argv[1:]; "
    "Monitor(folder, int(pid), *map(float, numbers)).run(); os._exit(0)"
)


def spawn(
    program: str, words: list[str], output: int | None = None, blocked: tuple[int, ...] = ()
) -> int:
    """Start a process of ours, quiet but for what it writes to the descriptor ``output``; its number.

    ``words`` are its arguments, ``blocked`` the signals that it begins without. Raises OSError.
    """
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    program = f"import os, sys; sys.path[:] = sys.argv.pop().split(os.pathsep); {program}"
    files: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)
    ]
    if output is not None:
        files[1] = (os.POSIX_SPAWN_DUP2, output, 1)
    # Isolated: neither the program's folder nor its PYTHONPATH may hide what it imports. A group of its own:
    # what the terminal sends is meant for the program.
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-c", program, *words, path],
        dict(os.environ),
        file_actions=files,
        setpgroup=0,
        setsigmask=(*blocked, *KEYED_STOPS),  # the supervisor has blocked what it waits for
    )


class MonitorProcess:
    """A monitor that samples the process ``pid`` into ``folder`` every ``interval`` seconds.

    ``moved``: seconds to add to this host's clock.

    Raises OSError when it cannot be started.
    """

    def __init__(self, folder: str, pid: int, interval: float, moved: float = 0.0) -> None:
        self.pid = spawn(_PROGRAM, [folder, str(pid), repr(interval), repr(moved)])
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
            return True  # other code has waited for it
