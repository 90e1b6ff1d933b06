"""The steps among the spans of a process, as events in milabench's form.

These are the spans of the regions ``step`` and ``io`` as they were recorded, without the analysis of loops
that reports are made from (:mod:`injector.analysis`). The number of events is bounded however long the run
is: neighbouring steps are added up when there are too many. Their sums stay exact.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from ..named_tuple import NamedTuple
from ..store import spans
from ..store.call_sites import read_call_sites

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

MOST = 4_096
"""The most events for one task of one process."""
_BLOCK = 1 << 20
"""Bytes of spans that are read at once."""


class Group:
    """Neighbouring steps, added up. Times are nanoseconds."""

    __slots__ = ("count", "elapsed", "end", "first", "has_items", "io", "items")

    def __init__(self, first: int, elapsed: int, io: int | None, items: int, end: int) -> None:
        """A group of one step, number ``first``. ``io`` is None without a fetch, ``items`` 0 if unknown."""
        self.first = first
        self.count = 1
        self.elapsed = elapsed
        self.io = io
        self.items = items
        self.has_items = items > 0
        """Whether the items of all its steps are known."""
        self.end = end

    def add(self, other: Group) -> None:
        """Add the steps of ``other``, which follow those of this one."""
        self.count += other.count
        self.elapsed += other.elapsed
        self.items += other.items
        self.has_items = self.has_items and other.has_items
        self.end = other.end
        if other.io is not None:
            self.io = (self.io or 0) + other.io

    def data(self, task: str) -> dict[str, Any]:
        """The data of its event: ``elapsed`` and ``io`` are seconds of all its steps together, ``rate`` is in
        ``units``.
        """
        seconds = self.elapsed / 1e9
        data: dict[str, Any] = {"task": task, "batch_id": self.first, "elapsed": seconds}
        if self.has_items:
            data.update(rate=_rate(self.items, seconds), units="items/s", items=self.items)
            data["batch_size"] = self.items / self.count if self.count > 1 else self.items
        else:
            data.update(rate=_rate(self.count, seconds), units="steps/s")
        if self.io is not None:
            data["io"] = self.io / 1e9
        if self.count > 1:
            data["of"] = {"count": self.count}
        return data


def _rate(amount: int, seconds: float) -> float | None:
    return amount / seconds if seconds > 0 else None


class Task:
    """The steps of one task in the order of their ends, in at most ``most`` groups, an even number.

    When there are as many groups as there may be, each two neighbours become one, and later groups are twice
    as large. So all groups but the last have equally many steps, and a step is added in constant time on
    average.
    """

    def __init__(self, most: int = MOST) -> None:
        self.groups: list[Group] = []
        self._most = most
        self._steps = 0
        """How many steps it has."""
        self._size = 1
        """How many of them make a group."""

    def add(self, elapsed: int, io: int | None, items: int, end: int) -> None:
        """Add a step. Parameters are those of :class:`Group`."""
        step = Group(self._steps, elapsed, io, items, end)
        self._steps += 1
        if self.groups and self.groups[-1].count < self._size:
            self.groups[-1].add(step)
            return
        if len(self.groups) == self._most:
            self._halve()
        self.groups.append(step)

    def _halve(self) -> None:
        for first, second in zip(self.groups[::2], self.groups[1::2], strict=True):
            first.add(second)
        self.groups = self.groups[::2]
        self._size *= 2


class StepEvent(NamedTuple):
    """The event of a group of steps."""

    end: int
    """When the last of its steps ended, nanoseconds of the monotonic clock."""
    data: dict[str, Any]


class Steps:
    """The steps of one process.

    Reads the spans in ``path``, whose call sites are in the log ``log``, when it is made. The steps of each
    task become at most ``most`` groups, an even number. Raises OSError.
    """

    def __init__(self, path: str, log: str, most: int = MOST) -> None:
        self._most = most
        self._sites = read_call_sites(log)
        self._tasks: dict[str, Task] = {}
        self._fetches: dict[tuple[Any, ...], tuple[int, int]] = {}
        """By loader, start and duration of its last fetch, nanoseconds."""
        self._drawn: dict[Any, tuple[int, int]] = {}
        """By thread, the start of the last fetch whose loader says how many items it drew, and these."""
        self.rows = 0
        """How many spans the file has, of all regions."""
        self.last = 0
        """When the last of them ended, nanoseconds."""
        on_host = [(n, site) for n, site in self._sites.items() if site.clock == "host"]
        wanted = {n for n, site in on_host if site.region in ("step", "io")}
        for row in self._read(path, wanted):
            self._take(*row)

    def events(self) -> list[StepEvent]:
        """The events of all tasks, in the order of their times."""
        events = [
            StepEvent(group.end, group.data(task))
            for task, steps in self._tasks.items()
            for group in steps.groups
        ]
        return sorted(events, key=lambda event: event.end)

    def _read(self, path: str, wanted: set[int]) -> Iterator[tuple[int, int, int, int]]:
        """The rows of the call sites in ``wanted``. Sets :attr:`rows` and :attr:`last`."""
        for content in spans.blocks(path, _BLOCK):
            rows = array("q", content)
            sites = rows[3::4]
            self.last = max(self.last, max(rows[1::4], default=0))
            self.rows += len(sites) - sites.count(0)  # a row of site 0 was never written
            # Most blocks of a program without loader have none: they need no loop over their rows.
            if not wanted.isdisjoint(sites):
                yield from (row for row in spans.rows(content) if row[3] in wanted)

    def _take(self, start: int, end: int, payload: int, number: int) -> None:
        """Take the next row of ``step`` or ``io``; ``number`` is that of its call site."""
        site = self._sites[number]
        line = site.place.line if site.place else None
        loader = (site.object_id, site.thread, line, site.task)
        if site.region == "io":
            self._fetches[loader] = start, end - start
            if site.payload == "items":
                self._drawn[site.thread] = start, spans.unpack(payload)[0]
            return
        # A step that a loader drives begins with its fetch, and its row is written after the fetch's.
        began, waited = self._fetches.get(loader, (-1, 0))
        io = waited if began == start else None
        items = spans.unpack(payload)[0] if site.payload in ("items", "counted") else 0
        drawn_at, drawn = self._drawn.get(site.thread, (0, 0))
        if site.payload == "counted" and drawn and start <= drawn_at < end:
            items = drawn  # its loader knows better than the shape of what it gave
        task = site.task or "train"
        if site.phase == "eval" and task == "train":
            task = "evaluation"
        if task not in self._tasks:
            self._tasks[task] = Task(self._most)
        self._tasks[task].add(end - start, io, items, end)
