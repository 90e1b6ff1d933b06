"""What ``yield from`` delegates to where a hook is on what passes: the twin of ``native/delegate.c``.

Unlike that one it has frames, which count against the program's recursion limit.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any


def Delegate(hooks: dict[str, Any], name: str, receives: bool, iterable: Any) -> Any:
    """Return what ``yield from`` delegates to instead of ``iterable``.

    The hook ``name`` of the namespace ``hooks`` is called with each value that is yielded; or, with
    ``receives``, with each that is sent.
    """
    if hasattr(iterable, "cr_code"):
        return iterable  # a coroutine, which only `yield from` itself may take or refuse
    try:
        inner = iter(iterable)
    except TypeError:
        return iterable  # `yield from` raises the error that the program expects
    return _Delegate(hooks, name, receives, inner)


class _Delegate:
    """Stands between ``yield from`` and an iterator, and calls a hook with what passes.

    It has ``send``, ``throw`` and ``close`` exactly if the iterator has them, since ``yield from`` looks them
    up by name and behaves differently where one is missing.
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
        """Send ``value`` to the iterator, and return what it yields, with the hook on one of the two."""
        if self._receives and self._started:
            value = self._hooks[self._name](value)
        # The first call starts the iterator, which receives nothing then.
        self._started = True
        yielded = next(self._inner) if value is None else self._inner.send(value)
        return yielded if self._receives else self._hooks[self._name](yielded)

    def __getattr__(self, name: str) -> Any:
        try:
            method = getattr(self._inner, name)
        except AttributeError as problem:
            problem.__traceback__ = _below(problem.__traceback__, 1)
            raise
        if name not in ("send", "throw"):  # `close` passes nothing
            return method

        def passed(*values: Any) -> Any:
            try:
                if name == "send":
                    return self._sent(*values)
                yielded = method(*values)
                return yielded if self._receives else self._hooks[self._name](yielded)
            except BaseException as problem:
                # `send` goes through `_sent`, which is a frame more.
                problem.__traceback__ = _below(problem.__traceback__, 1 + (name == "send"))
                raise

        return passed


def _below(trace: Any, frames: int) -> Any:
    """Return a traceback without its first ``frames``, which are ours."""
    while trace is not None and frames:
        trace, frames = trace.tb_next, frames - 1
    return trace
