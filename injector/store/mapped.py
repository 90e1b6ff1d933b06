"""Files of a process that are mapped into memory: a window of one, and one that grows by chunks.

A program may close every descriptor that it finds (a daemon does), and may rely on the number that its next
``open`` gets. So no descriptor of ours may stay open: neither the one that a file is mapped by, nor the copy
of it that :mod:`mmap` makes and keeps up to Python 3.12. The kernel needs neither for the mapping.

That copy has to be closed behind the map object's back. The object remembers its number, which may belong to
a file of the program by the time the object is deallocated, and would close that. So such an object is kept
alive until :meth:`Window.release` has made it harmless.
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
        """The writer of the log that a mapped file lies beside."""

        path: str | None

        def emit(self, event: str, data: object) -> None: ...


HEADER = 1024
"""Bytes at the start of the first chunk: a JSON line that says what the file is, then NUL."""
TITLE = 512
"""Bytes of the header that the line may take."""
FIRST = 1 << 16
"""Bytes of the first chunk, its header included. Each further one is twice as long, up to a limit."""
RETRY_NS = 1_000_000_000
"""Nanoseconds after a failed allocation until the next attempt, since each costs system calls."""

_SEARCHED = 4_096
"""Descriptor numbers that are searched for the copy that :mod:`mmap` made."""
_UNTRACKED = sys.version_info >= (3, 13)
"""Whether :mod:`mmap` can do without a copy of the descriptor."""

_kept: list[mmap] = []
"""The map objects that remember a number which is not theirs any more."""
# When the interpreter ends, it clears modules and their globals before the program's last files are flushed
# and closed. It clears the registry of codecs only after that, so the registry keeps these objects until they
# can close nothing of the program's (test_a_daemon_that_closes_everything).
_codecs.register_error("injector:windows", _kept.append)  # type: ignore[arg-type]


def allocate(fd: int, start: int, length: int) -> None:
    """Reserve ``length`` bytes from ``start`` on in the file open as ``fd``; all of them are NUL.

    Raises OSError if the disk has no room, or if the process may not write files that long.
    """
    try:
        os.posix_fallocate(fd, start, length)
        return
    except AttributeError:
        pass
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
    # The file system cannot reserve room. To write the zeros finds out as well whether there is any.
    at = max(start, os.fstat(fd).st_size)
    while at < start + length:
        at += os.pwrite(fd, bytes(min(1 << 20, start + length - at)), at)


class Window:
    """A shared mapping of ``length`` bytes from ``start`` on of the file open as ``fd``.

    Raises OSError or ValueError if the file system cannot map.
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
            import fcntl  # noqa: F401  # release() needs it; to load it there would make a hook wait

    def release(self, fd: int) -> None:
        """Unmap. ``fd`` is any open descriptor.

        To unmap, the map object has to be closed, and it then closes the number that it remembers. That is
        safe only while the number belongs to us again. ``F_DUPFD`` gives the lowest free number from there
        on, so it gives this one if it is free, without a race against other threads.
        """
        if self.number is None:
            _close(self.map)
            return
        import fcntl

        number = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, self.number)
        if number == self.number:
            if _close(self.map):  # which has closed the number
                _kept.remove(self.map)
            else:
                os.close(number)
        else:
            os.close(number)
            # The number belongs to the program. The window stays mapped for good, but its pages need not
            # count as the program's memory.
            from mmap import MADV_DONTNEED

            self.map.madvise(MADV_DONTNEED)


def _close(map: mmap) -> bool:
    """Close ``map``. Returns False if a view of it is in use, by another thread: it then stays mapped."""
    try:
        map.close()
    except BufferError:
        return False
    return True


def _copy_of(fd: int, offset: int) -> int | None:
    """The number of the copy of ``fd`` that :mod:`mmap` made; None if it was not found.

    Another thread may have opened the same file to read it. A copy is distinguished from that by the file
    offset, which it shares with ``fd``: ``offset`` lies past the end of the file, where no reader is.
    """
    own = os.fstat(fd)
    os.lseek(fd, offset, os.SEEK_SET)
    for number in range(_SEARCHED):
        try:
            other = os.fstat(number)
            if number == fd or (other.st_ino, other.st_dev) != (own.st_ino, own.st_dev):
                continue
            if os.lseek(number, 0, os.SEEK_CUR) == offset:
                return number
        except OSError:  # not open, or closed by its own thread since
            continue
    return None


class Mapped:
    """A file of one process that grows by chunks. Any thread may grow it that holds a lock of the caller's.

    Chunks begin at :data:`FIRST` bytes and double (:func:`extent`). Only the newest is mapped; views of older
    ones keep these mapped as well.
    """

    def __init__(
        self, writer: LogWriter, suffix: str, event: str, data: object, largest: int, several: bool
    ) -> None:
        """A file beside the log of ``writer``, whose name ends with ``suffix``.

        ``event`` and ``data`` make the JSON line at its start. ``largest``: bytes of the largest chunk.
        ``several``: whether a process has several such files, which are numbered.
        """
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
        """Map the next chunk. Returns a view of its bytes, which are all 0.

        Raises OSError or ValueError if there is no room, or the file system cannot map.
        """
        if self._pid != os.getpid():
            # After a fork, this process begins a file of its own. The parent's window stays mapped, unused.
            self._reset()
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
        """Open the file, which is created if there is none yet. Returns a descriptor. Raises OSError."""
        if self._path is not None:
            return os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        # The file is named after the log, which the writer's first record creates.
        if self._writer.path is None:
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
    """The offset of chunk number ``chunk`` in the file and its length, bytes. ``largest``: the longest."""
    start, length = 0, FIRST
    for _ in range(chunk):
        start, length = start + length, min(2 * length, largest)
    return start, length


def ends(size: int, largest: int) -> list[int]:
    """The offsets at which chunks end in a file of ``size`` bytes; the last is its end if none was cut."""
    offsets: list[int] = []
    end, length = FIRST, FIRST
    while end <= size:
        offsets.append(end)
        length = min(2 * length, largest)
        end += length
    return offsets
