"""From an entry of a suite to its benchmarks: its layers as one, then sweeps, matrix, search, conditions.

::

    train:
      inherits: _torch
      matrix: {size: [18, 50]}
      job: {run: train.py, argv: {--size: "{size}", --epochs: "${epochs}", --data: "{data}"}}

With ``-V epochs=[1,2]`` this makes four benchmarks: ``train-1-18``, ``train-2-18``, ``train-1-50`` and
``train-2-50``. :class:`Expansion` goes through these steps for it:

1. sweep the variables that matrix, parents and definition use (here none);
2. for each combination of the matrix (``size``) lay the job over the entry, over its parents and its
   definition, and ``"*"`` and ``--override`` over all. What comes of it are :class:`SharedSettings`: those
   combinations that have the same parents and definition have them in common;
3. sweep the variables that these settings use besides (``epochs``);
4. for each variant, which is one combination of all these values, resolve what they decide: the name, and
   arguments such as ``--size``. A search multiplies the variant once more, into its trials.

``{data}`` stays a template: what a machine or a job decides is resolved when the benchmark is filled
(:mod:`.filling`). Only keys in :data:`EARLY` cannot wait for that, since the job is made from them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .filling import ParsedSettings, Templates, find_templates, resolve
from .layers import SettingsLayer, apply_conditions, pruned
from .library import EVERY, fixed_parents, parents_of
from .model import Benchmark
from .problems import Mistake, Path, Where, nearest_place
from .references import EARLY, Inputs, is_dynamic, is_local, references, search_names
from .scope import Context, Scope
from .templates import NotKnownYet
from .variants import (
    NAME,
    Naming,
    Values,
    combinations,
    excluded,
    limited_count,
    matrix,
    no_name,
    trials,
)

SHAPING = ("inherits", "job", "matrix", "exclude", "name")
"""Keys that decide which benchmarks there are. No benchmark has them any more."""

_FORMING = ("matrix", "inherits", "definition", "exclude", "name")
"""Keys whose variables decide which benchmarks there are, and from which settings they are made."""


@dataclass
class SharedSettings:
    """The settings that variants with the same parents and definition share, before each has its values."""

    layer: SettingsLayer
    used: set[str]
    """The variables that they use."""
    local: Templates
    """Those templates that need values of a matrix, a search or variables."""
    early: Templates
    """The templates of keys that are needed before there is a job."""
    templates: Templates

    @property
    def dynamic(self) -> bool:
        """Whether they may use variables besides ``used``: ``${${a}.b}`` names one when it is evaluated."""
        return any(is_dynamic(text) for _, text in self.templates.each())


class Expansion:
    """All benchmarks that one entry makes.

    Mistakes are added to the library's problems, so that one reading of a suite finds all of them.
    """

    def __init__(self, name: str, inputs: Inputs) -> None:
        self.name = name
        self.inputs = inputs
        self.entry = inputs.library.entries[name]
        self.shape = self.entry.over(inputs.library.parents(fixed_parents(self.entry.data)))
        """The entry over its parents, from which matrix and job are taken."""
        self.job = self.shape.below("job")
        forming = [
            {key: layer.data[key] for key in _FORMING if key in layer.data}
            for layer in (self.shape, self.job)
        ]
        self.used = inputs.mentioned(ref for settings in forming for ref in references(settings))
        """The variables that the entry uses, as far as it has been expanded."""
        self.dynamic = False
        """Whether it may use others."""
        self.names_show_values = False
        """Whether names get values of swept variables that their pattern uses only through other ones."""
        self.broken = False
        """Whether a mistake was found, after which the entry makes no benchmark."""
        self.shared: dict[tuple[tuple[str, ...], str | None], SharedSettings] = {}
        """By the names of parents, and the definition's folder."""
        self.bases: dict[tuple[str, ...], SettingsLayer] = {}
        """The job over the entry over its parents, by the names of these."""

    def add_problem(self, places: Mapping[Path, Where], path: Path, text: str) -> None:
        """Add a mistake, after which the entry makes no benchmark."""
        self.broken = True
        where = nearest_place(places, path) or self.where
        self.inputs.library.problems.add(where, text)

    @property
    def where(self) -> Where:
        """Where the entry was written."""
        file = str(self.inputs.library.file)
        return nearest_place(self.entry.places, ()) or Where(file, 1, self.name)

    def benchmarks(self) -> list[Benchmark]:
        """The entry's benchmarks; none if something is wrong, which is added to the problems."""
        benchmarks = self._expanded()
        if _names_differ(benchmarks):
            return benchmarks
        # A pattern may use a swept variable only through another one, whose value can be the same for two
        # of its values: exp.num_gpus is the length of exp.gpus, and "0,1" is as long as "2,3". Only where
        # names are equal without them are such values added.
        self.names_show_values = True
        renamed = self._expanded()
        return renamed if _names_differ(renamed) else benchmarks

    def _expanded(self) -> list[Benchmark]:
        benchmarks: list[Benchmark] = []
        try:
            for swept in combinations(self._sweeps(self.used, {})):
                for benchmark in self._variants(swept):
                    benchmarks.append(benchmark)
                    if self.broken:
                        return []
        except Mistake as error:
            path: Path = ("matrix",) if "matrix" in self.shape.data else ()
            self.add_problem(self.shape.places, path, str(error))
        return [] if self.broken else benchmarks

    def _sweeps(self, used: set[str], swept: Values) -> dict[str, Any]:
        """The variables to sweep among those ``used``, but for those that have a value in ``swept``.

        They are in the order of ``-V``, as the names of benchmarks have them.
        """
        return {
            name: values
            for name, values in self.inputs.swept.items()
            if name in used and name not in swept
        }

    def _variants(self, swept: Values) -> Iterator[Benchmark]:
        """The benchmarks for each combination of the matrix, where variables have the values ``swept``.

        Which further variables are used is known only once parents and definition are, and those may depend
        on values of the matrix. Sweeps of these variables multiply each combination.
        """
        variables = {**self.inputs.variables, **swept}
        rows = self._matrix_rows(variables)
        varied = [name for name in rows[0] if any(row[name] != rows[0][name] for row in rows)]
        previous: SharedSettings | None = None
        for values in rows:
            shared = self._shared_settings(values, variables)
            if self.broken:
                return
            if shared is not previous:
                previous = shared
                self.used |= shared.used
                self.dynamic |= shared.dynamic
                inner = self._sweeps(shared.used, swept)
                limited_count([len(rows), *map(len, inner.values())], "a sweep")
                many = [name for name in (*swept, *inner) if len(self.inputs.swept[name]) > 1]
                naming = self._naming([*many, *varied])
            for more in combinations(inner):
                yield from _Variant(self, shared, values, {**swept, **more}).benchmarks(naming)

    def _naming(self, varied: list[str]) -> Naming:
        """How variants are named that differ in the values of ``varied``."""
        pattern = self.job.data.get("name") or self.shape.data.get("name")
        used = references({"name": pattern})
        mentioned = {str(reference) for reference in used}
        if not self.names_show_values:
            mentioned |= self.inputs.mentioned(used)
        return Naming(self.name, None if pattern is None else str(pattern), varied, mentioned)

    def _matrix_rows(self, variables: Values) -> list[Values]:
        """The values of each combination of the matrix; one without values if there is no matrix.

        Raises Mistake if the matrix is empty, or all of it is excluded.
        """
        axes = self.shape.data.get("matrix")
        if axes is None:
            if self.shape.data.get("exclude"):
                text = "there is no matrix, of which it could leave something out"
                self.add_problem(self.shape.places, ("exclude",), text)
            return [{}]
        settings = {"matrix": axes}
        scope = Scope({}, variables)
        add_problem = functools.partial(self.add_problem, self.shape.places)
        templates = find_templates(settings).templates
        axes = resolve(settings, templates, scope, add_problem)["matrix"]
        rows = [values for values in matrix(axes) if not self._is_excluded(values, variables)]
        if not rows:
            raise Mistake("every combination is excluded")
        return rows

    def _is_excluded(self, values: Values, variables: Values) -> bool:
        conditions = self.shape.data.get("exclude") or ()
        scope = Scope({"matrix": values}, variables, Context(self.inputs.facts), False)
        try:
            return excluded(values, conditions, scope)
        except NotKnownYet as missing:
            raise Mistake(
                f"exclude: {{{missing.name}}} is not known when a suite is read"
            ) from None

    # --- layers

    def _shared_settings(self, values: Values, variables: Values) -> SharedSettings:
        """The settings of all variants that have the parents and the definition of this one.

        Both may be named by templates (``inherits: "_{framework}"``), which these values resolve. Raises
        Mistake for a parent or definition that is not there.
        """
        scope = Scope({"matrix": values}, variables, Context(self.inputs.facts), False)
        names = (*parents_of(self.entry.data), *parents_of(self.job.data))
        parents = tuple(_resolved_name("inherits", name, scope) for name in names)
        if parents not in self.bases:
            inherited = self.inputs.library.parents(parents)
            self.bases[parents] = self.job.over(self.entry.over(inherited))
        base = self.bases[parents]
        written = base.data.get("definition")
        folder = None if written is None else _resolved_name("definition", str(written), scope)
        if (parents, folder) not in self.shared:
            self.shared[parents, folder] = self._with_all_layers(base, folder, values, variables)
        return self.shared[parents, folder]

    def _with_all_layers(
        self, base: SettingsLayer, folder: str | None, values: Values, variables: Values
    ) -> SharedSettings:
        """``base`` over the definition in ``folder``, and under ``"*"`` and the command line's overrides.

        ``values`` and ``variables`` are those of the first variant. Their names are those of all variants.
        """
        layer = base if folder is None else self._over_definition(base, folder)
        if every := self.inputs.library.entries.get(EVERY):
            layer = every.over(layer, unite=False)
        for override in self.inputs.late(self.name):
            layer = override.layer.over(layer, unite=False)
        # Null in a condition is kept: it takes a key away once the condition holds.
        whens = {"when": layer.data["when"]} if layer.data.get("when") else {}
        data = {k: pruned(v) for k, v in layer.data.items() if v is not None and k not in SHAPING}
        layer = SettingsLayer({**data, **whens}, layer.places)
        parsed = find_templates(layer.data)
        self._check(layer, parsed, values, variables)
        scope = Scope({**data, "matrix": values}, variables)
        local = parsed.templates.only(lambda path, text: is_local(path, text, scope))
        early = parsed.templates.only(lambda path, text: path[0] in EARLY)
        used = self.inputs.mentioned(reference for _, reference in parsed.references())
        return SharedSettings(layer, used, local, early, parsed.templates)

    def _over_definition(self, layer: SettingsLayer, folder: str) -> SettingsLayer:
        where = nearest_place(layer.places, ("definition",))
        try:
            found, below = self.inputs.library.definition(folder, where)
        except Mistake as error:
            # A benchmark that is switched off does without.
            if layer.data.get("enabled") is not False:
                self.add_problem(layer.places, ("definition",), str(error))
            return layer
        whole = layer.over(below)
        return SettingsLayer({**whole.data, "definition": str(found)}, whole.places)

    def _check(
        self, layer: SettingsLayer, parsed: ParsedSettings, values: Values, variables: Values
    ) -> None:
        """Add what is wrong with the settings: kinds of values, no program, names that do not exist."""
        for path, text in parsed.problems:
            self.add_problem(layer.places, path, text)
        data = layer.data
        if data.get("enabled") is not False and not {"run", "definition", "origin"} & set(data):
            text = "has nothing to run: run (a program) or definition (a folder) is missing"
            self.add_problem({}, (), text)
        # A template may use what only a condition sets, so that names of all conditions count as known.
        everything = SettingsLayer(data, {})
        for settings in (data.get("when") or {}).values():
            everything = SettingsLayer(settings or {}, {}).over(everything)
        inside = {**everything.data, "matrix": {**values, **search_names(data)}, "name": self.name}
        scope = Scope(inside, variables)
        for path, reference in parsed.references():
            scope.path = path
            try:
                scope.look_up(reference)
            except NotKnownYet:
                continue
            except Mistake as error:
                self.add_problem(layer.places, path, str(error))


@dataclass
class _Variant:
    """One combination of matrix and sweep: a benchmark, or one for each trial of its search."""

    expansion: Expansion
    shared: SharedSettings
    values: Values
    """The values of the matrix."""
    swept: Values

    def __post_init__(self) -> None:
        self.inputs = self.expansion.inputs
        self.variables = {**self.inputs.variables, **self.swept}

    def add_problem(self, path: Path, text: str) -> None:
        self.expansion.add_problem(self.shared.layer.places, path, text)

    def benchmarks(self, naming: Naming) -> Iterator[Benchmark]:
        study = self.shared.layer.data.get("search")
        if study is None:
            yield self._benchmark(naming, self.values)
            return
        scope = Scope({"matrix": self.values}, self.variables)
        templates = self.shared.templates.only(lambda path, _: path[0] == "search")
        study = resolve({"search": study}, templates, scope, self.add_problem)["search"]
        try:
            # Random trials depend on the name without a pattern: another name:, the same trials.
            drawn = trials(study, naming.plain({**self.swept, **self.values}))
        except Mistake as error:
            self.add_problem(("search",), str(error))
            return
        width = len(str(len(drawn) - 1))
        for number, trial in enumerate(drawn):
            values = {**self.values, **trial, "trial": number}
            yield self._benchmark(naming, values, f"{number:0{width}d}")

    def _benchmark(self, naming: Naming, values: Values, trial: str = "") -> Benchmark:
        expansion, shared = self.expansion, self.shared
        name = expansion.name
        try:
            name = naming.name(values, self.swept, self.variables, trial)
        except Mistake as error:
            places = expansion.job.places or expansion.shape.places
            expansion.add_problem(places, ("name",), str(error))
        settings = self._settings(name, values)
        # Neither a condition nor an override can have added a template that the shared settings lack.
        same_templates = "when" not in shared.layer.data and not self.inputs.late(name)
        return Benchmark(
            name,
            expansion.where,
            settings,
            expansion.name,
            self.variables,
            {**self.swept, **values},
            shared.layer.places,
            (settings, shared.templates) if same_templates else (),
        )

    def _settings(self, name: str, values: Values) -> dict[str, Any]:
        """The benchmark's settings, with those templates resolved whose values are known by now.

        Local templates come first, since an override and a condition see their values. Early keys come last:
        a condition may set them.
        """
        data = {**self.shared.layer.data, "name": name}
        if values:
            data["matrix"] = values
        if self.shared.local:
            scope = Scope(data, self.variables)
            data = resolve(data, self.shared.local, scope, self.add_problem)
        for override in self.inputs.late(name):
            # Overrides for the whole entry are in the shared settings already.
            if not override.matches(self.expansion.name):
                data = _without_null(override.layer.over(SettingsLayer(data, {}), unite=False).data)
        context = Context({**self.inputs.facts, "name": name})
        early = self.shared.early
        if "when" in data:
            data = _without_null(apply_conditions(data, self.variables, context, self.add_problem))
            early = find_templates({key: data[key] for key in EARLY if key in data}).templates
        if early:
            scope = Scope(data, self.variables, context, False)
            settings = {key: data[key] for key in EARLY if key in data}
            data.update(resolve(settings, early, scope, self.add_problem))
        for key in ("group", "install_group"):
            if (group := str(data.get(key) or name)) != name and not NAME.fullmatch(group):
                self.add_problem((key,), no_name(group))
        return data


def _names_differ(benchmarks: Sequence[Benchmark]) -> bool:
    return len({benchmark.name for benchmark in benchmarks}) == len(benchmarks)


def _resolved_name(key: str, text: str, scope: Scope) -> str:
    """The name of a parent or a definition that ``text``, which may be a template, gives."""
    try:
        return str(scope.at((key,), text)) if "{" in text else text
    except NotKnownYet as missing:
        raise Mistake(f"{key}: {{{missing.name}}} is not known when a suite is read") from None


def _without_null(data: dict[str, Any]) -> dict[str, Any]:
    """Settings without what is null; a condition's null, and a value that is null, mean something."""
    kept = ("when", "matrix", "search")
    return {k: v if k in kept else pruned(v) for k, v in data.items() if v is not None}
