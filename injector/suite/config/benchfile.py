"""milabench's ``benchfile.py``, read for its data; nothing of it is run.

It is a Python class that says in attributes what is installed, prepared and run, and in methods what
is cloned and which variables are set. What the text shows becomes the keys of a
``benchmark.yaml``; what only running the class would tell becomes a note.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .problems import Problem, SuiteError, Where
from .scope import ARCHITECTURES

CODE = "{milabench_code}"
"""milabench's own placeholder for the folder of the definition."""

_DEFAULTS = {
    "main_script": "main.py",
    "prepare_script": "prepare.py",
    "base_requirements": "requirements.in",
}
_LAUNCHERS = {"torchrun": "torchrun", "accelerate": "accelerate", "torchtune": "tune"}
_FOLDERS = {"code", "data", "cache", "runs", "extra", "venv"}
"""Names of ``self.dirs`` that have a placeholder."""
_COMMIT_LENGTHS = (40, 64)


@dataclass
class Reading:
    """What a ``benchfile.py`` says, as the keys of a ``benchmark.yaml``."""

    settings: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read(file: Path) -> Reading:
    """Read a ``benchfile.py``.

    Raises:
        SuiteError: it does not parse, or defines no benchmark.
    """
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        text = f"does not parse: {getattr(error, 'msg', error)}"
        raise SuiteError([Problem(Where(str(file), line), text)]) from None
    return _Reader(file, tree).reading()


class _Reader:
    """Goes through one file."""

    def __init__(self, file: Path, tree: ast.Module) -> None:
        self.file = file
        self.folder = file.parent
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.constants: dict[str, Any] = {}
        self.pack = ""
        for node in tree.body:
            self.module_level(node)
        self.notes: list[str] = []
        self.found = Reading()

    def module_level(self, node: ast.stmt) -> None:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            return
        name = node.targets[0].id
        if name == "__pack__" and isinstance(node.value, ast.Name):
            self.pack = node.value.id
            return
        value = self.constant(node.value)
        if value is not None:
            self.constants[name] = value

    def reading(self) -> Reading:
        body = list(self.members(self.chosen()))
        attributes = dict(_DEFAULTS) | self.attributes(body)
        methods = {
            node.name: node
            for node in body
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        self.origin(methods)
        self.program(attributes["main_script"], methods.get("working_directory"))
        self.requirements(attributes["base_requirements"])
        self.prepare(attributes["prepare_script"], methods)
        self.environment(methods.get("make_env"))
        self.run_plan(methods.get("build_run_plan"))
        if "argv" in methods:
            self.note(methods["argv"], "argv is computed: put what it adds into the suite's argv")
        self.found.notes = tuple(self.notes)
        return self.found

    def set(self, key: str, value: object, node: ast.AST | None = None) -> None:
        self.found.settings[key] = value
        if node is not None:
            self.found.lines[key] = getattr(node, "lineno", 1)

    def note(self, node: ast.AST, text: str) -> None:
        self.notes.append(f"{self.file}:{getattr(node, 'lineno', 1)}: {text}")

    # --- which class, and what is in it -----------------------------------------------------------

    def chosen(self) -> ast.ClassDef:
        """The class that ``__pack__`` names."""
        if self.pack in self.classes:
            return self.classes[self.pack]
        if self.pack:
            text = f"__pack__ names {self.pack}, which is no class of this file"
        else:
            text = "defines no benchmark: it has no line `__pack__ = ITS_CLASS`"
        raise SuiteError([Problem(Where(str(self.file), 1, "__pack__"), text)])

    def members(self, node: ast.ClassDef, depth: int = 0) -> Iterator[ast.stmt]:
        """The statements of a class, those of its bases in this file before its own."""
        for base in node.bases:
            inherited = self.classes.get(base.id) if isinstance(base, ast.Name) else None
            if inherited is not None and depth < len(self.classes):
                yield from self.members(inherited, depth + 1)
        yield from node.body

    def attributes(self, body: list[ast.stmt]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for node in body:
            target = _assigned(node)
            if target is None or target[0] not in _DEFAULTS:
                continue
            name, value = target
            found[name] = self.constant(value)
            self.found.lines[name] = node.lineno
            is_none = isinstance(value, ast.Constant) and value.value is None
            if found[name] is None and not is_none:
                self.note(node, f"{name} is computed: say what it is in the suite")
        return found

    # --- values -------------------------------------------------------------------------------------

    def constant(self, node: ast.expr) -> Any:
        """The value of text, numbers, lists and f-strings of such; None for all else."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.constants.get(node.id)
        if isinstance(node, (ast.List, ast.Tuple)):
            values = [self.constant(each) for each in node.elts]
            return None if None in values else values
        if isinstance(node, ast.JoinedStr):
            parts = [
                self.constant(each.value if isinstance(each, ast.FormattedValue) else each)
                for each in node.values
            ]
            return None if None in parts else "".join(map(str, parts))
        return None

    def path(self, node: ast.expr, known: Mapping[str, str]) -> str | None:
        """A path below the definition's folder, ``.`` for itself; None for any other."""
        if isinstance(node, ast.Name):
            return known.get(node.id)
        if isinstance(node, ast.Attribute):
            return "." if ast.unparse(node) == "self.dirs.code" else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            above, below = self.path(node.left, known), self.constant(node.right)
            if above is not None and isinstance(below, str):
                return str(Path(above) / below)
        return None

    # --- keys ---------------------------------------------------------------------------------------

    def origin(self, methods: Mapping[str, ast.AST]) -> None:
        """The repository that the definition clones beside its own files."""
        for name, method in methods.items():
            known: dict[str, str] = {}
            for _ in range(2):  # a path may be made of one that is set further below
                known |= {
                    target: path
                    for target, value in map(_pair, ast.walk(method))
                    if target and value and (path := self.path(value, known)) is not None
                }
            for call in _calls(method, lambda called: called.endswith(".clone_subtree")):
                self.clone(name, call, known)

    def clone(self, method: str, call: ast.Call, known: Mapping[str, str]) -> None:
        assert isinstance(call.func, ast.Attribute)
        into = self.path(call.func.value, known)
        words = [self.constant(each) for each in call.args]
        understood = into is not None and len(words) == 2 and all(words)
        if not understood or "origin" in self.found.settings:
            self.note(call, f"{method} clones in a way of its own, which is not done")
            return
        url, commit = words
        pinned = len(str(commit)) in _COMMIT_LENGTHS
        self.set(
            "origin", {"git": url, "commit" if pinned else "branch": commit, "into": into}, call
        )

    def program(self, main: str | None, working: ast.AST | None) -> None:
        """``run`` and ``folder``: the script, in its own folder unless the class says another."""
        if main is None:
            return
        if "main_script" not in self.found.lines and not (self.folder / main).is_file():
            return  # the usual name of a file that this definition does without
        if "." not in Path(main).name:
            self.set("run", f"-m {main}")
            self.set("folder", CODE)
            return
        self.set("run", f"{CODE}/{main}")
        folder = str(Path(main).parent)
        for node in ast.walk(working) if working is not None else ():
            if isinstance(node, ast.Return) and node.value is not None:
                folder = self.path(node.value, {}) or folder
        self.set("folder", CODE if folder == "." else f"{CODE}/{folder}")

    def requirements(self, base: str | list[str] | None) -> None:
        """The files of each architecture that are there."""
        bases = [base] if isinstance(base, str) else base or []
        stems = [Path(each).with_suffix("") for each in bases]
        found: dict[str, Any] = {}
        for arch in ARCHITECTURES:
            names = [f"{stem}.{arch}.txt" for stem in stems]
            if any((self.folder / name).is_file() for name in names):
                found[arch] = [name for name in names if (self.folder / name).is_file()]
        plain = [self.plain(stem) for stem in stems]
        if any(plain):
            found["default"] = [name for name in plain if name]
        own = self.folder.parent.parent / "benchmate"
        if (own / "pyproject.toml").is_file():  # what milabench's own benchmarks are written with
            found["packages"] = [f"-e {own.resolve()}"]
        if found:
            self.set("requirements", found)

    def plain(self, stem: Path) -> str | None:
        names = (f"{stem}.txt", f"{stem}.in")
        return next((name for name in names if (self.folder / name).is_file()), None)

    def prepare(self, script: str | None, methods: Mapping[str, ast.AST]) -> None:
        """milabench's step looks by itself what is there already, in the data folder of all."""
        if "build_prepare_plan" in methods:
            text = "the prepare step is computed: say `prepare:` in the suite"
            self.note(methods["build_prepare_plan"], text)
            self.set("prepare", None)
        elif script and (self.folder / script).is_file():
            self.set("prepare", {"script": script, "data": ".", "argv": [], "with_argv": True})
        else:
            self.set("prepare", None)

    def environment(self, method: ast.AST | None) -> None:
        """Variables that ``make_env`` sets to constants."""
        found: dict[str, str] = {}
        for key, value in _items(method) if method is not None else ():
            name, text = self.constant(key), self.constant(value)
            if isinstance(name, str) and text is not None:
                found[name.strip()] = str(text)
            else:
                self.note(key, "the variable is computed: put it into the suite's env")
        if found:
            self.set("env", found, method)

    def run_plan(self, method: ast.AST | None) -> None:
        """How the class starts its program: by which launcher, under voir or not, with more arguments."""
        if method is None:
            return
        calls = list(_calls(_pruned(method), lambda called: True))
        names = [ast.unparse(call.func) for call in calls]
        for name in (name.rpartition(".")[2].lower() for name in names):
            found = next((each for word, each in _LAUNCHERS.items() if name.startswith(word)), None)
            if found:
                self.set("plan", {"launcher": found}, method)
                break
        if not any(name.endswith(("VoirCommand", ").build_run_plan")) for name in names):
            # milabench starts it as it is, and its voirfile does not act: "auto" are the shipped ones.
            self.set("voirfile", "auto", method)
        for name, call in zip(names, calls, strict=True):
            if name.endswith("SimpleCommand"):
                self.wrapped(method)
            elif name.endswith(("PackCommand", "CmdCommand")):
                self.added(call)

    def wrapped(self, method: ast.AST) -> None:
        """``run`` of a class that only has arguments: a launcher of this file says what they are given to."""
        for node in self.classes.values():
            for call in _calls(node, lambda called: called == "super().__init__"):
                words = [word for each in call.args if isinstance(word := self.constant(each), str)]
                if words[:1] == ["-m"] and len(words) > 1:
                    self.set("run", " ".join(words), call)
                    self.set("folder", CODE)
                    return
        if "run" not in self.found.settings:
            self.note(method, "what is run is computed: say `run:` in the suite")

    def added(self, call: ast.Call) -> None:
        """The arguments that a command has after the benchmark's own."""
        at = next((n for n, each in enumerate(call.args) if isinstance(each, ast.Starred)), None)
        more = call.args[at + 1 :] if at is not None else []
        words = [self.word(each) for each in more]
        pairs = list(zip(words[::2], words[1::2], strict=False))
        if len(words) % 2 or not all(n and n.startswith("-") and v for n, v in pairs):
            self.note(call, "build_run_plan adds arguments: put them into the suite's argv")
        elif pairs:
            self.set("argv", dict(pairs), call)

    def word(self, node: ast.expr) -> str | None:
        """An argument: text, or a folder of milabench's as its placeholder."""
        inner = node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else node
        text = ast.unparse(inner)
        if text.startswith("self.dirs.") and text[10:] in _FOLDERS:
            return f"{{milabench_{text[10:]}}}"
        value = self.constant(node)
        return None if value is None else str(value)


def _pruned(method: ast.AST) -> ast.AST:
    """``method`` without the branches that never run: ``if False``, and after ``flag = True`` its else."""
    known = {
        target: value.value
        for target, value in map(_pair, ast.walk(method))
        if target and isinstance(value, ast.Constant)
    }

    class Pruner(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> Any:
            self.generic_visit(node)
            test = node.test
            if isinstance(test, ast.Name) and test.id in known:
                test = ast.Constant(known[test.id])
            if not isinstance(test, ast.Constant):
                return node
            return (node.body if test.value else node.orelse) or ast.Pass()

    copied = copy.deepcopy(method)
    Pruner().visit(copied)
    return copied


def _assigned(node: ast.AST) -> tuple[str, ast.expr] | None:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
        return node.target.id, node.value
    return None


def _pair(node: ast.AST) -> tuple[str | None, ast.expr | None]:
    return _assigned(node) or (None, None)


def _calls(node: ast.AST, wanted: Callable[[str], bool]) -> Iterator[ast.Call]:
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and wanted(ast.unparse(each.func)):
            yield each


def _items(method: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a method puts into mappings: ``env["A"] = "b"`` and ``{"A": "b"}``."""
    for node in ast.walk(method):
        if isinstance(node, ast.Dict):
            yield from ((k, v) for k, v in zip(node.keys, node.values, strict=True) if k)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            yield node.targets[0].slice, node.value
