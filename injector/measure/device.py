"""The clock of a device: moments in its queue of work, read when it has passed them.

Nothing here ever waits for a device. Its events come out of a pool, are recorded between the program's
own work, and are looked at later; torch is found where the program has imported and used it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    class DeviceClock(Protocol):
        """What a kind of device offers. Only ``mark`` is called while the program works."""

        def mark(self) -> Any:
            """An event at the end of what was queued so far; None where there can be none now."""

        def ready(self, event: Any) -> bool:
            """Whether the device has passed ``event``."""

        def elapsed_ns(self, first: Any, second: Any) -> int:
            """Nanoseconds of the device between two events that are ready, of one device."""

        def device(self, event: Any) -> str:
            """Which device the event is of: ``"cuda:0"``."""

        def free(self, event: Any) -> None:
            """The event is not needed any more."""

        def numbers(self, values: Sequence[Any]) -> list[Any]:
            """The numbers in tensors that are ready, without waiting for what was queued since."""


known: list[Any] = []
"""The clock, as soon as it is known: of None alone where it is known that there will be none."""
_stand_ins: list[Any] = []


def use(clock: DeviceClock | None) -> None:
    """Let ``clock`` be the clock of this process, whatever torch has; None undoes that."""
    _stand_ins[:] = [] if clock is None else [clock]
    forget()


def forget() -> None:
    """In the child of a fork: no device can be used that the parent used."""
    known[:] = _stand_ins


def clock() -> Any:
    """The :class:`DeviceClock` of the device that the program uses; None while it uses none."""
    if known:
        return known[0]
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        found = _of_torch(torch)
    except Exception:  # half imported, or another torch than we know
        return None
    if found is not None or not any(_built(torch, name) for name in ("cuda", "xpu", "mps")):
        known.append(found)  # this is looked up in every call of a region: once and for all
    return found


def _built(torch: Any, name: str) -> bool:
    """Whether this torch could use a device of that kind, as far as it says."""
    return bool(getattr(getattr(torch, "_C", None), f"_has_{name}", True))


def _of_torch(torch: Any) -> Any:
    for name in ("cuda", "xpu"):
        backend = getattr(torch, name, None)
        if backend is not None and getattr(backend, "is_initialized", bool)():
            return TorchClock(name, backend)
    mps = getattr(torch, "mps", None)
    if mps is not None and torch.backends.mps.is_available() and mps.driver_allocated_memory():
        return TorchClock("mps", mps)
    return None


class TorchClock:
    """Events of ``torch.cuda`` (CUDA and ROCm), ``torch.xpu`` or ``torch.mps``."""

    def __init__(self, kind: str, backend: Any) -> None:
        self._kind = kind
        self._backend = backend
        self._event = getattr(backend, "Event", None) or backend.event.Event
        self._current = getattr(backend, "current_device", int)
        self._capturing = getattr(backend, "is_current_stream_capturing", bool)
        self._pools: dict[int, list[Any]] = {}
        self._sides: dict[int, Any] = {}

    def mark(self) -> Any:
        if self._capturing():  # a graph is recorded: an event of ours would become a part of it
            return None
        index = self._current()
        pool = self._pools.setdefault(index, [])
        event = pool.pop() if pool else self._event(enable_timing=True)
        event.record()
        return event, index

    def ready(self, event: Any) -> bool:
        return bool(event[0].query())

    def elapsed_ns(self, first: Any, second: Any) -> int:
        return int(first[0].elapsed_time(second[0]) * 1e6)

    def device(self, event: Any) -> str:
        return f"{self._kind}:{event[1]}"

    def free(self, event: Any) -> None:
        self._pools[event[1]].append(event[0])

    def numbers(self, values: Sequence[Any]) -> list[Any]:
        if not hasattr(self._backend, "stream"):
            return [float(value) for value in values]
        index = getattr(values[0].device, "index", 0) or 0
        if index not in self._sides:
            self._sides[index] = self._backend.Stream(device=index)
        # Reading waits for the stream that is current: for one that has nothing else to do. What the
        # program has PyTorch say of calls that wait is about its own.
        mode = getattr(self._backend, "get_sync_debug_mode", int)()
        if mode:
            self._backend.set_sync_debug_mode(0)
        try:
            with self._backend.stream(self._sides[index]):
                return [float(value) for value in values]
        finally:
            if mode:
                self._backend.set_sync_debug_mode(mode)
