"""The passes of a track in which nothing is trained, by line and data set: their batches and their items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..store.call_sites import SourceLine
from ..store.spans import is_loaders, unpack
from .arrays import counts, differing, merged, owners, places
from .columns import SECOND, Flags, Ints
from .items import contradicts, fits
from .traces import Thread
from .tracks import object_number

DATA = 4
"""Up to this number, data sets that are read at one line are kept apart. More are loaders made anew, and
so are those that are read once each, with training in between."""
FEW, SLOW, WORTH = 4, 10, 0.1
"""An evaluation's first call is its warm-up if there are at least ``FEW`` calls, it takes ``SLOW`` times the
median, and more than the fraction ``WORTH`` of all time."""


class PlacePasses(NamedTuple):
    """The passes over one data set that begin at one line, on one track."""

    place: SourceLine | None
    data: int | None
    """Which data set of those at this line, from 1; None if there is one."""
    which: Ints
    """Their indices among the passes of the track."""
    inside: Flags
    """Which rows of the track lie in them."""
    fetches: Ints
    """Rows of loaders' fetches."""
    calls: Ints
    """Rows of models' calls."""
    items: float | None
    """None if they are not known, or two sources contradict each other."""
    batches: int
    warmup: float
    """Seconds of a first call that compiles; 0 if none does."""


def passes_by_place(thread: Thread) -> list[PlacePasses]:
    """The passes of ``thread`` by the line at which they begin, and by data set unless these are many."""
    if not len(thread.predicted):
        return []
    sites, passes = thread.track.sites, thread.predicted.site.tolist()
    objects_at: dict[SourceLine | None, list[int | None]] = {}
    for number in dict.fromkeys(passes):
        objects = objects_at.setdefault(sites[number].place, [])
        if sites[number].object_id not in objects:
            objects.append(sites[number].object_id)
    numbers_at: dict[SourceLine | None, list[int]] = {}
    for number, site in enumerate(passes):
        numbers_at.setdefault(sites[site].place, []).append(number)
    made_anew = {
        place
        for place, numbers in numbers_at.items()
        if len(numbers) == len(objects_at[place]) and _are_trained_between(thread, numbers)
    }
    groups: dict[tuple[SourceLine | None, int | None], list[int]] = {}
    for number, site in enumerate(passes):
        place, objects_there = sites[site].place, objects_at[sites[site].place]
        is_apart = 1 < len(objects_there) <= DATA and sites[site].region in ("io", "step")
        is_apart &= place not in made_anew
        number_of_data = objects_there.index(sites[site].object_id) + 1 if is_apart else None
        groups.setdefault((place, number_of_data), []).append(number)
    return [_place_passes(thread, *key, np.array(numbers)) for key, numbers in groups.items()]


def _are_trained_between(thread: Thread, numbers: list[int]) -> bool:
    """Whether updates lie between each of these passes and the next one.

    With a loader each, read once, that is one made anew for the data of each epoch.
    """
    updates = places(thread.track.start[thread.marks.updates], thread.predicted.start[numbers])
    return bool((updates[1:] > updates[:-1]).all())


def _place_passes(
    thread: Thread, place: SourceLine | None, data: int | None, which: Ints
) -> PlacePasses:
    track, marks, passes = thread.track, thread.marks, thread.predicted
    inside = owners(passes.start[which], passes.end[which], track.start) >= 0
    loaders = track.flags(lambda site: is_loaders(site.object_id, site.selector))
    fetches = marks.fetches[(inside & loaders)[marks.fetches]]
    calls = marks.forward[inside[marks.forward]]
    # The batch that was fetched last of all is none where no model was called with it.
    end = passes.end[which][owners(passes.start[which], passes.end[which], track.start[fetches])]
    is_used = counts(track.start[calls], track.start[fetches], end) > 0
    fetches = fetches[is_used | (not len(calls))]
    of_models = marks.of_models(calls)
    losses = np.union1d(calls[~np.isin(calls, of_models)], _losses_after(thread, of_models))
    items, batches = _items_and_calls(thread, of_models, losses, fetches)
    total = int((passes.end[which] - passes.start[which]).sum())
    warmup = _compiling(track.end[of_models] - track.start[of_models], total)
    batches = len(fetches) or batches
    return PlacePasses(place, data, which, inside, fetches, calls, items, batches, warmup)


def _compiling(length: Ints, total: int) -> float:
    """Seconds of a model's first call if it was far longer than usual and a part of its passes, else 0.

    ``length`` of its calls and ``total`` of the passes are in nanoseconds.
    """
    if len(length) < FEW or length[0] < SLOW * np.median(length):
        return 0.0
    return float(length[0]) / SECOND if length[0] > total * WORTH else 0.0


def _losses_after(thread: Thread, calls: Ints) -> Ints:
    """The losses that follow ``calls`` of models; without a loader, the last one lies after its pass."""
    marks = thread.marks
    models = marks.of_models(marks.forward)
    losses = marks.forward[~np.isin(marks.forward, models)]
    before = places(models, losses) - 1
    followed: Ints = losses[(before >= 0) & np.isin(models[np.maximum(before, 0)], calls)]
    return followed


def _items_and_calls(
    thread: Thread, rows: Ints, losses: Ints, fetches: Ints
) -> tuple[float | None, int]:
    """The items of ``rows``, calls of models that ``losses`` follow, and the number of calls.

    The items are those that were drawn for them, else those of the model that saw most, one call per fetch.
    As for steps, None if two sources contradict each other.
    """
    track = thread.track
    items = unpack(track.payload[rows])[0]
    model = track.table(object_number, rows)
    # The last call of a loader that is a batch ahead comes after it ran dry: ends count as fetches.
    edges = merged(thread.marks.fetches, thread.marks.ends)
    batch = np.searchsorted(edges, rows)
    most, calls, until, replaced = 0, 0, -1, list[tuple[int, int]]()
    for one_model in dict.fromkeys(model.tolist()):  # in order of their first calls
        of_model = model == one_model
        its_calls = np.flatnonzero(of_model)
        # A model that is called after the others only replaces them: a checkpoint, loaded for the test.
        if its_calls[0] > until >= 0:
            replaced.append((most, calls))
            most = calls = 0
        until = max(until, int(its_calls[-1]))
        its_batches = batch[of_model]
        is_first = differing(its_batches)
        count = int((items[of_model] * (is_first if len(fetches) else np.True_)).sum())
        all_known = bool((items[of_model] > 0).all())
        if all_known and not _is_contradicted(track.payload, rows[of_model], losses):
            most = max(most, count)
        calls = max(calls, int(of_model.sum()))
    replaced.append((most, calls))
    calls = sum(number for _, number in replaced)
    most = sum(count for count, _ in replaced) if all(count for count, _ in replaced) else 0
    drawn = unpack(track.payload[fetches])[0]
    # What a loader drew is exact, where the calls of a model may only be known in part.
    if len(drawn) and drawn.all():
        loader = track.table(object_number, fetches)
        # Of loaders read side by side, the first one of a pass: each pass may have made its own.
        of_pass = np.searchsorted(thread.predicted.start, track.start[fetches], side="right")
        first, which = np.unique(of_pass, return_index=True, return_inverse=True)[1:]
        is_used = np.isin(fetches, edges[batch[batch > 0] - 1])
        is_ahead = np.isin(thread.marks.ends, edges[batch[batch > 0] - 1]).any()
        leading = (is_used | is_ahead) & (loader == loader[first][which])
        if most not in (int(drawn[leading].sum()), int(drawn.sum())):
            # Where the program itself makes batches of the single items that are drawn, nothing tells.
            one_by_one = most > 0 and drawn[leading].max(initial=0) == 1
            most = 0 if one_by_one else int(drawn[leading].sum())
    return float(most) if most else None, calls


def _is_contradicted(payload: Ints, calls: Ints, losses: Ints) -> bool:
    """Whether the losses that follow ``calls`` of a model say another number of items."""
    next_loss = np.searchsorted(losses, calls)
    has_loss = next_loss < len(losses)
    model = unpack(payload[calls[has_loss]])[0]
    loss = unpack(payload[losses[next_loss[has_loss]]])[0]
    known_to_both = (model > 0) & (loss > 0)
    model, loss = model[known_to_both], loss[known_to_both]
    return not fits(model, loss) and contradicts(model, loss)
