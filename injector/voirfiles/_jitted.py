"""What functions do that JAX compiles, learnt while they are traced, and from the arrays of their calls.

A function trains if an optimizer's update was traced in it, outside of a loop of the compiled code. So does
one that derives gradients if it is called with its own last result and with new data each time::

    state = step(state, batch)

If its result goes through another compiled function first, that one trains, with the items of the first; if
through uncompiled code such as ``jax.tree.map`` alone, the first one trains::

    gradients = grad(params, batch)
    params = update(params, gradients)

Nothing else is sure: a simulation derives gradients and is called with its own result, too, but with no new
data. A function predicts if it derives no gradients, and is called with the same weights as before, with new
data, and with none of its results but numbers, which metrics add up; or with weights that were updated,
which it does not return, and a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import jax
import numpy
from jax._src.array import ArrayImpl

from injector.voirfiles._followed import (
    RAW,
    UPDATED,
    ArrayOrigin,
    GradientCall,
    Gradients,
    are_weights,
    arrays,
    calls_of,
    is_data,
    is_in,
    is_model,
    mark,
    note_model,
    note_weights,
    origins_of,
    watched,
)

Learn = Callable[..., None]
"""``learn(jitted, region=…, phase=…, what=…)``: of which region and phase all calls of a function are."""
GRADIENTS, UPDATE, LOOPED = 1, 2, 4
"""Effects of a function, as bits: it derives gradients, makes one update, or does either in a loop."""
DERIVES = "gradients"
"""The phase of calls that derive gradients which an optimizer outside of them updates by, or that may be any
number of updates: an evaluation does not go on across them."""
TRIES, ACCUMULATED = 6, 40
"""Calls of one function, after the first, that are compared; more if it derives gradients, since those of
several batches may be added up for one update."""
_ARRAYS = (ArrayImpl, numpy.ndarray)


class Jitted:
    """What is known of one compiled function."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.effects = 0
        self.tries_left = TRIES
        """How many more calls are compared with those before them."""
        self.is_left_out = False
        """Whether its calls are recorded by another probe."""
        self.batch_axes = 1
        """How many leading dimensions of an argument count its items."""
        self.looped_over: dict[tuple[int, ...], bool] = {}
        """The first two dimensions of what loops of the compiled code go through, one slice at a time; and
        whether what such a loop hands on has as many rows as each slice: it goes through time."""
        self.has_time_first = False
        """Whether the second dimension of the batch counts its items."""
        self.data: tuple[int, ...] | None = None
        """Positions of arguments that may be the batch: new data at each call, else no results."""
        self.batch: tuple[int, Any] | None = None
        """Position of the argument, and key of the item in it or None, whose shape tells the items."""
        self.gradients = Gradients(self)
        """Its calls, if it derives gradients."""
        self.follows: frozenset[GradientCall] = frozenset()
        """The calls for gradients that this call follows from."""
        self.source: tuple[Gradients, int] | None = None
        """Of which function these are calls, and how many."""
        self.followed_items: int | None = None
        """The items of the calls that this call follows from, if they count as its own."""
        self.last_items = 0
        """The items of the last call."""
        self.learnt: dict[str, str] = {}
        """The region and phase of all of its calls, once they are known."""
        self._returned: dict[int, Any] = {}
        self._last_args: dict[int, Any] | None = None
        """Weak references to arrays of the last result, and of the last arguments, by ``id``."""
        self._returns_weights = False
        """Whether the last result was weights, or held them."""
        self._has_updated = False
        """Whether an argument of this call follows from an optimizer's update."""

    def add_loops(self, loops: dict[tuple[int, ...], bool]) -> None:
        """Note loops by what they go through: through time only if each of them does."""
        for shape, is_time in loops.items():
            self.looped_over[shape] = is_time and self.looped_over.get(shape, True)

    def ended(self, result: Any, args: tuple[Any, ...]) -> dict[str, str]:
        """Note the ``result`` of a call, and the ``args`` that it may have put new arrays into.

        Returns what is known now of all calls of this function.
        """
        before = self._last_args or {}
        changed = [leaf for leaf in arrays(args) if not is_in(before, leaf)]
        returned = arrays(result) + changed
        self._returned = watched(returned)
        self._mark(returned)
        if self.learnt:
            return {}
        if self.effects & UPDATE:
            self.learnt = {"phase": "train"}
        elif self.effects & LOOPED:
            what = f"{self.name}, which derives gradients in a loop"
            self.learnt = {"what": what, "phase": DERIVES}
        elif self.effects & GRADIENTS and self.tries_left == TRIES:
            self.tries_left = ACCUMULATED
        if self.learnt.get("phase") == "train":
            for arg in args:
                if not all(is_in(before, leaf) for leaf in arrays(arg)):
                    note_model(arg)
            # Weights in an object with all that belongs to them, such as a `TrainState`.
            parts = [*_parts(result).values()] if type(result) is tuple else [result]
            if not any(map(are_weights, parts)):
                for part in parts:
                    if type(part) not in (tuple, list, dict):
                        note_weights(part)
        else:
            self._returns_weights = any(map(are_weights, [result, *_parts(result).values()]))
        return self.learnt

    def _mark(self, returned: list[Any]) -> None:
        """Mark the arrays that this call returned with the gradients they follow from."""
        if self.effects == GRADIENTS and not self.learnt:
            mark(returned, frozenset([self.gradients.call(self.last_items)]), RAW)
        elif self.follows or self._has_updated:
            is_updated = self._has_updated or self.effects & UPDATE
            mark(returned, self.follows, UPDATED if is_updated else self)

    def began(self, args: tuple[Any, ...]) -> list[Jitted]:
        """Compare the ``args`` of a call with those of the one before.

        Returns the functions of which that teaches something: this one, or those that update for it.
        """
        leaves = [arrays(arg) for arg in args]
        origins = [origins_of(part) for part in leaves]
        if not self.effects & GRADIENTS:
            self._follow(leaves, [origin for part in origins for origin in part])
        before = self._last_args
        self._last_args = watched([leaf for part in leaves for leaf in part])
        if before is None:
            return []
        own = [any(is_in(self._returned, leaf) for leaf in part) for part in leaves]
        has_fresh = self._find_data(args, leaves, origins, own, before)
        pairs = zip(args, leaves, strict=True)
        trees = [
            part
            for arg, part in pairs
            if part and part[0] is not arg and any(leaf.ndim for leaf in part)
        ]
        has_same_weights = any(all(is_in(before, leaf) for leaf in tree) for tree in trees)
        # What has made its arguments of gradients.
        by = {origin.by for part in origins for origin in part} - {RAW}
        learners, makers = [], by if self.effects & GRADIENTS else set()
        if not (self.effects or self.learnt) and self._applies_weights(args, leaves, origins):
            self.learnt, learners = {"region": "forward", "phase": "predict"}, [self]
        elif has_fresh and not self.learnt:
            if not self.effects & GRADIENTS:
                own = [self._returned_more(part) for part in leaves]
            judge = self._judge
            learners = _updaters(origins, makers) if makers else judge(any(own), has_same_weights)
        elif has_fresh and has_same_weights and self.effects & LOOPED:
            # An attack or a saliency: it may well belong to an evaluation.
            self.learnt["phase"], learners = "", [self]
        self.tries_left = 0 if self.learnt or (makers and has_fresh) else self.tries_left - 1
        return learners

    def _applies_weights(
        self, args: tuple[Any, ...], leaves: list[list[Any]], origins: list[list[ArrayOrigin]]
    ) -> bool:
        """Whether a call that derives no gradients applies weights of one model to a batch, which is noted.

        It may be the same batch each time, after other updates.
        """
        weights = [at for at, arg in enumerate(args) if are_weights(arg)]
        batch = {
            at: _size_of_batch(args[at], self.batch_axes)
            for at, part in enumerate(leaves)
            if not (at in weights or origins[at]) and all(map(is_data, part))
        }
        sizes = {size for size in batch.values() if size}
        if len(weights) != 1 or not sizes or self._returns_weights:
            return False
        pairs = zip(args, leaves, strict=True)
        if any(self._returned_more(part) and not is_model(arg) for arg, part in pairs):
            return False
        # Of several sizes, one may be that of statistics beside the weights: the items are not known.
        self.data = tuple(at for at in batch if batch[at] and len(sizes) == 1)
        return True

    def _returned_more(self, leaves: list[Any]) -> bool:
        """Whether any of the ``leaves`` is an array of the last result, and no number."""
        return any(leaf.ndim and is_in(self._returned, leaf) for leaf in leaves)

    def _find_data(
        self,
        args: tuple[Any, ...],
        leaves: list[list[Any]],
        origins: list[list[ArrayOrigin]],
        own: list[bool],
        before: dict[int, Any],
    ) -> bool:
        """Note which arguments may be the batch. Returns whether any of them is surely new data.

        Of each argument ``own`` says whether it holds this function's last result; ``before`` are the last
        arguments. What is new, no result and no weights is data. What follows from gradients may be a result
        as well, but to a function that derives none it may be data, if it is a batch.
        """
        results = [mine or bool(others) for mine, others in zip(own, origins, strict=True)]
        new = [
            any(is_data(leaf) and not is_in(before, leaf) for leaf in part) and not are_weights(arg)
            for arg, part in zip(args, leaves, strict=True)
        ]
        fresh = [is_new and not old for is_new, old in zip(new, results, strict=True)]
        if not (any(fresh) or self.effects & GRADIENTS):
            fresh = [each and not mine for each, mine in zip(new, own, strict=True)]
            fresh = [
                each and _size_of_batch(arg, self.batch_axes) > 0
                for each, arg in zip(fresh, args, strict=True)
            ]
        if any(results) or any(fresh):
            may_be = fresh if any(fresh) else [not old for old in results]
            self.data = tuple(at for at, is_data_arg in enumerate(may_be) if is_data_arg)
        return any(fresh)

    def _follow(self, leaves_of: list[list[Any]], origins: list[ArrayOrigin]) -> None:
        """Note from which calls for gradients the arguments follow, given the leaves of each argument."""
        self.follows = calls_of(origins)
        self._has_updated = any(origin.by is UPDATED for origin in origins)
        sources = {call.gradients for call in self.follows}
        if sources:
            self.source = (sources.pop(), len(self.follows)) if len(sources) == 1 else None
        if not any(origin.by is RAW for origin in origins):
            return
        # An update's other arguments, weights and moments, are shaped like the gradients; a batch is not.
        leaves = [leaf for part in leaves_of for leaf in part if is_data(leaf)]
        shapes = {leaf.shape for leaf in leaves if origins_of([leaf])}
        if all(leaf.shape in shapes for leaf in leaves):
            items = [call.items for call in self.follows]
            self.followed_items = sum(items) if all(items) else 0

    def _judge(self, has_own_result: bool, has_same_weights: bool) -> list[Jitted]:
        """Learn from a call with new data whether this function trains or predicts; itself if so."""
        if self.effects & GRADIENTS and has_own_result:
            self.learnt = {"phase": "train"}
        elif not (self.effects or has_own_result) and has_same_weights:
            self.learnt = {"region": "forward", "phase": "predict"}
        return [self] if self.learnt else []


def _updaters(origins: list[list[ArrayOrigin]], makers: set[Any]) -> list[Jitted]:
    """Learn which functions train: those of ``makers`` that are compiled, else those that derived gradients.

    ``makers`` made the arguments, with the ``origins``, of a function that derives gradients.
    """
    trained = [maker for maker in makers if isinstance(maker, Jitted)]
    if not trained and UPDATED not in makers:
        calls = calls_of(origin for part in origins for origin in part)
        trained = list({call.gradients.jitted for call in calls})
    trained = [jitted for jitted in trained if not jitted.learnt]
    for jitted in trained:
        jitted.learnt = {"phase": "train"}
    return trained


def loops_over(state: Any, slices: Any) -> dict[tuple[int, ...], bool]:
    """The first two dimensions of each array in ``slices``, and whether the first of them is time.

    It is where a table of as many rows as each slice, itself a table, is handed on: the state of a recurrent
    model for each item.
    """
    tables = [leaf.shape for leaf in jax.tree_util.tree_leaves(state) if numpy.ndim(leaf) > 1]
    found: dict[tuple[int, ...], bool] = {}
    for leaf in jax.tree_util.tree_leaves(slices):
        if numpy.ndim(leaf) > 1:
            rows = {shape[0] if len(shape) == 2 else 0 for shape in tables}
            is_time = numpy.ndim(leaf) == 3 and rows == {leaf.shape[1]}
            found[leaf.shape[:2]] = is_time or found.get(leaf.shape[:2], False)
    return found


def items_of(jitted: Jitted, args: Any) -> int:
    """The items of the batch among ``args``; 0 if none is a batch."""
    if jitted.tries_left:
        return _batch(jitted, args)[2]
    if jitted.batch is None:
        jitted.batch = _batch(jitted, args)[:2]
    at, key = jitted.batch
    try:
        batch = args[at] if key is None else args[at][key]
        if jitted.has_time_first:
            return int(batch.shape[1])
        return _leading_size(batch, jitted.batch_axes)
    except (AttributeError, IndexError, KeyError, TypeError):
        return 0  # it is called in another way this time


def _batch(jitted: Jitted, args: Any) -> tuple[int, Any, int]:
    """The position of the batch in ``args``, the key of an array in it (None for itself), and its items.

    A batch is the arguments that are arrays, or a tuple, list or dict of arrays alone, with equal leading
    sizes. Only arguments that may be data are considered. While these are not known, a first argument that is
    no array may be weights, and several batches must agree. The position is ``len(args)`` if there is none.
    """
    every, data = range(len(args)), jitted.data
    positions = every if data is None else [at for at in data if at in every]
    plain = {at: args[at] for at in positions if type(args[at]) in _ARRAYS and is_data(args[at])}
    candidates: list[tuple[Any, int | None]] = [(plain, None)]
    trees = [at for at in positions[data is None :] if type(args[at]) not in _ARRAYS]
    candidates += [(_parts(args[at]), at) for at in trees]
    batches: list[tuple[int, Any, int]] = []
    for parts, position in candidates:
        size = _common_size(parts, jitted.batch_axes)
        unsure = [part for part in parts.values() if size and _may_be_time(jitted, part.shape)]
        if unsure and not _goes_through_time(jitted, parts):
            return len(args), None, 0
        if size:
            first = next(iter(parts))
            if unsure:
                jitted.has_time_first, size = True, parts[first].shape[1]
            batches.append((first, None, size) if position is None else (position, first, size))
    if batches and (data or batches[0][1] is None or len({size for _, _, size in batches}) == 1):
        return batches[0]
    return len(args), None, 0


def _parts(value: Any) -> dict[Any, Any]:
    """What a tuple, list or dict holds, by its key; of anything else nothing."""
    if isinstance(value, (tuple, list)):
        return dict(enumerate(value))
    return value if type(value) is dict else {}


def _common_size(parts: dict[Any, Any], axes: int) -> int:
    """The leading size of all ``parts``; 0 if they differ in it, or if one is no array."""
    sizes = {_leading_size(part, axes) for part in parts.values()}
    return sizes.pop() if len(sizes) == 1 else 0


def _size_of_batch(value: Any, axes: int) -> int:
    """The leading size of an array, or of a tuple, list or dict of arrays alone with equal ones; else 0."""
    return _common_size({None: value} if type(value) in _ARRAYS else _parts(value), axes)


def _goes_through_time(jitted: Jitted, parts: dict[Any, Any]) -> bool:
    """Whether the loop that goes through ``parts`` goes through time: the second dimension is the items'."""
    if jitted.effects & LOOPED:  # what it hands on may be weights
        return False
    shapes = {part.shape[:2] for part in parts.values()}
    return len(shapes) == 1 and jitted.looped_over.get(shapes.pop(), False)


def _may_be_time(jitted: Jitted, shape: tuple[int, ...]) -> bool:
    """Whether the first dimension may be another one than that of the items.

    The compiled code goes through it slice by slice: it may be time, or count batches whose gradients are
    added up. If the second one is as large, that is the items of a time.
    """
    if shape[:2] not in jitted.looped_over:
        return False
    return shape[0] != shape[1] or bool(jitted.effects & LOOPED)


def _leading_size(value: Any, axes: int) -> int:
    """The product of the first ``axes`` dimensions of an array; 0 if it has fewer, or is no array."""
    shape = value.shape if type(value) in _ARRAYS else ()
    if axes == 1:
        return int(shape[0]) if shape else 0
    return prod(shape[:axes]) if len(shape) >= axes else 0
