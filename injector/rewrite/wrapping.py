"""Stand-ins for callables without Python code to rewrite, which call hooks around the call.

A stand-in answers every question as the object for which it stands (type tests, attributes, equality,
signature, pickling), and is put where that was found. It sees a call from outside only, and so has the events
around one: ``#enter``, ``#exit``, ``#value`` and ``#error``.
"""

from __future__ import annotations

import _thread
import builtins
import sys
import types
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from .request import Request

VARIABLES = ("#enter", "#exit", "#value", "#error", "#scope")
"""The events of a callable whose code cannot be seen."""

Define = Callable[[Any, Any], None]

_hooks = builtins.__dict__


class _Plan:
    """The hooks of one stand-in, by their events and in the order in which they are called."""

    __slots__ = ("enter", "error", "in_hooks", "leave", "requests", "scopes", "value")

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.in_hooks: set[int] = set()
        """Threads that are in a hook, whose own calls are no events: a hook on `len` would call itself."""
        self.scopes: list[str] = []
        self.enter: list[str] = []
        self.leave: list[str] = []
        self.value: list[str] = []
        self.error: list[str] = []

    def add(self, request: Request) -> None:
        if request in self.requests:
            return
        self.requests.append(request)
        hook = request.hook
        if request.variable == "#scope":
            self.scopes.append(hook)
        elif request.variable == "#enter":
            self.enter.append(hook)
        elif request.variable == "#exit":  # in reverse order, so that the spans of two hooks nest
            self.leave.insert(0, hook)
        elif request.variable == "#error":
            self.error.append(hook)
        elif request.override:  # first, so that others observe what it returns
            self.value.insert(0, hook)
        else:
            self.value.append(hook)


def _is_own(caller: types.FrameType | None) -> bool:
    """Whether a call comes from this package, whose own calls are no events of the program.

    There is no caller if a thread begins with the call.
    """
    return caller is not None and str(caller.f_globals.get("__name__")).startswith(_OWN)


_OWN = __name__.partition(".")[0] + "."


class _InHooks:
    """Marks this thread as being in hooks: its calls of the stand-in are then not the program's."""

    __slots__ = ("_here", "_threads")

    def __init__(self, threads: set[int]) -> None:
        self._threads = threads
        self._here = _thread.get_ident()

    def __enter__(self) -> None:
        self._threads.add(self._here)

    def __exit__(self, *_: object) -> None:
        self._threads.discard(self._here)


_CALLED_ON_OBJECTS = frozenset({"__reduce_ex__", "__deepcopy__", "__mro_entries__"})
"""Methods that Python looks up on the object rather than on its type, and that a stand-in answers itself."""


class StandIn:
    """Stands for a callable that is no method: calling it on an instance passes no ``self``."""

    __slots__ = ("__weakref__", "_plan", "_target")

    def __init__(self, target: Any, plan: _Plan) -> None:
        _set_target(self, target)
        _set_plan(self, plan)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        # Hooks are called from this very frame, written out one by one: a scope is entered and left by the
        # same frame, by which activations are distinguished.
        plan = _plan(self)
        if (plan.in_hooks and _thread.get_ident() in plan.in_hooks) or _is_own(
            sys._getframe().f_back
        ):
            return _target(self)(*args, **kwargs)
        with _InHooks(plan.in_hooks):
            for name in plan.scopes:
                _hooks[name + "+"]()
            for name in plan.enter:
                _hooks[name](True)
        try:
            result = _target(self)(*args, **kwargs)
        except BaseException as error:
            # A function in C has no line in a traceback, and so this frame is taken out of it.
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            with _InHooks(plan.in_hooks):
                for name in plan.error:
                    _hooks[name](error)
                for name in plan.leave:
                    _hooks[name](True)
                for name in plan.scopes:
                    _hooks[name + "-"]()
            raise
        with _InHooks(plan.in_hooks):
            for name in plan.value:
                result = _hooks[name](result)
            for name in plan.leave:
                _hooks[name](True)
            for name in plan.scopes:
                _hooks[name + "-"]()
        return result

    def __getattribute__(self, name: str) -> Any:
        if name in _CALLED_ON_OBJECTS:
            # AttributeError if this kind has no such method.
            return object.__getattribute__(self, name)
        return getattr(_target(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_target(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_target(self), name)

    def __repr__(self) -> str:
        return repr(_target(self))

    def __str__(self) -> str:
        return str(_target(self))

    def __dir__(self) -> Iterable[str]:
        return dir(_target(self))

    def __eq__(self, other: object) -> Any:
        return _target(self) == unwrapped(other)

    def __ne__(self, other: object) -> Any:
        return _target(self) != unwrapped(other)

    def __hash__(self) -> int:
        return hash(_target(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        target = _target(self)
        try:
            reduced = target.__reduce_ex__(protocol)
        except TypeError:
            # Functions and classes refuse: `pickle` treats them apart, and writes their name.
            reduced = getattr(target, "__qualname__", None)
        if not isinstance(reduced, str) or self is _by_name(target, reduced):
            return reduced
        # The name leads elsewhere, so pickle would refuse this object: what is pickled is the target itself.
        return itemgetter(0), ((target,),)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memory: Any) -> Any:
        import copy

        target = _target(self)
        copied = copy.deepcopy(target, memory)
        return self if copied is target else copied


class BindingStandIn(StandIn):
    """Stands for a function: accessed on an instance, it becomes a bound method."""

    __slots__ = ()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        target = _target(self)
        bound = target.__get__(instance, owner)
        return self if instance is None or bound is target else types.MethodType(self, instance)


class ClassStandIn(StandIn):
    """Stands for a class: it can still be a base, and be used in ``isinstance`` and ``issubclass``."""

    __slots__ = ()

    def __mro_entries__(self, bases: Any) -> tuple[Any, ...]:
        return (_target(self),)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, _target(self))

    def __subclasscheck__(self, cls: Any) -> bool:
        return issubclass(unwrapped(cls), _target(self))

    def __getitem__(self, item: Any) -> Any:
        return _target(self)[item]

    def __or__(self, other: Any) -> Any:
        return _target(self) | other

    def __ror__(self, other: Any) -> Any:
        return other | _target(self)


# The descriptors of the slots themselves: attribute access on a stand-in leads to its target.
_target = StandIn._target.__get__  # type: ignore[attr-defined]
_set_target = StandIn._target.__set__  # type: ignore[attr-defined]
_plan = StandIn._plan.__get__  # type: ignore[attr-defined]
_set_plan = StandIn._plan.__set__  # type: ignore[attr-defined]


def is_stand_in(thing: object) -> bool:
    """Whether ``thing`` is a stand-in, although its ``__class__`` is that of its target."""
    return issubclass(type(thing), StandIn)


def unwrapped(thing: Any) -> Any:
    """The object for which ``thing`` stands, or ``thing`` itself."""
    return _target(thing) if is_stand_in(thing) else thing


def wrap(target: Any, request: Request, define: Define) -> Any:
    """A stand-in for ``target`` with the hook of ``request``; ``target`` itself if it is a stand-in already.

    ``define`` is called with a new one and its target.
    """
    if is_stand_in(target):
        _plan(target).add(request)
        return target
    plan = _Plan()
    plan.add(request)
    kind = StandIn
    if isinstance(target, type):
        kind = ClassStandIn
    elif hasattr(type(target), "__get__"):
        kind = BindingStandIn
    stand_in = kind(target, plan)
    define(stand_in, target)
    return stand_in


def _by_name(target: Any, qualified: str) -> Any:
    """The object that unpickling by this qualified name would find."""
    holder: Any = sys.modules.get(getattr(target, "__module__", None) or "builtins")
    for name in qualified.split("."):
        holder = getattr(holder, name, None)
    return holder
