"""Regions of the calls of objects written in C: what is recorded, and that the program never notices.

A ``functools.partial`` stands for all of them: each carries the address of what runs when it is called.
"""

from __future__ import annotations

import pickle
import sys
import traceback
from functools import partial

import pytest

from injector.errors import UserError
from injector.measure.regions import Region, RegionHooks
from injector.probe import points
from injector.probe.compiled import NATIVE
from injector.probe.points import MISSING

pytestmark = pytest.mark.skipif(not NATIVE, reason="it takes compiled code to stand in between")


def divided(number, by=1):
    return number / by, sys._getframe(1).f_code.co_name


class Recorded:
    """What was heard of the calls."""

    def __init__(self, measured, counts=True, **options):
        self.began, self.ended = [], []
        region = RegionHooks(Region("compiled", outermost=True, **options), measured.spans)

        def begin(thing, args):
            self.began.append(args)
            return counts(args) if callable(counts) else counts

        self.attach = region.of_objects(
            "calls of partials", begin, lambda thing, result: self.ended.append(result)
        )
        measured.hooks.append("injector:calls of partials")


def test_calls_become_spans(measured):
    made = Recorded(measured, items=lambda args: args[0], what=lambda self: self.func.__name__)
    thing = partial(divided)
    assert made.attach(thing)
    assert thing(6, by=2) == (3, "test_calls_become_spans")
    assert [thing(number)[0] for number in (4, 5)] == [4, 5]
    assert made.began == [(6, 2), (4,), (5,)]
    assert [result[0] for result in made.ended] == [3, 4, 5]
    rows = measured.rows("compiled")
    assert [row[2] for row in rows] == [6, 4, 5]
    assert {row[3]["what"] for row in rows} == {"divided"}
    assert {row[3]["place"]["file"] for row in rows} == {__file__}
    assert measured.failures == []


def test_it_is_the_object_that_it_was(measured):
    thing, other = partial(divided, 1), partial(divided, 1)
    assert Recorded(measured).attach(thing)
    assert type(thing) is type(other) and repr(thing) == repr(other)
    assert pickle.dumps(thing) == pickle.dumps(other)
    assert partial(thing, by=2)() == partial(other, by=2)()
    holder = type("Holder", (), {"called": thing})
    assert holder().called(2)[0] == 0.5


def test_what_is_raised_is_the_programs(measured):
    made = Recorded(measured)
    thing = partial(divided)
    made.attach(thing)
    with pytest.raises(ZeroDivisionError) as raised:
        thing(1, by=0)
    lines = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert lines == ["test_what_is_raised_is_the_programs", "divided"]
    assert made.ended == [MISSING]
    assert len(measured.rows("compiled")) == 1
    with pytest.raises(TypeError, match="unexpected keyword"):
        thing(1, to=0)


def test_what_does_not_count_and_what_is_inside_of_another(measured):
    made = Recorded(measured, counts=lambda args: args[0] != 0)
    inner = partial(divided)
    outer = partial(lambda number: inner(number))
    assert made.attach(inner) and made.attach(outer)
    inner(0), outer(2), inner(3)
    assert [args[0] for args in made.began] == [0, 2, 2, 3]
    assert len(made.ended) == 4
    assert len(measured.rows("compiled")) == 2


def test_a_mistake_of_a_voirfile_changes_nothing(measured):
    made = Recorded(measured, counts=lambda args: args[1])
    thing = partial(divided)
    made.attach(thing)
    assert thing(1)[0] == 1
    assert [type(failure) for failure in measured.failures] == [IndexError]


def test_what_no_one_hears_of_any_more(measured):
    made = Recorded(measured)
    thing = partial(divided)
    made.attach(thing)
    points.undefine("injector:calls of partials")
    assert thing(1)[0] == 1
    assert made.began == made.ended == measured.rows() == []


def test_what_python_calls_without_a_look_is_refused(measured):
    attach = Recorded(measured).attach
    assert not any(map(attach, (divided, len, int, [].append, Recorded(measured).attach, object())))


def test_where_objects_lend_their_memory(measured):
    """A type of its own, made in C by what is there: NumPy's arrays lend theirs."""
    numpy = pytest.importorskip("numpy")
    made = Recorded(measured, counts=lambda args: args == ())
    kind = type("Lending", (numpy.ndarray,), {})
    array = numpy.zeros(3).view(kind)
    assert made.attach(kind)
    assert memoryview(array).nbytes == 24 and bytes(array) == bytes(24)
    assert len(measured.rows("compiled")) == len(made.ended) == 2
    memoryview(numpy.zeros(3))
    assert len(measured.rows("compiled")) == 2  # of another type
    array = numpy.zeros(3, "M8[s]").view(kind)
    with pytest.raises(ValueError, match="cannot include dtype"):
        memoryview(array)
    assert made.ended[-1] is MISSING
    points.undefine("injector:calls of partials")
    assert memoryview(numpy.zeros(3).view(kind)).nbytes == 24 and len(made.ended) == 3
    assert not made.attach(int)


def test_what_can_be_asked(measured):
    with pytest.raises(UserError, match="there are self and args"):
        Recorded(measured, items=lambda number: number)


def test_what_is_learnt_late_is_true_of_all_calls(measured):
    model, other = partial(divided), partial(divided)
    made = Recorded(measured, of=lambda self: self)
    made.attach(model), made.attach(other)
    model(1), other(1), model(2)
    measured.spans.sites.learn(model, region="forward", phase="predict")
    model(3)
    sites = [row[3] for row in measured.rows()]
    assert [(each["region"], each["phase"]) for each in sites] == [
        ("forward", "predict"), ("compiled", None), ("forward", "predict"), ("forward", "predict"),
    ]  # fmt: skip
