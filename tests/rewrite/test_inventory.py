"""What a source offers to be named, where modules lie, and which names are nearest."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from types import CodeType

import pytest

from injector.rewrite import locate
from injector.rewrite.inventory import Function, inventory
from injector.rewrite.locate import NoSource, ProgramSources, display, files, find, module_files
from injector.rewrite.names import explain
from injector.rewrite.request import Match, Request, Unmatched
from injector.rewrite.selector_reader import parse
from injector.rewrite.survey import survey
from injector.rewrite.transform import explain as where

SAMPLE = """
import os.path as p, sys
from json import *
from typing import Any as A

class Net:
    kind: str = "mlp"
    def __init__(self, size, *layers, bias=True, **rest):
        self.size = self.total.count = size
        self.__x, (a, [b, *c]) = layers
    async def run(self, batch: "@Batch & @Input", /):
        async for row in batch:
            async with row as (one, two): pass
        return [k for k, v in batch if (w := k)]

def train(data, epochs=(n := 3)):
    global best
    best = 0
    for i, (x, y) in enumerate(data):
        loss = x
        loss += y
        data[0] = f(x).y = 1
    while step < 10 and True:
        step: int = 1
    while (a.b): ...
    try: pass
    except ValueError as error: del error
    match x:
        case {"k": k, **others}: pass
        case [first, *more] as whole: pass
    declared: int
    square = lambda q: (z := q)
    def inner():
        yield loss
    return (lambda u: u)(1)

if True:
    def train(): other = 1
    for _ in range(3): level = 1
"""


@pytest.fixture(scope="module")
def sample() -> list[Function]:
    return inventory(SAMPLE)


def named(found: list[Function], target: str) -> Function:
    return next(function for function in found if function.target == target)


def test_scopes(sample: list[Function]) -> None:
    assert [(f.target, f.kind, f.line) for f in sample] == [
        ("//", "module", 1),
        ("//Net", "class", 6),
        ("//Net/__init__", "method", 8),
        ("//Net/run", "method", 11),
        ("//train", "function", 16),
        ("//train/square", "lambda", 32),
        ("//train/inner", "function", 33),
        ("//train", "function", 38),
    ]


def test_arguments(sample: list[Function]) -> None:
    assert named(sample, "//Net/__init__").arguments == ["self", "size", "layers", "bias", "rest"]
    assert named(sample, "//Net/run").arguments == ["self", "batch"]
    assert named(sample, "//train/square").arguments == ["q"]


@pytest.mark.parametrize(
    ("target", "variables"),
    [
        ("//", "p sys A Net train n _ level"),
        ("//Net", "kind __init__ run"),
        ("//Net/__init__", "self size layers bias rest self.size self.total.count self.__x a b c"),
        ("//Net/run", "self batch row one two k v w"),
        (
            "//train",
            "data epochs best i x y loss step error k others first more whole square inner",
        ),
        ("//train/square", "q z"),
        ("//train/inner", ""),
    ],
)
def test_variables(sample: list[Function], target: str, variables: str) -> None:
    assert set(named(sample, target).variables) == set(variables.split())


def test_variables_know_their_place_and_kind(sample: list[Function]) -> None:
    train = named(sample, "//train")
    assert train.variables["loss"] == 20
    kinds = {"data": "argument", "i": "loop", "loss": "assignment", "error": "except"}
    kinds |= {"others": "match", "inner": "definition"}
    assert kinds.items() <= train.kinds.items()
    assert named(sample, "//Net/run").kinds["one"] == "with"
    assert named(sample, "//Net/run").kinds["v"] == "comprehension"
    assert named(sample, "//").kinds["sys"] == "import"


def test_events(sample: list[Function]) -> None:
    loops = ["i", "x", "y", "step", "True", "a"]
    expected = {f"#{kind}_{name}" for name in loops for kind in ("loop", "endloop")}
    called = {"#enter", "#exit", "#error", "#value"}
    assert set(named(sample, "//train").events) == expected | called
    assert set(named(sample, "//train/inner").events) == called | {"#yield", "#receive"}
    level = {"#loop__", "#endloop__", "#enter", "#exit", "#error"}
    assert set(named(sample, "//").events) == level
    [raises] = inventory("def f(): raise ValueError")[1:]
    assert "#value" not in raises.events
    assert set(named(sample, "//Net").events) == set()
    # What the rewriter refuses is no place to paste.
    [short, rows] = inventory("f = lambda x: x\nasync def rows(): yield 1")[1:]
    assert set(short.events) == {"#enter", "#value"}
    assert set(rows.events) == {"#enter", "#exit", "#error", "#yield", "#receive"}


def test_reads(sample: list[Function]) -> None:
    assert list(named(sample, "//train/inner").reads) == ["loss"]
    assert named(sample, "//train/inner").has("loss")
    assert not named(sample, "//train/inner").has("other")
    assert "f" in named(sample, "//train").reads


def test_tags(sample: list[Function]) -> None:
    assert named(sample, "//Net/run").tags == {"batch": "@Batch & @Input"}


def test_targets_of_a_module() -> None:
    found = inventory("class A:\n def f(self): pass", "pkg.mod")
    assert [f.target for f in found] == ["/pkg.mod/", "/pkg.mod/A", "/pkg.mod/A/f"]
    for function in found:
        call = parse(f"{function.target} > x")
        assert (call.module, call.path) == ("pkg.mod", function.path)


def test_names_of_lambdas_are_those_that_the_rewriter_knows() -> None:
    text = "a = b = lambda: (x := 1)\n(c := lambda: (y := 1))\n"
    found = inventory(text, "m")
    assert [f.path for f in found] == [(), ("b",), ("c",)]
    requests = [Request("h", "m", path, name) for path, name in ((("b",), "x"), (("c",), "y"))]
    _, left = where(ast.parse(text), requests, module="m", filename="m.py", source=text)
    assert left == []


def test_long_expressions_are_no_recursion() -> None:
    [_, function] = inventory("def f(): total = 1" + " + 1" * 2000)
    assert list(function.variables) == ["total"]


def test_syntax_error() -> None:
    with pytest.raises(SyntaxError):
        inventory("def f(:")


# --- CPython and the rewriter agree --------------------------------------------------------------

LIBRARY = (
    "argparse",
    "ast",
    "asyncio.queues",
    "bdb",
    "dataclasses",
    "functools",
    "inspect",
    "typing",
)


def library(name: str) -> str:
    source = find(name, sys.path)
    assert source is not None
    return source.text


def codes(code: CodeType, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], CodeType]]:
    found = [(path, code)]
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and not constant.co_name.startswith("<"):
            found += codes(constant, (*path, constant.co_name))
    return found


@pytest.mark.parametrize("name", LIBRARY)
def test_every_local_variable_is_listed(name: str) -> None:
    text = library(name)
    offered: dict[tuple[str, ...], set[str]] = {}
    for function in inventory(text):
        offered.setdefault(function.path, set()).update(function.variables)
    unset = bare(text)
    for path, code in codes(compile(text, name, "exec", dont_inherit=True)):
        if code.co_flags & 1 and path in offered:
            made = {v for v in code.co_varnames if not v.startswith(".")}
            assert made - mangled(path, offered[path]) <= unset, path


def mangled(path: tuple[str, ...], names: set[str]) -> set[str]:
    owners = [part.lstrip("_") for part in path[:-1]]
    private = {n for n in names if n.startswith("__")}
    return names | {f"_{owner}{name}" for owner in owners for name in private}


def bare(text: str) -> set[str]:
    """Names that `x: int` makes local without ever setting them."""
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.AnnAssign)]
    return {n.target.id for n in nodes if n.value is None and isinstance(n.target, ast.Name)}


@pytest.mark.parametrize("name", LIBRARY)
def test_the_rewriter_lands_on_all_that_is_offered(name: str) -> None:
    text = library(name)
    requests = [
        Request("h", "m", function.path, variable)
        for function in inventory(text, "m")
        for variable, _ in function.offers()
    ]
    tree = ast.parse(text)
    _, left = where(tree, requests, module="m", filename="m.py", source=text)
    missed = [(r.path, r.variable, reason) for r, reason in left if not reason]
    assert missed == []


# --- where modules lie ---------------------------------------------------------------------------


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        file = folder / (name.replace("__", "/").replace("/main/", "__main__") + ".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program with a package, a namespace package and a folder it adds to sys.path itself."""
    files = {
        "train.py": """
            from engine import Trainer, train_epoch as run
            import pkg.deep.net as net
            from pkg import Base, tool
            class Mine(Trainer):
                def extra(self): loss = 1
            class Plain:
                def f(self): x = 1
            class Odd(metaclass=type): pass
            def train(data):
                for batch in data:
                    loss = batch
                return loss
            alias = train
            made = train(3)
            class Made:
                def __init__(self): pass
            class Child(Made): pass
            import pkg
            """,
        "stars.py": "from json import *\nfrom engine import *\n",
        "engine.py": """
            class Trainer:
                def fit(self):
                    loss = 1
            def train_epoch(model):
                losses = []
            def train_step(batch):
                out = batch
            """,
        "pkg/__init__.py": "from .deep.net import Base\n",
        "pkg/tool.py": "def work(x): y = x\n",
        "pkg/__main__.py": "from . import tool\nfrom .deep import net\ndef go(): z = 1\n",
        "pkg/deep/__init__.py": "",
        "pkg/deep/net.py": "class Base:\n    def forward(self, x):\n        y = x\n",
        "space/part/leaf.py": "def f(): x = 1\n",
        "src/helper.py": "def help(x):\n    h = x\n",
        "venv/pyvenv.cfg": "",
        "venv/lib/hidden.py": "",
        ".git/hook.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_find(project: Path) -> None:
    path = [str(project), *sys.path]
    for name, file, package in [
        ("engine", "engine.py", False),
        ("pkg", "pkg/__init__.py", True),
        ("pkg.deep.net", "pkg/deep/net.py", False),
        ("space.part.leaf", "space/part/leaf.py", False),
    ]:
        found = find(name, path)
        assert found is not None
        assert (found.file, found.package) == (str(project / file), package)
        assert name not in sys.modules
    assert find("pkg.nothing", path) is None
    assert find("engine.sub", path) is None
    assert find("nothing.at.all", path) is None


@pytest.mark.parametrize("name", ["sys", "_io", "space"])
def test_modules_without_source(project: Path, name: str) -> None:
    with pytest.raises(NoSource, match=name):
        find(name, [str(project), *sys.path])


def test_extension_module() -> None:
    names = ["_decimal", "_json", "_elementtree"]
    extension = [n for n in names if n not in sys.builtin_module_names]
    with pytest.raises(NoSource, match="no Python source"):
        find(extension[0], sys.path)


def test_finding_runs_nothing(project: Path) -> None:
    (project / "pkg" / "__init__.py").write_text("raise SystemExit('was run')")
    found = find("pkg.deep.net", [str(project)])
    assert found is not None and "class Base" in found.text


def test_find_in_zip(tmp_path: Path) -> None:
    archive = tmp_path / "app.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("__main__.py", "from lib.mod import f\n")
        file.writestr("lib/__init__.py", "")
        file.writestr(
            "lib/mod.py", "# -*- coding: latin-1 -*-\ndef f(): g = '\xe4'\n".encode("latin-1")
        )
    program = ProgramSources.script(str(archive))
    assert program.main is not None and "lib.mod" in program.main.text
    found = program.find("lib.mod")
    assert found is not None
    assert found.file == str(archive / "lib" / "mod.py")
    assert "'ä'" in found.text
    assert [f.target for f in inventory(found.text, "lib.mod")][-1] == "/lib.mod/f"


def test_encoding_cookie(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_bytes("# coding: latin-1\nx = '\xe4'\n".encode("latin-1"))
    found = find("m", [str(tmp_path)])
    assert found is not None and "'ä'" in found.text


def test_finders_of_editable_installs(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.util import spec_from_file_location

    asked = []

    class Editable:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> object:
            asked.append(name)
            if name != "edited":
                return None
            init = project / "pkg" / "__init__.py"
            return spec_from_file_location(
                name, init, submodule_search_locations=[str(init.parent)]
            )

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Editable])
    found = find("edited.deep.net", ["/nowhere"])
    assert found is not None and found.file == str(project / "pkg/deep/net.py")
    assert asked == ["edited"], "only top-level names are asked for"


def test_script(project: Path) -> None:
    program = ProgramSources.script("train.py")
    assert program.main is not None
    assert (program.main.module, program.main.file) == ("__main__", "train.py")
    assert program.path[0] == str(project)
    engine = program.find("engine")
    assert engine is not None and engine.note == ""
    names = dict(program.neighbours())
    assert {"engine", "pkg", "pkg.deep.net", "space.part.leaf", "src.helper"} <= set(names)
    assert "train" not in names and not any("hidden" in name or "hook" in name for name in names)


def test_script_behind_a_link(project: Path, tmp_path: Path) -> None:
    (project / "bin").mkdir()
    (project / "bin" / "go.py").symlink_to(project / "train.py")
    assert ProgramSources.script("bin/go.py").find("engine") is not None


def test_folder(project: Path) -> None:
    program = ProgramSources.script("pkg")
    assert program.main is not None and program.main.file == str(project / "pkg" / "__main__.py")
    with pytest.raises(FileNotFoundError, match="no __main__"):
        ProgramSources.script("space")
    with pytest.raises(FileNotFoundError, match="no such file"):
        ProgramSources.script("nothing.py")


def test_run_as_module(project: Path) -> None:
    program = ProgramSources.module("pkg")
    assert program.main is not None
    assert (program.main.module, program.main.name) == ("__main__", "pkg.__main__")
    names = dict(program.neighbours())
    assert "pkg.deep.net" in names and "engine" not in names
    assert ProgramSources.module("engine").folder == str(project)
    assert dict(ProgramSources.module("space.part.leaf").neighbours()) == {}
    with pytest.raises(ModuleNotFoundError):
        ProgramSources.module("nothing")


def test_module_off_the_path(project: Path) -> None:
    found = ProgramSources.script("train.py").find("helper")
    assert found is not None
    assert found.file == str(project / "src/helper.py")
    assert found.note == "if the program puts src on sys.path"
    (project / "other").mkdir()
    (project / "other" / "helper.py").write_text("")
    assert ProgramSources.script("train.py").find("helper") is None, "two could be meant"


def test_module_files(project: Path) -> None:
    path = [str(project)]
    listed = module_files("pkg", path)
    assert listed == ["pkg", "pkg.__main__", "pkg.tool", "pkg.deep", "pkg.deep.net"]
    assert module_files("engine", path) == []
    assert module_files("nothing", path) == []
    assert module_files("space", path) == ["space.part.leaf"]
    with pytest.raises(NoSource):
        module_files("sys", path)


def test_files_end_somewhere(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "MOST_FILES", 3)
    assert len(files(str(project))) == 3


def test_own_path_entry_is_not_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/bin/inject"])
    monkeypatch.setattr(sys, "path", ["/opt/bin", "/lib"])
    assert locate.inherited_path() == ["/lib"]
    monkeypatch.setattr(sys, "path", ["/else", "/lib"])
    assert locate.inherited_path() == ["/else", "/lib"]
    monkeypatch.setattr(sys, "path", ["/opt/bin", "/lib"])
    monkeypatch.setenv("PYTHONPATH", "/opt/bin")
    assert locate.inherited_path() == ["/opt/bin", "/lib"]


def test_display(project: Path) -> None:
    assert display(str(project / "pkg" / "tool.py")) == "pkg/tool.py"
    assert display(ast.__file__) == "ast.py"
    assert display("/no/where.py") == "/no/where.py"


# --- nearest names -------------------------------------------------------------------------------


def asked(text: str) -> Request:
    call = parse(text)
    element = call.captures[0]
    assert call.module is not None
    return Request("h", call.module, call.path, element.name, category=element.tag)


@pytest.mark.parametrize(
    ("text", "reason", "first"),
    [
        (
            "//train > los",
            "los is never set in train (train.py:10)",
            "//train > loss (train.py:12)",
        ),
        ("//train > Loss", "Loss is never set", "//train > loss (train.py:12)"),
        ("//trian > loss", "no function trian in train.py", "//train > loss (train.py:12)"),
        ("//trian > #enter", "no function trian", "//train > #enter (train.py:10)"),
        ("//train_step > out", "no function train_step", "/engine/train_step > out (engine.py:8)"),
        ("//train_stpe > out", "no function", "/engine/train_step > out (engine.py:8)"),
        ("/engine/fit > loss", "no function fit", "/engine/Trainer/fit > loss (engine.py:4)"),
        (
            "/engin/Trainer/fit > loss",
            "no module engin",
            "/engine/Trainer/fit > loss (engine.py:4)",
        ),
        (
            "/pkg.deep.ent/Base/forward > y",
            "no module",
            "/pkg.deep.net/Base/forward > y (net.py:3)",
        ),
        ("// > mode", "mode is never set in train.py", "// > made (train.py:15)"),
        ("//train > #loop_bacth", "never set", "//train > #loop_batch (train.py:11)"),
        ("//train > enter", "enter is never set", "//train > #enter (train.py:10)"),
        ("//train > x:@Tag", "x in train (train.py:10) does not have the tag Tag", None),
        ("//train > $x:@Tag", "no variable of train (train.py:10) has the tag Tag", None),
        ("/sys/exit > x", "sys has no Python source", None),
        ("/nothing.like/this > xyz", "there is no module nothing.like", None),
    ],
)
def test_nearest(project: Path, text: str, reason: str, first: str | None) -> None:
    miss = explain(asked(text), ProgramSources.script("train.py"))
    assert reason in miss.reason
    if first is not None:
        assert miss.nearest[0] == first


@pytest.mark.parametrize("text", ["//train > nothere", "// > nothere"])
def test_a_name_like_that_of_an_event_is_no_slip_of_it(project: Path, text: str) -> None:
    """The functions of other modules were offered as well, for their `#enter`."""
    assert not explain(asked(text), ProgramSources.script("train.py")).nearest


def test_nearest_are_few(project: Path) -> None:
    for number in range(10):
        (project / f"engine{number}.py").write_text("def train_step(b): out = b\n")
    miss = explain(asked("//train_step > out"), ProgramSources.script("train.py"))
    assert len(miss.nearest) == 4


def test_broken_neighbours_are_passed_over(project: Path) -> None:
    (project / "broken.py").write_text("def (")
    (project / "binary.py").write_bytes(b"\x00\xff")
    miss = explain(asked("//train_step > out"), ProgramSources.script("train.py"))
    assert miss.nearest[0] == "/engine/train_step > out (engine.py:8)"


def test_large_folders_are_searched_by_text(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("injector.rewrite.names.MOST_PARSED", 1)
    program = ProgramSources.script("train.py")
    assert explain(asked("//train_step > out"), program).nearest
    assert not explain(asked("//train_stpe > xyz"), program).nearest


# --- names followed to where they are defined ----------------------------------------------------


def landed(text: str, target: object = None) -> list[str]:
    call = parse(text)
    element = call.captures[0]
    request = Request("h", call.module or "", call.path, element.name, category=element.tag)
    landings, misses = survey(ProgramSources.script("train.py"), [(request, target)])
    assert all(one.request == request for one in (*landings, *misses))
    return [_brief(one) for one in (*landings, *misses)]


def _brief(one: Match | Unmatched) -> str:
    if isinstance(one, Unmatched):
        return f"miss: {one.reason}"
    return f"{os.path.basename(one.file)}:{one.line} {one.kind}"


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("//train > loss", ["train.py:12 assignment"]),
        ("//Trainer/fit > loss", ["engine.py:4 assignment"]),
        ("//Mine/fit > loss", ["engine.py:4 assignment"]),
        ("//Mine/extra > loss", ["train.py:6 assignment"]),
        ("//run > losses", ["engine.py:6 assignment"]),
        ("//net/Base/forward > y", ["net.py:3 assignment"]),
        ("//pkg/deep/net/Base/forward > y", ["net.py:3 assignment"]),
        ("//Base/forward > y", ["net.py:3 assignment"]),
        ("//tool/work > y", ["tool.py:1 assignment"]),
        ("//alias > loss", ["train.py:12 assignment"]),
        ("/pkg/Base/forward > y", ["net.py:3 assignment"]),
        ("//made > loss", ["train.py:15 binding"]),
        ("//Made > #enter", ["train.py:17 enter"]),
        ("//Child() as made", ["train.py:17 return"]),
        ("//Plain > #enter", [":0 wrapped"]),
        ("//Plain > x", ["miss: x is never set in Plain (train.py:7)"]),
        ("//pkg > #enter", ["miss: pkg is a module and not a function"]),
        ("/stars/train_step > out", ["engine.py:8 assignment"]),
        ("//json/dumps > indent", ["miss: there is no function json.dumps in train.py"]),
        ("/stars/nothing > out", ["miss: there is no function nothing in stars.py"]),
        ("//Odd/f > x", ["train.py:9 binding"]),
        ("//Plain/g > x", ["miss: there is no function Plain.g in train.py"]),
        ("//Mine/nothing > x", ["miss: there is no function Trainer.nothing in engine.py"]),
        ("//Trainer/fit > x", ["miss: x is never set in Trainer.fit (engine.py:3)"]),
        ("/math/sqrt > #enter", [":0 wrapped"]),
        ("/math/sqrt > x", ["miss: math.sqrt has no Python source"]),
    ],
)
def test_survey(project: Path, text: str, places: list[str]) -> None:
    found = landed(text)
    assert len(found) == len(places)
    for one, expected in zip(found, places, strict=True):
        assert one.startswith(expected)


class Callable_:
    def __call__(self, x: int) -> None:
        y = x
        del y


def decorated() -> object:
    import functools

    def deco(function: object) -> object:
        @functools.wraps(function)  # type: ignore[arg-type]
        def wrapper(*args: object) -> object:
            return function(*args)  # type: ignore[operator]

        return wrapper

    @deco
    def original() -> None:
        found_here = 1
        del found_here

    return original


def test_survey_of_objects(project: Path) -> None:
    import functools
    import json
    import math

    assert "encoder.py" in landed("e > chunks", json.JSONEncoder.encode)[0]
    assert "encoder.py" in landed("e > chunks", json.JSONEncoder().encode)[0]
    assert landed("e > skipkeys", json.JSONEncoder)[0].endswith("argument")
    assert landed("e > path", os.path.join)[0].startswith("posixpath.py")
    assert landed("e > y", Callable_())[0].startswith("test_inventory.py")
    assert landed("e > found_here", decorated())[0].startswith("test_inventory.py")
    assert landed("e > #enter", math.sqrt) == [":0 wrapped"]
    assert landed("e > #value", len) == [":0 wrapped"]
    assert landed("e > #value", dict) == [":0 wrapped"]
    assert landed("e > #value", functools.partial(len, "")) == [":0 wrapped"]
    assert landed("e > x", functools.partial(len, ""))[0].startswith("miss: ")
    assert landed("e > nothing", json.dumps)[0].startswith("miss: nothing is never set in dumps")


def test_survey_of_what_does_not_parse(project: Path) -> None:
    (project / "engine.py").write_text("def (")
    assert landed("/engine/f > x")[0].startswith("miss: ")
    assert "does not parse" in landed("/engine/f > x")[0]


def test_survey_imports_nothing(project: Path) -> None:
    (project / "engine.py").write_text("raise SystemExit\ndef f(): x = 1\n")
    code = (
        "import sys; from injector.rewrite.survey import survey\n"
        "from injector.rewrite.locate import ProgramSources\n"
        "from injector.rewrite.request import Request\n"
        "wanted = Request('h', 'engine', ('f',), 'x')\n"
        "found = survey(ProgramSources.script('train.py'), [(wanted, None)])\n"
        "assert len(found[0]) == 1 and 'engine' not in sys.modules and 'pkg' not in sys.modules"
    )
    root = Path(locate.__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": str(root)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


def test_survey_finds_no_variables_in_what_has_no_python_code(project: Path) -> None:
    request = Request("h", "math", ("sqrt",), "#value", captures=("x",))
    landings, misses = survey(ProgramSources.script("train.py"), [(request, None)])
    assert not landings
    assert "has no Python source" in misses[0].reason
