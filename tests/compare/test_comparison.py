"""What is paired with what, what differs, and what is said of it."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
from sampled import blocks, loop, run, side, steps

from injector.compare.changes import FASTER, SAME, SLOWER, UNKNOWN
from injector.compare.comparison import compare
from injector.compare.rendering import FORMATS, render, sentences
from injector.compare.sides import load, save
from injector.compare.work import _command, brief, differences
from injector.errors import UserError
from injector.value_class import replace


def runs(count, mean=1.0, regions=None, seed=1, number=300, **more):
    random = np.random.default_rng(seed)
    return [
        run(loop(blocks(steps(random, number, mean, run_to_run=0.002), regions), **more))
        for _ in range(count)
    ]


SIZES = {SLOWER: 1.2, FASTER: 0.8, SAME: 1.0}


@pytest.mark.parametrize("count", [(3, 3), (5, 2), (4, 1), (1, 1)])
@pytest.mark.parametrize("verdict", SIZES)
@pytest.mark.parametrize("items", [True, False])
def test_a_change_is_told_and_where_it_is(count, verdict, items):
    size = SIZES[verdict]
    regions = {"forward": 0.5, "io": 0.5}
    after = {"forward": 0.5 / size, "io": 1 - 0.5 / size}  # all of the change is in io
    one, two = runs(count[0], 1.0, regions, 1), runs(count[1], size, after, 2, number=3000)
    if not items:
        for each in (*one, *two):
            for found in each.loops:
                object.__setattr__(found.blocks[0], "items", None)
    [benchmark] = compare(side("a", x=one), side("b", x=two)).benchmarks
    [found] = benchmark.loops
    low, high = found.step.interval
    assert low < size < high
    assert found.throughput.unit == ("items/s" if items else "steps/s")
    expected = {verdict} if verdict != SAME else {SAME, UNKNOWN}
    assert found.step.verdict in expected and found.throughput.verdict in expected
    assert found.step.ratio.value == pytest.approx(1 / found.throughput.ratio.value)
    assert sum(each.after for each in found.regions) == pytest.approx(found.step.after)
    told = list(sentences(compare(side("a", x=one), side("b", x=two))))
    if verdict == SAME:
        assert not told
    else:
        [sentence] = told
        assert f"is {verdict}: a step takes" in sentence and "in io" in sentence


def test_a_crowded_machine_leaves_a_single_run_without_a_verdict():
    one, two = runs(1), runs(1, 1.5)
    crowded = [run(*two[0].loops, crowded="other programs kept 1.5 of 2 cores busy")]
    [changed] = compare(side("a", x=one), side("b", x=two)).changes
    [unsure] = compare(side("a", x=one), side("b", x=crowded)).changes
    assert (changed.step.verdict, unsure.step.verdict) == (SLOWER, UNKNOWN)
    text = render([compare(side("a", x=one), side("b", x=crowded))], [], "terminal")
    assert (
        "other programs had processors that it could have used in 0 of 1 run before and 1 of 1"
        in text
    )


def test_loops_are_paired_by_function_and_order():
    """Lines move between commits, loops of a function do not change places."""
    made = [blocks(steps(np.random.default_rng(n), mean=n)) for n in (1, 2, 3, 4)]
    one = run(
        loop(made[0], "a.py:fit", 10), loop(made[1], "a.py:fit", 30), loop(made[2], "a.py:test", 50)
    )
    two = run(
        loop(made[1], "a.py:fit", 95), loop(made[0], "a.py:fit", 12), loop(made[3], "a.py:new", 5)
    )
    [found] = compare(side("a", x=[one]), side("b", x=[two])).benchmarks
    assert [(each.name, round(each.step.change, 6)) for each in found.loops] == [
        ("a.py:fit (1)", 0.0),
        ("a.py:fit (2)", 0.0),
    ]
    assert found.only == (("a.py:test",), ("a.py:new",))


def test_a_single_loop_is_paired_whatever_it_is_called():
    one, two = runs(1), runs(1, function="other.py:fit", line=3)
    [found] = compare(side("a", x=one), side("b", y=two)).benchmarks
    assert found.name == "x → y" and len(found.loops) == 1
    assert found.only == ((), ())


def test_benchmarks_are_paired_by_name():
    before = side("a", x=runs(1), y=runs(1), z=runs(1))
    after = side("b", y=runs(1), x=runs(1), w=runs(1))
    found = compare(before, after)
    assert [each.name for each in found.benchmarks] == ["x", "y"]
    assert found.only == (("z",), ("w",))
    text = render([found], [], "terminal")
    assert "z is only in a (before)" in text and "w is only in b (after)" in text
    [mean] = [line.split() for line in text.splitlines() if line.startswith("geometric mean")]
    assert mean == ["geometric", "mean", "of", "2", "1.000x"]


def test_more_loops_make_wider_intervals():
    def width(number):
        names = {f"b{n}": runs(3) for n in range(number)}
        low, high = compare(side("a", **names), side("b", **names)).changes[0].step.interval
        return high - low

    assert width(1) < width(8) < width(30)


def test_totals_of_a_run():
    def side_of(*values, name="f1"):
        return [run(totals={name: value, "duration": 10 * value}) for value in values]

    [found] = compare(side("a", x=side_of(1.0, 1.1)), side("b", x=side_of(2.0, 2.2))).benchmarks
    assert [(each.name, each.unit) for each in found.totals] == [("duration", "s"), ("f1", "")]
    assert found.totals[1].change == pytest.approx(1.0)
    assert 1 < found.totals[1].interval[0] < 2 < found.totals[1].interval[1]
    [alone] = compare(side("a", x=side_of(1.0)), side("b", x=side_of(2.0))).benchmarks
    assert alone.totals[0].interval == (0.0, float("inf"))
    [none] = compare(side("a", x=side_of(1.0)), side("b", x=side_of(1.0, name="auc"))).benchmarks
    assert [each.name for each in none.totals] == ["duration"]


def test_what_differs_in_the_work():
    one = {"command": "t.py --lr 1", "host": "a", "package numpy": "1.26", "package x": "1"}
    two = {"command": "t.py --lr 2", "host": "a", "package numpy": "2.0", "commit": "abc"}
    assert differences([one], [two]) == [
        ("command", "t.py --lr 1", "t.py --lr 2"),
        ("commit", "none", "abc"),
        ("package numpy", "1.26", "2.0"),
        ("package x", "1", "none"),
    ]
    assert differences([one, one], [one]) == []
    assert differences([one, two], [one])[0] == (
        "command",
        "t.py --lr 1 | t.py --lr 2",
        "t.py --lr 1",
    )


def test_of_long_commands_the_words_that_differ_are_shown():
    def command(seed, layers):
        return f"train.py config/small.py --device=cpu --seed {seed} --batch 8 --layers={layers}"

    before = " | ".join(command(seed, 2) for seed in range(5))
    assert brief(before, command(8, 4)) == (
        "train.py … --seed 0 … --layers=2 | train.py … --seed 1 … --layers=2 | "
        "train.py … --seed 2 … --layers=2 | 2 more",
        "train.py … --seed 8 … --layers=4",
    )
    assert brief("t.py 1 1", "t.py 1 2") == ("t.py 1 1", "t.py 1 2")


def test_the_command_is_not_that_of_a_child_of_multiprocessing():
    child = ["python", "-c", "from multiprocessing.forkserver import main; main(3, 5)"]
    info = {
        "command": ["inject", "run", "--quiet", "train.py", "--lr", "1"],
        "program": {"target": "train.py"},
        "processes": [{"argv": child}],
    }
    assert _command(info) == "train.py --lr 1"


HOSTILE = "<script>alert(1)</script> | `x` [a](http://x) *b* \x1b[31m\n# c"


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_that_was_recorded_is_markup(form):
    one = [run(*runs(1, function=HOSTILE)[0].loops, totals={HOSTILE: 1.0}, work={"command": HOSTILE},
               missing=(HOSTILE,), failed=HOSTILE)]  # fmt: skip
    two = [
        run(*runs(1, 1.4, function=HOSTILE)[0].loops, totals={HOSTILE: 2.0}, work={"command": "x"})
    ]
    text = render([compare(side(HOSTILE, **{HOSTILE: one}), side("b", **{HOSTILE: two}))], [], form)
    assert "\x1b" not in text
    if form == "json":
        assert next(iter(json.loads(text)["comparisons"][0])) == "missing"
    elif form == "md":
        assert "<script>" not in text and "\n# c" not in text
        assert not re.search(r"(?<!\\)[\[`*]", text)
    else:
        assert text.startswith("missing")


def test_what_is_damaged_or_failed_is_reported_first():
    made = runs(1)[0].loops
    bad = run(*made, missing=("raw/x.spans is cut",), failed="it was killed by signal 9")
    found = compare(side("a", x=runs(2)), side("b", x=[run(*made), bad]))
    assert found.benchmarks[0].damage == (
        "after, run 2: it was killed by signal 9",
        "after, run 2: raw/x.spans is cut",
    )
    for form, start in (("terminal", "missing"), ("md", "## a → b\n\n> missing: after, run 2")):
        assert render([found], [], form).startswith(start)


@pytest.mark.parametrize(("count", "totals"), [*itertools.product((1, 3), ({}, {"f1": 0.25}))])
def test_a_baseline_is_what_was_saved(tmp_path, count, totals):
    random = np.random.default_rng(4)
    made = [
        run(
            loop(blocks(steps(random), {"io": 0.3, "forward": 0.7})),
            totals=totals,
            work={"host": "h"},
        )
        for _ in range(count)
    ]
    path = tmp_path / "baseline.json"
    save(str(path), side("here", x=made, y=made))
    read = load(str(path))
    assert read.label == "here" and list(read.benchmarks) == ["x", "y"]
    assert read.benchmarks["x"][0].totals == totals
    assert path.stat().st_size < 20_000 * count
    others = runs(3, 1.3)
    whole = compare(side("here", x=made), side("b", x=others)).changes[0].step
    again = compare(side("here", x=read.benchmarks["x"]), side("b", x=others)).changes[0].step
    assert again.interval == pytest.approx(whole.interval, rel=1e-4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no baseline of inject compare"),
        ("[]", "no baseline"),
        ("{}", "no baseline"),
        ('{"schema": 2, "benchmarks": {}}', "schema 2"),
        ('{"schema": 1, "benchmarks": {"x": [{"loops": 3}]}}', "no baseline"),
        ('{"schema": 1, "benchmarks": 3}', "no baseline"),
        (
            '{"schema": 1, "benchmarks": {"x": [{"loops": [{"blocks": [{}]}], "missing": []}]}}',
            "no baseline",
        ),
    ],
)
def test_a_file_that_is_no_baseline(tmp_path, text, message):
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        load(str(path))


def test_processes_side_by_side_are_no_repeats():
    """Both processes of a job are as slow as the machine was at that time."""
    slow, fast = runs(5, 1.04, seed=1, number=3000), runs(5, 1.0, seed=2, number=3000)
    together = (
        [replace(each, job="x.R0") for each in slow],
        [replace(each, job="x.R0") for each in fast],
    )
    [alone] = compare(side("a", x=fast), side("b", x=slow)).benchmarks
    [jobs] = compare(side("a", x=together[1]), side("b", x=together[0])).benchmarks
    assert (alone.runs, alone.repeats) == ((5, 5), (5, 5))
    assert (jobs.runs, jobs.repeats) == ((5, 5), (1, 1))
    assert alone.loops[0].step.verdict == SLOWER and jobs.loops[0].step.verdict == UNKNOWN
    assert jobs.loops[0].step.before == pytest.approx(alone.loops[0].step.before)
    # Each repeat is one unit, however many processes it has.
    doubled = [replace(each, job=f"x.R{at}") for at, each in enumerate([*slow, *slow])]
    pairs = [replace(each, job=f"x.R{at % 5}") for at, each in enumerate([*slow, *slow])]
    few, many = (
        compare(side("a", x=fast), side("b", x=each)).changes[0] for each in (pairs, doubled)
    )
    assert few.step.ratio.error == pytest.approx(
        compare(side("a", x=fast), side("b", x=slow)).changes[0].step.ratio.error
    )
    assert many.step.ratio.error < few.step.ratio.error
