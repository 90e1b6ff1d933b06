"""From one entry to its benchmarks: matrix, sweeps, search, conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .blending import EARLY, Blend, Blender, World, below
from .expressions import Reference
from .layers import apply_conditions, laid, listed, pruned
from .model import Benchmark
from .multiplying import Values, combinations, excluded, limited_count, matrix, trials
from .naming import Naming, references_of
from .placeholders import Context
from .problems import Mistake, Path, Where, nearest_place
from .scope import Scope
from .settings import find_templates, references, resolve
from .templates import NotKnownYet


class Family:
    """All benchmarks that one entry makes."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.entry = world.library.entries[name]
        self.shape = self.entry.over(laid(world.ancestry.parents(self.fixed_parents())))
        self.job = below(self.shape, "job")
        self.blender = Blender(name, self.entry, self.shape, world)
        self.where = nearest_place(self.entry.places, ()) or Where(str(world.library.file), 1, name)
        self.used = world.mentioned(self.forming())
        """The variables that it uses."""
        self.dynamic = False
        """Whether it may use others."""

    def fixed_parents(self) -> list[str]:
        return [
            name for name in map(str, listed(self.entry.data.get("inherits"))) if "{" not in name
        ]

    @property
    def broken(self) -> bool:
        return self.blender.broken

    def benchmarks(self) -> list[Benchmark]:
        """Its benchmarks; none where something is wrong, which is noted."""
        made: list[Benchmark] = []
        try:
            for bound in combinations(self.axes(self.used, {})):
                for each in self.multiplied(bound):
                    made.append(each)
                    if self.broken:
                        return []
        except Mistake as error:
            self.note(
                self.shape.places, ("matrix",) if "matrix" in self.shape.data else (), str(error)
            )
        return [] if self.broken else made

    def note(self, places: Mapping[Path, Where], path: Path, text: str) -> None:
        self.blender.note(places, path, text)

    def axes(self, used: set[str], bound: Values) -> dict[str, Any]:
        """The swept variables among those used that have no value yet, in the order of ``-V``."""
        return {n: v for n, v in self.world.swept.items() if n in used and n not in bound}

    def forming(self) -> list[Reference]:
        """The names used by what decides which layers there are."""
        keys = ("matrix", "inherits", "definition", "exclude", "name")
        parts = [
            {k: v for k, v in each.data.items() if k in keys} for each in (self.shape, self.job)
        ]
        return [reference for part in parts for reference in references(part)]

    # a matrix, and what is swept

    def multiplied(self, bound: Values) -> Iterator[Benchmark]:
        variables = {**self.world.variables, **bound}
        rows = self.rows(variables)
        varied = _varied(rows)
        known: Blend | None = None
        for values in rows:
            blend = self.blender.blend(values, variables)
            if self.broken:
                return
            if blend is not known:
                known = blend
                self.used |= blend.used
                self.dynamic |= blend.dynamic
                inner = self.axes(blend.used, bound)
                limited_count([len(rows), *map(len, inner.values())], "a sweep")
                many = [name for name in (*bound, *inner) if len(self.world.swept[name]) > 1]
                naming = self.naming([*many, *varied])
            for more in combinations(inner):
                one = _One(self, blend, values, {**bound, **more})
                yield from one.benchmarks(naming)

    def naming(self, varied: list[str]) -> Naming:
        found = self.job.data.get("name") or self.shape.data.get("name")
        pattern = None if found is None else str(found)
        used = references_of(pattern)
        mentioned = self.world.mentioned(used) | {str(each) for each in used}
        return Naming(self.name, pattern, varied, mentioned)

    def rows(self, variables: Values) -> list[Values]:
        """The values of each combination of the matrix; one without values where there is none.

        Raises:
            Mistake: the matrix is empty, or all of it is excluded.
        """
        axes = self.shape.data.get("matrix")
        if axes is None:
            return [{}]
        known = resolve(
            axes,
            find_templates({"matrix": axes}).templates.at(("matrix",)),
            Scope({}, variables),
            lambda at, text: self.note(self.shape.places, at, text),
        )
        rows = [values for values in matrix(known) if not self.excluded(values, variables)]
        if not rows:
            raise Mistake("every combination is excluded")
        return rows

    def excluded(self, values: Values, variables: Values) -> bool:
        conditions = self.shape.data.get("exclude")
        if not conditions:
            return False
        scope = Scope({"matrix": values}, variables, Context(self.world.facts), False)
        try:
            return excluded(values, conditions, scope)
        except NotKnownYet as missing:
            raise Mistake(
                f"exclude: {{{missing.name}}} is not known when a suite is read"
            ) from None


class _One:
    """One combination of matrix and sweep: a benchmark, or one for each trial of its search."""

    def __init__(self, family: Family, blend: Blend, values: Values, swept: Values) -> None:
        self.family = family
        self.world = family.world
        self.blend = blend
        self.values = values
        self.swept = swept
        self.variables = {**family.world.variables, **swept}

    def note(self, path: Path, text: str) -> None:
        self.family.note(self.blend.places, path, text)

    def benchmarks(self, naming: Naming) -> Iterator[Benchmark]:
        study = self.blend.data.get("search")
        if study is None:
            yield self.benchmark(naming, self.values)
            return
        scope = Scope({"matrix": self.values}, self.variables)
        found = find_templates({"search": study}).templates.at(("search",))
        known = resolve(study, found, scope, self.note)
        try:
            drawn = trials(known, naming.plain({**self.swept, **self.values}))
        except Mistake as error:
            self.note(("search",), str(error))
            return
        width = len(str(len(drawn) - 1))
        for number, trial in enumerate(drawn):
            values = {**self.values, **trial, "trial": number}
            yield self.benchmark(naming, values, f"{number:0{width}d}")

    def benchmark(self, naming: Naming, values: Values, trial: str = "") -> Benchmark:
        try:
            name = naming.name(values, self.swept, self.variables, trial)
        except Mistake as error:
            self.family.note(
                self.family.job.places or self.family.shape.places, ("name",), str(error)
            )
            name = self.family.name
        settings = self.settings(name, values)
        family, blend = self.family, self.blend
        same = "when" not in blend.data and not self.world.late(name)
        templates = (settings, blend.all) if same else ()
        variables = self.variables
        own = {**self.swept, **values}
        return Benchmark(
            name, family.where, settings, family.name, variables, own, blend.places, templates
        )

    def settings(self, name: str, values: Values) -> dict[str, Any]:
        """Everything that is said of the benchmark, with what is known by now in its place."""
        data = {**self.blend.data, "name": name}
        if values:
            data["matrix"] = values
        if self.blend.local:
            data = resolve(data, self.blend.local, Scope(data, self.variables), self.note)
        data = self.overridden(data, name)
        early = self.blend.early
        if "when" in data:
            data = tidied(apply_conditions(data, self.variables, self.facts(name), self.note))
            early = find_templates({key: data[key] for key in EARLY if key in data}).templates
        if early:
            scope = Scope(data, self.variables, self.facts(name), False)
            some = {key: data[key] for key in EARLY if key in data}
            data.update(resolve(some, early, scope, self.note))
        return data

    def facts(self, name: str) -> Context:
        return Context({**self.world.facts, "name": name})

    def overridden(self, data: dict[str, Any], name: str) -> dict[str, Any]:
        """What the command line says of this one alone, and not of its whole family."""
        late = self.world.late(name)
        found = [each for each in late if not each.matches(self.family.name)]
        for override in found:
            data = override.laid(data)
        return tidied(data) if found else data


def tidied(data: dict[str, Any]) -> dict[str, Any]:
    """Settings without what is null; a condition's null, and a value that is null, mean something."""
    kept = ("when", "matrix", "search")
    return {k: v if k in kept else pruned(v) for k, v in data.items() if v is not None}


def _varied(rows: list[Values]) -> list[str]:
    """The names whose values differ between rows."""
    first = rows[0]
    return [name for name in first if any(row[name] != first[name] for row in rows)]
