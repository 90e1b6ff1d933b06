"""What ``ov.value``, ``ov.region``, ``ov.step`` and ``ov.loader`` ask for and record."""

from __future__ import annotations

from _thread import get_ident
from time import monotonic_ns, perf_counter_ns

from . import loader as loaders
from .items import counter

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    Ask = Callable[..., None]
    """``ask(where, variable, handler, override=False)`` of the overseer."""

    class Recorder(Protocol):
        """Where measurements go: the writer of this process."""

        def emit(self, event: str, data: object) -> None: ...

        def emit_values(self, series: str, t_ns: int, value: object) -> None: ...


_LATE = 4096
"""Values still on a device that are kept before the oldest are read."""


class Measures:
    """The measurements of one process."""

    def __init__(self, ask: Ask, recorder: Recorder) -> None:
        self._ask = ask
        self._recorder = recorder
        self._late: list[tuple[str, int, Any]] = []

    def value(self, where: Any, name: str | None, task: str | None) -> None:
        """Record each value of ``where``; what lives on a device is read when the run ends."""
        series = "/".join(part for part in (task, name or _last_word(where)) if part)
        emit = self._recorder.emit_values
        keep = self._keep_late

        def record(value: Any) -> None:
            if isinstance(value, (int, float)):
                emit(series, monotonic_ns(), value)
            else:
                keep(series, value)

        self._ask(where, None, record)

    def region(self, where: Any, name: str) -> None:
        """Record the seconds of each call of ``where`` as the region ``name``."""
        emit = self._recorder.emit

        def ended(seconds: float) -> None:
            emit("region", {"region": name, "seconds": seconds})

        self._ask_calls(where, ended)

    def step(self, where: Any, task: str, items: Any) -> None:
        """Each call of ``where`` is a step: its rate is items (else steps) by seconds."""
        count = counter(items) if items is not None else None

        def ended(seconds: float) -> None:
            self._rate(task, count(None) if count else None, seconds)

        self._ask_calls(where, ended)

    def loader(self, where: Any, task: str, items: Any) -> None:
        """Time the steps of the loop that ``where`` feeds: the wait for a batch and the body."""
        count = counter(items)

        def ended(io_ns: int, step_ns: int, batch: Any) -> None:
            self._rate(task, count(batch), step_ns / 1e9, io_ns / 1e9)

        self._ask(where, None, lambda found: loaders.wrap(found, ended), override=True)

    def close(self) -> None:
        """Read what was left on devices."""
        while self._late:
            self._read_late()

    def _ask_calls(self, where: Any, ended: Callable[[float], None]) -> None:
        """Tell ``ended`` of the seconds of each call of the function ``where``, per thread."""
        begun: dict[int, list[int]] = {}

        def enter(_: Any) -> None:
            begun.setdefault(get_ident(), []).append(perf_counter_ns())

        def leave(_: Any) -> None:
            end = perf_counter_ns()
            ended((end - begun[get_ident()].pop()) / 1e9)

        self._ask(where, "#enter", enter)
        self._ask(where, "#exit", leave)

    def _rate(
        self, task: str, items: int | None, seconds: float, io: float | None = None
    ) -> None:
        data: dict[str, Any] = {"task": task, "time": seconds}
        if items is None:
            data.update(rate=1 / seconds, units="steps/s")
        else:
            data.update(rate=items / seconds, units="items/s", batch_size=items)
        if io is not None:
            data["io"] = io
        self._recorder.emit("data", data)

    def _keep_late(self, series: str, value: Any) -> None:
        """Reading a device's value waits for the device, so it is put off; a host's is read now."""
        device = getattr(value, "device", None)
        now = monotonic_ns()
        if device is None or getattr(device, "type", device) == "cpu":
            self._recorder.emit_values(series, now, _number(value))
            return
        self._late.append((series, now, value.detach() if hasattr(value, "detach") else value))
        if len(self._late) > _LATE:
            self._read_late()

    def _read_late(self) -> None:
        series, when, value = self._late.pop(0)
        self._recorder.emit_values(series, when, _number(value))


def _number(value: Any) -> Any:
    """A single number as such; anything else as it is shown."""
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return repr(value)[:200]


def _last_word(where: Any) -> str:
    """``loss`` of ``//train > loss``, ``r`` of ``f() as r``, the name of an object."""
    if not isinstance(where, str):
        return str(getattr(where, "__name__", where))
    return where.replace(">", " ").split()[-1].lstrip("!").rpartition("/")[2]
