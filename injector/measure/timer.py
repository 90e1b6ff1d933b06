"""``injector.Timer``: a stopwatch for the program's own use, with or without ``inject``.

Under ``inject``, each part is a region of the record as well (:func:`.user.opened`); without it, or for times
of a device alone, the Timer has marks of its own, which write nothing.
"""

from __future__ import annotations

import sys
from time import perf_counter_ns

from ..mpi import launcher_number
from . import device as devices
from . import user
from .marks import Marks

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .device import ClockSource, ProgramClock
    from .marks import Mark
    from .user import Opened


class Timing:
    """Statistics of the durations of one key, in seconds. ``stdev`` is that of a sample; 0 for one value."""

    __slots__ = ("max", "mean", "median", "min", "n", "stdev", "total")

    def __init__(self, seconds: list[float]) -> None:
        """Raises ValueError when ``seconds`` is empty."""
        if not seconds:
            raise ValueError("nothing was timed")
        ordered = sorted(seconds)
        n = self.n = len(ordered)
        self.min, self.max, self.total = ordered[0], ordered[-1], sum(ordered)
        self.mean = self.total / n
        self.median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
        spread = sum((value - self.mean) ** 2 for value in ordered)
        self.stdev = (spread / (n - 1)) ** 0.5 if n > 1 else 0.0

    def __repr__(self) -> str:
        return "Timing(" + ", ".join(f"{name}={getattr(self, name)!r}" for name in _SHOWN) + ")"


_SHOWN = ("n", "min", "mean", "median", "max", "stdev")


class Timer:
    """Times what lies between ``start(key)`` and ``end(key)``, each time it runs.

    With a ``device``, each part is also timed by the clock of that device, which works off later what the
    part has queued: True for the device that the program uses, its name (``"cuda:0"``) or ``torch.device``;
    ``clock`` plugs in a clock of the program's own (docs/timers.md). The device's times of a key are kept
    apart from the host's, and nothing here waits for a device but :meth:`synchronize`. With ``ranks``, only
    these processes of a distributed job are timed.

    Under ``inject``, each part is also a span of a region, and of the device; the standard keys (``Batch``,
    ``IO``, ``Forward``, …) are called as in the report. Raises ValueError for a device that is none, and for
    ranks that are no numbers.
    """

    def __init__(
        self,
        *,
        device: Any = None,
        clock: ProgramClock | None = None,
        ranks: Iterable[int] | None = None,
    ) -> None:
        if clock is not None and device is not None:
            raise ValueError("a Timer has a device or a clock, not both")
        self._source = devices.source(device if clock is None else clock)
        self._ranks = None if ranks is None else _numbers(ranks)
        self._rank: int | None = None
        self._seconds: dict[tuple[str, bool], list[float]] = {}
        self._warned = False
        self._reset()

    def _reset(self) -> None:
        self._begun: dict[tuple[str, bool], tuple[int, Opened | None, Mark | None]] = {}
        self._marks: dict[object, Marks] = {}

    def start(self, key: str, *, device: bool = False) -> None:
        """Begin to time ``key``; with ``device=True``, by the clock of the device alone.

        Raises ValueError when ``key`` was started and has not ended, or no device is in use.
        """
        if self._ranks is not None and not self._is_timed():
            return
        if (key, device) in self._begun:
            raise ValueError(f"{key!r} was already started")
        source, opened, mark = self._source, None, None
        if device:
            mark = self._marks_of(_DEVICE if source is None else source).mark()
            if mark is None:
                raise ValueError("no device is in use whose time could be taken")
        else:
            opened = user.opened(key, source)
            if opened is None and source is not None:
                mark = self._marks_of(source).mark()
        start_ns = perf_counter_ns() if opened is None else opened[2]
        self._begun[key, device] = start_ns, opened, mark

    def end(self, key: str, *, device: bool = False) -> None:
        """End what :meth:`start` has begun. Raises ValueError when ``key`` was not started."""
        now = perf_counter_ns()
        if self._ranks is not None and not self._is_timed():
            return
        if (key, device) not in self._begun:
            raise ValueError(f"{key!r} was not started")
        start_ns, opened, mark = self._begun.pop((key, device))
        heard = None
        if mark is not None or (opened is not None and opened[4] is not None):
            heard = lambda seconds: self.add(key, seconds, device=True)
            if opened is not None and opened[3] is not None:
                # Those of the record: kept so that `synchronize` waits for them, and `keys` reads them.
                self._marks[opened[3]] = opened[3]
            elif mark is not None:
                self._marks_of(self._source or _DEVICE).span(mark, 0, 0, heard)
        if not device:
            self.add(key, (now - start_ns) / 1e9)
        if opened is not None:
            user.closed(opened, now, heard)

    def add(self, key: str, seconds: float, *, device: bool = False) -> None:
        """Count one more duration of ``key``."""
        self._seconds.setdefault((key, device), []).append(seconds)

    def keys(self, *, device: bool = False) -> list[str]:
        """Return the keys that were timed, in the order of their first ends."""
        self._collect()
        return [key for key, of_device in self._seconds if of_device == device]

    def statistics(self, key: str, *, device: bool = False) -> Timing:
        """Return the statistics of ``key``. Raises ValueError when no duration is known."""
        self._collect()
        known = self._seconds.get((key, device), [])
        if not known:
            by = " by the clock of a device, or it has not done that yet" if device else ""
            raise ValueError(f"{key!r} was not timed{by}")
        return Timing(known)

    def synchronize(self) -> None:
        """Wait until the devices have done all that was timed, so that all times are known."""
        for marks in self._marks.values():
            marks.wait()

    def _marks_of(self, source: ClockSource) -> Marks:
        """Return the marks of the clock that ``source`` finds, for spans that are in no record."""
        marks = self._marks.get(source.key)
        if marks is None:
            nowhere: Any = None
            marks = Marks(nowhere, None, lambda number, error: None, source.find, self._warn)
            self._marks[source.key] = marks
        return marks

    def _collect(self) -> None:
        for marks in self._marks.values():
            marks.write()

    def _warn(self, error: Exception) -> None:
        """Warn once that the clock cannot be read, and let the program go on."""
        if not self._warned:
            self._warned = True
            from warnings import warn

            try:
                warn(f"injector.Timer: the device's clock failed: {error!r}", RuntimeWarning, 2)
            except RuntimeWarning:
                pass  # the program turns warnings into errors; this one must not be one

    def _is_timed(self) -> bool:
        """Whether this process is one of the chosen ranks. A process without a rank is rank 0."""
        rank = self._rank
        if rank is None:
            distributed = sys.modules.get("torch.distributed")
            if (
                distributed is not None
                and distributed.is_available()
                and distributed.is_initialized()
            ):
                rank = self._rank = distributed.get_rank()
            else:
                rank = launcher_number("RANK") or 0
        return self._ranks is not None and rank in self._ranks

    def __getstate__(self) -> dict[str, Any]:
        # A pickled Timer has its durations; what is open, and the device, belong to this process.
        left_out: dict[str, Any] = {"_begun": {}, "_marks": {}, "_source": None}
        return {**self.__dict__, **left_out}


def _numbers(ranks: Iterable[int]) -> frozenset[int]:
    """Return ``ranks`` as a set. Raises ValueError where one of them is no number from 0 on."""
    numbers = None if isinstance(ranks, (str, bytes)) else frozenset(ranks)
    if numbers is None or not all(type(rank) is int and rank >= 0 for rank in numbers):
        raise ValueError(f"ranks are numbers from 0, such as [0], not {ranks!r}")
    return numbers


_DEVICE = devices.ClockSource("", devices.clock)
