"""The processes of a job: starting all of them at the same moment, or none, and how they ended.

Each process is forked and then waits at a gate, a pipe that it reads from. The gate opens only when all of
them wait there and the journal has their start. Should the suite be killed before that, the pipe closes, and
they exit without having begun. So whenever the suite is killed, a job has been started as a whole or not at
all::

    suite     fork, fork ... | journal: started | write one byte for each
    child     setsid, redirect output, read the gate ........ | chdir, exec inject run

A process leads a session of its own: the terminal's signals reach the suite alone, and the process goes on
when the suite is killed. It holds a lock on ``jobs/KEY/lock`` as long as it, or anything it started, lives.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
    """Its run folder, relative to the suite's."""
    code: int | None = None
    """The exit code of the program, or of ``inject run`` if the program never ran."""
    signal: int | None = None
    timed_out: bool = False
    recorded: bool = True
    """Whether its run folder records the end."""
    ended: float | None = None
    """When the program ended, in Unix seconds, if that was recorded."""

    def as_json(self) -> dict[str, Any]:
        """How it ended, as the journal records it."""
        return {name: getattr(self, name) for name in ("code", "signal", "timed_out", "run")}

    def problem(self, folder: str) -> str | None:
        """What was wrong, in words; None if nothing was. ``folder`` is the suite's."""
        if self.timed_out:
            return "ended by its time limit"
        if self.signal is not None:
            return f"killed by {signal_name(self.signal)}"
        if self.code:
            run = os.path.join(folder, self.run)
            last = _dead_rank(run) or tracebacks.last_line(os.path.join(run, STDERR))
            return f"exit code {self.code}" + (f" ({last})" if last else no_room(folder))
        # The program exited well, but without a record nothing is known of what it did.
        return None if self.recorded else f"left no record{no_room(folder)}"


def _dead_rank(run: str) -> str:
    """Which rank of the run in the folder ``run`` died first, and how; empty if none is known to have."""
    with suppress(NotARunError):
        return dead_rank(read_info(run))
    return ""


def dead_rank(info: Mapping[str, Any]) -> str:
    """Which rank died first, and how, according to ``run.json``; empty if none did, or each came back.

    What other ranks and their launcher raise then only reports that one is gone.
    """
    broken = info.get("broken") or ()
    died = (rank for rank in broken if rank["kind"] == "died" and rank.get("restarted") is None)
    return next((f"rank {rank['rank']} died: {rank['how']}" for rank in died), "")


LITTLE = 16 << 10
"""Bytes that a record needs at its end; with fewer left, the disk counts as full."""


def no_room(folder: str) -> str:
    """The end of a sentence, that the disk of ``folder`` is full; empty if it is not."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return ""
    full = disk.f_bavail * disk.f_frsize < LITTLE
    return f" (there is no space left in {folder})" if full else ""


def end_from_record(folder: str, run: str) -> ProcessEnd | None:
    """How a process ended according to its ``run.json``; None if that has no end."""
    try:
        info = read_info(os.path.join(folder, run))
    except NotARunError:
        return None
    exit_status = info.get("exit")
    if not isinstance(exit_status, Mapping):
        return None
    timed_out, at = bool(info.get("timed_out")), info.get("ended")
    return ProcessEnd(run, exit_status.get("code"), exit_status.get("signal"), timed_out, ended=at)


def end_from_status(folder: str, run: str, status: int) -> ProcessEnd:
    """How a child process ended; ``status`` is its exit code, or minus the signal that killed it.

    Its record, if there is one, comes first: it tells the program's end from that of ``inject run``.
    """
    recorded = end_from_record(folder, run)
    if recorded is not None:
        return recorded
    if status < 0:
        return ProcessEnd(run, None, -status, recorded=False)
    return ProcessEnd(run, status, None, status == TIMED_OUT, recorded=False)


def failures_by_exit_code(folder: str, job: Job, ended: Mapping[str, ProcessEnd]) -> list[str]:
    """What was wrong with how the processes of a job ended, as sentences. ``folder`` is the suite's."""
    return joined_failures({key: end.problem(folder) for key, end in ended.items()})


def joined_failures(failures: Mapping[str, str | None]) -> list[str]:
    """One sentence for each process that failed, or a single one if all failed for the same reason.

    ``failures`` has the reason by the process's key, None for one that did not fail.
    """
    reasons = set(failures.values())
    if len(reasons) == 1:
        return [reason for reason in reasons if reason]
    return [f"{key}: {reason}" for key, reason in failures.items() if reason]


LOCK, STDOUT = "lock", "stdout"
NOT_STARTED, NOT_FOUND, CANNOT_EXECUTE = 125, 127, 126
"""Exit codes of a child that did not become ``inject run``; the latter two are a shell's."""


class CannotStartError(Exception):
    """No process of a job was started; the text says why."""


def start_processes(
    processes: Sequence[PlannedProcess],
    folder: str,
    locks: Sequence[int],
    record: Callable[[Sequence[int]], None],
) -> list[int]:
    """Start ``processes`` and return their process ids, in the same order. ``folder`` is the suite's.

    The processes keep ``locks`` open, file descriptors of locks of devices. ``record`` is called with the
    process ids when all wait at the gate, before any begins. Raises CannotStartError; then no process has
    begun.
    """
    for process in processes:
        if not os.access(path := process.command[0], os.X_OK):
            raise CannotStartError(f"there is no {path}: its environment is not installed")
    gate, opener = os.pipe()
    try:
        pids = [_fork(process, folder, locks, gate, opener) for process in processes]
        record(pids)
        # One call for all of them: the kernel writes so few bytes to a pipe either all or not at all.
        os.write(opener, b"\n" * len(pids))
    except OSError as error:
        raise CannotStartError(f"{error.filename or 'fork'}: {error.strerror}") from None
    finally:
        os.close(gate)
        os.close(opener)
    return pids


def _fork(
    process: PlannedProcess, folder: str, locks: Sequence[int], gate: int, opener: int
) -> int:
    """Fork a child that waits at ``gate`` and then runs ``process``; its process id. Raises OSError."""
    run = os.path.join(folder, process.run)
    os.makedirs(run, exist_ok=True)
    if process.folder.startswith(run):
        os.makedirs(process.folder, exist_ok=True)
    lock = lock_run(run)
    if lock is None:
        raise CannotStartError(f"{run}: it is being run already")
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    outputs = [os.open(os.path.join(run, name), append, 0o666) for name in (STDOUT, STDERR)]
    try:
        pid = os.fork()
        if pid == 0:
            # With this end open in a child, the gate would never be closed by the suite's death.
            os.close(opener)
            _become_program(process, gate, outputs, [lock, *locks])
        return pid
    finally:
        for file in (lock, *outputs):
            os.close(file)


def lock_run(run: str) -> int | None:
    """Lock the run folder ``run``; the open file, or None if a process of that run lives. Raises OSError."""
    # flock belongs to the open file: children inherit it, and it ends with the last of them, even by SIGKILL.
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
    process: PlannedProcess, gate: int, outputs: Sequence[int], locks: Sequence[int]
) -> NoReturn:
    """Wait at the gate and then execute the command; runs in the forked child and never returns."""
    code = NOT_STARTED
    try:
        os.setsid()
        _restore_signals()
        for number, file in zip((1, 2), outputs, strict=True):
            os.dup2(file, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for file in locks:
            os.set_inheritable(file, True)
        if process.cores:
            os.sched_setaffinity(0, process.cores)
        # A byte opens the gate; an end of file means that the suite died before it did.
        if os.read(gate, 1):
            code = _execute(process)
    except BaseException as error:
        os.write(2, f"inject suite: cannot start: {error}\n".encode())
    finally:
        # Not sys.exit: the child is a copy of the suite, and would run its exit handlers and finally clauses.
        os._exit(code)


def _execute(process: PlannedProcess) -> int:
    """Replace this process by the command; returns only if that fails, with an exit code."""
    try:
        os.chdir(process.folder)
        os.execve(process.command[0], process.command, process_environment(process))
    except OSError as error:
        text = f"inject suite: {error.filename}: {error.strerror}\n"
        os.write(2, text.encode(errors="surrogateescape"))
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE


def _restore_signals() -> None:
    """Reset signals to what a program expects."""
    # exec ends handlers, but keeps what is ignored (SIGPIPE and SIGXFSZ, by Python itself) or blocked.
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def process_environment(
    process: PlannedProcess, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a process: ``base``, by default this process's, with the plan's changes."""
    variables = dict(os.environ if base is None else base)
    for name, value in process.environment.items():
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    return variables
