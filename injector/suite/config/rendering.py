"""A benchmark's templates, resolved for one machine and one job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .arguments import PARTS, render_args
from .expressions import compiled
from .layers import apply_conditions, pruned
from .placeholders import Context
from .problems import Mistake, Path, ProblemList
from .scope import PLAIN, Scope
from .settings import TemplateTree, find_templates, resolve

if TYPE_CHECKING:
    from .model import Benchmark


class Rendering:
    """One benchmark being filled: its settings under the conditions that hold, its mistakes."""

    def __init__(self, benchmark: Benchmark, context: Mapping[str, object]) -> None:
        self.benchmark = benchmark
        self.problems = ProblemList()
        variables = benchmark.variables
        own = {"name": benchmark.name, "system": variables.get("system")}
        own |= {"group": benchmark.group, "install_group": benchmark.install_group}
        if benchmark.definition is not None:
            own["definition"] = str(benchmark.definition)
        known = Context({**own, **context})
        self.unfilled = dict(benchmark.settings)
        self.known_templates: TemplateTree | None = None
        if self.unfilled.get("when"):
            applied = apply_conditions(self.unfilled, variables, known, self.note, complete=True)
            self.unfilled = pruned(applied)
        elif benchmark.templates and benchmark.templates[0] is benchmark.settings:
            self.known_templates = benchmark.templates[1]
        self.scope = Scope(self.unfilled, variables, known)

    def settings(self) -> dict[str, Any]:
        """See :meth:`.Benchmark.filled`."""
        made = self.resolved(self.unfilled)
        if any(type(value) not in PLAIN for value in (made.get("matrix") or {}).values()):
            some = {"matrix": made["matrix"]}
            made = {**made, **self.resolved(some, find_templates(some).templates)}
        self.problems.check()
        return made

    def arguments(self) -> list[str]:
        """See :meth:`.Benchmark.argv`."""
        some = {key: self.unfilled[key] for key in PARTS if self.unfilled.get(key)}
        made = render_args(self.resolved(some), self.note)
        self.problems.check()
        return made

    def unmet(self) -> tuple[str, ...]:
        """See :meth:`.Benchmark.unmet`."""
        found = [
            str(condition)
            for index, condition in enumerate(self.unfilled.get("requires_capabilities") or ())
            if not self.holds(str(condition), ("requires_capabilities", index))
        ]
        self.problems.check()
        return tuple(found)

    def holds(self, condition: str, path: Path) -> bool:
        self.scope.path = path
        try:
            return bool(compiled(condition).value(self.scope))
        except Mistake as error:
            self.note(path, str(error))
            return True

    def resolved(
        self, settings: dict[str, Any], tree: TemplateTree | None = None
    ) -> dict[str, Any]:
        tree = self.known_templates if tree is None else tree
        if tree is None:
            tree = find_templates(settings).templates
        made: dict[str, Any] = resolve(settings, tree, self.scope, self.note, last=True)
        return made

    def note(self, path: Path, text: str) -> None:
        where = self.benchmark.at(*path)
        if self.benchmark.name != self.benchmark.family != "":
            text = f"{text} (in {self.benchmark.name})"
        self.problems.add(where, text)
