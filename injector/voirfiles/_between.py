"""Regions that lie between two places in a library, such as around its call of a function of the program."""

from __future__ import annotations

from threading import get_ident
from time import perf_counter_ns
from typing import Any


class Between:
    """Records a region ``name`` from when a thread assigns the value at ``begin`` until it assigns that at
    ``end``.

    All places are selectors of values, which stay as they are. Without an end there is no span. What begins
    after ``unless`` and before ``after`` is no span either.
    """

    def __init__(
        self, ov: Any, name: str, begin: str, end: str, unless: str = "", after: str = ""
    ) -> None:
        self._ov = ov
        self._name = name
        self._begun: dict[int, int] = {}
        self._skipping: set[int] = set()
        ov.override(begin, self._begin)
        ov.override(end, self._end)
        if unless:
            ov.override(unless, self._begin_skipping)
            ov.override(after, self._end_skipping)

    def _begin_skipping(self, value: Any) -> Any:
        self._skipping.add(get_ident())
        return value

    def _end_skipping(self, value: Any) -> Any:
        self._skipping.discard(get_ident())
        return value

    def _begin(self, value: Any) -> Any:
        thread = get_ident()
        if thread not in self._skipping:
            self._begun[thread] = perf_counter_ns()
        return value

    def _end(self, value: Any) -> Any:
        begun = self._begun.pop(get_ident(), None)
        if begun is not None:
            self._ov.span(self._name, begun, perf_counter_ns())
        return value
