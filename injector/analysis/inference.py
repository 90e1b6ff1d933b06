"""The steps of a run that trains nothing: each batch that models predict is one."""

from __future__ import annotations

import numpy as np

from ..store.call_sites import EVALUATING, INFERENCE
from ..store.spans import is_loaders
from .arrays import numbered_kinds, owners
from .columns import Ints
from .evaluation import Passes
from .steps import StepPacing, TrackSteps, joined, no_steps, pace_of
from .tracks import Landmarks

CALL = "call"
"""What paces the steps of models that are called without a loader."""


def steps_of_inference(marks: Landmarks, passes: Passes, explicit: TrackSteps) -> TrackSteps:
    """Of ``marks``, of which nothing is training any more, and its ``passes`` over data.

    A step is one that a voirfile marks, if it marks any. Else it begins with a fetch of the loader that
    a pass begins with, and ends with the next one, or where the loader has run dry; batches that no model is
    called with belong to the next step. Without a loader it ends with the call of a model, and begins where
    the last one ended.
    """
    if len(explicit):
        explicit.paces = [each._replace(task=_task(each.task)) for each in explicit.paces]
        return explicit
    track = marks.track
    loaders = track.flags(lambda site: is_loaders(site.object_id, site.selector))
    fetches = marks.fetches[loaders[marks.fetches]]
    of = owners(passes.start, passes.end, track.start[fetches])
    fetches, of = fetches[of >= 0], of[of >= 0]
    fed = np.zeros(len(passes), np.bool_)
    fed[of] = True
    calls = marks.learnt
    owner = owners(passes.start, passes.end, track.start[calls])
    by_loader = owner >= 0
    by_loader[by_loader] = fed[owner[by_loader]]
    return joined(
        [
            _of_batches(marks, passes, fetches, of, calls[by_loader], owner[by_loader]),
            _of_calls(marks, calls[~by_loader]),
        ]
    )


def _of_batches(
    marks: Landmarks, passes: Passes, fetches: Ints, of: Ints, calls: Ints, owner: Ints
) -> TrackSteps:
    """``of`` and ``owner``: in which pass each fetch and each call is."""
    if not len(calls):
        return no_steps()
    track = marks.track
    loader = track.table(lambda site: -1 if site.object_id is None else site.object_id)
    first = np.full(len(passes), -1, np.int64)
    first[of[::-1]] = fetches[::-1]  # in order: the first one stays
    leading = loader[fetches] == loader[first[of]]
    rows, inside = fetches[leading], of[leading]
    begin = _with_start(marks, passes, rows, inside)
    ends = marks.ends
    ended = owners(passes.start, passes.end, track.start[ends])
    mine = (ended >= 0) & (loader[ends] == loader[first[ended]])
    # Where each piece begins: of a fetch, or where the loader has run dry.
    edges = np.concatenate((begin, track.start[ends[mine]]))
    row = np.concatenate((rows, np.full(int(mine.sum()), -1, np.int64)))
    which = np.concatenate((inside, ended[mine]))
    order = np.argsort(edges, kind="stable")
    edges, row, which = edges[order], row[order], which[order]
    last = np.concatenate((which[1:] != which[:-1], [True]))
    until = np.where(last, passes.end[which], np.concatenate((edges[1:], edges[:1])))
    piece = np.searchsorted(edges, track.start[calls], side="right") - 1
    used = np.zeros(len(edges), np.bool_)
    used[piece[(piece >= 0) & (which[piece] == owner)]] = True
    closing = np.flatnonzero(used)
    # Pieces without a call belong to the next one with a call, within their pass.
    since = np.concatenate(([-1], closing[:-1]))
    opening = np.maximum(since + 1, np.searchsorted(which, which[closing]))
    drew = np.concatenate(([0], np.cumsum(row >= 0)))
    number = drew[closing + 1] - drew[opening]
    pacing = np.maximum.accumulate(np.where(row >= 0, np.arange(len(row)), 0))[closing]
    sites, pace = numbered_kinds(track.site[row[pacing]])
    paces = [_named(pace_of(track.sites[site], "loader")) for site in sites]
    none = np.zeros(len(closing), np.int64)
    return TrackSteps(edges[opening], until[closing], pace, number, none, paces)


def _with_start(marks: Landmarks, passes: Passes, rows: Ints, inside: Ints) -> Ints:
    """Where each fetch begins: the first after a start of the loader's iterator, with that."""
    begin: Ints = marks.track.start[rows].copy()
    starts = marks.track.start[marks.starts]
    if not len(starts) or not len(rows):
        return begin
    at = np.searchsorted(starts, begin, side="right") - 1
    made = starts[np.maximum(at, 0)]
    before = np.concatenate(([np.iinfo(np.int64).min], begin[:-1]))
    fresh = (at >= 0) & (made > before) & (made >= passes.start[inside])
    return np.where(fresh, made, begin)


def _of_calls(marks: Landmarks, rows: Ints) -> TrackSteps:
    """Of models that no loader feeds; of several that are called by turns, that which takes longest."""
    track = marks.track
    if not len(rows):
        return no_steps()
    model = track.table(lambda site: -1 if site.object_id is None else site.object_id, rows)
    every, number = np.unique(model, return_inverse=True)
    length = track.end[rows] - track.start[rows]
    longest = number == np.bincount(number, length, len(every)).argmax()
    mine = rows[longest]
    # What is called by itself before or after that one is a loop of its own.
    rows = rows[longest | (rows < mine[0]) | (rows > mine[-1])]
    sites, pace = numbered_kinds(track.site[rows])
    paces = [_named(pace_of(track.sites[site], CALL)) for site in sites]
    end = track.end[rows]
    start = track.start[rows].copy()
    same = np.concatenate(([False], pace[1:] == pace[:-1]))
    start[same] = end[:-1][same[1:]]
    none = np.zeros(len(rows), np.int64)
    return TrackSteps(start, end, pace, none, none.copy(), paces)


def _named(pace: StepPacing) -> StepPacing:
    return pace._replace(task=_task(pace.task))


def _task(task: str) -> str:
    """That of inference, unless a voirfile gave the loop one of its own."""
    return INFERENCE if task == "train" or task.lower() in EVALUATING else task
