"""``inject run --sample``: stacks of the processes that train are read from outside of them.

By Python's own sampler where they run on 3.15 or newer, else by py-spy; with the functions of compiled code
(``--sample-native``) always by py-spy, since the other has none.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec

from ..errors import UserError
from ..reaper import KEYED_STOPS
from ..store.event import LOG
from ..store.logs import parse
from ..store.stacks import SUFFIX
from . import own_sampler

RATE = 50
"""Samples a second. A sample stops the process for as long as it takes to read its stacks."""
PERIOD = 0.5
"""Seconds after which is looked for processes that have begun to record regions."""
TRIES = 3
"""A process may be just where it cannot be read."""
PATIENCE = 10.0
"""Seconds for the last samples to be written, once the program has ended."""


OWN = "Python's profiling.sampling"
OWN_SINCE = (3, 15)
_PYTHON = re.compile(r"/python[\d.]*[td]*\Z")
INSTALL = "pip install 'overlay-injector[sample]'"


def check(native: bool = False) -> None:
    """Raise UserError where nothing can sample a program of this Python; with ``native``, compiled code."""
    if native:
        _check_native()
        return
    # Some builds of Python have the package, but not what it reads memory with.
    own = sys.version_info >= OWN_SINCE and find_spec("_remote_debugging") is not None
    if not own and _py_spy() is None:
        raise UserError(f"--sample needs py-spy before Python 3.15: {INSTALL}")


def _check_native() -> None:
    command = _py_spy()
    if command is None:
        raise UserError(f"--sample-native needs py-spy: {INSTALL}")
    # Each build of py-spy has the option only where it can unwind the stacks of its platform.
    shown = subprocess.run(
        [command, "record", "--help"], capture_output=True, text=True, errors="replace", check=False
    )
    if "--native" not in shown.stdout:
        kind = f"{platform.system()} on {platform.machine()}"
        raise UserError(
            f"--sample-native: {command} has no option --native, with which it reads compiled code "
            f"(not every build of py-spy for {kind} has); --sample reads functions of Python"
        )


def _py_spy() -> str | None:
    """The command py-spy: of the path, else of this Python's environment."""
    beside = os.path.dirname(sys.executable)
    return shutil.which("py-spy") or shutil.which("py-spy", path=beside)


class Sampler:
    """A sampler for each process of a run on this host that records regions.

    Its processes are added to ``apart`` while they run, whose owner waits for them and takes them out.
    """

    rate, period = RATE, PERIOD

    def __init__(self, folder: str, apart: set[int], *, native: bool = False) -> None:
        self._raw = os.path.join(folder, "raw")
        self._apart = apart
        self._native = native
        host = re.escape(os.uname().nodename.replace("/", "_") or "localhost")
        self._stem = re.compile(rf"({host}\.(\d+)(?:\.\d+)?)\.spans")
        self._running: dict[str, int] = {}
        """By stem (``HOST.PID``) the process of the latest sampler."""
        self._names: dict[str, str] = {}
        """What that sampler is called; "" where there is none for the process."""
        self._tries: dict[str, int] = {}
        self.ended = False

    def look(self) -> bool:
        """Sample what has begun to record since, and again what could not be read; True: look again."""
        for stem, pid in self._recording():
            tries = self._tries.get(stem, 0)
            again = tries < TRIES and self._running.get(stem) not in self._apart
            if again and not os.path.exists(self._path(stem)) and _is_there(pid):
                self._tries[stem] = tries + 1
                self._try(stem, pid, tries)
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

    def _try(self, stem: str, pid: int, tries: int) -> None:
        """Start a sampler: the one that suits the process best, and the others in turn if it fails."""
        suitable = list(self._suitable(stem, pid))
        self._names[stem], words = suitable[tries % len(suitable)] if suitable else ("", [])
        self._running[stem] = self._start(stem, words) if words else 0

    def _suitable(self, stem: str, pid: int) -> Iterator[tuple[str, list[str]]]:
        """Names and commands of the samplers that can read a process."""
        output = self._path(stem)
        try:
            executable = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            executable = ""
        # A program that has Python built in would take the words for its own.
        own = not self._native and self._version(stem) >= OWN_SINCE
        if own and _PYTHON.search(executable):
            words = [executable, "-I", "-S", own_sampler.__file__, str(pid), str(RATE), output]
            yield OWN, words
        command = _py_spy()
        if command is not None:
            words = [command, "record", "--pid", str(pid), "--rate", str(RATE), "--threads"]
            words += ["--idle", "--full-filenames", "--format", "raw", "--output", output]
            yield "py-spy", [*words, "--native"] if self._native else words

    def _version(self, stem: str) -> tuple[int, ...]:
        """The Python of a process: it has recorded which."""
        try:
            with open(os.path.join(self._raw, stem + LOG), "rb") as file:
                first = parse(file.readline()) or {}
            words = str(first["data"]["python"]).split(".")
            return int(words[0]), int(words[1])
        except (OSError, LookupError, TypeError, ValueError):
            return ()

    def _start(self, stem: str, words: list[str]) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1)]
        messages = (os.POSIX_SPAWN_OPEN, 2, self._messages(stem), flags, 0o644)
        # A group of its own: a Ctrl-C of the terminal is meant for the program.
        started = os.posix_spawn(
            words[0],
            words,
            dict(os.environ),
            file_actions=[*quiet, messages],
            setpgroup=0,
            setsigmask=KEYED_STOPS,
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
        name = self._names[stem]
        if not name:
            return f"{stem} was not sampled: its Python needs py-spy: {INSTALL}"
        return f"{stem} was not sampled: {name}: {why or 'it wrote nothing'}"


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
