"""From a suite's YAML and what the command line adds to benchmarks.

The files are read into a library (:mod:`.library`), overrides of the command line are laid over its entries,
each entry is expanded (:mod:`.expansion`), and what all benchmarks together can have wrong is checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .expansion import Expansion
from .layers import flat, merged, overrides, variables
from .library import Library, read_library
from .model import Benchmark, Suite
from .problems import ProblemList, Where, meant, nearest_place
from .references import Inputs

_ARCH = "{arch}"
"""``system.arch`` if nothing sets it."""


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
    # What a missing file would define would be reported as missing in every benchmark.
    if not library.whole:
        problems.check()
    declared = library.top["variables"].data if "variables" in library.top else {}
    known, swept = variables(declared, parameters, sweeps, problems)
    changes = overrides(override, library.entries, problems)
    for change in changes:
        if change.early:
            for name in [name for name in library.entries if change.matches(name)]:
                library.entries[name] = change.layer.over(library.entries[name], unite=False)
    system = known["system"] = _system(library, known)
    added = [name for name in known if name not in {*flat(declared), *swept, "system"}]
    inputs = Inputs(library, known, swept, changes, added, dict(facts))
    expansions = []
    for name in library.runnable():
        # Mistakes in its parents are collected.
        with problems.collecting(nearest_place(library.entries[name].places, ("inherits",))):
            expansions.append(Expansion(name, inputs))
    benchmarks = [
        _with_container(benchmark, system)
        for expansion in expansions
        for benchmark in expansion.benchmarks()
    ]
    _check_names(benchmarks, problems)
    if not problems.found:
        _check_options(inputs, expansions, benchmarks)
        if not benchmarks:
            problems.add(Where(str(file), 1), "has no benchmark: every name in it begins with _")
    problems.check()
    of_machines = {key: value for key, value in system.items() if value != _ARCH}
    return Suite(library.file.stem, library.file, tuple(benchmarks), of_machines)


def _with_container(benchmark: Benchmark, system: Mapping[str, Any]) -> Benchmark:
    """``benchmark`` with the container of ``system``, unless it sets one itself, or null."""
    keys = ("docker_image", "container_engine")
    missing = [key for key in keys if system.get(key) and key not in benchmark.settings]
    added = {key: f"${{system.{key}}}" for key in missing}
    return benchmark.with_settings(**added) if added else benchmark


def _system(library: Library, known: dict[str, Any]) -> dict[str, Any]:
    """The system file's settings with those of ``-P system.a.b=v``, which are taken out of ``known``."""
    system: dict[str, Any] = library.top["system"].data if "system" in library.top else {}
    for name in [name for name in known if name.startswith("system.")]:
        value = known.pop(name)
        for key in reversed(name.split(".")[1:]):
            value = {key: value}
        system = merged(system, value)
    return {"arch": _ARCH, **system}


def _check_names(benchmarks: Sequence[Benchmark], problems: ProblemList) -> None:
    """Add a problem for each benchmark whose name an earlier one has."""
    seen: dict[str, Benchmark] = {}
    for benchmark in benchmarks:
        first = seen.setdefault(benchmark.name, benchmark)
        if first is not benchmark:
            text = f"makes {benchmark.name} twice" if first.family == benchmark.family else ""
            text = text or f"makes {benchmark.name}, which {first.where} makes as well"
            hint = "give it a name that differs: name: x-{…}"
            problems.add(benchmark.at("name"), f"{text}; {hint}")


def _check_options(
    inputs: Inputs, expansions: Sequence[Expansion], benchmarks: Sequence[Benchmark]
) -> None:
    """Add a problem for each option of the command line that has no effect."""
    problems = inputs.library.problems
    names = {name for benchmark in benchmarks for name in (benchmark.name, benchmark.family)}
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
