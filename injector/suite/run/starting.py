"""Starting the processes of a job: all of them at the same moment, or none.

Each is forked and then waits at a gate. Only when all of them wait, and the journal says so, does the
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
from typing import NoReturn

from ..plan.jobs import Process
from .results import STDERR

LOCK, STDOUT = "lock", "stdout"
NOT_STARTED, NOT_FOUND, CANNOT_EXECUTE = 125, 127, 126


class CannotStartError(Exception):
    """Why nothing of a job was started."""


def start(
    processes: Sequence[Process],
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
        _check(each)
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


def _check(process: Process) -> None:
    path = process.command[0]
    if not os.access(path, os.X_OK):
        raise CannotStartError(f"there is no {path}: its environment is not installed")


def _fork(process: Process, folder: str, held: Sequence[int], inner: int, outer: int) -> int:
    run = os.path.join(folder, process.run)
    os.makedirs(run, exist_ok=True)
    if process.folder.startswith(run):
        os.makedirs(process.folder, exist_ok=True)
    lock = hold(run)
    if lock is None:
        raise CannotStartError(f"{run}: somebody runs this already")
    files = [_file(os.path.join(run, name)) for name in (STDOUT, STDERR)]
    try:
        pid = os.fork()
        if pid == 0:
            os.close(outer)
            _become(process, inner, files, [lock, *held])
        return pid
    finally:
        for each in (lock, *files):
            os.close(each)


def _file(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)


def hold(run: str) -> int | None:
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


def _become(process: Process, gate: int, files: Sequence[int], held: Sequence[int]) -> NoReturn:
    """Wait at the gate, then be the program; in the forked child, which never returns."""
    code = NOT_STARTED
    try:
        os.setsid()
        _defaults()
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


def _execute(process: Process) -> int:
    try:
        os.chdir(process.folder)
        os.execve(process.command[0], process.command, environment(process))
    except OSError as error:
        text = f"inject suite: {error.filename}: {error.strerror}\n"
        os.write(2, text.encode(errors="surrogateescape"))
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE


def _defaults() -> None:
    """Signals as a program expects them; what is ignored stays so across ``exec``."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def environment(process: Process, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of a process: ours, with what the plan sets and takes away."""
    made = dict(os.environ if given is None else given)
    for name, value in process.environment.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = value
    return made
