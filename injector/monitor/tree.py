"""The program's processes: the main one and all that descend from it."""

from __future__ import annotations

import os
import time
from typing import Any

import psutil

SEARCH = 1.0
"""Seconds between looks for processes that were started. Those known are read at every sample."""


class Tree:
    """The processes below (and with) the process ``pid``."""

    def __init__(self, pid: int) -> None:
        self._root: psutil.Process | None
        try:
            self._root = psutil.Process(pid)
        except psutil.Error:
            self._root = None
        self._known: dict[int, psutil.Process] = {}
        self._search_at = 0.0

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
        now = time.monotonic()
        if self._root is not None and now >= self._search_at:
            self._search_at = now + SEARCH
            self._search(self._root)
        return list(self._known.values())

    def _search(self, root: psutil.Process) -> None:
        """Take note of who is there. What has been read of a process once is not read again."""
        try:
            found = [root.pid, *below(root.pid)]
        except OSError:  # this kernel keeps no lists of children, so all processes are looked at
            found = [root.pid, *_below_slowly(root)]
        known = {pid: self._known.get(pid) for pid in found}
        self._known = {pid: one for pid, old in known.items() if (one := _same(pid, old))}


def below(pid: int) -> list[int]:
    """The descendants of a process, as far as they are not in the middle of starting or ending.

    Raises OSError where the kernel does not tell (CONFIG_PROC_CHILDREN), or there is no such process.
    """
    found = _children(pid)
    for child in found:  # which grows meanwhile
        try:
            found += _children(child)
        except OSError:
            continue  # it has ended
    return found


def _children(pid: int) -> list[int]:
    """What any of its threads has started."""
    found: list[int] = []
    missing = None
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
        except (FileNotFoundError, ProcessLookupError) as error:
            if thread == str(pid):  # not only a thread that has ended meanwhile
                missing = error
    if missing is not None:
        raise missing
    return found


def _below_slowly(root: psutil.Process) -> list[int]:
    try:
        return [process.pid for process in root.children(recursive=True)]
    except psutil.Error:
        return []


def _same(pid: int, known: psutil.Process | None) -> psutil.Process | None:
    """The process that has the number now: ``known``, unless that has ended."""
    try:
        return known if known is not None and known.is_running() else psutil.Process(pid)
    except psutil.Error:
        return None


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
