"""What the functions do that JAX compiles: learnt while they are traced, and from what they are called with.

One trains where an optimizer's update was traced in it, outside of a loop of the compiled code; or where
gradients were, it is called with what it gave before, and beside that with new data each time. Nothing else
is sure: a simulation follows gradients, too. One predicts where it has no gradients and is called with the
same weights and new data, and with nothing that it gave before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from threading import local
from typing import Any
from weakref import ref

import jax
import numpy
from jax._src.array import ArrayImpl
from jax._src.core import trace_state_clean as is_untraced

Learn = Callable[..., None]
"""``learn(jitted, region=…, phase=…)``: what all calls of a function are."""
GRADIENTS, UPDATE, LOOPED = 1, 2, 4
"""What a function does: it derives gradients, makes an update, makes any number of updates in a loop."""
TRIES = 6
"""Calls of one function, after the first, in which that is looked for."""


class Jitted:
    """What is known of one function."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.does = 0
        self.tries = TRIES
        self.axes = 1
        """How many dimensions, the first ones, count the items of what it is called with."""
        self.data: tuple[int, ...] | None = None
        """Which arguments may be a batch, as far as that is known: new data at each call, or no results."""
        self.batch: tuple[int, Any] | None = None
        """Which argument, or item of one, says how many items there are, once that is known."""
        self._learnt: dict[str, str] = {}
        self._given: dict[int, Any] = {}
        self._before: dict[int, Any] | None = None
        """Arrays of the last result, and of the last arguments, by their identity: watched, not kept."""

    def remember(self, result: Any, args: tuple[Any, ...]) -> dict[str, str]:
        """A call has ended; what is learnt of all of them. It may have put new arrays into its ``args``."""
        before = self._before or {}
        changed = [leaf for leaf in _arrays(args) if not _is_in(before, leaf)]
        self._given = _watched(_arrays(result) + changed)
        if self._learnt:
            return {}
        if self.does & UPDATE:
            self._learnt = {"phase": "train"}
        elif self.does & LOOPED:
            self._learnt = {"what": f"{self.name}, which derives gradients in a loop"}
        return self._learnt

    def compare(self, args: tuple[Any, ...]) -> dict[str, str]:
        """A call begins: compare it with the one before; what is learnt of all of them."""
        parts = [_arrays(each) for each in args]
        before, self._before = self._before, _watched([leaf for part in parts for leaf in part])
        if before is None:
            return {}
        fed = [any(_is_in(self._given, leaf) for leaf in part) for part in parts]
        new = [any(_is_data(leaf) and not _is_in(before, leaf) for leaf in part) for part in parts]
        fresh = [is_new and not old for is_new, old in zip(new, fed, strict=True)]
        if any(fed) or any(fresh):
            may_be = fresh if any(fresh) else [not old for old in fed]
            self.data = tuple(at for at, one in enumerate(may_be) if one)
        trees = [part for arg, part in zip(args, parts, strict=True) if part and part[0] is not arg]
        same = any(all(_is_in(before, leaf) for leaf in tree) for tree in trees)
        learnt = {} if self._learnt or not any(fresh) else self._judge(any(fed), same)
        self._learnt = self._learnt or learnt
        self.tries = 0 if self._learnt else self.tries - 1
        return learnt

    def _judge(self, is_fed: bool, same: bool) -> dict[str, str]:
        """What a call with new data is that ``is_fed`` a result, or has the ``same`` weights as before."""
        if self.does & GRADIENTS and is_fed:
            return {"phase": "train"}
        if self.does or is_fed or not same:
            return {}
        return {"region": "forward", "phase": "predict"}


class _Calls(local):
    """The calls that a thread is in, outermost first, each with the loops around it; the loops now."""

    def __init__(self) -> None:
        self.calls: list[tuple[Jitted, int, tuple[Any, ...]]] = []
        self.loops = 0


_open = _Calls()
_known: dict[int, tuple[Any, Jitted]] = {}


def known(thing: Any, function: Any = None) -> Jitted:
    """What is known of ``thing``, or of the ``function`` that it was compiled from: one is traced once."""
    found = _known.get(id(thing))
    if found is None:
        jitted = Jitted(name_of(thing)) if function is None else known(function)
        key = id(thing)
        found = _known[key] = _watch(thing, lambda _: _known.pop(key, None)), jitted
    return found[1]


def name_of(thing: Any) -> str:
    while isinstance(thing, partial):
        thing = thing.func
    return str(getattr(thing, "__name__", None) or type(thing).__name__)


def begin(thing: Any, args: tuple[Any, ...], learn: Learn, changes: bool = False) -> bool:
    """A call begins; whether it is one, and not a part of what is being traced.

    ``changes`` says that it may put arrays into what it is called with.
    """
    jitted, calls, counts = known(thing), _open.calls, bool(is_untraced())
    if counts:  # an error may have left calls and loops
        calls.clear()
        _open.loops = 0
    calls.append((jitted, _open.loops, args if changes else ()))
    if counts and jitted.tries:
        learnt = jitted.compare(args)
        if learnt:
            learn(jitted, **learnt)
    return counts


def end(thing: Any, result: Any, learn: Learn) -> Jitted:
    """Such a call has ended; what is known of ``thing``. ``result`` is anything where it raised."""
    jitted, calls = known(thing), _open.calls
    if not calls or calls[-1][0] is not jitted:
        return jitted
    _, _, args = calls.pop()
    if calls:
        if jitted.does:
            outer, loops, _ = calls[-1]
            outer.does |= jitted.does if _open.loops == loops else LOOPED
    elif jitted.tries:
        learnt = jitted.remember(result, args)
        if learnt:
            learn(jitted, **learnt)
    return jitted


def note(what: int) -> bool:
    """Whether ``what`` is done now; else it will be each time by the functions that are traced."""
    if is_untraced():
        return True
    for jitted, loops, _ in _open.calls:
        jitted.does |= what if _open.loops == loops else LOOPED
    return False


def enter_loop(value: Any) -> Any:
    """The body of a loop of compiled code is about to be traced."""
    _open.loops += 1
    return value


def leave_loop(value: Any) -> Any:
    _open.loops -= 1
    return value


def items(jitted: Jitted, args: Any) -> int:
    """The first dimension of the batch that a function is called with; 0 where no argument is one."""
    if jitted.tries:
        return _batch(jitted, args)[2]
    if jitted.batch is None:
        jitted.batch = _batch(jitted, args)[:2]
    at, key = jitted.batch
    try:
        return _leading(args[at] if key is None else args[at][key], jitted.axes)
    except (IndexError, KeyError, TypeError):  # it is called otherwise
        return 0


def _batch(jitted: Jitted, args: Any) -> tuple[int, Any, int]:
    """Which argument is the batch, or which item of it an array, and the first dimension of all of these.

    A batch is an array beside others, or a tuple, list or map of nothing but arrays, and no earlier result.
    """
    every, data = range(len(args)), jitted.data
    places = every if data is None else [at for at in data if at in every]
    arrays = {at: args[at] for at in places if type(args[at]) in _ARRAYS and _is_data(args[at])}
    batches: list[tuple[Any, int | None]] = [(arrays, None)]
    for at in () if data is None else places:  # as long as nothing is known, it may be weights
        if type(args[at]) in (tuple, list):
            batches.append((dict(enumerate(args[at])), at))
        elif type(args[at]) is dict:
            batches.append((args[at], at))
    for parts, outer in batches:
        sizes = {_leading(each, jitted.axes) for each in parts.values()}
        if len(sizes) == 1 and 0 not in sizes:
            first = next(iter(parts))
            return (first, None, sizes.pop()) if outer is None else (outer, first, sizes.pop())
    return len(args), None, 0


_ARRAYS = (ArrayImpl, numpy.ndarray)


def _leading(value: Any, axes: int) -> int:
    """The first dimension of an array, or the product of several; 0 of anything else."""
    shape = value.shape if type(value) in _ARRAYS else ()
    if axes == 1:
        return int(shape[0]) if shape else 0
    return prod(shape[:axes]) if len(shape) >= axes else 0


def _arrays(tree: Any) -> list[Any]:
    leaves = jax.tree_util.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, (jax.Array, numpy.ndarray))]


def _is_data(array: Any) -> bool:
    """Whether it may be data: no number, no key of random numbers."""
    if array.ndim == 0 or jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        return False
    return not (array.dtype == numpy.uint32 and array.shape[-1] in (2, 4))


def _watched(arrays: list[Any]) -> dict[int, Any]:
    return {id(array): ref(array) for array in arrays}


def _is_in(watched: dict[int, Any], array: Any) -> bool:
    found = watched.get(id(array))
    return found is not None and found() is array


def _watch(thing: Any, died: Callable[[Any], object]) -> Any:
    try:
        return ref(thing, died)
    except TypeError:
        return thing  # it is kept, so that its identity stays its own
