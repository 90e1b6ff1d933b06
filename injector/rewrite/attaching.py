"""Hooks on what is there: an object, or what a dotted name leads to on a live module.

A Python function, however it was reached (as a method, through a decorator, inherited), gets its hook
in its own code, in the module that defines it. What was reached through an instance or a subclass is
distinguished at run time by the function's first argument. Everything else that can be called gets a
stand-in where it was found.
"""

from __future__ import annotations

import sys
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from . import wrapping
from .exchange import instrument_function
from .objects import Attribute, OneClass, OneObject, close, find, function_at, inside
from .request import MAIN, Match, Request, Unmatched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .engine import Engine

    Test = Callable[[Any], bool]


class Binding:
    """``"injector:7&"``: called where a module binds a name whose rest is found on the value."""

    def __init__(self, engine: Engine, request: Request) -> None:
        self._engine = engine
        self._request = request
        self.called = False

    def __call__(self, value: Any) -> Any:
        self.called = True
        request, engine = self._request, self._engine
        try:
            if len(request.path) > 1:
                attach_path(engine, value, request.path[1:], request)
                return value
            holder = ModuleType(request.module)
            vars(holder)[request.path[0]] = value
            place = Attribute(holder, request.path[0], value, None)
            _attach_place(engine, place, request)
            return vars(holder)[request.path[0]]
        except Exception as error:
            engine.report(Unmatched(request, f"could not be attached: {error!r}"))
            return value


class StarBinding:
    """``"injector:7*"``: called after each ``import *``, which may have brought the requested name."""

    def __init__(self, engine: Engine, request: Request, last: int) -> None:
        self._engine = engine
        self._request = request
        self._last = last
        self._found = False

    def __call__(self) -> None:
        frame = sys._getframe(1)
        request, name, namespace = self._request, self._request.path[0], frame.f_globals
        if name in namespace:
            self._found = True
            namespace[name] = Binding(self._engine, request)(namespace[name])
        elif request.module == MAIN and frame.f_lineno >= self._last and not self._found:
            self._engine.not_found(request)


def attach_path(engine: Engine, start: Any, path: tuple[str, ...], request: Request) -> None:
    """Attach to what ``path`` leads to from ``start``; reports an Unmatched where it leads nowhere."""
    if not path:
        engine.not_found(request)
        return
    holder = start
    place = None
    for depth, name in enumerate(path):
        inner = inside(holder) if place is None else function_at(place)
        if isinstance(inner, FunctionType) and instrument_function(
            engine, inner, request, inside=path[depth:]
        ):
            return
        place = find(holder, name)
        if place is None:
            engine.report(_nothing_there(holder, name, request))
            return
        holder = place.raw
    assert place is not None
    _attach_place(engine, place, request)


def _nothing_there(holder: Any, name: str, request: Request) -> Unmatched:
    where = getattr(holder, "__qualname__", None) or getattr(holder, "__name__", "an object")
    names = {*getattr(holder, "__dict__", ()), *getattr(type(holder), "__dict__", ())}
    return Unmatched(request, f"{name} not found in {where}", close(name, names))


def attach_object(engine: Engine, target: Any, request: Request) -> None:
    """Attach to ``target`` itself, wherever it is used."""
    target = wrapping.unwrapped(target)
    inner = inside(target)
    if isinstance(target, type):
        _attach_class(engine, target, request, None)
    elif isinstance(inner, FunctionType):
        test = OneObject(target.__self__) if isinstance(target, MethodType) else None
        _attach_function(engine, inner, request, _home(target), test)
    elif _calls_python(target):
        _attach_function(engine, type(target).__call__, request, None, OneObject(target))
    else:
        _wrap_everywhere(engine, target, request)


def _attach_place(engine: Engine, place: Attribute, request: Request) -> None:
    raw = place.raw
    inner = function_at(place)
    if wrapping.is_stand_in(inner):  # it has been found that nothing better can be done
        _wrap_at(engine, place, request)
    elif isinstance(raw, type):
        _attach_class(engine, raw, request, place)
    elif isinstance(inner, FunctionType):
        _attach_function(engine, inner, request, place, _concerns(place))
    elif place.owner is None and _calls_python(raw):
        _attach_function(engine, type(raw).__call__, request, place, OneObject(raw))
    else:
        _wrap_at(engine, place, request)


def _concerns(place: Attribute) -> Test | None:
    """Whom a function reached through ``place`` is meant for, where that is not everybody."""
    if isinstance(place.raw, MethodType):
        return OneObject(place.raw.__self__)
    inherited = place.owner is not None and place.owner is not place.holder
    if inherited and not isinstance(place.raw, staticmethod):
        return OneClass(place.holder)
    return None


def _calls_python(thing: Any) -> bool:
    """Whether calling ``thing``, an instance, runs a Python method of its class."""
    return callable(thing) and isinstance(type(thing).__call__, FunctionType)


def _attach_function(
    engine: Engine, function: Any, request: Request, place: Attribute | None, test: Test | None
) -> None:
    if instrument_function(engine, function, request, test):
        return
    if place is None:
        place = _home(function)
    if place is None or test is not None:
        engine.report(
            Unmatched(request, f"{function.__qualname__} has no source that can be rewritten")
        )
        return
    _wrap_at(engine, place, request)


def _attach_class(engine: Engine, cls: type, request: Request, place: Attribute | None) -> None:
    """A class is called to make an instance: its ``__init__``, else its ``__new__``."""
    for name in ("__init__", "__new__"):
        found = find(cls, name)
        if found is not None and isinstance(inside(found.raw), FunctionType):
            _attach_place(engine, found, request)
            return
    init = find(cls, "__init__")
    if init is not None and cls.__flags__ & _CHANGEABLE == _HEAP_TYPE:
        _wrap_at(engine, init, request)
    elif place is None or place == _home(cls):
        # Under its own name it must stay itself, or its instances could not be pickled.
        reason = f"{cls.__qualname__} is no Python class: name the module that calls it instead"
        engine.report(Unmatched(request, reason))
    else:
        _wrap_at(engine, place, request)


_HEAP_TYPE = 1 << 9
_CHANGEABLE = _HEAP_TYPE | 1 << 8  # with Py_TPFLAGS_IMMUTABLETYPE


def _wrap_at(engine: Engine, place: Attribute, request: Request) -> None:
    """Put a stand-in where ``place`` is; reports what came of it."""
    reason = _unwrappable(place, request)
    if reason is not None:
        engine.report(Unmatched(request, reason))
        return
    raw = place.raw
    try:
        if isinstance(raw, (staticmethod, classmethod)):
            place.put(type(raw)(wrapping.wrap(raw.__func__, request, engine.on_hook_defined)))
        else:
            made = wrapping.wrap(raw, request, engine.on_hook_defined)
            if made is not raw or place.owner is not place.holder:
                place.put(made)
    except (TypeError, AttributeError) as error:
        engine.report(Unmatched(request, f"{_called(place)} cannot be replaced: {error}"))
        return
    engine.report(_wrapped(place, request))


def _unwrappable(place: Attribute, request: Request) -> str | None:
    target = getattr(place.raw, "__func__", place.raw)
    if not callable(target) and not hasattr(type(target), "__get__"):
        return f"{_called(place)} is not callable: {type(target).__name__}"
    why = "has no Python code"
    if isinstance(inside(target), FunctionType):
        why = "was not made from a source that can be read"
    if request.variable not in wrapping.VARIABLES:
        return f"{_called(place)} {why}: {request.variable or 'a variable'} cannot be seen in it"
    if request.captures:
        return f"{_called(place)} {why}: {request.captures[0]} cannot be seen in it"
    if request.returns:
        return f"{_called(place)} {why}: the tag {request.returns} cannot be seen in it"
    return None


def _wrap_everywhere(engine: Engine, target: Any, request: Request) -> None:
    """Put one stand-in for ``target`` wherever a module has it under a name."""
    places = list(_uses(target))
    if not places:
        engine.report(Unmatched(request, f"no module has {target!r} under a name"))
    shared = None
    for place in places:
        if wrapping.is_stand_in(place.raw) or shared is None:
            _wrap_at(engine, place, request)
            shared = shared or vars(place.holder)[place.name]
        else:
            place.put(shared)
            engine.report(_wrapped(place, request))


def _uses(target: Any) -> Iterator[Attribute]:
    for module in list(sys.modules.values()):
        if not isinstance(module, ModuleType) or module.__name__.partition(".")[0] == _OWN:
            continue
        for name, value in list(vars(module).items()):
            if wrapping.unwrapped(value) is target and not name.startswith("__"):
                yield Attribute(module, name, value, None)


_OWN = __name__.partition(".")[0]


def _home(target: Any) -> Attribute | None:
    """Where ``target`` says that it stands, if it does."""
    module = sys.modules.get(getattr(target, "__module__", None) or "")
    name = getattr(target, "__qualname__", "")
    if module is None or not name or "<" in name:
        return None
    place = None
    holder: Any = module
    for part in name.split("."):
        place = find(holder, part)
        if place is None:
            return None
        holder = place.raw
    return place if getattr(holder, "__func__", holder) is target else None


def _called(place: Attribute) -> str:
    holder = getattr(place.holder, "__qualname__", None) or getattr(place.holder, "__name__", "")
    return f"{holder}.{place.name}" if holder else place.name


def _wrapped(place: Attribute, request: Request) -> Match:
    holder = place.holder
    if isinstance(holder, ModuleType):
        module, function = holder.__name__, place.name
    else:
        module = str(getattr(holder, "__module__", "") or request.module)
        function = _called(place)
    return Match(request, module, function, "", 0, "", "wrapped")
