"""Regions that are no calls: what lies between two places of a library, as a function of the program does
that the library was given."""

from __future__ import annotations

from threading import get_ident
from time import perf_counter_ns
from typing import Any


class Between:
    """A region ``name`` from when ``begin`` fires until one thread later gets to ``end``.

    All are selectors of values, which stay as they are. What does not get to the end is no span. With
    ``unless`` and ``after``, what begins between the two does not count.
    """

    def __init__(
        self, ov: Any, name: str, begin: str, end: str, unless: str = "", after: str = ""
    ) -> None:
        self._ov = ov
        self._name = name
        self._begun: dict[int, int] = {}
        self._ignoring: set[int] = set()
        ov.override(begin, self._begin)
        ov.override(end, self._end)
        if unless:
            ov.override(unless, self._ignore)
            ov.override(after, self._heed)

    def _ignore(self, value: Any) -> Any:
        self._ignoring.add(get_ident())
        return value

    def _heed(self, value: Any) -> Any:
        self._ignoring.discard(get_ident())
        return value

    def _begin(self, value: Any) -> Any:
        thread = get_ident()
        if thread not in self._ignoring:
            self._begun[thread] = perf_counter_ns()
        return value

    def _end(self, value: Any) -> Any:
        begun = self._begun.pop(get_ident(), None)
        if begun is not None:
            self._ov.span(self._name, begun, perf_counter_ns())
        return value
