"""Evaluations of a track: passes over data in which nothing is trained.

What is certainly evaluation comes in parts (:class:`.PassParts`): a span that a voirfile or library marks, an
iteration of a loader in which a model only predicts, a single call of such a model. Parts between which
nothing is trained are one pass::

    train  train  | io predict | io predict | io predict | io.end   train  train
                  `--- part ---'--- part ---'--- part ---'
                  `---------------- one pass -----------'

Neither a model that predicts in most steps (a teacher, a target network) nor an agent that plays its
environment evaluates anything.
"""

from __future__ import annotations

import numpy as np

from ..store.spans import unpack
from ..value_class import replace, state_class
from .arrays import (
    ExcludedIntervals,
    among,
    counts,
    distinct,
    kinds_of,
    merged,
    next_moment,
    owners,
    places,
    taken,
)
from .columns import Flags, Ints
from .iterations import LoaderIterations
from .landmarks import Landmarks
from .pass_parts import MOST_PASSES, PassParts, ends_of_calls, parts_of_passes
from .steps import TrackSteps
from .tracks import object_number


@state_class
class Passes:
    """Evaluations in order of time, as columns. They do not overlap."""

    start: Ints
    end: Ints
    site: Ints
    """The call site that stands for each: of a loader's fetch, of a marked span, or of a model's call."""

    def __len__(self) -> int:
        return len(self.start)

    def excluded(self) -> ExcludedIntervals:
        return ExcludedIntervals(self.start, self.end)


def no_passes() -> Passes:
    none = np.empty(0, np.int64)
    return Passes(none, none, none)


def passes_of(marks: Landmarks, iterations: LoaderIterations, steps: TrackSteps) -> Passes:
    """The evaluations of a track. ``iterations`` and ``steps`` are its training, as far as that is known."""
    parts = parts_of_passes(marks, iterations, steps)
    training = _training_moments(marks, iterations)
    passes = _joined(_without_later_calls(marks, parts, training), training)
    return taken(passes, ~_played(marks, iterations, passes, training))


def _training_moments(marks: Landmarks, iterations: LoaderIterations) -> Ints:
    """The sorted moments at which something is trained: each ends a pass."""
    track = marks.track
    rows = np.concatenate((marks.updates, marks.learning(), marks.steps))
    # Fetches that pace training count too: a pass ends with the next batch to train with.
    pacing = track.start[iterations.pacing]
    # A loop that trains and evaluates by turns: its fetches for evaluation do not train.
    for start, end in iterations.evaluating:
        pacing = pacing[owners(start, end, pacing) < 0]
    return merged(track.start[rows], pacing)


def _played(
    marks: Landmarks, iterations: LoaderIterations, passes: Passes, training: Ints
) -> Flags:
    """Which of ``passes`` are an agent's iterations in its environment, and no evaluation.

    Such a model is called without a loader, on what a few environments show, and before it is trained for the
    first time; or the environment is stepped before, at random, by the same line; or it is a new model, after
    which another optimizer begins. It learns from what it has seen there, in larger batches. A model that
    does so each time that it has been evaluated, before it is trained again (at the moments ``training``),
    shows what it can do. So does one that sees as many items before all training as after it.
    """
    track = marks.track
    is_played = np.zeros(len(passes), np.bool_)
    if not (len(iterations.free) and len(passes) and len(marks.may_train)):
        return is_played
    trained_items, _ = unpack(track.payload[marks.may_train])
    trained_items = trained_items[trained_items > 0]  # a loss, or a distribution, may say nothing
    if not len(trained_items):
        return is_played
    usual_items = np.median(trained_items)
    moments = track.start[iterations.free]
    calls = track.start[marks.predicting]
    all_env = env = track.region("env")
    env = env[np.isin(track.site[env], track.site[env[track.start[env] < moments[0]]])]
    in_env = counts(track.start[env], passes.start, passes.end) > 0
    for site in distinct(passes.site).tolist():
        if track.sites[site].region != "forward":
            continue
        of_site = np.flatnonzero(passes.site == site)
        is_first = passes.start[of_site[0]] <= moments[0] or in_env[of_site].mean() > 0.5
        steps_env = counts(track.start[all_env], passes.start[of_site], passes.end[of_site]) > 0
        if not steps_env.any() and (
            _compare(marks, passes, of_site, moments) or marks.evaluates_by_parts(track.sites[site])
        ):
            continue
        if not is_first and not (steps_env.all() and _is_new_agent(marks, iterations.free, site)):
            continue
        first, last = np.searchsorted(calls, (passes.start[of_site], passes.end[of_site]))
        rows = np.concatenate([marks.predicting[a:b] for a, b in zip(first, last, strict=True)])
        items, _ = unpack(track.payload[rows])
        own = items[track.site[rows] == site]
        # Without them, the environment shows that it is an agent: its batches may be of a class of their own.
        plays_unknown = steps_env.all() and not own.any()
        # What follows may generate, one item at a time.
        items = own[own > 0] if own.any() else items[items > 0]
        if plays_unknown or (len(items) and np.median(items) < usual_items):
            is_after = passes.start[of_site] >= moments[-1]
            is_played[of_site] = ~is_after | _goes_on(marks, taken(passes, of_site), is_after)
    return is_played & ~_shown(passes, training, is_played)


def _shown(passes: Passes, training: Ints, is_played: Flags) -> Flags:
    """Which of ``passes`` are at sites whose passes always follow one that is not ``is_played``.

    They follow it without training in between.
    """
    segment = places(training, passes.start)
    last = np.maximum.accumulate(np.where(is_played, -1, np.arange(len(passes))))
    follows = (last >= 0) & (segment[last] == segment)
    shown = np.zeros(len(passes), np.bool_)
    for site in distinct(passes.site[is_played]).tolist():
        of_site = passes.site == site
        shown |= of_site & follows[of_site].all()
    return shown


def _goes_on(marks: Landmarks, passes: Passes, is_after: Flags) -> Flags:
    """Which of ``passes`` of an agent that come after all updates are what it plays without learning from it.

    The turns of its loop need not end with an update. In those after it, it steps the environments that it
    stepped before, at the same lines, and no more often than between two updates.
    """
    track = marks.track
    env = track.region("env")
    pass_of = owners(passes.start, passes.end, track.start[env])
    env, pass_of = env[pass_of >= 0], pass_of[pass_of >= 0]
    calls = np.bincount(pass_of, minlength=len(passes))
    is_new = ~np.isin(track.site[env], track.site[env[~is_after[pass_of]]])
    elsewhere = np.bincount(pass_of, is_new, len(passes)) > 0
    goes_on: Flags = (calls > 0) & ~elsewhere & (calls <= calls[~is_after].max(initial=0))
    return is_after & goes_on


def _compare(marks: Landmarks, passes: Passes, which: Ints, updates: Ints) -> bool:
    """Whether ``which`` of ``passes`` compare a model before all ``updates`` with what they made of it."""
    track, predicting = marks.track, marks.predicting
    start, end = passes.start[which], passes.end[which]
    is_before, is_after = start < updates[0], start > updates[-1]
    pass_of = owners(start, end, track.start[predicting])
    items, _ = unpack(track.payload[predicting])
    seen = np.bincount(pass_of[pass_of >= 0], items[pass_of >= 0], len(which))
    return bool(is_after.any() and (is_before | is_after).all() and (seen == seen[0]).all())


def _is_new_agent(marks: Landmarks, updates: Ints, site: int) -> bool:
    """Whether the model of ``site`` is called there first, before the first of ``updates`` at their site."""
    track = marks.track
    model = object_number(track.sites[site])
    call = marks.forward[track.table(object_number, marks.forward) == model][0]
    following = int(np.searchsorted(track.start[updates], track.start[call]))
    is_first = following < len(updates) and not np.isin(
        track.site[updates[following]], track.site[updates[:following]]
    )
    return int(track.site[call]) == site and bool(is_first)


def _without_later_calls(marks: Landmarks, parts: PassParts, training: Ints) -> PassParts:
    """``parts``, of which those of a loader that did not run dry end before calls that need no batch of it.

    What was validated on one batch may then generate: at lines that come without a batch as well, or after
    few batches of that loader only, or always once a checkpoint was saved since the batch, and never before
    another batch of the same pass.
    """
    loaders, calls = np.flatnonzero(parts.rank == 1), np.flatnonzero(parts.rank == 2)
    part = owners(parts.start[loaders], parts.end[loaders], parts.start[calls])
    alone = kinds_of(parts.site[calls[part < 0]])
    calls, part = calls[part >= 0], part[part >= 0]
    segment = places(training, parts.start[loaders])
    is_final = np.append(segment[1:] != segment[:-1], True)[: len(loaders)] & ~parts.last[loaders]
    later = []
    saves = marks.track.start[marks.track.region("checkpoint")]
    is_saved = counts(saves, parts.start[loaders[part]], parts.start[calls]) > 0
    for site in kinds_of(parts.site[calls]):
        of_site = parts.site[calls] == site
        its_parts = distinct(part[of_site])
        batches = parts.site[loaders] == parts.site[loaders[its_parts[0]]]
        if is_final[its_parts].all() and (
            site in alone or is_saved[of_site].all() or 2 * len(its_parts) < batches.sum()
        ):
            later.append(site)
    is_later = among(parts.site[calls], later)
    last_own = np.full(len(loaders), len(parts.start))
    last_own[part[~is_later]] = calls[~is_later]  # the last of each part stays
    comes_last = is_later & (calls > last_own[part])
    cut, first = np.unique(part[comes_last], return_index=True)
    if not len(cut):
        return parts
    end, begins = parts.end.copy(), parts.begins.copy()
    begin = calls[comes_last][first]
    end[loaders[cut]] = ends_of_calls(marks, marks.forward, parts.start[begin])
    begins[begin] = True
    return replace(parts, end=end, begins=begins)


def _joined(parts: PassParts, training: Ints) -> Passes:
    """The passes that ``parts`` make: parts between which nothing is trained are one pass."""
    n = len(parts.start)
    if not n:
        return Passes(parts.start, parts.end, parts.site)
    latest = np.maximum.accumulate(parts.end)
    trained_before = places(training, parts.start)
    # A part that begins inside of the pass so far belongs to it, whatever is trained there.
    overlaps = parts.start[1:] < latest[:-1]
    changed, spanned = _loader_changes(parts, trained_before)
    ends_here = _is_over_after(parts, latest)[:-1] | parts.begins[1:]
    is_over = changed[1:] | (ends_here & ~spanned[1:])
    begins_anew = (trained_before[1:] != trained_before[:-1]) | is_over
    is_first = np.concatenate(([True], begins_anew & ~overlaps))
    first = np.flatnonzero(is_first)
    pass_of = np.cumsum(is_first) - 1
    end = np.maximum.reduceat(parts.end, first)
    # For each pass its part of the smallest rank, the earliest of these.
    by_rank = np.lexsort((np.arange(n), parts.rank, pass_of))
    naming = by_rank[np.searchsorted(pass_of[by_rank], np.arange(len(first)))]
    start = parts.start[first]
    # A pass ends at the latest where the next one begins.
    end[:-1] = np.minimum(end[:-1], start[1:])
    # A pass ends where training goes on, even inside of its last part; but a marked span holds as it is.
    if len(training):
        last = np.append(first[1:] - 1, n - 1)
        limit = next_moment(training, parts.start[last], "right")
        is_marked = parts.rank[naming] == 0
        end = np.where(is_marked, end, np.maximum(np.minimum(end, limit), start))
    return Passes(start, end, parts.site[naming])


def _is_over_after(parts: PassParts, latest: Ints) -> Flags:
    """Whether, after each part, the pass it belongs to is known to be over."""
    # Several parts may end at that moment: the call with the last batch is one, with its loader's another.
    is_last = parts.last & (parts.end == latest)
    last_part = np.maximum.accumulate(np.where(is_last, np.arange(len(latest)), -1))
    is_over: Flags = (last_part >= 0) & (latest[last_part] == latest)
    return is_over


def _loader_changes(parts: PassParts, segment: Ints) -> tuple[Flags, Flags]:
    """For each part, whether a loader begins anew with it, and whether it lies between batches of another.

    ``segment`` numbers what lies between two moments of training, for each part: batches of two segments have
    nothing between them.

    Several loaders may be read side by side, or one inside another.
    """
    n = len(parts.start)
    changed, spanned = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    rows = np.flatnonzero(parts.loader >= 0)
    if not len(rows):
        return changed, spanned
    loader = parts.loader[rows]
    distinct_passes, pass_of = np.unique(loader, return_inverse=True)
    together = np.unique(pass_of * (segment[-1] + 1) + segment[rows], return_inverse=True)[1]
    last_row = np.zeros(n, np.int64)
    last_row[together] = rows  # the last row of each stays
    last_part = np.zeros(n, np.int64)
    last_part[rows] = last_row[together]
    spanned[1:] = np.maximum.accumulate(last_part)[:-1] >= np.arange(1, n)
    name = loader // MOST_PASSES
    # A loader that is begun anew for each batch, by next(iter(loader)), goes on.
    single_batches = np.bincount(name, minlength=name.max() + 1) < 2 * np.bincount(
        distinct_passes // MOST_PASSES
    )
    begins_anew = (loader[1:] != loader[:-1]) & (
        (name[1:] != name[:-1]) | ~single_batches[name[1:]]
    )
    changed[rows[0]] = True
    changed[rows[1:]] = begins_anew & ~spanned[rows[1:]]
    return changed, spanned
