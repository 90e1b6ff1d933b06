"""Which lines of a program make the batch that a model is called with, and which functions they call.

A loop without a loader makes its batches itself::

    for step in range(100):
        ids = sample(8)                makes the batch, by the function sample
        x = data[ids]                  makes the batch
        loss = model(x).mean()         calls the model
        log(loss)                      uses a result of the model

From the names that the model is called with, assignments in the loop are followed backwards, up to those
whose values come from before the loop. Only the text is read: what a name refers to is not known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from ..named_tuple import NamedTuple
from .parsed_file import (
    ASSIGNMENTS,
    FUNCTIONS,
    Function,
    ParsedFile,
    contains,
    inside,
    is_unchanged,
    names_in,
    parsed_file,
    scope_and_loops,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .parsed_file import SourcePlace


class BatchCode(NamedTuple):
    """The code that makes the batch of a step."""

    lines: tuple[int, ...]
    functions: tuple[str, ...] = ()
    """The functions of the same file that are called for it, as a selector names them: ``get_batch``,
    ``Trainer/get_batch``."""
    others: tuple[str, ...] = ()
    """The functions from elsewhere, as they are called: ``data.get_batch``."""


def batch_code(
    begin: SourcePlace, end: SourcePlace, calls: Iterable[SourcePlace]
) -> BatchCode | None:
    """The code between ``begin`` and ``end`` in the turn of a loop that makes arguments of a model.

    ``calls`` are the lines where models are called. Results of a model are no batch, nor is what was made
    before the loop. Of a function that a loop calls, what makes its arguments counts as well. None if nothing
    makes any, the lines lie in different functions, or the file has changed since the program ran.
    """
    found = _scope_of(begin, end, calls)
    if found is None:
        return None
    parsed, models = found
    lines = {a.line for a in _making(parsed, begin.line, end.line, models)}
    values = [*_assigned_values(parsed, lines), *_model_arguments(parsed, begin.line, models)]
    functions, others = _called_functions(parsed, values)
    return (
        BatchCode(tuple(sorted(lines)), functions, others) if lines or functions or others else None
    )


class DrawingLines(NamedTuple):
    """The lines that draw the batch of a step out of something that gives one after the other."""

    iterated: frozenset[int] = frozenset()
    """Loops over anything, and calls of ``next``."""
    indexed: frozenset[int] = frozenset()
    """Indices into what there was before the loop: ``x, y = dataset[i]``."""


def drawing_lines(
    begin: SourcePlace, end: SourcePlace, calls: Iterable[SourcePlace]
) -> DrawingLines:
    """The lines between ``begin`` and ``end`` that draw arguments of a model.

    ``calls`` are as in :func:`batch_code`.
    """
    found = _scope_of(begin, end, calls)
    if found is None:
        return DrawingLines()
    making = _making(found[0], begin.line, end.line, found[1], generators_only=False)
    return DrawingLines(
        frozenset(line for a in making if a.draws for line in a.lines),
        frozenset(line for a in making if a.indexes for line in a.lines),
    )


def _scope_of(
    begin: SourcePlace, end: SourcePlace, calls: Iterable[SourcePlace]
) -> tuple[ParsedFile, list[int]] | None:
    """The file of the lines ``begin`` and ``end``, and the lines in their scope where models are called.

    None if the lines lie in different functions, or the file has changed since the program ran.
    """
    places = [begin, end, *(call for call in calls if call.file == begin.file)]
    parsed = parsed_file(begin.file) if begin.file == end.file and len(places) > 2 else None
    if parsed is None or not all(is_unchanged(parsed.lines, place) for place in places):
        return None
    scope = scope_and_loops(parsed.tree, begin.line)[0]
    if scope_and_loops(parsed.tree, end.line)[0] is not scope:
        return None
    lines = [place.line for place in places[2:]]
    return parsed, [n for n in lines if scope_and_loops(parsed.tree, n)[0] is scope]


def _assigned_values(parsed: ParsedFile, lines: set[int]) -> Iterator[ast.expr]:
    """The values of the assignments at ``lines``."""
    for assignment in parsed.assignments:
        if assignment.value and assignment.lineno in lines:
            yield assignment.value


def _model_arguments(parsed: ParsedFile, line: int, models: list[int]) -> Iterator[ast.expr]:
    """The arguments of the models in the innermost loop around ``line``: of ``model(get_batch())`` the call.

    If the loop is around the only call of the function that has the line, the arguments of that call.
    """
    scope, loops = scope_and_loops(parsed.tree, line)
    calls = [
        node
        for node in (inside(loops[-1]) if loops else ())
        if isinstance(node, ast.Call) and node.lineno in models
    ]
    if isinstance(scope, FUNCTIONS) and not loops:
        calls = [call for call, _ in _calls_of(parsed, scope)]
    for call in calls if len(calls) == 1 or loops else ():
        yield from call.args
        yield from (keyword.value for keyword in call.keywords)


def _called_functions(
    parsed: ParsedFile, values: Iterable[ast.expr]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The functions that are called in ``values``, each once: :attr:`BatchCode.functions` and ``others``.

    A name that several functions of the file have is in neither: which of them is meant is not known.
    """
    functions, others = dict[str, None](), dict[str, None]()
    for call in (n for value in values for n in ast.walk(value) if isinstance(n, ast.Call)):
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        paths = parsed.functions.get(name, ())
        if len(paths) == 1:
            functions[paths[0]] = None
        elif not paths and _is_dotted(call.func):
            others[ast.unparse(call.func)] = None
    return tuple(functions), tuple(others)


def _is_dotted(node: ast.AST) -> bool:
    """Whether ``node`` is a name, or an attribute of one."""
    return isinstance(node, ast.Name) or (
        isinstance(node, ast.Attribute) and _is_dotted(node.value)
    )


def is_fed(place: SourcePlace, lines: Iterable[int], fetches: Iterable[SourcePlace]) -> bool:
    """Whether a loader drives the loop around ``place``, or around one of the ``lines`` of its file.

    ``fetches`` are the lines where loaders are read. True if the file cannot be read.
    """
    parsed = parsed_file(place.file)
    if parsed is None:
        return True
    for fetch in (fetch.line for fetch in fetches if fetch.file == place.file):
        loops = scope_and_loops(parsed.tree, fetch)[1]
        if loops and any(contains(loops[-1], line) for line in (place.line, *lines)):
            return True
    return False


def _making(
    parsed: ParsedFile,
    begin: int,
    end: int,
    models: list[int],
    names: set[str] | None = None,
    generators_only: bool = True,
) -> list[_Assignment]:
    """The assignments between ``begin`` and ``end`` that make ``names``, by default all arguments of models.

    ``models`` are the lines where models are called. Of loops only those over generators of the file count,
    unless ``generators_only`` is false.
    """
    scope, loops = scope_and_loops(parsed.tree, begin)
    shared = [loop for loop in loops if all(contains(loop, line) for line in (begin, end))]
    if not shared and not isinstance(scope, FUNCTIONS):
        return []
    # Names are followed through the outermost loop, but only lines of the innermost one count.
    outer, inner = (shared[0], shared[-1]) if shared else (scope, scope)
    if not any(contains(outer, line) for line in models):
        return []
    assignments = list(_assignments(outer, parsed.generators if generators_only else None))
    results = _names_of_results(assignments, models)
    wanted = (_names_in_arguments(outer, models) if names is None else names) - results
    # What is given the model calls it: `loss, labels = validate(model, loader)` makes no batch.
    called = {ast.unparse(call.func) for call in _calls_at(outer, models)}
    assignments = [a for a in assignments if not a.given & called]
    making: list[_Assignment] = []
    while more := [a for a in assignments if a.names & wanted and a not in making]:
        making += more
        wanted |= {name for a in more for name in a.uses} - results
    making = [a for a in making if _runs_between(inner, begin, a.line, end)]
    bound = _bound_in(inner)
    for assignment in making:
        assignment.indexes = not assignment.indexed <= bound
    # Without a loop around both lines, a turn of a loop elsewhere leads from one to the other: it calls the
    # function again.
    if isinstance(scope, FUNCTIONS) and not shared and begin >= end:
        making += _making_before_call(parsed, scope, wanted, generators_only)
    return making


def _making_before_call(
    parsed: ParsedFile, function: Function, wanted: set[str], generators_only: bool
) -> list[_Assignment]:
    """The assignments that make ``wanted`` parameters of ``function``, if one loop calls it once."""
    calls = _calls_of(parsed, function)
    if len(calls) != 1 or scope_and_loops(parsed.tree, calls[0][0].lineno)[0] is function:
        return []
    [(call, arguments)] = calls
    names = {
        name
        for parameter, value in arguments.items()
        if parameter in wanted
        for name in names_in(value)
    }
    line = call.lineno
    return _making(parsed, line, line, [line], names, generators_only)


def _calls_of(parsed: ParsedFile, function: Function) -> list[tuple[ast.Call, dict[str, ast.expr]]]:
    """The calls of ``function`` in loops, each with the values of its parameters."""
    return [
        (node, arguments)
        for node in parsed.calls
        if getattr(node.func, "id", getattr(node.func, "attr", None)) == function.name
        and scope_and_loops(parsed.tree, node.lineno)[1]
        and (arguments := _arguments_of(node, function)) is not None
    ]


def _arguments_of(call: ast.Call, function: Function) -> dict[str, ast.expr] | None:
    """The values of the parameters of ``function`` in ``call``, by parameter.

    None if the arguments do not fit: a call of an optimizer's ``step()`` is none of the program's own method
    ``step(self, batch)``, which has the same name.
    """
    parameters = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    if isinstance(call.func, ast.Attribute):
        parameters = parameters[1:]
    arguments = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if function.args.vararg or function.args.kwarg or len(arguments) < len(call.keywords):
        return arguments | dict(zip(parameters, call.args, strict=False))
    known = {*parameters, *(arg.arg for arg in function.args.kwonlyargs)}
    arguments |= dict(zip(parameters, call.args, strict=False))
    required = parameters[: len(parameters) - len(function.args.defaults)]
    starred = any(isinstance(value, ast.Starred) for value in call.args)
    if not starred and (len(call.args) > len(parameters) or not arguments.keys() >= set(required)):
        return None
    return arguments if arguments.keys() <= known else None


class _Assignment:
    """One statement that binds names: which, at which lines, the names in its value, what its calls get,
    whether one is of a ``forward``, and whether it draws from an iterator.
    """

    def __init__(self, node: ast.stmt, targets: Sequence[ast.expr], value: ast.expr) -> None:
        self.line, self.last = node.lineno, value.end_lineno or node.lineno
        self.names = {name for target in targets for name in names_in(target)}
        self.uses = set(names_in(value))
        calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
        self.calls_forward = any(getattr(call.func, "attr", "") == "forward" for call in calls)
        values = [v for c in calls for v in (*c.args, *(keyword.value for keyword in c.keywords))]
        self.given = {ast.unparse(value) for value in values if _is_dotted(value)}
        self.draws = isinstance(node, (ast.For, ast.AsyncFor)) or any(map(_is_next, calls))
        self.indexed = set(_indexed_names(value))
        self.indexes = False
        """Whether it indexes into something that the loop does not bind itself."""

    @property
    def lines(self) -> range:
        return range(self.line, self.last + 1)


def _indexed_names(value: ast.AST) -> Iterator[str]:
    """The names that begin what ``value`` indexes once: ``ds`` of ``ds.rows[i]``."""
    base = value
    while isinstance(base, (ast.Subscript, ast.Attribute)):
        base = base.value
    if isinstance(value, ast.Subscript) and isinstance(base, ast.Name):
        yield base.id
    for child in ast.iter_child_nodes(value):
        if not isinstance(child, (ast.Lambda, *_COMPREHENSIONS)):
            yield from _indexed_names(child)


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _bound_in(loop: ast.AST) -> set[str]:
    """The names that are bound in ``loop``, its own targets included."""
    names = (node for node in inside(loop) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _is_next(call: ast.Call) -> bool:
    """Whether ``call`` is one of ``next`` or ``__next__``."""
    return getattr(call.func, "id", getattr(call.func, "attr", "")) in ("next", "__next__")


def _assignments(loop: ast.AST, generators: set[str] | None) -> Iterator[_Assignment]:
    """The assignments in ``loop`` that may take time, because they call something or index into it.

    So may the targets of a loop over one of the ``generators`` of the file, or of any loop if that is None.
    """
    for node in (loop, *inside(loop)):
        if isinstance(node, ASSIGNMENTS) and node.value is not None:
            if any(isinstance(part, (ast.Call, ast.Subscript)) for part in ast.walk(node.value)):
                targets = list(node.targets) if isinstance(node, ast.Assign) else [node.target]
                yield _Assignment(node, targets, node.value)
        elif isinstance(node, (ast.For, ast.AsyncFor)) and (
            generators is None or generators & set(names_in(node.iter))
        ):
            yield _Assignment(node, [node.target], node.iter)


def _calls_at(loop: ast.AST, lines: list[int]) -> list[ast.Call]:
    """The calls in ``loop`` that begin at one of ``lines``."""
    return [n for n in inside(loop) if isinstance(n, ast.Call) and n.lineno in lines]


def _names_in_arguments(loop: ast.AST, models: list[int]) -> set[str]:
    """The names in the arguments of the calls at the lines ``models``."""
    return {
        name
        for call in _calls_at(loop, models)
        for value in (*call.args, *(keyword.value for keyword in call.keywords))
        for name in names_in(value)
    }


def _names_of_results(assignments: list[_Assignment], models: list[int]) -> set[str]:
    """The names that hold results of a model, or what was computed from these.

    A model whose ``forward`` the program calls by its name is at no line of ``models``: its parts are called.
    """
    names: set[str] = set()
    for assignment in assignments:
        at_model = any(assignment.line <= line <= assignment.last for line in models)
        if at_model or assignment.calls_forward:
            names |= assignment.names
    while more := {n for a in assignments if a.uses & names for n in a.names} - names:
        names |= more
    return names


def _runs_between(loop: ast.AST, begin: int, line: int, end: int) -> bool:
    """Whether ``line`` runs after the line ``begin`` and up to ``end``, perhaps in the loop's next turn."""
    if begin < end:
        return begin < line <= end
    return contains(loop, line) and (line > begin or line <= end)
