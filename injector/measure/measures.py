"""What ``ov.value``, ``ov.region``, ``ov.step`` and ``ov.loader`` ask for and record."""

from __future__ import annotations

import sys
from _thread import get_ident
from os import getpid
from time import monotonic_ns, perf_counter_ns

from ..errors import UserError
from ..probe import Point, compiled, points, stored_call
from ..store.series import SeriesFile
from . import loader as loaders
from . import program, user
from .late import Late
from .late import number as single
from .regions import Region, RegionHooks, Spans, ValueHooks
from .turns import Loop

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    Ask = Callable[..., None]
    """``ask(where, variable, direct, calls, store, override)`` of the overseer, most of them optional."""

    class Recorder(Protocol):
        """Where measurements go: the writer of this process."""

        folder: str | None
        path: str | None

        def emit(self, event: str, data: object) -> None: ...

        def emit_values(self, series: str, t_ns: int, value: object) -> None: ...

        def lose(self, records: int, error: Exception) -> None: ...


class Store:
    """Where the values of one series go: numbers into mapped memory, the rest into the log."""

    def __init__(self, series: str, recorder: Recorder, late: Callable[[str, Any], None]) -> None:
        self._series = series
        self.gives = f"value:{series}"
        self._recorder = recorder
        self._late = late
        self.grow = SeriesFile(recorder, series).grow

    def put(self, value: Any) -> None:
        """Store ``value`` from where the hook could not do it itself; None is no value."""
        if value is None:
            return
        found = self.number(value)
        if found is not None:
            self.keep(found)

    def hook(self, name: str, get: Callable[..., Any], late: bool) -> tuple[Point, Any]:
        """A point called ``name``, and its hook, which stores what ``get`` makes of each call."""
        return stored_call(name, self.grow, self.number, self.keep, get, late)

    def keep(self, value: float) -> None:
        """Store a number in the log: there is no room in memory."""
        self._recorder.emit_values(self._series, monotonic_ns(), value)

    def number(self, value: Any) -> float | None:
        """``value`` as a number; ``None`` when it is none, or lives on a device, and was dealt with.

        Reading a device's value waits for the device, so it is put off; a host's is read now. What
        stands for a value while a graph is traced has none.
        """
        if isinstance(value, (int, float)):
            return float(value)
        if type(value) is _torch.tensor or _torch.is_tensor(value):
            found = _torch.number(value)
            if found is not None:
                return found
        if value is None or _is_traced(value):
            return None
        device = getattr(value, "device", None)
        if device is not None and getattr(device, "type", device) != "cpu":
            self._late(self._series, value)
            return None
        found = single(value)
        if isinstance(found, float):
            return found
        self._recorder.emit_values(self._series, monotonic_ns(), found)
        return None


class Several(Store):
    """As a store; but a mapping is a value of each of its names, which come as they come."""

    def __init__(
        self,
        name: str,
        recorder: Recorder,
        late: Callable[[str, Any], None],
        task: str | None,
    ) -> None:
        super().__init__(_series(task, name), recorder, late)
        self._task = task
        self._stores: dict[str, Store] = {}

    def number(self, value: Any) -> float | None:
        if not (hasattr(value, "keys") and hasattr(value, "values")):
            return super().number(value)
        for name, one in list(value.items()):
            self._named(str(name)).put(one)
        return None

    def _named(self, name: str) -> Store:
        known = self._stores.get(name)
        if known is None:
            series = _series(self._task, name)
            known = self._stores[name] = Store(series, self._recorder, self._late)
        return known


class Measures:
    """The measurements of one process."""

    def __init__(
        self,
        ask: Ask,
        recorder: Recorder,
        failed: Callable[[BaseException], None],
        on_error: Callable[[str, BaseException], None],
    ) -> None:
        """``on_error(where, error)`` is called for what the program itself could not record."""
        self._ask = ask
        self._recorder = recorder
        self._failed = failed
        self.spans = Spans(recorder)
        self._timed: dict[tuple[object, ...], int] = {}
        self.late = Late(self._write_late, recorder.lose, failed)
        self._regions = user.RegionRecorder(self.spans)
        self._metrics: dict[str, Store] = {}
        user.record(self._regions)
        program.record(program.ProgramRecords(self._put, recorder.emit, recorder.folder, on_error))
        points.listen(silence=_forget)

    def value(
        self, where: Any, name: str | None, task: str | None, get: Callable[..., Any] | None = None
    ) -> None:
        """Record each value of ``where``, or what ``get`` makes of each call; a device's is read late.

        Raises UserError when ``get`` does not say what its parameters are called.
        """
        series = _series(task, name or _last_word(where))
        store = Store(series, self._recorder, self.late.keep)
        if get is None:
            self._ask(where, store=store)
            return
        if name is None:
            store = Several(_last_word(where), self._recorder, self.late.keep, task)
        try:
            self._ask(where, calls=ValueHooks(get, store))
        except TypeError as error:
            raise UserError(f"value {series!r} of {where!r}: {error}") from None

    def region(self, where: Any, name: str, **options: Any) -> None:
        """Record each call of ``where`` as a span of the region ``name``.

        Raises UserError when a function does not say what its parameters are called.
        """
        try:
            region = Region(name, **options)
        except TypeError as error:
            raise UserError(f"region {name!r} of {where!r}: {error}") from None
        self._ask(where, calls=RegionHooks(region, self.spans))

    def step(self, where: Any, task: str, **options: Any) -> None:
        """Each call of ``where`` is a step, of ``items`` items where that is given."""
        self.region(where, "step", task=task, **options)

    def loader(self, where: Any, task: str, items: Any, phase: str | None) -> None:
        """Record the turns of the loop that ``where`` feeds: the wait for a batch, and the step."""
        selector = where if isinstance(where, str) else _last_word(where)
        loop = Loop(
            self.spans, task=task, items=items, phase=phase, selector=selector, failed=self._failed
        )
        self._ask(where, direct=lambda found: loaders.wrap(found, loop.turns), override=True)

    def span(
        self, name: str, start_ns: int, end_ns: int, nbytes: int | None, what: Any, of: Any = None
    ) -> None:
        """Record a span of the region ``name`` that other code has timed."""
        site = self._site(name, None if nbytes is None else "bytes", what, of)
        self.spans.room.add(start_ns, end_ns, nbytes or 0, site)

    def begin(self, name: str, nbytes: int | None, what: Any) -> Callable[[], None]:
        """Begin a span of the region ``name``, which what is returned ends."""
        site = self._site(name, None if nbytes is None else "bytes", what)
        room, slot = self.spans.room, self.spans.calls.stacks(name).slot
        start = perf_counter_ns()
        room.opened[slot] = site

        def end() -> None:
            room.add(start, perf_counter_ns(), nbytes or 0, site)
            room.opened[slot] = 0

        return end

    def _site(self, name: str, payload: str | None, what: Any, of: Any = None) -> int:
        """The site of a span that is no call, at the line where the program is."""
        frame = self.spans.sites.program(sys._getframe(2))
        line = None if frame is None else (id(frame.f_code), frame.f_lasti)
        key = (name, what, payload, get_ident(), getpid(), line)
        site = self._timed.get(key)
        if site is None:
            site = self._timed[key] = self.spans.sites.at(
                sys._getframe(2), "", of, region=name, what=what, payload=payload
            )
        return site

    def _put(self, name: str, value: Any, step: int | None) -> None:
        """Record a value of the program's own, at a step that it names or at the one that it is in."""
        store = self._metrics.get(name)
        if store is None:
            store = self._metrics[name] = Store(name, self._recorder, self.late.keep)
        if step is None:
            store.put(value)
            return
        found = store.number(value)  # None: it is no number, or on a device and read later
        if found is not None:
            self._recorder.emit("value", {"series": name, "value": found, "step": step})

    def _write_late(self, series: str, t_ns: int, value: Any) -> None:
        self._recorder.emit_values(series, t_ns, value)

    def renew(self) -> None:
        """In the child of a fork: it measures for itself."""
        self.spans.renew()
        self.late.renew()
        self._regions.renew()

    def close(self) -> None:
        """Record what was left on devices."""
        self.late.close()
        self.spans.marks.close()


def _forget() -> None:
    """From now on, nothing that the program tells is recorded."""
    user.record(None)
    program.record(None)


class _Torch:
    """The short way to the number in a tensor of the host: a loss, at every step."""

    tensor: Any = None
    """torch's class, once there is one."""
    _tracing: Callable[[], Any]

    def is_tensor(self, value: Any) -> bool:
        """Whether it is a tensor, and of no class derived from that."""
        if self.tensor is None and (torch := sys.modules.get("torch")) is not None:
            tracing = getattr(getattr(torch, "_C", None), "_get_tracing_state", None)
            if tracing is not None:
                self._tracing, self.tensor = tracing, getattr(torch, "Tensor", None)
                compiled.learn_tensors(torch)
        return type(value) is self.tensor

    def number(self, value: Any) -> float | None:
        """Its number; None where that has to be found in another way, or not at all."""
        if not value.is_cpu or self._tracing() is not None:
            return None
        try:
            return float(value.item())
        except (RuntimeError, TypeError, ValueError):  # it has several, or is complex
            return None


_torch = _Torch()


def _is_traced(value: Any) -> bool:
    """Whether torch records what is done to ``value``: to look at it would stand in the graph."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return False
    if type(value).__module__.startswith("torch.fx."):
        return True
    tracing = getattr(getattr(torch, "_C", None), "_get_tracing_state", None)
    return tracing is not None and tracing() is not None


def _series(task: str | None, name: str) -> str:
    return f"{task}/{name}" if task else name


def _last_word(where: Any) -> str:
    """``loss`` of ``//train > loss``, ``r`` of ``f() as r``, the name of an object."""
    if not isinstance(where, str):
        return str(getattr(where, "__name__", where))
    *_, last = ("", *where.replace(">", " ").split())
    return last.lstrip("!").rpartition("/")[2]
