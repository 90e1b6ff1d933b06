"""Every kind of figure × every kind of change × what the threshold says."""

from __future__ import annotations

import numpy as np
import pytest
from sampled import blocks, loop, run, side, steps

from injector.compare.comparison import compare
from injector.compare.rendering import render
from injector.compare.thresholds import BROKEN, HELD, UNSURE, judged, threshold
from injector.errors import UserError


def changed(size, count=4, **more):
    """A side whose steps, memory and values are ``size`` times as large."""
    random = np.random.default_rng(round(size * 100))
    return [
        run(
            loop(blocks(steps(random, 500, size, run_to_run=0.002), {"io": 0.4, "forward": 0.6})),
            totals={
                name: value * size * (1 + 0.002 * random.standard_normal())
                for name, value in (
                    ("memory", 1e9),
                    ("energy", 50.0),
                    ("duration", 9.0),
                    ("f1", 0.5),
                )
            },
            **more,
        )
        for _ in range(count)
    ]


def codes(text, before, after):
    found = compare(side("a", x=before), side("b", x=after))
    return [each.code for each in judged(found, [threshold(text)])]


WORSE, EQUAL, BETTER = 1.2, 1.0, 0.8


@pytest.mark.parametrize(
    "name", ["step_time", "throughput", "io", "memory", "energy", "duration", "f1"]
)
@pytest.mark.parametrize(
    ("size", "limit", "code"),
    [
        (WORSE, 5, BROKEN),
        (WORSE, 40, HELD),
        (WORSE, 18, UNSURE),
        (EQUAL, 5, HELD),
        (BETTER, 5, HELD),
    ],
)
def test_every_figure_and_every_change(name, size, limit, code):
    if name == "throughput" and limit == 18:
        limit = 16.5  # 1 - 1 / 1.2 is 16.7 %
    elif limit == 18:
        limit = 19.9
    assert codes(f"{name}>{limit}%", changed(EQUAL), changed(size)) == [code]


@pytest.mark.parametrize(("size", "code"), [(0.9, BROKEN), (1.0, HELD), (1.2, HELD)])
def test_a_value_of_which_less_is_worse(size, code):
    assert codes("f1<-5%", changed(EQUAL), changed(size)) == [code]


@pytest.mark.parametrize("count", [(1, 1), (4, 1), (1, 4)])
def test_one_value_of_one_run_cannot_tell(count):
    assert codes("memory>5%", changed(EQUAL, count[0]), changed(WORSE, count[1])) == [UNSURE]


@pytest.mark.parametrize("label", ["a", "after", "is only in before"])
def test_what_did_not_run_or_is_damaged_does_not_pass(label):
    """Whatever the sides are called, both alike too."""
    limit = [threshold("step_time>5%")]
    both = side(label, x=changed(1.0), y=changed(1.0))
    gone = judged(compare(both, side(label, x=changed(1.0))), limit)
    assert [(each.where, each.code) for each in gone] == [("x", HELD), ("y", UNSURE)]
    gone = judged(compare(both, side(label, x=changed(1.0), z=changed(1.0))), limit)
    assert [(each.where, each.code) for each in gone] == [("x", HELD), ("y", UNSURE)]
    damaged = side(label, x=changed(1.0, missing=("raw/x.spans is cut",)), y=changed(1.0))
    assert UNSURE in [each.code for each in judged(compare(both, damaged), limit)]


@pytest.mark.parametrize(("others", "named"), [({}, ""), ({"x": changed(1.0)}, "y: ")])
def test_what_one_side_alone_has_is_named_with_its_benchmark_where_there_are_several(others, named):
    before = side("s", y=changed(1.0), **others)
    after = side("s", y=[*changed(1.0)[:-1], run(totals={"f2": 1.0})], **others)
    assert f"  - {named}f2 is only there after" in render([compare(before, after)], [], "terminal")


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_loop_that_went_away_does_not_pass(where):
    random = np.random.default_rng(3)
    loops = [loop(blocks(steps(random)), function=f"{name}.py:fit") for name in "abc"]
    sides = {"before": [run(*loops[:2])], "after": [run(*loops[:2])]}
    sides[where] = [run(*loops)]
    found = compare(side("s", x=sides["before"]), side("s", x=sides["after"]))
    sentences = [each.sentence for each in judged(found, [threshold("step_time>50%")])]
    assert ("the loop c.py:fit is only there before" in sentences) == (where == "before")


@pytest.mark.parametrize("name", ["step_time", "throughput", "io"])
@pytest.mark.parametrize("limit", [0, 5, 99])
def test_too_little_to_tell_is_said_in_words(name, limit):
    before, after = ([run(loop(blocks(np.ones(2), {"io": 1.0})))] for _ in range(2))
    [found] = judged(
        compare(side("a", x=before), side("b", x=after)), [threshold(f"{name}>{limit}%")]
    )
    assert (found.code, found.sentence) == (UNSURE, "there is one run of too few steps before")


def test_all_places_are_judged_together():
    """A hundred benchmarks that are the same: one of them looks slower by chance, and none fails."""
    names = [f"b{number}" for number in range(40)]
    random = np.random.default_rng(11)

    def one():
        return {
            name: [run(loop(blocks(steps(random, 200, run_to_run=0.01)))) for _ in range(3)]
            for name in names
        }

    found = judged(compare(side("a", **one()), side("b", **one())), [threshold("step_time>0%")])
    assert BROKEN not in [each.code for each in found] and len(found) == 40


@pytest.mark.parametrize(
    "text",
    [
        "",
        "step_time",
        "step_time>",
        "step_time>5",
        ">5%",
        "step_time>five%",
        "step_time=5%",
        "step_time>-5%",
        "f1<5%",
    ],
)
def test_what_is_no_threshold(text):
    with pytest.raises(UserError, match="right would be"):
        threshold(text)


def test_a_figure_that_nobody_has():
    with pytest.raises(UserError, match=r"neither side has auc; there are .*memory"):
        codes("auc>5%", changed(1.0), changed(1.0))


def test_a_time_of_which_less_is_asked():
    with pytest.raises(UserError, match="less step_time is better"):
        codes("step_time<-5%", changed(1.0), changed(1.0))
