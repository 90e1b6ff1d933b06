"""Every form that binds a variable: seen, in order, and exchanged."""

from __future__ import annotations

import sys
from textwrap import dedent
from typing import Any

import pytest
from rewriting import play

NEWER = sys.version_info >= (3, 12)

# name: program, variable, what is seen, what f() returns when each value is replaced by 10 * value
CASES: dict[str, tuple[str, str, list[Any], Any]] = {
    "plain": ("x = 1; return x", "x", [1], 10),
    "twice": ("x = 1; x = 2; return x", "x", [1, 2], 20),
    "annotated": ("x: int = 3; return x", "x", [3], 30),
    "declared only": ("x: int\nx = 3\nreturn x", "x", [3], 30),
    "several lines": ("x = (\n  1 +\n  2\n)\nreturn x", "x", [3], 30),
    "value below": ("x = \\\n  4\nreturn x", "x", [4], 40),
    "conditional value": ("x = (1\n if not 1\n else 2)\nreturn x", "x", [2], 20),
    "tuple": ("a, x = 1, 2; return a, x", "x", [2], (1, 20)),
    "nested tuple": ("(a, (x, b)), c = (1, (2, 3)), 4; return a, x, b, c", "x", [2], (1, 20, 3, 4)),
    "list target": ("[a, x] = 1, 2; return x", "x", [2], 20),
    "starred": ("a, *x = 1, 2, 3; return x", "x", [[2, 3]], [2, 3] * 10),
    "from a generator": ("a, x = (i for i in (1, 2)); return a, x", "x", [2], (1, 20)),
    "from map": ("a, x = map(int, '12'); return a, x", "x", [2], (1, 20)),
    "from a dict": ("a, x = {'p': 1, 'q': 2}; return a, x * 2", "x", ["q"], ("p", "q" * 20)),
    "chained": ("x = y = 1; return x, y", "x", [1], (10, 1)),
    "chained tuples": ("x, a = b, c = 1, 2; return x, a, b, c", "x", [1], (10, 2, 1, 2)),
    "augmented": ("x = 1; x += 2; return x", "x", [1, 3], 120),
    "augmented, list": ("x = y = [1]; x += [2]; return y", "y", [[1, 2]], [1] * 10),
    "for": ("t = 0\nfor x in 1, 2: t += x\nreturn t", "x", [1, 2], 30),
    "for, tuple": ("t = []\nfor a, x in {1: 2}.items(): t.append(x)\nreturn t", "x", [2], [20]),
    "for, else": ("for x in (1,): pass\nelse: x = 5\nreturn x", "x", [1, 5], 50),
    "with": ("import io\nwith io.StringIO('a') as x: return x is not None", "x", "any", None),
    "comprehension": ("return [x for x in (1, 2)]", "x", [1, 2], [10, 20]),
    "comprehension, if": ("return [x for x in (1, 2, 30) if x > 15]", "x", [1, 2, 30], [20, 300]),
    "comprehension, pair": ("return [(a, x) for a, x in [(1, 2)]]", "x", [2], [(1, 20)]),
    "comprehension, inner": ("return [x for a in (1, 2) for x in (a,)]", "x", [1, 2], [10, 20]),
    "comprehension, outer": (
        "return [(x, b) for x in (1, 2) for b in range(1) if x]",
        "x",
        [1, 2],
        [(10, 0), (20, 0)],
    ),
    "comprehension in one": (
        "return [[x for x in range(a)] for a in (1, 2)]",
        "x",
        [0, 0, 1],
        [[0], [0, 10]],
    ),
    "set": ("return {x for x in (1,)}", "x", [1], {10}),
    "dict": ("return {x: x for x in (1,)}", "x", [1], {10: 10}),
    "generator": ("return list(x for x in (1, 2))", "x", [1, 2], [10, 20]),
    "walrus": ("return (x := 1), x", "x", [1], (10, 10)),
    "walrus in a test": ("if (x := 1) > 5: return x\nreturn -x", "x", [1], 10),
    "walrus in while": (
        "i = iter((1, 2, 0))\nt = []\nwhile (x := next(i)): t.append(x)\nreturn t",
        "x",
        [1, 2, 0],
        [10, 20],
    ),
    "walrus in a comprehension": (
        "return [(x := i) for i in (1, 2)], x",
        "x",
        [1, 2],
        ([10, 20], 20),
    ),
    "walrus in an f-string": ("return f'{(x := 1)}{x}'", "x", [1], "1010"),
    "walrus in a decorator": (
        "@(x := 1, lambda g: g)[1]\ndef g(): pass\nreturn x",
        "x",
        [1],
        10,
    ),
    "walrus in a default": ("def g(a=(x := 1)): return a\nreturn g(), x", "x", [1], (10, 10)),
    "walrus in a lambda's default": ("g = lambda a=(x := 1): a\nreturn g(), x", "x", [1], (10, 10)),
    "import": ("import math as x\nreturn x.pi", "x", "any", None),
    "import, dotted": ("import os.path\nreturn os is not None", "os", "any", None),
    "from": ("from math import pi as x\nreturn x", "x", [3.141592653589793], 31.41592653589793),
    "except": (
        "try: 1 / 0\nexcept ZeroDivisionError as x: return str(x)",
        "x",
        "any",
        None,
    ),
    "def": ("def x(): return 7\nreturn x()", "x", "any", None),
    "class": ("class x: y = 7\nreturn x.y", "x", "any", None),
    "match": ("match 4:\n  case x: return x", "x", [4], 40),
    "match, guard": (
        "match 4:\n  case x if x > 5: return 'big', x\n  case x: return 'small', x",
        "x",
        [4, 4],
        ("big", 40),
    ),
    "match, literal guard": ("match 4:\n  case x if True: return x", "x", [4], 40),
    "match, star": ("match [1, 2, 3]:\n  case [a, *x]: return x", "x", [[2, 3]], [2, 3] * 10),
    "match, rest": ("match {1: 2, 3: 4}:\n  case {1: 2, **x}: return x", "x", [{3: 4}], "type"),
    "match, as": ("match 4:\n  case 3 | 4 as x: return x", "x", [4], 40),
    "match, class": ("match 4:\n  case int(x): return x", "x", [4], 40),
    "match, alternatives": (
        "match (1, 2):\n  case (0, x) | (1, x): return x",
        "x",
        [2],
        20,
    ),
    "global": ("global x\nx = 1\nreturn x", "x", [1], 10),
    "private": ("__x = 1\nreturn __x", "__x", [1], 10),
    "deleted": ("x = 1\ndel x\nx = 2\nreturn x", "x", [1, 2], 20),
    "cell": ("x = 1\ng = lambda: x\nreturn g()", "x", [1], 10),
    "nonlocal": (
        "def g():\n  nonlocal x\n  x = 2\nx = 1\ng()\nreturn x",
        "x",
        [1],
        2,
    ),
    "await": (
        "async def g(): return 3\nasync def h():\n  return await g()\n"
        "x = h()\ntry: x.send(None)\nexcept StopIteration as e: return e.value",
        "e",
        "any",
        None,
    ),
    "unpacking with a store": ("b = {}\nb['k'], x = 1, 2\nreturn b, x", "x", [2], ({"k": 1}, 20)),
    "loop in a loop": (
        "t = []\nfor x in (1, 2):\n  for y in (3,): t.append((x, y))\nreturn t",
        "y",
        [3, 3],
        [(1, 30), (2, 30)],
    ),
    "try": (
        "try:\n  x = 1\n  raise KeyError\nexcept KeyError: x = 2\nelse: x = 3\nfinally: x = x + 4\n"
        "return x",
        "x",
        [1, 2, 6],
        240,
    ),
    "elif": ("if 0: pass\nelif 0: pass\nelif 1: x = 1\nelse: x = 2\nreturn x", "x", [1], 10),
    "async comprehension": (
        "async def a():\n  for i in (1, 2): yield i\nasync def g(): return [x async for x in a()]\n"
        "try: g().send(None)\nexcept StopIteration as e: return e.value",
        "e",
        "any",
        None,
    ),
}
if sys.version_info >= (3, 11):
    CASES["except*"] = (
        "try: raise ExceptionGroup('', [KeyError()])\nexcept* KeyError as x: n = len(x.exceptions)\n"
        "return n",
        "x",
        "any",
        None,
    )
if NEWER:
    CASES["type alias"] = ("type x = int\nreturn x.__value__", "x", "any", None)
    CASES["f-string, nested quotes"] = ('return f"{(x := "a")}"', "x", ["a"], "a" * 10)
    CASES["generic"] = ("def g[T](a: T) -> T: yield a\nx, = g(1)\nreturn x", "x", [1], 10)
    CASES["generic class"] = ("class g[T]:\n  y = 1\nx = g.y\nreturn x", "x", [1], 10)
if sys.version_info >= (3, 14):
    CASES["t-string"] = ('return t"{(x := 1)}".values[0]', "x", [1], 10)
    CASES["except, no brackets"] = (
        "try: {}[0]\nexcept KeyError, TypeError: x = 1\nreturn x",
        "x",
        [1],
        10,
    )
    CASES["deferred annotation"] = (
        "def g(a: missing = 1): yield a\nx, = g()\nreturn x",
        "x",
        [1],
        10,
    )
if sys.version_info >= (3, 15):
    CASES["unpacking in a comprehension"] = (
        "x, = [*y for y in [[1]]]\nreturn x",
        "x",
        [1],
        10,
    )
    CASES["mappings in a comprehension"] = (
        "x = {**y for y in [{1: 2}]}\nreturn x[1]",
        "x",
        "any",
        None,
    )


def function(body: str) -> str:
    return "def f():\n" + "\n".join("    " + line for line in body.split("\n")) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_observed(name: str) -> None:
    body, variable, seen, _ = CASES[name]
    played = play(function(body), "f", variable)
    assert played.misses == []
    assert played.seen == seen if isinstance(seen, list) else played.seen


@pytest.mark.parametrize("name", [name for name in CASES if isinstance(CASES[name][2], list)])
def test_overridden(name: str) -> None:
    body, variable, _, result = CASES[name]
    if result == "type":
        return
    assert play(function(body), "f", variable, lambda value: value * 10).result == result


@pytest.mark.parametrize("name", CASES)
def test_identity_override_changes_nothing(name: str) -> None:
    body, variable, _, _ = CASES[name]
    plain = play(function(body), "f", variable)
    assert play(function(body), "f", variable, lambda value: value).result == plain.result


@pytest.mark.parametrize("name", CASES)
def test_at_module_level(name: str) -> None:
    body, variable, seen, _ = CASES[name]
    body = body.replace("return ", "result = ").replace("nonlocal x", "global x")
    if "global x\nx" in body or name == "global":
        return
    played = play(body, "", variable, run="0")
    assert played.misses == []
    if isinstance(seen, list):
        assert played.seen == seen


@pytest.mark.parametrize("name", CASES)
def test_in_a_class_body(name: str) -> None:
    body, variable, seen, _ = CASES[name]
    if name in ("global", "nonlocal", "cell") or ("walrus" in name and "comprehension" in name):
        return
    body = body.replace("return ", "result = ")
    source = "class C:\n" + "\n".join("    " + line for line in body.split("\n")) + "\n"
    if "def h()" in source or "async def g()" in source:
        return  # functions of a class body do not see its other names
    played = play(source, "C", variable, run="0")
    assert played.misses == []
    if isinstance(seen, list):
        assert played.seen == seen


ARGUMENTS = {
    "positional": ("def f(x): return x", "f(1)", [1], 10),
    "positional-only": ("def f(x, /): return x", "f(1)", [1], 10),
    "default": ("def f(x=1): return x", "f()", [1], 10),
    "keyword-only": ("def f(*, x): return x", "f(x=1)", [1], 10),
    "args": ("def f(*x): return x", "f(1)", [(1,)], (1,) * 10),
    "cell": ("def f(x): return (lambda: x)()", "f(1)", [1], 10),
    "reassigned": ("def f(x):\n  x = x + 1\n  return x", "f(1)", [1, 2], 110),
    "deleted": ("def f(x):\n  y = x\n  del x\n  return y", "f(1)", [1], 10),
    "annotated": ("def f(x: int = 1) -> int: return x", "f()", [1], 10),
    "several lines": ("def f(\n  a,\n  x,\n):\n  return x", "f(0, 1)", [1], 10),
    "docstring": ("def f(x):\n  'doc'\n  return x, f.__doc__", "f(1)", [1], (10, "doc")),
    "only a docstring": ("def f(x):\n  'doc'", "f(1) or f.__doc__", [1], "doc"),
    "lambda": ("f = lambda x: x", "f(1)", [1], 10),
    "lambda, default": ("f = lambda x=1: x", "f()", [1], 10),
    "lambda, args": ("f = lambda *x: x", "f(1)", [(1,)], (1,) * 10),
    "lambda, annotated": ("f: object = lambda x: x", "f(1)", [1], 10),
    "lambda, generator": ("f = lambda x: (yield x)", "list(f(1))", [1], [10]),
    "lambda, false value": ("f = lambda x: x", "f(0)", [0], 0),
    "generator": ("def f(x): yield x", "list(f(1))", [1], [10]),
    "method": ("class C:\n  def f(self, x): return x\nf = C().f", "f(1)", None, None),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name: str) -> None:
    source, call, seen, result = ARGUMENTS[name]
    path = "C.f" if name == "method" else "f"
    played = play(source, path, "x", run=call)
    assert played.seen == (seen or [1])
    assert [landing.kind for landing in played.landings][:1] == ["argument"]
    changed = play(source, path, "x", lambda value: value * 10, run=call)
    assert changed.result == (result if result is not None else 10)


def test_keyword_arguments_dict() -> None:
    assert play("def f(**x): return x", "f", "x", run="f(a=1)").seen == [{"a": 1}]


def test_values_are_taken_from_each_call() -> None:
    source = "def f(n):\n  x = n\n  return x if n == 0 else f(n - 1)"
    assert play(source, "f", "x", run="f(3)").seen == [3, 2, 1, 0]


ATTRIBUTES = {
    "plain": ("o.x = 1", [1], 10),
    "annotated": ("o.x: int = 1", [1], 10),
    "augmented": ("o.x = 1; o.x += 1", [1, 2], 110),
    "unpacked": ("a, o.x = 1, 2", [2], 20),
    "chained": ("b = o.x = 1", [1], 10),
    "for": ("for o.x in 1, 2: pass", [1, 2], 20),
    "with": ("import contextlib\n  with contextlib.nullcontext(3) as o.x: pass", [3], 30),
    "with, tuple": (
        "import contextlib\n  with contextlib.nullcontext((3, 4)) as (o.x, *o.y): pass",
        [3],
        30,
    ),
    "comprehension": ("[0 for o.x in (1, 2)]", [1, 2], 20),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes(name: str) -> None:
    body, seen, result = ATTRIBUTES[name]
    source = f"class O: pass\ndef f():\n  o = O()\n  {body}\n  return o.x"
    assert play(source, "f", "o.x").seen == seen
    assert play(source, "f", "o.x", lambda value: value * 10).result == result


def test_private_attributes() -> None:
    source = dedent(
        """
        class _C:
            def m(self):
                self.__x = 1
                self.__y__ = 2
                __z = 3
                return vars(self), __z
        """
    )
    assert play(source, "_C.m", "self.__x", run="_C().m()").seen == [1]
    assert play(source, "_C.m", "self._C__x", run="_C().m()").seen == [1]
    assert play(source, "_C.m", "__z", run="_C().m()").seen == [3]
    assert play(source, "_C.m", "_C__z", run="_C().m()").seen == [3]
    changed = play(source, "_C.m", "self.__x", lambda value: 7, run="_C().m()")
    assert changed.result == ({"_C__x": 7, "__y__": 2}, 3)


def test_an_override_acts_before_what_follows_in_the_same_statement() -> None:
    source = dedent(
        """
        from contextlib import nullcontext
        def f():
            with nullcontext(1) as x, nullcontext(x + 1) as y, nullcontext(y + 1) as z:
                return x, y, z
        """
    )
    assert play(source, "f", "x", lambda value: 10).result == (10, 11, 12)
    assert play(source, "f", "y", lambda value: 10).result == (1, 10, 11)
    assert play(source, "f", "z", lambda value: 10).result == (1, 2, 10)
    assert play(source, "f", "x").seen == [1]


def test_nothing_is_evaluated_twice() -> None:
    source = dedent(
        """
        log = []
        def note(value):
            log.append(value)
            return value
        class O: pass
        def f():
            o = O()
            note(o).x = note(1)
            note([0])[note(0)] = note(2)
            o.x += note(3)
            d = {}
            d[note("k")] = o.y = note(4)
            (a, b), *c = note([(5, 6), 7])
            [z := note(8)]
            return [entry for entry in log if isinstance(entry, int)]
        """
    )
    for variable in ("o.x", "o.y", "a", "c", "z", "d", None):
        assert play(source, "f", variable).result == [1, 2, 0, 3, 4, 8]


READS = {
    "global": ("x = 1\ndef f(): return x + x", [1], 20),
    "builtin": ("def f(): return len([1])", None, None),
    "closure": ("def f():\n  x = 1\n  def g(): return x\n  return g()", [1], 10),
    "in a comprehension": ("x = 1\ndef f(): return [x for i in (1,)][0]", [1], 10),
    "in a lambda": ("x = 1\nf = lambda: x", [1], 10),
    "undefined": ("def f():\n  if 0: return x\n  return 5", [], 5),
}


@pytest.mark.parametrize("name", READS)
def test_variables_that_are_only_read(name: str) -> None:
    source, seen, result = READS[name]
    path = "f.g" if name == "closure" else "f"
    variable = "len" if name == "builtin" else "x"
    played = play(source, path, variable)
    assert [landing.kind for landing in played.landings] == ["read"]
    assert played.seen == [len] if seen is None else played.seen == seen
    if result is not None:
        assert play(source, path, variable, lambda value: value * 10).result == result


def test_a_read_that_fails_is_the_programs_own() -> None:
    played = play("def f():\n  return x", "f", "x")
    assert played.seen == []
    assert "NameError" in played.result


def test_read_at_module_level() -> None:
    assert play("y = len", "", "len", run="0").seen == [len]


def test_generated_names_are_not_variables() -> None:
    assert play("def f(): pass", "f", "x").misses[0][0].variable == "x"


@pytest.mark.parametrize("variable", ["super", None])
def test_super_that_is_shown_leaves_a_declaration_of_class_first(variable):
    """The compiler takes ``super`` for a use of ``__class__``, which must not come before."""
    source = (
        "class X:\n  def f(x):\n    nonlocal __class__\n    __class__ = 3\n    super\n    return 4"
    )
    played = play(source, "X.f", variable, run="X().f()")
    assert played.result == 4
    assert super in played.seen or (super, "super") in played.seen
