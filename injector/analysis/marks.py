"""The spans of a lane that tell training from evaluation, picked out once."""

from __future__ import annotations

from .columns import Ints, Site
from .lanes import Lane

EVALUATING = frozenset({"eval", "evaluate", "evaluation", "predict", "test", "valid", "validation"})
"""Words for a phase or a task in which nothing is trained."""
STRUCTURE = frozenset({"step", "epoch", "evaluation", "io.end"})
"""Regions that are no parts of a step but say what others belong to."""

TRYING = ("eval", "predict")
"""Phases of a model that is not trained: all that tells it to evaluate does so, or only one thing."""


def evaluates(site: Site) -> bool:
    """Whether a site says of itself that nothing is trained there."""
    return site.phase == "eval" or (site.task or "").lower() in EVALUATING


class Marks:
    """Rows of a lane by what they mean, each in order of time and none inside another of its kind."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.steps = lane.outermost(
            lane.where(lambda site: site.region == "step" and not evaluates(site))
        )
        self.passes = lane.outermost(lane.where(_is_pass))
        self.fetches = lane.region("io")
        self.ends = lane.region("io.end")
        self.starts = lane.region("io.start")
        # A module that is called while a batch is made transforms it.
        forward = _outside(lane, lane.region("forward"), self.fetches)
        self.backward = _outside(lane, lane.region("backward"), forward)
        """Those of losses. A model that differentiates what it computes (forces) trains nothing by it."""
        evaluating = lane.table(lambda site: site.phase in TRYING) == 1 if len(forward) else None
        training = lane.table(lambda site: site.phase == "train") == 1 if len(forward) else None
        empty = forward[:0]
        self.forward = forward
        self.tried = empty if evaluating is None else forward[evaluating[forward]]
        """Forwards that say they only evaluate."""
        self.learnt = empty if evaluating is None else forward[~evaluating[forward]]
        """All the others."""
        self.trained = empty if training is None else forward[training[forward]]
        self.updates = self._updates()

    def without_optimizers(self) -> None:
        """Take each backward for an update: whoever calls several moves the weights by hand."""
        if len(self.backward) > 1:
            self.updates = self.backward

    @property
    def optimizes(self) -> bool:
        """Whether an optimizer was stepped, for whatever purpose."""
        return len(self.lane.region("optimizer")) > 0

    def _updates(self) -> Ints:
        lane = self.lane
        rows = lane.outermost(
            lane.where(lambda site: site.region == "optimizer" and not evaluates(site))
        )
        # What is updated within an evaluation (a probe on frozen features) is no step of the training.
        return _outside(lane, rows, self.passes)


def _outside(lane: Lane, rows: Ints, of: Ints) -> Ints:
    """Of ``rows``, those that lie in none of ``of``, which do not overlap."""
    if not len(of) or not len(rows):
        return rows
    last = lane.start[of].searchsorted(lane.start[rows], side="right") - 1
    return rows[(last < 0) | (lane.end[rows] > lane.end[of[last]])]


def _is_pass(site: Site) -> bool:
    return site.region == "evaluation" or (site.region in ("step", "epoch") and evaluates(site))
