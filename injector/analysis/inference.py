"""The steps of a run that trains nothing: each batch that models predict is one.

With a loader, a step goes from fetch to fetch; without one, from the end of a call to the end of the next::

    io forward | io forward | io io forward | io.end         forward ...... forward ...... forward
    `- step 0 -' `- step 1 -' `-- step 2 ---'                `step 0'-- step 1 ---'-- step 2 ---'
"""

from __future__ import annotations

import numpy as np

from ..store.call_sites import EVALUATING, INFERENCE
from ..store.spans import is_loaders
from .arrays import differing, numbered_kinds, owners
from .columns import Ints
from .evaluation import Passes
from .landmarks import Landmarks
from .loaders import with_start
from .steps import StepPacing, TrackSteps, joined, no_steps, pace_of
from .tracks import object_number

CALL = "call"
"""The pacing of steps that are calls of a model, without a loader."""


def steps_of_inference(marks: Landmarks, passes: Passes, explicit: TrackSteps) -> TrackSteps:
    """The steps of a track on which nothing is trained, out of its ``passes`` over data.

    If a voirfile marks steps, these are they. Else a step begins with a fetch of the loader that its pass
    began with, and ends with the next fetch, or where the loader has run dry. Batches that no model is called
    with belong to the next step. Without a loader, a step ends with the call of a model, and begins where the
    call before ended.
    """
    if len(explicit):
        explicit.paces = [pacing._replace(task=_task(pacing.task)) for pacing in explicit.paces]
        return explicit
    track = marks.track
    loaders = track.flags(lambda site: is_loaders(site.object_id, site.selector))
    fetches = marks.fetches[loaders[marks.fetches]]
    pass_of_fetch = owners(passes.start, passes.end, track.start[fetches])
    fetches, pass_of_fetch = fetches[pass_of_fetch >= 0], pass_of_fetch[pass_of_fetch >= 0]
    has_loader = np.zeros(len(passes), np.bool_)
    has_loader[pass_of_fetch] = True
    calls = marks.may_train
    pass_of_call = owners(passes.start, passes.end, track.start[calls])
    by_loader = pass_of_call >= 0
    by_loader[by_loader] = has_loader[pass_of_call[by_loader]]
    return joined(
        [
            _batch_steps(
                marks, passes, fetches, pass_of_fetch, calls[by_loader], pass_of_call[by_loader]
            ),
            _call_steps(marks, calls[~by_loader]),
        ]
    )


def _batch_steps(
    marks: Landmarks,
    passes: Passes,
    fetches: Ints,
    pass_of_fetch: Ints,
    calls: Ints,
    pass_of_call: Ints,
) -> TrackSteps:
    """Steps of passes that a loader feeds.

    ``pass_of_fetch`` and ``pass_of_call`` are indices of ``passes``.
    """
    if not len(calls):
        return no_steps()
    track = marks.track
    edges, fetch_row, pass_of_edge = _batch_edges(marks, passes, fetches, pass_of_fetch)
    last = np.append(differing(pass_of_edge)[1:], True)
    until = np.where(last, passes.end[pass_of_edge], np.concatenate((edges[1:], edges[:1])))
    piece_of_call = np.searchsorted(edges, track.start[calls], side="right") - 1
    has_call = np.zeros(len(edges), np.bool_)
    in_piece = (piece_of_call >= 0) & (pass_of_edge[piece_of_call] == pass_of_call)
    has_call[piece_of_call[in_piece]] = True
    closing = np.flatnonzero(has_call)
    # Pieces without a call of a model belong to the next piece with one, within their pass.
    since = np.concatenate(([-1], closing[:-1]))
    opening = np.maximum(since + 1, np.searchsorted(pass_of_edge, pass_of_edge[closing]))
    fetched_before = np.concatenate(([0], np.cumsum(fetch_row >= 0)))
    fetched = fetched_before[closing + 1] - fetched_before[opening]
    pacing = np.maximum.accumulate(np.where(fetch_row >= 0, np.arange(len(fetch_row)), 0))[closing]
    sites, pace = numbered_kinds(track.site[fetch_row[pacing]])
    paces = [_as_inference(pace_of(track.sites[site], "loader")) for site in sites]
    none = np.zeros(len(closing), np.int64)
    return TrackSteps(edges[opening], until[closing], pace, fetched, none, paces)


def _batch_edges(
    marks: Landmarks, passes: Passes, fetches: Ints, pass_of_fetch: Ints
) -> tuple[Ints, Ints, Ints]:
    """When the pieces of passes begin, with the row of the fetch, or -1, and the pass of each, in order."""
    track = marks.track
    loader = track.table(object_number)
    first = np.full(len(passes), -1, np.int64)
    first[pass_of_fetch[::-1]] = fetches[::-1]  # backwards: the first of each pass stays
    # Other loaders may be read inside of a pass, but its steps are those of the loader it began with.
    leading = loader[fetches] == loader[first[pass_of_fetch]]
    rows, pass_of_row = fetches[leading], pass_of_fetch[leading]
    begun = track.start[marks.starts]
    begin = with_start(track.start[rows], begun, begun[:0])  # nothing is trained
    begin = np.where(begin >= passes.start[pass_of_row], begin, track.start[rows])
    ends = marks.ends
    pass_of_end = owners(passes.start, passes.end, track.start[ends])
    of_leading = (pass_of_end >= 0) & (loader[ends] == loader[first[pass_of_end]])
    # Pieces of a pass begin with a fetch, or where the loader has run dry (without a fetch: row -1).
    edges = np.concatenate((begin, track.start[ends[of_leading]]))
    fetch_row = np.concatenate((rows, np.full(int(of_leading.sum()), -1, np.int64)))
    pass_of_edge = np.concatenate((pass_of_row, pass_of_end[of_leading]))
    order = np.argsort(edges, kind="stable")
    return edges[order], fetch_row[order], pass_of_edge[order]


def _call_steps(marks: Landmarks, rows: Ints) -> TrackSteps:
    """Steps of models that no loader feeds; if several are called by turns, calls of the slowest."""
    track = marks.track
    if not len(rows):
        return no_steps()
    model = track.table(object_number, rows)
    models, which = np.unique(model, return_inverse=True)
    length = track.end[rows] - track.start[rows]
    is_longest = which == np.bincount(which, length, len(models)).argmax()
    its_rows = rows[is_longest]
    # What is called by itself before or after that one is a loop of its own.
    rows = rows[is_longest | (rows < its_rows[0]) | (rows > its_rows[-1])]
    sites, pace = numbered_kinds(track.site[rows])
    paces = [_as_inference(pace_of(track.sites[site], CALL)) for site in sites]
    end = track.end[rows]
    start = track.start[rows].copy()
    follows_same = np.concatenate(([False], pace[1:] == pace[:-1]))
    # What lies between two calls belongs to the later one, as the preparation of its input.
    start[follows_same] = end[:-1][follows_same[1:]]
    none = np.zeros(len(rows), np.int64)
    return TrackSteps(start, end, pace, none, none.copy(), paces)


def _as_inference(pace: StepPacing) -> StepPacing:
    return pace._replace(task=_task(pace.task))


def _task(task: str) -> str:
    """``inference``, unless a voirfile gave the loop a task of its own."""
    return INFERENCE if task == "train" or task.lower() in EVALUATING else task
