"""Where steps begin that are paced by updates of optimizers: usually where the one before ended, but after an
evaluation or another loop with their own first work.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..value_class import replace
from .arrays import (
    ExcludedIntervals,
    counts,
    differing,
    kinds_of,
    median_of,
    merged,
    next_moment,
    owners,
    places,
)
from .columns import Flags, Ints
from .landmarks import Landmarks
from .steps import TrackSteps
from .tracks import Track, numbers_of

_NEARLY = 0.75
"""Fraction of the steps with equally many backwards from which on all are meant to have so many."""
_RESETS = 4
"""How many calls of ``zero_grad`` a step may begin with: of its optimizers, or of its models."""
PAUSE = 5.0
"""Median lengths of a step that a lead before the step's own work may last and still belong to the step."""


def bounded(
    marks: Landmarks, steps: TrackSteps, others: TrackSteps, excluded: ExcludedIntervals
) -> TrackSteps:
    """``steps``, begun where their own work begins if something else lies before that.

    Something else lies there for the first step of a loop, after one of the ``others``, after an evaluation
    (``excluded``), and where the lead before the step's own work is long and holds more than twice the usual
    number of calls: an agent plays its environment. An iteration that is only slow stays a slow step, as does
    one in which an agent acts a few times, as it does in each.
    """
    if not len(steps):
        return steps
    track = marks.track
    previous = np.concatenate(([np.iinfo(np.int64).min], steps.end[:-1]))
    begins_anew = differing(steps.pace)
    if len(others):
        last = places(others.start, steps.end) - 1
        limit = np.where(last >= 0, others.end[last], previous)
        begins_anew |= limit > previous
        previous = np.maximum(previous, limit)
    # Where a step begins anew, its work is looked for from the end of whatever came before.
    start = np.maximum(steps.start, previous)
    learnt = marks.predicting[marks.learnt_from(steps.start, steps.end)]
    since = np.where(begins_anew, previous, start)
    since = _after_other_training(marks, steps, begins_anew, since)
    training = marks.training
    work = _work(marks, training, learnt, since, steps.end, excluded)
    # What lies between an evaluation and the work of the next step belongs to neither.
    begins_anew |= excluded.within(start, work) > 0
    acts = marks.only_act(training)
    own = work
    # An agent in training mode may play for long, as in a test of what it has learnt.
    if acts.any():
        own = _work(marks, training[~acts], learnt, since, steps.end, excluded)
        work = _after_play(steps, track.start[training[acts]], start, begins_anew, work, own)
    begins = _with_predictions(marks, steps, begins_anew, start, since, work, excluded)
    start = np.where(begins_anew, begins, start)
    led = _led_by_other_work(track, steps, begins_anew, start, own, excluded)
    start[led] = own[led]
    # Work that was not recognised must not leave a step without its own update.
    return replace(steps, start=np.minimum(start, closing_updates(track, marks, steps)))


def _after_play(
    steps: TrackSteps, played: Ints, start: Ints, begins_anew: Flags, work: Ints, own: Ints
) -> Ints:
    """``work``, later where a step that begins anew follows much that an agent ``played``.

    It has as many of these calls before its ``own`` work as the others have.
    """
    later: Ints = work.copy()
    for usual, anew in _by_pace(steps, begins_anew, least=1):
        times = int(median_of(counts(played, start[usual], own[usual])))
        which = anew[counts(played, work[anew], own[anew]) > 2 * times]
        later[which] = played[places(played, own[which]) - times] if times else own[which]
    return later


def _by_pace(steps: TrackSteps, begins_anew: Flags, least: int = 3) -> Iterator[tuple[Ints, Ints]]:
    """Of each loop the steps that begin where the one before ended, and those that begin anew.

    Loops with fewer than ``least`` of the former are left out: these do not say what is usual.
    """
    for number in range(len(steps.paces)):
        of_pace = steps.pace == number
        usual = np.flatnonzero(of_pace & ~begins_anew)
        if len(usual) >= least:
            yield usual, np.flatnonzero(of_pace & begins_anew)


def _after_other_training(
    marks: Landmarks, steps: TrackSteps, begins_anew: Flags, since: Ints
) -> Ints:
    """From when on the own work of each step may begin, at ``since`` or later.

    Before a loop another one may have moved weights by hand, which nothing shows but its backwards: a step
    that begins anew has as many as the others, and what comes before these is no part of it. So may copies
    of the model be fitted now and then, to test it, where nearly all steps have equally many.
    """
    backward = marks.backward
    later: Ints = since.copy()
    if not len(backward):
        return later
    begun = marks.track.start[backward]
    number = counts(begun, since, steps.end)
    for rows, anew in _by_pace(steps, begins_anew):
        usual = number[rows]
        middle = int(median_of(usual))  # 0 where the model's own call trains it
        are_alike = bool(np.mean(usual == middle) >= _NEARLY)
        if not (are_alike or usual.min()):
            continue
        own = middle if are_alike else int(usual.max())
        which = np.concatenate((anew, rows)) if are_alike else anew
        which = which[number[which] > 2 * own]
        last = places(begun, steps.end[which]) - own - 1
        later[which] = marks.track.end[backward[last]]
    return later


def _with_predictions(
    marks: Landmarks,
    steps: TrackSteps,
    begins_anew: Flags,
    start: Ints,
    since: Ints,
    work: Ints,
    excluded: ExcludedIntervals,
) -> Ints:
    """Where steps begin whose own ``work`` follows calls without gradients, as many as usual in the others.

    Such are those of a teacher, and those of an equation's solver, of which only an adjoint has gradients.
    """
    track, rows = marks.track, marks.predicting
    rows = rows[~excluded.hold(track.start[rows])]
    begins: Ints = work.copy()
    names = numbers_of(site.place for site in track.sites.values())
    # By line: what a solver calls is made anew each time.
    place = track.table(lambda site: names[site.place], rows)
    for usual, anew in _by_pace(steps, begins_anew):
        for number in kinds_of(place):
            called = track.start[rows[place == number]]
            times = int(median_of(counts(called, start[usual], work[usual])))
            first = places(called, work[anew]) - times
            is_led = (first >= 0) & (times > 0)
            led, first = anew[is_led], called[first[is_led]]
            begins[led] = np.where(first >= since[led], np.minimum(begins[led], first), begins[led])
    return _with_resets(track, since, begins)


def _led_by_other_work(
    track: Track,
    steps: TrackSteps,
    begins_anew: Flags,
    start: Ints,
    work: Ints,
    excluded: ExcludedIntervals,
) -> Ints:
    """The steps whose lead, from ``start`` to their own ``work``, is long and holds many calls.

    Those that hold as many calls as such a lead are alike, though they were a little faster.
    """
    led = [steps.pace[:0]]
    for usual, _ in _by_pace(steps, begins_anew):
        begin, end, until = start[usual], steps.end[usual], work[usual]
        length = end - begin - excluded.within(begin, end)
        is_long = until - begin - excluded.within(begin, until) > PAUSE * median_of(length)
        calls = counts(track.start, begin, until)
        is_led = is_long & (calls > 2 * median_of(calls))
        if is_led.any():
            led.append(usual[calls >= calls[is_led].min()])
    return np.concatenate(led)


def _with_resets(track: Track, since: Ints, begins: Ints) -> Ints:
    """Where work that ``begins`` there does so with the calls of ``zero_grad`` that come directly before it.

    A step that follows an evaluation may reset the gradients first. After something else that was recorded, a
    reset may be the last word of the step before.
    """
    resets = track.start[track.region("zero_grad")]
    for _ in range(_RESETS if len(resets) else 0):
        last = resets[np.maximum(places(resets, begins) - 1, 0)]
        is_next = (last >= since) & (last < begins) & (counts(track.start, last, begins) == 1)
        if not is_next.any():
            break
        begins = np.where(is_next, last, begins)
    return begins


def closing_updates(track: Track, marks: Landmarks, steps: TrackSteps) -> Ints:
    """When the update that ends each step began: a step begins no later than that."""
    rows = marks.updates
    begun: Ints = track.start[rows[places(track.end[rows], steps.end)]]
    return begun


def _work(
    marks: Landmarks,
    training: Ints,
    learnt: Ints,
    since: Ints,
    until: Ints,
    excluded: ExcludedIntervals,
) -> Ints:
    """Where in each interval from ``since`` to ``until`` the training's own work begins; ``until`` if
    nowhere. ``training`` are forwards in training mode, ``learnt`` those in evaluation mode that are trained.

    That is the first fetch, transfer, forward, backward or update. If no model is known to be in training
    mode there, calls that only act (an agent's) look like those that train: the work then begins with a call
    that is about as far from the first backward as usual.
    """
    track = marks.track
    are_known = bool(counts(track.start[training], since, until).any())
    forwards = training if are_known else marks.may_train
    transfers, traces = track.region("h2d"), track.region("trace")
    # While JAX traces a function it copies constants to the device, for weights that are made too.
    transfers = transfers[
        owners(track.start[traces], track.end[traces], track.start[transfers]) < 0
    ]
    other_work = merged(transfers, track.region("gradients"))
    rows = merged(forwards, learnt, marks.backward, marks.updates, marks.fetches, other_work)
    start = track.start[rows]
    start = start[~excluded.hold(start)]
    begins = _with_resets(track, since, np.minimum(next_moment(start, since), until))
    if not len(start) or not len(marks.backward) or are_known:
        return begins
    backward_begins = np.minimum(next_moment(track.start[marks.backward], since), until)
    usual_distance = median_of(backward_begins - begins)
    # Twice the usual distance allows for slow forwards. Beyond four times, with twice as many calls, it is
    # taken for acting; with as many as usual, the step is slow.
    nearest = next_moment(start, backward_begins - np.int64(2 * usual_distance) - 1)
    calls = counts(track.start, begins, backward_begins)
    too_early = (backward_begins - begins > 4 * usual_distance) & (calls > 2 * median_of(calls))
    begins[too_early] = np.clip(nearest, begins, backward_begins)[too_early]
    return begins
