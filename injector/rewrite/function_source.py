"""Single functions of big modules: only their own lines are parsed, once the module has been loaded.

A module of a library may have thousands of lines, of which one function is wanted. Parsing all of them takes
tens of milliseconds; the lines of one function take less than one. They are compiled where they stand in the
file, inside of empty classes and behind an import of what the module imports::

    import np, torch             names that the module has from elsewhere
                                 (empty up to the function's place)
    class Module:
        def forward(self):       the lines of the function
            ...

What they compile to without hooks must equal the loaded code. If it does not, nothing is done here, and the
whole text decides.
"""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

from .code_cache import CodeCache
from .method_calls import is_method
from .module_source import (
    GENERIC,
    Instrumented,
    ModuleSource,
    Quiet,
    follow,
    is_function,
    parse,
    walk,
)
from .objects import find, function_at
from .registry import Registry
from .request import MAIN, Match, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

_CHUNKS = 8
"""How many times the text is extended at most, if its lines are not yet the whole function."""


class FunctionSource:
    """One function, and the requests that are put into it.

    ``plain`` is its code as written, ``names`` its qualified name in parts, ``namespace`` its module's.
    """

    def __init__(
        self,
        source: ModuleSource,
        names: tuple[str, ...],
        plain: CodeType,
        namespace: dict[str, Any],
    ) -> None:
        self.source = source
        self.names = names
        self.plain = plain
        self.namespace = namespace
        self.text = ""
        """Its lines with what stands around them, found when they are needed."""
        self.requests: list[Request] = []
        self._tree: ast.Module | None = None

    def instrument(
        self, requests: Sequence[Request], cache: CodeCache, tools: Callable[[], bool]
    ) -> tuple[CodeType | None, list[Match]]:
        """The function's code with ``requests`` and those from before, and the matches of all of them.

        ``tools`` loads what rewriting needs, and returns whether it could. The code is None if nothing
        matches.
        """
        wanted = [*self.requests, *(r for r in requests if r not in self.requests)]
        code, matches = cache.find(self.plain, wanted) or (None, [])
        if code is None and tools() and self._is_found():
            code, matches = self._instrumented(wanted)
            if code is not None:
                cache.keep(self.plain, wanted, code, matches)
        if code is None:
            return None, []
        matched = {match.request for match in matches}
        self.requests = [request for request in wanted if request in matched]
        self._remember(code)
        return code, matches

    def _instrumented(self, wanted: Sequence[Request]) -> tuple[CodeType | None, list[Match]]:
        """The code with the requests ``wanted`` and their matches. None if its closure would change."""
        from .transform import explain

        source = self.source
        # A tree serves once: hooks go into it.
        tree, self._tree = self._tree or self._parsed(), None
        matches, _ = explain(
            tree, wanted, module=source.module, filename=source.filename, source=self.text
        )
        code = self._compiled(tree)
        if code is None or code.co_freevars != self.plain.co_freevars or not matches:
            return None, []
        return code, matches

    def _is_found(self) -> bool:
        """Whether the text of the loaded code is found. It is looked for at the first call."""
        if self.text:
            return True
        source = self.source
        # The right text is recognised by what it compiles to, so guesses cost time and no correctness.
        for imports in _imports(source.text, self.plain, self.namespace):
            for text in _texts(source.lines, self.plain, self.names, imports):
                self.text = text
                if self._matches():
                    return True
        self.text = ""
        return False

    def _parsed(self) -> ast.Module:
        return parse(self.text, self.source.filename)

    def _compiled(self, tree: ast.Module) -> CodeType | None:
        """The code of the function in ``tree``."""
        flags = self.plain.co_flags & 0x1FE0000  # __future__ features
        with Quiet(self.source.filename):
            module = compile(tree, self.source.filename, "exec", flags, dont_inherit=True)
        return _named(module, self.names)

    def _matches(self) -> bool:
        """Whether the text compiles to the loaded code."""
        try:
            self._tree = self._parsed()
            return self._compiled(self._tree) == self.plain
        except (SyntaxError, ValueError):
            return False

    def _remember(self, code: CodeType) -> None:
        """Note for every code object in ``code`` the one as written."""
        for path, inner in walk(code):
            plain = follow(self.plain, path)
            if plain is not None:
                self.source.functions[inner] = (self, plain)


def instrument_alone(
    registry: Registry,
    source: ModuleSource,
    module: ModuleType,
    path: tuple[str, ...],
    requests: list[Request],
    cache: CodeCache,
    tools: Callable[[], bool],
) -> list[Request]:
    """Put ``requests``, all for ``path``, into a loaded function. Returns those that could not be put in.

    If the function at ``path`` is defined by another function, objects of it that exist already are not
    looked for. Those that are created from now on have the hooks.
    """
    function, inside = _function_at(module, path)
    if function is None or function.__globals__ is not vars(module):
        return requests
    function_source = _function_source(source, function)
    if function_source is None:
        return requests
    target = (*function_source.names, *inside)
    targeted = {request._replace(path=target): request for request in requests}
    code, matches = function_source.instrument(list(targeted), cache, tools)
    if code is None:
        return requests
    function.__code__ = code
    matched = {match.request for match in matches}
    for match in matches:
        if match.request in targeted:
            registry.report(match._replace(request=targeted[match.request]))
    return [request for key, request in targeted.items() if key not in matched]


def instrument_module(
    source: ModuleSource, plain: CodeType, requests: list[Request], tools: Callable[[], bool]
) -> Instrumented:
    """The code ``plain`` of a module that is about to be executed, with ``requests``.

    It is kept in the cache as functions are, if its text alone answers all requests but those for methods
    that are read and never called. Raises ImportError if ``tools`` cannot load what rewriting needs.
    """
    cache = CodeCache(source.module, source.filename) if source.stands_for(plain) else None
    cached = None if cache is None else cache.find(plain, requests)
    if cached is not None:
        code, matches = cached
        source.adopt(code, requests)
        return code, matches, {}
    if not tools():
        raise ImportError("the rewriter could not be loaded")
    instrumented, matches, unmet = source.rewrite(requests)
    is_complete = all(is_method(request.variable) for request in unmet) and not source.star_imports
    if cache is not None and instrumented is not None and is_complete:
        cache.keep(plain, requests, instrumented, matches)
        cache.write()
    return instrumented, matches, unmet


def attach_alone(
    registry: Registry, source: ModuleSource, function: FunctionType, request: Request
) -> list[Match]:
    """Put ``request`` into this loaded function, whatever path it names. Returns its matches.

    There are none, and the whole text has to decide, where that was rewritten before, in the program's main
    module, whose text is not that of a library, and where a compiler has to see what the hook returns.
    """
    name = source.module
    needs_whole_text = source.versions or source.patches or request.override or name == MAIN
    if needs_whole_text or function.__globals__ is not vars(sys.modules[name]):
        return []
    function_source = _function_source(source, function)
    if function_source is None:
        return []
    cache = CodeCache(name, source.filename)
    targeted = request._replace(module=name, path=function_source.names)
    code, matches = function_source.instrument([targeted], cache, registry.can_rewrite)
    own_matches = [match for match in matches if match.request == targeted]
    if code is None or not own_matches:
        return []
    function.__code__ = code
    attached = (function_source.plain, request)
    if attached not in source.attached:
        source.attached.append(attached)
    cache.write()
    return own_matches


def _function_at(
    module: ModuleType, path: tuple[str, ...]
) -> tuple[FunctionType | None, tuple[str, ...]]:
    """The first function along ``path``, and the rest of the path, which lies inside of it."""
    holder: Any = module
    for depth, name in enumerate(path):
        place = find(holder, name) if isinstance(holder, (ModuleType, type)) else None
        if place is None:
            return None, ()
        holder = place.raw
        inner = function_at(place)
        if isinstance(inner, FunctionType):
            # An inherited function counts for one class only, which takes a test at run time (attaching).
            own = place.owner is None or place.owner is place.holder
            return (inner if own else None), path[depth + 1 :]
    return None, ()


def _function_source(source: ModuleSource, function: FunctionType) -> FunctionSource | None:
    """What is known of ``function``; None if it is not one of the module's own text."""
    code = function.__code__
    if code in source.functions:
        known, plain = source.functions[code]
        return known if isinstance(known, FunctionSource) and plain is known.plain else None
    names = tuple(function.__qualname__.split("."))
    if (
        "<" in function.__qualname__
        or code.co_filename != source.filename
        or names[-1] != code.co_name
    ):
        return None
    return FunctionSource(source, names, code, function.__globals__)


def _imports(text: str, code: CodeType, namespace: dict[str, Any]) -> Iterator[str]:
    """Lines that import what the module does, as guesses to be tried in order.

    The compiler calls ``name.method()`` in another way if the module imports ``name``, so
    the code equals the loaded one only with the right imports. First come the names whose objects seem to
    come from elsewhere, then those that the text imports at its margin, then those that it imports anywhere.
    """
    from .names import import_statements

    used = {name for _, inner in walk(code) for name in inner.co_names}
    foreign = frozenset(name for name in used if _foreign(namespace.get(name), namespace))
    tried = {foreign}
    yield _importing(foreign)
    margin: set[str] = set()
    anywhere: set[str] = set()
    for at_margin, bound in import_statements(text):
        anywhere |= bound & used
        if at_margin:
            margin |= bound & used
    for guess in (frozenset(margin), frozenset(anywhere)):
        if guess not in tried:
            tried.add(guess)
            yield _importing(guess)


def _importing(names: frozenset[str]) -> str:
    return "import " + ", ".join(sorted(names)) if names else ""


def _foreign(value: object, namespace: dict[str, Any]) -> bool:
    """Whether the object that a name of a module has was defined in another module."""
    if isinstance(value, ModuleType):
        return True
    is_definition = isinstance(value, (type, FunctionType, BuiltinFunctionType))
    return is_definition and getattr(value, "__module__", None) != namespace.get("__name__")


def _texts(lines: list[str], code: CodeType, names: tuple[str, ...], imports: str) -> Iterator[str]:
    """The lines of a function where they stand in the file, inside of empty classes; longer and longer.

    The last line of its code need not be the last one of its text: a comment, a parenthesis or a string may
    follow.
    """
    first, depth = code.co_firstlineno, len(names) - 1
    if first <= depth + 1 or first > len(lines):
        return
    head = [" " * level + f"class {name}:" for level, name in enumerate(names[:-1])]
    start = [imports, *[""] * (first - 2 - depth), *head]
    indent = _indent(lines[first - 1])
    end = max(line for _, inner in walk(code) for _, _, line in inner.co_lines() if line)
    for _ in range(_CHUNKS):
        while end < len(lines) and not _ends(lines[end], indent):
            end += 1
        yield "\n".join([*start, *lines[first - 1 : end], ""])
        if end >= len(lines):
            return
        end += 1


def _ends(line: str, indent: int) -> bool:
    """Whether a line may be the first one behind a function's text."""
    text = line.lstrip()
    return bool(text) and _indent(line) <= indent and text[0] not in ")]}#"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _named(code: CodeType, names: Sequence[str]) -> CodeType | None:
    """The function with these ``names`` inside of ``code``, if there is one."""
    found: CodeType | None = code
    for name in names:
        generic = None if found is None else _constant(found, f"{GENERIC}{name}>")
        found = None if found is None else _constant(generic or found, name)
    return found if found is not None and is_function(found) else None


def _constant(code: CodeType, name: str) -> CodeType | None:
    """The first code object called ``name`` among the constants of ``code``."""
    inside = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return next((constant for constant in inside if constant.co_name == name), None)


def reach(
    registry: Registry,
    name: str,
    module: ModuleType,
    requests: Sequence[Request],
    tools: Callable[[], bool],
) -> tuple[list[Request], ModuleSource | None]:
    """Meet requests for functions of a loaded module, each in its own lines where that is possible.

    ``tools`` loads what rewriting needs, if a function is not in the cache. Returns the requests that could
    not be met so, and the module's source if it has one.
    """
    source = registry.source_of(name, None, vars(module))
    by_path: dict[tuple[str, ...], list[Request]] = {}
    for request in requests:
        by_path.setdefault(request.path, []).append(request)
    rest: list[Request] = []
    cache = CodeCache(name, source.filename if source is not None else "")
    for path, group in by_path.items():
        unmet = group
        if source is not None and not source.versions and path:
            try:
                unmet = instrument_alone(registry, source, module, path, group, cache, tools)
            except Exception as error:
                registry.unmatched(group, f"could not be rewritten: {error!r}")
                continue
        rest += unmet
    cache.write()
    registry.met(name, [request for request in requests if request not in rest])
    return rest, source
