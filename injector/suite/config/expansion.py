"""From an entry to its benchmarks: its layers as one, then matrix, sweeps, search and conditions."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .expressions import Reference
from .filling import Found, Templates, find_templates, resolve
from .layers import Override, SettingsLayer, apply_conditions, pruned
from .library import EVERY, Library, fixed_parents, parents_of
from .model import Benchmark
from .problems import Mistake, Path, Where, nearest_place
from .scope import Context, Scope
from .templates import NotKnownYet, Template
from .variants import Naming, Values, combinations, excluded, limited_count, matrix, trials

EARLY = (
    *("enabled", "group", "install_group", "tags", "weight", "max_duration", "num_machines"),
    *("plan", "definition"),
)
"""Keys that are needed before there is a job: resolved from what is known of the machine."""

SHAPING = ("inherits", "job", "matrix", "exclude", "name")
"""Keys that decide which benchmarks there are, and are done once there are."""


@dataclass
class Inputs:
    """What all entries of a suite share."""

    library: Library
    variables: Mapping[str, Any]
    swept: Mapping[str, Sequence[Any]]
    overrides: Sequence[Override]
    parameters: Sequence[str]
    """The variables that only ``-P`` sets."""
    facts: Mapping[str, Any]

    def late(self, *names: str) -> list[Override]:
        """The overrides of benchmarks' own keys that are for one of ``names``."""
        return [each for each in self.overrides if not each.early and each.matches(*names)]

    def mentioned(self, found: Iterable[Reference]) -> set[str]:
        """The variables that references use, themselves or through other variables."""
        seen: set[str] = set()
        waiting = list(found)
        while waiting:
            name = _named(waiting.pop(), self.variables)
            if name is not None and name not in seen:
                seen.add(name)
                waiting += _references({"env": {"value": self.variables[name]}})
        return seen


@dataclass
class Blend:
    """Settings before a matrix, a search or a sweep gives them values."""

    layer: SettingsLayer
    used: set[str]
    """The variables that they use."""
    local: Templates
    """Their templates that need values of a matrix, a search or variables."""
    early: Templates
    """Those of keys that are needed before there is a job."""
    templates: Templates
    """All of their templates."""

    @property
    def dynamic(self) -> bool:
        """Whether they may use other variables."""
        return any(_is_dynamic(text) for _, text in self.templates.each())


class Expansion:
    """All benchmarks that one entry makes."""

    def __init__(self, name: str, inputs: Inputs) -> None:
        self.name = name
        self.inputs = inputs
        self.entry = inputs.library.entries[name]
        self.shape = self.entry.over(inputs.library.parents(fixed_parents(self.entry.data)))
        """The entry over its parents: what a matrix and a job are taken from."""
        self.job = self.shape.below("job")
        parts = [
            {k: each.data[k] for k in _FORMING if k in each.data} for each in (self.shape, self.job)
        ]
        self.used = inputs.mentioned(each for part in parts for each in _references(part))
        """The variables that it uses."""
        self.dynamic = False
        """Whether it may use others."""
        self.by_values = False
        """Whether names have the values of variables that a pattern only uses through others: that of
        ``exp.num_gpus`` is the same for two values of ``exp.gpus``."""
        self.broken = False
        self.blends: dict[tuple[tuple[str, ...], str | None], Blend] = {}
        self.bases: dict[tuple[str, ...], SettingsLayer] = {}

    def note(self, places: Mapping[Path, Where], path: Path, text: str) -> None:
        """Adds a mistake, after which no benchmark is made."""
        self.broken = True
        at = nearest_place(places, path) or self.where
        self.inputs.library.problems.add(at, text)

    @property
    def where(self) -> Where:
        file = str(self.inputs.library.file)
        return nearest_place(self.entry.places, ()) or Where(file, 1, self.name)

    def benchmarks(self) -> list[Benchmark]:
        """Its benchmarks; none where something is wrong, which is noted."""
        made = self.made()
        if _distinct(made):
            return made
        self.by_values = True
        other = self.made()
        return other if _distinct(other) else made

    def made(self) -> list[Benchmark]:
        made: list[Benchmark] = []
        try:
            for bound in combinations(self.sweeps(self.used, {})):
                for each in self.multiplied(bound):
                    made.append(each)
                    if self.broken:
                        return []
        except Mistake as error:
            path: Path = ("matrix",) if "matrix" in self.shape.data else ()
            self.note(self.shape.places, path, str(error))
        return [] if self.broken else made

    def sweeps(self, used: set[str], bound: Values) -> dict[str, Any]:
        """The swept variables among those used that have no value yet, in the order of ``-V``."""
        return {n: v for n, v in self.inputs.swept.items() if n in used and n not in bound}

    def multiplied(self, bound: Values) -> Iterator[Benchmark]:
        """The benchmarks of the matrix, and of the variables that are swept besides ``bound``."""
        variables = {**self.inputs.variables, **bound}
        rows = self.rows(variables)
        varied = [name for name in rows[0] if any(row[name] != rows[0][name] for row in rows)]
        known: Blend | None = None
        for values in rows:
            blend = self.blend(values, variables)
            if self.broken:
                return
            if blend is not known:
                known = blend
                self.used |= blend.used
                self.dynamic |= blend.dynamic
                inner = self.sweeps(blend.used, bound)
                limited_count([len(rows), *map(len, inner.values())], "a sweep")
                many = [name for name in (*bound, *inner) if len(self.inputs.swept[name]) > 1]
                naming = self.naming([*many, *varied])
            for more in combinations(inner):
                yield from _Variant(self, blend, values, {**bound, **more}).benchmarks(naming)

    def naming(self, varied: list[str]) -> Naming:
        found = self.job.data.get("name") or self.shape.data.get("name")
        used = _references({"name": found})
        mentioned = {str(each) for each in used}
        if not self.by_values:
            mentioned |= self.inputs.mentioned(used)
        return Naming(self.name, None if found is None else str(found), varied, mentioned)

    def rows(self, variables: Values) -> list[Values]:
        """The values of each combination of the matrix; one without values where there is none.

        Raises:
            Mistake: the matrix is empty, or all of it is excluded.
        """
        axes = self.shape.data.get("matrix")
        if axes is None:
            return [{}]
        some = {"matrix": axes}
        scope = Scope({}, variables)
        note = functools.partial(self.note, self.shape.places)
        known = resolve(some, find_templates(some).templates, scope, note)["matrix"]
        rows = [values for values in matrix(known) if not self.excluded(values, variables)]
        if not rows:
            raise Mistake("every combination is excluded")
        return rows

    def excluded(self, values: Values, variables: Values) -> bool:
        conditions = self.shape.data.get("exclude") or ()
        scope = Scope({"matrix": values}, variables, Context(self.inputs.facts), False)
        try:
            return excluded(values, conditions, scope)
        except NotKnownYet as missing:
            raise Mistake(
                f"exclude: {{{missing.name}}} is not known when a suite is read"
            ) from None

    # --- layers

    def blend(self, values: Values, variables: Values) -> Blend:
        """The blend for these values: all with the same parents and definition share one.

        Raises:
            Mistake: a parent or definition that is not there.
        """
        scope = Scope({"matrix": values}, variables, Context(self.inputs.facts), False)
        names = (*parents_of(self.entry.data), *parents_of(self.job.data))
        parents = tuple(_resolved_name("inherits", each, scope) for each in names)
        if parents not in self.bases:
            low = self.inputs.library.parents(parents)
            self.bases[parents] = self.job.over(self.entry.over(low))
        base = self.bases[parents]
        written = base.data.get("definition")
        folder = None if written is None else _resolved_name("definition", str(written), scope)
        if (parents, folder) not in self.blends:
            self.blends[parents, folder] = self.blended(base, folder, values, variables)
        return self.blends[parents, folder]

    def blended(
        self, base: SettingsLayer, folder: str | None, values: Values, variables: Values
    ) -> Blend:
        layer = base if folder is None else self.defined(base, folder)
        if every := self.inputs.library.entries.get(EVERY):
            layer = every.over(layer, unite=False)
        for override in self.inputs.late(self.name):
            layer = override.layer.over(layer, unite=False)
        whens = {"when": layer.data["when"]} if layer.data.get("when") else {}
        data = {k: pruned(v) for k, v in layer.data.items() if v is not None and k not in SHAPING}
        layer = SettingsLayer({**data, **whens}, layer.places)
        found = find_templates(layer.data)
        self.check(layer, found, values, variables)
        scope = Scope({**data, "matrix": values}, variables)
        local = found.templates.only(lambda path, text: _is_local(path, text, scope))
        early = found.templates.only(lambda path, text: path[0] in EARLY)
        used = self.inputs.mentioned(each for _, each in found.references())
        return Blend(layer, used, local, early, found.templates)

    def defined(self, layer: SettingsLayer, folder: str) -> SettingsLayer:
        """``layer`` over its definition's settings."""
        where = nearest_place(layer.places, ("definition",))
        try:
            place, below = self.inputs.library.definition(folder, where)
        except Mistake as error:
            if layer.data.get("enabled") is not False:
                self.note(layer.places, ("definition",), str(error))
            return layer
        whole = layer.over(below)
        return SettingsLayer({**whole.data, "definition": str(place)}, whole.places)

    def check(self, layer: SettingsLayer, found: Found, values: Values, variables: Values) -> None:
        """Notes what is wrong with the whole: kinds, no program, names that do not exist."""
        for path, text in found.problems:
            self.note(layer.places, path, text)
        data = layer.data
        if data.get("enabled") is not False and not {"run", "definition", "origin"} & set(data):
            text = "has nothing to run: run (a program) or definition (a folder) is missing"
            self.note({}, (), text)
        everything = SettingsLayer(data, {})
        for settings in (data.get("when") or {}).values():
            everything = SettingsLayer(settings or {}, {}).over(everything)
        inside = {**everything.data, "matrix": {**values, **_drawn(data)}, "name": self.name}
        scope = Scope(inside, variables)
        for path, reference in found.references():
            scope.path = path
            try:
                scope.look(reference)
            except NotKnownYet:
                continue
            except Mistake as error:
                self.note(layer.places, path, str(error))


class _Variant:
    """One combination of matrix and sweep: a benchmark, or one for each trial of its search."""

    def __init__(self, expansion: Expansion, blend: Blend, values: Values, swept: Values) -> None:
        self.expansion = expansion
        self.inputs = expansion.inputs
        self.blend = blend
        self.values = values
        self.swept = swept
        self.variables = {**expansion.inputs.variables, **swept}

    def note(self, path: Path, text: str) -> None:
        self.expansion.note(self.blend.layer.places, path, text)

    def benchmarks(self, naming: Naming) -> Iterator[Benchmark]:
        study = self.blend.layer.data.get("search")
        if study is None:
            yield self.benchmark(naming, self.values)
            return
        scope = Scope({"matrix": self.values}, self.variables)
        found = self.blend.templates.only(lambda path, _: path[0] == "search")
        known = resolve({"search": study}, found, scope, self.note)["search"]
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
        expansion, blend = self.expansion, self.blend
        name = expansion.name
        try:
            name = naming.name(values, self.swept, self.variables, trial)
        except Mistake as error:
            places = expansion.job.places or expansion.shape.places
            expansion.note(places, ("name",), str(error))
        settings = self.settings(name, values)
        shared = "when" not in blend.layer.data and not self.inputs.late(name)
        return Benchmark(
            name,
            expansion.where,
            settings,
            expansion.name,
            self.variables,
            {**self.swept, **values},
            blend.layer.places,
            (settings, blend.templates) if shared else (),
        )

    def settings(self, name: str, values: Values) -> dict[str, Any]:
        """The benchmark's settings, templates resolved as far as they can be by now."""
        data = {**self.blend.layer.data, "name": name}
        if values:
            data["matrix"] = values
        if self.blend.local:
            data = resolve(data, self.blend.local, Scope(data, self.variables), self.note)
        for override in self.inputs.late(name):  # those for the whole entry are in the blend
            if not override.matches(self.expansion.name):
                data = _without_null(override.layer.over(SettingsLayer(data, {}), unite=False).data)
        context = Context({**self.inputs.facts, "name": name})
        early = self.blend.early
        if "when" in data:
            data = _without_null(apply_conditions(data, self.variables, context, self.note))
            early = find_templates({key: data[key] for key in EARLY if key in data}).templates
        if early:
            scope = Scope(data, self.variables, context, False)
            some = {key: data[key] for key in EARLY if key in data}
            data.update(resolve(some, early, scope, self.note))
        return data


_FORMING = ("matrix", "inherits", "definition", "exclude", "name")


def _references(settings: dict[str, Any]) -> list[Reference]:
    """Every name that the templates and conditions of settings use."""
    return [each for _, each in find_templates(settings).references()]


def _distinct(made: Sequence[Benchmark]) -> bool:
    return len({each.name for each in made}) == len(made)


def _named(reference: Reference, known: Mapping[str, Any]) -> str | None:
    """The name among ``known`` that a reference means."""
    if reference.up:
        return None
    names = (".".join(map(str, reference.keys[: n + 1])) for n in range(len(reference.keys)))
    return next((name for name in names if name in known), None)


def _resolved_name(key: str, text: str, scope: Scope) -> str:
    try:
        return str(scope.at((key,), text)) if "{" in text else text
    except NotKnownYet as missing:
        raise Mistake(f"{key}: {{{missing.name}}} is not known when a suite is read") from None


def _drawn(data: Mapping[str, Any]) -> Values:
    """The names that a search will give values."""
    study = data.get("search")
    space = study.get("space") if isinstance(study, Mapping) else None
    return {**dict.fromkeys(space, 0), "trial": 0} if isinstance(space, Mapping) else {}


def _is_dynamic(text: Template) -> bool:
    return any(part.expression.dynamic for part in text.placeholders)


def _is_local(path: Path, text: Template, scope: Scope) -> bool:
    """Whether a template uses what a matrix, a search or a variable gives."""
    if path[0] in EARLY:
        return False
    sources = (scope.values, scope.variables, _drawn(scope.settings))
    return _is_dynamic(text) or any(
        _named(each, source) is not None for each in text.references for source in sources
    )


def _without_null(data: dict[str, Any]) -> dict[str, Any]:
    """Settings without what is null; a condition's null, and a value that is null, mean something."""
    kept = ("when", "matrix", "search")
    return {k: v if k in kept else pruned(v) for k, v in data.items() if v is not None}
