"""Which arrays follow from gradients: this tells what updates weights outside the function that derives them.

Arrays are known by their ``id`` and weak references. They are followed in the first calls of functions only,
until it is known what these do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

import jax
import numpy

MOST = 64
"""Calls for gradients that one update may follow from: gradients of so many batches are added up."""


class Gradients:
    """The calls of one function that derives gradients."""

    def __init__(self, jitted: Any) -> None:
        self.jitted = jitted
        self.items: deque[int] = deque(maxlen=MOST)
        """Of each call since the last update; 0 if they are not known."""
        self._calls = 0

    def call(self, items: int) -> GradientCall:
        """Count another call, with so many items."""
        self._calls += 1
        return GradientCall(self, self._calls, items)

    def taken(self, calls: int) -> int:
        """The items of an update from the last ``calls``, or 0 if some are not known. Forgets all calls."""
        items = [*self.items][-calls:]
        self.items.clear()
        return sum(items) if all(items) else 0


class GradientCall(NamedTuple):
    """One call of a function that derives gradients, by its number."""

    gradients: Gradients
    number: int
    items: int


class ArrayOrigin(NamedTuple):
    """Which gradients an array follows from."""

    calls: frozenset[GradientCall]
    by: Any
    """What made the array of the gradients: RAW if it is one of them, EAGER for uncompiled code, UPDATED for
    a known optimizer, or the compiled function."""


RAW, EAGER, UPDATED = "raw", "eager", "updated"

_origins: dict[int, tuple[Any, ArrayOrigin]] = {}


def mark(made: Iterable[Any], calls: frozenset[GradientCall], by: Any) -> None:
    """Note that the arrays ``made`` follow from ``calls``, and were made ``by`` that."""
    origin = ArrayOrigin(calls, by)
    for array in made:
        _origins[id(array)] = ref(array, partial(_forget, id(array))), origin


def _forget(key: int, _: Any) -> None:
    _origins.pop(key, None)


def origins_of(given: list[Any]) -> list[ArrayOrigin]:
    """The origins of those arrays in ``given`` that follow from gradients."""
    if not _origins:
        return []
    entries = (_origins.get(id(array)) for array in given)
    pairs = zip(given, entries, strict=True)
    return [entry[1] for array, entry in pairs if entry is not None and entry[0]() is array]


def calls_of(origins: Iterable[ArrayOrigin]) -> frozenset[GradientCall]:
    """All calls for gradients in ``origins``."""
    return frozenset().union(*(origin.calls for origin in origins))


def is_followed() -> bool:
    """Whether any array alive follows from gradients."""
    return bool(_origins)


# --- weights by their form --------------------------------------------------------------------------

UPDATES = 64
"""From so many updates the forms of weights are noted: each model of a program has an update among them."""

_forms: set[Any] = set()
_updates_left = UPDATES
_models: dict[int, Any] = {}
"""Weak references to objects with weights that a function which trains has changed in place, by ``id``."""


def note_weights(tree: Any) -> None:
    """Note that ``tree`` are weights which an optimizer updated, traced or not."""
    global _updates_left
    if _updates_left:
        _updates_left -= 1
        leaves, structure = jax.tree_util.tree_flatten(tree)
        if len(leaves) > 1:  # a single array may have the shape of a batch
            _forms.add((structure, tuple(map(numpy.shape, leaves))))


def note_model(thing: Any) -> None:
    """Note that a function which trains has changed arrays of the object ``thing`` in place."""
    if any(leaf.ndim for leaf in arrays(thing)):  # metrics are numbers
        with suppress(TypeError):  # a list can have no weak reference
            _models[id(thing)] = ref(thing, partial(_forget_model, id(thing)))


def _forget_model(key: int, _: Any) -> None:
    _models.pop(key, None)


def is_model(thing: Any) -> bool:
    """Whether ``thing`` is an object that was trained in place, or has arrays of one alone, as a view of it.

    All of these arrays may be new at any time.
    """
    if not _models or is_in(_models, thing):
        return bool(_models)
    tables = {id(leaf) for leaf in arrays(thing) if leaf.ndim}
    models = [watch() for watch in [*_models.values()]]
    return bool(tables) and any(tables <= {*map(id, arrays(model))} for model in models)


def are_weights(tree: Any) -> bool:
    """Whether ``tree`` was trained in place, or has the form of weights that were updated.

    Gradients and moments have that form, too.
    """
    if is_model(tree):
        return True
    if not _forms:
        return False
    leaves, structure = jax.tree_util.tree_flatten(tree)
    return (structure, tuple(map(numpy.shape, leaves))) in _forms


# --- arrays by their identity ---------------------------------------------------------------------


def arrays(tree: Any) -> list[Any]:
    """The leaves of ``tree`` that are arrays of JAX or NumPy."""
    leaves = jax.tree_util.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, (jax.Array, numpy.ndarray))]


def is_data(array: Any) -> bool:
    """Whether an array may be data: it is no scalar, and no key of random numbers."""
    if array.ndim == 0 or jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        return False
    # Keys of the old form are plain integers: two for threefry, four for rbg.
    return not (array.dtype == numpy.uint32 and array.shape[-1] in (2, 4))


def watched(alive: list[Any]) -> dict[int, Any]:
    """Weak references to arrays, by ``id``."""
    return {id(array): ref(array) for array in alive}


def is_in(watched_arrays: dict[int, Any], array: Any) -> bool:
    """Whether ``array`` is one of them: another array may have the ``id`` of one that died."""
    watch = watched_arrays.get(id(array))
    return watch is not None and watch() is array
