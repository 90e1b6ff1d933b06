"""An iterable that is timed while a loop draws from it, and otherwise stays what it was.

A program does more with its loader than draw from it: it looks at the signature of its ``__init__``,
makes another one of the same type with other arguments, pickles it. So the loader that it is given
is of a class derived from the loader's own, with the loader's own attributes.
"""

from __future__ import annotations

from operator import itemgetter
from types import FunctionType, MethodDescriptorType, WrapperDescriptorType

from ..probe.compiled import NATIVE, Timed

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .turns import IterationSpans

    OnStep = Callable[[Any], IterationSpans]
    """``on_step(loader)`` returns the listener of the pass that begins."""


def timed(iterator: Iterator[Any], on_step: OnStep, loader: Any = None) -> Iterator[Any]:
    """Return ``iterator`` timed: its listener receives each fetch, and the loop body that it fed."""
    return Timed(iterator, on_step(iterator if loader is None else loader))


def _like(loader: Any, on_step: OnStep) -> Any:
    """Return an object that shares the attributes of ``loader``, of a class whose iteration is timed.

    Raises TypeError or AttributeError where it has no attributes to share, or is created in C.
    """
    cls = _timed_class(type(loader), on_step)
    stand_in = object.__new__(cls)
    object.__setattr__(stand_in, "__dict__", loader.__dict__)
    # The loader lives as long as what stands for it: its `__del__` would free what both share.
    cls._injector_loader.__set__(stand_in, loader)
    return stand_in


def _timed_class(base: Any, on_step: OnStep) -> Any:
    """Return a class derived from ``base`` whose objects are timed, those that the program creates too."""
    if (base, on_step) in _classes:
        return _classes[base, on_step]
    draw = base.__iter__

    def __iter__(self: Any) -> Iterator[Any]:
        drawn = draw(self)
        if drawn is self:  # an iterator, which has been set to its begin
            drawn = getattr(self, "_injector_loader", None)
            if drawn is None:  # the program has made it, of the class that it was shown
                return self  # type: ignore[no-any-return]
        return timed(drawn, on_step, self)

    def plain(self: Any) -> Any:
        original = object.__new__(base)
        object.__setattr__(original, "__dict__", self.__dict__)
        return original

    # What leaves the process, or is a copy, is of the program's own class: no other process has this one.
    def __reduce_ex__(self: Any, _: Any) -> Any:
        return _pickled_as(plain(self))

    def __copy__(self: Any) -> Any:
        from copy import copy

        return copy(plain(self))

    slots = ("_injector_drawn", "_injector_loader")
    space: dict[str, Any] = {"__slots__": slots, "_injector_on_step": on_step}
    space |= {"__iter__": __iter__, "__reduce_ex__": __reduce_ex__, "__copy__": __copy__}
    space |= {name: getattr(base, name) for name in ("__module__", "__qualname__", "__doc__")}
    if hasattr(base, "__next__"):
        space["__next__"] = _TimedNext(on_step)
    if hasattr(base, "__del__"):
        # The loader that it stands for has one: what both share must not be released twice.
        space["__del__"] = lambda self: None
    _classes[base, on_step] = timed_class = type(base)(base.__name__, (base,), space)
    return timed_class


class _TimedNext:
    """The ``__next__`` of a stand-in for an iterator: that of what times the iterator.

    No method, which would have a frame in the program's tracebacks. What is not compiled ends for good with
    the first pass: then nothing is timed here.
    """

    __slots__ = ("_on_step",)

    def __init__(self, on_step: OnStep | None = None) -> None:
        self._on_step = on_step

    def __get__(self, loader: Any, kind: Any) -> Any:
        original = getattr(loader, "_injector_loader", None)
        if original is None:  # the class itself, or one that the program has made of it
            methods = (vars(each).get("__next__") for each in kind.__mro__[1:])
            method: Any = next((each for each in methods if each is not None), None)
            return self if method is None else method.__get__(loader, kind)
        if not NATIVE:
            return original.__next__
        try:
            return loader._injector_drawn.__next__
        except AttributeError:
            pass
        drawn: Any = timed(original, self._on_step or loader._injector_on_step, loader)
        object.__setattr__(loader, "_injector_drawn", drawn)
        return drawn.__next__


_classes: dict[tuple[Any, OnStep], Any] = {}
"""The classes of :func:`_timed_class`."""


class TimedLoader:
    """Stands for an iterable written in C: attributes, length, items and class are those of the iterable."""

    __slots__ = ("_injector_loader", "_injector_on_step")

    def __init__(self, loader: Any, on_step: OnStep) -> None:
        object.__setattr__(self, "_injector_loader", loader)
        object.__setattr__(self, "_injector_on_step", on_step)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self._injector_loader.__class__

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return self._injector_loader.__dict__

    def __iter__(self) -> Iterator[Any]:
        loader = self._injector_loader
        return timed(iter(loader), self._injector_on_step, loader)

    def __len__(self) -> int:
        return len(self._injector_loader)

    def __bool__(self) -> bool:
        return bool(self._injector_loader)  # what has no length is true

    def __contains__(self, item: Any) -> bool:
        return item in self._injector_loader

    def __eq__(self, other: object) -> Any:
        return self._injector_loader == other

    def __hash__(self) -> int:
        return hash(self._injector_loader)

    def __getitem__(self, key: Any) -> Any:
        return self._injector_loader[key]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._injector_loader, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._injector_loader, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._injector_loader, name)

    def __dir__(self) -> list[str]:
        return dir(self._injector_loader)

    def __repr__(self) -> str:
        return repr(self._injector_loader)

    def __reduce__(self) -> Any:
        return _pickled_as(self._injector_loader)


class TimedIterator(TimedLoader):
    """Stands for an iterable that is an iterator as well, whose class has neither attributes nor a copy."""

    __slots__ = ("_injector_drawn",)
    __next__: Any = _TimedNext()


def _standing_for(base: Any, kind: Any) -> Any:
    """Return a class derived from ``base`` that has the operators and other special methods of ``kind``.

    Python looks these up in the class alone: a list may be shuffled in place, or added to another one.
    """
    known = _stand_ins.get((base, kind))
    if known is None:
        space: dict[str, Any] = {"__slots__": ()}
        for each in reversed(type.mro(kind)):
            for name, method in vars(each).items():
                if name[:2] == "__" and type(method) in _METHODS and name not in _OWN:
                    space[name] = _delegated(method)
        known = _stand_ins[base, kind] = type(base.__name__, (base,), space)
    return known


def _delegated(method: Any) -> Any:
    return lambda self, *args, **kwargs: method(self._injector_loader, *args, **kwargs)


_stand_ins: dict[tuple[Any, Any], Any] = {}
"""The classes of :func:`_standing_for`."""
_METHODS = (FunctionType, MethodDescriptorType, WrapperDescriptorType)
_OWN = frozenset(
    (
        *("__new__", "__init__", "__del__", "__init_subclass__", "__get__", "__set__", "__iter__"),
        *("__next__", "__getattribute__", "__getattr__", "__setattr__", "__delattr__", "__dir__"),
        *("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__set_name__"),
    )
)
"""Special methods that a stand-in has for itself."""


def _pickled_as(loader: Any) -> Any:
    """Return how something is pickled that is to be unpickled as ``loader`` itself."""
    # By a callable of the standard library, which an unpickling process without us has as well.
    return itemgetter(0), ((loader,),)


def wrap(loader: Any, on_step: OnStep) -> Any:
    """Return ``loader`` timed: of an iterator a timed iterator, of an iterable one whose passes are timed.

    None stays None: the program has no loader yet. Raises TypeError for what no training loop draws from.
    """
    kind = type(loader)
    if loader is None or getattr(kind, "_injector_on_step", None) is on_step:
        return loader  # in the latter case the program has passed the same loader twice
    # A stand-in for anything else would be another thing to the program.
    draws = any(hasattr(kind, name) for name in ("__iter__", "__next__", "__getitem__"))
    if not draws or isinstance(loader, (type, str, bytes)):
        raise TypeError(f"a loop cannot draw batches from a value of type {kind.__name__!r}")
    is_iterator = hasattr(loader, "__next__")
    # A class of the program's may have an `__iter__` that sets its iterator to the begin. No other iterator
    # does anything there, so what times it can take its place.
    if is_iterator and type(getattr(kind, "__iter__", None)) is not FunctionType:
        return timed(loader, on_step)
    try:
        return _like(loader, on_step)
    except Exception:  # it has no attributes to share, is made in C, or its metaclass objects
        base = TimedIterator if is_iterator else TimedLoader
        return _standing_for(base, kind)(loader, on_step)
