"""One module's text, and every code object made from it.

A source is what the engine knows of a module: its text, its original code and each rewritten version
that was put into the world. From it follow the two mappings that the rest needs: from a live code
object to its place in the text, and from a rewritten code object back to the one that was written.
"""

from __future__ import annotations

import sys
from _ast import Expr, Load, Name, PyCF_ONLY_AST
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

from .request import ANYWHERE, Match, Request

if TYPE_CHECKING:
    import ast

    from .function_source import FunctionSource

CodeStep = tuple[str, int, int]
"""One code object inside its parent: name, first line, how many alike came before."""
Path = tuple[CodeStep, ...]
Compiler = Callable[["ast.Module"], CodeType]
Instrumented = tuple["CodeType | None", list[Match], dict[Request, str]]
"""A module's code with requests in it, where they matched, and why others did not."""

_OPTIMIZED = 0x1  # CO_OPTIMIZED: set for functions, not for modules and class bodies


class ModuleSource:
    """The text of one module and its compiled versions.

    ``plain`` is the code as written; ``versions`` the rewritten ones, the newest last. ``compiler``
    turns a tree into the module's code where the module's loader has its own way of doing so.
    ``flags`` are future features that the text does not ask for itself.
    ``star_imports`` are requests for names that an ``import *`` may bring, with the line of the last one.
    ``functions`` has each code object that was rewritten by itself, from the lines of one function, with
    the one as it was written. ``attached`` are requests for such a function alone, by its code as written:
    they become ``patches`` once the whole text is rewritten.
    """

    def __init__(
        self,
        module: str,
        filename: str,
        text: str,
        plain: CodeType | None = None,
        compiler: Compiler | None = None,
    ) -> None:
        self.module = module
        self.filename = filename
        self.text = text
        self.compiler = compiler
        self.flags = 0
        self.versions: list[CodeType] = []
        self.patches: dict[Path, list[Request]] = {}
        self.star_imports: dict[Request, int] = {}
        self.functions: dict[CodeType, tuple[FunctionSource, CodeType]] = {}
        self.attached: list[tuple[CodeType, Request]] = []
        self._lines: list[str] | None = None
        self._plain = plain
        self._requests: list[Request] = []
        self._overriding: CodeType | None = None
        self._index: dict[CodeType, Path] = {}

    @property
    def lines(self) -> list[str]:
        """The lines of the text, without their ends."""
        if self._lines is None:
            self._lines = self.text.split("\n")
        return self._lines

    @property
    def plain(self) -> CodeType:
        """The module's code as it is without us."""
        if self._plain is None:
            self._plain = self._compile(self._parse())
        return self._plain

    def _parse(self) -> ast.Module:
        return parse(self.text, self.filename)

    def _compile(self, tree: ast.Module) -> CodeType:
        with Quiet(self.filename):
            if self.compiler is not None:
                return self.compiler(tree)
            code: CodeType = compile(tree, self.filename, "exec", self.flags, dont_inherit=True)
            return code

    def takes_trees(self) -> bool:
        """Whether what is compiled is the tree that is given, and not the file once more."""
        tree = self._parse()
        at = {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}
        tree.body.append(Expr(Name("injector:", Load(), **at), **at))
        return "injector:" in self._compile(tree).co_names

    def forget_plain(self) -> None:
        """Compile the original anew when it is needed."""
        self._plain = None

    def rewrite(self, requests: Sequence[Request]) -> Instrumented:
        """The module's code with ``requests`` put in (None when none lands), and what came of them.

        Patches of single functions are put in as well.
        """
        self._patch_attached()
        code, matches, unmet = self._with_patches(requests, self.patches)
        if code is not None:
            self.adopt(code, requests)
        return code, matches, unmet

    def adopt(self, code: CodeType, requests: Sequence[Request]) -> None:
        """Take note of what the original has become with ``requests``."""
        self.versions.append(code)
        self._requests = list(requests)
        self._overriding = None

    def stands_for(self, plain: CodeType) -> bool:
        """Whether what requests make of ``plain`` follows from both alone: no loader, no patch has a say."""
        return self._plain is plain and not (self.compiler or self.patches or self.attached)

    def _patch_attached(self) -> None:
        for plain, request in self.attached:
            path = self.place(plain)
            if path:
                self.patches.setdefault(path, []).append(request)
        self.attached.clear()

    def _with_patches(
        self, requests: Sequence[Request], patches: dict[Path, list[Request]]
    ) -> Instrumented:
        code, matches, unmet = self._instrumented(requests)
        for path, extra in list(patches.items()):
            grown, found, _ = self._instrumented([*requests, *self._aimed(path, extra)])
            inner = follow(grown, path) if grown is not None and found else None
            if inner is not None:
                code = replace_code(code or self.plain, path, inner)
        return code, matches, unmet

    def patch(self, path: Path, request: Request) -> tuple[list[Match], str]:
        """Want ``request`` in the one function at ``path``.

        Where it lands there is returned, or why it does not; then it is not kept.
        """
        self._patch_attached()
        function = follow(self.plain, path)
        here = lines(function) if function is not None else range(0)
        _, matches, unmet = self._instrumented(self._aimed(path, [request]))
        found = [match for match in matches if match.line in here]
        kept = self.patches.get(path, [])
        if found and request not in kept:
            self.patches[path] = [*kept, request]
        return found, next(iter(unmet.values()), "")

    def stands_alone(self, path: Path) -> bool:
        """Whether the function at ``path`` is made once: no function encloses it."""
        parents = (follow(self.plain, path[:end]) for end in range(1, len(path)))
        return not any(parent is not None and is_function(parent) for parent in parents)

    def _aimed(self, path: Path, requests: Sequence[Request]) -> list[Request]:
        """``requests`` with the name of the function at ``path``; one without a name is hit by all."""
        names = tuple(name for name, _, _ in path)
        aim = ANYWHERE if any(name.startswith("<") for name in names) else names
        return [request._replace(module=self.module, path=aim) for request in requests]

    def _instrumented(self, requests: Sequence[Request]) -> Instrumented:
        if not requests:
            return None, [], {}
        from .transform import add_star_hooks, explain

        self.plain  # noqa: B018  made before anything is woven, while the text is the loaded one
        tree = self._parse()
        matches, missed = explain(
            tree, requests, module=self.module, filename=self.filename, source=self.text
        )
        star_imports = add_star_hooks(tree, [request for request, _ in missed])
        code = self._compile(tree) if matches or star_imports else None
        self.star_imports.update(star_imports)
        return code, matches, dict(missed)

    def place(self, code: CodeType) -> Path | None:
        """Where in the text ``code``, original or rewritten, was written; None when it was not here."""
        if not self._index or (self.versions and self.versions[-1] not in self._index):
            roots = (*self.versions, self.plain)
            self._index = {found: path for root in roots for path, found in walk(root)}
        known = self.functions.get(code)
        return self._index.get(code if known is None else known[1])

    def name_of(self, code: CodeType) -> str | None:
        """The qualified name, without ``<locals>``, of the function that ``code`` is a form of."""
        if code in self.functions and not self.versions:
            function_source, _ = self.functions[code]
            return ".".join(function_source.names)
        path = self.place(code) if self.versions else None
        return None if path is None else ".".join(step[0] for step in path)

    def original(self, code: CodeType) -> CodeType | None:
        """The code as written of which ``code`` is a rewritten form, or None."""
        if code in self.functions:
            return self.functions[code][1]
        path = self.place(code) if self.versions else None
        return None if path is None else follow(self.plain, path)

    def overriding(self, code: CodeType) -> CodeType | None:
        """The code as written with only those requests that override values, or None."""
        if code in self.functions and not self.versions:
            return self.functions[code][1]
        path = self.place(code) if self.versions else None
        if path is None:
            return None
        if self._overriding is None:
            patches = {at: [r for r in extra if r.override] for at, extra in self.patches.items()}
            patches = {at: extra for at, extra in patches.items() if extra}
            overriding = [request for request in self._requests if request.override]
            self._overriding = self._with_patches(overriding, patches)[0] or self.plain
            self._index.update((found, at) for at, found in walk(self._overriding))
        return follow(self._overriding, path)


def parse(text: str, filename: str) -> ast.Module:
    """The tree of a text. Not by ``ast.parse``: a neighbour of the program may be called ``ast``."""
    with Quiet(filename):
        tree: Any = compile(text, filename, "exec", PyCF_ONLY_AST, dont_inherit=True)
    found: ast.Module = tree
    return found


class Quiet:
    """Keeps the compiler from repeating the warnings it gave for the program's own text.

    The filter names the one file, and goes into the live list without touching its version: a new
    version would make every "once per place" warning of the program appear again
    (``test_warnings_once_per_place_stay_once_per_place`` of ``tests/rewrite/test_importing.py``). That a
    filter's module may be any object with ``match`` is a habit of ``_warnings``: on a Python that demands a
    compiled pattern the compiler raises, and the module is left as it was written.
    """

    __slots__ = ("_filter", "_filters", "_module")

    def __init__(self, filename: str) -> None:
        self._module = filename[:-3] if filename.lower().endswith(".py") else filename
        # The pattern of the module is this object: a compiled one would cost the import of re, and
        # Python 3.15 no longer compares text where the compiler warns.
        self._filter = ("ignore", None, Warning, self, 0)

    def match(self, module: str, start: int = 0) -> bool:
        """What a pattern has: whether the warning is about this file."""
        return not start and module == self._module

    def __enter__(self) -> None:
        warnings: Any = sys.modules.get("warnings")
        if warnings is None:
            import _warnings as warnings
        # From Python 3.14 on, `warnings.catch_warnings` may keep its filters in a context variable.
        current = getattr(warnings, "_get_filters", None)
        self._filters: list[Any] = warnings.filters if current is None else current()
        self._filters.insert(0, self._filter)

    def __exit__(self, *_: object) -> None:
        self._filters.remove(self._filter)


def walk(code: CodeType, path: Path = ()) -> Iterator[tuple[Path, CodeType]]:
    """Every code object inside ``code`` with its path, ``code`` itself first."""
    yield path, code
    for step, child in children(code):
        yield from walk(child, (*path, step))


def children(code: CodeType) -> Iterator[tuple[CodeStep, CodeType]]:
    """The code objects directly inside ``code``, in the order of their first use."""
    seen: dict[tuple[str, int], int] = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            key = (constant.co_name, constant.co_firstlineno)
            count = seen[key] = seen.get(key, -1) + 1
            yield (*key, count), constant


def follow(code: CodeType, path: Path) -> CodeType | None:
    """The code object at ``path`` inside ``code``."""
    for wanted in path:
        for step, child in children(code):
            if step == wanted:
                code = child
                break
        else:
            return None
    return code


def descend(code: CodeType, path: Path, names: Sequence[str]) -> Path | None:
    """The path of the function called ``names`` inside the one at ``path``."""
    start = follow(code, path)
    for name in names:
        for step, child in children(start) if start is not None else ():
            if step[0] == name:
                path, start = (*path, step), child
                break
        else:
            return None
    return path


def replace_code(code: CodeType, path: Path, new: CodeType) -> CodeType:
    """``code`` with ``new`` in the place of what is at ``path`` inside it."""
    if not path:
        return new
    old = follow(code, path[:1])
    if old is None:
        return code
    inner = replace_code(old, path[1:], new)
    constants = tuple(inner if constant is old else constant for constant in code.co_consts)
    return code.replace(co_consts=constants)


def lines(code: CodeType) -> range:
    """The lines from which ``code`` and everything inside it was compiled."""
    found = (line for _, inner in walk(code) for _, _, line in inner.co_lines() if line)
    return range(code.co_firstlineno, max(found, default=code.co_firstlineno) + 1)


def is_function(code: CodeType) -> bool:
    """Whether ``code`` is a function's, rather than a module's or a class body's."""
    return bool(code.co_flags & _OPTIMIZED)
