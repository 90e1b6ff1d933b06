"""``ov.loader``: the passes over an iterable as spans, a fetch (``io``) and a step for each iteration.

:class:`Loop` is what a voirfile has declared of a loader. Each pass over it has an :class:`IterationSpans`,
which the timed iterator (:mod:`.loader`) calls with each fetch and with the end of each loop body.
"""

from __future__ import annotations

import sys

from ..probe import compiled
from ..probe.stop import StopProgram, request_stop
from ..store.spans import ITEMS, pack
from .device import source
from .regions import EXHAUSTED, FETCH

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from .regions import Spans


class Loop:
    """The declaration of one ``ov.loader``: what is recorded of the loop that the loader drives."""

    def __init__(
        self,
        spans: Spans,
        *,
        task: str,
        items: Any,
        phase: str | None,
        selector: str,
        failed: Callable[[BaseException], None],
        device: Any = None,
    ) -> None:
        """``failed`` receives what is raised while items are counted.

        Raises ValueError for a ``device`` that is none.
        """
        self.spans = spans
        self.count = counter(items)
        self.data = {"task": task, "phase": phase, "selector": selector}
        self.data["payload"] = "counted" if items is None else "items"
        self.failed = failed
        self.marks = spans.marks_with(source(device))

    def turns(self, loader: Any) -> IterationSpans:
        """Return the listener of one pass over ``loader``."""
        return IterationSpans(self, loader)

    def load(self, batch: Any) -> int:
        """Return the payload of a batch; 0 when its items cannot be counted."""
        try:
            items = self.count(batch)
            return items if type(items) is int and 0 <= items <= ITEMS else pack(int(items or 0), 0)
        except BaseException as error:
            self.failed(error)
            return 0


class IterationSpans(compiled.Turns):
    """Records one pass over a loader. Nothing here raises into the loop, but what stops the program."""

    def __init__(self, loop: Loop, loader: Any) -> None:
        # So that the rows of a tensor are counted in C, without a call of Python for each batch.
        compiled.learn_tensors(sys.modules.get("torch"))
        room = loop.spans.room
        add = room.add if loop.marks is None else self._add_both
        super().__init__(room.rows, add, loop.load, loop.count is count_items, ITEMS)
        self._loop = loop
        self._begun = self._fetching = None if loop.marks is None else loop.marks.mark()
        self._sites = loop.spans.sites
        self._of = self._sites.objects.number(loader)
        self._what = type(loader).__name__
        self._known: dict[tuple[int, int], tuple[int, int]] = {}
        self._age = self._sites.age

    def _add_both(self, start: int, end: int, payload: int, site: int) -> None:
        """Store a span, and mark on the device where it ends and the next one begins."""
        marks = self._loop.marks
        if marks is not None:
            mark = self._fetching if site == self.fetch else self._begun
            if mark is not None:
                marks.span(mark, start, site)
            if site == self.step:
                self._begun, self._fetching = marks.mark(), marks.mark()
        self._loop.spans.room.add(start, end, payload, site)

    def ended(self, start: int, end: int, frame: FrameType) -> None:
        """Record a fetch that gave no batch: the loader was exhausted, or raised."""
        self.find(frame)
        site = self._sites.like(self.fetch, region=EXHAUSTED)
        try:
            self._loop.spans.room.add(start, end, 0, site)
        except BaseException as problem:
            self.stopped(problem, frame)

    def stopped(self, problem: BaseException, frame: FrameType) -> None:
        """End the program at ``frame`` where ``problem`` is a stop; else raise it."""
        if isinstance(problem, StopProgram):
            request_stop(problem, frame)
        raise problem

    def find(self, frame: FrameType) -> None:
        """Set the sites of the fetch and the step to those of the line at which ``frame`` is."""
        if self._age != self._sites.age:  # the pass goes on in the child of a fork
            self._age = self._sites.age
            self._of = None
            self._known.clear()
        key = id(frame.f_code), frame.f_lasti
        known = self._known.get(key)
        if known is None:
            data: dict[str, Any] = {"of": self._of, "what": self._what, **self._loop.data}
            place = self._sites.place(frame)
            fetch = self._sites.number(place=place, region=FETCH, **data)
            step = self._sites.number(place=place, region="step", **data)
            known = self._known[key] = fetch, step
        self.fetch, self.step = known


# --- how many items a batch holds: native/turns.c does the same for common kinds of batches ------


def count_items(batch: Any) -> int | None:
    """Return the leading dimension of a batch: that of its first tensor, or its length; None if it has none.

    Of a graph that is made of several (PyTorch Geometric), the number of these counts. A tuple or a list is a
    batch of several columns if its parts have a shape, else a list of items.
    """
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    if type(getattr(batch, "num_graphs", None)) is int:
        return int(batch.num_graphs)
    if _is_mapping(batch):
        return next((n for n in map(count_items, batch.values()) if n is not None), None)
    if isinstance(batch, (tuple, list)):
        if batch and (shape := getattr(batch[0], "shape", None)) and shape[0]:
            return int(shape[0])  # a short way for nearly every batch
        columns = [
            n for n in (count_items(p) for p in batch if hasattr(p, "shape") or _is_mapping(p)) if n
        ]
        return columns[0] if columns else len(batch)
    try:
        return len(batch)
    except TypeError:
        return None


def _is_mapping(value: Any) -> bool:
    # Not only dicts: transformers' BatchEncoding, for one. Mapping is in collections.abc, an import more.
    return hasattr(value, "keys") and hasattr(value, "values")


def counter(items: Any) -> Callable[[Any], int | None]:
    """Return the function of a batch for an ``items=``, which is a number, a function or None."""
    if items is None:
        return count_items
    if callable(items):
        given: Callable[[Any], int | None] = items
        return given
    return lambda _: int(items)
