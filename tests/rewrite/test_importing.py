"""The import hook: code is exchanged where a module is executed, and nothing else can be told."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import textwrap
import threading
import zipfile

import pytest
from weaving import boot, python

PLAIN = "def f(x):\n    y = x + 1\n    return y\n"


def test_a_named_module_is_rewritten_when_it_is_imported(woven, module):
    module("one", PLAIN)
    request = woven.add("one", "f", "y")
    assert woven.events == [] and woven.reports == []
    assert importlib.import_module("one").f(1) == 2
    assert woven.take() == [("y", 2)]
    (landing,) = woven.landings(request)
    assert (landing.function, landing.line, landing.source) == ("f", 2, "y = x + 1")


def test_a_module_without_requests_gets_its_own_code(woven, module):
    module("two", PLAIN)
    woven.add("elsewhere", "f", "y")
    assert "injector" not in str(importlib.import_module("two").f.__code__.co_names)


def test_an_override_replaces_the_value(woven, module):
    module("three", PLAIN)
    woven.add("three", "f", "y", change=lambda value: value * 10)
    assert importlib.import_module("three").f(1) == 20


def test_what_a_module_tells_of_itself_is_what_python_tells(tmp_path):
    program = """
        import sys, pkg.sub
        m = pkg.sub
        print(type(m.__loader__), type(m.__spec__), m.__file__, m.__cached__, m.__package__)
        print(vars(m.__loader__), m.__spec__.origin, m.__spec__.has_location, m.__spec__.parent)
        print(pkg.__path__, sorted(vars(m)), sorted(vars(pkg)))
        print([type(f).__name__ for f in sys.meta_path], len(sys.path_hooks))
        import importlib
        print(importlib.import_module("pkg.sub") is m, importlib.reload(m) is m, m.f(3))
    """
    assert_same(
        tmp_path, program, {"pkg/__init__.py": "", "pkg/sub.py": PLAIN}, ("pkg.sub", "f", "y")
    )


def test_the_bytecode_cache_holds_the_code_as_written(tmp_path):
    write(tmp_path, {"one.py": PLAIN, "main.py": "import one; one.f(1)"})
    done = python("main.py", cwd=tmp_path, before=boot([("one", "f", "y")], loud=True))
    assert done.stderr == "EVENT y 2\n"
    assert [p.name for p in tmp_path.glob("__pycache__/one*")]
    done = python("main.py", cwd=tmp_path)
    assert done.stderr == "" and done.returncode == 0
    done = python("main.py", cwd=tmp_path, before=boot([("one", "f", "y")], loud=True))
    assert done.stderr == "EVENT y 2\n"


BROKEN = {
    "raises.py": "import os\ndef f(x):\n    y = x + 1\n    return y\nf(1)\nf('a')\n",
    "syntax.py": "def f(x):\n    y = x +\n",
    "missing.py": "y = 1\nimport there_is_no_such_module\n",
    "name.py": "y = 1\nfrom os import there_is_no_such_name\n",
    "deep.py": "y = 1\nimport raises\n",
    "encoded.py": b"# coding: latin-9-nine\ny = 1\n",
    "bytes.py": b"y = '\xff'\n",
    "nul.py": b"y = 1\0\n",
    "stop.py": "y = 1\nraise SystemExit(3)\n",
    "circle.py": "y = 1\nimport circle2\n",
    "circle2.py": "from circle import nothing\n",
}


@pytest.mark.parametrize(
    "name",
    ["raises", "syntax", "missing", "name", "deep", "encoded", "bytes", "nul", "stop", "circle"],
)
@pytest.mark.parametrize(
    "how",
    [
        "import {0}",
        "import importlib; importlib.import_module('{0}')",
        "import importlib.util as u; s = u.find_spec('{0}'); m = u.module_from_spec(s);"
        " s.loader.exec_module(m)",
        "import runpy; runpy.run_module('{0}', run_name='__main__')",
        "import runpy; runpy.run_path('{0}.py', run_name='__main__')",
    ],
)
def test_a_failing_import_looks_the_same(tmp_path, name, how):
    requests = [(module.removesuffix(".py"), "f", "y") for module in BROKEN]
    requests += [(module.removesuffix(".py"), "", "y") for module in BROKEN]
    requests += [("__main__", "f", "y"), ("__main__", "", "y")]
    assert_same(tmp_path, how.format(name), BROKEN, *requests)


def test_frames_seen_from_a_module_that_is_imported(tmp_path):
    files = {
        "looks.py": """
            import sys
            y = 1
            frame = sys._getframe()
            while frame:
                print(frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno)
                frame = frame.f_back
        """
    }
    program = "import looks\nimport importlib; importlib.reload(looks)"
    assert_same(tmp_path, program, files, ("looks", "", "y"))


def test_compiler_warnings_are_reported_once(tmp_path):
    text = "def f(x):\n    y = x is 1\n    assert (y, 'always')\n    return '\\d'\n"
    files = {"warns.py": text}
    program = "import warnings; warnings.simplefilter('default')\nimport warns; warns.f(1)"
    assert_same(tmp_path, program, files, ("warns", "f", "y"))


def test_warnings_once_per_place_stay_once_per_place(tmp_path):
    program = """
        import warnings
        def warn(): warnings.warn("again")
        warn()
        import one
        warn()
    """
    assert_same(tmp_path, program, {"one.py": PLAIN}, ("one", "f", "y"))


def test_namespace_packages_zips_and_reload(woven, tmp_path, monkeypatch):
    (tmp_path / "space" / "inner").mkdir(parents=True)
    (tmp_path / "space" / "inner" / "leaf.py").write_text(PLAIN)
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as archive:
        archive.writestr("zipped.py", PLAIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path / "lib.zip"))
    for name in ("space.inner.leaf", "zipped"):
        woven.add(name, "f", "y")
        module = importlib.import_module(name)
        try:
            assert module.f(1) == 2
            assert woven.take() == [("y", 2)]
            importlib.reload(module).f(2)
            assert woven.take() == [("y", 3)]
            assert len(woven.landings()) == 1
            woven.reports.clear()
        finally:
            del sys.modules[name]


def test_a_module_executed_by_hand(woven, tmp_path):
    (tmp_path / "hand.py").write_text(PLAIN)
    woven.add("by_hand", "f", "y")
    spec = importlib.util.spec_from_file_location("by_hand", tmp_path / "hand.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.f(1) == 2
    assert woven.take() == [("y", 2)]


def test_a_lazy_module_stays_lazy(woven, module, tmp_path):
    module("lazy", "print('executed')\n" + PLAIN)
    seen = []
    woven.engine.after_import("lazy", seen.append)
    woven.add("lazy", "f", "y")
    spec = importlib.util.find_spec("lazy")
    spec.loader = importlib.util.LazyLoader(spec.loader)
    made = importlib.util.module_from_spec(spec)
    sys.modules["lazy"] = made
    spec.loader.exec_module(made)
    woven.add("lazy", "f", "x")
    assert type(made).__name__ == "_LazyModule" and woven.reports == [] and seen == []
    assert made.f(1) == 2
    assert woven.take() == [("x", 1), ("y", 2)] and seen == [made]


def test_finders_in_front_and_loaders_of_their_own(woven, tmp_path, monkeypatch):
    """A finder that stands first takes modules without asking anybody else."""
    (tmp_path / "front.py").write_text(PLAIN)

    class Loader(importlib.machinery.SourceFileLoader):
        pass

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name != "front":
                return None
            path = str(tmp_path / "front.py")
            return importlib.util.spec_from_file_location(name, path, loader=Loader(name, path))

    woven.add("front", "f", "y")
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    made = importlib.import_module("front")
    del sys.modules["front"]
    assert type(made.__loader__) is Loader and made.f(1) == 2
    assert woven.take() == [("y", 2)]


def test_a_loader_that_transforms_trees_is_composed_with(woven, module, tmp_path, monkeypatch):
    (tmp_path / "doubled.py").write_text(PLAIN)
    found = transforming(tmp_path / "doubled.py", monkeypatch)
    woven.add("doubled", "f", "y")
    assert found().f(1) == 3
    assert woven.take() == [("y", 3)]


def test_a_loader_that_takes_no_tree_keeps_its_code(woven, tmp_path, monkeypatch):
    (tmp_path / "doubled.py").write_text(PLAIN)
    found = transforming(tmp_path / "doubled.py", monkeypatch, trees=False)
    woven.add("doubled", "f", "y")
    entered = woven.request("doubled", "f", "#value")
    woven.engine.add([entered])
    assert found().f(1) == 3
    assert [landing.kind for landing in woven.landings(entered)] == ["wrapped"], woven.reports
    assert len(woven.misses()) == 1
    assert woven.take() == [("#value", 3)]


def transforming(path, monkeypatch, trees=True):
    """A loader that makes every 1 a 2, in the way of beartype and typeguard."""
    import ast

    class Double(ast.NodeTransformer):
        def visit_Constant(self, node):
            return ast.copy_location(ast.Constant(2), node) if node.value == 1 else node

    class Loader(importlib.machinery.SourceFileLoader):
        def source_to_code(self, data, path, *, _optimize=-1):
            if not trees and isinstance(data, ast.AST):
                raise TypeError("bytes, please")
            tree = Double().visit(data if isinstance(data, ast.AST) else ast.parse(data))
            return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)

        def get_code(self, name):
            return self.source_to_code(self.get_data(self.path), self.path)

    class Finder:
        def find_spec(self, name, _=None, target=None):
            if name != path.stem:
                return None
            return importlib.util.spec_from_file_location(
                name, path, loader=Loader(name, str(path))
            )

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])

    def found():
        made = importlib.import_module(path.stem)
        del sys.modules[path.stem]
        return made

    return found


def test_a_loader_that_executes_in_its_own_way(woven, tmp_path, monkeypatch):
    path = tmp_path / "owned.py"
    path.write_text(PLAIN)
    seen = []

    class Loader:
        def create_module(self, spec):
            return None

        def exec_module(self, made):
            exec(compile(path.read_text(), str(path), "exec"), made.__dict__)
            seen.append(made.__spec__._initializing)

        def get_source(self, name):
            return path.read_text()

    class Finder:
        def find_spec(self, name, _=None, target=None):
            if name != "owned":
                return None
            return importlib.util.spec_from_file_location(name, path, loader=Loader())

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    woven.add("owned", "f", "y")
    made = importlib.import_module("owned")
    del sys.modules["owned"]
    assert made.f(1) == 2 and woven.misses() == []
    assert woven.take() == [("y", 2)]


@pytest.mark.parametrize("library", ["beartype", "typeguard"])
def test_type_checkers_that_hook_imports(tmp_path, library):
    pytest.importorskip(library)
    text = "def f(x: int) -> int:\n    y = x + 1\n    return y\n"
    install = {
        "beartype": "from beartype.claw import beartype_packages; beartype_packages(('checked',))",
        "typeguard": "from typeguard import install_import_hook; install_import_hook('checked')",
    }[library]
    program = f"""
        import sys
        {install}
        import checked.mod
        print(checked.mod.f(1), file=sys.stderr)
        try:
            checked.mod.f("a")
        except Exception as error:
            print(type(error).__module__.partition(".")[0], file=sys.stderr)
    """
    write(tmp_path, {"checked/__init__.py": "", "checked/mod.py": text})
    write(tmp_path, {"main.py": textwrap.dedent(program)})
    done = python("main.py", cwd=tmp_path, before=boot([("checked.mod", "f", "y")], loud=True))
    assert done.stderr == f"EVENT y 2\n2\n{library}\n"


def test_circular_imports(woven, module):
    module("round_a", "import round_b\ndef f():\n    y = round_b.g()\n    return y\n")
    module("round_b", "import round_a\ndef g():\n    y = 5\n    return y\n")
    seen = []
    woven.engine.after_import("round_a", seen.append)
    woven.add("round_a", "f", "y")
    woven.add("round_b", "g", "y")
    assert importlib.import_module("round_a").f() == 5
    assert woven.take() == [("y", 5), ("y", 5)]
    assert seen == [sys.modules["round_a"]]


def test_threads_that_import_at_once(woven, module):
    names = [f"threaded{number}" for number in range(30)]
    for name in names:
        module(name, "import time; time.sleep(0.001)\n" + PLAIN)
        woven.add(name, "f", "y")
    barrier = threading.Barrier(6)
    wrong = []

    def work():
        barrier.wait()
        for name in names:
            if importlib.import_module(name).f(1) != 2:
                wrong.append(name)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and len(woven.events) == 180 and len(woven.landings()) == 30


def test_after_import(woven, module):
    seen = []
    woven.engine.after_import("late.mod", lambda m: seen.append(("name", m.value, m)))
    woven.engine.after_import("*.mod", lambda m: seen.append(("ending", m.value)))
    woven.engine.after_import("late", lambda m: seen.append(("package", hasattr(m, "mod"))))
    module("late.mod", "value = 3\n")
    made = importlib.import_module("late.mod")
    assert seen == [("package", False), ("name", 3, made), ("ending", 3)]
    woven.engine.after_import("late.mod", lambda m: seen.append("at once"))
    assert seen[-1] == "at once"


def test_after_import_of_an_extension_and_of_a_failing_module(woven, module):
    seen = []
    module("fails", "raise ValueError\n")
    woven.engine.after_import("fails", seen.append)
    for _ in range(2):
        with pytest.raises(ValueError):
            importlib.import_module("fails")
    sys.modules.pop("_zoneinfo", None)
    woven.engine.after_import("_zoneinfo", seen.append)
    made = importlib.import_module("_zoneinfo")
    assert seen == [made]


def test_a_module_that_replaces_itself(woven, module):
    text = PLAIN + "import sys\nclass Me:\n    g = staticmethod(f)\nsys.modules[__name__] = Me()\n"
    module("itself", text)
    woven.add("itself", "f", "y")
    assert importlib.import_module("itself").g(1) == 2
    assert woven.take() == [("y", 2)]
    woven.add("itself", "f", "x")
    importlib.import_module("itself").g(1)
    assert woven.take() == [("x", 1), ("y", 2)]
    del sys.modules["itself"]


def test_a_callback_that_raises_harms_no_one(woven, module):
    module("calm", PLAIN)
    woven.engine.after_import("calm", lambda m: 1 / 0)
    assert importlib.import_module("calm").f(1) == 2


@pytest.mark.parametrize("form", ["module", "package", "folder", "zip", "path", "mp"])
def test_programs_that_runpy_runs(tmp_path, form):
    text = textwrap.dedent(
        """
        import sys
        frame = sys._getframe()
        while frame:
            print(frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno)
            frame = frame.f_back
        def f(x):
            y = x + 1
            return y
        print(f(1), __name__, __file__, __spec__ and __spec__.name, sorted(globals()))
        f("a")
        """
    )
    command = {
        "module": ["-m", "prog"],
        "package": ["-m", "pack"],
        "folder": ["folder"],
        "zip": ["prog.zip"],
        "path": ["-c", "import runpy; runpy.run_path('prog.py', run_name='__main__')"],
        "mp": ["-c", "import runpy; runpy.run_path('prog.py', run_name='__mp_main__')"],
    }[form]
    write(tmp_path, {"prog.py": text, "pack/__init__.py": "", "pack/__main__.py": text})
    write(tmp_path, {"folder/__main__.py": text})
    with zipfile.ZipFile(tmp_path / "prog.zip", "w") as archive:
        archive.writestr("__main__.py", text)
    plain = python(*command, cwd=tmp_path)
    quiet = python(*command, cwd=tmp_path, before=boot([("__main__", "f", "y")]))
    loud = python(*command, cwd=tmp_path, before=boot([("__main__", "f", "y")], loud=True))
    assert "TypeError" in plain.stderr and "line 8, in f" in plain.stderr
    assert (plain.stdout, plain.stderr, plain.returncode) == (
        quiet.stdout,
        quiet.stderr,
        quiet.returncode,
    )
    assert loud.stderr == "EVENT y 2\n" + plain.stderr


def test_a_program_under_its_own_name(tmp_path):
    write(tmp_path, {"prog.py": PLAIN + "f(1)\nif __name__ == '__main__':\n    import prog\n"})
    by_name = boot([("prog", "f", "y")], loud=True)
    assert python("-m", "prog", cwd=tmp_path, before=by_name).stderr == "EVENT y 2\n" * 2
    as_main = boot([("__main__", "f", "y")], loud=True)
    assert python("-m", "prog", cwd=tmp_path, before=as_main).stderr == "EVENT y 2\n"
    assert python("prog.py", cwd=tmp_path, before=by_name).stderr == "EVENT y 2\n"


def test_run_path_under_another_name_is_not_the_program(tmp_path):
    write(tmp_path, {"prog.py": PLAIN + "f(1)\n"})
    program = "import runpy; runpy.run_path('prog.py')"
    done = python("-c", program, cwd=tmp_path, before=boot([("__main__", "f", "y")], loud=True))
    assert done.stderr == ""


def test_editable_installs(tmp_path):
    """What setuptools writes for them: a finder on sys.meta_path that maps names to files."""
    finder = """
        import importlib.util, sys
        class Finder:
            @classmethod
            def find_spec(cls, name, path=None, target=None):
                if name == "edited":
                    return importlib.util.spec_from_file_location(name, "src/edited/__init__.py")
        sys.meta_path.append(Finder)
        import edited.sub
        print(edited.sub.f(1), edited.__path__)
    """
    files = {"src/edited/__init__.py": "", "src/edited/sub.py": PLAIN}
    assert_same(tmp_path, finder, files, ("edited.sub", "f", "y"))


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, str):
            text = textwrap.dedent(text).encode()
        path.write_bytes(text)


def assert_same(folder, program, files, *requests):
    """The program prints the same, to the letter, with python alone and with an engine at work."""
    write(folder, {"main.py": program})
    results = []
    for number, before in enumerate(("", boot(requests))):
        write(folder, files)
        if number == 0:
            subprocess.run(["rm", "-rf", str(folder / "__pycache__")], check=True)
        results.append(python("main.py", cwd=folder, before=before, PYTHONDONTWRITEBYTECODE="1"))
    plain, ours = results
    assert (plain.stdout, plain.stderr, plain.returncode) == (
        ours.stdout,
        ours.stderr,
        ours.returncode,
    )


if not hasattr(os, "fork"):
    pytest.skip("POSIX only", allow_module_level=True)
