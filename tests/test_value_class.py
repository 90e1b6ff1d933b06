"""Classes of plain values are what frozen dataclasses are."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from injector.value_class import field, fields, replace, state_class, value_class


@value_class
class Reading:
    name: str
    seconds: float
    parts: tuple[str, ...] = ()
    inner: object = field(default=None, repr=False)


@value_class
class Another:
    name: str
    seconds: float
    parts: tuple[str, ...] = ()
    inner: object = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    name: str
    seconds: float
    parts: tuple[str, ...] = ()
    inner: object = dataclasses.field(default=None, repr=False)


@state_class
class Counter:
    name: str
    count: int = 0


def test_it_is_shown_as_a_frozen_dataclass_is():
    made = repr(Reading("a", 1.5, ("b",), 3))
    assert made == repr(Frozen("a", 1.5, ("b",), 3)).replace("Frozen", "Reading")


def test_two_are_equal_if_their_fields_are():
    assert Reading("a", 1.5) == Reading("a", 1.5)
    assert hash(Reading("a", 1.5)) == hash(Reading("a", 1.5)) == hash(Frozen("a", 1.5))
    assert Reading("a", 1.5) != Reading("a", 1.5, inner=3)
    assert Reading("a", 1.5) != Another("a", 1.5)


def test_what_dataclasses_do_with_theirs_is_done_with_it():
    made = Reading("a", seconds=1.5, parts=("b",))
    assert replace(made, seconds=2.0) == Reading("a", 2.0, ("b",))
    with pytest.raises(TypeError, match="takes each of"):
        replace(made, colour=2.0)
    names = [each.name for each in dataclasses.fields(Frozen)]
    assert list(fields(made)) == list(fields(Reading)) == list(Reading.__match_args__) == names
    assert fields(Frozen("a", 1.5)) == {}
    assert Reading.parts == Frozen.parts == () and Reading.inner is Frozen.inner is None
    assert copy.deepcopy(made) == made == pickle.loads(pickle.dumps(made))


def test_each_has_its_own_of_what_a_factory_makes():
    assert Collection().items == [] and Collection().items is not Collection().items
    assert Collection([1]).items == [1]


def test_one_that_changes_is_not_hashable():
    made = Counter("a")
    made.count += 1
    assert made == Counter("a", 1) and repr(made) == "Counter(name='a', count=1)"
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)


@value_class
class Collection:
    items: list[int] = field(default_factory=list)


@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ((), {"name": "a"}, "has no value for 'seconds'"),
        (("a", 1.0, (), None, 5), {}, "takes each of name, seconds, parts, inner once"),
        (("a", 1.0), {"name": "b"}, "takes each of"),
        (("a", 1.0), {"colour": "b"}, "takes each of"),
    ],
)
def test_values_are_those_of_its_fields(values, named, message):
    with pytest.raises(TypeError, match=message):
        Reading(*values, **named)
    with pytest.raises(TypeError):
        Frozen(*values, **named)
