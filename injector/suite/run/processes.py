"""The processes of a job: started all at the same moment, or none; and how they ended.

Each is forked and then waits at a gate. Only when all of them wait, and that is in the journal, does the
gate open; should we die before that, they find it closed and end without having begun. So a job has
either been started whole or not at all, whenever we are killed.

A process is the first of a session of its own: what the terminal sends reaches us alone, and when we
are killed it goes on. It holds a lock on ``jobs/KEY/lock`` as long as it, or what it runs, lives.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ...analysis.wording import signal_name
from ...store.run_json import NotARunError, read_info
from ..plan.jobs import Job, PlannedProcess
from . import tracebacks

STDERR = "stderr"
TIMED_OUT = 124
"""The exit code of ``inject run`` when ``--timeout`` has ended the program."""


@dataclass
class ProcessEnd:
    """How one process of a plan ended."""

    run: str
    """Its run folder, below the suite's."""
    code: int | None = None
    """The program's own exit code, or that of ``inject run`` where it never came to it."""
    signal: int | None = None
    timed_out: bool = False
    recorded: bool = True
    """Whether its run was recorded to the end."""
    ended: float | None = None
    """Unix seconds at which the program ended, as far as that was recorded."""

    def as_json(self) -> dict[str, Any]:
        """For the journal."""
        return {
            "code": self.code,
            "signal": self.signal,
            "timed_out": self.timed_out,
            "run": self.run,
        }

    def problem(self, folder: str) -> str | None:
        """What was wrong, if anything was. ``folder`` is the suite's."""
        if self.timed_out:
            return "ended by its time limit"
        if self.signal is not None:
            return f"killed by {signal_name(self.signal)}"
        if self.code:
            last = tracebacks.last_line(os.path.join(folder, self.run, STDERR))
            return f"exit code {self.code}" + (f" ({last})" if last else "")
        return None if self.recorded else f"left no record{no_room(folder)}"


LITTLE = 16 << 10
"""Bytes: less room than a record needs at its end."""


def no_room(folder: str) -> str:
    """For the end of a sentence: that ``folder`` is on a full disk, where that is so."""
    try:
        there = os.statvfs(folder)
    except OSError:
        return ""
    full = there.f_bavail * there.f_frsize < LITTLE
    return f" (there is no space left in {folder})" if full else ""


def end_from_record(folder: str, run: str) -> ProcessEnd | None:
    """How a process ended, by its ``run.json``; None where that was never written."""
    try:
        info = read_info(os.path.join(folder, run))
    except NotARunError:
        return None
    ended = info.get("exit")
    if not isinstance(ended, Mapping):
        return None
    timed_out, at = bool(info.get("timed_out")), info.get("ended")
    return ProcessEnd(run, ended.get("code"), ended.get("signal"), timed_out, ended=at)


def end_from_status(folder: str, run: str, status: int) -> ProcessEnd:
    """How a process ended, as ``waitpid`` and its record say; ``status`` as of ``sys.exit``."""
    found = end_from_record(folder, run)
    if found is not None:
        return found
    if status < 0:
        return ProcessEnd(run, None, -status, recorded=False)
    return ProcessEnd(run, status, None, status == TIMED_OUT, recorded=False)


def failures_by_exit_code(folder: str, job: Job, ended: Mapping[str, ProcessEnd]) -> list[str]:
    """What was wrong with how the processes of a job ended. ``folder`` is the suite's."""
    return joined_failures({key: each.problem(folder) for key, each in ended.items()})


def joined_failures(wrong: Mapping[str, str | None]) -> list[str]:
    """Sentences about some of a job's processes; one for all, where it is the same for all."""
    sentences = set(wrong.values())
    if len(sentences) == 1:
        return [text for text in sentences if text]
    return [f"{key}: {text}" for key, text in wrong.items() if text]


LOCK, STDOUT = "lock", "stdout"
NOT_STARTED, NOT_FOUND, CANNOT_EXECUTE = 125, 127, 126


class CannotStartError(Exception):
    """Why nothing of a job was started."""


def start_processes(
    processes: Sequence[PlannedProcess],
    folder: str,
    held: Sequence[int],
    opened: Callable[[Sequence[int]], None],
) -> list[int]:
    """Start ``processes``; their process ids. ``folder`` is the suite's.

    ``held``: descriptors that they are to keep open. ``opened(pids)`` is called when all of them wait
    and before any begins.

    Raises:
        CannotStartError: nothing has begun.
    """
    for each in processes:
        _check_command(each)
    inner, outer = os.pipe()
    try:
        pids = [_fork(each, folder, held, inner, outer) for each in processes]
        opened(pids)
        os.write(outer, b"\n" * len(pids))  # one call: it opens for all or, if we die, for none
    except OSError as error:
        raise CannotStartError(f"{error.filename or 'fork'}: {error.strerror}") from None
    finally:
        os.close(inner)
        os.close(outer)
    return pids


def _check_command(process: PlannedProcess) -> None:
    path = process.command[0]
    if not os.access(path, os.X_OK):
        raise CannotStartError(f"there is no {path}: its environment is not installed")


def _fork(process: PlannedProcess, folder: str, held: Sequence[int], inner: int, outer: int) -> int:
    run = os.path.join(folder, process.run)
    os.makedirs(run, exist_ok=True)
    if process.folder.startswith(run):
        os.makedirs(process.folder, exist_ok=True)
    lock = lock_run(run)
    if lock is None:
        raise CannotStartError(f"{run}: it is being run already")
    files = [_file(os.path.join(run, name)) for name in (STDOUT, STDERR)]
    try:
        pid = os.fork()
        if pid == 0:
            os.close(outer)
            _become_program(process, inner, files, [lock, *held])
        return pid
    finally:
        for each in (lock, *files):
            os.close(each)


def _file(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)


def lock_run(run: str) -> int | None:
    """The lock of a run, as an open file; None if a process of it lives. Raises OSError."""
    lock = os.open(os.path.join(run, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except BaseException:
        os.close(lock)
        raise
    return lock


def _become_program(
    process: PlannedProcess, gate: int, files: Sequence[int], held: Sequence[int]
) -> NoReturn:
    """Wait at the gate, then be the program; in the forked child, which never returns."""
    code = NOT_STARTED
    try:
        os.setsid()
        _restore_signals()
        for number, file in zip((1, 2), files, strict=True):
            os.dup2(file, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for each in held:
            os.set_inheritable(each, True)
        if process.cores:
            os.sched_setaffinity(0, process.cores)
        if os.read(gate, 1):
            code = _execute(process)
    except BaseException as error:
        os.write(2, f"inject suite: cannot start: {error}\n".encode())
    finally:
        os._exit(code)


def _execute(process: PlannedProcess) -> int:
    try:
        os.chdir(process.folder)
        os.execve(process.command[0], process.command, process_environment(process))
    except OSError as error:
        text = f"inject suite: {error.filename}: {error.strerror}\n"
        os.write(2, text.encode(errors="surrogateescape"))
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE


def _restore_signals() -> None:
    """Signals as a program expects them; what is ignored stays so across ``exec``."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def process_environment(
    process: PlannedProcess, given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The whole environment of a process: ours, with what the plan sets and takes away."""
    made = dict(os.environ if given is None else given)
    for name, value in process.environment.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = value
    return made
