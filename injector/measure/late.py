"""Values that live on a device: kept as they are, read when the device has passed an event after them."""

from __future__ import annotations

from time import monotonic_ns, sleep

from . import device
from .marks import PATIENCE_NS, NotReadyError

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Kept = tuple[str, int, Any, Any]
    """Series, nanoseconds of the monotonic clock, the value, which version of it."""

MOST = 4_096
"""Values that wait for their device."""
_GLANCE_NS = 50_000_000
"""The device is queried no more often than this."""


class Late:
    """The values that wait. ``write(series, t_ns, number)`` receives each."""

    def __init__(
        self,
        write: Callable[[str, int, Any], None],
        lose: Callable[[int, Exception], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._write = write
        self._lose = lose
        self._failed = failed
        self._forget()

    def renew(self) -> None:
        """In the child of a fork: what waited is the parent's."""
        if self._open or self._closed:
            device.keep_forever((self._open, self._closed))
        self._forget()

    def _forget(self) -> None:
        self._open: list[Kept] = []
        self._closed: list[Kept] = []
        self._event: Any = None
        self._glanced = 0

    def keep(self, series: str, value: Any) -> None:
        """Read ``value`` some time later."""
        now = monotonic_ns()
        self._open.append((series, now, detached(value), getattr(value, "_version", None)))
        clock = device.clock()
        if clock is None:
            if len(self._open) > MOST:
                self._read([self._open.pop(0)], None)
            return
        if now - self._glanced > _GLANCE_NS:
            self._glanced = now
            self._glance(clock)
        if len(self._open) > MOST:
            self._open.pop(0)
            self._lose(1, NotReadyError())

    def _glance(self, clock: Any) -> None:
        try:
            if self._event is not None and clock.ready(self._event):
                clock.free(self._event)
                self._event = None
                closed, self._closed = self._closed, []
                self._read(closed, clock)
            if self._event is None and self._open:
                self._event = clock.mark()
                if self._event is not None:
                    self._closed, self._open = self._open, []
        except Exception as error:
            self._failed(error)

    def _read(self, kept: list[Kept], clock: Any) -> None:
        """Read values that the device has passed; without a clock, whether it has or not."""
        whole = [one for one in kept if getattr(one[2], "_version", None) == one[3]]
        if len(whole) < len(kept):
            self._failed(ValueError("a value was changed in place before it could be read"))
        values = [one[2] for one in whole]
        found = [number(value) for value in values] if clock is None else _numbers(clock, values)
        for (series, when, _, _), value in zip(whole, found, strict=True):
            self._write(series, when, value)

    def close(self) -> None:
        """The process ends: read what the device passes in a moment, count the rest."""
        clock = device.clock()
        if clock is None:
            kept, self._open = self._open, []
            self._read(kept, None)
            return
        limit = monotonic_ns() + PATIENCE_NS
        while self._open or self._closed:
            self._glance(clock)
            self._glance(clock)  # what the first one marked may be ready already
            if not (self._open or self._closed) or monotonic_ns() > limit:
                break
            sleep(0.001)
        lost = len(self._open) + len(self._closed)
        self._forget()
        if lost:
            self._lose(lost, NotReadyError())


def detached(value: Any) -> Any:
    """Without its graph: a loss kept for later must not keep a whole step's activations alive."""
    return value.detach() if hasattr(value, "detach") else value


def number(value: Any) -> Any:
    """A single number as such; anything else as it is shown."""
    try:
        return float(detached(value))
    except (TypeError, ValueError, RuntimeError):
        return repr(value)[:200]


def _numbers(clock: Any, values: list[Any]) -> list[Any]:
    single = [at for at, value in enumerate(values) if _elements(value) == 1]
    found: list[Any] = [f"<{type(value).__name__} of {_elements(value)}>" for value in values]
    for at, value in zip(single, clock.numbers([values[at] for at in single]), strict=True):
        found[at] = value
    return found


def _elements(value: Any) -> int:
    count = getattr(value, "numel", None)
    return int(count()) if callable(count) else 1
