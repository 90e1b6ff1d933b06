"""What one process of the program records, in a file of its own that survives the process.

Records are copied into a memory-mapped file: what was emitted is the kernel's at once, so neither
SIGKILL nor ``os._exit`` loses it, and no system call is made per record. Space is allocated before
it is mapped, so that a full disk is an error there and not a SIGBUS here. Unused bytes are NUL.
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
"""Bytes of one record; of a longer one only its length is kept."""
RETRY_NS = 1_000_000_000
"""After space could not be had, the next attempt waits this long: it costs system calls."""

_PAGE = 1 << 16  # no allocation granularity in use is larger


class Writer:
    """Appends records to ``folder/raw/HOST.PID.log`` (or another suffix), made at the first record.

    ``meta`` is added to the record of the process. Nothing here raises into the program: what could
    not be kept is counted in :attr:`lost`, with the last reason in :attr:`why`, and the count is
    in the file as far as there is one. Safe in threads, signal handlers, destructors and forks.
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
        self._waiting: list[bytes] = []
        self._window: Window | None = None
        self._appending = False
        self._start = self._end = self._limit = 0  # of the window; of what is used; of the window
        self._slot = 0  # where, in the window, the count of lost records stands
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
        """Give back unused space. A later record opens the file again."""
        try:
            with self._lock:
                if not self._busy:
                    self._drain()
                    self._shrink()
        except Exception as error:
            self.why = _reason(error)

    def after_fork(self) -> None:
        """In the child of a fork: the parent's file is the parent's. Harmless anywhere else."""
        if self._pid == os.getpid():
            return
        window = self._window
        self._reset()
        if window is not None:
            try:
                self._release(window)
            except Exception:
                pass  # it stays mapped, unused

    def _put(self, line: bytes) -> None:
        with self._lock:
            self._waiting.append(line)
            while self._waiting and not self._busy:  # else the interrupted call goes on with it
                self._busy = True
                try:
                    self._drain()
                finally:
                    self._busy = False

    def _drain(self) -> None:
        while self._waiting:
            self._keep(self._waiting.pop(0))

    def _keep(self, line: bytes) -> None:
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
        self._end = end  # only now: an interruption before this line leaves the place to the next

    def _grow(self, length: int) -> None:
        """Make room for ``length`` more bytes. Raises OSError when there is none to be had."""
        if self._appending:
            return
        if self.folder is None:
            raise OSError(errno.ENOENT, "no run folder")
        now = monotonic_ns()
        if now < self._retry_at:
            raise _StillFullError(self.why)
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
        if self.path is not None:
            return os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        raw = os.path.join(str(self.folder), "raw")
        os.makedirs(raw, exist_ok=True)
        host = os.uname().nodename.replace("/", "_") or "localhost"
        stem = os.path.join(raw, f"{host}.{self._pid}")
        again = 0
        while True:  # a process id may come back within a run, and containers share host names
            path = f"{stem}.{again}{self.suffix}" if again else f"{stem}{self.suffix}"
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                again += 1
                continue
            self.path = path
            return fd

    def _map(self, fd: int, needed: int) -> None:
        start = self._end // _PAGE * _PAGE
        least = -(-(self._end - start + needed) // 4096) * 4096  # whole pages
        length = max(least, self._next_length)
        try:
            allocate(fd, start, length)
        except OSError:
            if length == least:
                raise
            length = least
            allocate(fd, start, length)
        try:
            window = Window(fd, start, length)
        except (OSError, ValueError):
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
        if self._appending:
            self._append(line)
        elif line:
            assert self._window is not None
            at = self._end - self._start
            self._window.map[at : at + len(line)] = line
            self._end += len(line)

    def _append(self, line: bytes) -> None:
        """The slow way, for file systems that cannot map: three system calls a record."""
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
        self.lost += 1
        try:
            if not isinstance(error, _StillFullError):
                self.why = _reason(error)
            if self._lock.acquire(blocking=False):  # else the next loss writes this one's count
                try:
                    self._say_lost()
                finally:
                    self._lock.release()
        except Exception:
            pass  # the count is in memory

    def _say_lost(self) -> None:
        if self._window is not None:
            text = lost_line(self.lost, self.why, monotonic_ns())
            at = self._slot - self._start
            self._window.map[at : at + len(text)] = text

    def _shrink(self) -> None:
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
        fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            window.release(fd)
        finally:
            os.close(fd)


_writers: list[Writer] = []


def _after_fork() -> None:
    for writer in _writers:
        writer.after_fork()


class _StillFullError(OSError):
    """There was no room a moment ago, and the file was not extended again."""


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None)
    return errno.errorcode.get(number or 0) or type(error).__name__
