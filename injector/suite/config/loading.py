"""A suite's YAML, whole: read, merged, expanded, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..words import meant
from .blending import World
from .families import Family
from .including import Library, gather
from .inheriting import Ancestry
from .layers import merged
from .model import Benchmark, Suite
from .overriding import Override, flat, overrides, variables
from .problems import ProblemList, Where, nearest_place

_ARCH = "{arch}"
"""What ``system.arch`` is where nobody says it."""


def load(
    file: str | Path,
    facts: Mapping[str, object],
    overrides: Sequence[str],
    parameters: Sequence[str],
    variables: Sequence[str],
) -> Suite:
    """See :func:`injector.suite.config.load`."""
    problems = ProblemList()
    library = gather(file, problems)
    if not library.whole:  # what is missing would be missed everywhere
        problems.check()
    world = _world(library, dict(facts), (overrides, parameters, variables), problems)
    families = _families(world)
    made = [each for family in families for each in family.benchmarks()]
    _unique(made, problems)
    if not problems.found:
        _unused(world, families, made)
        if not made:
            problems.add(Where(str(file), 1), "has no benchmark: every name in it begins with _")
    problems.check()
    system = {key: each for key, each in world.variables["system"].items() if each != _ARCH}
    return Suite(library.file.stem, library.file, tuple(made), system)


def _world(
    library: Library,
    facts: dict[str, Any],
    given: tuple[Sequence[str], Sequence[str], Sequence[str]],
    problems: ProblemList,
) -> World:
    declared = library.top["variables"].data if "variables" in library.top else {}
    said: list[Override] = []
    known: dict[str, Any] = {}
    swept: dict[str, list[Any]] = {}
    with problems.collecting():
        known, swept = variables(declared, given[1], given[2])
    with problems.collecting():
        said = overrides(given[0], library.entries)
    for override in said:
        if override.early:
            _lay(override, library)
    known["system"] = _system(library, known)
    new = [name for name in known if name not in {*flat(declared), *swept, "system"}]
    ancestry = Ancestry(library, problems)
    return World(library, ancestry, known, swept, said, new, facts, problems)


def _system(library: Library, known: dict[str, Any]) -> dict[str, Any]:
    """The system file's, with what ``-P system.a.b=v`` says of it."""
    system: dict[str, Any] = library.top["system"].data if "system" in library.top else {}
    for name in [name for name in known if name.startswith("system.")]:
        value = known.pop(name)
        for key in reversed(name.split(".")[1:]):
            value = {key: value}
        system = merged(system, value)
    return {"arch": _ARCH, **system}


def _lay(override: Override, library: Library) -> None:
    for name in [name for name in library.entries if override.matches(name)]:
        layer = library.entries[name]
        library.entries[name] = override.layer.over(layer, unite=False)


def _families(world: World) -> list[Family]:
    broken = world.ancestry.broken()
    made = []
    for name in world.library.runnable():
        if name in broken:
            continue
        layer = world.library.entries[name]
        with world.problems.collecting(nearest_place(layer.places, ("inherits",))):
            made.append(Family(name, world))
    return made


def _unique(made: Sequence[Benchmark], problems: ProblemList) -> None:
    seen: dict[str, Benchmark] = {}
    for each in made:
        first = seen.setdefault(each.name, each)
        if first is not each:
            text = f"makes {each.name} twice" if first.family == each.family else ""
            text = text or f"makes {each.name}, which {first.where} makes as well"
            hint = "give its job a name that differs: name: x-{…}"
            problems.add(each.at("name"), f"{text}; {hint}")


def _unused(world: World, families: Sequence[Family], made: Sequence[Benchmark]) -> None:
    """What the command line says and nothing takes up is a mistake."""
    names = {name for each in made for name in (each.name, each.family)}
    for override in world.overrides:
        if not override.matches(*names, *world.library.entries):
            known = sorted({*names, *world.library.entries})
            text = f"no benchmark is called {override.pattern}{meant(override.pattern, known)}"
            world.problems.add(override.setting.where, text)
    used = sorted({name for family in families for name in family.used})
    dynamic = any(family.dynamic for family in families)
    for option, said in (("-V", world.swept), ("-P", () if dynamic else world.said)):
        for name in said:
            if name not in used:
                text = f"no benchmark uses {name}{meant(name, used)}"
                world.problems.add(Where(f"{option} {name}", 0), text)
