"""The steps of a thread that trains: those that a voirfile marks, and those of other loops.

A loop in which none are marked has the iterations of its loader as steps (:mod:`.iterations`), else what lies
between its updates (:mod:`.steps`).
"""

from __future__ import annotations

import numpy as np

from ..value_class import replace
from .arrays import (
    NOTHING,
    ExcludedIntervals,
    among,
    counts,
    median_of,
    next_moment,
    numbered_kinds,
    owners,
    places,
    taken,
)
from .evaluation import Passes, passes_of
from .iterations import LoaderIterations
from .landmarks import Landmarks
from .step_begins import PAUSE, bounded
from .steps import TrackSteps, joined, no_steps, pace_of, paced_by_updates

SHARED = 0.5
"""A loop is a stage of its own if at most this fraction of its steps holds a step that a voirfile marks."""


def explicit_steps(marks: Landmarks) -> TrackSteps:
    """The steps of a track that a voirfile marks."""
    track, rows = marks.track, marks.steps
    if not len(rows):
        return no_steps()
    sites, pace = numbered_kinds(track.site[rows])
    paces = [pace_of(track.sites[site], "step") for site in sites]
    start, end = track.start[rows], track.end[rows]
    fetches = counts(track.start[marks.fetches], start, end)
    updates = counts(track.start[marks.updates], start, end)
    return joined([TrackSteps(start, end.copy(), pace, fetches, updates, paces)])


def explicit_and_other_steps(
    marks: Landmarks, explicit: TrackSteps, explicit_times: ExcludedIntervals
) -> tuple[TrackSteps, Passes]:
    """The steps that a voirfile marks, and those of other loops of the program, in which it marks none.

    Returns them with the evaluations. ``explicit_times`` are the intervals of marked steps on any track.
    """
    iterations = LoaderIterations(marks)
    steps = explicit
    # If every update lies in a marked step, there is no other training to look for.
    if explicit_times.hold(marks.track.start[marks.updates]).all():
        stages = no_steps()
    else:
        stages = _separate_stages(
            marks, paced_steps(marks, iterations, explicit)[0], explicit_times
        )
    if len(stages):
        steps = joined([explicit, stages])
    elif not len(iterations.steps):
        # The loader that feeds the marked steps: an evaluation is over when it goes on.
        fetches = marks.track.start[marks.fetches]
        iterations.pacing = marks.fetches[owners(steps.start, steps.end, fetches) >= 0]
    return steps, passes_of(marks, iterations, steps)


def _separate_stages(
    marks: Landmarks, steps: TrackSteps, explicit: ExcludedIntervals
) -> TrackSteps:
    """Of ``steps``, those of loops that are stages of their own beside the ``explicit`` ones.

    A loop whose steps hold marked steps is the same training seen twice: the marked ones count. What comes
    after the last update of a step, such as the first marked step, does not belong to it.
    """
    has_explicit = explicit.within(steps.start, steps.end) > 0
    kept = [
        pace
        for pace in range(len(steps.paces))
        if (of_pace := steps.pace == pace).any() and has_explicit[of_pace].mean() <= SHARED
    ]
    steps = taken(steps, np.flatnonzero(among(steps.pace, kept))) if kept else no_steps()
    # A step ends at the latest where the next marked step begins.
    following = places(explicit.start, steps.start)
    limit = np.concatenate((explicit.start, steps.end[-1:]))[following]
    steps.end = np.minimum(steps.end, limit)
    updates = counts(marks.track.start[marks.updates], steps.start, steps.end)
    # Steps that lost all of their updates to marked steps are none.
    steps.updates = np.minimum(steps.updates, updates)
    return taken(steps, (updates > 0) & (explicit.within(steps.start, steps.end) == 0))


def paced_steps(
    marks: Landmarks, iterations: LoaderIterations, explicit: TrackSteps
) -> tuple[TrackSteps, Passes]:
    """Steps that loaders pace, and between them and the ``explicit`` ones the steps that updates pace.

    Returns them with the evaluations.
    """
    by_updates = paced_by_updates(marks, iterations.free)
    paced = joined([explicit, iterations.steps])
    # Where a step paced by updates begins depends on the evaluations before it, and what counts as an
    # evaluation depends on the steps: they are bounded without evaluations, and again once these are known.
    rough = bounded(marks, by_updates, paced, NOTHING) if len(by_updates) else no_steps()
    passes = passes_of(marks, iterations, joined([iterations.steps, rough]))
    excluded = passes.excluded()
    if len(by_updates) and len(excluded):
        rough = bounded(marks, by_updates, paced, excluded)
    by_loaders = _ended_before_passes(marks, iterations.steps, passes)
    return joined([by_loaders, rough]), passes


def _ended_before_passes(marks: Landmarks, steps: TrackSteps, passes: Passes) -> TrackSteps:
    """``steps`` of loaders, of which those that evaluate after their last update end before that.

    What evaluates may first make its data, and in the end its metrics. Where that takes longer than a step
    does, and far longer than what usually follows an update, it is no part of the training.
    """
    if not (len(steps) and len(passes)):
        return steps
    track, excluded = marks.track, passes.excluded()
    begun = track.start[marks.updates]
    last = places(begun, steps.end) - 1
    updated = track.end[marks.updates[np.maximum(last, 0)]]
    has_update = (last >= 0) & (begun[np.maximum(last, 0)] >= steps.start)
    first_pass = next_moment(passes.start, updated)
    evaluates = first_pass < steps.end
    length = steps.end - steps.start - excluded.within(steps.start, steps.end)
    rest = steps.end - updated - excluded.within(updated, steps.end)
    end = steps.end.copy()
    for pace in range(len(steps.paces)):
        of_pace = has_update & (steps.pace == pace)
        usual = of_pace & ~evaluates
        if np.count_nonzero(usual) < 3:
            continue  # too few to say what is usual
        tail = median_of(rest[usual])
        is_long = (rest > PAUSE * tail) & (rest > median_of(length[usual]))
        cut = of_pace & evaluates & is_long
        end[cut] = np.minimum(first_pass, updated + np.int64(tail))[cut]
    return replace(steps, end=end)
