"""``yield from`` seen from between: the inner iterator with a hook on what passes."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    _Hook = Callable[[Any], Any]


class _Delegate:
    """Stands between ``yield from`` and its iterator.

    ``send``, ``throw`` and ``close`` exist exactly when the inner iterator has them, because
    ``yield from`` asks for them by name and behaves differently when they are missing.
    """

    __slots__ = ("_hook", "_inner", "_started")

    def __init__(self, iterable: Any, hook: _Hook) -> None:
        # A coroutine is delegated to as it is, everything else through its iterator.
        self._inner = iterable if hasattr(iterable, "cr_code") else iter(iterable)
        self._hook = hook
        self._started = False

    def __iter__(self) -> _Delegate:
        return self

    def _advance(self) -> Any:
        inner = self._inner
        return next(inner) if hasattr(inner, "__next__") else inner.send(None)


class YieldDelegate(_Delegate):
    """Calls the hook on each value that the inner iterator yields."""

    __slots__ = ()

    def __next__(self) -> Any:
        return self._hook(self._advance())

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in ("send", "throw"):
            return method
        return lambda *arguments: self._hook(method(*arguments))


class ReceiveDelegate(_Delegate):
    """Calls the hook on each value that is sent in; a plain ``next`` sends ``None``."""

    __slots__ = ()

    def __next__(self) -> Any:
        if not self._started:  # the first advance starts the inner iterator: nothing is received
            self._started = True
            return self._advance()
        value = self._hook(None)
        return self._advance() if value is None else self._inner.send(value)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name != "send":
            return method
        return lambda value: method(self._hook(value))
