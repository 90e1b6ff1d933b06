"""A suite's YAML and what the command line adds, as benchmarks: read, expanded, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .expansion import Expansion, Inputs
from .layers import flat, merged, overrides, variables
from .library import Library, read_library
from .model import Benchmark, Suite
from .problems import ProblemList, Where, meant, nearest_place

_ARCH = "{arch}"
"""``system.arch`` where nothing sets it."""


def load(
    file: str | Path,
    facts: Mapping[str, object],
    override: Sequence[str],
    parameters: Sequence[str],
    sweeps: Sequence[str],
) -> Suite:
    """See :func:`injector.suite.config.load`."""
    problems = ProblemList()
    library = read_library(file, problems)
    if not library.whole:  # what is missing would be missed everywhere
        problems.check()
    declared = library.top["variables"].data if "variables" in library.top else {}
    known, swept = variables(declared, parameters, sweeps, problems)
    given = overrides(override, library.entries, problems)
    for each in given:
        if each.early:
            for name in [name for name in library.entries if each.matches(name)]:
                library.entries[name] = each.layer.over(library.entries[name], unite=False)
    system = known["system"] = _system(library, known)
    added = [name for name in known if name not in {*flat(declared), *swept, "system"}]
    inputs = Inputs(library, known, swept, given, added, dict(facts))
    expansions = _expansions(inputs)
    made = [_contained(each, system) for expansion in expansions for each in expansion.benchmarks()]
    _unique(made, problems)
    if not problems.found:
        _unused(inputs, expansions, made)
        if not made:
            problems.add(Where(str(file), 1), "has no benchmark: every name in it begins with _")
    problems.check()
    of_machines = {key: each for key, each in system.items() if each != _ARCH}
    return Suite(library.file.stem, library.file, tuple(made), of_machines)


def _contained(benchmark: Benchmark, system: Mapping[str, Any]) -> Benchmark:
    """The benchmark with the system's container, where it has none of its own and does not refuse one."""
    keys = ("docker_image", "container_engine")
    added = [key for key in keys if system.get(key) and key not in benchmark.settings]
    return (
        benchmark.with_settings(**{key: f"${{system.{key}}}" for key in added})
        if added
        else benchmark
    )


def _system(library: Library, known: dict[str, Any]) -> dict[str, Any]:
    """The system file's settings, with those of ``-P system.a.b=v``."""
    system: dict[str, Any] = library.top["system"].data if "system" in library.top else {}
    for name in [name for name in known if name.startswith("system.")]:
        value = known.pop(name)
        for key in reversed(name.split(".")[1:]):
            value = {key: value}
        system = merged(system, value)
    return {"arch": _ARCH, **system}


def _expansions(inputs: Inputs) -> list[Expansion]:
    made = []
    for name in inputs.library.runnable():
        places = inputs.library.entries[name].places
        with inputs.library.problems.collecting(nearest_place(places, ("inherits",))):
            made.append(Expansion(name, inputs))
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


def _unused(inputs: Inputs, expansions: Sequence[Expansion], made: Sequence[Benchmark]) -> None:
    """An option of the command line that has no effect is a mistake."""
    problems = inputs.library.problems
    names = {name for each in made for name in (each.name, each.family)}
    names |= inputs.library.entries.keys()
    for override in inputs.overrides:
        if not override.matches(*names):
            hint = meant(override.pattern, sorted(names))
            text = f"no benchmark is called {override.pattern}{hint}"
            problems.add(override.where, text)
    used = sorted({name for expansion in expansions for name in expansion.used})
    dynamic = any(expansion.dynamic for expansion in expansions)
    for option, given in (("-V", inputs.swept), ("-P", () if dynamic else inputs.parameters)):
        for name in given:
            if name not in used:
                text = f"no benchmark uses {name}{meant(name, used)}"
                problems.add(Where(f"{option} {name}", 0), text)
