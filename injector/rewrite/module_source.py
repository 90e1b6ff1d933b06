"""One module's text, and every code object that was compiled from it.

A source is what the engine knows of a module: its text, its original code, and each rewritten version that
was executed or exchanged. A code object is named by its *path*: the steps from the module's code to it, each
with a name, a first line, and a number among those alike. Hooks add no code objects and move none, so a path
is the same in every version. From it follow the two mappings that the rest needs: from a live code object to
its place in the text, and from a rewritten code object back to the one that was written.
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
"""One code object inside of its parent: its name, its first line, how many like it came before."""
Path = tuple[CodeStep, ...]
GENERIC = "<generic parameters of "
"""How the name of a scope begins in which Python evaluates type parameters (PEP 695)."""
Compiler = Callable[["ast.Module"], CodeType]
Instrumented = tuple["CodeType | None", list[Match], dict[Request, str]]
"""A module's code with requests in it, their matches, and the reasons why others found nothing."""

_OPTIMIZED = 0x1  # CO_OPTIMIZED: set for functions, not for modules and class bodies


class ModuleSource:
    """The text of one module and its compiled versions.

    ``plain`` is the code as written. ``compiler`` turns a tree into the module's code where the module's
    loader has its own way of doing so.
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
        """Future features that the code has and the text does not import itself."""
        self.versions: list[CodeType] = []
        """The rewritten codes of the module, the newest last. Functions of older ones may still be alive."""
        self.patches: dict[Path, list[Request]] = {}
        """Requests for single functions, whatever path the requests name."""
        self.star_imports: dict[Request, int] = {}
        """Requests for names that an ``import *`` may bring, with the line of the last such import."""
        self.functions: dict[CodeType, tuple[FunctionSource, CodeType]] = {}
        """Each code object rewritten from the lines of one function, with the one as it was written."""
        self.attached: list[tuple[CodeType, Request]] = []
        """Requests put into such a function alone, by its code as written. They become ``patches`` once the
        whole text is rewritten."""
        self._lines: list[str] | None = None
        self._plain = plain
        self._requests: list[Request] = []
        """The requests in the newest version."""
        self._overriding: CodeType | None = None
        self._index: dict[CodeType, Path] = {}

    @property
    def lines(self) -> list[str]:
        """The lines of the text, without their line ends."""
        if self._lines is None:
            self._lines = self.text.split("\n")
        return self._lines

    @property
    def plain(self) -> CodeType:
        """The module's code as written, without hooks."""
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
        """Whether the loader compiles the tree that it is given, rather than the file once more.

        A name that no program can contain is put into a tree, and looked for in what is compiled.
        """
        tree = self._parse()
        at = {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}
        tree.body.append(Expr(Name("injector:", Load(), **at), **at))
        return "injector:" in self._compile(tree).co_names

    def forget_plain(self) -> None:
        """Compile the original anew when it is needed."""
        self._plain = None

    def rewrite(self, requests: Sequence[Request]) -> Instrumented:
        """Put ``requests`` into the module's code, and those for single functions as well.

        The code is None if nothing matches.
        """
        self._patch_attached()
        code, matches, unmet = self._with_patches(requests, self.patches)
        if code is not None:
            self.adopt(code, requests)
        return code, matches, unmet

    def adopt(self, code: CodeType, requests: Sequence[Request]) -> None:
        """Note that the module's code has become ``code`` with ``requests``."""
        self.versions.append(code)
        self._requests = list(requests)
        self._overriding = None

    def stands_for(self, plain: CodeType) -> bool:
        """Whether requests put into ``plain`` give the same in each process: no loader or patch is there."""
        return self._plain is plain and not (self.compiler or self.patches or self.attached)

    def _patch_attached(self) -> None:
        """Turn requests that were attached to functions into patches at the places of these."""
        for plain, request in self.attached:
            path = self.place(plain)
            if path:
                self.patches.setdefault(path, []).append(request)
        self.attached.clear()

    def _with_patches(
        self, requests: Sequence[Request], patches: dict[Path, list[Request]]
    ) -> Instrumented:
        """The module's code with ``requests``, and with ``patches`` in single functions.

        A patch could hit other functions of the same name. So it is put into the whole module, and only the
        code object at its path is taken from that.
        """
        code, matches, unmet = self._instrumented(requests)
        for path, added in list(patches.items()):
            patched, patch_matches, _ = self._instrumented([*requests, *self._aimed(path, added)])
            inner = follow(patched, path) if patched is not None and patch_matches else None
            if inner is not None:
                code = replace_code(code or self.plain, path, inner)
        return code, matches, unmet

    def patch(self, path: Path, request: Request) -> tuple[list[Match], str]:
        """Put ``request`` into the one function at ``path`` with the next rewriting.

        Returns its matches there, or the reason why there are none; then it is not kept.
        """
        self._patch_attached()
        function = follow(self.plain, path)
        own_lines = lines(function) if function is not None else range(0)
        _, matches, unmet = self._instrumented(self._aimed(path, [request]))
        own_matches = [match for match in matches if match.line in own_lines]
        kept = self.patches.get(path, [])
        if own_matches and request not in kept:
            self.patches[path] = [*kept, request]
        return own_matches, next(iter(unmet.values()), "")

    def stands_alone(self, path: Path) -> bool:
        """Whether there is only one function object of ``path``: no other function creates it."""
        parents = (follow(self.plain, path[:end]) for end in range(1, len(path)))
        return not any(parent is not None and is_function(parent) for parent in parents)

    def _aimed(self, path: Path, requests: Sequence[Request]) -> list[Request]:
        """``requests`` with the path of the function at ``path``; if nameless, it meets requests for all."""
        names = names_of(path)
        target = ANYWHERE if any(name.startswith("<") for name in names) else names
        return [request._replace(module=self.module, path=target) for request in requests]

    def _instrumented(self, requests: Sequence[Request]) -> Instrumented:
        """The module's code with ``requests`` and without patches."""
        if not requests:
            return None, [], {}
        from .transform import add_star_hooks, explain

        self.plain  # noqa: B018  compiled before any hook is put in, while the text is the loaded one
        tree = self._parse()
        matches, unmatched = explain(
            tree, requests, module=self.module, filename=self.filename, source=self.text
        )
        star_imports = add_star_hooks(tree, [request for request, _ in unmatched])
        code = self._compile(tree) if matches or star_imports else None
        self.star_imports.update(star_imports)
        return code, matches, dict(unmatched)

    def place(self, code: CodeType) -> Path | None:
        """The path of ``code``, original or rewritten; None if it is not of this text."""
        if not self._index or (self.versions and self.versions[-1] not in self._index):
            roots = (*self.versions, self.plain)
            self._index = {inner: path for root in roots for path, inner in walk(root)}
        known = self.functions.get(code)
        return self._index.get(code if known is None else known[1])

    def name_of(self, code: CodeType) -> str | None:
        """The qualified name, without ``<locals>``, of the function of which ``code`` is a form."""
        if code in self.functions and not self.versions:
            function_source, _ = self.functions[code]
            return ".".join(function_source.names)
        path = self.place(code) if self.versions else None
        return None if path is None else ".".join(names_of(path))

    def original(self, code: CodeType) -> CodeType | None:
        """The code as written of which ``code`` is a rewritten form, or None."""
        if code in self.functions:
            return self.functions[code][1]
        path = self.place(code) if self.versions else None
        return None if path is None else follow(self.plain, path)

    def overriding(self, code: CodeType) -> CodeType | None:
        """The code as written with only those requests that override values, or None if it is not ours."""
        if code in self.functions and not self.versions:
            return self.functions[code][1]
        path = self.place(code) if self.versions else None
        if path is None:
            return None
        if self._overriding is None:
            patches = {
                place: [r for r in added if r.override] for place, added in self.patches.items()
            }
            patches = {place: added for place, added in patches.items() if added}
            overriding = [request for request in self._requests if request.override]
            self._overriding = self._with_patches(overriding, patches)[0] or self.plain
            self._index.update((inner, place) for place, inner in walk(self._overriding))
        return follow(self._overriding, path)


def parse(text: str, filename: str) -> ast.Module:
    """The tree of a text. Not by ``ast.parse``: the program may have a module ``ast`` of its own."""
    with Quiet(filename):
        tree: Any = compile(text, filename, "exec", PyCF_ONLY_AST, dont_inherit=True)
    module: ast.Module = tree
    return module


class Quiet:
    """Keeps the compiler from repeating the warnings that it gave for the program's own text.

    The filter names the one file, and goes into the live list without touching its version: a new version
    would make every "once per place" warning of the program appear again
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
        """The method of a pattern that ``_warnings`` calls: whether the warning is about this file."""
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


def names_of(path: Path) -> tuple[str, ...]:
    """The names along a path, without the scopes of type parameters."""
    return tuple(name for name, _, _ in path if not name.startswith(GENERIC))


def walk(code: CodeType, path: Path = ()) -> Iterator[tuple[Path, CodeType]]:
    """Every code object inside of ``code`` with its path, ``code`` itself first."""
    yield path, code
    for step, child in children(code):
        yield from walk(child, (*path, step))


def children(code: CodeType) -> Iterator[tuple[CodeStep, CodeType]]:
    """The code objects directly inside of ``code``, in the order of their first use."""
    seen: dict[tuple[str, int], int] = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            key = (constant.co_name, constant.co_firstlineno)
            count = seen[key] = seen.get(key, -1) + 1
            yield (*key, count), constant


def follow(code: CodeType, path: Path) -> CodeType | None:
    """The code object at ``path`` inside of ``code``, or None."""
    for wanted in path:
        for step, child in children(code):
            if step == wanted:
                code = child
                break
        else:
            return None
    return code


def descend(code: CodeType, path: Path, names: Sequence[str]) -> Path | None:
    """The path of the code object with these ``names`` inside of the one at ``path``; None without one."""
    parent = follow(code, path)
    for name in names:
        for step, child in children(parent) if parent is not None else ():
            if step[0] == name:
                path, parent = (*path, step), child
                break
        else:
            return None
    return path


def replace_code(code: CodeType, path: Path, new: CodeType) -> CodeType:
    """``code`` with ``new`` in place of the code object at ``path``.

    Code objects are immutable: each one on the way is copied with other constants.
    """
    if not path:
        return new
    old = follow(code, path[:1])
    if old is None:
        return code
    inner = replace_code(old, path[1:], new)
    constants = tuple(inner if constant is old else constant for constant in code.co_consts)
    return code.replace(co_consts=constants)


def lines(code: CodeType) -> range:
    """The lines from which ``code`` and everything inside of it was compiled."""
    numbers = (line for _, inner in walk(code) for _, _, line in inner.co_lines() if line)
    return range(code.co_firstlineno, max(numbers, default=code.co_firstlineno) + 1)


def is_function(code: CodeType) -> bool:
    """Whether ``code`` is that of a function, rather than of a module or a class body."""
    return bool(code.co_flags & _OPTIMIZED)
