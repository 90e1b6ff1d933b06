"""``ov.value``: where the values of one series go, and the hooks that record them.

A number goes from the hook straight into mapped memory (:mod:`injector.probe.stored`). :meth:`Store.number`
is called only for what is no number yet: a tensor of the host is read, one on a device kept for later
(:mod:`.late`), anything else goes into the log as text.
"""

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


class NoNumberError(TypeError):
    """A voirfile records an object that has neither a number nor a text of its own."""


class Store:
    """Where the values of one series go: numbers into mapped memory, the rest into the log."""

    def __init__(self, series: str, recorder: Writer, late: Callable[[str, Any], None]) -> None:
        """``late(series, value)`` keeps a value on a device to be read later."""
        self._series = series
        self.gives = f"value:{series}"
        self._recorder = recorder
        self._late = late
        self.grow = SeriesFile(recorder, series).grow

    def put(self, value: Any) -> None:
        """Store ``value`` where no hook can do so by itself; None is no value."""
        if value is None:
            return
        number = self.number(value)
        if number is not None:
            self.keep(number)

    def hook(self, name: str, get: Callable[..., Any], late: bool) -> tuple[Point, Any]:
        """Return a point called ``name``, and its hook, which stores what ``get`` returns for each call."""
        return stored_call(name, self.grow, self.number, self.keep, get, late)

    def keep(self, value: float) -> None:
        """Store a number in the log, where there is no room in memory."""
        self._recorder.emit_values(self._series, monotonic_ns(), value)

    def number(self, value: Any) -> float | None:
        """Return ``value`` as a number, or None if there is nothing left to store.

        Reading a value on a device waits for the device, so it is kept for later; one of the host is read
        now. While a graph is traced, a tensor stands for values to come and has no number. Raises
        NoNumberError.
        """
        if isinstance(value, (int, float)):
            return float(value)
        # The class first: the call, which may have to look PyTorch up, is only made where that differs.
        if type(value) is _torch.tensor or _torch.is_tensor(value):
            number = _torch.number(value)
            if number is not None:
                return number
        if value is None or _is_traced(value):
            return None
        device = getattr(value, "device", None)
        if device is not None and not _is_hosts(device):
            self._late(self._series, value)
            return None
        number = single(value)
        if isinstance(number, float):
            return number
        if type(value).__repr__ is vars(object)["__repr__"]:
            kind = type(value).__qualname__
            raise NoNumberError(
                f"{kind} is no number: name an attribute of it, or give one by get="
            )
        self._recorder.emit_values(self._series, monotonic_ns(), number)
        return None


class Several(Store):
    """A store to which a mapping gives a value for each of its names, in a series of that name."""

    def __init__(
        self, name: str, recorder: Writer, late: Callable[[str, Any], None], task: str | None
    ) -> None:
        super().__init__(series_name(task, name), recorder, late)
        self._task = task
        self._stores: dict[str, Store] = {}

    def number(self, value: Any) -> float | None:
        if not (hasattr(value, "keys") and hasattr(value, "values")):
            return super().number(value)
        mistake: NoNumberError | None = None
        for name, one in list(value.items()):
            try:
                self._named(str(name)).put(one)
            except NoNumberError as error:  # the other values count all the same
                mistake = error
        if mistake is not None:
            raise mistake
        return None

    def _named(self, name: str) -> Store:
        """Return the store of the series ``name``."""
        store = self._stores.get(name)
        if store is None:
            series = series_name(self._task, name)
            store = self._stores[name] = Store(series, self._recorder, self._late)
        return store


class ValueHooks(CallHooks):
    """A hook that stores what ``get`` returns for each call in ``store``."""

    def __init__(self, get: Function, store: Store) -> None:
        """Raises TypeError when the parameters of ``get`` have no names."""
        value = CallValue(get)
        self.gives = store.gives
        self.what = "value"
        self.variables = ("#value" if value.late else "#enter",)
        self._captures = variables([value])
        names = (RESULT, *self._captures) if value.late else self._captures
        self._get = value.over(names)
        self._late = value.late
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
    """Return the name of a series, such as ``train/loss``."""
    return f"{task}/{name}" if task else name


class _Torch:
    """The short way to the number in a tensor of the host, such as a loss in each step."""

    tensor: Any = None
    """``torch.Tensor``, once PyTorch is there."""
    _tracing: Callable[[], Any]

    def is_tensor(self, value: Any) -> bool:
        """Whether ``value`` is of the class of tensors itself: a derived one may do anything when read."""
        if self.tensor is None and (torch := sys.modules.get("torch")) is not None:
            get_state = getattr(getattr(torch, "_C", None), "_get_tracing_state", None)
            if get_state is not None:
                self._tracing, self.tensor = get_state, getattr(torch, "Tensor", None)
                compiled.learn_tensors(torch)
        return type(value) is self.tensor

    def number(self, value: Any) -> float | None:
        """Return the number in a tensor; None where it has to be read in another way, or not at all."""
        if not value.is_cpu or self._tracing() is not None:
            return None
        try:
            return float(value.item())
        except (RuntimeError, TypeError, ValueError):  # it has several, or is complex
            return None


_torch = _Torch()


def _is_hosts(device: Any) -> bool:
    """Whether ``device`` is the host, as PyTorch, NumPy or TensorFlow (``…/device:CPU:0``) name it."""
    kind = getattr(device, "type", device)
    return kind == "cpu" or (type(kind) is str and "/device:CPU:" in kind)


def _is_traced(value: Any) -> bool:
    """Whether PyTorch traces what is done to ``value``: reading it would become a part of the graph."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return False
    if type(value).__module__.startswith("torch.fx."):
        return True
    get_state = getattr(getattr(torch, "_C", None), "_get_tracing_state", None)
    return get_state is not None and get_state() is not None
