"""Values that live on a device, such as a loss: kept as they are, and read later without waiting.

Reading one at once would wait for the device. So values gather in ``_open`` until an event is queued behind
them, then wait in ``_closed`` until the device has passed that event; all of these are read together.
"""

from __future__ import annotations

from time import monotonic_ns, sleep

from . import device
from .marks import PATIENCE_NS, NotReadyError

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Kept = tuple[str, int, Any, Any]
    """Series, nanoseconds of the monotonic clock, the value, PyTorch's count of its changes in place."""

MOST = 4_096
"""How many values may wait for their device."""
_GLANCE_NS = 100_000_000
"""The shortest time between two queries of the device."""


class Late:
    """The values that wait for their device. ``write(series, t_ns, number)`` receives each once it is read.

    ``lose`` is called with the number of values that were never read, ``failed`` with an error of reading.
    """

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
        """Begin anew in the child of a fork: the values that wait are the parent's."""
        if self._open or self._closed:
            device.keep_forever((self._open, self._closed))
        self._forget()

    def _forget(self) -> None:
        self._open: list[Kept] = []
        self._closed: list[Kept] = []
        self._event: Any = None
        self._glanced = 0

    def keep(self, series: str, value: Any) -> None:
        """Keep ``value`` to be read later, as the value that ``series`` has now."""
        now = monotonic_ns()
        self._open.append((series, now, detached(value), getattr(value, "_version", None)))
        clock = device.clock()
        if clock is None:
            # A device whose clock is not known, such as a TPU. The oldest value has most likely been computed
            # by now; the others are read as the process ends.
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
        """Read the closed values if the device has passed their event, and close the open ones."""
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
        """Read and write values that the device has computed; without a clock, reading waits for that."""
        unchanged = [one for one in kept if getattr(one[2], "_version", None) == one[3]]
        if len(unchanged) < len(kept):
            self._failed(ValueError("a value was changed in place before it could be read"))
        values = [one[2] for one in unchanged]
        numbers = [number(value) for value in values] if clock is None else _numbers(clock, values)
        for (series, when, _, _), value in zip(unchanged, numbers, strict=True):
            self._write(series, when, value)

    def close(self) -> None:
        """Read what the device computes within a moment, and count the rest as lost: the process ends."""
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
    """Return ``value`` without its graph, which would keep the activations of a whole step alive."""
    return value.detach() if hasattr(value, "detach") else value


def number(value: Any) -> Any:
    """Return a single number as a float; of anything else its text, shortened."""
    try:
        return float(detached(value))
    except (TypeError, ValueError, RuntimeError):
        return repr(value)[:200]


def _numbers(clock: Any, values: list[Any]) -> list[Any]:
    """Read values of one element by ``clock``; of others, say only what they are."""
    single = [at for at, value in enumerate(values) if _elements(value) == 1]
    numbers: list[Any] = [f"<{type(value).__name__} of {_elements(value)}>" for value in values]
    for at, value in zip(single, clock.numbers([values[at] for at in single]), strict=True):
        numbers[at] = value
    return numbers


def _elements(value: Any) -> int:
    """The number of elements of a tensor; 1 for what is none."""
    count = getattr(value, "numel", None)
    return int(count()) if callable(count) else 1
