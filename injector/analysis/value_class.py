"""Classes of plain values, as frozen dataclasses are, made without compiling anything.

``dataclass(frozen=True)`` compiles six methods for each class. At the end of every run that is a fourth of
what ``inject`` needs by itself: here one method serves all classes. That nothing is assigned to, the type
checker sees to.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from typing_extensions import dataclass_transform

    T = TypeVar("T")
else:

    def dataclass_transform(**_):
        return lambda function: function


@dataclass_transform(frozen_default=True)
def value_class(cls: type[T]) -> type[T]:
    """A dataclass of which two are equal if all of their fields are; it is hashable if these are."""
    made = dataclass(init=False, eq=False, repr=False)(cls)
    for name, method in METHODS.items():
        setattr(made, name, method)
    return made


def _begin(self: Any, /, *values: object, **named: object) -> None:
    """Set the fields. Raises TypeError as a function with such parameters would."""
    fields = self.__dataclass_fields__
    state = self.__dict__
    state.update(zip(fields, values))  # noqa: B905  fewer values than fields is the usual case
    state.update(named)
    given = len(state)
    for name, field in fields.items():
        if name not in state:
            if field.default is not MISSING:
                state[name] = field.default
            elif field.default_factory is not MISSING:
                state[name] = field.default_factory()
            else:
                raise TypeError(f"{type(self).__name__}() has no value for {name!r}")
    if given != len(values) + len(named) or len(state) != len(fields):
        raise TypeError(f"{type(self).__name__}() takes each of {', '.join(fields)} once")


def _equals(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return _content(self) == _content(other)


def _hash(self: Any) -> int:
    return hash(_content(self))


def _shown(self: Any) -> str:
    fields = self.__dataclass_fields__.items()
    shown = [f"{name}={getattr(self, name)!r}" for name, field in fields if field.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _content(made: Any) -> tuple[Any, ...]:
    return tuple(getattr(made, name) for name in made.__dataclass_fields__)


METHODS = {"__init__": _begin, "__eq__": _equals, "__hash__": _hash, "__repr__": _shown}
