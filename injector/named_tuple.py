"""``NamedTuple`` without ``typing``, whose import takes 5 ms of the start and of the end of every run."""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _Fields(type):
        """Turns the annotations of a class into the fields of a named tuple; the rest of it stays."""

        def __new__(cls, name, bases, body):
            fields = body.get("__annotations__")
            if not isinstance(fields, dict):
                return super().__new__(cls, name, bases, body)
            defaults = [body[field] for field in fields if field in body]
            base = namedtuple(name, fields, defaults=defaults)
            rest = {key: value for key, value in body.items() if key not in fields}
            return type(name, (base,), {"__slots__": (), **rest})

    class NamedTuple(metaclass=_Fields):
        """Base of classes of tuples, as ``typing.NamedTuple`` is."""
