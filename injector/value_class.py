"""Classes of plain values, as frozen dataclasses are, made without compiling anything.

``dataclass(frozen=True)`` compiles six methods for each class, and importing ``dataclasses`` imports
``inspect`` and ``ast``: at the end of every run, that was a third of the time that ``inject`` itself takes.
Here the same four methods serve all classes, which get them from :data:`METHODS`::

    @value_class
    class Price:
        per_hour: float
        currency: str = ""

Unlike a frozen dataclass, it does not refuse assignments when it runs: the type checker, which takes it for
one, does.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from typing_extensions import dataclass_transform

    T = TypeVar("T")
else:
    # Only type checkers use what the real one does.
    def dataclass_transform(**_):
        return lambda function: function


MISSING = object()
"""Stands for a default that a field does not have, as None is one that many have."""


class Field:
    """A field of a class: its name and its default."""

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
        """Whether it is left out where values are converted to JSON (:func:`.summary.plain`)."""


def field(
    *,
    default: Any = MISSING,
    default_factory: Callable[[], Any] | None = None,
    repr: bool = True,
    internal: bool = False,
) -> Any:
    """Declare a field whose default is made for each value, or which ``repr`` or JSON leaves out."""
    return Field(default, default_factory, repr, internal)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value_class(cls: type[T]) -> type[T]:
    """Make ``cls`` a class of values: equal if all fields are equal, and hashable if all fields are."""
    fields: dict[str, Field] = dict(getattr(cls, "__value_fields__", {}))
    for name in cls.__annotations__:
        declared = cls.__dict__.get(name, MISSING)
        field = declared if isinstance(declared, Field) else Field(declared, None, True, False)
        field.name = name
        fields[name] = field
        if field is declared:
            # As an attribute of the class, a Field would hide that a value is missing.
            if field.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, field.default)
    attributes = {**METHODS, "__value_fields__": fields, "__match_args__": tuple(fields)}
    for name, value in attributes.items():
        setattr(cls, name, value)
    return cls


@dataclass_transform(field_specifiers=(field,))
def state_class(cls: type[T]) -> type[T]:
    """As :func:`value_class`, but fields may be assigned to; values are not hashable."""
    with_fields = value_class(cls)
    with_fields.__hash__ = None  # type: ignore[assignment]
    return with_fields


def fields(value: object) -> Mapping[str, Field]:
    """The fields of a class made here, or of a value of one, in their order; empty for anything else."""
    declared: Mapping[str, Field] = getattr(value, "__value_fields__", {})
    return declared


def replace(value: T, **changes: Any) -> T:
    """A copy of ``value`` with ``changes`` to some fields. Raises TypeError for a name that is no field."""
    state = value.__dict__
    return type(value)(**{**{name: state[name] for name in fields(value)}, **changes})


def _init(self: Any, /, *values: object, **named: object) -> None:
    """Set the fields. Raises TypeError as a function with these parameters would."""
    fields = self.__value_fields__
    # Into the dictionary at once: a report of thousands of ranks makes millions of values.
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
    # Too many values, one both by place and by name, or a name that is no field.
    if given != len(values) + len(named) or len(state) != len(fields):
        raise TypeError(f"{type(self).__name__}() takes each of {', '.join(fields)} once")


def _eq(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    fields = self.__value_fields__.values()
    shown = [f"{field.name}={getattr(self, field.name)!r}" for field in fields if field.shown]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name in self.__value_fields__)


METHODS = {"__init__": _init, "__eq__": _eq, "__hash__": _hash, "__repr__": _repr}
"""What each class gets; its own methods of these names would be replaced."""
