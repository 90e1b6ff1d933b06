"""What the functions do that JAX compiles: learnt while they are traced, and from what they are called with.

One trains where an optimizer's update was traced in it, outside of a loop of the compiled code; or where
gradients were, it is called with what it gave before, and beside that with new data each time. If what it
gave went through another function first (``update(params, gradients)``), that one trains, with the items that
the first was called with; if through ``jax.tree.map`` alone, the first does. Nothing else is sure: a
simulation follows gradients, too. One predicts where it has no gradients and is called with the
same weights and new data, and with nothing that it gave before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from threading import local
from typing import Any
from weakref import ref

import numpy
from jax._src.array import ArrayImpl
from jax._src.core import trace_state_clean as is_untraced

from injector.voirfiles._followed import (
    EAGER,
    RAW,
    UPDATED,
    ArrayOrigin,
    GradientCall,
    Gradients,
    arrays,
    calls_of,
    is_data,
    is_followed,
    is_in,
    mark,
    origins_of,
    watched,
)

Learn = Callable[..., None]
"""``learn(jitted, region=…, phase=…)``: what all calls of a function are."""
GRADIENTS, UPDATE, LOOPED = 1, 2, 4
"""What a function does: it derives gradients, makes an update, makes any number of updates in a loop."""
TRIES, ACCUMULATED = 6, 40
"""Calls of one function, after the first, in which that is looked for; of one that derives gradients, those
of several batches may be added up for one update."""


class Jitted:
    """What is known of one function."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.does = 0
        self.tries = TRIES
        self.left_out = False
        """Whether its calls are known otherwise."""
        self.axes = 1
        """How many dimensions, the first ones, count the items of what it is called with."""
        self.data: tuple[int, ...] | None = None
        """Which arguments may be a batch, as far as that is known: new data at each call, or no results."""
        self.batch: tuple[int, Any] | None = None
        """Which argument, or item of one, says how many items there are, once that is known."""
        self.gradients = Gradients(self)
        """Its calls, where it derives some."""
        self.follows: frozenset[GradientCall] = frozenset()
        """Which calls for gradients this call follows."""
        self.takes: tuple[Gradients, int] | None = None
        """Whose calls it follows, and how many of them."""
        self.count: int | None = None
        """The items of this call, where they are those of what it follows."""
        self.called = 0
        """The items of the last call."""
        self.learnt: dict[str, str] = {}
        self._given: dict[int, Any] = {}
        self._before: dict[int, Any] | None = None
        """Arrays of the last result, and of the last arguments, by their identity: watched, not kept."""

    def remember(self, result: Any, args: tuple[Any, ...]) -> dict[str, str]:
        """A call has ended; what is learnt of all of them. It may have put new arrays into its ``args``."""
        before = self._before or {}
        changed = [leaf for leaf in arrays(args) if not is_in(before, leaf)]
        given = arrays(result) + changed
        self._given = watched(given)
        self._mark(given)
        if self.learnt:
            return {}
        if self.does & UPDATE:
            self.learnt = {"phase": "train"}
        elif self.does & LOOPED:
            self.learnt = {"what": f"{self.name}, which derives gradients in a loop"}
        elif self.does & GRADIENTS and self.tries == TRIES:
            self.tries = ACCUMULATED
        return self.learnt

    def _mark(self, given: list[Any]) -> None:
        if self.does == GRADIENTS and not self.learnt:
            mark(given, frozenset([self.gradients.call(self.called)]), RAW)
        elif self.follows:
            mark(given, self.follows, UPDATED if self.does & UPDATE else self)

    def compare(self, args: tuple[Any, ...]) -> list[Jitted]:
        """A call begins: compare it with the one before; of which functions something is learnt."""
        parts = [arrays(each) for each in args]
        origins = [origins_of(part) for part in parts]
        if not self.does & GRADIENTS:
            self._follow(parts, [each for part in origins for each in part])
        before, self._before = self._before, watched([leaf for part in parts for leaf in part])
        if before is None:
            return []
        own = [any(is_in(self._given, leaf) for leaf in part) for part in parts]
        fed = [mine or bool(others) for mine, others in zip(own, origins, strict=True)]
        new = [any(is_data(leaf) and not is_in(before, leaf) for leaf in part) for part in parts]
        fresh = [is_new and not old for is_new, old in zip(new, fed, strict=True)]
        if not (any(fresh) or self.does & GRADIENTS):  # what follows gradients may be data
            fresh = [is_new and not old for is_new, old in zip(new, own, strict=True)]
        if any(fed) or any(fresh):
            may_be = fresh if any(fresh) else [not old for old in fed]
            self.data = tuple(at for at, one in enumerate(may_be) if one)
        trees = [part for arg, part in zip(args, parts, strict=True) if part and part[0] is not arg]
        same = any(all(is_in(before, leaf) for leaf in tree) for tree in trees)
        # What has made of gradients what it is called with.
        by = {each.by for part in origins for each in part} - {RAW}
        found, makers = [], by if self.does & GRADIENTS else set()
        if any(fresh) and not self.learnt:
            found = _updaters(origins, makers) if makers else self._judge(any(own), same)
        self.tries = 0 if self.learnt or (makers and any(fresh)) else self.tries - 1
        return found

    def _follow(self, parts: list[list[Any]], origins: list[ArrayOrigin]) -> None:
        """The arguments of this call follow from gradients as ``origins`` say."""
        self.follows = calls_of(origins)
        sources = {call.gradients for call in self.follows}
        if sources:
            self.takes = (sources.pop(), len(self.follows)) if len(sources) == 1 else None
        if not any(origin.by is RAW for origin in origins):
            return
        # What an update is called with beside gradients is shaped like them; a batch is not.
        leaves = [leaf for part in parts for leaf in part if is_data(leaf)]
        shapes = {leaf.shape for leaf in leaves if origins_of([leaf])}
        if all(leaf.shape in shapes for leaf in leaves):
            every = [call.items for call in self.follows]
            self.count = sum(every) if all(every) else 0

    def _judge(self, is_fed: bool, same: bool) -> list[Jitted]:
        """What a call with new data is that ``is_fed`` a result, or has the ``same`` weights as before."""
        if self.does & GRADIENTS and is_fed:
            self.learnt = {"phase": "train"}
        elif not (self.does or is_fed) and same:
            self.learnt = {"region": "forward", "phase": "predict"}
        return [self] if self.learnt else []


def _updaters(origins: list[list[ArrayOrigin]], makers: set[Any]) -> list[Jitted]:
    """What trains, of what has made of gradients what the function is called with that derives them."""
    found = [maker for maker in makers if isinstance(maker, Jitted)]
    if not found and UPDATED not in makers:
        calls = calls_of(each for part in origins for each in part)
        found = list({call.gradients.jitted for call in calls})
    found = [each for each in found if not each.learnt]
    for each in found:
        each.learnt = {"phase": "train"}
    return found


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


def leave_out(thing: Any) -> Any:
    """The calls of ``thing`` are known otherwise."""
    jitted = known(thing)
    jitted.left_out, jitted.tries = True, 0
    return thing


def eager(function: Any) -> Any:
    """What stands for a ``function`` whose gradients are derived outside of compiled code."""
    while hasattr(function, "__wrapped__") or isinstance(function, partial):
        function = function.func if isinstance(function, partial) else function.__wrapped__
    code = getattr(function, "__code__", function)
    if id(code) not in _known:
        known(code).name = name_of(function)
        known(code).does = GRADIENTS
    return code


def begin(thing: Any, args: tuple[Any, ...], learn: Learn, changes: bool = False) -> bool:
    """A call begins; whether it is one, and not a part of what is being traced.

    ``changes`` says that it may put arrays into what it is called with.
    """
    jitted, calls, counts = known(thing), _open.calls, bool(is_untraced())
    if counts:  # an error may have left calls and loops
        calls.clear()
        _open.loops = 0
    calls.append((jitted, _open.loops, args if changes else ()))
    if counts:
        jitted.count = None
        if jitted.tries:
            for each in jitted.compare(args):
                learn(each, **each.learnt)
        if (
            jitted.count is None
            and jitted.takes is not None
            and jitted.learnt.get("phase") == "train"
        ):
            gradients, number = jitted.takes
            jitted.count = gradients.taken(number)
    return counts and not jitted.left_out


def trace(thing: Any) -> Any:
    """It is about to be traced, without being called."""
    if is_untraced():
        _open.calls[:] = [(known(thing), 0, ())]
        _open.loops = 0
    return thing


def traced(thing: Any, made: Any) -> None:
    """What was traced of ``thing`` is ``made``, or a later stage is: the same is known of it."""
    if is_untraced():
        _open.calls.clear()
    known(made, thing)


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


def enter_loop(body: Any, learn: Learn) -> bool:
    """A loop of compiled code is called; whether that is a call of its own, and not a part of what is being
    traced. What is done in it is done by its ``body``, any number of times.
    """
    counts = bool(is_untraced()) and begin(_loop(body), (), learn)
    _open.loops += 1
    return counts


def leave_loop(value: Any) -> Any:
    _open.loops -= 1
    return value


def end_loop(body: Any, result: Any, learn: Learn) -> Jitted:
    """A loop that was a call of its own has ended."""
    return end(_loop(body), result, learn)


def loop_name(body: Any) -> str:
    return f"loop of {known(_loop(body)).name}"


def _loop(body: Any) -> Any:
    """What stands for the loops over ``body``, which JAX may have wrapped: the code of the function."""
    while isinstance(body, partial):
        body = body.func
    if getattr(body, "__module__", None) == "jax._src.lax.control_flow.loops":  # `fori_loop`
        for cell in body.__closure__ or ():
            inner = cell.cell_contents
            inner = inner() if isinstance(inner, ref) else inner
            if callable(inner):
                return _loop(inner)
    code = getattr(body, "__code__", body)
    if id(code) not in _known:
        known(code).name = name_of(body)
    return code


def follow(args: Any, result: Any) -> None:
    """Code that is not compiled has made ``result`` of ``args``."""
    if is_followed() and is_untraced():
        origins = origins_of(arrays(args))
        if origins:
            by = UPDATED if any(origin.by is UPDATED for origin in origins) else EAGER
            mark(arrays(result), calls_of(origins), by)


def updated(result: Any) -> Any:
    """An optimizer has made ``result``."""
    if is_followed() and is_untraced():
        mark(arrays(result), frozenset(), UPDATED)
    return result


def items(jitted: Jitted, args: Any) -> int:
    """How many items a function is called with, or what it follows was; 0 where that is not known."""
    if jitted.count is not None:
        return jitted.count
    jitted.called = _items(jitted, args)
    if jitted.does & GRADIENTS:
        jitted.gradients.items.append(jitted.called)
    return jitted.called


def _items(jitted: Jitted, args: Any) -> int:
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
    As long as it is not known what is one, the first argument may be weights.
    """
    every, data = range(len(args)), jitted.data
    places = every if data is None else [at for at in data if at in every]
    alone = {at: args[at] for at in places if type(args[at]) in _ARRAYS and is_data(args[at])}
    batches: list[tuple[Any, int | None]] = [(alone, None)]
    for at in places[1:] if data is None else places:
        if type(args[at]) in (tuple, list):
            batches.append((dict(enumerate(args[at])), at))
        elif type(args[at]) is dict:
            batches.append((args[at], at))
    found: list[tuple[int, Any, int]] = []
    for parts, outer in batches:
        sizes = {_leading(each, jitted.axes) for each in parts.values()}
        if len(sizes) == 1 and 0 not in sizes:
            first = next(iter(parts))
            found.append((first, None, *sizes) if outer is None else (outer, first, *sizes))
    if found and (data or found[0][1] is None or len({each[2] for each in found}) == 1):
        return found[0]
    return len(args), None, 0


_ARRAYS = (ArrayImpl, numpy.ndarray)


def _leading(value: Any, axes: int) -> int:
    """The first dimension of an array, or the product of several; 0 of anything else."""
    shape = value.shape if type(value) in _ARRAYS else ()
    if axes == 1:
        return int(shape[0]) if shape else 0
    return prod(shape[:axes]) if len(shape) >= axes else 0


def _watch(thing: Any, died: Callable[[Any], object]) -> Any:
    try:
        return ref(thing, died)
    except TypeError:
        return thing  # it is kept, so that its identity stays its own
