"""Hooks on objects: a given one, or what a dotted name leads to on a live module.

A Python function, however it was reached (as a method, through a decorator, inherited), gets its hook in its
own code, in the module that defines it. One that was reached through an instance or a subclass shares its
code with others: the hook tests the function's first argument at run time. Anything else that can be called
is replaced by a stand-in (:mod:`.wrapping`) where it was found.

The last part is about names that a module gets from elsewhere, or makes on demand by its ``__getattr__``.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any

from . import wrapping
from .exchange import Test, instrument_function
from .locate import ProgramSources, Source
from .method_calls import is_method
from .objects import Attribute, OneClass, OneObject, called_at, close, find, function_at, inside
from .registry import Registry
from .request import MAIN, Match, Request, Unmatched


class Binding:
    """The hook ``"injector:7&"``, called with what a module binds to a name.

    The rest of the request's path is looked for on that object.
    """

    def __init__(self, registry: Registry, request: Request) -> None:
        self._registry = registry
        self._request = request
        self.called = False

    def __call__(self, value: Any) -> Any:
        self.called = True
        request, registry = self._request, self._registry
        try:
            if len(request.path) > 1:
                attach_path(registry, value, request.path[1:], request)
                return value
            # The name is not bound yet: it is what this returns. So a stand-in is put into a module of ours.
            holder = ModuleType(request.module)
            vars(holder)[request.path[0]] = value
            place = Attribute(holder, request.path[0], value, None)
            _attach_place(registry, place, request)
            return vars(holder)[request.path[0]]
        except Exception as error:
            registry.report(Unmatched(request, f"could not be attached: {error!r}"))
            return value


class StarBinding:
    """The hook ``"injector:7*"``, called after each ``import *``, which may bring the requested name."""

    def __init__(self, registry: Registry, request: Request, last: int) -> None:
        self._registry = registry
        self._request = request
        self._last = last
        self._found = False

    def __call__(self) -> None:
        frame = sys._getframe(1)  # the module's own
        request, name, namespace = self._request, self._request.path[0], frame.f_globals
        if name in namespace:
            self._found = True
            namespace[name] = Binding(self._registry, request)(namespace[name])
        elif request.module == MAIN and frame.f_lineno >= self._last and not self._found:
            self._registry.not_found(request)


def attach_path(registry: Registry, start: Any, path: tuple[str, ...], request: Request) -> None:
    """Attach to the object to which ``path`` leads from ``start``.

    Reports an Unmatched if it leads nowhere.
    """
    if not path:
        registry.not_found(request)
        return
    holder = start
    place = None
    for depth, name in enumerate(path):
        # The rest of the path may name a function that this one defines.
        inner = inside(holder) if place is None else function_at(place)
        if isinstance(inner, FunctionType) and instrument_function(
            registry, inner, request, inside=path[depth:]
        ):
            return
        place = find(holder, name)
        if place is None:
            registry.report(_nothing_there(holder, name, request))
            return
        holder = place.raw
    assert place is not None
    _attach_place(registry, place, request)


def _nothing_there(holder: Any, name: str, request: Request) -> Unmatched:
    """That ``holder`` has no attribute of this name, with those that are most like it."""
    where = getattr(holder, "__qualname__", None) or getattr(holder, "__name__", "an object")
    names = {*getattr(holder, "__dict__", ()), *getattr(type(holder), "__dict__", ())}
    return Unmatched(request, f"{name} not found in {where}", close(name, names))


def attach_object(registry: Registry, target: Any, request: Request) -> None:
    """Attach to ``target`` itself, wherever it is used."""
    target = wrapping.unwrapped(target)
    inner = inside(target)
    if isinstance(target, type):
        _attach_class(registry, target, request, None)
    elif isinstance(inner, FunctionType):
        test = OneObject(target.__self__) if isinstance(target, MethodType) else None
        _attach_function(registry, inner, request, _home(target), test)
    elif _calls_python(target):
        _attach_function(registry, type(target).__call__, request, None, OneObject(target))
    else:
        _wrap_everywhere(registry, target, request)


def _attach_place(registry: Registry, place: Attribute, request: Request) -> None:
    """Attach to what ``place`` holds."""
    raw = place.raw
    inner = function_at(place)
    if wrapping.is_stand_in(inner):  # an earlier request found no code to put a hook into
        _wrap_at(registry, place, request)
    elif isinstance(raw, type):
        _attach_class(registry, raw, request, place)
    elif isinstance(inner, FunctionType):
        _attach_function(registry, inner, request, place, _concerns(place))
    elif place.owner is None and _calls_python(raw):
        _attach_function(registry, type(raw).__call__, request, place, OneObject(raw))
    else:
        _wrap_at(registry, place, request)


def _concerns(place: Attribute) -> Test | None:
    """A test by which the calls of a function count that belong to ``place``, or None if all do.

    The function may be bound to another object, or inherited by another class.
    """
    if isinstance(place.raw, MethodType):
        return OneObject(place.raw.__self__)
    inherited = place.owner is not None and place.owner is not place.holder
    if inherited and not isinstance(place.raw, staticmethod):
        return OneClass(place.holder)
    return None


def _calls_python(thing: Any) -> bool:
    """Whether calling the instance ``thing`` runs a Python method of its class."""
    return callable(thing) and isinstance(type(thing).__call__, FunctionType)


def _attach_function(
    registry: Registry, function: Any, request: Request, place: Attribute | None, test: Test | None
) -> None:
    """Put the hook into the code of ``function``, or a stand-in in its place if that has no source."""
    if instrument_function(registry, function, request, test):
        return
    if place is None:
        place = _home(function)
    if place is None or test is not None:
        registry.report(
            Unmatched(request, f"{function.__qualname__} has no source that can be rewritten")
        )
        return
    _wrap_at(registry, place, request)


def _attach_class(registry: Registry, cls: type, request: Request, place: Attribute | None) -> None:
    """Attach to the calls of a class, which run its ``__init__``, or else its ``__new__``."""
    constructor = called_at(cls)
    if constructor is not None:
        _attach_place(registry, constructor, request)
        return
    # Neither is in Python: a stand-in for the inherited __init__ of C, if attributes of the class can be set.
    init = find(cls, "__init__")
    if init is not None and cls.__flags__ & _CHANGEABLE == _HEAP_TYPE:
        _wrap_at(registry, init, request)
    elif place is None or place == _home(cls):
        # Under its own name it must stay itself: pickling its instances looks the class up there.
        reason = f"{cls.__qualname__} is no Python class: name the module that calls it instead"
        registry.report(Unmatched(request, reason))
    else:
        _wrap_at(registry, place, request)


# Bits of `__flags__`: Py_TPFLAGS_HEAPTYPE, and Py_TPFLAGS_IMMUTABLETYPE. Attributes can be set on a type that
# has the first and not the second.
_HEAP_TYPE = 1 << 9
_CHANGEABLE = _HEAP_TYPE | 1 << 8


def _wrap_at(registry: Registry, place: Attribute, request: Request) -> None:
    """Replace what ``place`` holds by a stand-in, and report the match or the reason why not."""
    reason = _unwrappable(place, request)
    if reason is not None:
        registry.report(Unmatched(request, reason))
        return
    raw = place.raw
    try:
        if isinstance(raw, (staticmethod, classmethod)):
            place.put(type(raw)(wrapping.wrap(raw.__func__, request, registry.on_hook_defined)))
        else:
            stand_in = wrapping.wrap(raw, request, registry.on_hook_defined)
            # The hook joined a stand-in that is there already, unless the class only inherits it.
            if stand_in is not raw or place.owner is not place.holder:
                place.put(stand_in)
    except (TypeError, AttributeError) as error:
        registry.report(Unmatched(request, f"{_called(place)} cannot be replaced: {error}"))
        return
    registry.report(_wrapped(place, request))


def _unwrappable(place: Attribute, request: Request) -> str | None:
    """Why a stand-in for what ``place`` holds cannot do what is requested, or None if it can."""
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


def _wrap_everywhere(registry: Registry, target: Any, request: Request) -> None:
    """Put one stand-in for ``target`` wherever a module has it under a name."""
    places = list(_uses(target))
    if not places:
        registry.report(Unmatched(request, f"no module has {target!r} under a name"))
    shared = None
    for place in places:
        if wrapping.is_stand_in(place.raw) or shared is None:
            _wrap_at(registry, place, request)
            shared = shared or vars(place.holder)[place.name]
        else:
            place.put(shared)
            registry.report(_wrapped(place, request))


def _uses(target: Any) -> Iterator[Attribute]:
    """Every name in a module that stands for ``target``, our own modules aside."""
    for module in list(sys.modules.values()):
        if not isinstance(module, ModuleType) or module.__name__.partition(".")[0] == _OWN:
            continue
        for name, value in list(vars(module).items()):
            if wrapping.unwrapped(value) is target and not name.startswith("__"):
                yield Attribute(module, name, value, None)


_OWN = __name__.partition(".")[0]


def _home(target: Any) -> Attribute | None:
    """The place that ``target`` names as its own (``__module__``, ``__qualname__``), if it is there."""
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
    """The qualified name of an attribute, as messages show it."""
    holder = getattr(place.holder, "__qualname__", None) or getattr(place.holder, "__name__", "")
    return f"{holder}.{place.name}" if holder else place.name


def _wrapped(place: Attribute, request: Request) -> Match:
    """The match of a stand-in, which has no line."""
    holder = place.holder
    if isinstance(holder, ModuleType):
        module, function = holder.__name__, place.name
    else:
        module = str(getattr(holder, "__module__", "") or request.module)
        function = _called(place)
    return Match(request, module, function, "", 0, "", "wrapped")


# -- names that a loaded module got from elsewhere, or makes on demand ------------------------------


def find_on(
    registry: Registry,
    add: Callable[[Iterable[Request]], None],
    module: ModuleType,
    requests: Iterable[Request],
) -> None:
    """Meet requests on a live module, for names that it got from elsewhere or makes on demand.

    ``add`` takes requests that turn out to be about another module.
    """
    for request in requests:
        if is_method(request.variable):
            continue  # the module reads the method's name and never calls it, which is no miss
        try:
            if not _postponed(registry, add, module, request):
                attach_path(registry, module, request.path, request)
        except Exception as error:
            registry.unmatched([request], f"could not be attached: {error!r}")


def _postponed(
    registry: Registry,
    add: Callable[[Iterable[Request]], None],
    module: ModuleType,
    request: Request,
) -> bool:
    """Whether ``module`` has a ``__getattr__`` for the first name of ``request``, which waits then.

    It waits for the module from which an import statement of the source takes the name, although it was not
    executed (``if TYPE_CHECKING:``), or else for the first time that ``__getattr__`` returns the object.
    Calling ``__getattr__`` here would import what the program may never need.
    """
    namespace = vars(module)
    if not request.path or request.path[0] in namespace:
        return False
    module_getattr = namespace.get("__getattr__")
    if module_getattr is None and not hasattr(type(module), "__getattr__"):
        return False
    elsewhere = _imported(registry, module, request)
    if elsewhere is not None:
        add([elsewhere])
    elif module_getattr is None:
        return False
    else:
        _watch(registry, namespace, module_getattr).setdefault(request.path[0], []).append(request)
    return True


def _imported(registry: Registry, module: ModuleType, request: Request) -> Request | None:
    """The same request for the module from which the source imports the name, run or not."""
    name = request.module
    source = registry.source_of(name, None, vars(module))
    if source is None:
        return None
    from .names import imported  # it loads the parser, which few modules need

    file = Source(name, source.filename, source.text, hasattr(module, "__path__"))
    for origin, path in imported(ProgramSources(None, sys.path, ""), file, request.path):
        if origin != name:
            return request._replace(module=origin, path=path)
    return None


def _watch(
    registry: Registry, namespace: dict[str, Any], make: Callable[[str], Any]
) -> dict[str, list[Request]]:
    """Let a module's ``__getattr__`` attach to what it returns. Returns the waiting requests, by name."""
    known: dict[str, list[Request]] | None = getattr(make, "_injector_waiting", None)
    if known is not None:
        return known
    waiting: dict[str, list[Request]] = {}

    @functools.wraps(make)
    def __getattr__(name: str) -> Any:
        try:
            value = make(name)
        except BaseException as error:
            # The traceback goes on where it would without us: this frame is taken out.
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            raise
        for request in waiting.pop(name, ()):
            value = Binding(registry, request)(value)
            if name in namespace:
                namespace[name] = value
        return value

    __getattr__._injector_waiting = waiting  # type: ignore[attr-defined]
    namespace["__getattr__"] = __getattr__
    return waiting
