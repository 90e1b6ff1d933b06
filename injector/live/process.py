"""What one process of the program has done so far, summed up from its spans as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from ..measure.pace import Lane

WINDOW = 10.0
"""Seconds that a current rate looks back."""
ITEMS = (1 << 24) - 1
Row = tuple[int, int, int, int]


class Mark:
    """The sums of a process at one moment."""

    __slots__ = ("items", "regions", "seconds", "steps")

    def __init__(self, seconds: float, steps: int, items: int, regions: dict[str, float]) -> None:
        self.seconds = seconds
        self.steps = steps
        self.items = items
        self.regions = regions


class Process:
    """One process: who it is, its steps, its regions. Times are seconds of its monotonic clock."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.facts: dict[str, Any] = {}
        self.rank: int | None = None
        self.world: int | None = None
        self.device: str | None = None
        self.ended = False
        self.stopping = False
        self.losses: dict[str, float] = {}
        self.evaluating = False
        self.latest = 0
        """When its last span ended, ns."""
        self.first = 0
        """When its first training span began, ns."""
        self._sites: dict[int, dict[str, Any]] = {}
        self._lanes: dict[int, Lane] = {}
        self._tops: dict[int, list[tuple[int, str, float]]] = {}
        self._models: dict[object, int] = {}
        self._explicit = 0
        self._regions: dict[str, float] = {}
        self._marks: deque[Mark] = deque()

    # -- what comes

    def record(self, event: str, data: Any) -> None:
        """Take a record of its log."""
        if not isinstance(data, dict):
            return
        if event == "process":
            self.facts = data
            self.rank = data.get("rank")
        elif event == "rank":
            self.rank, self.world = data.get("rank"), data.get("world")
        elif event == "site":
            self._sites[data.get("site", 0)] = data
            self.device = data.get("device") or self.device
        elif event == "end":
            self.ended = True
        elif event == "stop":
            self.stopping = True
        elif event == "value":
            self._value(str(data.get("series")), data.get("value"))

    def _value(self, series: str, value: object) -> None:
        if isinstance(value, (int, float)):
            self.losses[series] = float(value)

    def spans(self, rows: Iterable[Row]) -> None:
        """Take rows of its spans, in the order in which they were written."""
        for start, end, payload, number in rows:
            site = self._sites.get(number)
            if site is not None and site.get("clock") != "device":
                self._span(start, end, payload, site)
                self.latest = max(self.latest, end)

    def _span(self, start: int, end: int, payload: int, site: dict[str, Any]) -> None:
        region, thread = str(site.get("region")), int(site.get("thread") or 0)
        lane = self._lanes.setdefault(thread, Lane())
        evaluation = site.get("phase") == "eval"
        self.evaluating = evaluation
        if region != "step":
            self._region(start, end, region if not evaluation else "evaluation", thread)
        if evaluation:
            return
        self.first = self.first or start
        self._paced(lane, region, site, payload)

    def _paced(self, lane: Lane, region: str, site: dict[str, Any], payload: int) -> None:
        """Count steps and items."""
        whose = (site.get("of"), str(site.get("place")))
        if region == "step" and site.get("task") in (None, "train"):
            lane.step()
            self._explicit += payload & ITEMS
        elif region == "forward" and payload:
            self._models[site.get("of")] = self._models.get(site.get("of"), 0) + (payload & ITEMS)
        elif region == "io" and not lane.explicit:
            lane.fetch(whose)
        elif region == "io.end":
            lane.end(whose)
        elif region == "optimizer" and not lane.explicit:
            lane.update(whose)

    def _region(self, start: int, end: int, region: str, thread: int) -> None:
        """Add to a region's own time: what lies in it was written before, and is not counted twice."""
        tops = self._tops.setdefault(thread, [])
        own = (end - start) / 1e9
        while tops and tops[-1][0] >= start:
            own -= tops.pop()[2]
        tops.append((start, region, (end - start) / 1e9))
        if len(tops) > 64:
            del tops[:32]
        self._regions[region] = self._regions.get(region, 0.0) + max(own, 0.0)

    # -- what it comes to

    @property
    def steps(self) -> int:
        """Training steps so far."""
        return max((lane.steps for lane in self._lanes.values()), default=0)

    @property
    def items(self) -> int:
        """Items that were trained on so far; 0 if they cannot be told."""
        return self._explicit or max(self._models.values(), default=0)

    def mark(self) -> None:
        """Remember the sums of this moment, for the rates that follow."""
        now = self.latest / 1e9
        if self._marks and now <= self._marks[-1].seconds:
            return
        self._marks.append(Mark(now, self.steps, self.items, dict(self._regions)))
        while len(self._marks) > 2 and self._marks[1].seconds < now - WINDOW:
            self._marks.popleft()

    def window(self) -> tuple[Mark, Mark] | None:
        """The sums at both ends of the window; None before there is one."""
        if len(self._marks) < 2:
            return None
        return self._marks[0], self._marks[-1]
