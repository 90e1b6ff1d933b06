"""A stopwatch for the program's own use, with or without ``inject``."""

from __future__ import annotations

from time import perf_counter_ns

from . import device as devices
from . import user

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any


class Timing:
    """Statistics of the durations of one key, in seconds; ``stdev`` is the sample's, 0 of one."""

    __slots__ = ("max", "mean", "median", "min", "n", "stdev", "total")

    def __init__(self, seconds: list[float]) -> None:
        """Raises ValueError when there are none."""
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
    """Times what lies between ``start(key)`` and ``end(key)``, as often as that happens.

    With ``device=True`` it is the time of the device: of the work queued in between, known when the
    device has done it. The device's times of a key are kept apart from the host's. Under ``inject``, what
    the host took is a span of the region ``key`` as well.
    """

    def __init__(self) -> None:
        self._begun: dict[tuple[str, bool], Any] = {}
        self._seconds: dict[tuple[str, bool], list[float]] = {}
        self._waiting: list[tuple[str, Any, Any]] = []

    def start(self, key: str, *, device: bool = False) -> None:
        """Begin to time ``key``. Raises ValueError when it was started and has not ended."""
        if (key, device) in self._begun:
            raise ValueError(f"{key!r} was already started")
        self._begun[key, device] = self._now(device)

    def end(self, key: str, *, device: bool = False) -> None:
        """End what ``start`` began. Raises ValueError when it was not started."""
        now = self._now(device)
        if (key, device) not in self._begun:
            raise ValueError(f"{key!r} was not started")
        begun = self._begun.pop((key, device))
        if not device:
            self.add(key, (now - begun) / 1e9)
            user.span(key, begun, now)
        else:
            self._waiting.append((key, begun, now))

    def add(self, key: str, seconds: float, *, device: bool = False) -> None:
        """Count one more duration of ``key``."""
        self._seconds.setdefault((key, device), []).append(seconds)

    def keys(self, *, device: bool = False) -> list[str]:
        """What was timed, in the order of its first end."""
        self._collect()
        return [key for key, of_device in self._seconds if of_device == device]

    def statistics(self, key: str, *, device: bool = False) -> Timing:
        """What is known of ``key``. Raises ValueError when nothing is."""
        self._collect()
        return Timing(self._seconds.get((key, device), []))

    def _now(self, device: bool) -> Any:
        if not device:
            return perf_counter_ns()
        clock = devices.clock()
        event = None if clock is None else clock.mark()
        if event is None:
            raise ValueError("no device is in use whose time could be taken")
        return event

    def _collect(self) -> None:
        clock = devices.clock()
        waiting, self._waiting = self._waiting, []
        for key, begun, ended in waiting:
            if clock.ready(ended):
                self.add(key, clock.elapsed_ns(begun, ended) / 1e9, device=True)
                clock.free(begun)
                clock.free(ended)
            else:
                self._waiting.append((key, begun, ended))
