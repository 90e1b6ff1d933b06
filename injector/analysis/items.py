"""How many items and tokens each step worked on."""

from __future__ import annotations

import numpy as np

from .columns import Ints
from .intervals import Holes, owners
from .marks import Marks
from .steps import Steps
from .tables import counted


class Items:
    """Of each step; None, with the reason, where they could not be told."""

    def __init__(self, items: Ints | None, tokens: Ints | None, why: str | None = None) -> None:
        self.items, self.tokens, self.why = items, tokens, why


def items_of(marks: Marks, steps: Steps, holes: Holes) -> Items:
    """What ``steps`` say themselves, else what their models were called with, else their fetches."""
    lane = marks.lane
    if len(marks.steps):
        said = _of_steps(marks, steps)
        if said is not None:
            return said
    # A model may be trained in its mode for evaluation, or be wrapped in something that is.
    for calls in (_of_models(marks), marks.learnt, marks.tried):
        rows = calls[lane.payload[calls] > 0]
        if len(holes):
            rows = rows[~holes.hold(lane.start[rows])]
        step = owners(steps.start, steps.end, lane.start[rows])
        rows, step = rows[step >= 0], step[step >= 0]
        if len(rows):
            items, tokens = counted(lane.payload[rows])
            return _items(_summed(marks, steps, rows, step, items),
                          _summed(marks, steps, rows, step, tokens))  # fmt: skip
    rows = marks.fetches[lane.payload[marks.fetches] > 0]
    step = owners(steps.start, steps.end, lane.start[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    if len(rows):
        items, tokens = counted(lane.payload[rows])
        model = lane.site[rows].astype(np.int64)
        return _items(_most(model, step, items, len(steps)), _most(model, step, tokens, len(steps)))
    return Items(None, None, _why(marks, steps))


def _of_models(marks: Marks) -> Ints:
    """The calls of models, without those of what has no mode, where the same probe saw one that has.

    What a loss is called with need not be what a model was: it may count each token.
    """
    sites = marks.lane.sites.values()
    learning = {site.asked for site in sites if site.region == "forward" and site.phase == "train"}
    beside = marks.lane.table(lambda site: site.phase is None and site.asked in learning) == 1
    return marks.learnt[~beside[marks.learnt]] if len(marks.learnt) else marks.learnt


def _why(marks: Marks, steps: Steps) -> str:
    inside = owners(steps.start, steps.end, marks.lane.start[marks.learnt])
    if not (inside >= 0).any():
        return "no call of a model was seen in its steps"
    return "what its model was called with does not tell how many items it holds"


def _items(items: Ints, tokens: Ints) -> Items:
    return Items(items if items.any() else None, tokens if tokens.any() else None,
                 None if items.any() else "its batches tell tokens, and no items")  # fmt: skip


def _of_steps(marks: Marks, steps: Steps) -> Items | None:
    lane = marks.lane
    rows = marks.steps
    step = owners(steps.start, steps.end, lane.start[rows])
    items, tokens = (
        np.bincount(step[step >= 0], each[step >= 0], len(steps)).astype(np.int64)
        for each in counted(lane.payload[rows])
    )
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
