"""``yield from`` seen from between, in Python: the twin of ``native/delegate.c``, which says why.

Of the program's recursion limit it takes a little more than nothing, which that does not.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any


def Delegate(hooks: dict[str, Any], name: str, receives: bool, iterable: Any) -> Any:
    """What ``yield from`` delegates to instead of ``iterable``: a hook is on what passes."""
    if hasattr(iterable, "cr_code"):
        return iterable  # only the compiler's own `yield from` may take one, or refuse it
    try:
        inner = iter(iterable)
    except TypeError:
        return iterable  # it says so itself
    return _Delegate(hooks, name, receives, inner)


class _Delegate:
    """``send``, ``throw`` and ``close`` exist exactly when the inner iterator has them, because
    ``yield from`` asks for them by name and behaves differently when they are missing.
    """

    __slots__ = ("_hooks", "_inner", "_name", "_receives", "_started")

    def __init__(self, hooks: dict[str, Any], name: str, receives: bool, inner: Any) -> None:
        self._hooks, self._name, self._receives, self._inner = hooks, name, receives, inner
        self._started = False

    def __iter__(self) -> _Delegate:
        return self

    def __repr__(self) -> str:
        return repr(self._inner)

    def __next__(self) -> Any:
        try:
            return self._sent(None)
        except BaseException as problem:
            problem.__traceback__ = _below(problem.__traceback__, 2)
            raise

    def _sent(self, value: Any) -> Any:
        if self._receives and self._started:
            value = self._hooks[self._name](value)
        # The first advance starts the inner iterator: nothing is received.
        self._started = True
        found = next(self._inner) if value is None else self._inner.send(value)
        return found if self._receives else self._hooks[self._name](found)

    def __getattr__(self, name: str) -> Any:
        try:
            method = getattr(self._inner, name)
        except AttributeError as problem:
            problem.__traceback__ = _below(problem.__traceback__, 1)
            raise
        if name not in ("send", "throw"):
            return method

        def passed(*values: Any) -> Any:
            try:
                if name == "send":
                    return self._sent(*values)
                found = method(*values)
                return found if self._receives else self._hooks[self._name](found)
            except BaseException as problem:
                problem.__traceback__ = _below(problem.__traceback__, 1 + (name == "send"))
                raise

        return passed


def _below(trace: Any, frames: int) -> Any:
    """A traceback without its first frames, which are ours."""
    while trace is not None and frames:
        trace, frames = trace.tb_next, frames - 1
    return trace
