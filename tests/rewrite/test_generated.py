"""Generated programs do with hooks at every place what they do without."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rewriting import POINTS, define, differences, everything, identity, plainly, weave

NAMES = ("a", "b", "c", "d")
"""Variables of every scope: some are unbound where they are read, which is part of the test."""

LIMIT = 400
"""Loops and recursion of a generated program end after so many notes."""

PRELUDE = f"""
import contextlib
class Enough(Exception): pass
log = []
def note(value):
    log.append(value if isinstance(value, (int, str, tuple, type(None))) else type(value).__name__)
    if len(log) > {LIMIT}: raise Enough
    return value
@contextlib.contextmanager
def managed(value):
    note(("in", str(value)))
    try: yield value
    except ValueError as error: note(("held", str(error)))
    finally: note("out")
class Box: pass
"""


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


names = st.sampled_from(NAMES)
numbers = st.integers(-2, 3).map(str)
expressions = st.recursive(
    st.one_of(numbers, names),
    lambda inner: st.one_of(
        st.builds("note({})".format, inner),
        st.builds("({} + {})".format, inner, inner),
        # What a test of constants leaves out, the compiler leaves out: not always with hooks in it.
        st.builds("({} if note({}) else {})".format, inner, inner, inner),
        st.builds("(note({}) and {})".format, inner, inner),
        st.builds("(lambda a: {})({})".format, inner, inner),
        st.builds("[{} for a in ({}, {}) if note({})][0]".format, inner, inner, inner, inner),
        st.builds("sum({} for b in range(2))".format, inner),
        st.builds("max({{a: {} for a in range(2)}}.values())".format, inner),
        st.builds("({} // {})".format, inner, inner),
    ),
    max_leaves=6,
)
simple = st.one_of(
    st.builds("{} = {}".format, names, expressions),
    st.builds("{}: int = {}".format, names, expressions),
    st.builds("{} = {} = {}".format, names, names, expressions),
    st.builds("{}, {} = {}, {}".format, names, names, expressions, expressions),
    st.builds("*{}, {} = {}, {}".format, names, names, expressions, expressions),
    st.builds("{} += {}".format, names, expressions),
    st.builds("Box.x = {}".format, expressions),
    st.builds("note({})".format, expressions),
    st.builds("del {}".format, names),
    st.builds("assert note({}), 'wrong'".format, expressions),
    st.builds("raise ValueError({})".format, expressions),
    st.just("pass"),
)
leaving = st.one_of(st.builds("return {}".format, expressions), st.just("return"))
breaking = st.sampled_from(["break", "continue"])
walrus = st.builds("note(({} := {}))".format, names, expressions)


@st.composite
def blocks(draw: Any, depth: int, inside: frozenset[str]) -> list[str]:
    """Statements; ``inside`` says what surrounds them: ``function``, ``loop``, ``generator``."""
    choices = [simple, simple, walrus]
    if "function" in inside:
        choices.append(leaving)
    if "loop" in inside:
        choices.append(breaking)
    if "generator" in inside:
        choices.append(st.builds("{} = yield {}".format, names, expressions))
        choices.append(st.builds("{} = yield from ({}, 1)".format, names, expressions))
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        if depth and draw(st.booleans()):
            lines += draw(compounds(depth - 1, inside))
        else:
            lines.append(draw(st.one_of(choices)))
            if lines[-1].startswith(("return", "raise", "break", "continue")):
                break  # of what cannot be reached the compiler keeps now more, now less
    return lines


@st.composite
def compounds(draw: Any, depth: int, inside: frozenset[str]) -> list[str]:
    def block(*more: str) -> list[str]:
        return indented(draw(blocks(depth, inside | frozenset(more))))

    def expression() -> str:
        return str(draw(expressions))

    name = draw(names)
    kind = draw(st.sampled_from(["if", "for", "while", "try", "with", "match", "def", "class"]))
    if kind == "if":
        return [f"if note({expression()}):", *block(), "else:", *block()]
    if kind == "for":
        head = f"for {name} in ({expression()}, {expression()}):"
        tail = ["else:", *block()] if draw(st.booleans()) else []
        return [head, *block("loop"), *tail]
    if kind == "while":
        return [f"while note({expression()}):", *block("loop")]
    if kind == "try":
        return [
            "try:", *block(), f"except (ValueError, NameError) as {name}:", *block(),
            *(["else:", *block()] if draw(st.booleans()) else []),
            *(["finally:", *block()] if draw(st.booleans()) else []),
        ]  # fmt: skip
    if kind == "with":
        return [f"with managed({expression()}) as {name}:", *block()]
    if kind == "match":
        head = [f"match ({expression()}, {expression()}):"]
        first = [f"    case ({name}, 1):", *indented(block())]
        return [*head, *first, f"    case [{name}, *_]:", *indented(block())]
    return draw(definitions(depth, inside, kind, name))


@st.composite
def definitions(draw: Any, depth: int, inside: frozenset[str], kind: str, name: str) -> list[str]:
    own = frozenset({"function", "generator"} if draw(st.booleans()) else {"function"})
    if kind == "class":
        # break and continue do not reach out of a class body, nor do return and yield.
        body = indented(draw(blocks(depth, frozenset())))
        return [f"class {name}:", *body]
    body = indented(draw(blocks(depth, own)))
    arguments = draw(st.sampled_from(["a", "a=1", "*a", "a, /, b=2, *, c=3", "**a"]))
    declared = []
    if "function" in inside and draw(st.booleans()):
        declared = ["    global d"]
    doc = ['    """What it does."""'] if draw(st.booleans()) else []
    call = f"f({draw(expressions)})" if arguments != "**a" else "f()"
    using = f"for {name} in {call}: note({name})" if "generator" in own else f"{name} = {call}"
    if "generator" in own:
        body = [*body, "    yield 1"]
    return [f"def f({arguments}):", *doc, *declared, *body, using]


programs = blocks(3, frozenset()).map("\n".join)


def outcome(code: Any) -> tuple[Any, ...]:
    """All that a program did: its notes, its variables, its exception with the lines it came by."""
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(PRELUDE, namespace)
    error = None
    try:
        exec(code, namespace)
    except Exception as raised:
        trace, lines = raised.__traceback__, []
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == "woven.py":
                lines.append((trace.tb_frame.f_code.co_name, trace.tb_lineno))
            trace = trace.tb_next
        error = (type(raised).__name__, str(raised), lines)
    kept = {name: repr(type(namespace.get(name))) for name in NAMES}
    return namespace["log"], kept, error


def valid(source: str) -> bool:
    try:
        plainly(source)
    except SyntaxError:  # such as a name that is used before it is declared global
        return False
    return True


SETTINGS = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@SETTINGS
@given(programs.filter(valid))
def test_with_every_hook_a_program_does_the_same(source: str) -> None:
    plain = plainly(source)
    expected = outcome(plain)
    for override in (False, True):
        requests = everything("made", override)
        for request in requests:
            define(request.hook, identity)
        code, landings, _ = weave(source, requests)
        # What follows a return is dropped by the compiler, whole or in part.
        seen = [each for each in differences(plain, code) if not each.endswith("code inside")]
        assert seen == []
        assert outcome(code) == expected
        assert all(landing.line <= source.count("\n") + 1 for landing in landings)


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@SETTINGS
@given(programs.filter(valid).filter(lambda source: "lambda" not in source))  # it has no #exit
def test_functions_are_entered_as_often_as_they_are_left(source: str) -> None:
    counts = dict.fromkeys(POINTS, 0)
    requests = [
        request for request in everything("made") if request.variable in ("#enter", "#exit")
    ]

    def counting(point: str) -> Any:
        def hook(value: Any = None, *_: Any) -> Any:
            counts[point] += 1
            return value

        return hook

    for request in requests:
        assert request.variable is not None
        define(request.hook, counting(request.variable))
    code, _, _ = weave(source, requests)
    outcome(code)
    if counts["#enter"] != counts["#exit"]:
        gc.collect()  # a generator that was left in the middle is left for good when it goes
    assert counts["#enter"] == counts["#exit"]
    assert sys.exc_info() == (None, None, None)
