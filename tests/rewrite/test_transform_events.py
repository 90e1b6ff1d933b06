"""Every event, over every kind of function: what is told, in which order."""

from __future__ import annotations

import builtins
import contextlib
import sys
from textwrap import dedent
from typing import Any

import pytest
from rewriting import play, weave

from injector.rewrite.request import Request

ENTER = [True]

FUNCTIONS: dict[str, tuple[str, str, str]] = {
    # name: source, path of the probed function, how it is called; each returns 3, called once
    "function": ("def f(): return 3", "f", "f()"),
    "docstring only": ('def f(): "text"\ndef g(): f(); return 3', "f", "g()"),
    "method": ("class C:\n  def m(self): return 3", "C.m", "C().m()"),
    "static": ("class C:\n  @staticmethod\n  def m(): return 3", "C.m", "C().m()"),
    "class method": ("class C:\n  @classmethod\n  def m(cls): return 3", "C.m", "C.m()"),
    "property": ("class C:\n  @property\n  def m(self): return 3", "C.m", "C().m"),
    "nested class": ("class C:\n  class D:\n    def m(self): return 3", "C.D.m", "C.D().m()"),
    "closure": ("def f():\n  x = 3\n  def g(): return x\n  return g()", "f.g", "f()"),
    "decorated": (
        "import functools\ndef d(h):\n  @functools.wraps(h)\n  def inner(*a): return h(*a)\n"
        "  return inner\n@d\n@d\ndef f(): return 3",
        "f",
        "f()",
    ),
    "conditional": ("if 1:\n  try:\n    def f(): return 3\n  finally: pass", "f", "f()"),
    "super": (
        "class A:\n  def m(self): return 3\nclass C(A):\n  def m(self): return super().m()",
        "C.m",
        "C().m()",
    ),
    "mangled": ("class C:\n  __x = 3\n  def m(self): return self.__x", "C.m", "C().m()"),
    "coroutine": (
        "import asyncio\nasync def f():\n  await asyncio.sleep(0)\n  return 3",
        "f",
        "asyncio.run(f())",
    ),
    "match": ("def f():\n  match [1, 3]:\n    case [_, y]: return y", "f", "f()"),
    "with": ("import contextlib\ndef f():\n  with contextlib.nullcontext(3) as y: return y",
             "f", "f()"),
    "finally": ("def f():\n  try: return 3\n  finally: len([])", "f", "f()"),
    "recursive": ("def g(n): return n and g(n - 1)\ndef f(): g(2); return 3", "f", "f()"),
    "comprehension": ("def f(): return [x for x in range(4)][3]", "f", "f()"),
    "starred arguments": ("def f(*a, k=3, **m): return k", "f", "f(1, z=2)"),
}  # fmt: skip
if sys.version_info >= (3, 11):
    FUNCTIONS["except*"] = (
        "def f():\n  try: raise ExceptionGroup('g', [ValueError()])\n"
        "  except* ValueError: pass\n  return 3",
        "f",
        "f()",
    )
if sys.version_info >= (3, 12):
    FUNCTIONS["PEP 695"] = ("def f[T](x: T = 3) -> T: return x", "f", "f()")
    FUNCTIONS["PEP 695 class"] = ("class C[T]:\n  def m[U](self, x: U = 3) -> U: return x",
                                  "C.m", "C[int]().m()")  # fmt: skip
if sys.version_info >= (3, 15):
    LAZY = """
x = 1
lazy import wave
if x:
    lazy from wave import Wave_read as reader
import sys
y = "wave" in sys.modules
"""

    @pytest.mark.parametrize("event", ["#enter", "#exit", "#error", "wave", "x", "y"])
    def test_lazy_imports_stay_lazy(event: str) -> None:
        sys.modules.pop("wave", None)
        played = play(LAZY, "", event, run="y")
        assert (played.result, "wave" in sys.modules) == (False, False)
        seen = {"wave": [], "#error": [], "y": [False], "x": [1]}
        assert played.seen == seen.get(event, [True])

    def test_what_is_raised_between_lazy_imports_is_an_error_of_the_module(monkeypatch) -> None:
        raised: list[Any] = []
        request = Request("play:2", "m", (), "#error", (), False, None)
        code, _, misses = weave("lazy import wave\n1 / 0\nlazy import wave", [request])
        monkeypatch.setattr(builtins, "play:2!", lambda: raised.append(sys.exc_info()[0]), False)
        with pytest.raises(ZeroDivisionError):
            exec(code, {})
        assert (raised, misses) == ([ZeroDivisionError], [])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_enter_value_exit(name: str) -> None:
    source, path, run = FUNCTIONS[name]
    value: Any = None if name == "docstring only" else 3
    for event, expected in {"#enter": True, "#value": value, "#exit": True}.items():
        played = play(source, path, event, run=run)
        assert (played.seen, played.misses) == ([expected], [])
        assert played.result == 3


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_returned_can_be_exchanged(name: str) -> None:
    source, path, run = FUNCTIONS[name]
    played = play(source, path, "#value", lambda value: (value or 0) * 10, run=run)
    assert played.result == (3 if name == "docstring only" else 30)


RAISING: dict[str, tuple[str, str, str]] = {
    "function": ("def f(): raise ValueError('no')", "f", "f()"),
    "method": ("class C:\n  def m(self): {}['no']", "C.m", "C().m()"),
    "called": ("def g(): raise KeyError('no')\ndef f(): g()", "f", "f()"),
    "coroutine": ("import asyncio\nasync def f(): raise ValueError('no')", "f", "asyncio.run(f())"),
    "generator": ("def f():\n  yield 1\n  raise ValueError('no')", "f", "list(f())"),
    "exit": ("def f(): raise SystemExit('no')\ndef g():\n  try: f()\n  except SystemExit as e: raise"
             " ValueError(str(e))", "f", "g()"),
    "from a finally": ("def f():\n  try: 1 / 0\n  finally: raise ValueError('no')", "f", "f()"),
}  # fmt: skip


@pytest.mark.parametrize("name", RAISING)
def test_an_exception_that_leaves(name: str) -> None:
    source, path, run = RAISING[name]
    played = play(source, path, "#error", run=run)
    assert [str(error).strip("'") for error in played.seen] == ["no"]
    assert play(source, path, "#exit", run=run).seen == [True]
    values = play(source, path, "#value", run=run)
    assert values.seen == []


def test_what_is_caught_inside_is_no_error() -> None:
    source = "def f():\n  try: 1 / 0\n  except ZeroDivisionError: return 3"
    played = play(source, "f", "#error")
    assert (played.seen, played.result) == ([], 3)


GENERATORS: dict[str, tuple[str, str, str, list[Any], list[Any]]] = {
    # source, path, run, what it yields, what it receives
    "plain": ("def f():\n  yield 1\n  yield 2", "f", "list(f())", [1, 2], [None, None]),
    "sent": (
        "def f():\n  x = yield 1\n  y = yield x\ndef g():\n  i = f()\n"
        "  return next(i), i.send(5), i.send(6)",
        "f",
        "g()",
        [1, 5],
        [5, 6],
    ),
    "from": ("def f():\n  yield from (1, 2)\n  yield 3", "f", "list(f())", [1, 2, 3], [None] * 3),
    "from, sent": (
        "def h():\n  x = yield 1\n  yield x\n  return 9\n"
        "def f():\n  r = yield from h()\n  yield r\n"
        "def g():\n  i = f()\n  return next(i), i.send(5), next(i)",
        "f",
        "g()",
        [1, 5, 9],
        [5, None],
    ),
    "in an expression": ("def f():\n  return [(yield 1), (yield 2)]", "f", "list(f())",
                         [1, 2], [None, None]),
    "async": (
        "import asyncio\nasync def f():\n  yield 1\n  await asyncio.sleep(0)\n  yield 2\n"
        "async def g(): return [x async for x in f()]",
        "f",
        "asyncio.run(g())",
        [1, 2],
        [None, None],
    ),
    "thrown into": (
        "def f():\n  try: yield 1\n  except ValueError: yield 2\ndef g():\n  i = f()\n"
        "  return next(i), i.throw(ValueError())",
        "f",
        "g()",
        [1, 2],
        [],
    ),
    "closed": ("def f():\n  yield 1\n  yield 2\ndef g():\n  i = f(); next(i); i.close(); return 3",
               "f", "g()", [1], []),
}  # fmt: skip


@pytest.mark.parametrize("name", GENERATORS)
def test_generators(name: str) -> None:
    source, path, run, yields, received = GENERATORS[name]
    assert play(source, path, "#yield", run=run).seen == yields
    assert play(source, path, "#receive", run=run).seen == received
    assert play(source, path, "#enter", run=run).seen == ENTER


def test_what_is_yielded_and_received_can_be_exchanged() -> None:
    source = GENERATORS["sent"][0]
    assert play(source, "f", "#yield", lambda value: value * 10, run="g()").result == repr(
        StopIteration()
    )
    whole = "def f():\n  x = yield 1\n  yield x\ndef g():\n  i = f()\n  return next(i), i.send(5)"
    assert play(whole, "f", "#yield", lambda value: value * 10, run="g()").result == (10, 50)
    assert play(whole, "f", "#receive", lambda value: value * 10, run="g()").result == (1, 50)


LOOPS: dict[str, tuple[str, str, int, int]] = {
    # source, which loop, begins, ends
    "for": ("for i in range(3): pass", "i", 3, 3),
    "for, tuple": ("for i, j in [(1, 2)] * 3: pass", "j", 3, 3),
    "for, break": ("for i in range(3):\n  if i == 1: break", "i", 2, 2),
    "for, continue": ("for i in range(3):\n  if i == 1: continue\n  len([])", "i", 3, 3),
    "for, return": ("for i in range(3):\n  if i: return", "i", 2, 2),
    "for, raise": ("try:\n  for i in range(3): 1 / i\nexcept ZeroDivisionError: pass", "i", 1, 1),
    "for, else": ("for i in range(2): pass\nelse: len([])", "i", 2, 2),
    "while": ("n = 3\nwhile n: n -= 1", "n", 3, 3),
    "while True": ("n = 0\nwhile True:\n  n += 1\n  if n == 2: break", "True", 2, 2),
    "nested": ("for i in range(2):\n  for j in range(3): pass", "j", 6, 6),
    "all of them": ("for i in range(2):\n  for j in range(3): pass", "", 8, 8),
    "no turn": ("for i in (): pass", "i", 0, 0),
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("inside", ["function", "generator", "coroutine", "module"])
def test_loops(name: str, inside: str) -> None:
    body, which, begins, ends = LOOPS[name]
    if inside == "module" and "return" in body:
        return
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    source, path, run = {
        "function": ("def f():\n" + lines, "f", "f()"),
        "generator": ("def f():\n" + lines + "    yield 1\n", "f", "list(f())"),
        "coroutine": (f"import asyncio\nasync def f():\n{lines}", "f", "asyncio.run(f())"),
        "module": (body, "", "0"),
    }[inside]
    suffix = f"_{which}" if which else ""
    assert play(source, path, f"#loop{suffix}", run=run).seen == [True] * begins
    assert play(source, path, f"#endloop{suffix}", run=run).seen == [True] * ends


def test_async_for() -> None:
    source = dedent(
        """
        import asyncio
        async def g():
            yield 1
            yield 2
        async def f():
            async for i in g():
                await asyncio.sleep(0)
        """
    )
    assert play(source, "f", "#loop_i", run="asyncio.run(f())").seen == [True, True]
    assert play(source, "f", "i", run="asyncio.run(f())").seen == [1, 2]


CAPTURES: dict[str, tuple[str, str, tuple[str, ...], list[Any]]] = {
    # source, variable, others, what is told
    "argument": ("def f(a=1): x = 2", "x", ("a",), [(2, 1)]),
    "earlier": ("def f():\n  a = 1\n  x = 2", "x", ("a",), [(2, 1)]),
    "perhaps": ("def f():\n  for x in (1, 2):\n    if x > 1: a = 5\n  x = 3", "x", ("a",),
                [(1, "unbound"), (2, "unbound"), (3, 5)]),
    "never": ("def f():\n  x = 2\n  return x\n  a = 3", "x", ("a",), [(2, "unbound")]),
    "at the return": ("def f(a=1):\n  a += 1\n  return a * 2", "#value", ("a",), [(4, 2)]),
    "in a loop": ("def f():\n  for i in range(2): x = i * 2", "x", ("i",), [(0, 0), (2, 1)]),
    "two": ("def f(a=1, *, b=2): x = 3", "x", ("a", "b"), [(3, 1, 2)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CAPTURES)
def test_other_variables_come_along(name: str) -> None:
    source, variable, others, told = CAPTURES[name]
    assert play(source, "f", variable, captures=others).seen == told


def test_a_wildcard_names_what_it_found() -> None:
    source = (
        "import contextlib\ndef f(a=1):\n  b = c = 2\n  for d in (3,): pass\n"
        "  with contextlib.nullcontext(4) as e: e += 1"
    )
    seen = play(source, "f", None).seen
    assigned = [(1, "a"), (2, "b"), (2, "c"), (3, "d"), (4, "e"), (5, "e")]
    assert seen == [(True, "#enter"), (contextlib, "contextlib"), *assigned, (True, "#exit")]


def test_tags() -> None:
    source = "def f():\n  a: '@Metric' = 1\n  b: int = 2\n  c: '@Metric & @Loss' = 3"
    assert play(source, "f", None, category="Metric").seen == [(1, "a"), (3, "c")]
    assert play(source, "f", "c", category="Loss").seen == [3]
    missed = play(source, "f", "b", category="Loss")
    assert missed.seen == [] and len(missed.misses) == 1
