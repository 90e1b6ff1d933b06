"""A benchmark's templates, resolved for one machine and one job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..words import kind as described
from .expressions import ExpressionError, compiled
from .merging import pruned
from .model import Benchmark
from .placeholders import Context
from .problems import Problems
from .scope import PLAIN, Path, Scope
from .settings import Note, TemplateTree, find_templates, resolve
from .templates import written
from .whens import apply


def fill(benchmark: Benchmark, context: Mapping[str, object]) -> dict[str, Any]:
    """See :meth:`injector.suite.config.model.Benchmark.filled`."""
    filling = _Filling(benchmark, context)
    made: dict[str, Any] = filling.resolved(filling.settings, ())
    if any(type(value) not in PLAIN for value in (made.get("matrix") or {}).values()):
        made = {**made, "matrix": filling.resolved(made["matrix"], ("matrix",))}
    filling.problems.check()
    return made


def arguments(benchmark: Benchmark, context: Mapping[str, object]) -> list[str]:
    """See :meth:`injector.suite.config.model.Benchmark.argv`."""
    filling = _Filling(benchmark, context)
    made = filling.arguments()
    filling.problems.check()
    return made


def told(benchmark: Benchmark, filled: Mapping[str, Any]) -> list[str]:
    """See :meth:`injector.suite.config.model.Benchmark.told`."""
    problems = Problems()
    made = spoken(filled, lambda path, text: problems.add(benchmark.at(*path), text))
    problems.check()
    return made


def unmet(benchmark: Benchmark, context: Mapping[str, object]) -> tuple[str, ...]:
    """See :meth:`injector.suite.config.model.Benchmark.unmet`."""
    filling = _Filling(benchmark, context)
    found = [
        str(condition)
        for index, condition in enumerate(filling.settings.get("requires_capabilities") or ())
        if not filling.holds(str(condition), ("requires_capabilities", index))
    ]
    filling.problems.check()
    return tuple(found)


class _Filling:
    """One benchmark being filled: its settings under the conditions that hold, its mistakes."""

    def __init__(self, benchmark: Benchmark, context: Mapping[str, object]) -> None:
        self.benchmark = benchmark
        self.problems = Problems()
        variables = benchmark.variables
        own = {"name": benchmark.name, "system": variables.get("system")}
        own |= {"group": benchmark.group, "install_group": benchmark.install_group}
        if benchmark.definition is not None:
            own["definition"] = str(benchmark.definition)
        known = Context({**own, **context})
        settings = dict(benchmark.settings)
        if settings.get("when"):
            settings = pruned(apply(settings, variables, known, self.note, complete=True))
        self.settings = settings
        self.scope = Scope(settings, variables, known)

    def note(self, path: Path, text: str) -> None:
        where = self.benchmark.at(*path)
        if self.benchmark.name != self.benchmark.family != "":
            text = f"{text} (in {self.benchmark.name})"
        self.problems.add(where, text)

    def resolved(self, value: Any, path: Path) -> Any:
        tree = self.templates(path)
        if tree is None:
            data = value
            for key in reversed(path):
                data = {key: data}
            tree = find_templates(data).templates.at(path)
        return resolve(value, tree, self.scope, self.note, last=True) if tree else value

    def templates(self, path: Path) -> TemplateTree | None:
        """Where the templates below ``path`` are, if the settings are those it was found out for."""
        known = self.benchmark.templates
        if path[:1] == ("matrix",) or not known or known[0] is not self.benchmark.settings:
            return None
        tree: TemplateTree = known[1]
        return tree.at(path)

    def holds(self, condition: str, path: Path) -> bool:
        self.scope.path = path
        try:
            return bool(compiled(condition).value(self.scope))
        except ExpressionError as error:
            self.note(path, str(error))
            return True

    def arguments(self) -> list[str]:
        some = {key: self.settings[key] for key in _ARGUED if self.settings.get(key)}
        return spoken({k: self.resolved(each, (k,)) for k, each in some.items()}, self.note)


_ARGUED = ("argv", "server", "client")


def spoken(settings: Mapping[str, Any], note: Note) -> list[str]:
    """The arguments that filled settings say; those of a server and its client with -- between."""
    if settings.get("argv") or not settings.get("client"):
        return words(settings.get("argv"), ("argv",), note)
    server, client = (
        words((settings.get(key) or {}).get("argv"), (key, "argv"), note) for key in _ARGUED[1:]
    )
    return [*server, "--", *client]


def words(argv: Any, path: Path, note: Note) -> list[str]:
    """A command line of ``argv``, in which nothing is a template any more.

    Of a map: keys that are true and begin with no dash come first, as what a program is told by
    position; then the others in their order. Null drops a key, true makes it bare, a list is
    joined by commas, and what stands under ``--`` is put in as it is.
    """
    if not isinstance(argv, dict):
        return [_word(each, (*path, index), note) for index, each in enumerate(argv or ())]
    positional: list[str] = []
    options: list[str] = []
    for key, value in argv.items():
        if value is None:
            continue
        if value is True:
            (options if key.startswith("-") else positional).append(key)
        elif key == "--":
            several = value if isinstance(value, list) else [value]
            options += [_word(each, (*path, key, i), note) for i, each in enumerate(several)]
        else:
            options += [key, _word(value, (*path, key), note)]
    return positional + options


def _word(value: Any, path: Path, note: Note) -> str:
    if value is False or isinstance(value, dict):
        note(
            path,
            f"{described(value)} is no argument; null drops it, and 'false' in quotes is the word",
        )
    else:
        try:
            return written(value)
        except ExpressionError as error:
            note(path, str(error))
    return ""
