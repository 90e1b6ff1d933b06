"""One benchmark's layers as one: definition, parents, entry, job, ``*``, overrides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .expressions import Reference
from .including import EVERY, Library
from .inheriting import Ancestry
from .layers import Layer, laid, listed, pruned
from .multiplying import Values
from .overriding import Override
from .placeholders import Context
from .problems import Mistake, Path, ProblemList, Where, nearest_place
from .scope import Scope
from .settings import Found, TemplateTree, find_templates, references
from .templates import NotKnownYet, Template

EARLY = (
    *("enabled", "group", "install_group", "tags", "weight", "max_duration", "num_machines"),
    *("plan", "definition"),
)
"""Keys that are asked for before a job is at hand: resolved from what is known of the machine."""

ACTED = ("inherits", "job", "matrix", "exclude", "name")
"""Keys that have done their work once a benchmark is there."""


@dataclass
class World:
    """What all families of a suite share."""

    library: Library
    ancestry: Ancestry
    variables: Mapping[str, Any]
    swept: Mapping[str, Sequence[Any]]
    overrides: Sequence[Override]
    said: Sequence[str]
    """The variables that only ``-P`` gives."""
    facts: Mapping[str, Any]
    problems: ProblemList

    def late(self, *names: str) -> list[Override]:
        """The overrides of benchmarks' own keys that are for one of ``names``."""
        return [each for each in self.overrides if not each.early and each.matches(*names)]

    def mentioned(self, found: Iterable[Reference]) -> set[str]:
        """The variables that references use, themselves or through other variables."""
        seen: set[str] = set()
        waiting = list(found)
        while waiting:
            name = named(waiting.pop(), self.variables)
            if name is not None and name not in seen:
                seen.add(name)
                waiting += references({"env": {"value": self.variables[name]}})
        return seen


class Blend:
    """What a benchmark says, before a matrix, a search or a sweep gives it values."""

    def __init__(
        self, layer: Layer, used: set[str], local: TemplateTree, everything: TemplateTree
    ) -> None:
        self.data = layer.data
        self.places = layer.places
        self.used = used
        """The variables that it uses."""
        self.all = everything
        """Where its templates are."""
        self.dynamic = any(
            part.expression.dynamic for _, text in self.all.leaves() for part in text.placeholders
        )
        """Whether it may use others."""
        self.local = local
        """Its templates that need values of a matrix, a search or variables."""
        self.early = TemplateTree(
            (), below={key: each for key, each in everything.below.items() if key in EARLY}
        )
        """The templates of its EARLY keys."""


class Blender:
    """Blends the layers of one entry; ``shape`` is the entry over its parents."""

    def __init__(self, name: str, entry: Layer, shape: Layer, world: World) -> None:
        self.name = name
        self.entry = entry
        self.world = world
        self.job = below(shape, "job")
        self.blends: dict[tuple[tuple[str, ...], str | None], Blend] = {}
        self.bases: dict[tuple[str, ...], Layer] = {}
        self.parents = [str(each) for layer in (entry, self.job) for each in _parents(layer)]
        self.broken = False

    def blend(self, values: Values, variables: Values) -> Blend:
        """The blend for these values: all with the same parents and definition share one.

        Raises:
            Mistake: a parent or definition that is not there.
        """
        scope = Scope({"matrix": values}, variables, Context(self.world.facts), False)
        parents = tuple(_said("inherits", each, scope) for each in self.parents)
        if parents not in self.bases:
            low = self.world.ancestry.parents(parents)
            self.bases[parents] = self.job.over(self.entry.over(laid(low)))
        base = self.bases[parents]
        written = base.data.get("definition")
        folder = None if written is None else _said("definition", str(written), scope)
        if (parents, folder) not in self.blends:
            self.blends[parents, folder] = self.made(base, folder, values, variables)
        return self.blends[parents, folder]

    def note(self, places: Mapping[Path, Where], path: Path, text: str) -> None:
        self.broken = True
        at = nearest_place(places, path) or nearest_place(self.entry.places, ())
        self.world.problems.add(at or Where(str(self.world.library.file), 1, self.name), text)

    def made(self, base: Layer, folder: str | None, values: Values, variables: Values) -> Blend:
        layer = self.whole(base, folder)
        whens = {"when": layer.data["when"]} if layer.data.get("when") else {}
        data = {k: pruned(v) for k, v in layer.data.items() if v is not None and k not in ACTED}
        layer = Layer({**data, **whens}, layer.places)
        found = find_templates(layer.data)
        used = list(found.references())
        self.check(layer, found, used, values, variables)
        scope = Scope({**data, "matrix": values}, variables)
        local = found.templates.only(lambda path, text: _local(path, text, scope))
        mentioned = self.world.mentioned(each for _, each in used)
        return Blend(layer, mentioned, local, found.templates)

    def whole(self, layer: Layer, folder: str | None) -> Layer:
        """All layers: the definition's below, those for all and the command line's above."""
        if folder is not None:
            layer = self.defined(layer, folder)
        if every := self.world.library.entries.get(EVERY):
            layer = every.over(layer, unite=False)
        for override in self.world.late(self.name):
            layer = override.layer.over(layer, unite=False)
        return layer

    def defined(self, layer: Layer, folder: str) -> Layer:
        where = nearest_place(layer.places, ("definition",))
        try:
            found, said = self.world.ancestry.definition(folder, where)
        except Mistake as error:
            if layer.data.get("enabled") is not False:
                self.note(layer.places, ("definition",), str(error))
            return layer
        whole = layer.over(said)
        return Layer({**whole.data, "definition": str(found)}, whole.places)

    def check(
        self,
        layer: Layer,
        found: Found,
        used: list[tuple[Path, Reference]],
        values: Values,
        variables: Values,
    ) -> None:
        """Notes what is wrong with the whole: kinds, nothing to run, names that nothing has."""
        for path, text in found.problems:
            self.note(layer.places, path, text)
        data = layer.data
        if data.get("enabled") is not False and not {"run", "definition", "origin"} & set(data):
            text = "has nothing to run: run (a program) or definition (a folder) is missing"
            self.note({}, (), text)
        everything = Layer(data, {})
        for settings in (data.get("when") or {}).values():
            everything = Layer(settings or {}, {}).over(everything)
        inside = {**everything.data, "matrix": {**values, **_drawn(data)}, "name": self.name}
        scope = Scope(inside, variables)
        for path, reference in used:
            scope.path = path
            try:
                scope.look(reference)
            except NotKnownYet:
                continue
            except Mistake as error:
                self.note(layer.places, path, str(error))


def below(layer: Layer, key: str) -> Layer:
    """What stands under one key, as a layer."""
    places = {path[1:]: where for path, where in layer.places.items() if path[:1] == (key,)}
    return Layer(layer.data.get(key) or {}, places)


def named(reference: Reference, known: Mapping[str, Any]) -> str | None:
    """The name among ``known`` that a reference means."""
    if reference.up:
        return None
    for length in range(1, len(reference.keys) + 1):
        name = ".".join(map(str, reference.keys[:length]))
        if name in known:
            return name
    return None


def _parents(layer: Layer) -> list[Any]:
    return listed(layer.data.get("inherits"))


def _said(key: str, text: str, scope: Scope) -> str:
    if "{" not in text:
        return text
    try:
        return str(scope.at((key,), text))
    except NotKnownYet as missing:
        raise Mistake(f"{key}: {{{missing.name}}} is not known when a suite is read") from None


def _drawn(data: Mapping[str, Any]) -> Values:
    """The names that a search will give values."""
    study = data.get("search")
    space = study.get("space") if isinstance(study, Mapping) else None
    return {**dict.fromkeys(space, 0), "trial": 0} if isinstance(space, Mapping) else {}


def _local(path: Path, text: Template, scope: Scope) -> bool:
    """Whether a template uses what a matrix, a search or a variable gives."""
    if path[0] in EARLY:
        return False
    if any(part.expression.dynamic for part in text.placeholders):
        return True
    sources = (scope.values, scope.variables, _drawn(scope.settings))
    return any(named(each, source) is not None for each in text.references for source in sources)
