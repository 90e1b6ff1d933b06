"""The program's processes, the main one and its descendants: their use of the machine, and how they end.

:class:`Tree` finds and samples them. :class:`Exits` watches those that record, to learn how each one ends.

The kernel gives an exit status to the parent only, which is a process of the program. But there are two other
ways to it. A process that has ended stays visible in ``/proc`` as a zombie, with its status, until its parent
has waited for it; a descriptor of it (pidfd) becomes readable at that moment. Since Linux 6.15 the descriptor
gives the status even after that. If a process is found too late for either, its status stays unknown.
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
"""Seconds between searches for new processes. Those that are known are read at every sample."""


class Tree:
    """The process ``pid`` and its descendants."""

    def __init__(self, pid: int) -> None:
        self._root: psutil.Process | None
        try:
            self._root = psutil.Process(pid)
        except psutil.Error:
            self._root = None
        self._known: dict[int, psutil.Process] = {}
        self._search_at = 0.0

    def alive(self) -> bool:
        """Whether the main process still runs, and its number was not given to another process."""
        root = self._root
        try:
            return root is not None and root.is_running() and root.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def sample(self, costly: bool = False) -> list[dict[str, Any]]:
        """An entry for each process: ``pid ppid name started cpu rss threads fds read written``, and ``uss``
        if ``costly``.

        ``started`` is unix seconds, ``cpu`` seconds of user and system time since then, ``rss`` and ``uss``
        bytes of memory, ``read`` and ``written`` bytes that went to disks. What cannot be read is left out.
        """
        return [entry for process in self._processes() if (entry := _entry(process, costly))]

    def _processes(self) -> list[psutil.Process]:
        """The processes that are known, after a search for new ones if that is due."""
        now = time.monotonic()
        if self._root is not None and now >= self._search_at:
            self._search_at = now + SEARCH
            self._search(self._root)
        return list(self._known.values())

    def _search(self, root: psutil.Process) -> None:
        """Find the processes that there are now. Known ones stay the same objects, with what they read."""
        try:
            pids = [root.pid, *below(root.pid)]
        except OSError:
            # This kernel has no lists of children, so all processes of the host are searched.
            pids = [root.pid, *_below_slowly(root)]
        known = {pid: self._known.get(pid) for pid in pids}
        self._known = {pid: process for pid, old in known.items() if (process := _same(pid, old))}


def below(pid: int) -> list[int]:
    """The numbers of the descendants of a process. One that just starts or ends may be missing.

    Raises OSError if the kernel has no lists of children (CONFIG_PROC_CHILDREN), or there is no such process.
    """
    descendants = _children(pid)
    for child in descendants:  # the list grows while it is gone through
        try:
            descendants += _children(child)
        except OSError:
            continue  # it has ended
    return descendants


def _children(pid: int) -> list[int]:
    """The numbers of the children of a process, whichever of its threads started them. Raises OSError."""
    children: list[int] = []
    missing = None
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                children += map(int, file.read().split())
        except (FileNotFoundError, ProcessLookupError) as error:
            # Any other thread may have ended meanwhile; without the first one, the process has, or the kernel
            # has no such lists.
            if thread == str(pid):
                missing = error
    if missing is not None:
        raise missing
    return children


def _below_slowly(root: psutil.Process) -> list[int]:
    """As :func:`below`, by reading all processes of the host."""
    try:
        return [process.pid for process in root.children(recursive=True)]
    except psutil.Error:
        return []


def _same(pid: int, known: psutil.Process | None) -> psutil.Process | None:
    """The process that has the number ``pid`` now: ``known`` unless that has ended; None if there is none."""
    try:
        return known if known is not None and known.is_running() else psutil.Process(pid)
    except psutil.Error:
        return None


def _entry(process: psutil.Process, costly: bool) -> dict[str, Any] | None:
    """The entry of a process in a sample; None if it has ended."""
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
        return None
    # These may fail one by one: for a process of another user, or on systems without them.
    readings: dict[str, Callable[[Any], Any]] = {"fds": lambda p: int(p.num_fds()), "io": _io}
    if costly:
        readings["uss"] = lambda p: int(p.memory_full_info().uss)
    for name, read in readings.items():
        try:
            value = read(process)
        except (psutil.Error, OSError, AttributeError):
            continue
        entry.update(value if isinstance(value, dict) else {name: value})
    return entry


def _io(process: psutil.Process) -> dict[str, int]:
    counters = process.io_counters()
    return {"read": counters.read_bytes, "written": counters.write_bytes}


# --- how processes end -----------------------------------------------------------------------------


INTERVAL = 0.5
"""Seconds between looks for processes that have begun to record."""
_STATUS = 49
"""The index of the exit status among the words after the name in /proc/PID/stat."""
_GET_INFO = 0xC040FF0B
"""PIDFD_GET_INFO of <linux/pidfd.h>: _IOWR(0xFF, 11, struct pidfd_info), of 64 bytes."""
_INFO = struct.Struct("=QQ11Ii")
_EXIT = 1 << 3
"""PIDFD_INFO_EXIT: in the request, that the status is wanted; in the answer, that it is there."""


class Exits:
    """Watches the processes that record into ``folder`` and descend from one of ``roots``.

    When one has ended, ``tell(pid, code)`` is called in a thread of its own. ``code`` is the exit code, or
    minus the signal that the process died by, or None if that is not known.
    """

    def __init__(
        self, folder: str, roots: set[int], tell: Callable[[int, int | None], None]
    ) -> None:
        self._raw = os.path.join(folder, "raw")
        self._roots = roots
        self._tell = tell
        self._stem = (os.uname().nodename.replace("/", "_") or "localhost") + "."
        self._known_logs: set[str] = set()
        self._watched: dict[int, int] = {}
        """The numbers of the processes that are watched, by the descriptors of them."""
        self._poll = select.poll()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="injector-exits")

    def start(self) -> None:
        """Begin to watch, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and report the processes that have ended by now."""
        self._over.set()
        self._thread.join(2 * INTERVAL + 1)
        if not self._thread.is_alive():
            # The last processes of the program may have ended since the thread's last turn.
            self.turn(0.0)

    def _run(self) -> None:
        while not self._over.is_set():
            self.turn(INTERVAL)

    def turn(self, seconds: float) -> None:
        """Look for new processes, then wait up to ``seconds`` for watched ones to end, and report these."""
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
        """Watch the processes whose logs are new in the run folder."""
        try:
            names = [name for name in os.listdir(self._raw) if name.endswith(LOG)]
        except OSError:
            return
        for name in names:
            if name not in self._known_logs and name.startswith(self._stem):
                self._known_logs.add(name)
                # HOST.PID.log, or HOST.PID.1.log of a later process with that number
                pid = name[len(self._stem) :].partition(".")[0]
                if pid.isdecimal():
                    self._watch(int(pid))

    def _watch(self, pid: int) -> None:
        """Watch the process ``pid``, if it is the program's."""
        if pid in self._watched.values():
            return  # the same process has become another program by exec, which has a log of its own
        try:
            fd = os.pidfd_open(pid)
        except (OSError, AttributeError):
            return  # it has ended, no descriptor is free, or the kernel is too old
        # Checked after the descriptor is open: it stands for this process even if the number is given out
        # again.
        if not self._is_ours(pid):
            os.close(fd)
            return
        self._watched[fd] = pid
        self._poll.register(fd, select.POLLIN)

    def _is_ours(self, pid: int) -> bool:
        """Whether the number is that of a process of the program.

        Another process may have it by now; or the log is from a container, with other numbers.
        """
        try:
            process = psutil.Process(pid)
            return pid in self._roots or any(p.pid in self._roots for p in process.parents())
        except psutil.Error:
            return False


def _code(pid: int, fd: int) -> int | None:
    """The exit code, or minus a signal, of an ended process with the descriptor ``fd``; None if unknown."""
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
    """The wait status of a process that has ended and was not waited for yet; None for any other."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name, in parentheses, may hold blanks and parentheses itself.
            words = file.read().rpartition(b")")[2].split()
        return int(words[_STATUS]) if words[0] in (b"Z", b"X") else None
    except (OSError, IndexError, ValueError):
        return None


def _reaped_status(fd: int) -> int | None:
    """The wait status of a process that was waited for already, by its descriptor; None on older kernels."""
    info = bytearray(_INFO.pack(_EXIT, *(0,) * 13))
    try:
        ioctl(fd, _GET_INFO, info)
    except OSError:
        return None
    mask, *_, status = _INFO.unpack(info)
    return int(status) if mask & _EXIT else None
