"""The steps among the spans of a process, as events in milabench's form.

A run of any length gives a bounded number of events: neighbouring steps are added up where there are
too many. Sums stay exact.
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
"""Events for one task of one process."""
_BLOCK = 1 << 20


class Group:
    """Neighbouring steps, added up. Times are nanoseconds."""

    __slots__ = ("count", "elapsed", "end", "first", "io", "items", "known")

    def __init__(self, first: int, elapsed: int, io: int | None, items: int, end: int) -> None:
        self.first = first
        self.count = 1
        self.elapsed = elapsed
        self.io = io
        self.items = items
        self.known = items > 0
        self.end = end

    def add(self, other: Group) -> None:
        """Take in the steps that follow."""
        self.count += other.count
        self.elapsed += other.elapsed
        self.items += other.items
        self.known = self.known and other.known
        self.end = other.end
        if other.io is not None:
            self.io = (self.io or 0) + other.io

    def data(self, task: str) -> dict[str, Any]:
        """As the data of an event: elapsed and io are seconds, of all its steps together."""
        seconds = self.elapsed / 1e9
        found: dict[str, Any] = {"task": task, "batch_id": self.first, "elapsed": seconds}
        if self.known:
            found.update(rate=_rate(self.items, seconds), units="items/s", items=self.items)
            found["batch_size"] = self.items / self.count if self.count > 1 else self.items
        else:
            found.update(rate=_rate(self.count, seconds), units="steps/s")
        if self.io is not None:
            found["io"] = self.io / 1e9
        if self.count > 1:
            found["of"] = {"count": self.count}
        return found


def _rate(amount: int, seconds: float) -> float | None:
    return amount / seconds if seconds > 0 else None


class Task:
    """The steps of one task in the order of their ends, in at most ``most`` groups, an even number."""

    def __init__(self, most: int = MOST) -> None:
        self.groups: list[Group] = []
        self._most = most
        self._steps = 0
        self._size = 1

    def add(self, elapsed: int, io: int | None, items: int, end: int) -> None:
        """One more step."""
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
    """What an event says, and when, in nanoseconds of the monotonic clock."""

    end: int
    data: dict[str, Any]


class Steps:
    """Reads the spans in ``path``, whose sites are in the log ``log``. Raises OSError.

    Of the steps of a task it makes at most ``most`` groups, an even number. ``rows`` is how many spans there
    are, ``last`` when the last of them ended, nanoseconds.
    """

    def __init__(self, path: str, log: str, most: int = MOST) -> None:
        self._most = most
        self._sites = read_call_sites(log)
        self._tasks: dict[str, Task] = {}
        self._fetches: dict[tuple[Any, ...], tuple[int, int]] = {}
        self._drawn: dict[Any, tuple[int, int]] = {}
        """By thread, when the last batch was fetched whose loader says how many items it drew, and these."""
        self.rows = self.last = 0
        hosts = [(n, site) for n, site in self._sites.items() if site.clock == "host"]
        wanted = {n for n, site in hosts if site.region in ("step", "io")}
        for row in self._read(path, wanted):
            self._take(*row)

    def events(self) -> list[StepEvent]:
        """The events in the order of their times."""
        found = [
            StepEvent(group.end, group.data(task))
            for task, steps in self._tasks.items()
            for group in steps.groups
        ]
        return sorted(found, key=lambda step: step.end)

    def _read(self, path: str, wanted: set[int]) -> Iterator[tuple[int, int, int, int]]:
        for content in spans.blocks(path, _BLOCK):
            rows = array("q", content)
            sites = rows[3::4]
            self.last = max(self.last, max(rows[1::4], default=0))
            self.rows += len(sites) - sites.count(0)
            if not wanted.isdisjoint(sites):
                yield from (row for row in spans.rows(content) if row[3] in wanted)

    def _take(self, start: int, end: int, payload: int, number: int) -> None:
        site = self._sites[number]
        line = site.place.line if site.place else None
        loader = (site.object_id, site.thread, line, site.task)
        if site.region == "io":
            self._fetches[loader] = start, end - start
            if site.payload == "items":
                self._drawn[site.thread] = start, spans.unpack(payload)[0]
            return
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
