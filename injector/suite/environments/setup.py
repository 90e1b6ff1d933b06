"""Making a suite ready to run, and whether it is: sources, images and environments first, then data.

:func:`install` and :func:`prepare` provide what benchmarks need, each thing once for all that share it, and
return an outcome for each: what fails stops only the benchmarks that need it.
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
from . import data, images, install_groups, origins, own_package, requirements, sources
from .commands import Failed, Say
from .context import placeholders, variables
from .data import PrepareStep
from .images import ContainerImage
from .install_groups import InstallGroup
from .origins import Origin


@dataclass(frozen=True)
class Resources:
    """The environment and the folders of a benchmark, as a plan needs them."""

    python: str
    """The interpreter of its environment; it need not exist yet."""
    context: Facts = field(default_factory=dict)
    """The placeholders for folders: ``data``, ``source``, ``base``, …"""
    variables: Callable[[Mapping[str, Any]], Mapping[str, str]] = lambda settings: {}
    """For settings with placeholders filled, the variables of its programs, before its own ``env``."""
    folder: str | None = None
    """The folder in which its program runs, unless its settings name one."""
    container: Callable[[Mapping[str, Any]], Sequence[str]] = lambda settings: ()
    """For settings with placeholders filled, the options of ``inject run`` for its container, if any."""
    has: Callable[[str], bool] = lambda path: True
    """Whether a path exists, or may exist when the suite is ready."""


def resources_below(base: Path, use_current: bool) -> Callable[[Benchmark], Resources]:
    """A function for the resources of a benchmark below ``base``; none of them need exist yet.

    With ``use_current``, benchmarks run in the environment of ``inject`` itself.
    """

    def resources_of(benchmark: Benchmark) -> Resources:
        context = placeholders(benchmark, base)
        origin = origins.origin_of(benchmark)
        python = install_groups.python_of(benchmark, base, use_current)

        def has(path: str) -> bool:
            # A source that is not fetched yet may bring any file, and a new environment any command.
            if os.path.exists(path) or (
                origin is not None and sources.why_missing_source(origin, base)
            ):
                return True
            if Path(path).parent == python.parent and not python.exists():
                return True
            is_prepared = bool(benchmark.settings.get("prepare"))
            return is_prepared and Path(path).is_relative_to(base)

        def container(settings: Mapping[str, Any]) -> Sequence[str]:
            image = images.image_in(benchmark, settings)
            code = (
                context["benchmark_folder"],
                os.path.dirname(os.path.abspath(benchmark.where.file)),
            )
            return images.options(image, base, code) if image else ()

        # A program that was checked out runs in its source; an installed one needs no folder of its own.
        folder = context["source"] if origin is not None else None
        return Resources(
            str(python),
            context,
            lambda settings: variables(benchmark, base, settings, use_current),
            folder,
            container,
            has,
        )

    return resources_of


def why_not_ready(benchmark: Benchmark, base: Path, facts: Facts, use_current: bool) -> str | None:
    """Why a benchmark cannot be started yet, and which command comes first; None if it can."""
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
    """Why the source of a benchmark, or its environment or image, cannot be used; None if they can."""
    origin = origins.origin_of(benchmark)
    if origin is not None and (why := sources.why_missing_source(origin, base)):
        return why
    if image := images.image_of(benchmark, facts, base):
        return images.why_missing(image)
    return None if use_current else install_groups.why_missing(benchmark, base)


@dataclass(frozen=True)
class SetupOutcome:
    """What was done for one thing that benchmarks need."""

    what: str
    """Its kind and name, such as ``environment torch``."""
    state: str
    """``made``, ``there`` (already), ``to do`` (in a dry run) or ``failed``."""
    text: str = ""
    """Why it failed or is to be done, in lines."""
    seconds: float = 0.0
    benchmarks: tuple[str, ...] = ()
    """The names of the benchmarks that need it."""

    @property
    def failed(self) -> bool:
        return self.state == "failed"


@dataclass(frozen=True)
class SetupOptions:
    """The options of :func:`install` and :func:`prepare`."""

    base: Path
    arch: str
    """cuda, rocm, xpu, hpu or cpu."""
    say: Say
    use_current: bool = False
    """Whether all benchmarks use the environment of ``inject``, and nothing is installed."""
    installer: str | None = None
    """See :func:`.install_groups.install`, also for the next two."""
    update: bool = False
    force: bool = False
    dry_run: bool = False
    """Whether to find out what would be done, and do nothing."""
    facts: Facts = field(default_factory=dict)


def install(
    everything: Iterable[Benchmark], chosen: Iterable[Benchmark], options: SetupOptions
) -> list[SetupOutcome]:
    """Install the sources, and the environments or images, of the ``chosen`` benchmarks of a suite.

    An environment has what all benchmarks of its group require, chosen or not, of all in ``everything``: so
    it stays as it is when others are chosen later. Raises SuiteError with all mistakes in the benchmarks'
    ``origin`` and ``requirements``.
    """
    possible = list(_possible(chosen, options))
    group_names = {benchmark.install_group for benchmark in possible}
    members = [each for each in everything if each.enabled and each.install_group in group_names]
    image_by_name = {
        each.name: images.image_of(each, options.facts, options.base) for each in members
    }
    groups = _groups([each for each in members if image_by_name[each.name] is None], options)
    # What code in a definition would compute is not known, since it is not run: the notes list it.
    for folder in dict.fromkeys(
        each.definition for each in possible if each.definition is not None
    ):
        for note in definitions.read(folder).notes:
            options.say(note)
    outcomes = [
        _source(origin, names, options) for origin, names in _origins(possible, members).items()
    ]
    failed = {
        name: outcome for outcome in outcomes if outcome.failed for name in outcome.benchmarks
    }
    for image in filter(None, dict.fromkeys(image_by_name.get(each.name) for each in possible)):
        names = [name for name, other in image_by_name.items() if other == image]
        outcomes.append(_image(image, names, options))
    return [*outcomes, *(_environment(group, failed, options) for group in groups)]


def _possible(benchmarks: Iterable[Benchmark], options: SetupOptions) -> Iterator[Benchmark]:
    """The benchmarks that some machine could run. Of each other one it prints what it needs."""
    for benchmark in benchmarks:
        try:
            unmet = benchmark.unmet({})
        except SuiteError:  # a condition about the machine: the suite may run on another one
            unmet = ()
        if unmet:
            options.say(f"{benchmark.name}: left out, it needs {' and '.join(unmet)}")
        else:
            yield benchmark


def _groups(members: Sequence[Benchmark], options: SetupOptions) -> list[InstallGroup]:
    """The install groups of ``members``. Raises SuiteError with all mistakes in their requirements."""
    problems = ProblemList()
    required: dict[str, dict[str, requirements.Requirements]] = {}
    for benchmark in members:
        with problems.collecting():
            own = requirements.requirements_of(benchmark, options.arch, options.base)
            required.setdefault(benchmark.install_group, {})[benchmark.name] = own
    problems.check()
    return [InstallGroup(name, options.arch, each) for name, each in required.items()]


def _origins(
    possible: Iterable[Benchmark], members: Iterable[Benchmark]
) -> dict[Origin, list[str]]:
    """The origins to be fetched, with the names of the benchmarks that need them.

    Those are all origins of ``possible`` benchmarks, and of the ``members`` of their groups those that are
    packages, since the environment has them installed.
    """
    names_by_origin: dict[Origin, dict[str, None]] = {}
    for benchmarks, is_always_needed in ((possible, True), (members, False)):
        for benchmark in benchmarks:
            origin = origins.origin_of(benchmark)
            if origin is not None and (is_always_needed or origin.install):
                names_by_origin.setdefault(origin, {})[benchmark.name] = None
    return {origin: list(names) for origin, names in names_by_origin.items()}


def _source(origin: Origin, names: Sequence[str], options: SetupOptions) -> SetupOutcome:
    return _act(
        f"source {origin.name}",
        names,
        options,
        lambda: str(origin) if sources.why_missing_source(origin, options.base) else "",
        lambda: sources.install_source(origin, options.base, options.say, options.force),
    )


def _image(image: ContainerImage, names: Sequence[str], options: SetupOptions) -> SetupOutcome:
    anew = "--force" if options.force else "--update" if options.update else ""

    def todo() -> str:
        return images.why_missing(image) or anew

    def act() -> bool:
        if not anew and not containers.is_recipe(image.name) and not images.why_missing(image):
            return False
        options.say(f"image {image.name}: pulling or building it")
        images.provide(image, options.update)
        return True

    return _act(f"image {image.name}", names, options, todo, act)


def _environment(
    group: InstallGroup, failed_sources: Mapping[str, SetupOutcome], options: SetupOptions
) -> SetupOutcome:
    """Install the environment of a group; ``failed_sources`` has outcomes by the names of benchmarks."""
    names, what = tuple(group.required), f"environment {group.name}"
    if options.use_current:
        lacking = requirements.missing_packages(group.required)
        what = f"the current environment for {group.name}"
        return SetupOutcome(what, "failed" if lacking else "there", "\n".join(lacking), 0.0, names)
    for name, source in failed_sources.items():
        if name in group.required and any("-e " in line for line in group.required[name].lines):
            text = f"{name} installs its {source.what}, which failed"
            return SetupOutcome(what, "failed", text, 0.0, names)

    def todo() -> str:
        own = own_package.find_own_package(options.base)
        anew = "--force" if options.force else "--update" if options.update else ""
        return install_groups.work_left(group, options.base, own).why or anew

    def act() -> bool:
        return install_groups.install(
            group,
            options.base,
            options.say,
            installer=options.installer,
            update=options.update,
            force=options.force,
        )

    return _act(what, names, options, todo, act)


def _act(
    what: str,
    names: Sequence[str],
    options: SetupOptions,
    todo: Callable[[], str],
    act: Callable[[], bool],
) -> SetupOutcome:
    """Do one thing, or in a dry run only find out whether it would be done.

    ``what`` is that of :class:`SetupOutcome`, ``names`` are the benchmarks that need it. ``todo`` gives why
    it has to be done, or where, empty if it is there; ``act`` does it unless it is there, and returns whether
    it was done.
    """
    began = time.monotonic()
    try:
        if options.dry_run:
            why = todo()
            return SetupOutcome(what, "to do" if why else "there", why, 0.0, tuple(names))
        state = "made" if act() else "there"
    except Failed as error:
        options.say(f"{what}: failed")
        return SetupOutcome(what, "failed", str(error), time.monotonic() - began, tuple(names))
    except OSError as error:
        text = f"{error.filename or options.base}: {error.strerror or error}"
        return SetupOutcome(what, "failed", text, time.monotonic() - began, tuple(names))
    return SetupOutcome(what, state, "", time.monotonic() - began, tuple(names))


# --- data -------------------------------------------------------------------------------------------


def prepare(chosen: Iterable[Benchmark], options: SetupOptions) -> list[SetupOutcome]:
    """Run the prepare steps of ``chosen`` benchmarks that have not finished, equal ones once.

    Raises SuiteError with all mistakes in the benchmarks' ``prepare``.
    """
    steps: dict[str, list[PrepareStep]] = {}
    problems = ProblemList()
    for benchmark in _possible(chosen, options):
        with problems.collecting():
            step = data.prepare_step(benchmark, options.base, options.facts, options.use_current)
            if step is not None:
                steps.setdefault(step.digest, []).append(step)
    problems.check()
    problems.extend(_clashes(steps))
    problems.check()
    return [
        _data(equal[0], [step.benchmark.name for step in equal], options)
        for equal in steps.values()
    ]


def _clashes(steps: Mapping[str, Sequence[PrepareStep]]) -> Iterable[Problem]:
    """A problem for each step that would fill the same folder as a different one. ``steps`` are by digest."""
    step_by_folder: dict[Path, PrepareStep] = {}
    for step, *_ in steps.values():
        other = step_by_folder.setdefault(step.preparation.data, step)
        if other is not step and not step.preparation.shared:
            text = (
                f"fills {step.preparation.data}, as {other.benchmark.name} does in another way: "
                "name folders of their own with `prepare.data`"
            )
            yield Problem(step.benchmark.at("prepare"), text)


def _data(step: PrepareStep, names: Sequence[str], options: SetupOptions) -> SetupOutcome:
    what = f"data of {step.benchmark.name}"

    def todo() -> str:
        return "" if step.finished() and not options.force else str(step.preparation.data)

    def act() -> bool:
        if (options.force or not step.finished()) and (
            why := why_not_installed(
                step.benchmark, options.base, options.use_current, options.facts
            )
        ):
            raise Failed(f"{why}: inject suite install comes first")
        return step.run(options.say, options.force)

    return _act(what, names, options, todo, act)
