"""Summed up as spans come: kinds of call sites, parts of the steps of a thread, progress of a task."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import NamedTuple

from ..analysis.outcomes import RegionCall
from ..store.call_sites import CallSite
from ..store.spans import WAIT, gives, is_loaders, updates

TRAIN, EVALUATION = "train", "evaluation"
FETCHING = ("io", "io.end")
PACING = frozenset(("step", *FETCHING))

READING = ("io", "io.start")
"""Regions in which batches are made: what is done inside of them is a part of them."""
STRUCTURE = ("epoch", "evaluation", "layer", "layer.backward")
"""Regions around steps and passes, which are no parts of a step."""
KEPT = 64
"""Spans side by side since the last step began; of more, the first are taken together."""


class SiteKind:
    """What the spans of one site have in common."""

    __slots__ = (
        "evaluates",
        "gives",
        "learns",
        "object_id",
        "paces",
        "region",
        "site",
        "source",
        "task",
        "thread",
    )

    def __init__(self, site: CallSite) -> None:
        self.site = site
        self.region, self.thread, self.object_id = site.region, site.thread, site.object_id
        self.source = site.object_id, str(site.place)  # a text keeps its hash
        self.gives = self.region == WAIT and gives(site.label)
        self.evaluates = site.phase in ("eval", "predict")
        self.learns = site.phase == "train"
        named = site.task if self.region == "step" else None
        own = EVALUATION if self.evaluates else TRAIN
        self.task = own if named in (None, TRAIN) else str(named)
        self.paces = self.task == TRAIN and (
            self.region in PACING or updates(self.region, site.phase)
        )
        if self.region in FETCHING and not is_loaders(site.object_id, site.selector):
            self.paces = False

    @property
    def call(self) -> RegionCall:
        """What a process that is in such a span is in."""
        return RegionCall(self.region, self.site.label, self.site.place)


class Piece:
    """A span of the thread that lies in no other one; times are nanoseconds."""

    __slots__ = ("end", "evaluates", "length", "loader", "regions", "start")

    def __init__(
        self,
        start: int,
        end: int,
        regions: dict[str, int],
        loader: object = None,
        evaluates: bool = False,
    ) -> None:
        self.start, self.end, self.length = start, end, end - start
        self.regions = regions
        """Of each, without those inside it."""
        self.loader = loader
        """Where it is a fetch."""
        self.evaluates = evaluates


class Parts:
    """The steps of one thread."""

    def __init__(self) -> None:
        self.total = 0
        """Nanoseconds of all steps that are summed up."""
        self.regions: dict[str, int] = {}
        """Nanoseconds of each region in them."""
        self._pieces: list[Piece] = []
        self._begin: int | None = None
        """When the step began that has not ended."""
        self._pacing: set[object] = set()
        """Loaders whose fetches begin steps."""
        self._cut = 0
        """Nanoseconds of evaluation since then that are kept no more."""

    def span(
        self, start: int, end: int, region: str, loader: object = None, gives: bool = False
    ) -> None:
        """A region of training has ended; ``loader`` is the loader of a fetch.

        ``gives``: whether a wait gives something: the step's batch, before a model is called.
        """
        if region in STRUCTURE or (self._begin is not None and start < self._begin):
            return  # it lies around steps
        if gives and not any({"forward", "backward"} & set(each.regions) for each in self._pieces):
            region = "io"
        piece = self._around(start, end, "io" if region in READING else region)
        if region in READING:
            piece.regions, piece.loader = {"io": end - start}, loader
        elif region != WAIT and WAIT in piece.regions:  # what is waited for in a region is its own
            piece.regions[region] += piece.regions.pop(WAIT)
            if self._begin is None and loader in self._pacing:
                self._begin, self._pieces = start, []
        self._keep(piece)

    def evaluated(self, start: int, end: int) -> None:
        """A model that is trained was called to evaluate: what was fetched for that belongs to it."""
        self._around(start, end, "evaluation")
        while self._pieces and self._is_of_evaluation(self._pieces[-1]):
            start = self._pieces.pop().start
        self._keep(Piece(start, end, {}, evaluates=True))

    def exhausted(self, start: int, loader: object) -> None:
        """A loader had no more batches: its last step is over, and none has begun."""
        if loader in self._pacing:
            self._commit(start)
            self._begin = None

    def fetched(self, start: int, loader: object) -> None:
        """A step has ended with the fetch that is the last span."""
        if loader not in self._pacing:
            self._pacing.add(loader)
            before = [p.start for p in self._pieces if p.loader == loader and p.start < start]
            self._begin = before[-1] if before else None
        self._commit(start)

    def updated(self, end: int) -> None:
        """A step has ended with an update, at ``end``."""
        self._commit(end)

    def stepped(self, start: int, end: int) -> None:
        """An explicit step has ended."""
        self._begin = start
        self._commit(end)
        self._begin = None

    def _around(self, start: int, end: int, region: str) -> Piece:
        """A new piece, of the pieces that lie in it and what they leave of it."""
        regions: dict[str, int] = {}
        own = end - start
        while self._pieces and self._pieces[-1].start >= start:
            inner = self._pieces.pop()
            own -= inner.length
            for name, spent in inner.regions.items():
                regions[name] = regions.get(name, 0) + spent
        regions[region] = regions.get(region, 0) + max(own, 0)
        return Piece(start, end, regions)

    def _keep(self, piece: Piece) -> None:
        self._pieces.append(piece)
        if len(self._pieces) <= KEPT:
            return
        old, self._pieces = self._pieces[: KEPT // 2], self._pieces[KEPT // 2 :]
        self._cut += sum(each.length for each in old if each.evaluates)
        first, *rest = [each for each in old if not each.evaluates] or [
            Piece(old[0].start, old[0].start, {})
        ]
        for each in rest:
            first.end, first.length = each.end, first.length + each.length
            for name, spent in each.regions.items():
                first.regions[name] = first.regions.get(name, 0) + spent
        self._pieces.insert(0, first)

    def _is_of_evaluation(self, piece: Piece) -> bool:
        if piece.evaluates:
            return True
        return piece.loader is not None and piece.loader not in self._pacing

    def _commit(self, moment: int) -> None:
        """Sum up what began before ``moment``, as a step that ended then."""
        begin, self._begin = self._begin, moment
        mine = [piece for piece in self._pieces if piece.start < moment]
        self._pieces = [piece for piece in self._pieces if piece.start >= moment]
        cut, self._cut = self._cut, 0
        if begin is None:
            return
        self.total += moment - begin - cut
        for piece in mine:
            if piece.start < begin:
                continue
            if piece.evaluates:
                self.total -= piece.length
            for name, spent in piece.regions.items():
                self.regions[name] = self.regions.get(name, 0) + spent


MOST_BEGINS = 1 << 16
"""Steps whose begins are kept: of what follows a run, nothing looks further back."""
WINDOW = 10.0
"""Seconds that a current rate looks back."""


class Mark(NamedTuple):
    """The sums at one moment, seconds of the monotonic clock of the process."""

    seconds: float
    steps: int
    items: int


class TaskRate(NamedTuple):
    """What a task gets through in a second, and how long a step of it takes."""

    steps: float
    items: float | None
    step: float


class TaskProgress:
    """Steps and items of one task of one process. Moments are nanoseconds of its monotonic clock."""

    def __init__(self) -> None:
        self.steps = 0
        self.items = 0
        """0 if they are not known."""
        self.first = 0
        self.latest = 0
        """When it began, and when it last went on."""
        self.begins: deque[tuple[int, int]] = deque(maxlen=MOST_BEGINS)
        """When steps began, and the number of each from 0; of the last ones, in order."""
        self._marks: deque[Mark] = deque()
        self._before: TaskRate | None = None
        self._paused = False

    def went_on(self, start: int, end: int) -> None:
        """A span that is part of it."""
        self.first = self.first or start
        self.latest = max(self.latest, end)

    def step_at(self, moment: int) -> int:
        """The number of the step in which ``moment`` lies, or after which: 0 before the first."""
        at = bisect_right(self.begins, (moment, 1 << 62))
        return self.begins[at - 1][1] if at else 0

    @property
    def moved(self) -> bool:
        """Whether it went on since the last mark."""
        return not self._marks or self.latest / 1e9 > self._marks[-1].seconds

    def mark(self, others: bool) -> None:
        """Remember the sums of this moment, for the rates that follow.

        ``others``: whether the process went on with another task. Where it did so instead, the window
        ends, and another one begins when it comes back.
        """
        if not self.moved:
            self._paused = self._paused or others
            return
        if self._paused:
            self._before, self._paused = self.pace(), False
            self._marks.clear()
        now = self.latest / 1e9
        self._marks.append(Mark(now, self.steps, self.items))
        while len(self._marks) > 2 and self._marks[1].seconds < now - WINDOW:
            self._marks.popleft()

    def pace(self) -> TaskRate | None:
        """Its pace in the window; None before there is one."""
        if len(self._marks) < 2:
            return self._before
        first, last = self._marks[0], self._marks[-1]
        seconds, steps = last.seconds - first.seconds, last.steps - first.steps
        if not steps:
            return None
        items = (last.items - first.items) / seconds if self.items else None
        return TaskRate(steps / seconds, items, seconds / steps)

    def rate(self, pace: TaskRate | None) -> float | None:
        """Items, else steps, per second at ``pace``."""
        return None if pace is None else pace.items if self.items else pace.steps

    def overall(self) -> TaskRate | None:
        """Its pace since it began."""
        seconds = (self.latest - self.first) / 1e9
        if seconds <= 0 or not self.first or not self.steps:
            return None
        items = self.items / seconds if self.items else None
        return TaskRate(self.steps / seconds, items, seconds / self.steps)
