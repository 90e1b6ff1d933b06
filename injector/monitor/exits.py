"""Who of the program's processes ends, when, and how: asked of the kernel, not of their parents.

An exit status belongs to the parent. But a process that has ended stays visible until its parent has
waited for it, and since Linux 6.15 a descriptor of it tells its status even after that. What comes too
late for either has ended without anybody knowing how.
"""

from __future__ import annotations

import os
import select
import struct
import threading
from collections.abc import Callable
from fcntl import ioctl

import psutil

from ..store.event import LOG

INTERVAL = 0.5
"""Seconds after which processes are looked for that have begun to record."""
_STATUS = 49
"""Of the words that follow the name in /proc/PID/stat, the one of the exit status."""
_GET_INFO = 0xC040FF0B
"""PIDFD_GET_INFO of <linux/pidfd.h>: _IOWR(0xFF, 11, struct pidfd_info), of 64 bytes."""
_INFO = struct.Struct("=QQ11Ii")
_EXIT = 1 << 3
"""PIDFD_INFO_EXIT: the status is asked for, and was given."""


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
    status = _waiting(pid)
    if status is None:
        status = _told(fd)
    if status is None:
        return None
    try:
        return os.waitstatus_to_exitcode(status)
    except ValueError:
        return None


def _waiting(pid: int) -> int | None:
    """The status of a process that has ended and was not waited for yet."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        return int(words[_STATUS]) if words[0] in (b"Z", b"X") else None
    except (OSError, IndexError, ValueError):
        return None


def _told(fd: int) -> int | None:
    """The same of one that was waited for already, where the kernel tells."""
    info = bytearray(_INFO.pack(_EXIT, *(0,) * 13))
    try:
        ioctl(fd, _GET_INFO, info)
    except OSError:
        return None
    mask, *_, status = _INFO.unpack(info)
    return int(status) if mask & _EXIT else None
