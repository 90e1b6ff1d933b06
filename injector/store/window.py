"""A piece of a file in memory, without an open file descriptor.

A program may close every descriptor it finds, and counts on the number that its next ``open``
gets. So none of ours may stay: neither the one used for mapping nor the copy that :mod:`mmap` keeps
up to Python 3.12. Closing that copy behind its back leaves the map object with a number that may
since belong to the program; such an object must not be deallocated before :meth:`Window.release`
made it harmless.
"""

from __future__ import annotations

import _codecs
import errno
import os
import sys
from mmap import mmap

_SEARCHED = 4_096
_UNTRACKED = sys.version_info >= (3, 13)

_kept: list[mmap] = []
# Modules and their globals go before the program's last objects are flushed; the registry of codecs
# goes at the very end of the interpreter, so what it refers to closes nobody's file.
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
            self._forget_pages()

    def _forget_pages(self) -> None:
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

    Another thread may have the same file open, to read it. A copy is told from that by the offset,
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
