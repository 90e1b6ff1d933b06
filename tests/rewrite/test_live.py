"""Code that is already loaded: functions get another code object and stay what they are."""

from __future__ import annotations

import asyncio
import gc
import importlib
import sys
import threading
from types import FunctionType

import pytest

from injector.rewrite import objects
from injector.rewrite.module_source import names_of

PLAIN = "def f(x):\n    y = x + 1\n    return y\n"


def test_a_loaded_function_is_reached_and_stays_the_same_object(woven, module):
    made = module(
        "loaded", "def f(x, *, z=[]):\n    'doc'\n    y = x + 1\n    return y\n", load=True
    )
    function, defaults = made.f, made.f.__kwdefaults__
    function.mark = 3
    request = woven.add("loaded", "f", "y")
    assert made.f is function and function(1) == 2
    assert woven.take() == [("y", 2)] and woven.landings(request)[0].line == 3
    assert function.__kwdefaults__ is defaults and function.mark == 3 and function.__doc__ == "doc"


def test_references_taken_before_are_reached(woven, module):
    made = module("taken", PLAIN + "class A:\n    m = f\n    s = staticmethod(f)\n", load=True)
    held, bound = [made.f], made.A().m
    woven.add("taken", "f", "y")
    held[0](1)
    made.A.s(2)
    assert woven.take() == [("y", 2), ("y", 3)]
    with pytest.raises(TypeError):
        bound()


CLOSURES = """
def outer(a):
    def inner(b):
        nonlocal a
        total = a + b
        a = total
        return total
    return inner
"""


def test_every_living_closure_and_every_later_one(woven, module):
    made = module("closures", CLOSURES, load=True)
    one, two = made.outer(10), made.outer(20)
    one(1)
    woven.add("closures", "outer.inner", "total")
    assert [one(1), two(2), made.outer(30)(3)] == [12, 22, 33]
    assert woven.take() == [("total", 12), ("total", 22), ("total", 33)]
    assert len(woven.landings()) == 1 and not woven.misses()


def test_a_closure_whose_maker_alone_is_alive(woven, module):
    made = module("maker", CLOSURES, load=True)
    woven.add("maker", "outer.inner", "total")
    assert made.outer(1)(2) == 3
    assert woven.take() == [("total", 3)]


def test_a_closure_whose_maker_is_gone(woven, module):
    made = module("gone", CLOSURES, load=True)
    inner = made.outer(1)
    del made.outer
    gc.collect()
    woven.add("gone", "outer.inner", "total")
    assert inner(2) == 3
    assert woven.take() == [("total", 3)]


def test_methods_properties_mangling_and_super(woven, module):
    text = """
class Base:
    def m(self):
        return 1
class A(Base):
    def __init__(self):
        self.__hidden = 2
    def m(self):
        value = super().m() + self.__hidden
        return value
    @property
    def p(self):
        got = self.__hidden
        return got
    @p.setter
    def p(self, new):
        self.__hidden = new
    @classmethod
    def c(cls):
        name = cls.__name__
        return name
"""
    made = module("methods", text, load=True)
    thing = made.A()
    for path, variable in (("A.m", "value"), ("A.p", "got"), ("A.p", "new"), ("A.c", "name")):
        woven.add("methods", path, variable)
    woven.add("methods", "A.__init__", "self.__hidden")
    assert (thing.m(), thing.p, made.A.c()) == (3, 2, "A")
    thing.p = 7
    made.A()
    assert woven.take() == [
        ("value", 3),
        ("got", 2),
        ("name", "A"),
        ("new", 7),
        ("self.__hidden", 2),
    ]


def test_running_frames_and_generators_go_on_as_they_began(woven, module):
    text = """
def numbers():
    for n in range(3):
        yield n
async def later(event):
    step = 1
    await event.wait()
    step = 2
    return step
def work(started, go):
    started.set()
    go.wait(10)
    done = 1
    return done
"""
    made = module("running", text, load=True)
    generator = made.numbers()
    next(generator)
    started, go, results = threading.Event(), threading.Event(), []
    thread = threading.Thread(target=lambda: results.append(made.work(started, go)))
    thread.start()
    started.wait(10)

    async def both():
        event = asyncio.Event()
        task = asyncio.ensure_future(made.later(event))
        await asyncio.sleep(0)
        for path, variable in (("numbers", "n"), ("later", "step"), ("work", "done")):
            woven.add("running", path, variable)
        event.set()
        return await task, await made.later(event)

    assert asyncio.run(both()) == (2, 2)
    go.set()
    thread.join(10)
    assert list(generator) == [1, 2] and results == [1]
    assert woven.take() == [("step", 1), ("step", 2)]
    assert list(made.numbers()) == [0, 1, 2] and made.work(started, go) == 1
    assert woven.take() == [("n", 0), ("n", 1), ("n", 2), ("done", 1)]


def test_requests_add_up(woven, module):
    made = module("more", PLAIN + "def g(x):\n    z = x\n    return f(z)\n")
    woven.add("more", "f", "y")
    made = importlib.import_module("more")
    f = made.f
    woven.add("more", "f", "x")
    woven.add("more", "g", "z")
    woven.add("more", "f", "y", change=lambda value: -value)
    assert made.g(1) == -2 and made.f is f
    assert woven.take() == [("z", 1), ("x", 1), ("y", 2), ("y", -2)]
    assert len(woven.landings()) == 4


def test_only_what_is_named_is_touched(woven, module):
    made = module("touched", PLAIN + "def g(x):\n    return f(x)\n", load=True)
    g = made.g.__code__
    woven.add("touched", "f", "y")
    assert made.g.__code__ is g and "injector" in str(made.f.__code__.co_names)


def test_lambdas(woven, module):
    made = module("lambdas", "double = lambda v: v * 2\ntable = {1: lambda w: w}\n", load=True)
    woven.add("lambdas", "double", "#value")
    woven.add("lambdas", "double", "v")
    assert made.double(4) == 8
    assert woven.take() == [("v", 4), ("#value", 8)]
    woven.engine.attach(made.table[1], woven.request("", "", "w"))
    assert made.table[1](5) == 5 and made.double(1) == 2
    assert woven.take() == [("w", 5), ("v", 1), ("#value", 2)]


def test_a_source_that_has_changed_is_left_alone(woven, module):
    made = module("changed", PLAIN, load=True)
    module("changed", "# a new line\n" + PLAIN)
    request = woven.add("changed", "f", "y")
    assert made.f(1) == 2 and woven.take() == []
    assert "changed" in woven.misses(request)[0].reason


def test_what_has_been_executed_cannot_be_seen(woven, module):
    module("past", "total = 1\nclass A:\n    size = 3\n" + PLAIN, load=True)
    for path, variable in (("", "total"), ("A", "size")):
        request = woven.add("past", path, variable)
        assert "already been executed" in woven.misses(request)[0].reason
    importlib.reload(sys.modules["past"])
    assert woven.take() == [("total", 1), ("size", 3)]


def test_what_does_not_exist_is_reported_with_what_does(woven, module):
    module("typo", "def train(model):\n    losses = 1\n    return losses\n", load=True)
    miss = woven.misses(woven.add("typo", "train", "loses"))[0]
    assert "loses" in miss.reason and "losses" in str(miss.nearest)
    miss = woven.misses(woven.add("typo", "trian", "losses"))[0]
    assert "trian not found in typo" in miss.reason and "train" in str(miss.nearest)
    miss = woven.misses(woven.add("typo", "", "model"))[0]
    assert "model not found in typo" in miss.reason


def test_the_standard_library(woven):
    import json
    import textwrap

    woven.add("textwrap", "dedent", "text")
    woven.add("json", "dumps", "#value")
    woven.add("os", "fspath", "#enter")
    assert textwrap.dedent("  a") == "a" and json.dumps([1]) == "[1]"
    events = woven.take()  # how often dedent binds its text is the version's own affair
    assert (events[0], events[-1]) == (("text", "  a"), ("#value", "[1]"))


def test_frozen_modules(woven):
    import os

    request = woven.add("os", "get_exec_path", "env")
    assert os.get_exec_path({"PATH": "/a"}) == ["/a"]
    assert woven.take() and woven.landings(request)
    assert os.get_exec_path.__code__.co_filename == os.walk.__code__.co_filename


def test_objects_hidden_by_gc_freeze(woven, module):
    made = module("ice", PLAIN + "class A:\n    m = f\n", load=True)
    gc.freeze()
    try:
        woven.add("ice", "f", "y")
    finally:
        gc.unfreeze()
    assert made.f(1) == 2
    assert woven.take() == [("y", 2)]


def test_a_module_that_is_being_executed(woven, module):
    module("busy", "import busy_helper\n" + PLAIN)
    module("busy_helper", "import weaving_now\nweaving_now.act()\n")
    module("weaving_now", "act = None\n", load=True).act = lambda: woven.add("busy", "f", "y")
    made = importlib.import_module("busy")
    assert made.f(1) == 2
    assert woven.take() == [("y", 2)] and not woven.misses()


def test_names_brought_from_elsewhere(woven, module):
    module("there", PLAIN + "class Base:\n    def m(self, v):\n        return v\n")
    module("star", "from there import *\n")
    text = "from there import f, Base\nimport there\nclass Sub(Base):\n    pass\nalias = there.f\n"
    made = module(
        "here", text + "def __getattr__(name):\n    return getattr(there, name)\n", load=True
    )
    star = module("star", "from there import *\n", load=True)
    woven.add("here", "Sub.m", "v")
    assert made.Base().m(1) == 1 and woven.take() == []
    assert made.Sub().m(2) == 2 and woven.take() == [("v", 2)], woven.reports
    woven.add("star", "f", "y")
    assert star.f(1) == 2 and woven.take() == [("y", 2)]
    woven.add("here", "there.f", "x")
    assert made.alias(1) == 2 and woven.take() == [("x", 1), ("y", 2)]
    assert not woven.misses()


def test_the_program_while_it_runs(woven, tmp_path, monkeypatch):
    import __main__

    path = tmp_path / "main.py"
    path.write_text(PLAIN + "first = f(1)\nact()\nsecond = f(2)\n")
    before = dict(vars(__main__))
    vars(__main__).update(__file__=str(path), __spec__=None, __loader__=None)
    vars(__main__).update(act=lambda: woven.add("__main__", "f", "y"))
    try:
        code = woven.engine.main_code(path.read_bytes(), str(path))
        exec(code, vars(__main__))
        assert (__main__.first, __main__.second) == (2, 3)
        assert woven.take() == [("y", 3)]
    finally:
        vars(__main__).clear()
        vars(__main__).update(before)


def test_decorated_functions(woven, module):
    text = """
import functools, contextlib
def twice(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args) * 2
    return wrapper
@twice
def f(x):
    y = x + 1
    return y
@functools.lru_cache
def g(x):
    y = x + 1
    return y
@contextlib.contextmanager
def h(x):
    y = x + 1
    yield y
"""
    made = module("decorated", text, load=True)
    for name in "fgh":
        woven.add("decorated", name, "y")
    assert made.f(1) == 4 and made.g(2) == 3
    with made.h(3) as value:
        assert value == 4
    assert woven.take() == [("y", 2), ("y", 3), ("y", 4)]


def test_one_pass_for_a_batch(woven, module, monkeypatch):
    from injector.rewrite import exchange

    passes = []
    collect = exchange._living
    monkeypatch.setattr(exchange, "_living", lambda *args: passes.append(1) or collect(*args))
    requests = []
    for name in ("batch_a", "batch_b", "batch_c"):
        module(name, PLAIN, load=True)
        requests += [woven.request(name, "f", "x"), woven.request(name, "f", "y")]
    woven.engine.add(requests)
    assert len(passes) == 1 and len(woven.landings()) == 6


SHARED = """
def bare(f):
    def wrapper(*args):
        n = len(args)
        return f(*args)
    return wrapper

def short(f):
    return lambda *args: f(*args)

@bare
def one(x):
    y = x + 1
    return y

@bare
def two(x):
    y = x + 2
    return y

@short
def three(x):
    return x

@short
def four(x):
    return x

class K:
    @bare
    def m(self, x):
        y = x
        return y

    @bare
    def n(self, x):
        y = x
        return y

def run():
    return one(1), two(2), three(3), four(4), K().m(5), K().n(6)
"""


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("path", "variable", "value"),
    [("one", "y", 2), ("one", "#enter", True), ("three", "#value", 3), ("K.m", "y", 5)],
)
def test_of_functions_that_one_decorator_was_put_on_one_is_probed(
    woven, module, late, path, variable, value
):
    shared = module("shared", SHARED, load=True)
    request = woven.request("shared", path, variable)
    (woven.engine.add_late if late else woven.engine.add)([request])
    assert shared.run() == (2, 4, 3, 4, 5, 6)
    assert woven.take() == [(variable, value)]


@pytest.mark.parametrize(
    ("name", "variable", "value"), [("one", "n", 1), ("four", "#value", 4), ("two", "#enter", True)]
)
def test_of_closures_that_share_their_code_one_is_probed(woven, module, name, variable, value):
    shared = module("shared", SHARED, load=True)
    function = vars(shared)[name]
    woven.engine.attach(function, woven.request("shared", function.__qualname__, variable))
    assert shared.run() == (2, 4, 3, 4, 5, 6)
    assert [event[:2] for event in woven.take()] == [(variable, value)]


GENERIC = """
def f[T](x: T) -> T:
    y = x
    return y

class Box[T]:
    def get(self, x: T) -> T:
        y = x
        return y

    def made[U](self, x: U) -> U:
        y = x
        return y
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
@pytest.mark.parametrize("name", ["f", "Box.get", "Box.made"])
def test_functions_with_type_parameters(woven, module, name):
    made = module(f"generic_{name.replace('.', '_')}", GENERIC, load=True)
    request = woven.add(made.__name__, name, "y")
    assert (made.f if name == "f" else getattr(made.Box(), name[4:]))(3) == 3
    assert woven.take() == [("y", 3)]
    assert len(woven.landings(request)) == 1 and not woven.misses()


WRAPPED = """
from functools import wraps

def boundary(function):
    @wraps(function)
    def inner(*args):
        return function(*args)
    return inner

@boundary
def scan[T](f: T, x: T) -> T:
    def traced(y):
        return f, y
    kept = traced(x)[1]
    return (lambda f: f)(kept)

class Loop:
    @boundary
    def scan[T](self, f: T, x: T) -> T:
        def traced(y):
            return f, y
        kept = traced(x)[1]
        return (lambda f: f)(kept)
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
@pytest.mark.parametrize("variable", ["f", "#enter", "#exit", "#value"])
@pytest.mark.parametrize("how", ["add", "add_late", "attach"])
@pytest.mark.parametrize("name", ["scan", "Loop.scan"])
def test_a_function_with_type_parameters_in_a_decorator(woven, module, name, how, variable):
    """What it defines has variables of the same names, and ends of its own."""
    made = module("wrapped", WRAPPED, load=True)
    holder = made.Loop if "." in name else made
    request = woven.request("wrapped", name, variable)
    if how == "attach":
        woven.engine.attach(holder.scan.__wrapped__, request)
    else:
        getattr(woven.engine, how)([request])
    scan = made.Loop().scan if "." in name else made.scan
    assert scan("f", "x") == "x" and len(woven.take()) == 1


def test_scopes_of_type_parameters_are_in_no_name():
    """So that what older Pythons cannot compile is tested there as well."""
    path = (("<generic parameters of Box>", 0, 1), ("Box", 0, 1), ("made", 0, 2))
    assert names_of(path) == ("Box", "made")
    assert names_of((("outer", 0, 1), ("<lambda>", 0, 2))) == ("outer", "<lambda>")


def test_hooks_of_one_object_have_what_functions_have():
    """A program that looks for functions among all objects reads their code: codefind, and by it ptera."""
    made = []
    name = objects.filtered("injector_none", lambda first: False, "self", made.append)
    assert name and all(isinstance(hook, FunctionType) for hook in made)
    for hook in made:
        assert hook.__code__.co_name and hook.__globals__ and hook.__name__
        with pytest.raises(AttributeError):
            hook.nothing_that_functions_have
