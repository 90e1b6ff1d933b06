"""How many items and tokens each step worked on."""

from __future__ import annotations

import numpy as np

from .arrays import Holes, owners
from .columns import Ints
from .steps import Steps
from .tables import counted
from .tracks import Marks

_MOSTLY = 0.75
"""The part of the steps in which two sources that say the same do so."""
_MANY = 10
"""Steps over which they may be compared by their sums."""


class Items:
    """Of each step; None, with the reason, where they could not be told."""

    def __init__(self, items: Ints | None, tokens: Ints | None, why: str | None = None) -> None:
        self.items, self.tokens, self.why = items, tokens, why


def items_of(marks: Marks, steps: Steps, holes: Holes) -> Items:
    """What ``steps`` say themselves, else what their loader drew, else what their models were called with.

    A model that was called with as much as was drawn says it of each step: a loader may be ahead.
    """
    if len(marks.steps):
        said = _of_steps(marks, steps)
        if said is not None:
            return said
    models = _of_models(marks)
    groups = [models, marks.learnt, marks.tried]
    if (owners(steps.start, steps.end, marks.lane.start[marks.trained]) >= 0).any():
        # What a loss is called with says nothing of a model that cannot tell: one observation is no batch.
        groups = [models]
    found, known = _called(marks, steps, holes, groups)
    drawn = _drawn(marks, steps, holes)
    if not drawn:
        return _judged(marks, steps, holes, found, known)
    items = None if found is None or found.items is None else found.items
    if found is not None and items is not None and any(_same(items, each) for each in drawn):
        return found
    tokens = None if found is None else found.tokens
    if items is not None and drawn[0].max() == 1:
        why = f"its loader drew 1 item at a time, but its model was called with {_usual(items)}"
        return Items(None, tokens, why)
    if items is None and not _same(drawn[0], drawn[-1]):
        return Items(None, tokens, "its loaders drew different numbers of items")
    return Items(drawn[0], tokens)


def _called(
    marks: Marks, steps: Steps, holes: Holes, groups: list[Ints]
) -> tuple[Items | None, Ints]:
    """What the first of ``groups`` of calls that says anything tells, and its rows; None if none does."""
    lane = marks.lane
    # A model may be trained in its mode for evaluation, or be wrapped in something that is.
    for calls in groups:
        rows = calls[lane.payload[calls] > 0]
        if len(holes):
            rows = rows[~holes.hold(lane.start[rows])]
        step = owners(steps.start, steps.end, lane.start[rows])
        rows, step = rows[step >= 0], step[step >= 0]
        if len(rows):
            items, tokens = counted(lane.payload[rows])
            return _items(_summed(marks, steps, rows, step, items),
                          _summed(marks, steps, rows, step, tokens)), rows  # fmt: skip
    return None, marks.learnt[:0]


def _judged(marks: Marks, steps: Steps, holes: Holes, found: Items | None, known: Ints) -> Items:
    """What models were called with, where no loss speaks against it."""
    if found is None:
        return Items(None, None, _why(marks, steps))
    if found.items is None:
        return found
    lane = marks.lane
    others = marks.learnt[~np.isin(lane.site[marks.learnt], np.unique(lane.site[known]))]
    others = others[lane.table(lambda site: site.phase is None)[others] == 1]
    against = 0
    for site in np.unique(lane.site[others]).tolist():
        loss, _ = _called(marks, steps, holes, [others[lane.site[others] == site]])
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


def _drawn(marks: Marks, steps: Steps, holes: Holes) -> list[Ints]:
    """The items of the batches of each step: of its loader's as many as were used, of all of them, and
    of all loaders together. Nothing where a loader does not know them.
    """
    lane = marks.lane
    rows = marks.fetches
    if len(holes):
        rows = rows[~holes.hold(lane.start[rows])]
    step = owners(steps.start, steps.end, lane.start[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    if not len(rows):
        return []
    loader = lane.table(lambda site: -1 if site.of is None else site.of)[rows]
    first = np.searchsorted(step, np.arange(len(steps)))
    leading = np.bincount(loader[first[first < len(rows)]] + 1).argmax() - 1
    items = counted(lane.payload[rows])[0]
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


def _work(marks: Marks, steps: Steps, fetches: int) -> Ints:
    """For how many batches each step called its model, or its backward: of ``fetches``, at best."""
    lane, calls = marks.lane, _of_models(marks)
    found = []
    for rows in (
        marks.backward,
        *(calls[lane.site[calls] == n] for n in np.unique(lane.site[calls])),
    ):
        inside = owners(steps.start, steps.end, lane.start[rows])
        found.append(np.bincount(inside[inside >= 0], minlength=len(steps)))
    exact = [each for each in found if each.sum() == fetches]
    most: Ints = (exact or [np.max(found, axis=0)])[0]
    return most


def _shared(items: Ints, number: Ints) -> Ints:
    """Sums of ``items`` in order, of so many each."""
    total = np.concatenate(([0], np.cumsum(items)))[np.concatenate(([0], np.cumsum(number)))]
    return np.diff(total)


def _of_models(marks: Marks) -> Ints:
    """The calls of models, without those of what has no mode, where the same probe saw one that has.

    What a loss is called with need not be what a model was: it may count each token.
    """
    sites = marks.lane.sites.values()
    learning = {site.asked for site in sites if site.region == "forward" and site.phase == "train"}
    beside = marks.lane.table(lambda site: site.phase is None and site.asked in learning) == 1
    return marks.learnt[~beside[marks.learnt]] if len(marks.learnt) else marks.learnt


def evaluated(marks: Marks, calls: Ints) -> Ints:
    """Of ``calls`` in an evaluation those of models, as :func:`_of_models` has it.

    A loss has no mode: without gradients it is seen to predict, as a model that was left in its mode for
    training is.
    """
    lane = marks.lane
    sites = lane.sites
    trained = {sites[n].of for n in np.unique(lane.site[marks.trained]).tolist()}
    known = {n for n, site in sites.items() if site.phase == "eval" or site.of in trained}
    probes = {sites[n].asked for n in np.unique(lane.site[calls]).tolist() if n in known}
    beside = [n for n, site in sites.items() if n not in known and site.asked in probes]
    return calls[~np.isin(lane.site[calls], beside)]


def _why(marks: Marks, steps: Steps) -> str:
    inside = owners(steps.start, steps.end, marks.lane.start[marks.learnt])
    if not (inside >= 0).any():
        return "no call of a model was recorded in its steps"
    return "the arguments of its model do not tell the number of items"


def _items(items: Ints, tokens: Ints) -> Items:
    return Items(items if items.any() else None, tokens if tokens.any() else None,
                 None if items.any() else "its batches tell the number of tokens, not of items")  # fmt: skip


def _of_steps(marks: Marks, steps: Steps) -> Items | None:
    lane = marks.lane
    rows = marks.steps
    step = owners(steps.start, steps.end, lane.start[rows])
    items, tokens = (
        np.bincount(step[step >= 0], each[step >= 0], len(steps)).astype(np.int64)
        for each in counted(lane.payload[rows])
    )
    if all(lane.sites[site].payload == "counted" for site in np.unique(lane.site[rows]).tolist()):
        # Counted by the shape of what a loader gave, which itself may say how many it drew.
        inner = np.flatnonzero(
            lane.flags(lambda site: site.region == "io" and site.payload == "items")
        )
        owner = owners(steps.start, steps.end, lane.start[inner])
        drawn = counted(lane.payload[inner[owner >= 0]])[0]
        sums = np.bincount(owner[owner >= 0], drawn, len(steps)).astype(np.int64)
        items = sums if (sums > 0).all() else items
    return _items(items, tokens) if items.any() or tokens.any() else None


def _summed(marks: Marks, steps: Steps, rows: Ints, step: Ints, number: Ints) -> Ints:
    """The items of each step's model, whatever else it was called for.

    A model that sees its batch several times between a fetch and a backward has worked on one batch;
    a batch that is cut into pieces, each with a backward of its own, counts whole; the batch on which
    one of several optimizers works once more does not count twice.
    """
    lane = marks.lane
    names = list(dict.fromkeys((site.of, site.place) for site in lane.sites.values()))
    model = lane.table(lambda site: names.index((site.of, site.place)))[rows]
    if not (step[1:] == step[:-1]).any():
        return _most(model, step, number, len(steps))
    backward = lane.start[marks.backward]
    updates, updated = lane.start[marks.updates], lane.end[marks.updates]
    # The batches of a step: with several loaders, or a fetch ahead, one a step or as it says.
    batch = _batches(marks, steps, rows, step)
    turn = np.searchsorted(updated, lane.start[rows], side="right")
    piece = np.searchsorted(backward, lane.start[rows])
    inside = owners(updates, updated, lane.start[rows]) >= 0
    piece = np.where(inside, -1, piece)  # an optimizer calls its closure again on the same batch
    order = np.lexsort((rows, piece, turn, batch, step, model))
    keys = [each[order] for each in (model, step, batch, turn, piece)]
    kept, value = _heads(keys), number[order]
    value, keys = value[kept], [each[kept] for each in keys[:4]]
    first = _heads(keys)  # sum over pieces, of one update
    value, keys = np.add.reduceat(value, first), [each[first] for each in keys[:3]]
    first = _heads(keys)  # the largest of a batch's updates
    value, keys = np.maximum.reduceat(value, first), [each[first] for each in keys[:2]]
    return _most(keys[0], keys[1], value, len(steps))


def _batches(marks: Marks, steps: Steps, rows: Ints, step: Ints) -> Ints:
    """Which fetch of the pacing loader each call of a model follows, where a step has several."""
    lane = marks.lane
    if not (steps.fetches > 1).any():
        return np.zeros(len(rows), np.int64)
    fetches = lane.start[marks.fetches]
    owner = owners(steps.start, steps.end, fetches)
    loader = lane.site[marks.fetches]
    leading = loader[np.searchsorted(fetches, steps.start).clip(max=len(fetches) - 1)]
    pacing = fetches[(owner >= 0) & (loader == leading[owner])]
    found: Ints = np.searchsorted(pacing, lane.start[rows], side="right")
    return found


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
    for each in np.unique(model).tolist():
        mine = model == each
        sums = np.bincount(step[mine], number[mine], n).astype(np.int64)
        most = np.maximum(most, sums)
    return most
