"""Code that is already loaded: functions keep their identity and get another code object.

A module's text is rewritten and compiled as if for an import, and each living function of the module gets the
code object that stands at the same place in the new code. Closures, defaults, attributes and references to a
function stay what they are; frames and generators that run go on with the code with which they started. A
function of which no object exists yet (a closure that will be created later) is reached through the function
that creates it.

It leans on three habits of CPython. ``__code__`` can be assigned, and takes only code with as many free
variables; where the names differ nothing is assigned, and the request is unmatched. ``gc.get_objects`` lists
every function; without it (or after ``gc.freeze``) only what a module's names lead to is found. A code object
is found again by its name, its first line and its number among those alike, since the compiler makes the same
ones of a text with hooks and of one without. Without all this a module that was imported before its voirfile
would have to be imported again, and the program would hold on to functions without hooks
(``test_references_taken_before_are_reached`` and its neighbours in ``tests/rewrite/test_live.py``).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .function_source import attach_alone
from .module_source import ModuleSource, Path, descend, is_function, names_of, walk
from .objects import OneObject, filtered
from .registry import Registry
from .request import Match, Request, Unmatched

Namespace = dict[str, Any]


class Exchange:
    """New code for the functions of some modules, applied in one pass over the living objects.

    The pass looks at every object of the process, tens of milliseconds once PyTorch is loaded: so it is one
    pass for all modules.
    """

    def __init__(self) -> None:
        self._jobs: list[tuple[ModuleSource, Namespace, CodeType, list[Match]]] = []

    def add(
        self, source: ModuleSource, namespace: Namespace, code: CodeType, matches: list[Match]
    ) -> None:
        """Let functions with the globals ``namespace`` run ``code``; ``matches`` are the new ones in it."""
        self._jobs.append((source, namespace, code, matches))

    def apply(self, only: FunctionType | None = None) -> Iterator[tuple[Match, str | None]]:
        """Exchange, and yield each match with None, or with the reason why it cannot act.

        ``only`` is the one function that is concerned, where that is known.
        """
        if not self._jobs:
            return
        functions = [only] if only is not None else self._living()
        for source, namespace, code, matches in self._jobs:
            swap = _Swap(source, namespace, code)
            for function in functions:
                swap.offer(function)
            for match in matches:
                yield match, swap.obstacle(match)

    def _living(self) -> list[FunctionType]:
        namespaces = {id(namespace) for _, namespace, _, _ in self._jobs}
        return list(_living(namespaces, {source.filename for source, _, _, _ in self._jobs}))


def _living(namespaces: set[int], files: set[str]) -> Iterator[FunctionType]:
    """Every function whose globals are one of ``namespaces`` (by id), or whose code comes from ``files``."""
    # No isinstance: it would ask an object for its class, which may run code of the program.
    for candidate in gc.get_objects():
        if type(candidate) is FunctionType and (
            id(candidate.__globals__) in namespaces or candidate.__code__.co_filename in files
        ):
            yield candidate
    if gc.get_freeze_count():
        yield from _frozen(namespaces)


def _frozen(namespaces: set[int]) -> Iterator[FunctionType]:
    """Functions that ``gc.freeze`` hides from ``gc.get_objects``, found from modules' names onwards."""
    visited: set[int] = set()
    modules = list(sys.modules.values())
    queue: list[Any] = [m for m in modules if id(getattr(m, "__dict__", None)) in namespaces]
    while queue:
        candidate = queue.pop()
        kind = type(candidate)  # not isinstance, as above
        is_other_module = issubclass(kind, ModuleType) and id(vars(candidate)) not in namespaces
        if id(candidate) in visited or is_other_module:
            continue
        visited.add(id(candidate))
        if kind is FunctionType and id(candidate.__globals__) in namespaces:
            yield candidate
        if issubclass(kind, _HOLDERS):
            queue.extend(gc.get_referents(candidate))


# What may lead from a module's namespace to its functions. Containers of data are not followed.
_HOLDERS = (ModuleType, type, dict, FunctionType, tuple, staticmethod, property)


class _Swap:
    """The exchange in one module: which functions it reached, and why it could not reach others."""

    def __init__(self, source: ModuleSource, namespace: Namespace, code: CodeType) -> None:
        self._source = source
        self._namespace = namespace
        self._new = dict(walk(code))
        """The new code objects, by their place in the module's code."""
        self._reached: set[Path] = set()
        self._closures: set[Path] = set()
        """Functions with other closure variables than their new code."""
        self._foreign: set[str] = set()
        """Names of functions whose code is not at any place of the source."""

    def offer(self, function: FunctionType) -> None:
        """Give ``function`` its new code, if it is one of this module's."""
        old = function.__code__
        if function.__globals__ is not self._namespace and not self._strayed(function):
            return
        path = self._source.place(old)
        if path is None:
            self._foreign.add(old.co_name)
            return
        new = self._new.get(path)
        if new is None or not path:
            return
        if new.co_freevars != old.co_freevars:
            self._closures.add(path)
            return
        self._reached.add(path)
        if new != old:
            function.__code__ = new if new.co_filename == old.co_filename else _refiled(new, old)

    def _strayed(self, function: FunctionType) -> bool:
        """Whether ``function`` has this module's text, and globals that belong to no module.

        ``runpy`` copies the globals of the program that it has run.
        """
        if function.__code__.co_filename != self._source.filename:
            return False
        owner = sys.modules.get(function.__globals__.get("__name__", ""))
        return getattr(owner, "__dict__", None) is not function.__globals__

    def obstacle(self, match: Match) -> str | None:
        """Why ``match`` cannot act in what is loaded, or None."""
        paths = self._paths(match)
        if not paths:
            return "this level of the module has already been executed"
        # A function around it is enough: it creates the closures to come from its new code.
        if any(path[:end] in self._reached for path in paths for end in range(1, len(path) + 1)):
            return None
        if any(path in self._closures for path in paths):
            return "the hook needs a variable that the function's closure does not hold"
        if any(path[-1][0] in self._foreign for path in paths):
            return "the source is not that of the loaded code: it has changed since the import"
        return "no such function exists any more"

    def _paths(self, match: Match) -> list[Path]:
        """The functions in which ``match`` may lie, found by name; a lambda is found by its line."""
        wanted = match.function.replace(".<locals>", "")
        named = [
            (path, code)
            for path, code in self._new.items()
            if path and ".".join(names_of(path)) == wanted
        ]
        if named or not wanted:
            return [path for path, code in named if is_function(code)]
        return [
            path
            for path, code in self._new.items()
            if code.co_name == "<lambda>" and _spans(code, match.line)
        ]


def _spans(code: CodeType, line: int) -> bool:
    """Whether some instruction of ``code`` stands at ``line``."""
    return any(number == line for _, _, number in code.co_lines())


def _refiled(code: CodeType, model: CodeType) -> CodeType:
    """``code`` under the file name of the loaded code (``<frozen os>``, or a folder that was moved).

    Tracebacks, profilers and ``inspect`` go on showing the name that they showed before.
    """
    constants = tuple(
        _refiled(constant, model) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_filename=model.co_filename, co_consts=constants)


def exchange(registry: Registry, names: Sequence[str]) -> dict[str, list[Request]]:
    """Give the functions of loaded modules the code that all of their requests together ask for.

    Returns, by module, the new requests whose names have to be looked for on the live module.
    """
    exchanges = Exchange()
    remaining: dict[str, list[Request]] = {}
    for name in names:
        requests, fresh = registry.fresh(name)
        try:
            remaining[name] = _prepare(registry, exchanges, name, requests, fresh)
        except Exception as error:
            registry.unmatched(fresh, f"the module could not be rewritten: {error!r}")
    for match, obstacle in exchanges.apply():
        registry.report(match if obstacle is None else Unmatched(match.request, obstacle))
    return remaining


def _prepare(
    registry: Registry, job: Exchange, name: str, requests: list[Request], fresh: list[Request]
) -> list[Request]:
    """Put the new code of a module into ``job``, for ``requests``, of which some are ``fresh``.

    Returns the fresh requests that have to be looked for on the live module.
    """
    namespace = getattr(sys.modules[name], "__dict__", {})
    source = registry.source_of(name, None, namespace)
    if source is None:
        return fresh
    code, matches, unmet = source.rewrite(requests)
    fresh_matches = [match for match in matches if match.request in fresh]
    if code is not None:
        job.add(source, namespace, code, [n for n in fresh_matches if n.kind != "binding"])
    bound = {match.request: None for match in fresh_matches if match.kind == "binding"}
    return [request for request in (*bound, *unmet) if request in fresh]


Test = Callable[[Any], bool]


def instrument_function(
    registry: Registry,
    function: FunctionType,
    request: Request,
    test: Test | None = None,
    inside: Sequence[str] = (),
) -> bool:
    """Put ``request`` into this function alone, or into one that it defines, whose path in it is ``inside``.

    ``test`` decides by the function's first argument whether a call counts. Returns False if the text of the
    function is not known; what came of it otherwise has been reported.
    """
    name = function.__globals__.get("__name__", "")
    namespace = getattr(sys.modules.get(name), "__dict__", None)
    source = registry.source_of(name, None, namespace) if namespace is not None else None
    if source is None or namespace is None:
        return False
    derived = _derive(registry, function, request, test)
    # The lines of the function are enough in most cases, and its code may be in the cache.
    alone = [] if inside else attach_alone(registry, source, function, derived)
    for match in alone:
        registry.report(match._replace(request=request))
    if alone:
        return True
    if not registry.can_rewrite():
        return False
    path = source.place(function.__code__)
    path = descend(source.plain, path, inside) if path else None
    if not path:
        return False
    if not inside and not source.stands_alone(path):
        derived = _one_closure(registry, function, derived)
    matches, reason = source.patch(path, derived)
    code = source.rewrite(registry.wanted(name))[0] if matches else None
    if code is None:
        what = f"{request.variable or 'a variable'} in {'.'.join((function.__qualname__, *inside))}"
        registry.not_found(request, reason or f"{what} not found", source)
        return True
    job = Exchange()
    job.add(source, namespace, code, matches)
    for match, obstacle in job.apply(function if source.stands_alone(path) else None):
        reported = match._replace(request=request)
        registry.report(reported if obstacle is None else Unmatched(request, obstacle))
    return True


def _derive(
    registry: Registry, function: FunctionType, request: Request, test: Test | None
) -> Request:
    """``request`` as it is put into one function, for the calls whose first argument passes ``test``."""
    code = function.__code__
    if test is None or not code.co_argcount:
        return request
    return _filtered(registry, request, test, code.co_varnames[0])


def _one_closure(registry: Registry, function: FunctionType, request: Request) -> Request:
    """``request`` for this one of several closures that share their code.

    All functions that a decorator was put on share the code of the decorator's inner function. The hook acts
    where a variable of the closure holds the same function as here.
    """
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            content = cell.cell_contents
        except ValueError:  # the cell is empty
            continue
        if isinstance(content, FunctionType) and content is not function:
            return _filtered(registry, request, OneObject(content), name)
    return request


def _filtered(registry: Registry, request: Request, test: Test, variable: str) -> Request:
    """``request`` with a hook that acts where ``variable`` passes ``test``, made once for each of these."""
    key = (request, test, variable)
    if key not in registry.derived:
        hook = filtered(request.hook, test, variable, registry.on_hook_defined)
        captures = (*request.captures, variable)
        registry.derived[key] = request._replace(hook=hook, captures=captures)
    return registry.derived[key]
