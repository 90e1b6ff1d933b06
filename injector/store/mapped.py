"""Files of a process that are mapped into memory: a window of one, and one that grows by chunks.

A program may close every descriptor it finds, and counts on the number that its next ``open`` gets. So none
of ours may stay: neither the one used for mapping nor the copy that :mod:`mmap` keeps up to Python 3.12.
Closing that copy behind its back leaves the map object with a number that may since belong to the program;
such an object must not be deallocated before :meth:`Window.release` made it harmless.
"""

from __future__ import annotations

import _codecs
import errno
import os
import sys
from mmap import mmap
from time import monotonic_ns

from .event import LOG, line

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Protocol

    class LogWriter(Protocol):
        """The log that a mapped file lies beside: the writer of this process."""

        path: str | None

        def emit(self, event: str, data: object) -> None: ...


HEADER = 1024
"""Bytes at the start of the first chunk: a JSON line that says what the file is, then NUL."""
TITLE = 512
"""Bytes of them that the line may take."""
FIRST = 1 << 16
"""Bytes of the first chunk, its header included; each further one is twice as long, to a limit."""
RETRY_NS = 1_000_000_000
"""After room could not be had, the next attempt waits this long: it costs system calls."""

_SEARCHED = 4_096
_UNTRACKED = sys.version_info >= (3, 13)

_kept: list[mmap] = []
# Modules and their globals go before the program's last objects are flushed; the registry of codecs
# goes at the very end of the interpreter, so what it refers to closes no program's file.
_codecs.register_error("injector:windows", _kept.append)  # type: ignore[arg-type]


def allocate(fd: int, start: int, length: int) -> None:
    """Have the disk keep ``length`` bytes from ``start`` on for us, all of them NUL.

    Raises OSError when it has no room, or when the process may not write files that long.
    """
    try:
        os.posix_fallocate(fd, start, length)
        return
    except AttributeError:
        pass
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
    at = max(start, os.fstat(fd).st_size)
    while at < start + length:
        at += os.pwrite(fd, bytes(min(1 << 20, start + length - at)), at)


class Window:
    """``length`` bytes of the file open as ``fd``, from ``start`` on, mapped and shared.

    Raises OSError or ValueError when the file system cannot map.
    """

    __slots__ = ("map", "number")

    def __init__(self, fd: int, start: int, length: int) -> None:
        self.number: int | None = None
        if _UNTRACKED:
            self.map = mmap(fd, length, offset=start, trackfd=False)  # type: ignore[call-arg]
            return
        self.map = mmap(fd, length, offset=start)
        self.number = _copy_of(fd, start + length + 1)
        if self.number is not None:
            _kept.append(self.map)
            os.close(self.number)
            import fcntl  # noqa: F401  # for release(): loading it there would make a hook wait

    def release(self, fd: int) -> None:
        """Unmap; ``fd`` is any open descriptor.

        The map object will close its stale number: this is done only while that number is ours
        again, which asking for the lowest free one from there on tells without a race.
        """
        if self.number is None:
            _close(self.map)
            return
        import fcntl

        got = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, self.number)
        if got == self.number:
            if _close(self.map):
                _kept.remove(self.map)
            else:
                os.close(got)
        else:
            os.close(got)
            # It stays mapped for good, but need not count as the program's memory.
            from mmap import MADV_DONTNEED

            self.map.madvise(MADV_DONTNEED)


def _close(map: mmap) -> bool:
    try:
        map.close()
    except BufferError:  # another thread holds a view of it at this moment: it stays mapped
        return False
    return True


def _copy_of(fd: int, offset: int) -> int | None:
    """The copy of ``fd`` that :mod:`mmap` made.

    Another thread may have the same file open, to read it. The offset distinguishes a copy from that,
    which it shares with ``fd``: here it becomes ``offset``, past the end, where no reader stands.
    """
    wanted = os.fstat(fd)
    os.lseek(fd, offset, os.SEEK_SET)
    for number in range(_SEARCHED):
        try:
            found = os.fstat(number)
            if number == fd or (found.st_ino, found.st_dev) != (wanted.st_ino, wanted.st_dev):
                continue
            if os.lseek(number, 0, os.SEEK_CUR) == offset:
                return number
        except OSError:  # not open, or closed by its own thread since
            continue
    return None


class Mapped:
    """A file of one process that grows by chunks. Safe to grow from any thread that holds a lock.

    ``suffix`` ends its name; with ``several``, files of that kind are numbered. ``event`` and ``data``
    are its title, the JSON line at its start.
    """

    def __init__(
        self, writer: LogWriter, suffix: str, event: str, data: object, largest: int, several: bool
    ) -> None:
        self._writer = writer
        self._suffix = suffix
        self._event = event
        self._data = data
        self._largest = largest
        self._several = several
        self._reset()

    def _reset(self) -> None:
        self._path: str | None = None
        self._pid = os.getpid()
        self._chunks = 0
        self._window: Window | None = None
        self._retry_at = 0
        self._why = 0

    def grow(self) -> memoryview:
        """Room for more: the bytes of the next chunk, all 0.

        Raises OSError or ValueError when there is none to be had.
        """
        if self._pid != os.getpid():
            self._reset()  # the parent's file is the parent's; its window stays mapped, unused
        now = monotonic_ns()
        if now < self._retry_at:
            raise OSError(self._why, "there was no room a moment ago")
        try:
            return self._next_chunk()
        except (OSError, ValueError) as error:
            self._retry_at = now + RETRY_NS
            self._why = getattr(error, "errno", None) or 0
            raise

    def _next_chunk(self) -> memoryview:
        start, length = extent(self._chunks, self._largest)
        fd = self._open()
        try:
            allocate(fd, start, length)
            old, self._window = self._window, Window(fd, start, length)
            if old is not None:
                old.release(fd)
        finally:
            os.close(fd)
        head = HEADER if self._chunks == 0 else 0
        if head:
            title = line(self._event, self._data, monotonic_ns())[: TITLE - 1]
            self._window.map[: len(title)] = title
        self._chunks += 1
        return memoryview(self._window.map)[head:]

    def _open(self) -> int:
        if self._path is not None:
            return os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        if self._writer.path is None:  # its first record makes it
            self._writer.emit(self._event, self._data)
        if self._writer.path is None:
            raise OSError("the process has no log")
        stem = self._writer.path[: -len(LOG)]
        number = 0
        while True:
            path = f"{stem}.{number}{self._suffix}" if self._several else stem + self._suffix
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                if not self._several:
                    raise
                number += 1
                continue
            self._path = path
            return fd


def extent(chunk: int, largest: int) -> tuple[int, int]:
    """Where chunk number ``chunk`` starts in the file, and how long it is; bytes."""
    start, length = 0, FIRST
    for _ in range(chunk):
        start, length = start + length, min(2 * length, largest)
    return start, length


def ends(size: int, largest: int) -> list[int]:
    """Where the chunks end of a file that has ``size`` bytes; a whole file ends with the last."""
    found: list[int] = []
    end, length = FIRST, FIRST
    while end <= size:
        found.append(end)
        length = min(2 * length, largest)
        end += length
    return found
