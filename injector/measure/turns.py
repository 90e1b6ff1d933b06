"""``ov.loader``: the passes over an iterable as spans, a fetch (``io``) and a step for each turn."""

from __future__ import annotations

from sys import _getframe

from ..bus.spans import ITEMS, pack
from ..probe import StopProgram, request_stop
from .items import counter
from .regions import EXHAUSTED, FETCH

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
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
            items = self.count(batch)
            return items if type(items) is int and 0 <= items <= ITEMS else pack(int(items or 0), 0)
        except BaseException as error:
            self.failed(error)
            return 0


class Turns:
    """One pass over a loader. Nothing here raises into the loop, but what stops the program."""

    def __init__(self, loop: Loop, loader: Any) -> None:
        self._loop = loop
        self._count = loop.load
        self._sites = loop.spans.sites
        self._add = loop.spans.room.add
        self._of = self._sites.objects.number(loader)
        self._what = type(loader).__name__
        self._known: dict[tuple[int, int], tuple[int, int]] = {}
        self._fetch = self._step = self._load = 0
        self._age = self._sites.age
        # Where the loop is, that drew last: hardly any loader is drawn from in two places.
        self._code: CodeType | None = None
        self._lasti = 0

    def fetched(self, start: int, end: int, batch: Any, frame: FrameType) -> None:
        """A batch was drawn by ``frame``; ``start`` and ``end`` are nanoseconds."""
        if (
            frame.f_lasti != self._lasti
            or frame.f_code is not self._code
            or self._age != self._sites.age
        ):
            self._find(frame)
        load = self._load = self._count(batch)
        try:
            self._add(start, end, load, self._fetch)
        except StopProgram as enough:
            request_stop(enough, frame)

    def ended(self, start: int, end: int, frame: FrameType) -> None:
        """There was no other batch, or an exception in its place."""
        self._find(frame)
        site = self._sites.like(self._fetch, region=EXHAUSTED)
        try:
            self._add(start, end, 0, site)
        except StopProgram as enough:
            request_stop(enough, frame)

    def stepped(self, start: int, end: int) -> None:
        """The body that the batch was for has ended."""
        if self._age == self._sites.age:
            try:
                self._add(start, end, self._load, self._step)
            except StopProgram as enough:
                request_stop(enough, _getframe(2))

    def _find(self, frame: FrameType) -> None:
        """The sites of what ``frame`` draws and does."""
        if self._age != self._sites.age:  # the pass goes on in the child of a fork
            self._age = self._sites.age
            self._of = None
            self._known.clear()
        self._code, self._lasti = frame.f_code, frame.f_lasti
        key = id(self._code), self._lasti
        known = self._known.get(key)
        if known is None:
            data: dict[str, Any] = {"of": self._of, "what": self._what, **self._loop.data}
            place = self._sites.place(frame)
            fetch = self._sites.number(place=place, region=FETCH, **data)
            step = self._sites.number(place=place, region="step", **data)
            known = self._known[key] = fetch, step
        self._fetch, self._step = known
