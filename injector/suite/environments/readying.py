"""Getting a suite ready: sources and environments, then data. A failure is one benchmark's alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .. import definitions
from ..config.model import Benchmark, Problem, SuiteError
from . import current, environments, folders, itself, origins, preparing, requirements, sources
from .environments import Group
from .ground import not_installed
from .making import Failed, Say
from .origins import Origin
from .preparing import Step


@dataclass(frozen=True)
class Outcome:
    """What became of one thing that had to be there."""

    what: str
    """``environment torch``."""
    state: str
    """``made``, ``there``, ``to do`` or ``failed``."""
    text: str = ""
    """Why, in lines."""
    seconds: float = 0.0
    benchmarks: tuple[str, ...] = ()
    """Those that need it."""

    @property
    def failed(self) -> bool:
        return self.state == "failed"


@dataclass(frozen=True)
class How:
    """How somebody wants it done."""

    base: Path
    arch: str
    """cuda, rocm, xpu, hpu or cpu."""
    say: Say
    use_current: bool = False
    """Use the environment of ``inject`` for everything, and install nothing."""
    installer: str | None = None
    update: bool = False
    force: bool = False
    dry_run: bool = False
    """Say what would be done, and do nothing."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """What is known of the machine, by the names of its placeholders."""


def install(
    everything: Iterable[Benchmark], chosen: Iterable[Benchmark], how: How
) -> list[Outcome]:
    """Have sources and environments for the ``chosen`` among ``everything`` of a suite.

    An environment holds what all benchmarks of its group want, chosen or not: choosing others later
    changes nothing in it.

    Raises:
        SuiteError: every mistake in what the benchmarks say about it.
    """
    wanted = list(chosen)
    names = {benchmark.install_group for benchmark in wanted}
    members = [each for each in everything if each.enabled and each.install_group in names]
    groups = _groups(members, how)
    for note in _notes(wanted):
        how.say(note)
    needed = [*wanted, *(b for b in members if b.settings.get("origin") and _is_installed(b))]
    found = [_source(origin, by, how) for origin, by in _origins(needed).items()]
    lost = {name: each for each in found if each.failed for name in each.benchmarks}
    return [*found, *(_environment(group, lost, how) for group in groups)]


def _notes(benchmarks: Iterable[Benchmark]) -> list[str]:
    """What of the definitions is computed by code that is not run."""
    places = {each.definition: None for each in benchmarks if each.definition is not None}
    return [note for folder in places for note in definitions.read(folder).notes]


def _is_installed(benchmark: Benchmark) -> bool:
    origin = origins.of(benchmark)
    return origin is not None and origin.install


def _groups(members: Sequence[Benchmark], how: How) -> list[Group]:
    """The install groups; raises every mistake in them."""
    problems: list[Problem] = []
    asked: dict[str, dict[str, requirements.Asked]] = {}
    for benchmark in members:
        try:
            folders.venv(how.base, benchmark.install_group)
            wants = requirements.of(benchmark, how.arch, how.base)
            asked.setdefault(benchmark.install_group, {})[benchmark.name] = wants
        except SuiteError as error:
            problems += error.problems
    if problems:
        raise SuiteError(dict.fromkeys(problems))
    return [Group(name, how.arch, each) for name, each in asked.items()]


def _origins(benchmarks: Iterable[Benchmark]) -> dict[Origin, list[str]]:
    found: dict[Origin, list[str]] = {}
    for benchmark in benchmarks:
        origin = origins.of(benchmark)
        if origin is not None and benchmark.name not in found.setdefault(origin, []):
            found[origin].append(benchmark.name)
    return found


def _source(origin: Origin, names: Sequence[str], how: How) -> Outcome:
    def todo() -> str:
        return "" if sources.missing(origin, how.base) is None else str(origin)

    def act() -> bool:
        return sources.install(origin, how.base, how.say, how.force)

    return _done(f"source {origin.name}", names, how, todo, act)


def _environment(group: Group, lost: Mapping[str, Outcome], how: How) -> Outcome:
    names, what = tuple(group.asked), f"environment {group.name}"
    if how.use_current:
        lacking = current.lacking(group.asked)
        what = f"the current environment for {group.name}"
        return Outcome(what, "failed" if lacking else "there", "\n".join(lacking), 0.0, names)
    for name, each in lost.items():
        if name in group.asked and any("-e " in line for line in group.asked[name].lines):
            text = f"{name} installs its {each.what}, which failed"
            return Outcome(what, "failed", text, 0.0, names)

    def todo() -> str:
        anew = "asked for" if how.force or how.update else ""
        return environments.plan(group, how.base, itself.find(how.base)).why or anew

    def act() -> bool:
        return environments.install(
            group,
            how.base,
            how.say,
            installer=how.installer,
            update=how.update,
            force=how.force,
        )

    return _done(what, names, how, todo, act)


def _done(
    what: str, names: Sequence[str], how: How, todo: Callable[[], str], act: Callable[[], bool]
) -> Outcome:
    """Do one thing, or only say what would be done."""
    began = time.monotonic()
    try:
        if how.dry_run:
            why = todo()
            return Outcome(what, "to do" if why else "there", why, 0.0, tuple(names))
        state = "made" if act() else "there"
    except Failed as error:
        how.say(f"{what}: failed")
        return Outcome(what, "failed", str(error), time.monotonic() - began, tuple(names))
    except OSError as error:
        text = f"{error.filename or how.base}: {error.strerror or error}"
        return Outcome(what, "failed", text, time.monotonic() - began, tuple(names))
    return Outcome(what, state, "", time.monotonic() - began, tuple(names))


# --- data -------------------------------------------------------------------------------------------


def prepare(chosen: Iterable[Benchmark], how: How) -> list[Outcome]:
    """Run the prepare steps of ``chosen`` benchmarks that have not finished, each once.

    Raises:
        SuiteError: every mistake in what the benchmarks say about it.
    """
    steps: dict[str, list[Step]] = {}
    problems: list[Problem] = []
    for benchmark in chosen:
        try:
            step = preparing.plan(benchmark, how.base, how.facts, how.use_current)
            if step is not None:
                steps.setdefault(step.digest, []).append(step)
        except SuiteError as error:
            problems += error.problems
    if problems or (problems := list(_clashes(steps))):
        raise SuiteError(dict.fromkeys(problems))
    return [
        _prepared(same[0], [each.benchmark.name for each in same], how) for same in steps.values()
    ]


def _clashes(steps: Mapping[str, Sequence[Step]]) -> Iterable[Problem]:
    """Different steps that would fill the same folder."""
    by_folder: dict[Path, Step] = {}
    for same in steps.values():
        step = same[0]
        other = by_folder.setdefault(step.asked.data, step)
        if other is not step and not step.asked.shared:
            text = (
                f"fills {step.asked.data}, as {other.benchmark.name} does in another way: "
                "name folders of their own with `prepare.data`"
            )
            yield Problem(step.benchmark.at("prepare"), text)


def _prepared(step: Step, names: Sequence[str], how: How) -> Outcome:
    what = f"data of {step.benchmark.name}"

    def todo() -> str:
        return "" if step.finished() and not how.force else str(step.asked.data)

    def act() -> bool:
        if (how.force or not step.finished()) and (
            why := not_installed(step.benchmark, how.base, how.use_current)
        ):
            raise Failed(f"{why}: inject suite install comes first")
        return step.run(how.say, how.force)

    return _done(what, names, how, todo, act)
