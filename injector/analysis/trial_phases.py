"""What threads did when, and the phases that the time of a trial divides into."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ..store.call_sites import CallSite
from ..value_class import state_class
from .arrays import ExcludedIntervals, counts, distinct, union_of
from .columns import SECOND, Ints, evaluates
from .traces import Thread
from .tracks import STRUCTURE

WITHIN = ("suggest", "prune", "report")
"""Regions of a framework's own work inside of trials."""
TRAINING = ("fit", "train")
"""Regions that train a model without being steps."""
LOAD, TRAIN, VALIDATE, FRAMEWORK, OTHER, SETUP = PHASES = (
    "load", "train", "validate", "framework", "other", "setup"
)  # fmt: skip
"""What the time of a worker is divided into."""


@state_class
class Segments:
    """Consecutive pieces of a worker's time, in unix nanoseconds, with the index in PHASES of each."""

    start: Ints
    end: Ints
    phase: npt.NDArray[np.int8]

    def seconds(self) -> dict[str, float]:
        """The seconds of each phase."""
        durations = (self.end - self.start) / SECOND
        sums = np.bincount(self.phase, durations, len(PHASES))
        return dict(zip(PHASES, sums.tolist(), strict=True))


NOTHING_KNOWN = Segments(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int8))


class Activity:
    """When a thread trained, evaluated, and was busy in a framework's functions."""

    def __init__(self, thread: Thread) -> None:
        track, steps = thread.track, thread.steps

        def spans(test: Callable[[CallSite], bool]) -> ExcludedIntervals:
            rows = track.where(test)
            return ExcludedIntervals(track.start[rows], track.end[rows])

        training = spans(lambda site: site.region in TRAINING and not evaluates(site))
        evaluating = spans(lambda site: site.phase == "eval" and site.region not in STRUCTURE)
        self.trains = union_of([steps, training])
        self.validates = union_of([thread.passes.excluded(), evaluating])
        self.framework = spans(lambda site: site.region in WITHIN)
        self.steps = steps.start


def clipped(intervals: ExcludedIntervals, start: int, end: int) -> tuple[Ints, Ints]:
    """Starts and ends of the parts of ``intervals`` that lie between ``start`` and ``end``."""
    first = int(np.searchsorted(intervals.end, start, side="right"))
    last = int(np.searchsorted(intervals.start, end))
    return (
        np.maximum(intervals.start[first:last], start),
        np.minimum(intervals.end[first:last], end),
    )


def divided(processes: Sequence[Sequence[Activity]], start: int, end: int) -> tuple[Segments, int]:
    """Divide the time from ``start`` to ``end`` into phases, and count the steps that began in it.

    ``processes`` are the activities of the threads of each process that worked for the trial. Where they did
    several things at once, the framework's own work comes before evaluation, and evaluation before training.
    Time before the first evaluation or training is loading. Without any of the two it is ``other``, since it
    may as well be a training that is not recognised as one.

    The steps are those of the process with most: ranks that a trial starts make the same steps together.
    """
    threads = [thread for process in processes for thread in process]
    activities = {
        FRAMEWORK: [thread.framework for thread in threads],
        VALIDATE: [thread.validates for thread in threads],
        TRAIN: [thread.trains for thread in threads],
    }
    intervals = {}
    for name, of_threads in activities.items():
        clippings = [clipped(each, start, end) for each in of_threads]
        if any_left := [ExcludedIntervals(*each) for each in clippings if len(each[0])]:
            intervals[name] = union_of(any_left)
    # Cut the time at every moment at which anything begins or ends; each piece is then of one phase.
    moments = [
        np.array([start, end]),
        *(m for each in intervals.values() for m in (each.start, each.end)),
    ]
    edges = distinct(np.concatenate(moments))
    phase = np.full(max(len(edges) - 1, 0), PHASES.index(OTHER), np.int8)
    left = edges[:-1]
    begins = [int(intervals[name].start[0]) for name in (TRAIN, VALIDATE) if name in intervals]
    if begins:
        phase[left < min(begins)] = PHASES.index(LOAD)
    for name in (TRAIN, VALIDATE, FRAMEWORK):  # the later one overrides those before it
        if name in intervals:
            phase[intervals[name].hold(left)] = PHASES.index(name)
    window = np.array([start]), np.array([end])
    steps = max(
        (sum(int(counts(each.steps, *window)[0]) for each in process) for process in processes),
        default=0,
    )
    return Segments(left, edges[1:], phase), steps
