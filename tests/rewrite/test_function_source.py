"""Functions of loaded modules that are rewritten from their own lines alone."""

from __future__ import annotations

import builtins
import importlib
import inspect
import sys
import traceback

import pytest

from injector.rewrite import module_source

TEXT = '''\
from __future__ import annotations

import os
import warnings as warner
from functools import (  # a comment
    partial,
    wraps,
)

try:
    import json
except ImportError:
    json = None


def decorated(function):
    @wraps(function)
    def wrapper(*args):
        extra = len(args)
        return function(*args)

    return wrapper


def imported(x):
    """Calls of imported names are compiled in another way."""
    path = os.path.join("a", str(x))
    warner.filters.count(x)
    return json.dumps(path)


@decorated
@decorated
def twice(x):
    return x * 2


class Outer:
    class Inner:
        def method(self, x):
            self.__hidden = x
            super().__init__()
            return self.__hidden

    def ends(self, x):
        if x:
            return dict(
                a=x,
            )
# a comment at the margin
        return """text
at the margin
"""

    @staticmethod
    def static(x):
        return [y for y in range(x)]

    @property
    def prop(self):
        return (
            1
        )

    alias = ends


class Heir(Outer):
    pass


made = partial(imported, 1)
def raises(x): raise ValueError(x)
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "library_of_many_lines.py").write_text(TEXT)
    yield importlib.import_module("library_of_many_lines")
    del sys.modules["library_of_many_lines"]


@pytest.fixture
def whole(monkeypatch):
    """The modules whose whole text was parsed."""
    found = []
    parse = module_source.ModuleSource._parse
    monkeypatch.setattr(
        module_source.ModuleSource,
        "_parse",
        lambda self: (found.append(self.module), parse(self))[1],
    )
    return found


def late(woven, path, variable="#enter", **more):
    request = woven.request("library_of_many_lines", path, variable, **more)
    woven.engine.add_late([request])
    return request


CASES = [
    ("imported", lambda m: m.imported(1), '"a/1"'),
    ("twice", lambda m: m.twice(2), 4),
    ("Outer.Inner.method", lambda m: m.Outer.Inner().method(5), 5),
    ("Outer.ends", lambda m: m.Outer().ends(1), {"a": 1}),
    ("Outer.ends", lambda m: m.Heir().ends(0), "text\nat the margin\n"),
    ("Outer.alias", lambda m: m.Outer().ends(1), {"a": 1}),
    ("Outer.static", lambda m: m.Outer.static(2), [0, 1]),
    ("Outer.prop", lambda m: m.Outer().prop, 1),
    ("decorated.wrapper", lambda m: m.decorated(len)("ab"), 2),
]


@pytest.mark.parametrize(("path", "act", "result"), CASES, ids=[case[0] for case in CASES])
def test_the_lines_of_one_function_are_enough(module, woven, whole, path, act, result):
    late(woven, path)
    late(woven, path, "#exit")
    assert act(module) == result
    assert woven.take() == [("#enter", True), ("#exit", True)]
    assert not whole and not woven.misses()
    assert len(woven.landings()) == 2


def test_it_waits_for_the_import(tmp_path, monkeypatch, woven, whole):
    late(woven, "imported", "path")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "library_of_many_lines.py").write_text(TEXT)
    woven.engine.install()
    try:
        module = importlib.import_module("library_of_many_lines")
        assert module.imported(3) == '"a/3"'
    finally:
        woven.engine.uninstall()
        sys.modules.pop("library_of_many_lines", None)
    assert woven.take() == [("path", "a/3")] and not whole


def test_lines_and_text_stay_what_they_were(module, woven):
    lines = [f.__code__.co_firstlineno for f in (module.imported, module.raises)]
    late(woven, "raises")
    late(woven, "imported")
    assert [f.__code__.co_firstlineno for f in (module.imported, module.raises)] == lines
    assert inspect.getsource(module.raises) == TEXT[TEXT.index("def raises") :]
    with pytest.raises(ValueError) as raised:
        module.raises(3)
    shown = "".join(traceback.format_exception(raised.value))
    assert f"line {TEXT.count(chr(10))}, in raises" in shown and "injector" not in shown


def test_what_is_inherited_or_no_function_goes_the_long_way(module, woven):
    late(woven, "Heir.ends")
    assert module.Outer().ends(1) and woven.take() == []
    assert module.Heir().ends(1) and woven.take() == [("#enter", True)]
    late(woven, "made")
    module.made()
    assert woven.take() == [("#enter", True)]


def test_a_name_that_is_not_there_is_missed_without_a_search(module, woven, whole):
    request = late(woven, "nothing")
    deeper = late(woven, "Outer.nothing")
    assert [miss.request for miss in woven.misses()] == [request, deeper] and not whole


def test_later_requests_join_earlier_ones(module, woven, whole):
    late(woven, "imported")
    late(woven, "imported", "path")
    module.imported(1)
    assert woven.take() == [("#enter", True), ("path", "a/1")] and not whole


def test_the_whole_text_takes_over(module, woven):
    late(woven, "imported")
    woven.add("library_of_many_lines", "imported", "path")
    woven.add("library_of_many_lines", "twice", "x")
    late(woven, "Outer.prop")
    module.imported(1)
    module.twice(2)
    assert module.Outer().prop == 1
    assert woven.take() == [("#enter", True), ("path", "a/1"), ("x", 2), ("#enter", True)]
    assert not woven.misses()


# Each way to reach a function by an object: what is attached to, a call that counts, one that does not.
ATTACHED = {
    "function": lambda m, one, other: (m.imported, lambda: m.imported(1), None),
    "method": lambda m, one, other: (m.Outer.ends, lambda: other.ends(1), None),
    "one object": lambda m, one, other: (one.ends, lambda: one.ends(1), lambda: other.ends(1)),
    "static": lambda m, one, other: (m.Outer.static, lambda: one.static(1), None),
    "property": lambda m, one, other: (m.Outer.prop, lambda: one.prop, None),
    "decorated": lambda m, one, other: (m.twice, lambda: m.twice(1), None),
}


def _attach(woven, target, variable="#enter"):
    woven.engine.attach(target, woven.request("", "", variable))


@pytest.mark.parametrize("kind", ATTACHED)
@pytest.mark.parametrize("afterwards", ["nothing", "again", "the whole text", "more", "a late one"])
def test_to_attach_takes_one_function(module, woven, whole, kind, afterwards):
    one, other = module.Outer(), module.Outer()
    target, counts, counts_not = ATTACHED[kind](module, one, other)
    request = woven.request("", "", "#enter")
    woven.engine.attach(target, request)
    assert not whole or kind == "decorated"
    events = 1
    if afterwards == "again":
        woven.engine.attach(target, request)
    elif afterwards == "the whole text":
        woven.add("library_of_many_lines", "raises", "x")
    elif afterwards == "more":
        woven.engine.attach(target, woven.request("", "", "#exit"))
        events = 2
    elif afterwards == "a late one":
        late(woven, "raises")
        late(woven, "Outer.ends", "#enter")
        events = 2 if target in (module.Outer.ends, one.ends) else 1
    counts()
    assert len(woven.take()) == events
    if counts_not is not None:
        counts_not()
        assert len(woven.take()) == (afterwards == "a late one")
    assert not woven.misses()
    with pytest.raises(ValueError):
        module.raises(3)
    assert len(woven.take()) == (afterwards in ("the whole text", "a late one"))


def test_attached_and_named_in_both_orders(module, woven):
    _attach(woven, module.imported)
    woven.add("library_of_many_lines", "imported", "path")
    _attach(woven, module.imported, "x")
    module.imported(1)
    assert sorted(name for name, _ in woven.take()) == ["#enter", "path", "x"]
    assert not woven.misses()


def test_what_overrides_is_seen_by_compilers(module, woven):
    """Of a function with a hook that overrides, a compiler gets the code with that hook."""
    plain = module.imported.__code__
    _attach(woven, module.imported)
    woven.engine.attach(module.imported, woven.request("", "", "path", change=str))
    traced = woven.engine.traced(module.imported.__code__)
    assert traced != plain and any(name.startswith("injector:") for name in traced.co_names)
    assert woven.engine.original(module.imported.__code__) == plain


def test_attached_ones_come_from_the_cache(module, woven, whole, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plain = module.imported.__code__
    _attach(woven, module.imported, "path")
    first, module.imported.__code__ = module.imported.__code__, plain
    woven.engine._sources.clear()
    with monkeypatch.context() as context:
        context.setattr(module_source, "parse", None)
        _attach(woven, module.imported, "path")
    assert module.imported.__code__ != plain and not whole
    assert len(module.imported.__code__.co_code) == len(first.co_code)
    assert module.imported(2) == '"a/2"' and woven.take() == [("path", "a/2")]


def test_the_original_is_known(module, woven, whole):
    plain = {name: vars(module)[name].__code__ for name in ("imported", "raises")}
    inner = module.decorated.__code__.co_consts
    late(woven, "imported")
    late(woven, "decorated.wrapper")
    assert woven.engine.original(module.imported.__code__) == plain["imported"]
    assert woven.engine.traced(module.imported.__code__) == plain["imported"]
    assert woven.engine.original(module.decorated(len).__code__) in inner
    assert woven.engine.original(plain["raises"]) is None and not whole
    assert {name for _, name in woven.engine.compiled} == {"imported"}


def test_a_text_that_has_changed_is_not_believed(module, woven, tmp_path):
    plain = module.imported.__code__
    (tmp_path / "library_of_many_lines.py").write_text(TEXT.replace("str(x)", "str(x, 'ascii')"))
    late(woven, "imported")
    assert module.imported.__code__ == plain
    assert module.imported(1) == '"a/1"' and woven.take() == [("#enter", True)]


GATED = """\
def f(x):
    "doc"
    if x:
        return x
    raise KeyError(x)
def g(x):
    return [y for y in x]
"""


@pytest.fixture
def gate():
    opened = []
    builtins.__dict__["injector:(test)"] = lambda: bool(opened)
    yield opened
    del builtins.__dict__["injector:(test)"]


LONG = "def f(x):\n" + "".join(f"    x = x + {n}\n" for n in range(30)) + "    return x\n"


def test_a_long_function_is_not_there_twice(gate, woven, tmp_path, monkeypatch):
    """What takes that long does not notice that its hooks are asked, whatever its gate says."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "library_of_long_lines.py").write_text(LONG)
    module = importlib.import_module("library_of_long_lines")
    plain = module.f.__code__
    gate.append(True)
    try:
        for variable in ("#enter", "#exit"):
            asked = woven.request("library_of_long_lines", "f", variable, gate="injector:(test)")
            woven.engine.add_late([asked])
        assert module.f(1) == 436 and len(woven.take()) == 2
        assert len(module.f.__code__.co_code) < 1.5 * len(plain.co_code)
    finally:
        del sys.modules["library_of_long_lines"]


def test_behind_a_gate_a_function_runs_as_it_was_written(gate, woven, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "library_of_many_lines.py").write_text(GATED)
    module = importlib.import_module("library_of_many_lines")
    try:
        for variable in ("#enter", "#exit", "#value"):
            late(woven, "f", variable, gate="injector:(test)")
            late(woven, "g", variable, gate="injector:(test)")
        assert module.f(2) == 2 and module.g([3]) == [3] and len(woven.take()) == 6
        gate.append(True)
        assert module.f(2) == 2 and woven.take() == []
        with pytest.raises(KeyError) as raised:
            module.f(0)
        assert traceback.extract_tb(raised.value.__traceback__)[-1].lineno == 5
        assert module.g([3]) == [3] and len(woven.take()) == 3, "comprehensions are not doubled"
        late(woven, "f", "x")
        assert module.f(2) == 2 and len(woven.take()) == 4, "somebody wants to see every call"
        assert module.f.__doc__ == "doc"
    finally:
        del sys.modules["library_of_many_lines"]
