"""The sums that are kept of the spans of a process: what its steps are made of.

A span is written when its call ends, so inner ones come before those around them, and a step is known when it
has ended. :class:`Parts` keeps the outermost spans of a thread since the last step began (:class:`Piece`); a
span that comes after spans that lie in it takes these in and keeps the time that they leave as its own. When
a step ends, the pieces in it are added to the sums.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ..analysis.outcomes import RegionCall
from ..analysis.training_loop import READING
from ..measure.pace import ThreadSteps
from ..store.call_sites import CallSite
from ..store.spans import WAIT, gives, is_loaders, updates

TRAIN, EVALUATION = "train", "evaluation"
"""The names of the two tasks that call sites belong to if a voirfile names no other."""
FETCHING = ("io", "io.end")
PACING = frozenset(("step", *FETCHING))
"""Regions whose spans begin or end steps, besides updates of a model."""

STRUCTURE = ("epoch", "evaluation", "eval_mode", "layer", "layer.backward")
"""Regions that lie around steps or are measured beside others; they are no parts of a step."""
WINDOW = 10.0
"""Seconds that current rates and shares look back."""
KEPT = 64
"""The most pieces that are kept since the last step began. Of more, the older half becomes one."""


class SiteKind:
    """A call site with what it means for the sums, worked out once for all of its spans."""

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
        self.source = site.object_id, str(site.place)  # a string keeps its hash, unlike a tuple
        """What identifies a loader or an optimizer: the object, and the line of the program."""
        self.gives = self.region == WAIT and gives(site.label)
        """Whether it is a wait for something that may be a batch."""
        self.evaluates = site.phase in ("eval", "predict")
        self.learns = site.phase == "train"
        """Whether its calls are of a model in training."""
        named = site.task if self.region == "step" else None
        own = EVALUATION if self.evaluates else TRAIN
        self.task = own if named in (None, TRAIN) else str(named)
        """The task that its spans belong to."""
        self.paces = self.task == TRAIN and (
            self.region in PACING or updates(self.region, site.phase)
        )
        """Whether its spans begin or end training steps."""
        if self.region in FETCHING and not is_loaders(site.object_id, site.selector):
            self.paces = False

    @property
    def trains(self) -> bool:
        """Whether its spans show that the run trains."""
        return self.learns or updates(self.region, self.site.phase)

    @property
    def call(self) -> RegionCall:
        """The call that a process is in while a span of this site is open."""
        return RegionCall(self.region, self.site.label, self.site.place)


class Piece:
    """A span that lies in no other one so far. Times are nanoseconds."""

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
        """Nanoseconds of each region in it, without those of regions inside."""
        self.loader = loader
        """The loader, if it is a fetch."""
        self.evaluates = evaluates


class Parts:
    """The parts of the steps of one thread. Moments are nanoseconds of the monotonic clock."""

    def __init__(self) -> None:
        self.total = 0
        """Nanoseconds of all steps that have ended, without evaluations in them."""
        self.regions: dict[str, int] = {}
        """Nanoseconds of each region in them."""
        self._pieces: list[Piece] = []
        self._begin: int | None = None
        """When the step began that has not ended; None between steps."""
        self._pacing: set[object] = set()
        """The loaders whose fetches begin steps."""
        self._cut = 0
        """Nanoseconds of evaluations in the step whose pieces are not kept any more."""

    def span(
        self, start: int, end: int, region: str, loader: object = None, gives: bool = False
    ) -> None:
        """Take a span of ``region``, which has ended. ``loader`` is the loader of a fetch.

        ``gives``: whether it is a wait for something. Before the step's model is called, that is its batch.
        """
        if region in STRUCTURE or (self._begin is not None and start < self._begin):
            return  # it lies around steps
        if gives and not any(
            {"forward", "backward"} & set(piece.regions) for piece in self._pieces
        ):
            region = "io"
        # What is done where batches are made, such as `h2d` of a loader, counts as that.
        piece = self._around(start, end, "io" if region in READING else region)
        if region in READING:
            piece.regions, piece.loader = {"io": end - start}, loader
        elif region != WAIT and WAIT in piece.regions:
            # A region that waits inside, such as a collective, is what the time was for.
            piece.regions[region] += piece.regions.pop(WAIT)
            if self._begin is None and loader in self._pacing:
                self._begin, self._pieces = start, []
        self._keep(piece)

    def evaluated(self, start: int, end: int) -> None:
        """Take a call of a trained model in evaluation mode, with the fetches just before it."""
        self._around(start, end, "evaluation")
        while self._pieces and self._is_of_evaluation(self._pieces[-1]):
            start = self._pieces.pop().start
        self._keep(Piece(start, end, {}, evaluates=True))

    def exhausted(self, start: int, loader: object) -> None:
        """Take that ``loader`` had no more batches at ``start``: its last step ended, and none has begun."""
        if loader in self._pacing:
            self._commit(start)
            self._begin = None

    def fetched(self, start: int, loader: object) -> None:
        """Take that the fetch at ``start``, the last span, ends a step and begins the next."""
        if loader not in self._pacing:
            # That its fetches begin steps shows with its second one: the step began with the one before.
            self._pacing.add(loader)
            before = [p.start for p in self._pieces if p.loader == loader and p.start < start]
            self._begin = before[-1] if before else None
        self._commit(start)

    def updated(self, end: int) -> None:
        """Take that an update ended a step at ``end``."""
        self._commit(end)

    def stepped(self, start: int, end: int) -> None:
        """Take a step that a voirfile marks."""
        self._begin = start
        self._commit(end)
        self._begin = None

    def _around(self, start: int, end: int, region: str) -> Piece:
        """A piece for a span, in place of the pieces in it: their regions, and its own for the rest."""
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
        """Add a piece. If there are too many, the older half becomes one, but for its evaluations."""
        self._pieces.append(piece)
        if len(self._pieces) <= KEPT:
            return
        old, self._pieces = self._pieces[: KEPT // 2], self._pieces[KEPT // 2 :]
        self._cut += sum(older.length for older in old if older.evaluates)
        first, *rest = [older for older in old if not older.evaluates] or [
            Piece(old[0].start, old[0].start, {})
        ]
        for older in rest:
            first.end, first.length = older.end, first.length + older.length
            for name, spent in older.regions.items():
                first.regions[name] = first.regions.get(name, 0) + spent
        self._pieces.insert(0, first)

    def _is_of_evaluation(self, piece: Piece) -> bool:
        """Whether ``piece``, before an evaluation, belongs to it: a fetch by a loader that paces nothing."""
        if piece.evaluates:
            return True
        return piece.loader is not None and piece.loader not in self._pacing

    def _commit(self, moment: int) -> None:
        """Add the step that ends at ``moment`` to the sums, with the pieces that began in it; the next one
        begins.

        Between steps nothing is added: what was done there is no part of any.
        """
        begin, self._begin = self._begin, moment
        begun = [piece for piece in self._pieces if piece.start < moment]
        self._pieces = [piece for piece in self._pieces if piece.start >= moment]
        cut, self._cut = self._cut, 0
        if begin is None:
            return
        self.total += moment - begin - cut
        for piece in begun:
            if piece.start < begin:
                continue
            if piece.evaluates:
                self.total -= piece.length
            for name, spent in piece.regions.items():
                self.regions[name] = self.regions.get(name, 0) + spent


class Inference:
    """The steps of inference of each thread, and what they are made of, for as long as nothing is trained.

    Whether a run trains is known only when anything is trained. Until then, what models predict counts: one
    step for each fetch, or for each call of a model without a loader, as ``--stop`` counts them.
    """

    def __init__(self) -> None:
        self._threads: dict[int, tuple[ThreadSteps, Parts]] = {}

    @property
    def steps(self) -> int:
        """Those of the thread that made most of them."""
        return max((steps.steps for steps, _ in self._threads.values()), default=0)

    @property
    def parts(self) -> list[Parts]:
        """What the steps of each thread are made of."""
        return [parts for _, parts in self._threads.values()]

    def span(self, start: int, end: int, kind: SiteKind) -> bool:
        """Take a span. Returns whether it ended the last step of a loader."""
        if kind.thread not in self._threads:
            self._threads[kind.thread] = ThreadSteps(), Parts()
        steps, parts = self._threads[kind.thread]
        loads = is_loaders(kind.object_id, kind.site.selector)
        if kind.region == "io.end":
            parts.exhausted(start, kind.source)
            return loads and steps.end(kind.source)
        parts.span(start, end, kind.region, kind.source, kind.gives)
        if kind.region == "io" and loads:
            if steps.fetch(kind.source):
                parts.fetched(start, kind.source)
        elif kind.region == "forward" and kind.evaluates and steps.update(kind.source):
            parts.updated(end)
        return False


class Sums(NamedTuple):
    """What the steps until one moment are made of."""

    seconds: float
    """The moment, seconds of the monotonic clock."""
    total: int
    """Nanoseconds of all steps."""
    regions: dict[str, int]
    """Nanoseconds of each region in them."""


class WindowShares:
    """The shares of regions in the steps of a window of time, from sums that only grow."""

    def __init__(self) -> None:
        self._sums = deque([Sums(0.0, 0, {})])
        """The sums at the moments of the window."""

    def mark(self, now: float, all_parts: Sequence[Parts]) -> None:
        """Keep the sums of the moment ``now``, in seconds, if any step has ended since the last one."""
        total = sum(parts.total for parts in all_parts)
        if total == self._sums[-1].total:
            return
        regions: dict[str, int] = {}
        for parts in all_parts:
            for name, spent in parts.regions.items():
                regions[name] = regions.get(name, 0) + spent
        self._sums.append(Sums(now, total, regions))
        # The first of them may lie before the window, so that there are always two to subtract.
        while len(self._sums) > 2 and self._sums[1].seconds < now - WINDOW:
            self._sums.popleft()

    def shares(self) -> dict[str, float]:
        """The share, 0…1, of each region in the steps of the window; empty before the first step."""
        first, last = self._sums[0], self._sums[-1]
        total = last.total - first.total
        if total <= 0:
            return {}
        return {
            name: (spent - first.regions.get(name, 0)) / total
            for name, spent in last.regions.items()
            if spent > first.regions.get(name, 0)
        }
