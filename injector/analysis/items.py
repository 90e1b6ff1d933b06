"""How many items, and tokens, each step worked on.

There may be several sources for that: the step itself (if a voirfile marks it), the batches that its loader
drew, what the outermost model was called with, what the loss was called with. Items are claimed where sources
agree, and else with a reason not. For example, a loss that is called with 32 × 128 tokens fits a model that
was called with 32 items; one that is called with 16 does not.
"""

from __future__ import annotations

import numpy as np

from ..store.call_sites import OWN
from ..store.spans import unpack
from .arrays import (
    ExcludedIntervals,
    among,
    differing,
    in_one_group,
    kinds_of,
    owners,
    places,
)
from .called_items import items_per_step, sums_of_steps
from .columns import Ints
from .landmarks import Landmarks
from .steps import TrackSteps
from .tracks import object_number
from .wording import count

_MOSTLY = 0.75
"""Two sources agree if they do in this fraction of the steps."""
_MANY = 10
"""Fewer steps are not compared by their sums."""


class Items:
    """Items and tokens of each step; None if they are not known, with the reason for items."""

    def __init__(self, items: Ints | None, tokens: Ints | None, why: str | None = None) -> None:
        self.items, self.tokens, self.why = items, tokens, why


SHARED = (
    "its ranks, of which each has a part of the model, share batches: each would count their items"
)


def items_of(
    marks: Landmarks, steps: TrackSteps, excluded: ExcludedIntervals, *, shared: bool = False
) -> Items:
    """What ``steps`` say themselves, else what their loader drew, else what their models were called with.

    If a model was called with as many items as were drawn, its calls tell each step's: a loader may be ahead.
    Of batches that are ``shared`` with other ranks, only steps can say how many items are this rank's.
    """
    if len(marks.steps):
        explicit = _marked_items(marks, steps)
        if explicit is not None:
            return explicit
    if shared:
        return Items(None, None, SHARED)
    by_models, calls = _items_of_calls(marks, steps, excluded, _groups_of_calls(marks, steps))
    drawn = _items_drawn(marks, steps, excluded)
    if not drawn:
        return _checked_by_losses(marks, steps, excluded, by_models, calls)
    items = None if by_models is None or by_models.items is None else by_models.items
    tokens = None if by_models is None else by_models.tokens
    if by_models is not None and items is not None:
        agreeing = next((each for each in drawn if _agree(items, each)), None)
        if agreeing is not None:
            return _agreed(by_models, items, agreeing)
    if items is not None and _is_by_shape(marks):
        # The first dimension of what was fetched may be time; the model may join batches, as two views.
        if len(calls) <= len(steps) and (items % np.maximum(drawn[0], 1) > 0).any():
            # The first call of a compiled function is counted before it is known what that goes through.
            return Items(np.where(items == drawn[0], _usual(items), items), tokens)
        why = f"its loader gave batches of {_usual(drawn[0])}, its model was called with {_usual(items)}"
        return Items(None, tokens, why)
    if drawn[0].max() == 1:
        # Each may be a whole batch, or one of the parts of which the program makes a batch.
        of_loss, _ = _items_of_calls(marks, steps, excluded, [marks.may_train])
        seen = of_loss.items if items is None and of_loss is not None else items
        if seen is not None and (items is not None or _usual(seen) > 1):
            by = "loss" if items is None else "model"
            why = f"its loader drew 1 item at a time, but its {by} was called with {_usual(seen)}"
            return Items(None, tokens, why)
    if items is None and not _agree(drawn[0], drawn[-1]):
        return Items(None, tokens, "its loaders drew different numbers of items")
    return Items(drawn[0], tokens)


def _groups_of_calls(marks: Landmarks, steps: TrackSteps) -> list[Ints]:
    """The calls that may tell items: of models that are trained, of losses too, of models that predict."""
    models, predicting = _model_calls(marks), marks.predicting
    is_learnt = marks.learnt_from(steps.start, steps.end)
    if is_learnt.any():
        models = np.sort(np.concatenate((models, predicting[is_learnt])))
    if (owners(steps.start, steps.end, marks.track.start[marks.training]) >= 0).any():
        # A model in training mode whose calls do not tell the items: the loss must not stand in for it.
        return [models]
    if len(steps) > 1:  # what a solver wraps anew for each step sees its state, not the batch
        step = owners(steps.start, steps.end, marks.track.start[predicting])
        model = marks.track.table(object_number, predicting)
        predicting = predicting[~in_one_group(model, step)]
    return [models, marks.may_train, predicting]


def _agreed(by_models: Items, items: Ints, drawn: Ints) -> Items:
    """What the calls of models tell, whose ``items`` are mostly those that were ``drawn``."""
    # Now and then the model gets more than the batch, such as noise for pictures to look at.
    has_more = int(items.sum() - drawn.sum()) > int(drawn.max()) and drawn.all()
    # The call of a step's model may not have been recorded: that of the first turn in a trainer's.
    whole = np.where(items > 0, items, drawn)
    has_less = items.sum() < whole.sum() <= drawn.sum()
    if _is_early(items, drawn):
        return Items(drawn, _shared_alike(by_models.tokens, items, drawn))
    if has_more or has_less:
        return Items(drawn if has_more else whole, by_models.tokens)
    return by_models


def _is_by_shape(marks: Landmarks) -> bool:
    """Whether items of what was fetched are known by its shape alone."""
    sites = kinds_of(marks.track.site[marks.fetches])
    return all(marks.track.sites[site].payload == "counted" for site in sites)


def _is_early(called: Ints, drawn: Ints) -> bool:
    """Whether models were called with a batch in the step before that which learns from it.

    A loop may call its model, fetch the next batch, where a step begins, and only then start backward.
    """
    before: Ints = np.cumsum(called) - np.cumsum(drawn)
    return bool(drawn.all() and before[-1] == 0 and (before >= 0).all() and before.any())


def _shared_alike(tokens: Ints | None, items: Ints, other: Ints) -> Ints | None:
    """``tokens`` shared out as ``other`` items are, if each item has equally many; else as they are."""
    if tokens is None:
        return None
    of_each = tokens.sum() // items.sum()
    shared: Ints = other * of_each if (tokens == items * of_each).all() else tokens
    return shared


def _items_of_calls(
    marks: Landmarks, steps: TrackSteps, excluded: ExcludedIntervals, groups: list[Ints]
) -> tuple[Items | None, Ints]:
    """The items of the first of ``groups`` of calls that tells any, and its rows; None if none does."""
    track = marks.track
    # A model may be trained in its mode for evaluation, or be wrapped in something that is.
    for calls in groups:
        rows = calls[track.payload[calls] > 0]
        if len(excluded):
            rows = rows[~excluded.hold(track.start[rows])]
        rows, step = steps.rows_inside(track, rows)
        is_learnt = ~marks.only_act(rows)
        rows, step = rows[is_learnt], step[is_learnt]
        if len(rows):
            items, tokens = unpack(track.payload[rows])
            return _items_or_reason(items_per_step(marks, steps, rows, step, items),
                          items_per_step(marks, steps, rows, step, tokens)), rows  # fmt: skip
    return None, marks.may_train[:0]


def _checked_by_losses(
    marks: Landmarks,
    steps: TrackSteps,
    excluded: ExcludedIntervals,
    by_calls: Items | None,
    known: Ints,
) -> Items:
    """``by_calls``, what models were called with, unless a loss contradicts it.

    ``known`` are the rows of those calls. One loss that fits is enough.
    """
    if by_calls is None:
        return Items(None, None, _why(marks, steps))
    if by_calls.items is None:
        return by_calls
    track = marks.track
    losses = marks.may_train[~among(track.site[marks.may_train], kinds_of(track.site[known]))]
    losses = losses[track.table(lambda site: site.phase is None, losses) == 1]
    contradiction = 0
    for site in kinds_of(track.site[losses]):
        loss, _ = _items_of_calls(marks, steps, excluded, [losses[track.site[losses] == site]])
        if loss is None or loss.items is None:
            continue
        known_to_both = (loss.items > 0) & (by_calls.items > 0)
        by_model, by_loss = by_calls.items[known_to_both], loss.items[known_to_both]
        if fits(by_model, by_loss):
            return by_calls
        if contradicts(by_model, by_loss):
            contradiction = contradiction or _usual(by_loss)
    if not contradiction:
        return by_calls
    why = f"its model was called with {_usual(by_calls.items)} items, its loss with {contradiction}"
    return Items(None, by_calls.tokens, why)


def fits(model: Ints, loss: Ints) -> bool:
    """Whether a loss has as many items as the model in most steps, or a multiple: each token, or pixel."""
    return not len(model) or bool(np.mean(loss % model == 0) >= _MOSTLY)


def contradicts(model: Ints, loss: Ints) -> bool:
    """Whether a loss that does not fit counts a batch: it has fewer items, or hardly varies."""
    return bool(np.median(loss) < np.median(model) or _usual(loss) == loss.min())


def _usual(items: Ints) -> int:
    return int(np.median(items))


def _agree(one: Ints, other: Ints) -> bool:
    """Whether two sources say the same.

    They do so in most steps, or, if one of them is a batch ahead of the other, in sum.
    """
    known_to_both = (one > 0) & (other > 0)
    if not known_to_both.any():
        return False
    sums_agree = abs(int(one.sum()) - int(other.sum())) <= int(other.max())
    return bool(
        np.mean(one[known_to_both] == other[known_to_both]) >= _MOSTLY
        or (sums_agree and len(one) >= _MANY)
    )


def _items_drawn(marks: Landmarks, steps: TrackSteps, excluded: ExcludedIntervals) -> list[Ints]:
    """The items of the batches of each step; empty if a loader does not know them.

    Three columns: those of the batches of the leading loader that were used, of all of its batches, and of
    the batches of all loaders. Several loaders lead where none feeds half of the steps.
    """
    track = marks.track
    rows = marks.fetches
    if len(excluded):
        rows = rows[~excluded.hold(track.start[rows])]
    rows, step = steps.rows_inside(track, rows)
    if not len(rows):
        return []
    loader = track.table(object_number, rows)
    first = places(step, np.arange(len(steps)))
    # The loader from which most steps fetch first.
    leading = np.bincount(loader[first[first < len(rows)]] + 1).argmax() - 1
    items = unpack(track.payload[rows])[0]
    is_leading = loader == leading
    if np.count_nonzero(np.bincount(step[is_leading])) < 0.5 * len(steps):
        # Loaders that are made anew, as for each epoch: each leads the steps that fetch from it first.
        is_leading = loader == loader[first[step]]
    fetches = np.bincount(step[is_leading], minlength=len(steps))
    # Some batch is unknown, or most steps fetch nothing: the loader is not what feeds them.
    if not items.all() or np.mean(fetches > 0) < 0.5:
        return []
    all_of_step = sums_of_steps(step, items, len(steps))
    rows, step, items = rows[is_leading], step[is_leading], items[is_leading]
    all_of_loader = sums_of_steps(step, items, len(steps))
    if len(rows) == len(steps):  # one batch per step, even if the loader is ahead
        return [items, all_of_loader, all_of_step]
    needed = _batches_used(marks, steps, excluded, len(rows))
    # A loader that is ahead may be left with a batch that no step used.
    is_ahead = (needed > fetches).any() and (np.cumsum(needed) <= np.cumsum(fetches)).all()
    if needed.sum() == len(rows) or is_ahead:
        in_order = _sums_in_order(items, needed)
        # Of a single loader whose batches were all used, it only matters in which steps they were.
        is_sure = needed.sum() == len(rows) and is_leading.all()
        return [in_order, all_of_loader, in_order if is_sure else all_of_step]
    # Two loaders of the same data, read side by side: the one that is read first gives the batch.
    of_site = track.site[rows] == np.bincount(track.site[rows[differing(step)]]).argmax()
    if np.count_nonzero(of_site) == needed.sum():
        return [_sums_in_order(items[of_site], needed), all_of_loader, all_of_step]
    # Some batches were left out: the step was trained with the last ones it fetched.
    fetched_until = np.cumsum(fetches)[step]
    is_used = fetched_until - np.arange(len(rows)) <= np.maximum(needed[step], 1)
    of_used = sums_of_steps(step[is_used], items[is_used], len(steps))
    return [of_used if (of_used > 0).all() else all_of_loader, all_of_loader, all_of_step]


def _batches_used(
    marks: Landmarks, steps: TrackSteps, excluded: ExcludedIntervals, fetches: int
) -> Ints:
    """How many batches each step called its model, or its backward, for; ideally ``fetches`` in all."""
    track, calls = marks.track, _model_calls(marks)
    if len(excluded):
        calls = calls[~excluded.hold(track.start[calls])]
    by_site = (calls[track.site[calls] == site] for site in kinds_of(track.site[calls]))
    step_of = [steps.rows_inside(track, rows)[1] for rows in (marks.backward, *by_site)]
    candidates = [np.bincount(step, minlength=len(steps)) for step in step_of]
    exact = [number for number in candidates if number.sum() == fetches]
    # Where both are equally many, they differ in the step alone: the next fetch comes between the two.
    if not exact and len({int(number.sum()) for number in candidates}) == 1:
        exact = candidates
    result: Ints = (exact or [np.max(candidates, axis=0)])[0]
    return result


def _sums_in_order(items: Ints, number: Ints) -> Ints:
    """Sums of consecutive ``items``: of the first ``number[0]``, the next ``number[1]``, and so on."""
    total = np.concatenate(([0], np.cumsum(items)))[np.concatenate(([0], np.cumsum(number)))]
    return np.diff(total)


def _model_calls(marks: Landmarks) -> Ints:
    """The calls of models: those that are not of losses.

    A loss has no mode. An object without a mode is left out if the same probe saw one that trains, since a
    loss may be called with one item per token.
    """
    sites = marks.track.sites.values()
    training_selectors = {
        site.selector for site in sites if site.region == "forward" and site.phase == "train"
    }
    rows = marks.may_train
    is_loss = marks.track.table(
        lambda site: site.phase is None and site.selector in training_selectors, rows
    )
    models: Ints = rows[is_loss == 0]
    return models


def _why(marks: Landmarks, steps: TrackSteps) -> str:
    """Why no calls tell the items."""
    rows, _ = steps.rows_inside(marks.track, marks.may_train)
    if not len(rows):
        predicting, _ = steps.rows_inside(marks.track, marks.predicting)
        if len(predicting):
            return "its steps call models without gradients alone"
        return "no call of a model was recorded in its steps"
    its_sites = kinds_of(marks.track.site[rows])
    if all(marks.track.sites[site].selector == OWN for site in its_sites):
        return (
            "the program marks its forward itself, and no call of a model was recorded in its steps"
        )
    return "the arguments of its model do not tell the number of items"


def _items_or_reason(items: Ints, tokens: Ints) -> Items:
    """Items and tokens of each step, as far as most steps have any."""
    known = [int(np.count_nonzero(column)) for column in (items, tokens)]
    by_most = [2 * number >= len(items) > 0 for number in known]
    why = "its batches tell the number of tokens, not of items"
    if not (known[0] or known[1]):
        why = "its models are called with several batches before each update"
    elif known[0]:
        why = f"the calls of its models tell them in only {known[0]} of {count(len(items), 'step')}"
    return Items(items if by_most[0] else None, tokens if by_most[1] else None,
                 None if by_most[0] else why)  # fmt: skip


def _marked_items(marks: Landmarks, steps: TrackSteps) -> Items | None:
    """The items that ``marks``' steps say themselves; None if they say nothing."""
    track = marks.track
    rows, step = steps.rows_inside(track, marks.steps)
    items, tokens = (sums_of_steps(step, each, len(steps)) for each in unpack(track.payload[rows]))
    if all(track.sites[site].payload == "counted" for site in kinds_of(track.site[marks.steps])):
        # Counted by the shape of a batch: a loader inside may know better how many it drew.
        fetches = np.flatnonzero(
            track.flags(lambda site: site.region == "io" and site.payload == "items")
        )
        fetches, step = steps.rows_inside(track, fetches)
        drawn = sums_of_steps(step, unpack(track.payload[fetches])[0], len(steps))
        items = drawn if (drawn > 0).all() else items
    return _items_or_reason(items, tokens) if items.any() or tokens.any() else None
