"""The program's processes: the main one and all that descend from it; who of them ends, when, and how.

How one ended is a question to the kernel, not to its parent. An exit status belongs to the parent, but a
process that has ended stays visible until its parent has waited for it, and since Linux 6.15 a descriptor of
it tells its status even after that. Of a process that is found too late for either, the end is not known.
"""

from __future__ import annotations

import os
import select
import struct
import threading
import time
from collections.abc import Callable
from fcntl import ioctl
from typing import Any

import psutil

from ..store.event import LOG

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
    readings: dict[str, Callable[[Any], Any]] = {"fds": lambda each: int(each.num_fds()), "io": _io}
    if costly:
        readings["uss"] = lambda each: int(each.memory_full_info().uss)
    for name, read in readings.items():
        try:
            value = read(process)
        except (psutil.Error, OSError, AttributeError):
            continue  # another user's, or a system that does not tell
        entry.update(value if isinstance(value, dict) else {name: value})
    return entry


def _io(process: psutil.Process) -> dict[str, int]:
    counters = process.io_counters()
    return {"read": counters.read_bytes, "written": counters.write_bytes}


# --- how processes end -----------------------------------------------------------------------------


INTERVAL = 0.5
"""Seconds after which processes are looked for that have begun to record."""
_STATUS = 49
"""Of the words that follow the name in /proc/PID/stat, the one of the exit status."""
_GET_INFO = 0xC040FF0B
"""PIDFD_GET_INFO of <linux/pidfd.h>: _IOWR(0xFF, 11, struct pidfd_info), of 64 bytes."""
_INFO = struct.Struct("=QQ11Ii")
_EXIT = 1 << 3
"""PIDFD_INFO_EXIT: the status is wanted, and was given."""


class Exits:
    """Watches the processes that record into ``folder`` and descend from one of ``roots``.

    ``tell(pid, code)`` is called when one has ended: its exit code, minus the signal it died by, or
    None when that is not known. It runs in a thread of its own.
    """

    def __init__(
        self, folder: str, roots: set[int], tell: Callable[[int, int | None], None]
    ) -> None:
        self._raw = os.path.join(folder, "raw")
        self._roots = roots
        self._tell = tell
        self._stem = (os.uname().nodename.replace("/", "_") or "localhost") + "."
        self._looked_at: set[str] = set()
        self._watched: dict[int, int] = {}
        """Number of a process by its descriptor."""
        self._poll = select.poll()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="injector-exits")

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Tell of those that have ended by now, and watch no more."""
        self._over.set()
        self._thread.join(2 * INTERVAL + 1)
        if not self._thread.is_alive():
            self.turn(0.0)

    def _run(self) -> None:
        while not self._over.is_set():
            self.turn(INTERVAL)

    def turn(self, seconds: float) -> None:
        """Look for processes that are new, then wait so long for one that ends."""
        self._look()
        if not self._watched:
            self._over.wait(seconds)
            return
        for fd, _ in self._poll.poll(seconds * 1000):
            self._poll.unregister(fd)
            pid = self._watched.pop(fd)
            try:
                self._tell(pid, _code(pid, fd))
            finally:
                os.close(fd)

    def _look(self) -> None:
        try:
            names = [name for name in os.listdir(self._raw) if name.endswith(LOG)]
        except OSError:
            return
        for name in names:
            if name not in self._looked_at and name.startswith(self._stem):
                self._looked_at.add(name)
                # HOST.PID.log, or HOST.PID.1.log where the number has come back
                pid = name[len(self._stem) :].partition(".")[0]
                if pid.isdecimal():
                    self._watch(int(pid))

    def _watch(self, pid: int) -> None:
        if pid in self._watched.values():
            return  # it has become another program
        try:
            fd = os.pidfd_open(pid)
        except (OSError, AttributeError):  # it has ended, no descriptor is free, an old kernel
            return
        if not self._is_ours(pid):
            os.close(fd)
            return
        self._watched[fd] = pid
        self._poll.register(fd, select.POLLIN)

    def _is_ours(self, pid: int) -> bool:
        """Whether the number is the program's process, and not one of another name space or run."""
        try:
            process = psutil.Process(pid)
            return pid in self._roots or any(p.pid in self._roots for p in process.parents())
        except psutil.Error:
            return False


def _code(pid: int, fd: int) -> int | None:
    """How a process ended of which ``fd`` says that it has."""
    status = _zombie_status(pid)
    if status is None:
        status = _reaped_status(fd)
    if status is None:
        return None
    try:
        return os.waitstatus_to_exitcode(status)
    except ValueError:
        return None


def _zombie_status(pid: int) -> int | None:
    """The status of a process that has ended and was not waited for yet."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        return int(words[_STATUS]) if words[0] in (b"Z", b"X") else None
    except (OSError, IndexError, ValueError):
        return None


def _reaped_status(fd: int) -> int | None:
    """The same of one that was waited for already, where the kernel tells."""
    info = bytearray(_INFO.pack(_EXIT, *(0,) * 13))
    try:
        ioctl(fd, _GET_INFO, info)
    except OSError:
        return None
    mask, *_, status = _INFO.unpack(info)
    return int(status) if mask & _EXIT else None
