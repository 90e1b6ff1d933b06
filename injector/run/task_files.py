"""The files by which the tasks of a Slurm step, or the processes of ``mpirun``, know of each other::

RUN/raw/task.RANK.started   made by a task that joins, touched while its program runs
RUN/raw/task.RANK.ended     its exit code, and problems of its record
RUN/raw/task.0.clock        host and port where task 0 answers questions for the time
RUN/raw/task.RANK.clock     a task's host, and by how much its clock differs, if that is known
"""

from __future__ import annotations

import os
import sys

from injector.store.place import replace_file

STARTED, CLOCK, ENDED = "started", "clock", "ended"
RUNNING: list[str] = []
"""The state of a task that has started and not ended."""


def task_file(folder: str, rank: int, what: str) -> str:
    """The file ``what`` of a task: :data:`STARTED`, :data:`CLOCK` or :data:`ENDED`."""
    return os.path.join(folder, "raw", f"task.{rank}.{what}")


def write(path: str, text: str) -> None:
    """Write ``text`` for the other tasks. An error is printed, and nothing else: the program goes on."""
    try:
        replace_file(path, [os.fsencode(text)])
    except OSError as error:
        print(f"inject: {path}: {error.strerror}", file=sys.stderr)


def last_sign(folder: str, rank: int) -> int | None:
    """When a task touched its file, nanoseconds by the clock of the file's server; None before its start."""
    try:
        # Opened, as NFS answers a stat alone from its cache.
        with open(task_file(folder, rank, STARTED), "rb") as file:
            return os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        return None


def state_of(folder: str, rank: int) -> list[str] | None:
    """The lines that a task wrote at its end; :data:`RUNNING` before that, None before its start."""
    try:
        path = task_file(folder, rank, ENDED)
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().split("\n")
    except OSError:
        return RUNNING if os.path.exists(task_file(folder, rank, STARTED)) else None
