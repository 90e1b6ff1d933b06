"""Functions that name what they want to know."""

from __future__ import annotations

from functools import partial

import pytest

from injector.measure.call_values import CallValue, VariablePath, parameters, variables


class Asking:
    def __call__(self, model, args):
        return model, args

    def method(self, batch):
        return batch


def test_parameters():
    assert parameters(lambda self, x=3, *more, k=4, **rest: 0) == ("self",)
    assert parameters(Asking()) == ("model", "args")
    assert parameters(Asking().method) == ("batch",)
    assert parameters(lambda: 0) == ()
    for unknown in (len, partial(print), 3):
        with pytest.raises(TypeError):
            parameters(unknown)


def test_text_names_a_part_of_a_variable():
    asking = Asking()
    asking.rows = [7]
    for text, names, found in (
        ("self", ("self",), asking),
        ("self.rows", ("self",), [7]),
        ("bool(self.rows)", ("self",), True),
        ("args[1]", ("args",), 2),
    ):
        answer = CallValue(VariablePath(text))
        assert answer.names == names
        assert answer.over(("args", "self"))((1, 2), asking) == found
    for wrong in ("", "self.", "self.rows.first", "args[-1]", "args[a]", "f(self)", "1"):
        with pytest.raises(TypeError, match="no part of a variable"):
            VariablePath(wrong)


def test_variables_are_wanted_once():
    answers = [
        CallValue(lambda b, a: 0),
        CallValue(lambda a, result, _: 0),
        CallValue(7),
        CallValue(None),
    ]
    assert variables(answers) == ("b", "a")
    assert [answer.late for answer in answers] == [False, True, False, False]
    assert [answer.empty for answer in answers] == [False, False, False, True]


def test_each_function_gets_its_own():
    assert CallValue(lambda b: b).over(("a", "b", "c"))(1, 2, 3) == 2
    assert CallValue(lambda _, a: (a, _)).over(("a", "b"))(1, 2) == (1, None)
    assert CallValue(5).over(("a",))(1) == 5
    function = lambda a, b: 0
    assert CallValue(function).over(("a", "b")) is function
