"""How many items, or tokens, the calls of models tell of each step."""

from __future__ import annotations

import numpy as np

from ..store.spans import is_loaders
from .arrays import differing, kinds_of, next_moment, owners, places
from .columns import Ints
from .landmarks import GRADIENTS_ALONE, Landmarks
from .steps import TrackSteps
from .tracks import numbers_of


def items_per_step(
    marks: Landmarks, steps: TrackSteps, rows: Ints, step: Ints, number: Ints
) -> Ints:
    """The items that the model of each step worked on, however often it was called.

    A model that sees its batch several times between a fetch, or a step of an environment, and a backward has
    worked on one batch. If a batch is cut into pieces, each with a backward of its own, all of them count. If
    several optimizers work on the same batch one after the other, it counts once.
    """
    track = marks.track
    names = numbers_of((site.object_id, site.place) for site in track.sites.values())
    model = track.table(lambda site: names[site.object_id, site.place], rows)
    if not (step[1:] == step[:-1]).any():
        return _largest_sums(model, step, number, len(steps))
    backward = track.start[_separating(marks, steps)]
    updates, updated = track.start[marks.updates], track.end[marks.updates]
    in_update = owners(updates, updated, track.start[rows]) >= 0
    # Where the update calls the model, in a closure, a call before it without a backward looks at a result.
    next_backward = next_moment(backward, track.start[rows])
    is_seen = (owners(updates, updated, next_backward) >= 0) & np.isin(step, step[in_update])
    learns = in_update | ~is_seen
    rows, step, number, model = rows[learns], step[learns], number[learns], model[learns]
    # Several batches per step only if the pacing loader was fetched from several times.
    batch = _batches(marks, steps, rows)
    iteration = places(updated, track.start[rows], "right")
    piece = places(backward, track.start[rows])
    # An optimizer calls its closure again on the same batch.
    piece = np.where(in_update[learns], -1, piece)
    observed = places(track.start[track.region("env")], track.start[rows])
    # One value for each model, step, batch, update, piece and observation: that of the first call.
    order = np.lexsort((rows, observed, piece, iteration, batch, step, model))
    keys = [key[order] for key in (model, step, batch, iteration, piece, observed)]
    kept, value = np.flatnonzero(differing(*keys)), number[order]
    if len(backward) < len(marks.backward):
        # A copy is fitted before the backward, on other data: the first call does not tell all of it.
        group = np.repeat(kept, np.diff(np.append(kept, len(value))))
        differs = kinds_of(keys[1][value != value[group]])
        value = np.where(np.isin(keys[1], differs), 0, value)
    value, keys = value[kept], [key[kept] for key in keys[:4]]
    # The sum over observations, and over the pieces between two updates.
    first = np.flatnonzero(differing(*keys))
    value, keys = np.add.reduceat(value, first), [key[first] for key in keys[:3]]
    first = np.flatnonzero(
        differing(*keys)
    )  # the largest of a batch's updates, which worked on the same
    value, keys = np.maximum.reduceat(value, first), [key[first] for key in keys[:2]]
    return _largest_sums(keys[0], keys[1], value, len(steps))


def _separating(marks: Landmarks, steps: TrackSteps) -> Ints:
    """The backwards that separate the pieces of a batch: in steps with others, those that accumulate."""
    track, rows = marks.track, marks.backward
    alone = track.table(lambda site: site.selector == GRADIENTS_ALONE, rows) == 1
    step = owners(steps.start, steps.end, track.start[rows])
    separating: Ints = rows[~alone | ~np.isin(step, step[~alone & (step >= 0)])]
    return separating


def _batches(marks: Landmarks, steps: TrackSteps, rows: Ints) -> Ints:
    """For each call of a model, which fetch of its step it follows; all 0 if each step has one fetch.

    Without a loader, which call of the functions that make its batches.
    """
    track = marks.track
    fetches = track.start[marks.fetches]
    if not (steps.fetches > 1).any():
        by_hand = not track.table(
            lambda site: is_loaders(site.object_id, site.selector), marks.fetches
        ).any()
        return places(fetches, track.start[rows], "right") if by_hand else np.zeros_like(rows)
    step_of_fetch = owners(steps.start, steps.end, fetches)
    loader = track.site[marks.fetches]
    leading = loader[places(fetches, steps.start).clip(max=len(fetches) - 1)]
    pacing = fetches[(step_of_fetch >= 0) & (loader == leading[step_of_fetch])]
    return places(pacing, track.start[rows], "right")


def _largest_sums(model: Ints, step: Ints, number: Ints, n: int) -> Ints:
    """For each of ``n`` steps the largest sum of any model that most steps call; of others where none is."""
    usual, others, copies = np.zeros((3, n), np.int64)
    known = len(kinds_of(step))
    for one_model in kinds_of(model):
        of_model = model == one_model
        sums = sums_of_steps(step[of_model], number[of_model], n)
        # What few steps call beside the others' model is tested, or fitted, between two of them.
        column = usual if 2 * np.count_nonzero(sums) > known else others
        np.maximum(column, sums, out=column)
        copies += (sums > 0) if np.count_nonzero(sums) == 1 < known else 0
    # Several copies that are made for one step alone, as in meta-learning, work on a part of it each.
    others[copies > 1] = 0
    return np.where(usual > 0, usual, others)


def sums_of_steps(step: Ints, number: Ints, n: int) -> Ints:
    """The sum of ``number`` in each of ``n`` steps."""
    return np.bincount(step, number, n).astype(np.int64)
