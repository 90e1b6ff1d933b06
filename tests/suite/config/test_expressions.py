"""Expressions: what they come to, and what is no expression."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.suite.config.expressions import MOST_STEPS, compiled
from injector.suite.config.problems import Mistake
from injector.suite.config.scope import Scope

SETTINGS = {
    "argv": {"--lr": 0.5, "-n": 3, "train.size": 7, "--list": ["a", "b"]},
    "tags": ["vision", "net"],
    "plan": {"n": 2},
    "matrix": {"batch-size": 32, "model": "resnet", "empty": None, "x.y": 5},
}
VARIABLES = {"exp.framework": "mxnet", "mxnet.image": "img", "count": 4}
CONTEXT = {"gpu_count": 8, "arch": "cuda", "gpu": {"count": 8}, "nodes": [{"name": "a"}]}


def value(text, path=()):
    scope = Scope(SETTINGS, VARIABLES, CONTEXT)
    scope.path = path
    return compiled(text).value(scope)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("2 ** 3 ** 2", 512),
        ("-2 ** 2", -4),
        ("2 ** -1", 0.5),
        ("7 // 2", 3),
        ("7 / 2", 3.5),
        ("-7 % 3", 2),
        ("10 - 3 - 2", 5),
        ("1e-3 * 2", 0.002),
        ("- 3 + 5", 2),
        ("min(3, 1, 2)", 1),
        ("max([1, 5, 2])", 5),
        ("len(tags)", 2),
        ("round(2.567, 1)", 2.6),
        ("round(2.5)", 2),
        ("int('8') + 1", 9),
        ("floor(2.9) + ceil(2.1)", 5),
        ("abs(-3)", 3),
        ("len(split('0,1,2,3'))", 4),
        ("split('a b', ' ')", ["a", "b"]),
        ("split([1, 'a'])", ["1", "a"]),
        ("numbers('0:1, 2')", [0, 1, 2]),
        ("numbers(['3', 2])", [3, 2]),
        ("numbers(7)", [7]),
        ("numbers(split(''))", []),
        ("numbers(null)", []),
        ("batch-size * 2", 64),
        ("batch-size - 2", 30),
        ("argv.--lr * 2", 1.0),
        ("argv.-n", 3),
        ("argv.train.size", 7),
        ("argv['--lr']", 0.5),
        ('argv["--list"][1]', "b"),
        ("argv.--list.0", "a"),
        ("x.y", 5),
        ("exp.framework", "mxnet"),
        ("${${exp.framework}.image}", "img"),
        ("gpu['count'] > 1", True),
        ("gpu.count", 8),
        ("len(nodes) >= 1", True),
        ("nodes[0].name == 'a'", True),
        ("arch == 'cuda' and gpu_count >= 8", True),
        ("arch in ['rocm', 'xpu']", False),
        ("arch not in ['rocm', 'xpu']", True),
        ("'vis' in 'vision'", True),
        ("'vision' in tags and not 'nlp' in tags", True),
        ("not not true", True),
        ("false or gpu_count", True),
        ("empty == null", True),
        ("'9' < 10", True),
        ("'a' < 'b'", True),
        ("'81920 MiB' < '100 GiB'", True),
        ("'80 GiB' >= '81920 MiB'", True),
        ("{gpu_count} * {count}", 32),
        ("expr({batch-size} * 10)", 320),
        ("auto(gpu_count, 3)", 3),
        ("auto_batch(16)", 16),
    ],
)
def test_what_an_expression_comes_to(text, expected):
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_a_reference_with_dots_before_it_begins_where_it_stands():
    assert value("..plan.n", ("requires_capabilities", 0)) == 2
    assert value(".n", ("plan", "method")) == 2
    with pytest.raises(Mistake, match=r"there is no key at \.\.\.plan"):
        value("...plan", ("plan", "n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends too early"),
        ("1 +", "ends too early"),
        ("(1", "is missing"),
        ("1 2", "'2' is not expected"),
        ("a b", "'b' is not expected"),
        ("1 ? 2", "cannot read '? 2' at character 3"),
        ("1 and or 2", "'or' is not expected at character 7"),
        ("(1 2)", "'2' is not expected at character 4"),
        ("(1, 2)", "more than expressions may have"),
        ("1 < 2 < 3", "one comparison"),
        ("a if b else c", "'if' is not expected"),
        ("lambda: 1", "cannot read ': 1'"),
        ("[x for x in y]", "'for' is not expected"),
        ("(1]", "']' is not expected"),
        ("{1", "a '}' is missing for the '{' at character 1"),
        ("a not b", "cannot read 'a not b'"),
        ("foo(1)", "no function foo()"),
        ("rond(1.5)", "did you mean round?"),
        ("min()", "min() takes 1 or more arguments, not 0"),
        ("len(3)", "the number 3 has no length"),
        ("round(1, 2, 3)", "round() takes"),
        ("1 / 0", "divided by zero"),
        ("1 % 0", "divided by zero"),
        ("10 ** 400", "grew too large"),
        ("2 ** 100000", "a power of more than"),
        ("1e200 * 1e200", "grew too large"),
        ("(-8) ** 0.5", "has no real value"),
        ("'a' + 1", "the text 'a' is not a number"),
        ("'a' < 1", "the text 'a' is not a number"),
        ("true + 1", "true is not a number"),
        ("1 in 2", "`in` takes a list, a map or a text"),
        ("gpu_cout", "did you mean gpu_count?"),
        ("gpu_count-1", "a minus wants spaces around it"),
        ("gpu.cont", "{gpu} has no cont; did you mean count?"),
        ("argv.--lrr", "did you mean argv.--lr?"),
        ("cpu_per_gpu", "{cpu_per_gpu} has no value here"),
        ("argv[lr]", "takes a number or a quoted text"),
        ("argv.", "a name is missing"),
        ("1.2.3", "cannot read"),
        ("__import__('os')", "no function __import__"),
        ("(" * 60 + "1" + ")" * 60, "nested more than"),
        ("+".join(["1"] * (MOST_STEPS + 5)), "steps"),
        ("1" * 1500, "characters"),
    ],
)
def test_what_is_no_expression_or_has_no_value_says_why(text, message):
    with pytest.raises(Mistake) as caught:
        value(text)
    assert message in str(caught.value)


numbers = st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6).map(lambda value: round(value, 6))


@given(numbers, numbers, st.sampled_from(["+", "-", "*", "/", "//", "%"]))
def test_two_numbers_come_to_what_python_makes_of_them(a, b, sign):
    text = f"({a!r}) {sign} ({b!r})"
    try:
        expected = eval(text)
    except ZeroDivisionError:
        with pytest.raises(Mistake):
            value(text)
    else:
        assert value(text) == expected


SIGNS = "( ) [ ] , + - * ** / == < in not and or . { } ${ !"
words = st.sampled_from(f"1 2.5 't' gpu_count batch-size tags true min len {SIGNS}".split())


@given(st.lists(words, max_size=14))
def test_any_row_of_words_is_an_expression_or_says_why_not(row):
    try:
        found = value(" ".join(row))
    except Mistake as error:
        assert str(error)
    else:
        assert not isinstance(found, float) or math.isfinite(found)


def test_alternatives_that_do_not_matter_are_not_looked_at():
    assert value("true or nowhere.at_all") is True
    assert value("false and 1 / 0") is False
