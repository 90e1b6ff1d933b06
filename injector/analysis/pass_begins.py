"""Where passes over data begin that no loader paces: which single calls of models go on with the pass before.

Nothing marks such a pass. A pause, a training in between, ``model.eval()``, or another line at which the
model is called may begin the next one.
"""

from __future__ import annotations

import numpy as np

from .arrays import among, counts, differing, kinds_of, merged, next_moment, places, runs
from .columns import Flags, Ints
from .landmarks import Landmarks
from .tracks import numbers_of, object_number

_PAUSE, _SHORT_PAUSE = 1_000_000_000, 10_000_000
"""Nanoseconds: a shorter time between calls ends no pass, the second one where both are at the same line."""
_SETS, _CALLS = 4, 3
"""So many data sets are evaluated one after the other, at most; one of them takes so many calls, at least."""


def begins_of_calls(marks: Landmarks, rows: Ints, has_steps: bool) -> Flags:
    """Which of the calls ``rows`` begin a pass of their own; ``has_steps`` if the track trains in steps."""
    begins = _after_pauses(marks, rows) | _after_training(marks, rows) | _in_eval_mode(marks, rows)
    return begins | _at_next_lines(marks, rows) if has_steps else begins


def _after_pauses(marks: Landmarks, rows: Ints) -> Flags:
    """Which of the calls ``rows`` begin a pass of their own: of a model not called before, after a pause.

    The pause is longer than all since the pass before began. A program may call parts of its model while it
    makes it, for the sizes of their results, and load its data then. Of models at the same line, none is such
    a part of another: each is made, or loaded, and evaluated.
    """
    track = marks.track
    model = track.table(object_number, rows)
    is_new = np.zeros(len(rows), np.bool_)
    is_new[np.unique(model, return_index=True)[1]] = True
    pause = np.zeros(len(rows), np.int64)
    pause[1:] = track.start[rows[1:]] - track.end[rows[:-1]]
    lines = numbers_of(track.sites[site].place for site in kinds_of(track.site[rows]))
    line = track.table(lambda site: lines.get(site.place, 0), rows)
    shortest = np.where(differing(line), _PAUSE, _SHORT_PAUSE)
    begins = np.zeros(len(rows), np.bool_)
    began = 0
    for n in np.flatnonzero(is_new & (pause > shortest)).tolist():
        if pause[n] > track.end[rows[n - 1]] - track.start[rows[began]]:
            begins[n], began = True, n
    return begins


def _after_training(marks: Landmarks, rows: Ints) -> Flags:
    """Which of the calls ``rows`` begin a pass of their own: another model was fitted just before, or what
    was compiled derived gradients in a loop.
    """
    track = marks.track
    trains = track.where(lambda site: site.region == "fit" or site.phase == "gradients")
    fits = places(track.start[track.outermost(trains)], track.start[rows])
    begins: Flags = np.concatenate(([False], fits[1:] != fits[:-1]))[: len(rows)]
    return begins


def _in_eval_mode(marks: Landmarks, rows: Ints) -> Flags:
    """Which of the calls ``rows`` begin a pass of their own: a model was put into evaluation mode before.

    A function that evaluates one data set does so once. One that predicts for one batch, or plays one
    episode, may do so each time: then a line calls the model a few times only, or there are many.
    """
    track = marks.track
    switches = track.start[track.region("eval_mode")]
    begins = np.zeros(len(rows), np.bool_)
    if not (len(rows) and len(switches)):
        return begins
    learning = merged(track.start[marks.updates], track.start[marks.learning()])
    segment, switch = (places(each, track.start[rows]) for each in (learning, switches))
    is_next = np.append(True, (switch[1:] != switch[:-1]) | (segment[1:] != segment[:-1]))
    group = np.cumsum(is_next) - 1
    groups, width = int(group[-1]) + 1, 1 + max(track.sites)
    call = np.sort(group * width + track.site[rows])
    first, calls = runs(call)
    most = np.zeros(groups, np.int64)
    np.maximum.at(most, call[first] // width, calls)
    of_segment = segment[is_next]
    _, length = runs(of_segment)
    few = np.repeat(length, length) <= _SETS
    follows = np.append(False, of_segment[1:] == of_segment[:-1])
    is_set = np.append(False, np.maximum(most[1:], most[:-1]) >= _CALLS)
    begins[is_next] = few & follows & is_set
    return begins


def _at_next_lines(marks: Landmarks, rows: Ints) -> Flags:
    """Which of the calls ``rows`` begin a pass of their own, at another line than the pass before.

    The loss of the calls at the one line has been computed, that of the calls at the next one follows, or is
    not computed after several that have been; or both are several calls, by two functions: a model that has
    been validated predicts, or generates. None of both lines takes turns with the other. The same model is
    called: of several, one may be given what the other makes.
    """
    track = marks.track
    places_of = {site: track.sites[site].place for site in kinds_of(track.site[rows])}
    lines = numbers_of(places_of.values())
    functions = numbers_of(place and (place.file, place.function) for place in places_of.values())
    calls = marks.of_models(rows) if len(lines) > 1 else rows[:0]
    if not len(calls):
        return np.zeros(len(rows), np.bool_)
    learning = merged(track.start[marks.updates], track.start[marks.learning()])
    segment = places(learning, track.start[calls])
    models = marks.of_models(marks.forward)
    until = np.minimum(
        next_moment(track.start[models], track.start[calls], "right"),
        next_moment(learning, track.end[calls]),
    )
    losses = marks.forward[~np.isin(marks.forward, models)]
    is_judged = counts(track.start[losses], track.end[calls], until) > 0
    number_of_segment = np.cumsum(np.concatenate(([0], segment[1:] != segment[:-1])))
    line = number_of_segment * len(lines) + track.table(
        lambda site: lines.get(site.place, 0), calls
    )
    # All calls at a line follow one another.
    run = np.cumsum(differing(line))
    length = np.bincount(run)[run]
    are_together = np.bincount(line)[line] == length
    model = track.table(object_number, calls)
    function = track.table(
        lambda site: functions.get(site.place and (site.place.file, site.place.function), 0), calls
    )
    begins = np.zeros(len(calls), np.bool_)
    begins[1:] = (line[1:] != line[:-1]) & (segment[1:] == segment[:-1])
    begins[1:] &= (model[1:] == model[:-1]) & (are_together[1:] & are_together[:-1])
    are_two = (is_judged[:-1] & (is_judged[1:] | (length[:-1] > 1))) | (
        (function[1:] != function[:-1]) & (np.minimum(length[1:], length[:-1]) > 1)
    )
    begins[1:] &= are_two
    at_line = track.table(lambda site: lines.get(site.place, 0), calls)
    begins |= _after_lone_lines(number_of_segment, at_line, function)
    return np.isin(rows, calls[begins])


def _after_lone_lines(segment: Ints, line: Ints, function: Ints) -> Flags:
    """Which calls come after the first line of their segment, which is called alone in other segments.

    Between two trainings, a model is validated by each of some calls; now and then it then generates, in
    another function, by several calls of its parts perhaps.
    """
    begins = np.zeros(len(line), np.bool_)
    first, length = runs(segment)
    is_varied = np.maximum.reduceat(line, first) != np.minimum.reduceat(line, first)
    is_followed = is_varied & among(line[first], kinds_of(line[first[~is_varied]]))
    for begin, number in zip(
        first[is_followed].tolist(), length[is_followed].tolist(), strict=True
    ):
        lines = line[begin : begin + number]
        own = int((lines != lines[0]).argmax())
        is_over = number - own > 1 and not (lines[own:] == lines[0]).any()
        begins[begin + own] = is_over and function[begin + own] != function[begin]
    return begins
