"""How many items and tokens each step worked on."""

from __future__ import annotations

import numpy as np

from ..store.spans import unpack
from .arrays import ExcludedIntervals, among, kinds_of, owners, places
from .columns import Ints
from .steps import TrackSteps
from .tracks import Landmarks, numbers_of

_MOSTLY = 0.75
"""The part of the steps in which two sources that say the same do so."""
_MANY = 10
"""Steps over which they may be compared by their sums."""


class Items:
    """Of each step; None, with the reason, where they are not known."""

    def __init__(self, items: Ints | None, tokens: Ints | None, why: str | None = None) -> None:
        self.items, self.tokens, self.why = items, tokens, why


def items_of(marks: Landmarks, steps: TrackSteps, excluded: ExcludedIntervals) -> Items:
    """What ``steps`` say themselves, else what their loader drew, else what their models were called with.

    A model that was called with as much as was drawn says it of each step: a loader may be ahead.
    """
    if len(marks.steps):
        explicit = _of_steps(marks, steps)
        if explicit is not None:
            return explicit
    models = _of_models(marks)
    groups = [models, marks.learnt, marks.tried]
    if (owners(steps.start, steps.end, marks.track.start[marks.trained]) >= 0).any():
        # What a loss is called with says nothing of a model that cannot tell: one observation is no batch.
        groups = [models]
    found, known = _called(marks, steps, excluded, groups)
    drawn = _drawn(marks, steps, excluded)
    if not drawn:
        return _judged(marks, steps, excluded, found, known)
    items = None if found is None or found.items is None else found.items
    tokens = None if found is None else found.tokens
    if found is not None and items is not None:
        same = next((each for each in drawn if _same(items, each)), None)
        if same is not None:
            # Now and then it is called with more beside the batch: pictures that are drawn to be looked at.
            beside = int(items.sum() - same.sum()) > int(same.max()) and same.all()
            return Items(same, tokens) if beside else found
    if items is not None and drawn[0].max() == 1:
        why = f"its loader drew 1 item at a time, but its model was called with {_usual(items)}"
        return Items(None, tokens, why)
    if items is None and not _same(drawn[0], drawn[-1]):
        return Items(None, tokens, "its loaders drew different numbers of items")
    return Items(drawn[0], tokens)


def _called(
    marks: Landmarks, steps: TrackSteps, excluded: ExcludedIntervals, groups: list[Ints]
) -> tuple[Items | None, Ints]:
    """What the first of ``groups`` of calls that says anything tells, and its rows; None if none does."""
    track = marks.track
    # A model may be trained in its mode for evaluation, or be wrapped in something that is.
    for calls in groups:
        rows = calls[track.payload[calls] > 0]
        if len(excluded):
            rows = rows[~excluded.hold(track.start[rows])]
        step = owners(steps.start, steps.end, track.start[rows])
        rows, step = rows[step >= 0], step[step >= 0]
        if len(rows):
            items, tokens = unpack(track.payload[rows])
            return _items(_summed(marks, steps, rows, step, items),
                          _summed(marks, steps, rows, step, tokens)), rows  # fmt: skip
    return None, marks.learnt[:0]


def _judged(
    marks: Landmarks,
    steps: TrackSteps,
    excluded: ExcludedIntervals,
    found: Items | None,
    known: Ints,
) -> Items:
    """What models were called with, where no loss speaks against it."""
    if found is None:
        return Items(None, None, _why(marks, steps))
    if found.items is None:
        return found
    track = marks.track
    others = marks.learnt[~among(track.site[marks.learnt], kinds_of(track.site[known]))]
    others = others[track.table(lambda site: site.phase is None, others) == 1]
    against = 0
    for site in kinds_of(track.site[others]):
        loss, _ = _called(marks, steps, excluded, [others[track.site[others] == site]])
        if loss is None or loss.items is None:
            continue
        both = (loss.items > 0) & (found.items > 0)
        one, other = found.items[both], loss.items[both]
        if fits(one, other):
            return found
        if contradicts(one, other):
            against = against or _usual(other)
    if not against:
        return found
    why = f"its model was called with {_usual(found.items)} items, its loss with {against}"
    return Items(None, found.tokens, why)


def fits(model: Ints, loss: Ints) -> bool:
    """Whether a loss was called with as many items, or so many times as many: each token, or pixel."""
    return not len(model) or bool(np.mean(loss % model == 0) >= _MOSTLY)


def contradicts(model: Ints, loss: Ints) -> bool:
    """Whether what a loss was called with, which does not fit, is the number of items of a batch."""
    return bool(np.median(loss) < np.median(model) or _usual(loss) == loss.min())


def _usual(items: Ints) -> int:
    return int(np.median(items))


def _same(one: Ints, other: Ints) -> bool:
    """Whether two sources say the same: of most steps, or, one batch ahead of each other, of all."""
    both = (one > 0) & (other > 0)
    if not both.any():
        return False
    near = abs(int(one.sum()) - int(other.sum())) <= int(other.max())
    return bool(np.mean(one[both] == other[both]) >= _MOSTLY or (near and len(one) >= _MANY))


def _drawn(marks: Landmarks, steps: TrackSteps, excluded: ExcludedIntervals) -> list[Ints]:
    """The items of the batches of each step: of its loader's as many as were used, of all of them, and
    of all loaders together. Nothing where a loader does not know them.
    """
    track = marks.track
    rows = marks.fetches
    if len(excluded):
        rows = rows[~excluded.hold(track.start[rows])]
    step = owners(steps.start, steps.end, track.start[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    if not len(rows):
        return []
    loader = track.table(lambda site: -1 if site.object_id is None else site.object_id, rows)
    first = places(step, np.arange(len(steps)))
    leading = np.bincount(loader[first[first < len(rows)]] + 1).argmax() - 1
    items = unpack(track.payload[rows])[0]
    mine = loader == leading
    number = np.bincount(step[mine], minlength=len(steps))
    if not items.all() or np.mean(number > 0) < 0.5:
        return []
    every = np.bincount(step, items, len(steps)).astype(np.int64)
    rows, step, items = rows[mine], step[mine], items[mine]
    whole = np.bincount(step, items, len(steps)).astype(np.int64)
    if len(rows) == len(steps):  # one each, even where the loader is a batch ahead
        return [items, whole, every]
    work = _work(marks, steps, len(rows))
    if work.sum() == len(rows):
        return [_shared(items, work), whole, every]
    # Some were left out: the last of a step are those that were trained with.
    last = np.cumsum(number)[step]
    used = last - np.arange(len(rows)) <= np.maximum(work[step], 1)
    some = np.bincount(step[used], items[used], len(steps)).astype(np.int64)
    return [some if (some > 0).all() else whole, whole, every]


def _work(marks: Landmarks, steps: TrackSteps, fetches: int) -> Ints:
    """For how many batches each step called its model, or its backward: of ``fetches``, at best."""
    track, calls = marks.track, _of_models(marks)
    found = []
    for rows in (
        marks.backward,
        *(calls[track.site[calls] == n] for n in kinds_of(track.site[calls])),
    ):
        inside = owners(steps.start, steps.end, track.start[rows])
        found.append(np.bincount(inside[inside >= 0], minlength=len(steps)))
    exact = [each for each in found if each.sum() == fetches]
    most: Ints = (exact or [np.max(found, axis=0)])[0]
    return most


def _shared(items: Ints, number: Ints) -> Ints:
    """Sums of ``items`` in order, of so many each."""
    total = np.concatenate(([0], np.cumsum(items)))[np.concatenate(([0], np.cumsum(number)))]
    return np.diff(total)


def _of_models(marks: Landmarks) -> Ints:
    """The calls of models, without those of what has no mode, where the same probe saw one that has.

    What a loss is called with need not be what a model was: it may count each token.
    """
    sites = marks.track.sites.values()
    learning = {
        site.selector for site in sites if site.region == "forward" and site.phase == "train"
    }
    rows = marks.learnt
    beside = marks.track.table(lambda site: site.phase is None and site.selector in learning, rows)
    found: Ints = rows[beside == 0]
    return found


def _why(marks: Landmarks, steps: TrackSteps) -> str:
    inside = owners(steps.start, steps.end, marks.track.start[marks.learnt])
    if not (inside >= 0).any():
        return "no call of a model was recorded in its steps"
    if all(_is_programs(marks, row) for row in marks.learnt[inside >= 0].tolist()):
        return (
            "the program marks its forward itself, and no call of a model was recorded in its steps"
        )
    return "the arguments of its model do not tell the number of items"


def _items(items: Ints, tokens: Ints) -> Items:
    return Items(items if items.any() else None, tokens if tokens.any() else None,
                 None if items.any() else "its batches tell the number of tokens, not of items")  # fmt: skip


def _of_steps(marks: Landmarks, steps: TrackSteps) -> Items | None:
    track = marks.track
    rows = marks.steps
    step = owners(steps.start, steps.end, track.start[rows])
    items, tokens = (
        np.bincount(step[step >= 0], each[step >= 0], len(steps)).astype(np.int64)
        for each in unpack(track.payload[rows])
    )
    if all(track.sites[site].payload == "counted" for site in kinds_of(track.site[rows])):
        # Counted by the shape of what a loader gave, which itself may say how many it drew.
        inner = np.flatnonzero(
            track.flags(lambda site: site.region == "io" and site.payload == "items")
        )
        owner = owners(steps.start, steps.end, track.start[inner])
        drawn = unpack(track.payload[inner[owner >= 0]])[0]
        sums = np.bincount(owner[owner >= 0], drawn, len(steps)).astype(np.int64)
        items = sums if (sums > 0).all() else items
    return _items(items, tokens) if items.any() or tokens.any() else None


def _summed(marks: Landmarks, steps: TrackSteps, rows: Ints, step: Ints, number: Ints) -> Ints:
    """The items of each step's model, whatever else it was called for.

    A model that sees its batch several times between a fetch and a backward has worked on one batch;
    a batch that is cut into pieces, each with a backward of its own, counts whole; the batch on which
    one of several optimizers works once more does not count twice.
    """
    track = marks.track
    names = numbers_of((site.object_id, site.place) for site in track.sites.values())
    model = track.table(lambda site: names[site.object_id, site.place], rows)
    if not (step[1:] == step[:-1]).any():
        return _most(model, step, number, len(steps))
    backward = track.start[marks.backward]
    updates, updated = track.start[marks.updates], track.end[marks.updates]
    # The batches of a step: with several loaders, or a fetch ahead, one a step or as it says.
    batch = _batches(marks, steps, rows, step)
    iteration = places(updated, track.start[rows], "right")
    piece = places(backward, track.start[rows])
    inside = owners(updates, updated, track.start[rows]) >= 0
    piece = np.where(inside, -1, piece)  # an optimizer calls its closure again on the same batch
    order = np.lexsort((rows, piece, iteration, batch, step, model))
    keys = [each[order] for each in (model, step, batch, iteration, piece)]
    kept, value = _heads(keys), number[order]
    value, keys = value[kept], [each[kept] for each in keys[:4]]
    first = _heads(keys)  # sum over pieces, of one update
    value, keys = np.add.reduceat(value, first), [each[first] for each in keys[:3]]
    first = _heads(keys)  # the largest of a batch's updates
    value, keys = np.maximum.reduceat(value, first), [each[first] for each in keys[:2]]
    return _most(keys[0], keys[1], value, len(steps))


def _batches(marks: Landmarks, steps: TrackSteps, rows: Ints, step: Ints) -> Ints:
    """Which fetch of the pacing loader each call of a model follows, where a step has several."""
    track = marks.track
    if not (steps.fetches > 1).any():
        return np.zeros(len(rows), np.int64)
    fetches = track.start[marks.fetches]
    owner = owners(steps.start, steps.end, fetches)
    loader = track.site[marks.fetches]
    leading = loader[places(fetches, steps.start).clip(max=len(fetches) - 1)]
    pacing = fetches[(owner >= 0) & (loader == leading[owner])]
    return places(pacing, track.start[rows], "right")


def _heads(keys: list[Ints]) -> Ints:
    """Where, in order, one of the keys changes."""
    change = np.zeros(len(keys[0]), np.bool_)
    change[:1] = True
    for key in keys:
        change[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(change)


def _most(model: Ints, step: Ints, number: Ints, n: int) -> Ints:
    """For each step the largest sum of any model."""
    most = np.zeros(n, np.int64)
    for each in kinds_of(model):
        mine = model == each
        sums = np.bincount(step[mine], number[mine], n).astype(np.int64)
        most = np.maximum(most, sums)
    return most


def _is_programs(marks: Landmarks, row: int) -> bool:
    """Whether the program itself marked it, by a region or a timer."""
    return marks.track.sites[int(marks.track.site[row])].selector == "injector.region"
