"""``inject run --sample``: py-spy reads the stacks of the processes that train, from outside of them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time

from ..errors import UserError
from ..store.stacks import SUFFIX

RATE = 50
"""Samples a second. A sample stops the process for as long as it takes to read its stacks."""
PERIOD = 0.5
"""Seconds after which is looked for processes that have begun to record regions."""
TRIES = 3
"""A process may be just where it cannot be read."""
PATIENCE = 10.0
"""Seconds for the last samples to be written, once the program has ended."""


def py_spy() -> str:
    """The command py-spy: of the path, else of this Python's environment. Raises UserError without one."""
    beside = os.path.dirname(sys.executable)
    found = shutil.which("py-spy") or shutil.which("py-spy", path=beside)
    if found is None:
        raise UserError("--sample needs py-spy: pip install 'overlay-injector[sample]'")
    return found


class Sampler:
    """py-spy for each process of a run on this host that records regions.

    Its processes are added to ``apart`` while they run, whose owner waits for them and takes them out.
    """

    rate, period = RATE, PERIOD

    def __init__(self, folder: str, apart: set[int]) -> None:
        """Raises UserError where there is no py-spy."""
        self._command = py_spy()
        self._raw = os.path.join(folder, "raw")
        self._apart = apart
        host = re.escape(os.uname().nodename.replace("/", "_") or "localhost")
        self._stem = re.compile(rf"({host}\.(\d+)(?:\.\d+)?)\.spans")
        self._running: dict[str, int] = {}
        """By stem (``HOST.PID``) the process of the latest py-spy."""
        self._tries: dict[str, int] = {}
        self.ended = False

    def look(self) -> bool:
        """Sample what has begun to record since, and again what could not be read; True: look again."""
        for stem, pid in self._recording():
            tries = self._tries.get(stem, 0)
            again = tries < TRIES and self._running.get(stem) not in self._apart
            if again and not os.path.exists(self._path(stem)) and _is_there(pid):
                self._tries[stem] = tries + 1
                self._running[stem] = self._start(stem, pid)
        return not self.ended

    def _recording(self) -> list[tuple[str, int]]:
        try:
            names = os.listdir(self._raw)
        except OSError:
            return []
        stems = (self._stem.fullmatch(name) for name in names)
        return [(found[1], int(found[2])) for found in stems if found]

    def _path(self, stem: str) -> str:
        return os.path.join(self._raw, stem + SUFFIX)

    def _messages(self, stem: str) -> str:
        return os.path.join(self._raw, f"{stem}.sampling")

    def _start(self, stem: str, pid: int) -> int:
        words = [self._command, "record", "--pid", str(pid), "--rate", str(RATE), "--threads"]
        words += ["--idle", "--full-filenames", "--format", "raw", "--output", self._path(stem)]
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1)]
        messages = (os.POSIX_SPAWN_OPEN, 2, self._messages(stem), flags, 0o644)
        # A group of its own: a Ctrl-C of the terminal is meant for the program.
        started = os.posix_spawn(
            self._command,
            words,
            dict(os.environ),
            file_actions=[*quiet, messages],
            setpgroup=0,
            setsigmask=(),
        )
        self._apart.add(started)
        return started

    def end(self) -> list[str]:
        """The program has ended: wait until all is written. What could not be sampled, as sentences."""
        self.ended = True
        due = time.monotonic() + PATIENCE
        running = [pid for pid in self._running.values() if pid in self._apart]
        while running and time.monotonic() < due:
            running = [pid for pid in running if not self._gone(pid)]
            time.sleep(0.01)
        for pid in running:
            os.kill(pid, signal.SIGKILL)
        return [problem for stem in self._running if (problem := self._problem(stem))]

    def _gone(self, pid: int) -> bool:
        try:
            gone = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:  # the owner of `apart` has waited for it
            gone = True
        if gone:
            self._apart.discard(pid)
        return gone

    def _problem(self, stem: str) -> str:
        messages, why = self._messages(stem), ""
        try:
            with open(messages, encoding="utf-8", errors="replace") as file:
                lines = [line.strip() for line in file if line.strip()]
            os.unlink(messages)
            errors = [line.partition("rror: ")[2] for line in lines if "rror: " in line]
            why = (errors or lines or [""])[0][:200]
        except OSError:
            pass
        if os.path.exists(self._path(stem)):
            return ""
        return f"{stem} was not sampled: py-spy: {why or 'it wrote nothing'}"


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
