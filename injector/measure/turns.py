"""``ov.loader``: the passes over an iterable as spans, a fetch (``io``) and a step for each turn."""

from __future__ import annotations

from sys import _getframe

from ..bus.spans import pack
from ..probe import StopProgram, request_stop
from .items import counter
from .regions import EXHAUSTED, FETCH

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from .regions import Spans


class Loop:
    """What one ``ov.loader`` says of the loop that a loader drives."""

    def __init__(
        self,
        spans: Spans,
        *,
        task: str,
        items: Any,
        phase: str | None,
        asked: str,
        failed: Callable[[BaseException], None],
    ) -> None:
        self.spans = spans
        self.count = counter(items)
        self.data = {"task": task, "phase": phase, "asked": asked, "payload": "items"}
        self.failed = failed

    def turns(self, loader: Any) -> Turns:
        """Who is told of one pass over ``loader``."""
        return Turns(self, loader)

    def load(self, batch: Any) -> int:
        """The payload of a batch; 0 when its items cannot be counted."""
        try:
            return pack(int(self.count(batch) or 0), 0)
        except BaseException as error:
            self.failed(error)
            return 0


class Turns:
    """One pass over a loader. Nothing here raises into the loop, but what stops the program."""

    def __init__(self, loop: Loop, loader: Any) -> None:
        self._loop = loop
        self._sites = loop.spans.sites
        self._room = loop.spans.room
        self._of = self._sites.objects.number(loader)
        self._what = type(loader).__name__
        self._known: dict[tuple[int, int], tuple[int, int]] = {}
        self._step = self._load = 0
        self._age = self._sites.age

    def fetched(self, start: int, end: int, batch: Any, frame: FrameType) -> None:
        """A batch was drawn by ``frame``; ``start`` and ``end`` are nanoseconds."""
        fetch, self._step = self._at(frame)
        self._load = self._loop.load(batch)
        self._add(start, end, self._load, fetch, frame)

    def ended(self, start: int, end: int, frame: FrameType) -> None:
        """There was no other batch, or an exception in its place."""
        fetch, _ = self._at(frame)
        self._add(start, end, 0, self._sites.like(fetch, region=EXHAUSTED), frame)

    def stepped(self, start: int, end: int) -> None:
        """The body that the batch was for has ended."""
        if self._age == self._sites.age:
            self._add(start, end, self._load, self._step, _getframe(2))

    def _add(self, start: int, end: int, payload: int, site: int, frame: FrameType) -> None:
        try:
            self._room.add(start, end, payload, site)
        except StopProgram as enough:
            request_stop(enough, frame)

    def _at(self, frame: FrameType) -> tuple[int, int]:
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
        return known
