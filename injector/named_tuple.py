"""``NamedTuple`` without ``typing``, whose import takes 5 ms at the start and at the end of every run.

A class is written in the same way. Type checkers see ``typing.NamedTuple``; when it runs, a metaclass makes
the class with ``collections.namedtuple``, which is what ``typing`` does as well.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _Fields(type):
        """Turns the annotations of a class into fields of a named tuple, and keeps the rest of its body."""

        def __new__(cls, name, bases, body):
            fields = body.get("__annotations__")
            if not isinstance(fields, dict):  # NamedTuple itself, below
                return super().__new__(cls, name, bases, body)
            defaults = [body[field] for field in fields if field in body]
            base = namedtuple(name, fields, defaults=defaults)
            rest = {key: value for key, value in body.items() if key not in fields}
            return type(name, (base,), {"__slots__": (), **rest})

    class NamedTuple(metaclass=_Fields):
        """Base of classes of tuples, as ``typing.NamedTuple`` is."""
