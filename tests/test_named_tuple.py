"""Named tuples without `typing` are those of `typing`."""

from __future__ import annotations

import copy
import pickle
import typing

import pytest

from injector import named_tuple

Base: typing.Any = named_tuple.NamedTuple


class Pair(Base):
    """Two numbers."""

    first: int
    second: int = 2
    """With a default."""

    @property
    def total(self):
        return self.first + self.second

    @classmethod
    def of(cls, text):
        return cls(*map(int, text.split()))


class Known(typing.NamedTuple):
    first: int
    second: int = 2


def test_it_is_the_tuple_that_typing_makes():
    one = Pair(1)
    assert one == (1, 2) == Known(1)
    assert one._replace(second=5) == (1, 5) and one._asdict() == {"first": 1, "second": 2}
    assert Pair._fields == Known._fields and Pair._field_defaults == Known._field_defaults
    assert (Pair.__name__, Pair.__module__, Pair.__doc__) == ("Pair", __name__, "Two numbers.")
    assert repr(one) == "Pair(first=1, second=2)"
    assert pickle.loads(pickle.dumps(one)) == one and copy.copy(one) == one
    assert not hasattr(one, "__dict__")


def test_its_methods_stay():
    assert Pair.of("3 4").total == 7


@pytest.mark.parametrize("values", [(), (1, 2, 3)])
def test_what_is_missing_or_too_much_is_an_error(values):
    with pytest.raises(TypeError):
        Pair(*values)
