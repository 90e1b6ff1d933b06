"""The clocks of devices: events in a device's queue of work, read once the device has passed them.

Nothing here waits for a device, but for :meth:`DeviceClock.wait`. Events come out of a pool, are put between
the program's own work, and are queried later. PyTorch is never imported here: :func:`clock` finds it once the
program has imported and used it. A program may plug in a clock of its own (:class:`ProgramClock`).
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    class DeviceClock(Protocol):
        """What one kind of device offers. Only ``mark`` is called between the program's own calls."""

        def mark(self) -> Any:
            """Put an event at the end of the queue, and return it; None where that is not possible now."""

        def ready(self, event: Any) -> bool:
            """Whether the device has passed ``event``."""

        def elapsed_ns(self, first: Any, second: Any) -> int:
            """Nanoseconds between two events of one device, both of which it has passed."""

        def device(self, event: Any) -> str:
            """The name of the event's device: ``"cuda:0"``."""

        def free(self, event: Any) -> None:
            """Put the event back into the pool."""

        def wait(self, event: Any) -> None:
            """Return once the device has passed ``event``. Called only where the program requests it."""

        def numbers(self, values: Sequence[Any]) -> list[Any]:
            """Read tensors of one element that are ready, without waiting for what was queued since."""

    class ProgramClock(Protocol):
        """A clock that a program plugs in to have its parts timed (docs/timers.md). None of it may wait."""

        name: str
        """The name of its device in reports: ``"npu:0"``."""

        def record(self) -> Any:
            """Return a moment of the clock: the end of what is queued so far."""

        def elapsed(self, begin: Any, end: Any) -> float | None:
            """Seconds between two moments; None as long as the second one has not come.

            Between a moment and itself they are 0, or None.
            """

        # Where it has a method ``synchronize()``, ``Timer.synchronize`` calls it.


SAMPLED = "sampled"
"""The ``device=`` of a region that is timed now and then: see :class:`.marks.SampledMarks`."""
KINDS = ("cuda", "xpu", "mps")
"""The kinds of PyTorch's devices that have a clock. PyTorch calls those of ROCm ``cuda`` as well."""
known: list[Any] = []
"""The clock that :func:`clock` has found; None in it once it is certain that there will be no clock.

A list, since the hooks in C look at it at each call of a region.
"""
_stand_ins: list[Any] = []
"""The clock of a test."""


def use(clock: DeviceClock | None) -> None:
    """Let ``clock`` be the clock of this process, whatever PyTorch has; None undoes that."""
    _stand_ins[:] = [] if clock is None else [clock]
    forget()


def forget() -> None:
    """Begin anew in the child of a fork, which cannot use a device that its parent has used."""
    known[:] = _stand_ins
    _of_one.clear()


# Events in the child of a fork. A fork copies the parent's events, and where the child dropped the last
# reference to one, CUDA would end it: see `keep_forever`. So before each fork all live events are held.

_events: list[Any] = []
"""A dictionary of all live events of PyTorch by their addresses, once there has been one."""
_held: list[Any] = []
"""During a fork: the live events, which the child is never to destroy."""


def _remember(event: Any) -> None:
    """Have ``event`` survive forks."""
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
    """Never destroy ``parents``, which belong to a device of this process's parent.

    CUDA ends a process that destroys an event of a device that its parent used before the fork
    ("initialization error", raised in a destructor). It would be the worker of a DataLoader, at the moment
    that it drops the first of our references (``tests/measure/test_device_gpu.py``). An object whose
    references are counted once too often outlives even the end of the interpreter.
    """
    import ctypes  # torch has imported it

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(parents))


def clock() -> Any:
    """Return the :class:`DeviceClock` of the device that the program uses; None while it uses none."""
    if known:
        return known[0]
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        clock = _of_torch(torch)
    except Exception:  # half imported, or of a version that is not known here
        return None
    # A PyTorch without support for any device will never use one. With support, the program may begin to use
    # a device at any time, so that only a clock that was found is final.
    if clock is not None or not any(_built(torch, name) for name in KINDS):
        known.append(clock)
    return clock


_of_one: dict[str, TorchClock] = {}
"""The clocks of devices that were named, by that name."""


class ClockSource:
    """Finds the clock that a ``device=`` stands for; :func:`source` makes it."""

    __slots__ = ("find", "given", "key")

    def __init__(self, key: object, find: Callable[[], Any], given: object = None) -> None:
        self.key = key
        """Equal for the same clock."""
        self.find = find
        """Returns the :class:`DeviceClock`, or None while the device is not in use."""
        self.given = given
        """The clock that the program has plugged in, if any. Its address is the key, so it is kept alive."""


def source(device: object) -> ClockSource | None:
    """Return the source of the clock for ``device``; None for the host, whose clock is always read.

    ``device`` is True for the one that the program uses, a device of PyTorch or its name (``"cuda:0"``), or
    a :class:`ProgramClock`; None, False and the CPU are the host. Raises ValueError for anything else.
    """
    if device is None or device is False:
        return None
    if device is True:
        return ClockSource("", clock)
    if callable(getattr(device, "record", None)) and callable(getattr(device, "elapsed", None)):
        # Known by its address, since the program's object may have no hash. In a tuple, so that it is never
        # taken for the name of a device.
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
    """Return the clock of the device ``name``, number ``index`` of its ``kind``, once it is in use."""
    if _stand_ins:
        return _stand_ins[0]
    # Only once the program has initialised the device, which naming it must not do.
    clock_of_one = _of_one.get(name)
    backend = getattr(sys.modules.get("torch"), kind, None)
    if clock_of_one is None and backend is not None and getattr(backend, "is_initialized", bool)():
        clock_of_one = _of_one[name] = TorchClock(kind, backend, index)
    return clock() if clock_of_one is None and kind == "mps" else clock_of_one


class PluggedClock:
    """Makes a :class:`DeviceClock` of the program's :class:`ProgramClock`."""

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
    """Whether this torch was built for devices of a kind; True where that is not known."""
    return bool(getattr(getattr(torch, "_C", None), f"_has_{name}", True))


def _of_torch(torch: Any) -> Any:
    """Return the clock of the device that PyTorch has initialised; None if there is none.

    Nothing here may initialise a device: a program may still want to fork, or choose another one.
    """
    for name in ("cuda", "xpu"):
        backend = getattr(torch, name, None)
        if backend is not None and getattr(backend, "is_initialized", bool)():
            return TorchClock(name, backend)
    # MPS does not tell whether it is initialised, but whether it has given out memory.
    mps = getattr(torch, "mps", None)
    if mps is not None and torch.backends.mps.is_available() and mps.driver_allocated_memory():
        return TorchClock("mps", mps)
    return None


class TorchClock:
    """The clock of ``torch.cuda`` (CUDA and ROCm), ``torch.xpu`` or ``torch.mps``.

    An event here is PyTorch's with the number of its device.
    """

    def __init__(self, kind: str, backend: Any, index: int | None = None) -> None:
        """With ``index``, the clock is that of one device, else of whichever is current."""
        self._kind = kind
        self._backend = backend
        self._index = index
        self._event = getattr(backend, "Event", None) or backend.event.Event
        self._current = getattr(backend, "current_device", int)
        self._capturing = getattr(backend, "is_current_stream_capturing", bool)
        self._pools: dict[int, list[Any]] = {}
        self._side_streams: dict[int, Any] = {}

    def mark(self) -> Any:
        # While a CUDA graph is recorded, an event of ours would become a part of it.
        if self._capturing():
            return None
        index = self._current() if self._index is None else self._index
        pool = self._pools.setdefault(index, [])
        event = pool.pop() if pool else self._new_event()
        if self._index is None:
            event.record()
        else:
            event.record(self._backend.current_stream(index))
        return event, index

    def _new_event(self) -> Any:
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
        # Reading a tensor waits for the current stream, so it is read in a stream without other work.
        index = getattr(values[0].device, "index", 0) or 0
        if index not in self._side_streams:
            self._side_streams[index] = self._backend.Stream(device=index)
        # A program may have PyTorch warn of calls that wait, or refuse them: it means its own calls.
        mode = getattr(self._backend, "get_sync_debug_mode", int)()
        if mode:
            self._backend.set_sync_debug_mode(0)
        try:
            with self._backend.stream(self._side_streams[index]):
                return together(values)
        finally:
            if mode:
                self._backend.set_sync_debug_mode(mode)


def together(values: Sequence[Any]) -> list[Any]:
    """Read tensors of one element each, with one copy to the host for all of one type, dtype and device."""
    kinds: dict[object, list[int]] = {}
    for at, value in enumerate(values):
        kind = type(value), getattr(value, "dtype", None), getattr(value, "device", None)
        kinds.setdefault(kind, []).append(at)
    numbers: list[Any] = [None] * len(values)
    for places in kinds.values():
        for at, number in zip(places, _numbers([values[at] for at in places]), strict=True):
            numbers[at] = number
    return numbers


def _numbers(alike: list[Any]) -> list[float]:
    """Read tensors of one kind."""
    if len(alike) > 1:
        try:
            if any(value.dim() for value in alike):
                alike = [value.reshape(()) for value in alike]
            return [float(number) for number in sys.modules["torch"].stack(alike).tolist()]
        except Exception:  # a kind of tensor that cannot be stacked
            pass
    return [float(value) for value in alike]
