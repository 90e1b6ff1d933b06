"""Classes of plain values, as frozen dataclasses are, made without compiling anything.

``dataclass(frozen=True)`` compiles six methods for each class, and importing ``dataclasses`` brings
``inspect`` and ``ast``: at the end of every run that was a third of what ``inject`` needs by itself. Here
one method serves all classes. That nothing is assigned to, the type checker sees to.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from typing_extensions import dataclass_transform

    T = TypeVar("T")
else:

    def dataclass_transform(**_):
        return lambda function: function


MISSING = object()


class Field:
    """One value of a class: its name, and what is special about it."""

    __slots__ = ("default", "factory", "internal", "name", "shown")

    def __init__(
        self, default: Any, factory: Callable[[], Any] | None, shown: bool, internal: bool
    ) -> None:
        self.name = ""
        self.default = default
        self.factory = factory
        self.shown = shown
        """Whether ``repr`` shows it."""
        self.internal = internal
        """Whether it is left out where values become data."""


def field(
    *,
    default: Any = MISSING,
    default_factory: Callable[[], Any] | None = None,
    repr: bool = True,
    internal: bool = False,
) -> Any:
    """A field with a default that is made for each value, or that is not shown."""
    return Field(default, default_factory, repr, internal)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value_class(cls: type[T]) -> type[T]:
    """A class of which two values are equal if all of their fields are, and hashable if these are."""
    made: dict[str, Field] = dict(getattr(cls, "__value_fields__", {}))
    for name in cls.__annotations__:
        given = cls.__dict__.get(name, MISSING)
        one = given if isinstance(given, Field) else Field(given, None, True, False)
        one.name = name
        made[name] = one
        if one is given:
            if one.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, one.default)
    for name, value in {**METHODS, "__value_fields__": made, "__match_args__": tuple(made)}.items():
        setattr(cls, name, value)
    return cls


@dataclass_transform(field_specifiers=(field,))
def state_class(cls: type[T]) -> type[T]:
    """The same, whose fields may be assigned to; it is not hashable."""
    made = value_class(cls)
    made.__hash__ = None  # type: ignore[assignment]
    return made


def fields(value: object) -> Mapping[str, Field]:
    """The fields of a value of such a class, or of the class, in their order; none of anything else."""
    found: Mapping[str, Field] = getattr(value, "__value_fields__", {})
    return found


def replace(value: T, **changes: Any) -> T:
    """The same but for some fields. Raises TypeError for a name that is no field."""
    state = value.__dict__
    return type(value)(**{**{name: state[name] for name in fields(value)}, **changes})


def _begin(self: Any, /, *values: object, **named: object) -> None:
    """Set the fields. Raises TypeError as a function with such parameters would."""
    fields = self.__value_fields__
    state = self.__dict__
    state.update(zip(fields, values))  # noqa: B905  fewer values than fields is the usual case
    state.update(named)
    given = len(state)
    for name, field in fields.items():
        if name not in state:
            if field.default is not MISSING:
                state[name] = field.default
            elif field.factory is not None:
                state[name] = field.factory()
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
    fields = self.__value_fields__.values()
    shown = [f"{one.name}={getattr(self, one.name)!r}" for one in fields if one.shown]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _content(made: Any) -> tuple[Any, ...]:
    return tuple(getattr(made, name) for name in made.__value_fields__)


METHODS = {"__init__": _begin, "__eq__": _equals, "__hash__": _hash, "__repr__": _shown}
