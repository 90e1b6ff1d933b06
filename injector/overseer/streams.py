"""Streams of data in the form of the ``giving`` package.

Importing ``giving`` costs about 70 ms, so this module is imported when a voirfile first requests a stream.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from giving import Given, SourceProxy, give
from giving.gvr import global_context

from ..probe.points import MISSING

# From Python 3.13 on, giving imports pdb, that imports readline, and that writes the terminal's size into the
# C environment, where `os.environ` does not show it. The program's children would inherit it.
for _name in ("COLUMNS", "LINES"):
    if _name not in os.environ:
        os.unsetenv(_name)

Data = dict[str, Any]


class Capture:
    """What a ``raw`` probe gives for a variable: its name beside its value."""

    __slots__ = ("capture", "name", "names", "value", "values")

    def __init__(self, capture: str, names: list[str], values: list[Any]) -> None:
        self.capture = capture
        self.name = names[-1]
        self.names = names
        self.value = values[-1]
        self.values = values

    def __repr__(self) -> str:
        return f"Capture({self.capture}={self.value!r} of {self.name})"


class ProbeStream(SourceProxy):  # type: ignore[misc]
    """The stream of a probe's events; every operator of ``giving`` applies."""

    def __init__(self, *, _obs: Any = None, _root: Any = None) -> None:
        super().__init__(_obs=_obs, _root=_root)
        if _root is None:
            self._answer = threading.local()

    def deliver(self, data: Data) -> Any:
        """Push an event. Returns the value that :meth:`override` has set for it, else :data:`MISSING`."""
        answer = self._root._answer
        answer.value = MISSING
        self._push(data)
        return answer.value

    def override(self, setter: Any = lambda value: value) -> Any:
        """Replace the focus variable by ``setter(event)``, or by ``setter`` itself if it cannot be called.

        That works only behind operators that pass an event on at once (``map``, ``filter``).
        """
        function = setter if callable(setter) else lambda _: setter
        return self.subscribe(lambda data: self._set(function(data)))

    def koverride(self, setter: Callable[..., Any]) -> Any:
        """Replace the focus variable by ``setter(**event)``."""
        return self.subscribe(lambda data: self._set(setter(**data)))

    def _set(self, value: Any) -> None:
        """Answer the event that this thread is pushing."""
        self._root._answer.value = value

    def complete(self) -> None:
        """End the stream, so that reductions give their results."""
        self.__exit__()


class GivenStream(Given):  # type: ignore[misc]
    """The stream of what the program gives with ``give(…)``, from any thread.

    What a subscriber raises is reported to ``on_error``, and does not reach the program.
    """

    def __init__(
        self,
        on_error: Callable[[BaseException], None] | None = None,
        _obs: Any = None,
        _root: Any = None,
    ) -> None:
        if _root is None:
            super().__init__(context=global_context)
            self._on_error = on_error
            # Operators are not safe to call from several threads. A subscriber may give something itself, so
            # that the lock has to be one that its thread can take again.
            self._lock = threading.RLock()
        else:
            super().__init__(_obs=_obs, _root=_root)

    def _push(self, data: Data) -> None:
        root = self._root
        with root._lock:
            for observer in list(root._observers):
                try:
                    observer.on_next(data)
                except BaseException as error:
                    root._on_error(error)

    def open(self) -> GivenStream:
        """Begin to listen, in this thread and in every other."""
        self.__enter__()
        give.context = _Context(self._push)
        return self


class _Context:
    """The context of ``giving``, with a handler for threads that were started without one.

    That is a context variable, which new threads do not inherit.
    """

    def __init__(self, push: Callable[[Data], None]) -> None:
        self._push = push

    def get(self) -> tuple[Callable[[Data], None], ...]:
        return global_context.get() or (self._push,)

    def __getattr__(self, name: str) -> Any:
        return getattr(global_context, name)


class LogStream(SourceProxy):  # type: ignore[misc]
    """A stream of what goes into the record, which can be called with more."""

    def __call__(self, data: Data) -> None:
        self._push(data)
