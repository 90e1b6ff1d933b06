"""The program's processes: the main one and all that descend from it."""

from __future__ import annotations

from typing import Any

import psutil


class Tree:
    """The processes below (and with) the process ``pid``."""

    def __init__(self, pid: int) -> None:
        self._root: psutil.Process | None
        try:
            self._root = psutil.Process(pid)
        except psutil.Error:
            self._root = None
        self._known: dict[tuple[int, float], psutil.Process] = {}

    def alive(self) -> bool:
        """Whether the main process still runs; its id given to another process does not count."""
        root = self._root
        try:
            return root is not None and root.is_running() and root.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def sample(self, costly: bool = False) -> list[dict[str, Any]]:
        """One entry a process: ``pid ppid name cpu rss threads fds`` and, if ``costly``, ``uss``.

        ``cpu`` is seconds of user and system time since its start, ``rss`` and ``uss`` are bytes,
        ``read`` and ``written`` bytes that reached a disk. What may not be read is left out.
        """
        return [found for process in self._processes() if (found := _entry(process, costly))]

    def _processes(self) -> list[psutil.Process]:
        if self._root is None:
            return []
        try:
            found = [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            return []
        # Kept from sample to sample: what an object has read of its process once is not read again.
        known = {(p.pid, p.create_time()): p for p in found if _still(p)}
        self._known = {key: self._known.get(key, process) for key, process in known.items()}
        return list(self._known.values())


def _still(process: psutil.Process) -> bool:
    try:
        process.create_time()
    except psutil.Error:
        return False
    return True


def _entry(process: psutil.Process, costly: bool) -> dict[str, Any] | None:
    try:
        with process.oneshot():
            times = process.cpu_times()
            entry: dict[str, Any] = {
                "pid": process.pid,
                "ppid": process.ppid(),
                "name": process.name(),
                "started": process.create_time(),
                "cpu": round(times.user + times.system, 3),
                "rss": process.memory_info().rss,
                "threads": process.num_threads(),
            }
    except psutil.Error:
        return None  # it ended in the meantime
    readings = {"fds": _fds, "io": _io, **({"uss": _uss} if costly else {})}
    for name, read in readings.items():
        try:
            value = read(process)
        except (psutil.Error, OSError, AttributeError):
            continue  # another user's, or a system that does not tell
        entry.update(value if isinstance(value, dict) else {name: value})
    return entry


def _fds(process: psutil.Process) -> int:
    return int(process.num_fds())


def _uss(process: psutil.Process) -> int:
    return int(process.memory_full_info().uss)


def _io(process: psutil.Process) -> dict[str, int]:
    counters = process.io_counters()
    return {"read": counters.read_bytes, "written": counters.write_bytes}
