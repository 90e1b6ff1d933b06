"""What has no Python code gets a stand-in, and objects get hooks wherever their code is."""

from __future__ import annotations

import builtins
import collections
import copy
import functools
import importlib
import inspect
import math
import operator
import pickle
import sys
import time
import traceback
import types

import pytest


@pytest.fixture
def restored():
    """Put modules' names back that a test had replaced."""
    saved = [(m, dict(vars(m))) for m in (math, time, operator, builtins)]
    yield
    for module, names in saved:
        vars(module).update(names)


def test_a_builtin_of_a_module(woven, restored):
    original = math.sqrt
    for variable in ("#enter", "#value", "#exit", "#error"):
        woven.add("math", "sqrt", variable)
    assert math.sqrt(4) == 2
    assert woven.take() == [("#enter", True), ("#value", 2.0), ("#exit", True)]
    with pytest.raises(ValueError):
        math.sqrt(-1)
    (_, _), (error, raised), (_, _) = woven.take()
    assert error == "#error" and isinstance(raised, ValueError)
    assert isinstance(math.sqrt, types.BuiltinFunctionType) and callable(math.sqrt)
    assert (
        math.sqrt == original
        and hash(math.sqrt) == hash(original)
        and (math.sqrt != original) is False
    )
    assert repr(math.sqrt) == repr(original) and math.sqrt.__doc__ == original.__doc__
    assert math.sqrt.__name__ == "sqrt" and math.sqrt.__module__ == "math"
    assert inspect.signature(math.sqrt) == inspect.signature(original)
    assert inspect.isbuiltin(math.sqrt) and dir(math.sqrt) == dir(original)
    assert [landing.kind for landing in woven.landings()] == ["wrapped"] * 4


def test_no_line_of_ours_in_a_traceback(woven, restored):
    woven.add("math", "sqrt", "#value")
    with pytest.raises(ValueError) as caught:
        math.sqrt(-1)
    frames = traceback.extract_tb(caught.tb)
    if sys.version_info >= (3, 11):  # before, a frame that re-raises can not be taken out
        assert [frame.name for frame in frames] == ["test_no_line_of_ours_in_a_traceback"]


def test_overriding_the_value(woven, restored):
    woven.add("math", "floor", "#value")
    woven.add("math", "floor", "#value", change=lambda value: value + 1)
    assert math.floor(2.5) == 3
    assert woven.take() == [("#value", 2), ("#value", 3)]


def test_what_a_hook_calls_is_no_event(woven, restored):
    """Or a probe of `len` whose handler asks for a length would never end."""
    seen = []
    woven.add("math", "floor", "#enter", change=lambda _: seen.append(math.floor(1.5)))
    woven.add("math", "floor", "#value", change=lambda value: value + math.floor(0.5))
    assert math.floor(2.5) == 2
    assert seen == [1]
    assert woven.take() == [("#enter", True), ("#value", 2)]


def test_it_binds_like_what_it_stands_for(woven, module, restored):
    text = """
import math, operator, functools
def base(self, x):
    return (self, x)
exec("def made(self, x): return (self, x)")
class A:
    root = math.sqrt
    lower = str.lower
    of = functools.partial(lambda *arguments: arguments, 3)
    bound = [].append
    fine = staticmethod(len)
    made = made
"""
    made = module("binds", text, load=True)
    thing = made.A()
    for name in ("root", "of", "bound", "fine", "made"):
        woven.add("binds", f"A.{name}", "#value")
    assert thing.root(9) == 3 and made.A.root(4) == 2
    # Since Python 3.14 a partial function binds as a method.
    partly = (3, 5) if sys.version_info < (3, 14) else (3, thing, 5)
    assert thing.of(5) == partly and thing.bound(1) is None and thing.fine("ab") == 2
    assert thing.made(1) == (thing, 1) and made.A.made(2, 3) == (2, 3)
    assert woven.take() == [
        ("#value", 3.0),
        ("#value", 2.0),
        ("#value", partly),
        ("#value", None),
        ("#value", 2),
        ("#value", (thing, 1)),
        ("#value", (2, 3)),
    ]
    assert isinstance(thing.made, types.MethodType) and math.sqrt is vars(math)["sqrt"]
    assert not woven.misses()


def test_pickling_by_reference(woven, module, restored):
    original = math.sqrt
    woven.add("math", "sqrt", "#enter")
    data = pickle.dumps(math.sqrt)
    assert b"weaving" not in data and b"injector" not in data
    assert pickle.loads(data) is math.sqrt
    made = module(
        "aliases", "import math\nroot = math.cos\npart = __import__('functools').partial(max, 3)\n"
    )
    woven.add("aliases", "root", "#enter")
    woven.add("aliases", "part", "#enter")
    made = importlib.import_module("aliases")
    assert type(made.root) is not type(math.cos)
    assert pickle.loads(pickle.dumps(made.root)) is math.cos
    copied = pickle.loads(pickle.dumps(made.part))
    assert copied(1) == 3 and type(copied) is functools.partial
    assert copy.deepcopy(math.sqrt) is math.sqrt and copy.copy(made.part) is made.part
    assert math.sqrt == original


def test_a_partial_and_a_callable_instance(woven, module):
    text = """
import functools
class Model:
    def __call__(self, x):
        y = x * 2
        return y
    def forward(self, x):
        z = x + 1
        return z
def f(x, y):
    total = x + y
    return total
add = functools.partial(f, 1)
model, other = Model(), Model()
"""
    module("instances", text)
    woven.add("instances", "add", "#value")
    woven.add("instances", "model", "y")
    woven.add("instances", "model.forward", "z")
    made = importlib.import_module("instances")
    assert made.add(2) == 3 and isinstance(made.add, functools.partial) and made.add.args == (1,)
    assert made.model(4) == 8 and made.other(5) == 10
    assert made.model.forward(1) == 2 and made.other.forward(2) == 3
    assert woven.take() == [("#value", 3), ("y", 8), ("z", 2)]
    assert type(made.model) is made.Model


def test_classes(woven, module):
    text = """
import dataclasses, collections, pickle
class A:
    def __init__(self, x):
        self.x = x
class B(A):
    pass
class N:
    def __new__(cls, x):
        self = super().__new__(cls)
        return self
@dataclasses.dataclass
class D:
    x: int
class Empty:
    pass
class Table(dict):
    pass
Deque = collections.deque
class Child(Deque):
    pass
"""
    module("classes", text)
    for name in ("A", "B", "N", "D", "Empty", "Table"):
        woven.add("classes", name, "#enter")
    woven.add("classes", "Deque", "#value")
    made = importlib.import_module("classes")
    made.A(1)
    assert woven.take() == [("#enter", True)]
    made.B(1)
    assert woven.take() == [("#enter", True), ("#enter", True)]
    assert made.N(1) and woven.take() == [("#enter", True)]
    assert made.D(1) == made.D(1) and woven.take() == [("#enter", True)] * 2
    assert made.Table(a=1) == {"a": 1} and type(made.Empty()) is made.Empty
    assert woven.take() == [("#enter", True)] * 2
    assert type(pickle.loads(pickle.dumps(made.Empty()))) is made.Empty
    with pytest.raises(TypeError):
        made.Empty(1)
    woven.take()
    found = made.Deque([1])
    assert type(pickle.loads(pickle.dumps(found))) is collections.deque
    assert woven.take() == [("#value", found)] and isinstance(found, made.Deque)
    assert issubclass(made.Child, made.Deque) and issubclass(made.Deque, list) is False
    assert isinstance(made.Child(), made.Deque) and made.Deque | None and made.Deque[int]
    assert not woven.misses()
    assert (
        "module that calls it"
        in woven.misses(woven.add("collections", "deque", "#enter"))[0].reason
    )


def test_inherited_methods_act_for_the_named_class_only(woven, module):
    text = """
class Base:
    def forward(self, x):
        y = [x + n for n in range(2)]
        if x < 0:
            unset = x
            raise ValueError(x)
        for step in y:
            yield step
    @classmethod
    def make(cls, n):
        size = n
        return cls
class Sub(Base):
    pass
class Leaf(Sub):
    pass
class Else(Base):
    pass
"""
    made = module("inherits", text, load=True)
    for variable in ("x", "n", "step", "#enter", "#exit", "#error", "#scope"):
        woven.add("inherits", "Sub.forward", variable)
    woven.add("inherits", "Sub.forward", "step", captures=("unset",))
    woven.add("inherits", "Sub.make", "size")
    assert list(made.Else().forward(1)) == [1, 2] and list(made.Base().forward(1)) == [1, 2]
    assert made.Base.make(1) is made.Base and woven.take() == []
    assert list(made.Leaf().forward(1)) == [1, 2] and made.Sub.make(5) is made.Sub
    events = [event[:2] for event in woven.take() if event[0] not in "+-"]
    assert events == [
        ("#enter", True),
        ("x", 1),
        ("n", 0),
        ("n", 1),
        ("step", 1),
        ("step", 1),
        ("step", 2),
        ("step", 2),
        ("#exit", True),
        ("size", 5),
    ]
    with pytest.raises(ValueError):
        list(made.Sub().forward(-1))
    assert "#error" in [event[0] for event in woven.take()]
    assert not woven.misses()


def test_bound_methods_act_for_one_object(woven, module):
    made = module(
        "bound", "class A:\n    def m(self, x):\n        y = x\n        return y\n", load=True
    )
    one, two = made.A(), made.A()
    woven.engine.attach(one.m, woven.request("", "", "y"))
    assert one.m(1) == 1 and two.m(2) == 2
    assert woven.take() == [("y", 1)]
    alive = sys.getrefcount(one)
    woven.engine.attach(one.m, woven.request("", "", "x"))
    assert sys.getrefcount(one) == alive and one.m(3) == 3
    assert woven.take() == [("x", 3), ("y", 3)]


def test_attaching_to_objects(woven, module, restored):
    text = """
import math
from math import hypot
def f(x):
    y = x + 1
    return y
class A:
    @property
    def p(self):
        got = 1
        return got
    @p.setter
    def p(self, got):
        self.q = got
    @staticmethod
    def s(x):
        return x
g = (lambda a: (lambda b: a + b))(1)
"""
    made = module("objects", text, load=True)
    attach, request = woven.engine.attach, woven.request
    attach(made.f, request("", "", "y"))
    attach(made.A.p, request("", "", "got"))
    attach(made.A.s, request("", "", "#value"))
    attach(made.g, request("", "", "b"))
    attach(made.A, request("", "", "#enter"))
    attach(math.hypot, request("", "", "#value"))
    thing = made.A()
    assert made.f(1) == 2 and thing.p == 1 and made.A.s(3) == 3 and made.g(2) == 3
    thing.p = 5
    assert made.hypot(3, 4) == 5 and math.hypot(6, 8) == 10
    assert woven.take() == [
        ("#enter", True),
        ("y", 2),
        ("got", 1),
        ("#value", 3),
        ("b", 2),
        ("#value", 5.0),
        ("#value", 10.0),
    ]
    assert made.hypot is math.hypot


def test_functions_without_source(woven, module):
    text = """
import dataclasses
names = {}
exec("def made(x):\\n    y = x\\n    return y", names)
made = names["made"]
@dataclasses.dataclass
class D:
    x: int
"""
    made = module("sourceless", text, load=True)
    woven.add("sourceless", "made", "#value")
    woven.add("sourceless", "D.__init__", "#enter")
    miss = woven.misses(woven.add("sourceless", "made", "y"))[0]
    assert "source" in miss.reason
    assert made.made(1) == 1 and made.D(2) == made.D(2)
    assert woven.take() == [("#value", 1), ("#enter", True), ("#enter", True)]
    assert inspect.isfunction(made.made) and made.made.__code__.co_varnames == ("x", "y")
    assert inspect.signature(made.D.__init__) and list(inspect.signature(made.D).parameters) == [
        "x"
    ]


def test_what_cannot_be_wrapped_is_reported(woven, module, restored):
    module("refuses", "value = 3\n", load=True)
    reasons = {
        ("builtins", "str.lower", "#enter"): "cannot be replaced",
        ("math", "floor", "x"): "has no Python code",
        ("math", "pi", "#enter"): "not callable",
        ("refuses", "value", "#enter"): "not callable",
        ("refuses", "nothing.at.all", "#enter"): "nothing not found",
    }
    for (name, path, variable), reason in reasons.items():
        misses = woven.misses(woven.add(name, path, variable))
        assert misses and reason in misses[0].reason, (path, misses)
    request = woven.request("math", "floor", "#value", captures=("x",))
    woven.engine.add([request])
    assert "x cannot be seen" in woven.misses(request)[0].reason
    request = woven.request("", "", "#enter")
    woven.engine.attach(object(), request)
    assert woven.misses(request)


def test_a_builtin_under_its_bare_name(woven, restored):
    woven.add("builtins", "sum", "#value")
    assert sum([1, 2]) == 3
    assert woven.take() == [("#value", 3)]


def test_stand_ins_stay_out_of_the_way_of_comparisons(woven, restored):
    table = {math.sqrt: "root"}
    woven.add("math", "sqrt", "#enter")
    assert table[math.sqrt] == "root" and math.sqrt in table and [math.sqrt].index(math.sqrt) == 0
    math.sqrt.__doc__
    assert not hasattr(math.sqrt, "__wrapped__") and not hasattr(math.sqrt, "requests")
