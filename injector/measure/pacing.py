"""Stops the program after enough steps: tells :class:`Pace` of the spans that are recorded.

A span is told when it ends, after it was stored. So the fetch that closes the last step is in the
record too, and whoever reads that finds as many steps as were counted here.
"""

from __future__ import annotations

import os

from ..bus.spans import is_loaders
from ..probe import StopProgram
from .agree import SharedStep
from .pace import Pace
from .regions import EXHAUSTED, FETCH

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .regions import Spans

    Tell = Callable[[], bool]
    """Tells of one span that has ended; whether to stop."""

UPDATE, STEP = "optimizer", "step"


class EnoughSteps(StopProgram):
    """The program has made the steps that were asked for; ``value`` is what the record says."""


class Pacing:
    """Watches the spans of one process. ``asked`` holds ``skip``, ``stop`` and ``until`` (see Pace)."""

    def __init__(self, spans: Spans, asked: Mapping[str, Any], folder: str | None) -> None:
        self._spans = spans
        self._folder = folder
        self._tells: dict[int, Tell] = {}
        self._pace = Pace(asked["skip"], asked["stop"], asked["until"])
        self._add = spans.room.add
        spans.room.add = self.add
        self.ranked(_number(os.environ.get("WORLD_SIZE")))

    def add(self, start: int, end: int, payload: int, site: int) -> None:
        """Store a span, which has ended. Raises EnoughSteps when that was the last."""
        self._add(start, end, payload, site)
        tell = self._tells.get(site)
        if tell is None:
            tell = self._tells[site] = self._tell(self._spans.sites.data(site))
        if tell():
            pace = self._pace
            raise EnoughSteps({"task": "train", "steps": pace.steps, "why": pace.why})

    def ranked(self, world: int) -> None:
        """This process is one of ``world`` that train together: they have to stop together."""
        if world > 1 and self._folder is not None and self._pace.agree is None:
            # Jobs of the same program, one beside the other, meet at different ports.
            job = _number(os.environ.get("MASTER_PORT"))
            self._pace.agree = SharedStep(os.path.join(self._folder, "raw", f"pace.{job}"))

    def renew(self) -> None:
        """In the child of a fork."""
        self._tells.clear()
        self._pace.renew()

    def _tell(self, site: Mapping[str, Any]) -> Tell:
        pace, region = self._pace, site["region"]
        where = site["place"] or {}
        place = where.get("file"), where.get("line")
        of = place if site["of"] is None else site["of"]
        if site["clock"] != "host" or site["phase"] == "eval":
            return _never
        if region in (FETCH, EXHAUSTED) and not is_loaders(site["of"], site["asked"]):
            return _never
        if region == FETCH:
            return lambda: pace.fetch((of, place))
        if region == EXHAUSTED:
            return lambda: pace.end((of, place))
        if region == UPDATE:
            return lambda: pace.update(of, place)
        if region == STEP:
            task = site["task"] or "train"
            return lambda: pace.step(task)
        return _never


def _never() -> bool:
    return False


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
