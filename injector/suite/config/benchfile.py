"""milabench's ``benchfile.py``, read as text: none of it is run.

It has a Python class whose attributes name what is installed, prepared and run, and whose methods clone
repositories, set variables and build the command. What the text shows becomes the keys of a
``benchmark.yaml``; what only running the class would show becomes a note::

    class Resnet(Package):
        main_script = "train.py"                    run: "{milabench_code}/train.py"

        def make_env(self):
            env = super().make_env()
            env["OMP_NUM_THREADS"] = "8"            env: {OMP_NUM_THREADS: "8"}
            return env

    __pack__ = Resnet
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .problems import Problem, SuiteError, Where
from .scope import ARCHITECTURES

CODE = "{milabench_code}"
"""milabench's own placeholder for the folder of the definition."""

_DEFAULTS = {
    "main_script": "main.py",
    "prepare_script": "prepare.py",
    "base_requirements": "requirements.in",
}
"""The attributes that are read, and what they are if the class does not set them."""
_LAUNCHERS = {"torchrun": "torchrun", "accelerate": "accelerate", "torchtune": "tune"}
"""How the names of classes for commands begin, in small letters, and the launchers that these use."""
_FOLDERS = {"code", "data", "cache", "runs", "extra", "venv"}
"""Attributes of ``self.dirs`` that have a placeholder."""
_COMMIT_LENGTHS = (40, 64)
"""Digits of a whole SHA-1 or SHA-256. All else that is cloned is taken for a branch."""


class Definition(NamedTuple):
    """What the folder of a definition says."""

    file: Path
    """The ``benchmark.yaml`` or ``benchfile.py`` in it."""
    settings: Mapping[str, Any]
    """What the ``benchfile.py`` and the other files imply. A ``benchmark.yaml`` is read as suites are, by
    :mod:`.library`."""
    lines: Mapping[str, int]
    """The line of ``file`` that each key, or attribute of the class, comes from, as far as there is one."""
    notes: tuple[str, ...] = ()
    """What a ``benchfile.py`` computes by code of its own, which is not read, with file and line."""


def read(file: Path) -> Definition:
    """Read a ``benchfile.py``. Raises SuiteError if it does not parse or defines no benchmark; OSError."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        text = f"does not parse: {getattr(error, 'msg', error)}"
        raise SuiteError([Problem(Where(str(file), line), text)]) from None
    return _Reader(file, tree).read()


class _Reader:
    """Reads one file. Methods named ``_set_…`` set keys of the result, and note what they cannot read."""

    def __init__(self, file: Path, tree: ast.Module) -> None:
        self.file = file
        self.folder = file.parent
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.constants: dict[str, Any] = {}
        """Of the module: values by name."""
        self.pack_name = ""
        for name, value in map(_assigned, tree.body):
            if name == "__pack__" and isinstance(value, ast.Name):
                self.pack_name = value.id
            elif value and (constant := self._constant(value)) is not None:
                self.constants[name] = constant
        self.settings: dict[str, Any] = {}
        self.lines: dict[str, int] = {}
        self.notes: list[str] = []

    def read(self) -> Definition:
        """What the file says. Raises SuiteError if it defines no benchmark."""
        body = list(self._statements(self._benchmark_class(), set()))
        attributes = dict(_DEFAULTS) | self._read_attributes(body)
        methods = {
            node.name: node
            for node in body
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        self._set_origin(methods)
        self._set_program(attributes["main_script"], methods.get("working_directory"))
        self._set_requirements(attributes["base_requirements"])
        self._set_prepare(attributes["prepare_script"], methods)
        self._set_environment(methods.get("make_env"))
        self._set_run_plan(methods.get("build_run_plan"))
        if "argv" in methods:
            self._note(methods["argv"], "argv is computed: put what it adds into the suite's argv")
        return Definition(self.file, self.settings, self.lines, tuple(self.notes))

    def _set(self, key: str, value: object, node: ast.AST | None = None) -> None:
        self.settings[key] = value
        if node is not None:
            self.lines[key] = getattr(node, "lineno", 1)

    def _note(self, node: ast.AST, text: str) -> None:
        self.notes.append(f"{self.file}:{getattr(node, 'lineno', 1)}: {text}")

    # --- the class, and what is in it -------------------------------------------------------------

    def _benchmark_class(self) -> ast.ClassDef:
        """The class that ``__pack__`` names. Raises SuiteError if there is none."""
        if self.pack_name in self.classes:
            return self.classes[self.pack_name]
        if self.pack_name:
            text = f"__pack__ names {self.pack_name}, which is no class of this file"
        else:
            text = "defines no benchmark: it has no line `__pack__ = ITS_CLASS`"
        raise SuiteError([Problem(Where(str(self.file), 1, "__pack__"), text)])

    def _statements(self, node: ast.ClassDef, seen: set[str]) -> Iterator[ast.stmt]:
        """The statements of a class after those of its bases in this file, of which the first comes last: it
        overrides the others. ``seen`` are the classes that are visited already.
        """
        seen.add(node.name)
        for base in reversed(node.bases):
            inherited = self.classes.get(base.id) if isinstance(base, ast.Name) else None
            if inherited is not None and inherited.name not in seen:
                yield from self._statements(inherited, seen)
        yield from node.body

    def _read_attributes(self, body: list[ast.stmt]) -> dict[str, Any]:
        """The values of the attributes in :data:`_DEFAULTS` that ``body`` sets; None if not constant."""
        values: dict[str, Any] = {}
        for node in body:
            name, value = _assigned(node)
            if value is None or name not in _DEFAULTS:
                continue
            values[name] = self._constant(value)
            self.lines[name] = node.lineno
            is_none = isinstance(value, ast.Constant) and value.value is None
            if values[name] is None and not is_none:
                self._note(node, f"{name} is computed: say what it is in the suite")
        return values

    # --- values -------------------------------------------------------------------------------------

    def _constant(self, node: ast.expr) -> Any:
        """The value of a literal, of a constant of the module, or of a list or an f-string of these.

        None for all else.
        """
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.constants.get(node.id)
        if isinstance(node, (ast.List, ast.Tuple)):
            values = [self._constant(each) for each in node.elts]
            return None if None in values else values
        if isinstance(node, ast.JoinedStr):
            parts = [
                self._constant(each.value if isinstance(each, ast.FormattedValue) else each)
                for each in node.values
            ]
            return None if None in parts else "".join(map(str, parts))
        return None

    def _path(self, node: ast.expr, known: Mapping[str, str]) -> str | None:
        """The path that ``node`` means, relative to the definition's folder; None if it means no such path.

        ``self.dirs.code / "src"`` is ``src``. ``known`` are the paths of variables.
        """
        if isinstance(node, ast.Name):
            return known.get(node.id)
        if isinstance(node, ast.Attribute):
            return "." if ast.unparse(node) == "self.dirs.code" else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            above, below = self._path(node.left, known), self._constant(node.right)
            if above is not None and isinstance(below, str):
                return str(Path(above) / below)
        return None

    # --- keys ---------------------------------------------------------------------------------------

    def _set_origin(self, methods: Mapping[str, ast.AST]) -> None:
        """Set ``origin`` to the repository that the definition clones into its own folder."""
        for name, method in methods.items():
            known: dict[str, str] = {}
            # Not in the order of lines: a path may be made of one that is met later.
            for _ in range(2):
                known |= {
                    target: path
                    for target, value in map(_assigned, ast.walk(method))
                    if value and (path := self._path(value, known)) is not None
                }
            for called, call in _calls(method):
                if called.endswith(".clone_subtree"):
                    self._set_clone(name, call, known)

    def _set_clone(self, method: str, call: ast.Call, known: Mapping[str, str]) -> None:
        """Set ``origin`` by ``PATH.clone_subtree(URL, COMMIT)``, if it is the only call."""
        assert isinstance(call.func, ast.Attribute)
        into = self._path(call.func.value, known)
        words = [self._constant(argument) for argument in call.args]
        understood = into is not None and len(words) == 2 and all(words)
        if not understood or "origin" in self.settings:
            self._note(call, f"{method} clones in a way of its own, which is not done")
            return
        url, commit = words
        pinned = len(str(commit)) in _COMMIT_LENGTHS
        self._set(
            "origin", {"git": url, "commit" if pinned else "branch": commit, "into": into}, call
        )

    def _set_program(self, main: str | None, working: ast.AST | None) -> None:
        """Set ``run`` and ``folder``: the script runs in its own folder, or the one that ``working`` returns.

        A name without a suffix is that of a module.
        """
        if main is None:
            return
        if "main_script" not in self.lines and not (self.folder / main).is_file():
            return  # the class does not set it, and there is no file of the usual name
        if "." not in Path(main).name:
            self._set("run", f"-m {main}")
            self._set("folder", CODE)
            return
        self._set("run", f"{CODE}/{main}")
        folder = str(Path(main).parent)
        for node in ast.walk(working) if working is not None else ():
            if isinstance(node, ast.Return) and node.value is not None:
                folder = self._path(node.value, {}) or folder
        self._set("folder", CODE if folder == "." else f"{CODE}/{folder}")

    def _set_requirements(self, base: str | list[str] | None) -> None:
        """Set ``requirements`` to the files that there are: of each architecture, and of all others."""
        bases = [base] if isinstance(base, str) else base or []
        stems = [Path(name).with_suffix("") for name in bases]
        requirements: dict[str, Any] = {}
        for arch in ARCHITECTURES:
            if files := self._present(f"{stem}.{arch}.txt" for stem in stems):
                requirements[arch] = files
        # Locked, or else as it was written.
        defaults = [self._present([f"{stem}.txt", f"{stem}.in"])[:1] for stem in stems]
        if any(defaults):
            requirements["default"] = [name for names in defaults for name in names]
        # The library that milabench's own benchmarks import stands beside their folders.
        library = self.folder.parent.parent / "benchmate"
        if (library / "pyproject.toml").is_file():
            requirements["packages"] = [f"-e {library.resolve()}"]
        if requirements:
            self._set("requirements", requirements)

    def _present(self, names: Iterable[str]) -> list[str]:
        """Those of ``names`` that are files beside this one."""
        return [name for name in names if (self.folder / name).is_file()]

    def _set_prepare(self, script: str | None, methods: Mapping[str, ast.AST]) -> None:
        """Set ``prepare`` to the script, if there is one.

        Its data folder is that of all benchmarks, as in milabench, and it checks itself what is there.
        """
        self._set("prepare", None)
        if "build_prepare_plan" in methods:
            text = "the prepare step is computed: say `prepare:` in the suite"
            self._note(methods["build_prepare_plan"], text)
        elif script and (self.folder / script).is_file():
            self._set("prepare", {"script": script, "data": ".", "argv": [], "with_argv": True})

    def _set_environment(self, method: ast.AST | None) -> None:
        """Set ``env`` to the variables that ``make_env`` sets to constants."""
        variables: dict[str, str] = {}
        for key, value in _items(method) if method is not None else ():
            name, text = self._constant(key), self._constant(value)
            if isinstance(name, str) and text is not None:
                variables[name.strip()] = str(text)
            else:
                self._note(key, "the variable is computed: put it into the suite's env")
        if variables:
            self._set("env", variables, method)

    def _set_run_plan(self, method: ast.AST | None) -> None:
        """Set what the commands of ``build_run_plan`` show: launcher, voirfile, program and arguments."""
        if method is None:
            return
        calls = list(_calls(_pruned(method)))
        classes = [name.rpartition(".")[2].lower() for name, _ in calls]
        launchers = [_LAUNCHERS[w] for each in classes for w in _LAUNCHERS if each.startswith(w)]
        if launchers:
            self._set("plan", {"launcher": launchers[0]}, method)
        if not any(name.endswith(("VoirCommand", ").build_run_plan")) for name, _ in calls):
            # milabench starts the program without voir, so that the benchmark's voirfile does not act:
            # "auto" are the shipped voirfiles.
            self._set("voirfile", "auto", method)
        for name, call in calls:
            if name.endswith("SimpleCommand"):
                self._set_wrapped_program(method)
            elif name.endswith(("PackCommand", "CmdCommand")):
                self._set_added_arguments(call)

    def _set_wrapped_program(self, method: ast.AST) -> None:
        """Set ``run`` for a ``SimpleCommand``, which has arguments only, to a module that the file launches.

        It is named by a class of the file that passes ``"-m", MODULE`` to its base.
        """
        for node in self.classes.values():
            for called, call in _calls(node):
                words = [each for each in map(self._constant, call.args) if isinstance(each, str)]
                if called == "super().__init__" and words[:1] == ["-m"] and len(words) > 1:
                    self._set("run", " ".join(words), call)
                    self._set("folder", CODE)
                    return
        if "run" not in self.settings:
            self._note(method, "what is run is computed: say `run:` in the suite")

    def _set_added_arguments(self, call: ast.Call) -> None:
        """Set ``argv`` to the arguments that a command has after the benchmark's own, which are ``*argv``."""
        at = next((n for n, node in enumerate(call.args) if isinstance(node, ast.Starred)), None)
        added = call.args[at + 1 :] if at is not None else []
        words = [self._argument(node) for node in added]
        pairs = list(zip(words[::2], words[1::2], strict=False))
        if len(words) % 2 or not all(n and n.startswith("-") and v for n, v in pairs):
            self._note(call, "build_run_plan adds arguments: put them into the suite's argv")
        elif pairs:
            self._set("argv", dict(pairs), call)

    def _argument(self, node: ast.expr) -> str | None:
        """The text of an argument, with a folder of ``self.dirs`` as its placeholder; None if computed."""
        inner = node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else node
        text = ast.unparse(inner)
        if text.startswith("self.dirs.") and text[10:] in _FOLDERS:
            return f"{{milabench_{text[10:]}}}"
        value = self._constant(node)
        return None if value is None else str(value)


def _pruned(method: ast.AST) -> ast.AST:
    """``method`` without branches that never run: of ``if False``, or the ``else`` of a flag that is True."""
    flags = {
        target: value.value
        for target, value in map(_assigned, ast.walk(method))
        if isinstance(value, ast.Constant)
    }

    class Pruner(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> Any:
            self.generic_visit(node)
            test = node.test
            if isinstance(test, ast.Name) and test.id in flags:
                test = ast.Constant(flags[test.id])
            if not isinstance(test, ast.Constant):
                return node
            return (node.body if test.value else node.orelse) or ast.Pass()

    copied = copy.deepcopy(method)
    Pruner().visit(copied)
    return copied


def _assigned(node: ast.AST) -> tuple[str, ast.expr | None]:
    """The name that a statement sets, and its value; None for that if it sets no plain name."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
        return node.target.id, node.value
    return "", None


def _calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """The calls in ``tree``, each with its callee as text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def _items(method: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a method puts into mappings: ``env["A"] = "b"`` and ``{"A": "b"}``."""
    for node in ast.walk(method):
        if isinstance(node, ast.Dict):
            yield from ((k, v) for k, v in zip(node.keys, node.values, strict=True) if k)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            yield node.targets[0].slice, node.value
