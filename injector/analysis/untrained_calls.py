"""Which calls of models that only predict are evaluation, and which are parts of the steps around them."""

from __future__ import annotations

import numpy as np

from .arrays import (
    among,
    counts,
    distinct,
    in_one_group,
    kinds_of,
    merged,
    next_moment,
    owners,
    places,
)
from .columns import Flags, Ints
from .landmarks import Landmarks
from .steps import TrackSteps
from .tracks import Track, numbers_of, object_number

_USUAL = 0.5
"""A model that only predicts belongs to the steps if it is called in this fraction of them."""


def evaluating_calls(marks: Landmarks, steps: TrackSteps) -> Ints:
    """The rows of calls of models that only predict, without those that are parts of ``steps``.

    A model that only predicts in most of the steps is a part of them: a teacher, a target network, an encoder
    that an earlier loop has trained. Not so the model that the same loop trains, if it is in evaluation mode
    without gradients, or only called once its weights are updated.
    """
    track, rows = marks.track, marks.predicting
    if not (len(rows) and len(steps)):
        return rows
    object_of = track.table(object_number)
    step_of = owners(steps.start, steps.end, track.start[rows])
    is_learnt = marks.learnt_from(steps.start, steps.end)
    training = np.sort(np.concatenate((marks.training, rows[is_learnt])))
    in_evaluation = track.table(lambda site: site.phase == "eval", rows) == 1
    model_of = _models(track, rows, step_of, ~in_evaluation)
    looks_on = in_evaluation | (_follow_updates(marks, steps, rows, step_of) & ~is_learnt)
    is_trained_one = looks_on & _are_trained(marks, steps, training, object_of, rows)
    evaluates = ~is_learnt
    for model in distinct(model_of[~is_trained_one]).tolist():
        of_model = (model_of == model) & ~is_trained_one
        its_steps = distinct(step_of[of_model & (step_of >= 0)])
        trained = track.start[training[object_of[training] == model]]
        if _is_of_steps(steps, its_steps, trained, bool(in_evaluation[of_model].all())):
            evaluates &= ~of_model
    # The first step of a loop may begin only after such a call at its line.
    in_steps = kinds_of(track.site[rows[~evaluates]])
    is_like_those = among(track.site[rows], in_steps)
    is_like_those |= (model_of < -1) & np.isin(model_of, model_of[~evaluates])
    evaluates &= (step_of >= 0) | ~is_like_those
    # What is called once in all, before the training, is a part of a model that is made: for its shape.
    models, calls = np.unique(object_of[marks.forward], return_counts=True)
    is_shown = np.isin(object_of[rows], models[(calls == 1) & (models >= 0)])
    evaluates &= ~is_shown | (track.start[rows] > steps.start[0])
    found: Ints = rows[evaluates]
    return found


def _is_of_steps(steps: TrackSteps, its_steps: Ints, trained: Ints, evaluates: bool) -> bool:
    """Whether a model is a part of ``its_steps``, in which it predicts: most steps of their loops do.

    ``trained`` are the moments of its calls that are trained with, ``evaluates`` whether all others are in
    evaluation mode.
    """
    around, updates = steps.pace, steps.updates
    if len(trained) and len(its_steps):
        # It is trained in other steps, and used in these, by the same lines of one loader, perhaps.
        first, last = its_steps[0], its_steps[-1]
        is_apart = not counts(trained, steps.start[[first]], steps.end[[last]]).any()
        if is_apart or evaluates:
            around, updates = around[first : last + 1], updates[first : last + 1]
    its_loop = among(around, distinct(steps.pace[its_steps]).tolist())
    # A turn that a voirfile marks may train nothing: an agent fills its memory first.
    updating = int((steps.updates[its_steps] > 0).sum())
    return len(its_steps) >= max(2, _USUAL * its_loop.sum()) or bool(
        updating >= max(2, _USUAL * (its_loop & (updates > 0)).sum())
    )


def _follow_updates(marks: Landmarks, steps: TrackSteps, rows: Ints, step_of: Ints) -> Flags:
    """Which of the calls ``rows``, each in a step or in none (-1), are at a site that only looks at what the
    updates before it made.

    In a step that a loader paces, such a call comes after the last update, and no backward follows. Where
    updates pace the loop, a call between two of them may end a turn or begin the next one. But the first turn
    has no such call before its update, and the last one has one after it.
    """
    track = marks.track
    begun, updated = track.start[marks.updates], track.end[marks.updates]
    learning = merged(begun, track.start[marks.learning()])
    follows = np.zeros(len(rows), np.bool_)
    for site in kinds_of(track.site[rows]):
        of_site = track.site[rows] == site
        in_steps = of_site & (step_of >= 0)
        if not in_steps.any():
            continue
        its_steps, called = step_of[in_steps], track.start[rows[in_steps]]
        paces = steps.pace[its_steps]
        if all(steps.paces[pace].paced_by != "optimizer" for pace in distinct(paces).tolist()):
            is_updated = counts(begun, steps.start[its_steps], called) > 0
            learns = counts(learning, called, steps.end[its_steps]) > 0
            follows[of_site] = (is_updated & ~learns).all()
            continue
        first, last = (np.flatnonzero(steps.pace == pace) for pace in (paces[0], paces[-1]))
        begins, ends = steps.end[first[:1]], steps.end[last[-1:]]
        update = int(places(updated, begins)[0] - steps.updates[first[0]])
        before = updated[[update]] if update >= 0 else np.zeros(1, np.int64)
        called = track.start[rows[of_site]]
        is_before = counts(called, before, begins) > 0
        follows[of_site] = ~is_before & (counts(called, ends, next_moment(learning, ends)) > 0)
    return follows


def _models(track: Track, rows: Ints, step_of: Ints, may_be_new: Flags) -> Ints:
    """A number for the model of each call. Models that are made anew for each step, by a solver that wraps
    its function, are one, with a number below -1: those that ``may_be_new``, are called in one step each, and
    at the same line.
    """
    model: Ints = track.table(object_number, rows)
    is_new = may_be_new & in_one_group(model, step_of)
    lines = numbers_of(track.sites[site].place for site in kinds_of(track.site[rows]))
    return np.where(is_new, -2 - track.table(lambda site: lines.get(site.place, 0), rows), model)


def _are_trained(
    marks: Landmarks, steps: TrackSteps, training: Ints, object_of: Ints, rows: Ints
) -> Flags:
    """For each call of ``rows``, whether its model is trained by the loop around it, before and after it,
    or no loop is around it and any trains the model. ``training`` are the calls that are trained with.

    A model that is trained, but in no step, counts as trained by each loop.
    """
    width = len(steps.paces) + 1
    nowhere = width - 1
    pace = np.append(steps.pace, nowhere)  # what lies in no step has the step -1

    def models_in_loops(calls: Ints) -> tuple[Ints, Ints]:
        """One number for the model of each call and the loop around it, and the step of each."""
        step = owners(steps.start, steps.end, marks.track.start[calls])
        pairs: Ints = object_of[calls] * width + pace[step]
        return pairs, step

    trained, step_trained = models_in_loops(training)
    called, step_called = models_in_loops(rows)
    by_loops = trained[trained % width != nowhere] // width
    anywhere = np.isin(called // width, trained // width)
    anywhere &= (called % width == nowhere) | ~np.isin(called // width, by_loops)
    # The calls are in the order of time: of each model in a loop, its first and last step in training.
    order = np.argsort(trained, kind="stable")
    trained, step_trained = trained[order], step_trained[order]
    first, after = places(trained, called), places(trained, called, "right")
    bounds = np.append(step_trained, -1)
    is_trained: Flags = anywhere | (
        (first < after)
        & (step_called >= bounds[np.minimum(first, len(trained))])
        & (step_called <= bounds[after - 1])
    )
    return is_trained
