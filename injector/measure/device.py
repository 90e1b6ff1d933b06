"""The clock of a device: moments in its queue of work, read when it has passed them.

Nothing here waits for a device, but for :meth:`DeviceClock.wait`. Its events come out of a pool, are
recorded between the program's own work, and are looked at later; torch is found where the program has
imported and used it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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

        def wait(self, event: Any) -> None:
            """Return once the device has passed ``event``: only where the program requests it."""

        def numbers(self, values: Sequence[Any]) -> list[Any]:
            """The numbers in tensors that are ready, without waiting for what was queued since."""

    class ProgramClock(Protocol):
        """What a program plugs in to have its parts timed by it (docs/timers.md). Nothing of it waits."""

        name: str
        """Which device it is of, ``"npu:0"``: so its times are called in reports."""

        def record(self) -> Any:
            """This moment of the clock, at the end of what was queued so far."""

        def elapsed(self, begin: Any, end: Any) -> float | None:
            """Seconds between two moments; None as long as the second one has not come.

            Of one moment and itself it is 0, or None.
            """

        # Where it has a method ``synchronize()``, ``Timer.synchronize`` calls it.


SAMPLED = "sampled"
"""What a region's ``device=`` is that is to be timed now and then: see :class:`.marks.SampledMarks`."""
KINDS = ("cuda", "xpu", "mps")
"""The devices of PyTorch that have a clock; ROCm's are called ``cuda`` there."""
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
    _of_one.clear()


_events: list[Any] = []
"""A dictionary with each event of PyTorch's that there is, by its address: as soon as one was made."""
_held: list[Any] = []
"""While this process forks: the events that the child has from its parent."""


def _remember(event: Any) -> None:
    if not _events:
        import os
        from weakref import WeakValueDictionary

        _events.append(WeakValueDictionary())
        os.register_at_fork(before=_hold, after_in_parent=_held.clear, after_in_child=_keep_held)
    _events[0][id(event)] = event


def _hold() -> None:
    _held[:] = [ref() for ref in _events[0].valuerefs()]  # a copy: another thread may add to it


def _keep_held() -> None:
    keep_forever(_held[:])
    _held.clear()


def keep_forever(parents: object) -> None:
    """In the child of a fork: never destroy what belongs to a device of the parent's.

    CUDA ends a process that destroys an event in the child of one that used the device ("initialization
    error", from a destructor): the worker of a DataLoader, where the first reference was dropped. What
    is counted once too often outlives even the end of the interpreter.
    """
    import ctypes  # torch has imported it

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(parents))


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
    if found is not None or not any(_built(torch, name) for name in KINDS):
        known.append(found)  # this is looked up in every call of a region: once and for all
    return found


_of_one: dict[str, TorchClock] = {}
"""The clocks of devices that were named."""


class ClockSource:
    """Finds the clock that a ``device=`` stands for; :func:`source` makes it."""

    __slots__ = ("find", "given", "key")

    def __init__(self, key: object, find: Callable[[], Any], given: object = None) -> None:
        self.key = key
        """The same for the same clock."""
        self.find = find
        """The :class:`DeviceClock`; of a device that is not in use None."""
        self.given = given
        """The clock that the program has plugged in, if it is one: it is kept alive."""


def source(device: object) -> ClockSource | None:
    """The clock for ``device``; None where there is the host's alone.

    ``device`` is True for the one that the program uses, a device of PyTorch or its name (``"cuda:0"``), or
    a :class:`ProgramClock`; None, False and the CPU are the host. Raises ValueError for anything else.
    """
    if device is None or device is False:
        return None
    if device is True:
        return ClockSource("", clock)
    if callable(getattr(device, "record", None)) and callable(getattr(device, "elapsed", None)):
        plugged = PluggedClock(device)
        return ClockSource((id(device),), lambda: plugged, device)
    name = str(device) if isinstance(device, str) or hasattr(device, "type") else ""
    kind, colon, index = name.partition(":")
    if kind == "cpu":
        return None
    if kind not in KINDS or (colon and not index.isdecimal()):
        raise ValueError(
            f"device is True, a device of PyTorch such as 'cuda:0' ({', '.join(KINDS)}), or a clock with the "
            f"methods record() and elapsed(begin, end), not {device!r}"
        )
    return ClockSource(name, lambda: _named(name, kind, int(index) if colon else None))


def _named(name: str, kind: str, index: int | None) -> Any:
    if _stand_ins:
        return _stand_ins[0]
    made = _of_one.get(name)
    backend = getattr(sys.modules.get("torch"), kind, None)
    if made is None and backend is not None and getattr(backend, "is_initialized", bool)():
        made = _of_one[name] = TorchClock(kind, backend, index)
    return clock() if made is None and kind == "mps" else made


class PluggedClock:
    """A :class:`ProgramClock` of the program's as a :class:`DeviceClock`."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._name = str(getattr(clock, "name", None) or type(clock).__name__)

    def mark(self) -> Any:
        return self._clock.record()

    def ready(self, event: Any) -> bool:
        return self._clock.elapsed(event, event) is not None

    def elapsed_ns(self, first: Any, second: Any) -> int:
        return int(float(self._clock.elapsed(first, second)) * 1e9)

    def device(self, event: Any) -> str:
        return self._name

    def free(self, event: Any) -> None:
        pass

    def wait(self, event: Any) -> None:
        synchronize = getattr(self._clock, "synchronize", None)
        if synchronize is not None:
            synchronize()

    def numbers(self, values: Sequence[Any]) -> list[Any]:
        return [float(value) for value in values]


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

    def __init__(self, kind: str, backend: Any, index: int | None = None) -> None:
        """``index``: of one device alone, whichever is current."""
        self._kind = kind
        self._backend = backend
        self._index = index
        self._event = getattr(backend, "Event", None) or backend.event.Event
        self._current = getattr(backend, "current_device", int)
        self._capturing = getattr(backend, "is_current_stream_capturing", bool)
        self._pools: dict[int, list[Any]] = {}
        self._sides: dict[int, Any] = {}

    def mark(self) -> Any:
        if self._capturing():  # a graph is recorded: an event of ours would become a part of it
            return None
        index = self._current() if self._index is None else self._index
        pool = self._pools.setdefault(index, [])
        event = pool.pop() if pool else self._made()
        if self._index is None:
            event.record()
        else:
            event.record(self._backend.current_stream(index))
        return event, index

    def _made(self) -> Any:
        event = self._event(enable_timing=True)
        _remember(event)
        return event

    def ready(self, event: Any) -> bool:
        # CUDA refuses to be queried while a graph is recorded, and what was recorded is lost.
        return not self._capturing() and bool(event[0].query())

    def elapsed_ns(self, first: Any, second: Any) -> int:
        return int(first[0].elapsed_time(second[0]) * 1e6)

    def device(self, event: Any) -> str:
        return f"{self._kind}:{event[1]}"

    def free(self, event: Any) -> None:
        self._pools[event[1]].append(event[0])

    def wait(self, event: Any) -> None:
        event[0].synchronize()

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
                return together(values)
        finally:
            if mode:
                self._backend.set_sync_debug_mode(mode)


def together(values: Sequence[Any]) -> list[Any]:
    """The numbers in tensors of one element each, with one copy to the host for those of a kind."""
    kinds: dict[object, list[int]] = {}
    for at, value in enumerate(values):
        kind = type(value), str(getattr(value, "dtype", "")), str(getattr(value, "device", ""))
        kinds.setdefault(kind, []).append(at)
    found: list[Any] = [None] * len(values)
    for places in kinds.values():
        for at, number in zip(places, _numbers([values[at] for at in places]), strict=True):
            found[at] = number
    return found


def _numbers(alike: list[Any]) -> list[float]:
    if len(alike) > 1:
        try:
            stacked = sys.modules["torch"].stack([value.reshape(()) for value in alike])
            return [float(number) for number in stacked.tolist()]
        except Exception:  # a kind of tensor that cannot be stacked
            pass
    return [float(value) for value in alike]
