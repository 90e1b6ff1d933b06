"""Hooks: what they pass on, what they count, and that a handler's mistake stays with us."""

from __future__ import annotations

import builtins
import itertools
import sys

import pytest

from injector.probe import points
from injector.probe.points import MISSING, define, defined, silence, undefine

_numbers = itertools.count(10_000_000)


@pytest.fixture
def name():
    name = f"injector:{next(_numbers)}"
    yield name
    for key in [k for k in vars(builtins) if k.startswith(name)]:
        del vars(builtins)[key]
    defined.pop(name, None)


def call(name, *arguments):
    return vars(builtins)[name](*arguments)


def test_an_observer_sees_the_value_and_passes_it_on(name):
    seen = []
    point = define(name, seen.append)
    value = object()
    assert call(name, value) is value
    assert seen == [value]
    assert point.fired == 1


def test_an_observers_answer_changes_nothing(name):
    define(name, lambda value: "other")
    assert call(name, 1) == 1


def test_an_overrider_replaces_the_value(name):
    point = define(name, lambda value: value + 1, override=True)
    assert [call(name, 1), call(name, 2)] == [2, 3]
    assert point.fired == 2


@pytest.mark.parametrize("override", [False, True])
def test_captures_travel_with_the_value(name, override):
    seen = []
    define(name, lambda *all: seen.append(all) or "new", captures=("x", "y"), override=override)
    assert call(name, 1, 2, 3) == ("new" if override else 1)
    assert seen == [(1, 2, 3)]


def test_a_wildcard_gets_the_variable(name):
    seen = []
    define(name, lambda value, variable: seen.append((variable, value)), wildcard=True)
    call(name, 5, "x")
    assert seen == [("x", 5)]


def test_unbound_captures_are_read_from_the_frame(name):
    seen = []
    define(name, lambda *all: seen.append(all), captures=("here", "nowhere", "box.size", "box.no"))

    class box:
        size = 3

    def program():
        here = 1
        call_it = vars(builtins)[name + "?"]
        call_it("v")
        return here, box

    program()
    assert seen == [("v", 1, MISSING, 3, MISSING)]


def test_a_comprehension_reads_the_function_around_it(name):
    seen = []
    define(name, lambda *all: seen.append(all), captures=("outer",))
    hook = vars(builtins)[name + "?"]

    def program():
        outer = 7
        return [hook(x) for x in (1, 2)], outer

    program()
    assert seen == [(1, 7), (2, 7)]


@pytest.mark.parametrize("override", [False, True])
@pytest.mark.parametrize("captures", [(), ("x",)])
def test_a_handler_that_raises_is_reported_once_and_never_reaches_the_program(
    name, override, captures, monkeypatch
):
    failures = []
    monkeypatch.setattr(
        points, "on_failure", lambda point, error: failures.append((point.name, error))
    )

    def broken(value, *rest):
        raise ValueError("mine")

    point = define(name, broken, override=override, captures=captures)
    for number in range(3):
        assert call(name, number, *captures) == number
    assert [(n, type(e)) for n, e in failures] == [(name, ValueError)]
    assert point.fired == 3


def test_a_report_that_raises_does_not_reach_the_program_either(name, monkeypatch):
    monkeypatch.setattr(points, "on_failure", lambda point, error: 1 / 0)
    define(name, lambda value: 1 / 0)
    assert call(name, 1) == 1


def test_the_first_fire_is_reported_once(name, monkeypatch):
    names = []
    monkeypatch.setattr(points, "on_first", lambda point: names.append(point.name))
    point = define(name, lambda value: None)
    assert names == []
    for number in range(3):
        call(name, number)
    assert names == [name]
    assert point.fired == 3


@pytest.mark.parametrize("override", [False, True])
def test_nothing_happens_where_it_is_not_active(name, override, monkeypatch):
    names, state = [], {"now": None}
    monkeypatch.setattr(points, "on_first", lambda point: names.append(point.name))
    point = define(
        name, lambda value: value * 10, override=override, active=lambda: state.get("now")
    )
    assert call(name, 1) == 1
    assert (names, point.fired) == ([], 0)
    state["now"] = "here"
    assert call(name, 2) == (20 if override else 2)
    state["now"] = None
    assert call(name, 3) == 3
    state["now"] = "again"
    assert call(name + "?", 4) == (40 if override else 4)
    assert (names, point.fired) == ([name], 2)


def test_an_error_hook_sees_the_exception_in_flight(name):
    seen = []
    define(name, seen.append)
    error = KeyError("k")
    try:
        raise error
    except KeyError:
        call(name + "!")
    assert seen == [error]


def test_an_undefined_hook_still_passes_values(name):
    seen = []
    define(name, seen.append)
    undefine(name)
    assert call(name, 1) == 1
    assert call(name + "?", 2) == 2
    assert list(call(name + "@", [3])) == [3]
    assert seen == []


@pytest.mark.parametrize("suffix", ["@", "@>"])
def test_an_undefined_hook_hears_no_more_of_a_generator_that_goes_on(name, suffix):
    def generator():
        yield 1
        yield 2

    seen = []
    define(name, lambda *heard: seen.append(heard), wildcard=True)
    iterator = iter(call(name + suffix, generator()))
    assert next(iterator) == 1
    before = list(seen)
    undefine(name)
    assert list(iterator) == [2]
    assert seen == before


def test_silence_reaches_every_hook(name):
    seen = []
    define(name, seen.append)
    saved = {k: v for k, v in vars(builtins).items() if k.startswith("injector:")}
    try:
        silence()
        call(name, 1)
        assert seen == []
    finally:
        vars(builtins).update(saved)


class TestDelegation:
    """``yield from`` with a hook in between behaves as without."""

    @staticmethod
    def inner():
        received = []
        try:
            for number in range(3):
                received.append((yield number))
        except KeyError:
            received.append("thrown")
            yield "after throw"
        return received

    def test_yielded_values_are_seen_and_may_be_replaced(self, name):
        define(name, lambda value: value * 10, override=True)

        def outer():
            return (yield from vars(builtins)[name + "@"](self.inner()))

        generator = outer()
        assert [next(generator), generator.send("a"), generator.send("b")] == [0, 10, 20]
        with pytest.raises(StopIteration) as end:
            generator.send("c")
        assert end.value.value == ["a", "b", "c"]

    def test_received_values_are_seen(self, name):
        seen = []
        define(name, seen.append, receives=True)

        def outer():
            return (yield from vars(builtins)[name + "@"](self.inner()))

        generator = outer()
        next(generator)
        generator.send("a")
        next(generator)
        assert seen == ["a", None]

    def test_throw_and_close_reach_the_inner_generator(self, name):
        define(name, lambda value: None)

        def outer():
            yield from vars(builtins)[name + "@"](self.inner())

        generator = outer()
        next(generator)
        assert generator.throw(KeyError()) == "after throw"
        generator.close()

    def test_a_plain_iterator_has_no_send(self, name):
        define(name, lambda value: None)

        def outer():
            yield from vars(builtins)[name + "@"]([1, 2])

        generator = outer()
        next(generator)
        with pytest.raises(AttributeError, match="send"):
            generator.send("x")


def test_a_hook_costs_no_reference(name):
    define(name, lambda value: None)
    value = object()
    before = sys.getrefcount(value)
    for _ in range(100):
        call(name, value)
    assert sys.getrefcount(value) == before
