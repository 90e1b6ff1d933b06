"""Named tuples written as classes, without :mod:`typing`.

Every process of every probed program imports the rewriter, and ``typing`` would cost it 5 ms.
"""

from __future__ import annotations

from collections import namedtuple


class _Fields(type):
    """Turns the annotations of a class into the fields of a named tuple."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, object]) -> type:
        fields = body.get("__annotations__")
        if not isinstance(fields, dict):
            return super().__new__(cls, name, bases, body)
        defaults = [body[field] for field in fields if field in body]
        base = namedtuple(name, fields, defaults=defaults)  # type: ignore[misc]
        return type(name, (base,), {"__slots__": (), "__doc__": body.get("__doc__")})


class NamedTuple(metaclass=_Fields):
    """Base of the records, as ``typing.NamedTuple`` is."""
