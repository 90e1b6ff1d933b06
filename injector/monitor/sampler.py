"""``inject run --sample``: samplers that read the stacks of the program's processes from outside.

The supervisor starts a sampler for each process that records regions, and looks for such processes every half
second (:class:`Sampler`). A process of Python 3.15 or newer is read by Python's own sampler, any other by
py-spy. With the functions of compiled code (``--sample-native``) it is always py-spy, as Python's sampler
cannot read them. A sampler writes the stacks when its process has ended (:mod:`..store.stacks` has the form).
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
"""Samples per second. A sample by py-spy stops the process for as long as it takes to read its stacks."""
PERIOD = 0.5
"""Seconds between looks for processes that have begun to record regions."""
TRIES = 3
"""How often a sampler is started for one process: one that is just starting cannot be read yet."""
PATIENCE = 10.0
"""Seconds that samplers are given to write, once the program has ended."""


OWN = "Python's profiling.sampling"
OWN_SINCE = (3, 15)
_PYTHON = re.compile(r"/python[\d.]*[td]*\Z")
"""The end of the path of an interpreter, as opposed to a program with Python built in."""
INSTALL = "pip install 'overlay-injector[sample]'"


def check(native: bool = False) -> None:
    """Raise UserError if no sampler can read a program of this Python; with ``native``, its compiled code."""
    if native:
        _check_native()
        return
    # Some builds of Python have the package, but not the extension module that reads memory.
    own = sys.version_info >= OWN_SINCE and find_spec("_remote_debugging") is not None
    if not own and _py_spy() is None:
        raise UserError(f"--sample needs py-spy before Python 3.15: {INSTALL}")


def _check_native() -> None:
    """Raise UserError if py-spy is missing or cannot read compiled code."""
    command = _py_spy()
    if command is None:
        raise UserError(f"--sample-native needs py-spy: {INSTALL}")
    # A build of py-spy has the option only if it can unwind the stacks of its platform.
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
    """The path of the command py-spy, on PATH or else beside this Python; None if there is none."""
    beside = os.path.dirname(sys.executable)
    return shutil.which("py-spy") or shutil.which("py-spy", path=beside)


class Sampler:
    """A sampler for each process of a run on this host that records regions."""

    rate, period = RATE, PERIOD

    def __init__(self, folder: str, apart: set[int], *, native: bool = False) -> None:
        """Sample the processes of the run in ``folder``.

        ``apart`` holds the numbers of processes that do not belong to the program. Samplers are added to it
        while they run. Its owner, the supervisor, takes out those that it waits for.
        """
        self._raw = os.path.join(folder, "raw")
        self._apart = apart
        self._native = native
        host = re.escape(os.uname().nodename.replace("/", "_") or "localhost")
        self._stem = re.compile(rf"({host}\.(\d+)(?:\.\d+)?)\.spans")
        self._running: dict[str, int] = {}
        """By stem (``HOST.PID``) the number of the latest sampler's process; 0 if no sampler suits."""
        self._names: dict[str, str] = {}
        """The name of that sampler; empty if there is none."""
        self._tries: dict[str, int] = {}
        """How often a sampler was started."""
        self.ended = False

    def look(self) -> bool:
        """Start samplers for processes that have begun to record regions, and anew for those not read yet.

        Returns whether to look again after :attr:`period` seconds.
        """
        for stem, pid in self._recording():
            tries = self._tries.get(stem, 0)
            may_start = tries < TRIES and self._running.get(stem) not in self._apart
            if may_start and not os.path.exists(self._path(stem)) and _is_alive(pid):
                self._tries[stem] = tries + 1
                self._try(stem, pid, tries)
        return not self.ended

    def _recording(self) -> list[tuple[str, int]]:
        """Stem and number of each process of this host that has a file of spans."""
        try:
            names = os.listdir(self._raw)
        except OSError:
            return []
        matches = (self._stem.fullmatch(name) for name in names)
        return [(match[1], int(match[2])) for match in matches if match]

    def _path(self, stem: str) -> str:
        """The file of the stacks of a process."""
        return os.path.join(self._raw, stem + SUFFIX)

    def _messages(self, stem: str) -> str:
        """The file that a sampler writes its errors to."""
        return os.path.join(self._raw, f"{stem}.sampling")

    def _try(self, stem: str, pid: int, tries: int) -> None:
        """Start the sampler that suits the process best, or after ``tries`` failures the next one in turn."""
        suitable = list(self._suitable(stem, pid))
        self._names[stem], words = suitable[tries % len(suitable)] if suitable else ("", [])
        self._running[stem] = self._start(stem, words) if words else 0

    def _suitable(self, stem: str, pid: int) -> Iterator[tuple[str, list[str]]]:
        """Name and command of each sampler that can read a process, the best first."""
        output = self._path(stem)
        try:
            executable = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            executable = ""
        # Python's sampler must run on the interpreter of the process. A program with Python built in is none:
        # it would take the words for arguments of its own.
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
        """The version of Python that a process has recorded; empty if it is not known."""
        try:
            with open(os.path.join(self._raw, stem + LOG), "rb") as file:
                first = parse(file.readline()) or {}
            words = str(first["data"]["python"]).split(".")
            return int(words[0]), int(words[1])
        except (OSError, LookupError, TypeError, ValueError):
            return ()

    def _start(self, stem: str, words: list[str]) -> int:
        """Start the command ``words`` for a process. Returns the number of the sampler's process."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1)]
        messages = (os.POSIX_SPAWN_OPEN, 2, self._messages(stem), flags, 0o644)
        # In a process group of its own, since a Ctrl-C on the terminal is meant for the program.
        sampler = os.posix_spawn(
            words[0],
            words,
            dict(os.environ),
            file_actions=[*quiet, messages],
            setpgroup=0,
            setsigmask=KEYED_STOPS,
        )
        self._apart.add(sampler)
        return sampler

    def end(self) -> list[str]:
        """Wait until all stacks are written, once the program has ended.

        Returns sentences on the processes that could not be sampled.
        """
        self.ended = True
        due = time.monotonic() + PATIENCE
        running = [pid for pid in self._running.values() if pid in self._apart]
        while running and time.monotonic() < due:
            running = [pid for pid in running if not self._has_ended(pid)]
            time.sleep(0.01)
        for pid in running:
            os.kill(pid, signal.SIGKILL)
        return [problem for stem in self._running if (problem := self._problem(stem))]

    def _has_ended(self, pid: int) -> bool:
        """Whether a sampler has ended."""
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:  # the owner of `apart` has waited for it
            ended = True
        if ended:
            self._apart.discard(pid)
        return ended

    def _problem(self, stem: str) -> str:
        """A sentence on why a process was not sampled; empty if it was. Removes the sampler's messages."""
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


def _is_alive(pid: int) -> bool:
    """Whether there is a process with this number that may be signalled."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
