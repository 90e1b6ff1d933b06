"""The writer of records: each process of the program has one, with a file of its own that survives the
process.

Records are copied into a memory-mapped file. The pages belong to the kernel at once, so neither SIGKILL nor
``os._exit`` loses what was emitted, and no system call is made for a record. Space is allocated before it is
mapped: a full disk is then an error of the allocation, and not a SIGBUS when a byte is stored. The file is
mapped in windows of growing length, one at a time::

    process | lost | record | ... | lost | record | record | record | NUL NUL NUL ...
                                  `-- the mapped window, from _start to _limit -----'
                                  _slot                             _end

The first record is that of the process. In each window, one record counts what was lost so far; it is
rewritten in place, which needs no room on a full disk. Unused bytes are NUL, which readers leave out
(:mod:`..store.logs` has the layout).
"""

from __future__ import annotations

import errno
import os
from _thread import RLock
from time import monotonic_ns

from ..store.event import LOG, lost_line, process_line, value_line
from ..store.event import line as make_line
from ..store.mapped import Window, allocate

TYPE_CHECKING = False  # typing itself is not imported: every process of every program pays for it
if TYPE_CHECKING:
    from typing import Any


FIRST = 1 << 16
"""Bytes of the first window; each further one is twice as long, up to :data:`LARGEST`."""
LARGEST = 1 << 23
RECORD_LIMIT = 1 << 28
"""The most bytes of one record. Of a longer one only its length is kept."""
RETRY_NS = 1_000_000_000
"""Nanoseconds after a failed allocation until the next attempt, since each costs system calls."""

_PAGE = 1 << 16  # windows begin at multiples of it: no system's allocation granularity is larger


class Writer:
    """Appends records to ``folder/raw/HOST.PID.log`` (or another suffix), which the first record creates.

    ``meta`` is added to the record of the process. No method raises into the program: records that could not
    be kept are counted in :attr:`lost`, with the last reason in :attr:`why`, and the count is in the file if
    there is one. Safe in threads, signal handlers, destructors and forks.
    """

    def __init__(
        self, folder: str | None, meta: dict[str, Any] | None = None, suffix: str = LOG
    ) -> None:
        self.folder = folder
        self.suffix = suffix
        self.meta = dict(meta or {})
        self._reset()
        if not _writers:
            os.register_at_fork(after_in_child=_after_fork)
        _writers.append(self)

    def _reset(self) -> None:
        self.path: str | None = None
        self.lost = 0
        self.why = ""
        self._pid = os.getpid()
        # A lock only around a copy of some hundred bytes: this is not the per-step path, where
        # measuring is to keep lists of its own and hand them over in between. Re-entrant, since a
        # signal handler or a destructor may emit in the middle of a record.
        self._lock = RLock()
        self._busy = False
        """Whether a call writes into the window; one that interrupts it only adds to what waits."""
        self._waiting: list[bytes] = []
        self._window: Window | None = None
        self._appending = False
        """Whether the file system cannot map files, so that each record is appended by system calls."""
        self._start = self._end = self._limit = 0  # of the window; of the records; of the window
        self._slot = 0  # where the window's count of lost records stands in the file
        self._next_length = FIRST
        self._retry_at = 0

    def emit(self, event: str, data: object) -> None:
        """Record ``data`` (anything; see :mod:`.event` for what is no JSON) under ``event``."""
        try:
            self._put(make_line(event, data, monotonic_ns()))
        except Exception as error:
            try:
                self._lose(error)
            except Exception:  # no room left on the stack to go there
                self.lost += 1

    def emit_values(self, series: str, t_ns: int, value: object) -> None:
        """Record one value of ``series`` (``"loss"``, or ``"train/loss"`` with its task).

        ``t_ns`` is nanoseconds of the monotonic clock.
        """
        try:
            self._put(value_line(series, value, t_ns))
        except Exception as error:
            try:
                self._lose(error)
            except Exception:  # no room left on the stack to go there
                self.lost += 1

    def lose(self, records: int, error: Exception) -> None:
        """Count ``records`` that other code could not store, because of ``error``."""
        try:
            self.lost += records - 1
            self._lose(error)
        except Exception:  # no room left on the stack to go there
            self.lost += 1

    def close(self) -> None:
        """Give unused space back to the disk. A later record opens the file again."""
        try:
            with self._lock:
                if not self._busy:
                    self._drain()
                    self._shrink()
        except Exception as error:
            self.why = _reason(error)

    def after_fork(self) -> None:
        """In the child of a fork, begin a file of its own with its first record. Harmless anywhere else.

        Without this, parent and child would write to one place: the mapping is shared, :attr:`_end` is not.
        """
        if self._pid == os.getpid():
            return
        window = self._window
        self._reset()
        if window is not None:
            try:
                self._release(window)
            except Exception:
                pass  # the parent's window stays mapped, unused

    def _put(self, line: bytes) -> None:
        """Write ``line``, and what waits."""
        with self._lock:
            self._waiting.append(line)
            # If this interrupts a call of the same thread, in a signal handler for instance, that call writes
            # it. Otherwise the loop also writes what came while the last line was being written.
            while self._waiting and not self._busy:
                self._busy = True
                try:
                    self._drain()
                finally:
                    self._busy = False

    def _drain(self) -> None:
        while self._waiting:
            self._write(self._waiting.pop(0))

    def _write(self, line: bytes) -> None:
        """Write ``line`` after the last record, or count it as lost."""
        end = self._end + len(line)
        if end > self._limit:
            if len(line) > RECORD_LIMIT:
                line = make_line("too_long", {"bytes": len(line)}, monotonic_ns())
            try:
                self._grow(len(line))
            except Exception as error:
                self._lose(error)
                return
            if self._appending:
                self._append(line)
                return
            end = self._end + len(line)
        assert self._window is not None
        at = self._end - self._start
        self._window.map[at : at + len(line)] = line
        self._end = (
            end  # only now: if the copy is interrupted by an exception, the next line overwrites it
        )

    def _grow(self, length: int) -> None:
        """Map a window with room for ``length`` more bytes. Raises OSError if the disk has no room."""
        if self._appending:
            return
        if self.folder is None:
            raise OSError(errno.ENOENT, "no run folder")
        now = monotonic_ns()
        if now < self._retry_at:
            raise _StillFullError(self.why)
        # A process that records nothing leaves no file, so its own record is made with the first other one.
        header = b"" if self._end else process_line(self.meta)
        needed = len(header) + len(lost_line(0, "", 0)) + length
        try:
            fd = self._open()
            try:
                self._map(fd, needed)
            finally:
                os.close(fd)
        except OSError:
            self._retry_at = now + RETRY_NS
            raise
        self._copy(header)
        self._slot = self._end
        self._copy(lost_line(self.lost, self.why, now))

    def _open(self) -> int:
        """Open the file, which is created if there is none yet. Returns a descriptor. Raises OSError."""
        if self.path is not None:
            return os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        raw = os.path.join(str(self.folder), "raw")
        os.makedirs(raw, exist_ok=True)
        host = os.uname().nodename.replace("/", "_") or "localhost"
        stem = os.path.join(raw, f"{host}.{self._pid}")
        number = 0
        while True:  # a process id may come back within a run, and containers share host names
            path = f"{stem}.{number}{self.suffix}" if number else f"{stem}{self.suffix}"
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                number += 1
                continue
            self.path = path
            return fd

    def _map(self, fd: int, needed: int) -> None:
        """Replace the window by one with ``needed`` bytes or more after the last record. Raises OSError."""
        start = self._end // _PAGE * _PAGE
        least = -(-(self._end - start + needed) // 4096) * 4096  # whole pages
        length = max(least, self._next_length)
        try:
            allocate(fd, start, length)
        except OSError:
            if length == least:
                raise
            # The disk is nearly full. What is left of it may do for this record.
            length = least
            allocate(fd, start, length)
        try:
            window = Window(fd, start, length)
        except (OSError, ValueError):
            # The file system cannot map. Records are appended, so the file must end with the last one.
            os.ftruncate(fd, self._end)
            self._appending = True
            self._limit = 0
            return
        old, self._window = self._window, window
        self._start, self._limit = start, start + length
        self._next_length = min(2 * length, LARGEST)
        if old is not None:
            old.release(fd)

    def _copy(self, line: bytes) -> None:
        """Write a line of the file's own, for which there is room."""
        if self._appending:
            self._append(line)
        elif line:
            assert self._window is not None
            at = self._end - self._start
            self._window.map[at : at + len(line)] = line
            self._end += len(line)

    def _append(self, line: bytes) -> None:
        """Append ``line`` with three system calls, for file systems that cannot map."""
        try:
            fd = os.open(str(self.path), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                if os.write(fd, line) != len(line):
                    raise OSError(errno.ENOSPC, "written in part")
            finally:
                os.close(fd)
        except OSError as error:
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        """Count one more lost record, in memory and in the file."""
        self.lost += 1
        try:
            if not isinstance(error, _StillFullError):
                self.why = _reason(error)
            # Without waiting for the lock: the next loss, or the next window, writes this count as well.
            if self._lock.acquire(blocking=False):
                try:
                    self._rewrite_lost()
                finally:
                    self._lock.release()
        except Exception:
            pass  # the count is in memory

    def _rewrite_lost(self) -> None:
        """Rewrite the window's count of lost records; the line always has the same length."""
        if self._window is not None:
            text = lost_line(self.lost, self.why, monotonic_ns())
            at = self._slot - self._start
            self._window.map[at : at + len(text)] = text

    def _shrink(self) -> None:
        """Unmap the window and cut the file after the last record. Raises OSError."""
        window, self._window = self._window, None
        if window is None or self.path is None:
            return
        self._limit = 0
        self._next_length = FIRST
        fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            window.release(fd)
            os.ftruncate(fd, self._end)
        finally:
            os.close(fd)

    def _release(self, window: Window) -> None:
        """Unmap the parent's window, without its file. Raises OSError."""
        fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            window.release(fd)
        finally:
            os.close(fd)


_writers: list[Writer] = []
"""Every writer of the process: one hook after forks serves all, as such hooks cannot be removed."""


def _after_fork() -> None:
    for writer in _writers:
        writer.after_fork()


class _StillFullError(OSError):
    """No room was found a moment ago, and no new attempt was made."""


def _reason(error: Exception) -> str:
    """The name of the error's number, such as ``ENOSPC``, or else of its class."""
    number = getattr(error, "errno", None)
    return errno.errorcode.get(number or 0) or type(error).__name__
