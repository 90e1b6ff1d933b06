"""Mistakes of every kind: each with its file, line and key and what would be right; all at once."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tries import tries

from injector.suite.config import load
from injector.suite.config.keys import EntryKeys
from injector.suite.config.problems import SuiteError

EVERYTHING = """\
include: [base.yaml, bse.yaml]
unknown:
  run: x.py
  maxduration: 1
wrong:
  run: x.py
  weight: heavy
  enabled: maybe
  max_duration: 0
  tags: vision
  env: [A]
  plan: {method: per_gpus, n: 0, devices: [0, -1], lancher: 3}
  argv: {--a: false, --b: {c: d}, --c: "{gpu_cnt", --d: {gpu_count}}
  voir: {stop: 3}
  validation: {usge: {load: 0.5}, usage: {load: 5}}
  batch: {arg: --batch, defualt: 3}
  requirements: {cda: x.txt}
  origin: {packge: x}
"""

TOLD = """\
suite.yaml:1: include.1: there is no file bse.yaml to include; did you mean base.yaml?
suite.yaml:4: unknown.maxduration: unknown key maxduration; did you mean max_duration?
suite.yaml:7: wrong.weight: should be a number of at least 0, not the text 'heavy'
suite.yaml:8: wrong.enabled: should be true or false, not the text 'maybe'
suite.yaml:9: wrong.max_duration: should be a number greater than 0, not the number 0
suite.yaml:10: wrong.tags: should be a list, not the text 'vision'
suite.yaml:11: wrong.env: should be a map, not a list
suite.yaml:12: wrong.plan.method: should be one of per_gpu, njobs, per-gpu, not the text 'per_gpus'; \
did you mean per_gpu?
suite.yaml:12: wrong.plan.n: should be a number greater than or equal to 1, not the number 0
suite.yaml:12: wrong.plan.devices.1: should be a number greater than or equal to 0, not the number -1
suite.yaml:12: wrong.plan.lancher: unknown key lancher; did you mean launcher?
suite.yaml:13: wrong.argv.--a: false is no argument: null drops it, 'false' in quotes is the word
suite.yaml:13: wrong.argv.--b: should be one value or a list, not a map
suite.yaml:13: wrong.argv.--c: no } for the brace before 'gpu_cnt'; a brace itself is {{
suite.yaml:13: wrong.argv.--d: should be one value or a list, not a map; \
a placeholder has quotes around it: '{gpu_count}'
suite.yaml:14: wrong.voir.stop: unknown key stop (there is options)
suite.yaml:15: wrong.validation.usage.load: should be a number less than or equal to 1, not the number 5
suite.yaml:15: wrong.validation.usge: unknown key usge; did you mean usage?
suite.yaml:16: wrong.batch.defualt: unknown key defualt; did you mean default?
suite.yaml:17: wrong.requirements.cda: unknown key cda; did you mean cuda?
suite.yaml:18: wrong.origin.packge: unknown key packge; did you mean package?
base.yaml:2: parent.plan.method: should be one of per_gpu, njobs, per-gpu, not the text 'gpus'
"""


def test_all_mistakes_are_reported_at_once_each_with_its_place(suites):
    suites.write(base="parent:\n  plan: {method: gpus}\n")
    found = suites.problems(EVERYTHING)
    for message, messages in zip(found, TOLD.splitlines(), strict=True):
        assert message == messages


def test_mistakes_that_only_the_whole_shows_are_reported_together(suites):
    found = suites.problems("""\
        a: {run: x, argv: {--x: "{dat}"}, inherits: _p}
        b: {run: x, inherits: _q}
        _p: {env: {X: "{nme}"}}
        c: {run: x, requires_capabilities: [gpus > 1], when: {acrh == 'cuda': {weight: 1}}}
        d: {matrix: {n: []}, job: {run: x}}
        e: {weight: 1}
        f: {matrix: {n: [1, 2]}, job: {run: x, name: f}}
        g: {run: x, definition: nowhere}
        """)
    assert [":".join(line.split(":")[1:3]) for line in found] == [
        "1: a.argv.--x",
        "2: b.inherits",
        "3: _p.env.X",
        "4: c.requires_capabilities.0",
        "4: c.when.acrh == 'cuda'",
        "5: d.matrix",
        "6: e",
        "7: f.job.name",
        "8: g.definition",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "inclde: x.yaml\n",
            "should be a map of a benchmark's keys, not the text 'x.yaml'; did you mean include?",
        ),
        ("one: 3\n", "one: should be a map of a benchmark's keys, not the number 3"),
        ("'a b': {run: x}\n", "'a b' is no name: letters, digits and"),
        ("one: {run: x, definition: 3.5}\n", "no definition '3.5'"),
        ("variables: 3\none: {run: x}\n", "variables: should be a map, not the number 3"),
        ("one: {run: {a: b}}\n", "should be a text or a list, not a map"),
        (
            "one: {run: x, inherits: {a: b}}\n",
            "one.inherits: should be a text or a list, not a map",
        ),
        ("one: {run: x, tags: [a, null]}\n", "one.tags.1: should be a text, not null"),
        ("one: {run: x, group: 'a b'}\n", "suite.yaml:1: one.group: 'a b' is no name: letters"),
        (
            "_p: {group: 'g{name}'}\none: {run: x, inherits: _p, install_group: ../up}\n",
            "suite.yaml:2: one.install_group: '../up' is no name: letters",
        ),
        ("one: {run: x}\n'*': {definition: y}\n", '*.definition: has no effect below "*"'),
        ("one: {run: x}\n'*': {job: {run: y}}\n", '*.job: has no effect below "*"'),
        ("one: {run: x, exclude: ['n > 1']}\n", "one.exclude: there is no matrix"),
        ("one: {run: x, when: 3, job: 4}\n", "one.job: should be a map, not the number 4"),
    ],
)
def test_mistakes_of_form(suites, text, message):
    found = suites.problems(text)
    assert any(message in line for line in found), found


def test_a_mistake_of_a_parent_is_reported_once_for_all_heirs(suites):
    text = "_p: {argv: {--x: '{nowhere_}'}}\n" + "".join(
        f"a{n}: {{run: x, inherits: _p}}\n" for n in range(5)
    )
    (found,) = suites.problems(text)
    assert found.startswith("suite.yaml:1: _p.argv.--x: unknown name nowhere_")


# anything at all: benchmarks, or problems; never another error

words = st.sampled_from(
    [
        "{n}",
        "{gpu_count}",
        "x",
        "a.py",
        "_p",
        "one",
        "{argv.--a}",
        "auto(1, 2)",
        "n > 1",
        "per_gpu",
        "{",
        "1e-3",
    ]
)
scalars = st.none() | st.booleans() | st.integers(-3, 9) | st.floats(0, 2) | words
keys = st.sampled_from(
    [
        *EntryKeys.model_fields,
        "method",
        "options",
        "space",
        "low",
        "--a",
        "n",
        "git",
        "usage",
        "append",
    ]
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
entries = st.dictionaries(keys, values, max_size=6) | values
names = st.sampled_from(["one", "two", "_p", "_q", "*", "include", "variables", "system", "a b"])


@settings(
    max_examples=tries(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(made=st.dictionaries(names, entries, max_size=4), n=st.integers(0, 3))
def test_anything_is_a_suite_or_says_why_not(tmp_path, made, n):
    file = tmp_path / "any.yaml"
    file.write_text(json.dumps(made))
    try:
        suite = load(file, {"gpu_count": n})
    except SuiteError as error:
        assert error.problems
        return
    for each in suite.benchmarks:
        try:
            words = each.argv({"gpu_count": n})
            each.filled({"gpu_count": n})
            each.unmet({"gpu_count": n})
        except SuiteError as error:
            assert error.problems
        else:
            assert all(isinstance(word, str) for word in words)


def test_a_key_that_stands_twice_hides_no_other_mistake(tmp_path):
    text = """\
a:
  run: x.py
  weigth: 2
  run: y.py
b:
  rnu: z.py
a: {run: x.py, enabled: maybe}
"""
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(SuiteError) as caught:
        load(tmp_path / "s.yaml")
    message = [line.partition("s.yaml:")[2] for line in str(caught.value).splitlines()]
    assert [line.partition(" ")[2].partition(":")[0] for line in message] == [
        "a.run", "b", "b.rnu", "a", "a.enabled",
    ]  # fmt: skip
    assert message[0].startswith("4: a.run: run stands twice: on line 2")
    assert message[3].startswith("7: a: a stands twice: on line 1")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nope.yaml", "there is no file nope.yaml, and no shipped suite of that name"),
        ("smoky", "there is no file smoky, and no shipped suite of that name; did you mean smoke?"),
        (".", ". is a folder, and a suite is a YAML file"),
    ],
)
def test_a_suite_that_is_not_there_has_no_line(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SuiteError) as caught:
        load(name)
    assert str(caught.value).startswith(message)
