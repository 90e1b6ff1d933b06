"""The calls, traces and loops of functions that JAX compiles, as they begin and end.

What they tell of a function is noted in its :class:`.Jitted`: while it is traced, and from the arrays of its
calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import local
from typing import Any
from weakref import ref

from jax._src.core import trace_state_clean as is_untraced

from injector.voirfiles._followed import (
    EAGER,
    UPDATED,
    arrays,
    calls_of,
    is_followed,
    mark,
    note_weights,
    origins_of,
)
from injector.voirfiles._jitted import (
    DERIVES,
    GRADIENTS,
    LOOPED,
    Jitted,
    Learn,
    items_of,
    loops_over,
)


class _OpenCalls(local):
    """The calls that a thread is in."""

    def __init__(self) -> None:
        self.calls: list[tuple[Jitted, int, tuple[Any, ...]]] = []
        """Outermost first: the function, the number of loops around its call, and arguments it may change."""
        self.loops = 0
        """How many loops of compiled code the thread is in."""


_open = _OpenCalls()
_jitted_by_id: dict[int, tuple[Any, Jitted]] = {}


def jitted_of(thing: Any, function: Any = None) -> Jitted:
    """What is known of ``thing``: the same for all that was compiled from one ``function``, if that is given,
    since only the first call of these is traced.
    """
    entry = _jitted_by_id.get(id(thing))
    if entry is None:
        jitted = Jitted(name_of(thing)) if function is None else jitted_of(function)
        key = id(thing)
        watch = _watch_or_keep(thing, lambda _: _jitted_by_id.pop(key, None))
        entry = _jitted_by_id[key] = watch, jitted
    return entry[1]


def name_of(thing: Any) -> str:
    """The name of a function, or of the class of any other callable."""
    while isinstance(thing, partial):
        thing = thing.func
    return str(getattr(thing, "__name__", None) or type(thing).__name__)


def leave_out(thing: Any) -> Any:
    """Have no calls of ``thing`` recorded here, since another probe records them. Returns ``thing``."""
    jitted = jitted_of(thing)
    jitted.is_left_out, jitted.tries_left = True, 0
    return thing


def eager_code(function: Any) -> Any:
    """The code of a ``function`` whose gradients are derived outside of compiled code: it stands for it."""
    while hasattr(function, "__wrapped__") or isinstance(function, partial):
        function = function.func if isinstance(function, partial) else function.__wrapped__
    code = getattr(function, "__code__", function)
    if id(code) not in _jitted_by_id:
        jitted_of(code).name = name_of(function)
        jitted_of(code).effects = GRADIENTS
    return code


def begin_call(thing: Any, args: tuple[Any, ...], learn: Learn, changes: bool = False) -> bool:
    """Note the begin of a call. Returns whether to record it: it is executed, not traced into another one.

    ``changes`` means that it may put arrays into ``args``.
    """
    jitted, calls, is_executed = jitted_of(thing), _open.calls, bool(is_untraced())
    if is_executed:  # an error may have left calls and loops
        calls.clear()
        _open.loops = 0
    calls.append((jitted, _open.loops, args if changes else ()))
    if is_executed:
        jitted.followed_items = None
        if jitted.tries_left:
            for learner in jitted.began(args):
                learn(learner, **learner.learnt)
        if (
            jitted.followed_items is None
            and jitted.source is not None
            and jitted.learnt.get("phase") == "train"
        ):
            gradients, number = jitted.source
            jitted.followed_items = gradients.taken(number)
    return is_executed and not jitted.is_left_out


def begin_trace(thing: Any) -> Any:
    """Note that ``thing`` is about to be traced without being called. Returns it."""
    if is_untraced():
        _open.calls[:] = [(jitted_of(thing), 0, ())]
        _open.loops = 0
    return thing


def end_trace(thing: Any, made: Any) -> None:
    """Have ``made``, which tracing ``thing`` or a later stage of compiling returned, share what is known."""
    if is_untraced():
        _open.calls.clear()
    jitted_of(made, thing)


def end_call(thing: Any, result: Any, learn: Learn) -> Jitted:
    """Note the end of a call. Returns what is known of ``thing``. If it raised, ``result`` is of no use."""
    jitted, calls = jitted_of(thing), _open.calls
    if not calls or calls[-1][0] is not jitted:
        return jitted
    _, _, args = calls.pop()
    if calls:
        outer, loops, _ = calls[-1]
        outer.add_loops(jitted.looped_over)
        if jitted.effects:
            outer.effects |= jitted.effects if _open.loops == loops else LOOPED
    elif jitted.tries_left:
        learnt = jitted.ended(result, args)
        if learnt:
            learn(jitted, **learnt)
    return jitted


def note_effect(what: int) -> bool:
    """Whether ``what`` happens now; else note it as an effect of the functions that are being traced."""
    if is_untraced():
        return True
    for jitted, loops, _ in _open.calls:
        jitted.effects |= what if _open.loops == loops else LOOPED
    return False


def enter_loop(body: Any, learn: Learn, state: Any = None, slices: Any = None) -> bool:
    """Note the begin of a loop of compiled code over ``body``, which may run any number of times.

    ``state`` is what it begins with and hands on, ``slices`` what it goes through, one slice at a time.
    Returns whether it is a call of its own, not traced into another one.
    """
    is_own = bool(is_untraced()) and begin_call(_loop_code(body), (), learn)
    if not is_own:
        found = loops_over(state, slices)
        for jitted, _, _ in _open.calls:
            jitted.add_loops(found)
    _open.loops += 1
    return is_own


def leave_loop(value: Any) -> Any:
    """Note the end of a loop, however it ended. Returns ``value``."""
    _open.loops -= 1
    return value


def end_loop(body: Any, result: Any, learn: Learn) -> Jitted:
    """Note the result of a loop that was a call of its own. Returns what is known of its body."""
    return end_call(_loop_code(body), result, learn)


def loop_name(body: Any) -> str:
    """``"loop of simulate"``."""
    return f"loop of {jitted_of(_loop_code(body)).name}"


def _loop_code(body: Any) -> Any:
    """The code of ``body``, taken out of JAX's own wrappers: it stands for the loops over that function."""
    while isinstance(body, partial):
        body = body.func
    if getattr(body, "__module__", None) == "jax._src.lax.control_flow.loops":  # `fori_loop`
        for cell in body.__closure__ or ():
            inner = cell.cell_contents
            inner = inner() if isinstance(inner, ref) else inner
            if callable(inner):
                return _loop_code(inner)
    code = getattr(body, "__code__", body)
    if id(code) not in _jitted_by_id:
        jitted_of(code).name = name_of(body)
    return code


def follow_eager(args: Any, result: Any) -> None:
    """Note that uncompiled code made ``result`` of ``args``: it follows from the same gradients."""
    if is_followed() and is_untraced():
        origins = origins_of(arrays(args))
        if origins:
            by = UPDATED if any(origin.by is UPDATED for origin in origins) else EAGER
            mark(arrays(result), calls_of(origins), by)


def learn_from_update(updates: Any, learn: Learn) -> Any:
    """Learn which functions derived the gradients that an optimizer outside of compiled code updates by.

    Returns ``updates``.
    """
    if is_followed() and is_untraced():
        for call in calls_of(origins_of(arrays(updates))):
            jitted = call.gradients.jitted
            if not jitted.learnt:
                jitted.learnt = {"region": "gradients", "phase": DERIVES}
                learn(jitted, **jitted.learnt)
    return updates


def mark_updated(result: Any) -> Any:
    """Note that an optimizer made ``result``. Returns it."""
    note_weights(result)
    if is_followed() and is_untraced():
        mark(arrays(result), frozenset(), UPDATED)
    return result


def items_of_call(thing: Any, args: Any) -> int:
    """The items of a call that goes on, or of the calls that it follows from; 0 if they are not known."""
    jitted = jitted_of(thing)
    if jitted.followed_items is not None:
        return jitted.followed_items
    jitted.last_items = items_of(jitted, args)
    if jitted.effects & GRADIENTS:
        jitted.gradients.items.append(jitted.last_items)
    return jitted.last_items


def _watch_or_keep(thing: Any, died: Callable[[Any], object]) -> Any:
    """A weak reference to ``thing``, or ``thing`` if it can have none: kept, its ``id`` stays its own."""
    try:
        return ref(thing, died)
    except TypeError:
        return thing
