"""What ``ov.value``, ``ov.region``, ``ov.step`` and ``ov.loader`` ask for and record."""

from __future__ import annotations

import sys
from _thread import get_ident
from os import getpid
from time import monotonic_ns

from ..errors import UserError
from . import loader as loaders
from .regions import Region, RegionHooks, Spans
from .turns import Loop

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    Ask = Callable[..., None]
    """``ask(where, variable, direct, calls, store, override)`` of the overseer, most of them optional."""

    class Recorder(Protocol):
        """Where measurements go: the writer of this process."""

        def emit(self, event: str, data: object) -> None: ...

        def emit_values(self, series: str, t_ns: int, value: object) -> None: ...

        def series(self, name: str) -> Any: ...

        def spans(self) -> Any: ...

        def lose(self, records: int, error: Exception) -> None: ...


_LATE = 4096
"""Values still on a device that are kept before the oldest are read."""


class Store:
    """Where the values of one series go: numbers into mapped memory, the rest into the log."""

    def __init__(self, series: str, recorder: Recorder, late: Callable[[str, Any], None]) -> None:
        self._series = series
        self._recorder = recorder
        self._late = late
        self.grow = recorder.series(series).grow

    def put(self, value: Any) -> None:
        """Store ``value`` from where the hook could not do it itself."""
        found = self.number(value)
        if found is not None:
            self.keep(found)

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
        if _is_traced(value):
            return None
        device = getattr(value, "device", None)
        if device is not None and getattr(device, "type", device) != "cpu":
            self._late(self._series, value)
            return None
        found = _number(value)
        if isinstance(found, float):
            return found
        self._recorder.emit_values(self._series, monotonic_ns(), found)
        return None


class Measures:
    """The measurements of one process."""

    def __init__(
        self, ask: Ask, recorder: Recorder, failed: Callable[[BaseException], None]
    ) -> None:
        self._ask = ask
        self._recorder = recorder
        self._failed = failed
        self.spans = Spans(recorder)
        self._late: list[tuple[str, int, Any]] = []
        self._timed: dict[tuple[object, ...], int] = {}

    def value(self, where: Any, name: str | None, task: str | None) -> None:
        """Record each value of ``where``; what lives on a device is read when the run ends."""
        series = "/".join(part for part in (task, name or _last_word(where)) if part)
        self._ask(where, store=Store(series, self._recorder, self._keep_late))

    def region(self, where: Any, name: str, **said: Any) -> None:
        """Record each call of ``where`` as a span of the region ``name``.

        Raises UserError when a function does not say what its parameters are called.
        """
        try:
            region = Region(name, **said)
        except TypeError as error:
            raise UserError(f"region {name!r} of {where!r}: {error}") from None
        self._ask(where, calls=RegionHooks(region, self.spans))

    def step(self, where: Any, task: str, items: Any, phase: Any, device: bool) -> None:
        """Each call of ``where`` is a step, of ``items`` items where that is said."""
        self.region(where, "step", task=task, items=items, phase=phase, device=device)

    def loader(self, where: Any, task: str, items: Any, phase: str | None) -> None:
        """Record the turns of the loop that ``where`` feeds: the wait for a batch, and the step."""
        asked = where if isinstance(where, str) else _last_word(where)
        loop = Loop(
            self.spans, task=task, items=items, phase=phase, asked=asked, failed=self._failed
        )
        self._ask(where, direct=lambda found: loaders.wrap(found, loop.turns), override=True)

    def span(self, name: str, start_ns: int, end_ns: int, nbytes: int | None, what: Any) -> None:
        """Record a span of the region ``name`` that somebody has timed."""
        key = (name, what, nbytes is None, get_ident(), getpid())
        site = self._timed.get(key)
        if site is None:
            payload = None if nbytes is None else "bytes"
            site = self._timed[key] = self.spans.sites.at(
                sys._getframe(1), "", None, region=name, what=what, payload=payload
            )
        self.spans.room.add(start_ns, end_ns, nbytes or 0, site)

    def close(self) -> None:
        """Read what was left on devices."""
        while self._late:
            self._read_late()

    def _keep_late(self, series: str, value: Any) -> None:
        self._late.append((series, monotonic_ns(), _detached(value)))
        if len(self._late) > _LATE:
            self._read_late()

    def _read_late(self) -> None:
        series, when, value = self._late.pop(0)
        self._recorder.emit_values(series, when, _number(value))


def _is_traced(value: Any) -> bool:
    """Whether torch records what is done to ``value``: to look at it would stand in the graph."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return False
    if type(value).__module__.startswith("torch.fx."):
        return True
    tracing = getattr(getattr(torch, "_C", None), "_get_tracing_state", None)
    return tracing is not None and tracing() is not None


def _detached(value: Any) -> Any:
    """Without its graph: a loss kept for later must not keep a whole step's activations alive."""
    return value.detach() if hasattr(value, "detach") else value


def _number(value: Any) -> Any:
    """A single number as such; anything else as it is shown."""
    try:
        return float(_detached(value))
    except (TypeError, ValueError, RuntimeError):
        return repr(value)[:200]


def _last_word(where: Any) -> str:
    """``loss`` of ``//train > loss``, ``r`` of ``f() as r``, the name of an object."""
    if not isinstance(where, str):
        return str(getattr(where, "__name__", where))
    return where.replace(">", " ").split()[-1].lstrip("!").rpartition("/")[2]
