"""Getting a suite ready, and whether it is: sources and environments, then data.

A failure affects one benchmark only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ... import containers
from ..config import definitions
from ..config.model import Benchmark, Facts
from ..config.problems import Problem, ProblemList, SuiteError
from . import data, folders, images, install_groups, origins, own_package, requirements, sources
from .commands import Failed, Say
from .context import placeholders, variables
from .data import PrepareStep
from .images import ContainerImage
from .install_groups import InstallGroup
from .origins import Origin


@dataclass(frozen=True)
class Resources:
    """What one benchmark stands on: its environment and its folders."""

    python: str
    """The interpreter of its environment; it need not exist yet."""
    context: Facts = field(default_factory=dict)
    """What placeholders of folders mean: ``data``, ``source``, ``base``, …"""
    variables: Callable[[Mapping[str, Any]], Mapping[str, str]] = lambda settings: {}
    """The environment that its programs are given, before its own ``env``; of filled settings."""
    folder: str | None = None
    """Where its program runs, unless it says so itself."""
    container: Callable[[Mapping[str, Any]], Sequence[str]] = lambda settings: ()
    """The options of ``inject run`` for the container that it runs in, if it does; of filled settings."""
    has: Callable[[str], bool] = lambda path: True
    """Whether a file is there, or may come with a source that is still to be fetched."""


def resources_below(base: Path, use_current: bool) -> Callable[[Benchmark], Resources]:
    """Tells what a benchmark stands on below ``base``; nothing of it need be there yet.

    ``use_current``: in the environment of ``inject`` itself.
    """

    def ground(benchmark: Benchmark) -> Resources:
        context = placeholders(benchmark, base)
        # What was checked out is run where it lies; what was installed needs no place of its own.
        origin = origins.origin_of(benchmark)
        python = install_groups.python_of(benchmark, base, use_current)

        def has(path: str) -> bool:
            if os.path.exists(path) or (
                origin is not None and sources.why_missing_source(origin, base)
            ):
                return True
            if Path(path).parent == python.parent and not python.exists():
                return True  # a command of an environment that is still to be made
            made = bool(benchmark.settings.get("prepare"))
            return made and Path(path).is_relative_to(base)

        def container(settings: Mapping[str, Any]) -> Sequence[str]:
            image = images.image_in(benchmark, settings)
            code = (
                context["benchmark_folder"],
                os.path.dirname(os.path.abspath(benchmark.where.file)),
            )
            return images.options(image, base, code) if image else ()

        folder = context["source"] if origin is not None else None
        return Resources(
            str(python),
            context,
            lambda settings: variables(benchmark, base, settings, use_current),
            folder,
            container,
            has,
        )

    return ground


def why_not_ready(benchmark: Benchmark, base: Path, facts: Facts, use_current: bool) -> str | None:
    """Why nothing of a benchmark can be started yet, and what would help; None if it can."""
    try:
        if why := why_not_installed(benchmark, base, use_current, facts):
            return f"{why}: inject suite install comes first"
        if not data.is_prepared(benchmark, base, facts, use_current):
            return "its data are not prepared: inject suite prepare comes first"
    except SuiteError as error:
        return str(error)
    return None


def why_not_installed(
    benchmark: Benchmark, base: Path, use_current: bool, facts: Facts
) -> str | None:
    """Why the source, or the environment or image, of a benchmark cannot be used; None if both can."""
    origin = origins.origin_of(benchmark)
    if origin is not None and (why := sources.why_missing_source(origin, base)):
        return why
    if image := images.image_of(benchmark, facts, base):
        return images.why_missing(image)
    return None if use_current else install_groups.why_missing(benchmark, base)


@dataclass(frozen=True)
class SetupOutcome:
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
class SetupOptions:
    """Options of install and prepare."""

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
    facts: Facts = field(default_factory=dict)
    """What is known of the machine, by the names of its placeholders."""


def install(
    everything: Iterable[Benchmark], chosen: Iterable[Benchmark], how: SetupOptions
) -> list[SetupOutcome]:
    """Have sources, and environments or images, for the ``chosen`` among ``everything`` of a suite.

    An environment holds what all benchmarks of its group want, chosen or not: choosing others later
    changes nothing in it.

    Raises:
        SuiteError: every mistake in what the benchmarks say about it.
    """
    wanted = list(_wanted(chosen, how))
    names = {benchmark.install_group for benchmark in wanted}
    members = [each for each in everything if each.enabled and each.install_group in names]
    by_name = {each.name: images.image_of(each, how.facts, how.base) for each in members}
    groups = _groups([each for each in members if by_name[each.name] is None], how)
    # What of the definitions is computed by code that is not run.
    for folder in dict.fromkeys(each.definition for each in wanted if each.definition is not None):
        for note in definitions.read(folder).notes:
            how.say(note)
    found = [_source(origin, by, how) for origin, by in _origins(wanted, members).items()]
    lost = {name: each for each in found if each.failed for name in each.benchmarks}
    for image in filter(None, dict.fromkeys(by_name.get(each.name) for each in wanted)):
        found += [_image(image, [name for name in by_name if by_name[name] == image], how)]
    return [*found, *(_environment(group, lost, how) for group in groups)]


def _wanted(benchmarks: Iterable[Benchmark], how: SetupOptions) -> Iterator[Benchmark]:
    """Those whose ``requires_capabilities`` hold on some machine: what variables rule out is named."""
    for benchmark in benchmarks:
        try:
            unmet = benchmark.unmet({})
        except SuiteError:  # about machines: the one that it runs on may be another
            unmet = ()
        if unmet:
            how.say(f"{benchmark.name}: left out, it needs {' and '.join(unmet)}")
        else:
            yield benchmark


def _groups(members: Sequence[Benchmark], how: SetupOptions) -> list[InstallGroup]:
    """The install groups; raises every mistake in them."""
    problems = ProblemList()
    required: dict[str, dict[str, requirements.Requirements]] = {}
    for benchmark in members:
        with problems.collecting():
            folders.venv(how.base, benchmark.install_group)
            wants = requirements.requirements_of(benchmark, how.arch, how.base)
            required.setdefault(benchmark.install_group, {})[benchmark.name] = wants
    problems.check()
    return [InstallGroup(name, how.arch, each) for name, each in required.items()]


def _origins(wanted: Iterable[Benchmark], members: Iterable[Benchmark]) -> dict[Origin, list[str]]:
    """The sources of what is ``wanted``, and those that are installed for any of the ``members``."""
    found: dict[Origin, dict[str, None]] = {}
    for some, all_of_them in ((wanted, True), (members, False)):
        for benchmark in some:
            origin = origins.origin_of(benchmark)
            if origin is not None and (all_of_them or origin.install):
                found.setdefault(origin, {})[benchmark.name] = None
    return {origin: list(names) for origin, names in found.items()}


def _source(origin: Origin, names: Sequence[str], how: SetupOptions) -> SetupOutcome:
    def todo() -> str:
        return "" if sources.why_missing_source(origin, how.base) is None else str(origin)

    def act() -> bool:
        return sources.install_source(origin, how.base, how.say, how.force)

    return _act(f"source {origin.name}", names, how, todo, act)


def _image(image: ContainerImage, names: Sequence[str], how: SetupOptions) -> SetupOutcome:
    anew = how.force or how.update

    def todo() -> str:
        return images.why_missing(image) or ("--force" if how.force else "--update" if anew else "")

    def act() -> bool:
        if not anew and not containers.is_recipe(image.name) and not images.why_missing(image):
            return False
        how.say(f"image {image.name}: pulling or building it")
        images.provide(image, how.update)
        return True

    return _act(f"image {image.name}", names, how, todo, act)


def _environment(
    group: InstallGroup, lost: Mapping[str, SetupOutcome], how: SetupOptions
) -> SetupOutcome:
    names, what = tuple(group.required), f"environment {group.name}"
    if how.use_current:
        lacking = requirements.missing_packages(group.required)
        what = f"the current environment for {group.name}"
        return SetupOutcome(what, "failed" if lacking else "there", "\n".join(lacking), 0.0, names)
    for name, each in lost.items():
        if name in group.required and any("-e " in line for line in group.required[name].lines):
            text = f"{name} installs its {each.what}, which failed"
            return SetupOutcome(what, "failed", text, 0.0, names)

    def todo() -> str:
        anew = "--force" if how.force else "--update" if how.update else ""
        return (
            install_groups.work_left(group, how.base, own_package.find_own_package(how.base)).why
            or anew
        )

    def act() -> bool:
        return install_groups.install(
            group,
            how.base,
            how.say,
            installer=how.installer,
            update=how.update,
            force=how.force,
        )

    return _act(what, names, how, todo, act)


def _act(
    what: str,
    names: Sequence[str],
    how: SetupOptions,
    todo: Callable[[], str],
    act: Callable[[], bool],
) -> SetupOutcome:
    """Do one thing, or only say what would be done."""
    began = time.monotonic()
    try:
        if how.dry_run:
            why = todo()
            return SetupOutcome(what, "to do" if why else "there", why, 0.0, tuple(names))
        state = "made" if act() else "there"
    except Failed as error:
        how.say(f"{what}: failed")
        return SetupOutcome(what, "failed", str(error), time.monotonic() - began, tuple(names))
    except OSError as error:
        text = f"{error.filename or how.base}: {error.strerror or error}"
        return SetupOutcome(what, "failed", text, time.monotonic() - began, tuple(names))
    return SetupOutcome(what, state, "", time.monotonic() - began, tuple(names))


# --- data -------------------------------------------------------------------------------------------


def prepare(chosen: Iterable[Benchmark], how: SetupOptions) -> list[SetupOutcome]:
    """Run the prepare steps of ``chosen`` benchmarks that have not finished, each once.

    Raises:
        SuiteError: every mistake in what the benchmarks say about it.
    """
    steps: dict[str, list[PrepareStep]] = {}
    problems = ProblemList()
    for benchmark in _wanted(chosen, how):
        with problems.collecting():
            step = data.prepare_step(benchmark, how.base, how.facts, how.use_current)
            if step is not None:
                steps.setdefault(step.digest, []).append(step)
    problems.check()
    problems.extend(_clashes(steps))
    problems.check()
    return [
        _prepared(same[0], [each.benchmark.name for each in same], how) for same in steps.values()
    ]


def _clashes(steps: Mapping[str, Sequence[PrepareStep]]) -> Iterable[Problem]:
    """Different steps that would fill the same folder."""
    by_folder: dict[Path, PrepareStep] = {}
    for same in steps.values():
        step = same[0]
        other = by_folder.setdefault(step.preparation.data, step)
        if other is not step and not step.preparation.shared:
            text = (
                f"fills {step.preparation.data}, as {other.benchmark.name} does in another way: "
                "name folders of their own with `prepare.data`"
            )
            yield Problem(step.benchmark.at("prepare"), text)


def _prepared(step: PrepareStep, names: Sequence[str], how: SetupOptions) -> SetupOutcome:
    what = f"data of {step.benchmark.name}"

    def todo() -> str:
        return "" if step.finished() and not how.force else str(step.preparation.data)

    def act() -> bool:
        if (how.force or not step.finished()) and (
            why := why_not_installed(step.benchmark, how.base, how.use_current, how.facts)
        ):
            raise Failed(f"{why}: inject suite install comes first")
        return step.run(how.say, how.force)

    return _act(what, names, how, todo, act)
