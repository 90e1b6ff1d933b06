"""The passes of a track in which nothing is trained, by line and data set: their batches and their items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..store.call_sites import SourceLine
from ..store.spans import is_loaders, unpack
from .arrays import merged, owners
from .columns import SECOND, Flags, Ints
from .items import contradicts, fits
from .traces import Thread

DATA = 4
"""Data sets that are kept apart where passes over them begin at one line: a loader made anew is none."""
FEW, SLOW, WORTH = 4, 10, 0.1
"""Calls, times the usual one, and part of all, from which on an evaluation's first call is its warm-up."""


class PlacePasses(NamedTuple):
    """The passes that begin at one line over one data set, on one track."""

    place: SourceLine | None
    data: int | None
    which: Ints
    """Their numbers among the track's."""
    inside: Flags
    """The rows of the track that lie in them."""
    fetches: Ints
    calls: Ints
    """Rows: fetches of loaders, calls of models."""
    items: float | None
    """None where they are not known, or two sources contradict each other."""
    batches: int
    warmup: float
    """Seconds of a first call that compiles; 0 where none does."""


def passes_by_place(thread: Thread) -> list[PlacePasses]:
    """One for each line that passes begin at, and for each data set there, unless these are many."""
    if not len(thread.predicted):
        return []
    sites, passes = thread.track.sites, thread.predicted.site.tolist()
    data: dict[SourceLine | None, list[int | None]] = {}
    for number in dict.fromkeys(passes):
        mine = data.setdefault(sites[number].place, [])
        if sites[number].object_id not in mine:
            mine.append(sites[number].object_id)
    found: dict[tuple[SourceLine | None, int | None], list[int]] = {}
    for number, site in enumerate(passes):
        place, several = sites[site].place, data[sites[site].place]
        apart = 1 < len(several) <= DATA and sites[site].region in ("io", "step")
        which = several.index(sites[site].object_id) + 1 if apart else None
        found.setdefault((place, which), []).append(number)
    return [_place_passes(thread, *key, np.array(each)) for key, each in found.items()]


def _place_passes(
    thread: Thread, place: SourceLine | None, data: int | None, which: Ints
) -> PlacePasses:
    track, marks, passes = thread.track, thread.marks, thread.predicted
    inside = owners(passes.start[which], passes.end[which], track.start) >= 0
    loaders = track.flags(lambda site: is_loaders(site.object_id, site.selector))
    fetches = marks.fetches[(inside & loaders)[marks.fetches]]
    calls = marks.forward[inside[marks.forward]]
    items, batches = _items(thread, calls, fetches)
    warmup = _compiling(track.end[calls] - track.start[calls])
    batches = len(fetches) or batches
    return PlacePasses(place, data, which, inside, fetches, calls, items, batches, warmup)


def _compiling(length: Ints) -> float:
    """Seconds of the first call of a model where that was far longer than usual; 0 where it was not."""
    if len(length) < FEW or length[0] < SLOW * np.median(length):
        return 0.0
    return float(length[0]) / SECOND if length[0] > length.sum() * WORTH else 0.0


def _items(thread: Thread, rows: Ints, fetches: Ints) -> tuple[float | None, int]:
    """What was drawn for the calls ``rows``, else the items of the model that saw most, one call a fetch;
    and how often that one was called. As for steps, None where two sources contradict each other.
    """
    track, losses = thread.track, rows
    rows = thread.marks.of_models(rows)
    losses = losses[~np.isin(losses, rows)]
    items = unpack(track.payload[rows])[0]
    model = track.table(lambda site: -1 if site.object_id is None else site.object_id, rows)
    # One of a loader that is a batch ahead comes after it ran dry.
    begun = merged(thread.marks.fetches, thread.marks.ends)
    batch = np.searchsorted(begun, rows)
    best, calls, until, before = 0, 0, -1, list[tuple[int, int]]()
    for each in dict.fromkeys(model.tolist()):  # in the order of their first calls
        mine = model == each
        seen = np.flatnonzero(mine)
        if seen[0] > until >= 0:  # it replaces those before it: a checkpoint, loaded for the test
            before.append((best, calls))
            best = calls = 0
        until = max(until, int(seen[-1]))
        one = batch[mine]
        first = np.concatenate(([True], one[1:] != one[:-1])) if len(fetches) else np.True_
        found = int((items[mine] * first).sum())
        whole = bool((items[mine] > 0).all())  # else it is known of some of its batches only
        if whole and not _is_contradicted(track.payload, rows[mine], losses):
            best = max(best, found)
        calls = max(calls, int(mine.sum()))
    before.append((best, calls))
    calls = sum(number for _, number in before)
    best = sum(found for found, _ in before) if all(found for found, _ in before) else 0
    drawn = unpack(track.payload[fetches])[0]
    if len(drawn) and drawn.all():
        loader = track.table(lambda site: -1 if site.object_id is None else site.object_id, fetches)
        used = np.isin(fetches, begun[batch[batch > 0] - 1])
        ahead = np.isin(thread.marks.ends, begun[batch[batch > 0] - 1]).any()
        leading = (used | ahead) & (loader == loader[0])
        if best not in (int(drawn[leading].sum()), int(drawn.sum())):
            one_by_one = best > 0 and drawn[leading].max(initial=0) == 1
            best = 0 if one_by_one else int(drawn[leading].sum())
    return float(best) if best else None, calls


def _is_contradicted(payload: Ints, calls: Ints, losses: Ints) -> bool:
    """Whether the losses after the ``calls`` of a model say another number of items."""
    after = np.searchsorted(losses, calls)
    known = after < len(losses)
    model, loss = unpack(payload[calls[known]])[0], unpack(payload[losses[after[known]]])[0]
    both = (model > 0) & (loss > 0)
    model, loss = model[both], loss[both]
    return not fits(model, loss) and contradicts(model, loss)
