"""Which arrays follow from gradients: to know what updates weights outside of the function that derives them.

Arrays are known by their identity, and watched, not kept: in the first calls of functions, until it is known
what these do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

import jax
import numpy

MOST = 64
"""Calls for gradients, at most, that one update follows: gradients of so many batches are added up."""


class Gradients:
    """The calls of one function that derives gradients: how many items each was called with."""

    def __init__(self, jitted: Any) -> None:
        self.jitted = jitted
        self.items: deque[int] = deque(maxlen=MOST)
        """Of the calls since the last update."""
        self._calls = 0

    def call(self, items: int) -> GradientCall:
        """Another call."""
        self._calls += 1
        return GradientCall(self, self._calls, items)

    def taken(self, calls: int) -> int:
        """The items of the last ``calls``; 0 where one of them is not known. They are an update's."""
        found = [*self.items][-calls:]
        self.items.clear()
        return sum(found) if all(found) else 0


class GradientCall(NamedTuple):
    """One of these calls."""

    gradients: Gradients
    number: int
    items: int


class ArrayOrigin(NamedTuple):
    """What an array follows from."""

    calls: frozenset[GradientCall]
    by: Any
    """What made it of them: RAW for nothing, EAGER for code that is not compiled, UPDATED for an update
    that is known as one, or the function."""


RAW, EAGER, UPDATED = "raw", "eager", "updated"

_origins: dict[int, tuple[Any, ArrayOrigin]] = {}


def mark(made: Iterable[Any], calls: frozenset[GradientCall], by: Any) -> None:
    """These arrays, ``made`` ``by`` that, follow from ``calls``."""
    origin = ArrayOrigin(calls, by)
    for array in made:
        _origins[id(array)] = ref(array, partial(_died, id(array))), origin


def _died(key: int, _: Any) -> None:
    _origins.pop(key, None)


def origins_of(given: list[Any]) -> list[ArrayOrigin]:
    """What those of the arrays ``given`` follow from that follow from gradients."""
    if not _origins:
        return []
    found = (_origins.get(id(array)) for array in given)
    pairs = zip(given, found, strict=True)
    return [each[1] for array, each in pairs if each is not None and each[0]() is array]


def calls_of(origins: Iterable[ArrayOrigin]) -> frozenset[GradientCall]:
    return frozenset().union(*(origin.calls for origin in origins))


def is_followed() -> bool:
    """Whether there is any such array."""
    return bool(_origins)


# --- arrays by their identity ---------------------------------------------------------------------


def arrays(tree: Any) -> list[Any]:
    leaves = jax.tree_util.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, (jax.Array, numpy.ndarray))]


def is_data(array: Any) -> bool:
    """Whether it may be data: no number, no key of random numbers."""
    if array.ndim == 0 or jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        return False
    return not (array.dtype == numpy.uint32 and array.shape[-1] in (2, 4))


def watched(found: list[Any]) -> dict[int, Any]:
    return {id(array): ref(array) for array in found}


def is_in(those: dict[int, Any], array: Any) -> bool:
    found = those.get(id(array))
    return found is not None and found() is array
