"""Texts with placeholders: what is one, what it comes to, what stays as it is."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.suite.config.problems import Mistake
from injector.suite.config.scope import Scope
from injector.suite.config.templates import template

SETTINGS = {"matrix": {"n": 7, "lr": 1e-4, "deep": "{n}/x", "flag": True, "off": None, "l": [1, 2]}}
VARIABLES = {"model": "resnet"}
CONTEXT = {"data": "/d", "gpu_count": 2, "source": "/odd{folder}"}


def value(text):
    return template(text).value(Scope(SETTINGS, VARIABLES, CONTEXT))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{n}", 7),
        (" {n}", " 7"),
        ("{flag}", True),
        ("{off}", None),
        ("{l}", [1, 2]),
        ("x={l}", "x=1,2"),
        ("${n}", 7),
        ("{data}/{model}", "/d/resnet"),
        ("{deep}", "7/x"),
        ("{n * 2}", 14),
        ("{(n + 1) * 2}", 16),
        ("{n:03d}", "007"),
        ("{lr:.1e}", "1.0e-04"),
        ("{model:>8s}|", "  resnet|"),
        ("auto({n}, 8)", 8),
        ("batch_size=auto_batch(8)", "batch_size=8"),
        ("expr({n} * 10)", 70),
        ("expr(n * 10)", 70),
        ("auto", "auto"),
        ("autotune(3)", "autotune(3)"),
        ("see auto(1, 2) there", "see auto(1, 2) there"),
        ('{"image":10}', '{"image":10}'),
        ('{"a":{"b":{n}}}', '{"a":{"b":7}}'),
        ("x{3}", "x{3}"),
        ("{}", "{}"),
        ("{ }", "{ }"),
        ("{{n}}", "{n}"),
        ("{{n}}-{n}", "{n}-7"),
        ("${{HOME}}", "${HOME}"),
        ("$HOME", "$HOME"),
        ("}}", "}}"),
        ("{{ a", "{ a"),
        ("f(x)", "f(x)"),
        ("{source}/{n}", "/odd{folder}/7"),
    ],
)
def test_what_a_text_comes_to(text, expected):
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{dta}", "did you mean data?"),
        ("{n", "no } for the brace"),
        ("a {n + } b", "ends too early"),
        ("{key: value}", "is no format"),
        ("{n:03q}", "is no format"),
        ("{model:03d}", "is not a number"),
        ("{n:.2d}", "cannot be written as"),
        ("a{off}", "null cannot stand inside a text"),
        ("auto({n})", "auto() wants 2 values, not 1"),
        ("auto_batch('a')", "is not a number"),
        ("{nope_a.b}", "unknown name nope_a.b"),
    ],
)
def test_what_has_no_value_says_why(text, message):
    with pytest.raises(Mistake) as caught:
        value(text)
    assert message in str(caught.value)


def test_the_environment_is_looked_up_last_and_only_in_its_own_way(monkeypatch):
    monkeypatch.setenv("BENCH_ROOT", "/bench{x}")
    assert value("${BENCH_ROOT}/logs") == "/bench{x}/logs"
    assert value("${env:BENCH_ROOT}") == "/bench{x}"
    assert value("${oc.env:BENCH_ROOT}") == "/bench{x}"
    assert value("${oc.env:NOWHERE_TO_BE,here}") == "here"
    with pytest.raises(Mistake, match="has no NOWHERE_TO_BE"):
        value("${env:NOWHERE_TO_BE}")


def test_a_circle_is_reported_with_all_who_are_in_it():
    scope = Scope({"argv": {"--a": "{argv.--b}", "--b": "{argv.--a}"}}, {}, {})
    with pytest.raises(Mistake, match=r"circle: argv.--b → argv.--a → argv.--b"):
        scope.at(("argv", "--a"), "{argv.--b}")
    scope = Scope({}, {"a": "${b}", "b": "${a}"}, {})
    with pytest.raises(Mistake, match="circle: a → b → a"):
        template("{a}").value(scope)


def partly(text, values, **variables):
    return template(text).partly(Scope({"matrix": values}, variables))


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("{data}/{n}", {"n": 3}, "{data}/3"),
        ("{n}", {"n": 3}, 3),
        ("{data}", {}, "{data}"),
        ("{gpu_count * n}", {"n": 3}, "{gpu_count * n}"),
        ("auto({n}, 8)", {"n": 3}, "auto({n}, 8)"),
        ("expr({n} * 10)", {"n": 3}, 30),
        ("{{n}} {n}", {"n": 3}, "{{n}} 3"),
        ("{{n}} {n} {data}", {"n": 3}, "{{n}} 3 {data}"),
        ("{n}", {"n": "{data}/x"}, "{n}"),
        ("{n}/y", {"n": "{data}/x"}, "{n}/y"),
        ("{n} w", {"n": "auto(1, 2)"}, "{n} w"),  # which of both it is, only a machine says
        ("{n:02d}-{data}", {"n": 3}, "03-{data}"),
    ],
)
def test_what_is_known_is_put_in_and_the_rest_stays_a_template(text, values, expected):
    assert partly(text, values) == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(string.ascii_letters, max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(string.ascii_letters, min_size=1, max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(json_values)
def test_json_in_an_argument_is_left_alone(made):
    text = json.dumps(made)
    assert value("x " + text) == "x " + text


pieces = st.sampled_from(
    ["{n}", "{data}", "{{n}}", "{{", "}}", "a", '{"k":', "}", "{n:02d}", "(", " "]
)


@given(st.lists(pieces, max_size=8), st.integers(0, 99))
def test_filling_in_two_steps_is_filling_in_one(row, n):
    text = "".join(row)
    try:
        at_once = template(text).value(Scope({"matrix": {"n": n}}, {}, CONTEXT))
    except Mistake:
        return
    between = template(text).partly(Scope({"matrix": {"n": n}}, {}))
    whole = Scope({"matrix": {"n": n}}, {}, CONTEXT)
    again = template(between).value(whole) if isinstance(between, str) else between
    assert again == at_once
