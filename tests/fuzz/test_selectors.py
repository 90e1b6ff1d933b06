"""Whatever selector is set on whatever program: the program does what it does without.

And `inject check` says beforehand where the selector lands.
"""

from __future__ import annotations

import asyncio  # noqa: F401  what a fork need not import again
import os
import re
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from choosing import Selectors, places
from playing import Played, play
from programs import PRELUDE, Program

from injector.probe import compiled

# Python 3.12 counts what C calls beside what Python calls, and allows less of it.
DEEP = 200 if not compiled.NATIVE else 700 if sys.version_info[:2] == (3, 12) else 900
"""In Python, what stands in a `yield from` takes of the recursion limit."""
LINES = PRELUDE.count("\n")
SELECTORS = 12
"""Of each program: a third one at a time, the rest in two groups."""

EXAMPLES = (
    ("def f(x):\n    rval = x * x\n    return rval\nprint(f(3))\n", "//f(rval) > x"),
    ("def f(x):\n    rval = x * x\n    return rval\nprint(f(3))\n", "//f(rval) > #enter"),
    ("def f(x):\n    if x: return 1\n    rval = 1\nprint(f(3))\n", "//f(rval, !#exit)"),
    ("def f(x, y):\n    a = 4\n    return x\nprint(f(1, 2))\n", "//f(!x, y, a=4)"),
    (
        "x = 1\ndef f():\n    global x\n    del x\n    return y\ndef g(): return 1\ny = 2\nf()\n",
        "//(x) > y",
    ),
    ("def f():\n    return missing\ntry: f()\nexcept NameError as e: print(e)\n", "//f > missing"),
    ("def f():\n    global e\n    return e\ne = 2\nprint(f())\n", "//f > e"),
    (
        "def g(n):\n    if n: yield from g(n - 1)\n    yield h(n)\ndef h(n):\n    m = n\n    return m\n"
        "print(list(g(3)))\n",
        "//g(n) > //h > m",
    ),
    (
        f"def g(n):\n    if n: yield from g(n - 1)\n    yield n\nprint(len(list(g({DEEP}))))\n",
        "//g > #yield",
    ),
    ("def g(): yield from 3\nlist(g())\n", "//g > #yield"),
    ("def g(): yield from [1]\ni = g()\nnext(i)\ni.send(1)\n", "//g > #receive"),
    (
        "class A:\n    @property\n    def p(self): 1/0\n    @p.setter\n    def p(self, v): print('set')\n"
        "def f(a):\n    a.p, b = 1, 2\n    return b\nf(A())\n",
        "//f(a.p) > a.p",
    ),
    (
        "class A:\n    def p(self, v): print('set')\n    p = property(None, p)\na = A()\n"
        "[1 for a.p in 'xy']\nfor a.p in 'xy': pass\n",
        "//(a.p) > a.p",
    ),
    (
        "def f(a):\n    if a > 5: late = 0\n    d = locals()\n    b = a\n    print(d)\n    late = b\n"
        "    print(locals())\nf(1)\n",
        "//f(late, a) > b",
    ),
    (
        "def g():\n    d = locals()\n    b = 1\n    h()\n    print(d)\ndef h():\n    x = 2\ng()\n",
        "//g(b) > //h > x",
    ),
    (
        "class S(dict):\n    def __getitem__(self, k): print(k); return dict.__getitem__(self, k)\n"
        "class M(type):\n    def __prepare__(*a): return S()\nclass C(metaclass=M):\n    a, b = 1, 2\n",
        "//C(b) > a",
    ),
)


def outcome(played: Played) -> tuple[object, ...]:
    """What can be seen from outside, but for addresses."""
    return played.code, *(re.sub("0x[0-9a-f]+", "0x", text) for text in (played.out, played.err))


def program(random: Random) -> str:
    while True:
        source = Program(random).text()
        try:
            compile(source, "drawn", "exec")
        except SyntaxError:
            continue
        return source


def check(source: str, selectors: list[str]) -> None:
    plain = outcome(play(source))
    if plain != outcome(play(source)):
        return  # it is not the same twice
    for several in selectors:
        found = play(source, several.split(" ; "))
        assert "could not be rewritten" not in found.messages, several
        assert "failure" not in found.messages, several
        assert "disagrees" not in found.messages, found.messages
        assert outcome(found) == plain, several


def compare(random: Random) -> None:
    source = program(random)
    drawn = Selectors(random, places(source, LINES))
    singles = [drawn.draw() for _ in range(SELECTORS)]
    alone, half = SELECTORS // 3, SELECTORS * 2 // 3
    check(source, [*singles[:alone], " ; ".join(singles[alone:half]), " ; ".join(singles[half:])])


@pytest.mark.parametrize(("source", "selector"), EXAMPLES)
def test_a_program_is_not_changed_by(source, selector):
    check(source, [selector])
    assert "probe {" in play(source, [selector]).messages, "it lands"


drawing = settings(suppress_health_check=list(HealthCheck), derandomize=True, database=None)


@settings(drawing, max_examples=5)
@given(random=st.randoms(use_true_random=True))
def test_no_selector_changes_a_program(random):
    compare(random)


@pytest.mark.release
@settings(drawing, max_examples=int(os.environ.get("FUZZ_EXAMPLES", "600")))
@given(random=st.randoms(use_true_random=True))
def test_no_selector_changes_any_of_many_programs(random):
    compare(random)
