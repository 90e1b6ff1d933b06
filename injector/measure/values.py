"""Values: where those of one series go, and the hooks that record them."""

from __future__ import annotations

import sys
from time import monotonic_ns

from ..probe import compiled
from ..probe.points import Point
from ..probe.stored import stored_call
from ..store.series import SeriesFile
from .call_values import RESULT, CallValue, variables
from .late import number as single
from .regions import CallHooks

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..bus.writer import Writer
    from .regions import Function


class Store:
    """Where the values of one series go: numbers into mapped memory, the rest into the log."""

    def __init__(self, series: str, recorder: Writer, late: Callable[[str, Any], None]) -> None:
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
        if device is not None and not _is_hosts(device):
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
        recorder: Writer,
        late: Callable[[str, Any], None],
        task: str | None,
    ) -> None:
        super().__init__(series_name(task, name), recorder, late)
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
            series = series_name(self._task, name)
            known = self._stores[name] = Store(series, self._recorder, self._late)
        return known


class ValueHooks(CallHooks):
    """A hook that stores what ``get`` makes of each call in ``store``."""

    def __init__(self, get: Function, store: Store) -> None:
        """Raises TypeError when ``get`` does not say what its parameters are called."""
        answer = CallValue(get)
        self.gives = store.gives
        self.what = "value"
        self.variables = ("#value" if answer.late else "#enter",)
        self._captures = variables([answer])
        names = (RESULT, *self._captures) if answer.late else self._captures
        self._get = answer.over(names)
        self._late = answer.late
        self._store = store

    def captures(self, variable: str) -> tuple[str, ...]:
        return self._captures

    def make(
        self, names: dict[str, str], selector: str, library: str
    ) -> tuple[Point, dict[str, Function]]:
        [(variable, name)] = names.items()
        point, hook = self._store.hook(name, self._get, self._late)
        return point, {variable: hook}


def series_name(task: str | None, name: str) -> str:
    """``train/loss``."""
    return f"{task}/{name}" if task else name


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


def _is_hosts(device: Any) -> bool:
    """Whether it is the host itself, as PyTorch, NumPy or TensorFlow (``…/device:CPU:0``) has it."""
    kind = getattr(device, "type", device)
    return kind == "cpu" or (type(kind) is str and "/device:CPU:" in kind)


def _is_traced(value: Any) -> bool:
    """Whether torch records what is done to ``value``: to look at it would stand in the graph."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return False
    if type(value).__module__.startswith("torch.fx."):
        return True
    tracing = getattr(getattr(torch, "_C", None), "_get_tracing_state", None)
    return tracing is not None and tracing() is not None
