"""Calls of methods by their name: hooked in the program's own files, and nothing about them changed."""

from __future__ import annotations

import builtins
import importlib
import inspect
import os
import pickle
import subprocess
import sys
import textwrap
import traceback

import pytest
from rewriting import differences, plainly, weave

from injector.origin import LIBRARY, PACKAGE, PROGRAM, origin
from injector.rewrite.engine import Engine
from injector.rewrite.method_calls import MethodCalls, hook_of
from injector.rewrite.request import ANYWHERE, Match

FORMS = """
def f(x, d, a, k):
    y = (x
         .to(d)
         .to(d, n=True)
         .float()
    )
    y = x.to(
        d,
    )
    z = (x
       . to(*a))
    z = (x
       . to(d, **k))
    g(x
      .aa.to
      (d))
    return x.to(d).to(x.to(1).e)
class A:
    v = [q.to(w.to(1)) for q in z]
    def m(self):
        return (lambda t: t.to(k).to(y))(super().to(1))
def others(x, y, z):
    assert x.to(1), x.to(2)
    if (a := z.to(1)): pass
    elif x.to(3): pass
    while y.to(3): x.to(4)
    with x.to(3) as f, y.to(4): pass
    @x.to(3)
    def inner(x=y.to(2), *, z: x.to(3)=x.to(1)) -> y.to(3):
        text = f"{x.to(3)!r:>{y.to(2)}}"
        del x.to(3).y
        x.to(3)[3] += y.to(4)
        lambda: x.to(3)
        yield x.to((yield))
    async def coroutine():
        await x.to(3)
        return [i.to(3) async for i in y.to(4)]
    match x.to(3):
        case 1 if y.to(3): pass
    try: pass
    except x.to(3): pass
    x.to = lambda: 3
    return x.to
"""


def woven_code(source, *methods, filename="woven.py"):
    """The text's code with the calls of ``methods`` hooked, and where."""
    requests = MethodCalls(methods).requests(plainly(source, filename), "__main__")
    code, landings, _ = weave(source, requests, filename)
    return code, landings


@pytest.fixture
def hooks():
    """Defines the hooks of a method: ``hooks("to", about, given)``; both give back their argument."""
    defined = []

    def define(method, about=lambda value: value, given=lambda value: value):
        for name, hook in ((hook_of(method), about), (hook_of(method) + "=", given)):
            vars(builtins)[name] = hook
            defined.append(name)

    yield define
    for name in defined:
        vars(builtins).pop(name)


def test_every_call_is_hooked_and_nothing_else_changes():
    code, landings = woven_code(FORMS, "to")
    assert list(differences(plainly(FORMS), code)) == []
    calls = FORMS.count(".to(") + FORMS.count(". to(") + 1  # and one whose parenthesis stands apart
    unseen = 2  # annotations are evaluated as they are written
    assert len(landings) == calls - unseen
    assert {landing.kind for landing in landings} == {"call"}
    lines = FORMS.split("\n")
    assert all(
        "to" in lines[landing.line - 1] or "(x" in lines[landing.line - 1] for landing in landings
    )


CALLS = """
class X:
    def __init__(self, fail=False): self.fail = fail
    def to(self, *a, **k):
        if self.fail: raise ValueError("to")
        return X(True)
x, log = X(), []
def note(value): log.append(value); return value
def raises(): raise KeyError("argument")
def chain(): return (x
    .to(1)
    .to(2)
    .other)
def keywords(): return (x
    .to(1).to(
        2, n=3))
def starred(): return (x.to(1)
    .to(*[2]))
def doubled(): return (x.to(1)
    .to(**{}))
def missing(): return (log
    .to(1))
def argument(): return x.to(
    note(1), n=raises())
def deep(): return [x.to(1).to(2) for _ in range(2)]
def builtin(): return (3)\\
    .to_bytes(
      -1, "big")
def parameters(): return (3).to_bytes(1, "big", 3, 4)
"""


@pytest.mark.parametrize(
    "name",
    [
        *("chain", "keywords", "starred", "doubled", "missing"),
        *("argument", "deep", "builtin", "parameters"),
    ],
)
def test_tracebacks_are_those_of_the_text(name, hooks, tmp_path):
    hooks("to")
    hooks("to_bytes")
    path = tmp_path / "calls.py"
    path.write_text(CALLS)
    texts = []
    for code in (
        plainly(CALLS, str(path)),
        woven_code(CALLS, "to", "to_bytes", filename=str(path))[0],
    ):
        namespace = {"__name__": "calls"}
        exec(code, namespace)
        try:
            namespace[name]()
        except Exception:
            texts.append(traceback.format_exc())
    assert len(texts) == 2 and texts[0] == texts[1]


def test_hooks_are_called_around_the_call_in_order(hooks):
    seen = []

    def about(method):
        seen.append(("about", method.__self__))
        return method

    hooks("add", about, lambda value: seen.append(("given", value)) or value)
    source = """
    class N(int):
        def add(self, other, *rest, **named):
            seen.append(("call", self, other))
            return N(self + other)
    def f(n): return n.add(arg(1)).add(other=arg(2))
    def arg(value):
        seen.append(("arg", value))
        return value
    """
    code, _ = woven_code(textwrap.dedent(source), "add")
    namespace = {"seen": seen}
    exec(code, namespace)
    assert namespace["f"](namespace["N"](1)) == 4
    assert seen == [
        ("about", 1), ("arg", 1), ("call", 1, 1), ("given", 2),
        ("about", 2), ("arg", 2), ("call", 2, 2), ("given", 4),
    ]  # fmt: skip
    assert not [name for name in namespace if ":" in name]


SITE = f"{os.sep}venv{os.sep}lib{os.sep}site-packages{os.sep}"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (os.__file__, LIBRARY),
        (sys.prefix + "/bin/train", LIBRARY),
        ("/home/me/train.py", PROGRAM),
        ("/home/me/site-packages.py", PROGRAM),
        (SITE + "torch/nn.py", PACKAGE),
        ("/usr/lib/python3/dist-packages/numpy/__init__.py", PACKAGE),
    ],
)
def test_where_a_file_comes_from(file, expected):
    assert origin(file) == expected


@pytest.mark.parametrize(("at", "expected"), [(0, PROGRAM), (1, PACKAGE)])
def test_what_pip_has_installed_into_a_folder_of_the_path_is_a_package(
    tmp_path, monkeypatch, at, expected
):
    """But for the folder of the script, the first of the path: what lies beside it is the program's."""
    target, checkout = tmp_path / "target", tmp_path / "checkout"
    (target / "lib-1.0.dist-info").mkdir(parents=True)
    (checkout / "own.egg-info").mkdir(parents=True)
    path = ["/home/me", str(checkout), *sys.path]
    monkeypatch.setattr(sys, "path", [*path[:at], str(target), *path[at:]])
    assert origin(str(target / "lib" / "a.py")) == expected
    assert origin(str(tmp_path / "target-2" / "a.py")) == PROGRAM
    assert origin(str(checkout / "own" / "a.py")) == PROGRAM


@pytest.mark.parametrize(
    ("module", "file", "own"),
    [
        ("__main__", SITE + "pkg/train.py", True),
        ("helper", "/home/me/helper.py", True),
        ("vendored.model", "/home/me/third_party/vendored/model.py", True),
        ("other.model", SITE + "other/model.py", False),
        ("other.model", SITE.replace("/site-packages/", "//site-packages/./") + "model.py", False),
        ("helper", SITE + "../../helper.py", True),
        ("helper", SITE + "../" * 40 + "home/me/helper.py", True),
        ("helper", "/home/me/.hidden/helper.py", True),
        ("helper", "helper.py", True),
        ("pkg.model", SITE + "pkg/model.py", True),
        ("torch.nn", SITE + "torch/nn.py", False),
        ("torch.nn", "/home/me/pytorch/torch/nn.py", False),
        ("injector.cli", "/home/me/injector/cli.py", False),
        ("__voir_0__", "/home/me/voirfile.py", False),
        ("json", os.__file__.replace("os.py", "json/__init__.py"), False),
        ("made", "<string>", False),
    ],
)
def test_which_modules_are_the_programs_own(module, file, own):
    sought = MethodCalls(["to"], ["torch"])
    sought.packages.add("pkg")
    assert sought.own(module, file) is own
    code = plainly("x.to(1)", file)
    assert sought.asks(code, module) is own
    assert not MethodCalls([], ["torch"]).asks(code, module)


def test_only_functions_that_read_the_name_are_looked_at():
    source = """
    def plain(): return 1
    class A:
        def m(self):
            def n(): return [x.to(1) for x in y]
            return n
        def other(self): return self.cuda()
    z.to(1)
    """
    code = plainly(textwrap.dedent(source))
    found = MethodCalls(["to", "cuda", "wait"]).requests(code, "m")
    assert {(r.path, r.variable, r.hook, r.module) for r in found} == {
        ((), ".to", "injector:.to", "m"),
        (("A", "m", "n"), ".to", "injector:.to", "m"),
        (("A", "other"), ".cuda", "injector:.cuda", "m"),
    }
    nameless = plainly("def f(): return lambda: x.to(1)\ny.to(2)")
    assert [r.path for r in MethodCalls(["to"]).requests(nameless, "m")] == [ANYWHERE]
    assert not MethodCalls(["to"]).asks(plainly("def f(): return x.cuda()"), "m")


# --- in a process ---------------------------------------------------------------------------------

HELPER = """
def send(x):
    # as it is written
    return x.to(1)
def read(x):
    return x.to
class Box:
    def to(self, value): return [value]
    def keep(self): return self.to(2)
"""


@pytest.fixture
def results(hooks):
    """What the methods gave that were called, through hooks that note it."""
    seen = []
    hooks("to", given=lambda value: seen.append(value) or value)
    return seen


def test_modules_are_hooked_as_they_load(woven, module, results):
    woven.engine.add_method("to")
    module("own_helper", HELPER)
    made = importlib.import_module("own_helper")
    assert made.send(made.Box()) == [1] and made.Box().keep() == [2]
    assert results == [[1], [2]]
    landings = [found for found in woven.reports if isinstance(found, Match)]
    assert {(landing.function, landing.line) for landing in landings} == {
        ("send", 4),
        ("Box.keep", 9),
    }
    assert not woven.misses(), "that a name is read and not called is nobody's mistake"
    assert inspect.getsource(made.send).splitlines()[1].strip() == "# as it is written"
    plain = woven.engine.original(made.send.__code__)
    assert plain is not None and hook_of("to") not in plain.co_names
    importlib.reload(made)
    made.send(made.Box())
    assert results == [[1], [2], [1]]


def test_functions_that_are_loaded_already_are_reached(woven, module, results):
    made = module("own_helper", HELPER, load=True)
    box = made.Box()
    woven.engine.add_method("to")
    assert made.send(box) == [1] and box.keep() == [2]
    assert results == [[1], [2]] and not woven.misses()


def test_what_is_requested_later_keeps_the_calls(woven, module, results):
    woven.engine.add_method("to")
    made = module("own_helper", HELPER, load=True)
    woven.add("own_helper", "send", "x")
    made.send(made.Box())
    assert results == [[1]] and [event[0] for event in woven.take()] == ["x"]


def test_functions_leave_as_they_were_written(woven, module, results):
    cloudpickle = pytest.importorskip("cloudpickle")
    woven.engine.add_method("to")
    made = module("own_helper", HELPER, load=True)
    importlib.reload(cloudpickle)
    cloudpickle.register_pickle_by_value(made)
    try:
        assert b"injector" not in cloudpickle.dumps(made.send)
    finally:
        cloudpickle.unregister_pickle_by_value(made)
    assert pickle.loads(pickle.dumps(made.send)) is made.send


def test_the_program_is_hooked(woven, results):
    source = "class Box:\n    def to(self, v): return v\nkept = Box().to(5)\n"
    woven.engine.add_method("to")
    plain = plainly(source, "train.py")
    code = woven.engine.main_code(source.encode(), "train.py", plain)
    exec(code, {"__name__": "__main__"})
    assert results == [5] and not woven.misses()
    assert woven.engine.main_code(b"x = 1", "train.py", plainly("x = 1")) is not None


def test_a_module_without_a_text_is_reported(woven, module, tmp_path):
    woven.engine.add_method("to")
    module("own_textless", HELPER)
    import py_compile

    py_compile.compile(str(tmp_path / "own_textless.py"), str(tmp_path / "own_textless.pyc"))
    (tmp_path / "own_textless.py").unlink()
    importlib.invalidate_caches()
    made = importlib.import_module("own_textless")
    assert made.send(made.Box()) == [1]
    assert {miss.reason for miss in woven.misses()} == {"own_textless: its source cannot be read"}


def test_nothing_is_compiled_where_no_call_is(woven, module):
    woven.engine.add_method("to")
    made = module("own_plain", "def f(x):\n    return x.cuda()\n", load=True)
    assert woven.engine.original(made.f.__code__) is None and woven.reports == []


def test_without_methods_nothing_is_requested():
    engine = Engine(lambda found: None)
    assert not engine.asks(plainly("x.to(1)"), "__main__")


def test_runpy_meets_what_comes_during_the_lookup_of_another(tmp_path):
    """A client that installs a second one when it is asked for the program: that one is asked, too."""
    (tmp_path / "train.py").write_text("print('ran')")
    (tmp_path / "start.py").write_text(
        textwrap.dedent(
            """
            import sys
            from injector.rewrite.importing import ImportHook
            class Client:
                names, endings = set(), set()
                def __init__(self, label, then=None): self.label, self.then = label, then
                def asks(self, code, name): return False
                def code_for(self, code, namespace): return code
                def loaded(self, name): pass
                def main_code_for(self, code, namespace, name):
                    print(self.label)
                    if self.then: self.then.install()
                    return code
            ImportHook(Client("first", ImportHook(Client("second")))).install()
            import runpy
            runpy.run_path("train.py", run_name="__main__")
            """
        )
    )
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    done = subprocess.run(
        [sys.executable, "start.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["first", "second", "ran"], done.stderr


def test_joint_methods_count_where_all_of_them_are_called():
    sought = MethodCalls(["to", "step", "reset"], joint=["step", "reset"])
    alone = compile("def f(o):\n    o.step()\n", "/x/m.py", "exec")
    both = compile("def f(o):\n    o.step()\ndef g(o):\n    o.reset()\n", "/x/m.py", "exec")
    beside = compile("def f(o):\n    o.step(o.to(1))\n", "/x/m.py", "exec")
    assert [sought.asks(code, "m") for code in (alone, both, beside)] == [False, True, True]
    asked = [
        [request.variable for request in sought.requests(code, "m")] for code in (both, beside)
    ]
    assert [sorted(each) for each in asked] == [[".reset", ".step"], [".to"]]
