"""The engine as a whole: the program's code, what is reported, and failing open."""

from __future__ import annotations

import builtins
import importlib
import sys
import warnings

import pytest
from weaving import boot, python

from injector.rewrite import engine as engine_module
from injector.rewrite.engine import Engine
from injector.rewrite.request import Request

PLAIN = "def f(x):\n    y = x + 1\n    return y\n"


@pytest.fixture
def program(woven):
    """Run a text as the program: ``program(text)`` gives its names."""
    import __main__

    saved = dict(vars(__main__))

    def run(text, filename="program.py"):
        source = text if isinstance(text, bytes) else text.encode()
        vars(__main__).update(__file__=filename, __spec__=None, __loader__=None)
        exec(woven.engine.main_code(source, filename), vars(__main__))
        return dict(vars(__main__))

    yield run
    vars(__main__).clear()
    vars(__main__).update(saved)


def test_the_program_is_rewritten_where_it_is_named(woven, program):
    woven.add("__main__", "f", "y")
    woven.add("__main__", "", "total")
    names = program(PLAIN + "total = f(1)\n")
    assert names["total"] == 2 and names["f"].__code__.co_filename == "program.py"
    assert woven.take() == [("y", 2), ("total", 2)]


def test_a_program_that_no_one_names_is_compiled_as_it_is(woven):
    code = woven.engine.main_code(PLAIN.encode(), "program.py")
    assert code == compile(PLAIN, "program.py", "exec", dont_inherit=True)
    woven.add("__main__", "g", "y")
    assert woven.engine.main_code(PLAIN.encode(), "program.py") == code


@pytest.mark.parametrize(
    "text", [b"def f(:\n", b"# coding: nonsense\n", b"x = '\xff'\n", b"x = 1\0\n", b" x = 1\n"]
)
@pytest.mark.parametrize("asked", [True, False])
def test_a_syntax_error_is_pythons(woven, text, asked):
    if asked:
        woven.add("__main__", "f", "y")
    with pytest.raises((SyntaxError, ValueError)) as plain:
        compile(text, "program.py", "exec", dont_inherit=True)
    with pytest.raises((SyntaxError, ValueError)) as ours:
        woven.engine.main_code(text, "program.py")
    assert ours.value.args == plain.value.args and type(ours.value) is type(plain.value)


@pytest.mark.parametrize(
    "text",
    [
        b"# -*- coding: latin-1 -*-\nname = '\xe9'\n",
        b"\xef\xbb\xbfname = '\xc3\xa9'\r\n",
        b"name = '\xc3\xa9'\r",
    ],
)
def test_encodings_and_line_ends(woven, program, text):
    woven.add("__main__", "", "name")
    assert program(text)["name"] == "é"
    assert woven.take() == [("name", "é")]


def test_future_features_stay_the_programs(woven, program):
    woven.add("__main__", "f", "x")
    text = "from __future__ import annotations\ndef f(x: undefined): return x\nf(1)\n"
    assert program(text)["f"].__annotations__ == {"x": "undefined"}
    with pytest.raises(NameError):  # since Python 3.14 when the annotations are asked for
        _ = program("def f(x: undefined): return x\n")["f"].__annotations__


def test_no_warning_is_reported_twice_and_none_is_lost(woven, recwarn):
    text = "def f(x):\n    y = x is 1\n    return y\n"
    woven.add("__main__", "f", "y")
    filters = list(warnings.filters)
    woven.engine.main_code(text.encode(), "program.py")
    assert not recwarn.list and warnings.filters == filters


def test_names_that_a_program_gets_from_elsewhere(woven, program, module):
    module("library", PLAIN + "class Base:\n    def m(self, v):\n        return v\n")
    for path, variable in (("f", "y"), ("Sub.m", "v"), ("Own", "#enter"), ("h", "x")):
        woven.add("__main__", path, variable)
    program(
        """
from library import *
import library
h = library.f
class Sub(Base):
    pass
class Own:
    def __init__(self):
        self.a = 1
f(1), Sub().m(2), Base().m(3), Own()
"""
    )
    assert woven.take() == [("x", 1), ("y", 2), ("v", 2), ("#enter", True)]
    assert not woven.misses()


def test_what_an_import_star_does_not_bring(woven, program, module):
    module("library", PLAIN)
    request = woven.add("__main__", "nothing", "y")
    program("if True:\n    from library import *\n")
    assert "nothing" in woven.misses(request)[0].reason


def test_each_thing_is_reported_once(woven, module):
    module("once", PLAIN)
    request = woven.add("once", "f", "y")
    woven.engine.add([request])
    made = importlib.import_module("once")
    importlib.reload(made)
    woven.engine.add([request])
    assert len(woven.landings()) == 1
    made.f(1)
    assert woven.take() == [("y", 2)]


def test_a_report_that_raises_harms_no_one(module):
    def report(_):
        raise RuntimeError

    engine = Engine(report)
    engine.install()
    try:
        module("spoiled", PLAIN)
        builtins.__dict__["injector:spoiled"] = lambda value: value
        engine.add([Request("injector:spoiled", "spoiled", ("f",), "y")])
        assert importlib.import_module("spoiled").f(1) == 2
    finally:
        engine.uninstall()


def test_a_mistake_of_ours_leaves_the_program_alone(woven, module, program, monkeypatch):
    from injector.rewrite import transform

    def mistaken(*_, **__):
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(transform, "explain", mistaken)
    module("failing", PLAIN)
    request = woven.add("failing", "f", "y")
    assert importlib.import_module("failing").f(1) == 2
    assert "a mistake of ours" in woven.misses(request)[0].reason
    request = woven.add("__main__", "f", "y")
    assert program(PLAIN + "z = f(1)\n")["z"] == 2
    assert "a mistake of ours" in woven.misses(request)[0].reason
    function = sys.modules["failing"].f
    request = woven.request("", "", "y")
    woven.engine.attach(function, request)
    assert "a mistake of ours" in woven.misses(request)[0].reason


def test_a_rewriting_that_does_not_compile_leaves_the_program_alone(woven, module, monkeypatch):
    import ast

    from injector.rewrite import transform

    def broken(tree, requests, **_):
        tree.body.append(ast.parse("return 1").body[0])
        landings, missed = explain(tree, requests, **_)
        return landings, missed

    explain = transform.explain
    monkeypatch.setattr(transform, "explain", broken)
    module("uncompilable", PLAIN)
    request = woven.add("uncompilable", "f", "y")
    assert importlib.import_module("uncompilable").f(1) == 2
    assert woven.misses(request)
    woven.add("__main__", "f", "y")
    assert woven.engine.main_code(PLAIN.encode(), "p.py").co_filename == "p.py"


def test_modules_that_the_rewriter_itself_needs(tmp_path):
    """They are named before they are loaded, and are loaded while they are being rewritten."""
    requests = [("ast", "parse", "source"), ("difflib", "get_close_matches", "#enter")]
    requests += [("linecache", "getlines", "#enter"), ("tokenize", "open", "filename")]
    requests += [("gc", "collect", "#enter"), ("weakref", "finalize", "#enter")]
    text = "import ast, linecache, difflib\nast.parse('1')\nlinecache.getlines('main.py')\n"
    (tmp_path / "main.py").write_text(text)
    done = python("main.py", cwd=tmp_path, before=boot(requests, loud=True))
    assert done.returncode == 0 and "EVENT source '1'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_first_steps_are_light(tmp_path):
    """Nothing heavy is loaded in a process in which nothing is rewritten."""
    (tmp_path / "main.py").write_text("import sys; print(*sorted(sys.modules))")
    plain = set(python("main.py", cwd=tmp_path).stdout.split())
    ours = set(python("main.py", cwd=tmp_path, before=boot()).stdout.split())
    added = {name.partition(".")[0] for name in ours - plain} - {"injector", "sitecustomize"}
    heavy = {
        "ast",
        "inspect",
        "importlib",
        "threading",
        "dataclasses",
        "difflib",
        "weakref",
        "types",
    }
    if not {"typing", "collections"} & added:  # what request.py brings is not the engine's
        assert not added & heavy
    assert not added & {"ast", "inspect", "dataclasses", "difflib", "tokenize"}
    assert engine_module.__name__ in ours
