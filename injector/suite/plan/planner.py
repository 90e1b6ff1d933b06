"""From a suite and a machine to a plan: which processes, on which devices, with which arguments.

Pure: the same suite on the same machine gives the same plan, and nothing is started or made. What
lies on the disk (environments, data, earlier runs) comes in through
:class:`injector.suite.environments.setup.Resources`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ...store.place import clean_name
from ..config.capabilities import NodeCondition
from ..config.expressions import read_numbers
from ..config.model import Benchmark, Suite
from ..config.problems import Problem, SuiteError, meant
from ..environments.setup import Resources
from . import command_lines
from .jobs import Job, LeftOut, Plan, PlannedProcess
from .machine import Machine, PlanDevice

JOBS = "jobs"
LOG_FILE = "exp.log_file"
"""The variable that names the log of a benchmark, in the form of the Deep Learning Benchmarking Suite."""
DECIDING = {"num_machines": (), **dict.fromkeys(("method", "n", "devices"), ("plan",))}
"""Keys that decide which processes there are, and the keys above them."""
MARK = "INJECT_SUITE_RUN"
"""The variable by which all processes of a run are known: its folder."""


@dataclass(frozen=True)
class PlanOptions:
    """What of a run is chosen on the command line."""

    folder: str
    """The suite's run folder, absolute; it need not exist."""
    repeat: int = 1
    pin: bool = False
    """Whether processes that run side by side are bound to cores of their own."""
    history: Mapping[str, float] = field(default_factory=dict)
    """Seconds that a benchmark took when it last ran."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """For the record."""


def plan_suite(
    suite: Suite,
    machine: Machine,
    base: str,
    resources: Callable[[Benchmark], Resources],
    options: PlanOptions,
) -> Plan:
    """All that ``suite`` comes to on ``machine``.

    Repeats go round: every benchmark once, then every benchmark a second time.

    Raises:
        SuiteError: every mistake in every benchmark.
    """
    planner = _Planner(machine, options)
    rounds = [list(planner.jobs(benchmark, resources)) for benchmark in suite.benchmarks]
    if planner.problems:
        raise SuiteError(planner.problems)
    order = [jobs[turn] for turn in range(options.repeat) for jobs in rounds if jobs]
    return Plan(
        {"name": suite.name, "file": os.path.abspath(suite.file)},
        base,
        {**machine.described(), "facts": planner.facts},
        planner.benchmarks,
        tuple(order),
        tuple(planner.left_out),
        dict(options.options),
    )


class _Planner:
    """Plans benchmarks one after the other, and keeps what is wrong with them."""

    def __init__(self, machine: Machine, options: PlanOptions) -> None:
        self.machine = machine
        self.options = options
        self.facts = machine.facts()
        self.problems: list[Problem] = []
        self.left_out: list[LeftOut] = []
        self.benchmarks: dict[str, dict[str, Any]] = {}
        self._names: set[str] = set()
        self._logs: dict[str, str] = {}
        """By the path of a log the benchmark that writes it."""

    def jobs(
        self, benchmark: Benchmark, resources: Callable[[Benchmark], Resources]
    ) -> Iterator[Job]:
        """The jobs of one benchmark, a repeat each; none if it is left out or wrong."""
        try:
            if reason := self._why_not(benchmark):
                weight = benchmark.weight if benchmark.enabled else 0.0
                self.left_out.append(LeftOut(benchmark.name, reason, weight=weight))
                return
            stem = self._stem(benchmark.name)
            made = _JobPlanner(
                benchmark, stem, self.machine, self.facts, resources(benchmark), self.options
            )
            jobs = [made.job(turn) for turn in range(self.options.repeat)]
            parameters = self._parameters(benchmark, made)
        except SuiteError as error:
            self.problems += error.problems
            return
        self.benchmarks[benchmark.name] = {
            "family": benchmark.family,
            "values": dict(benchmark.values),
            "group": benchmark.group,
            "tags": list(benchmark.tags),
            "weight": benchmark.weight,
            "settings": made.settings,
            "parameters": parameters,
            **_prepare_settings(benchmark),
        }
        yield from jobs

    def _parameters(self, benchmark: Benchmark, made: _JobPlanner) -> dict[str, Any]:
        """The variables of its own, for the record. Raises SuiteError where another has its log."""
        found = benchmark.parameters(made.context)
        log = found.get(LOG_FILE)
        if isinstance(log, str) and log:
            found[LOG_FILE] = log = os.path.abspath(os.path.expanduser(log))
            other = self._logs.setdefault(log, benchmark.name)
            if other != benchmark.name:
                text = f"{LOG_FILE} is {log}, which is that of {other} as well"
                raise SuiteError([Problem(benchmark.where, text)])
        return found

    def _why_not(self, benchmark: Benchmark) -> str | None:
        """Why this benchmark is not to run here, if it is not.

        Raises SuiteError where what decides on its processes is known of each process alone.
        """
        if not benchmark.enabled:
            return "not enabled"
        settings = {"num_machines": benchmark.settings.get("num_machines"), **benchmark.plan}
        if late := [key for key in DECIDING if "{" in str(settings.get(key))]:
            text = "is known once there are processes, and this decides which there are: {gpu_count} is known"
            raise SuiteError(
                Problem(benchmark.at(*DECIDING[key], key), f"{settings[key]} {text}")
                for key in late
            )
        machines = int(benchmark.settings.get("num_machines") or 1)
        if machines > self.machine.count:
            there = f"there are {self.machine.count}" if self.machine.count > 1 else "this is one"
            return f"needs {machines} machines; {there}"
        wanted, devices = (
            read_numbers(benchmark.plan.get("devices")) or 1,
            len(self.machine.devices),
        )
        if not isinstance(wanted, list) and wanted > devices:
            return f"needs {wanted} devices; there {'is' if devices == 1 else 'are'} {devices}"
        keys = [key for key in ("requires_capabilities", "when") if benchmark.settings.get(key)]
        return self._unmet(benchmark, machines) if keys else None

    def _unmet(self, benchmark: Benchmark, machines: int) -> str | None:
        """What it requires and there are not enough machines with."""
        if not self.machine.nodes:
            unmet = benchmark.unmet(self.facts, self.machine.devices_known)
            return f"needs {' and '.join(unmet)}" if unmet else None
        by_node = _unmet_by_node(benchmark, self.machine)
        able = sum(not unmet for unmet in by_node.values())
        if able >= machines:
            return None
        needs = " and ".join(dict.fromkeys(text for unmet in by_node.values() for text in unmet))
        return f"needs {needs}" + (f", which {able} of {len(by_node)} nodes have" if able else "")

    def _stem(self, name: str) -> str:
        """``name`` as the beginning of file names, unlike that of any other benchmark."""
        stem, number = clean_name(name), 1
        while (found := stem if number == 1 else f"{stem}.{number}") in self._names:
            number += 1
        self._names.add(found)
        return found


def _unmet_by_node(benchmark: Benchmark, machine: Machine) -> dict[str, tuple[str, ...]]:
    """By machine that a job may get, the conditions that do not hold there."""
    alike: dict[str, tuple[str, ...]] = {}
    found = {}
    for name in machine.nodes:
        facts = machine.facts_on(name)
        key = repr(facts)
        if key not in alike:
            alike[key] = benchmark.unmet(facts)
        found[name] = alike[key]
    return found


class _Place(NamedTuple):
    """Where one process runs."""

    machines: tuple[int, ...]
    devices: tuple[PlanDevice, ...]
    """Of each machine."""
    number: int
    """Among the processes of a machine, of which there are"""
    sides: int


class _JobPlanner:
    """Makes the jobs of one benchmark."""

    def __init__(
        self,
        benchmark: Benchmark,
        stem: str,
        machine: Machine,
        facts: Mapping[str, Any],
        resources: Resources,
        options: PlanOptions,
    ) -> None:
        self.benchmark = benchmark
        self.stem = stem
        self.machine = machine
        self.resources = resources
        self.options = options
        self.context = {**facts, **resources.context}
        self.settings: dict[str, Any] = {}
        """Filled, as its first process has them."""

    def job(self, turn: int) -> Job:
        """The job of one repeat, counted from 0."""
        key = f"{self.stem}.R{turn}"
        places = self._places()
        processes = [self._process(f"{key}.D{n}", place) for n, place in enumerate(places)]
        return Job(key, self.benchmark.name, turn, tuple(processes), *self._where())

    def _where(self) -> tuple[tuple[str, ...], tuple[NodeCondition, ...]]:
        """The machines that it may have, where not all of them will do, and what they have to judge."""
        if not self.benchmark.settings.get("requires_capabilities"):
            return (), ()
        if not self.machine.devices_known:
            return (), self.benchmark.node_conditions(self.context)
        by_node = _unmet_by_node(self.benchmark, self.machine)
        able = tuple(name for name, unmet in by_node.items() if not unmet)
        return able if len(able) < len(by_node) else (), ()

    def _places(self) -> list[_Place]:
        """Where each process runs. Raises SuiteError for an unknown method."""
        plan_suite = self.benchmark.plan
        devices = self._devices(read_numbers(plan_suite.get("devices")))
        machines = tuple(range(int(self.benchmark.settings.get("num_machines") or 1)))
        method = str(plan_suite["method"]).replace("-", "_")
        if method == "per_gpu":
            one_each = [(device,) for device in devices]
            sides = len(devices)
            return [_Place((m,), d, n, sides) for m in machines for n, d in enumerate(one_each)]
        if method == "njobs":
            sides = self._count(plan_suite.get("n", 1))
            return [_Place(machines, devices, n, sides) for n in range(sides)]
        text = f"no plan is called {plan_suite['method']!r}{meant(method, ('per_gpu', 'njobs'))}"
        raise SuiteError([Problem(self.benchmark.at("plan", "method"), text)])

    def _devices(self, wanted: int | list[int] | None) -> tuple[PlanDevice, ...]:
        """The first so many devices, or those with these numbers, in this order; of no number the processor.

        Raises SuiteError for a number that the machine lacks or that stands twice.
        """
        if not isinstance(wanted, list):
            return self.machine.devices[:wanted]
        if not wanted:
            return (PlanDevice("cpu", 0),)
        there = {device.number: device for device in self.machine.devices}
        twice = [n for n in dict.fromkeys(wanted) if wanted.count(n) > 1]
        texts = [f"device {n} stands {wanted.count(n)} times" for n in twice]
        if lost := [str(n) for n in dict.fromkeys(wanted) if n not in there]:
            named = ", ".join(device.key for device in self.machine.devices)
            texts.append(f"there is no device {', '.join(lost)}; there is {named}")
        if texts:
            at = self.benchmark.at("plan", "devices")
            raise SuiteError([Problem(at, text) for text in texts])
        return tuple(there[n] for n in wanted)

    def _count(self, given: object) -> int:
        if isinstance(given, int) and given >= 1 and given is not True:
            return given
        text = f"n is a number of jobs, at least 1, not {given!r}"
        raise SuiteError([Problem(self.benchmark.at("plan", "n"), text)])

    def _process(self, key: str, place: _Place) -> PlannedProcess:
        devices, run = place.devices, f"{JOBS}/{key}"
        keys = tuple(device.key_on(each) for each in place.machines for device in devices)
        # One of four devices leaves the others' cores alone, though nothing else runs there.
        beside = len(self.machine.devices) // len(devices)
        shares = max(place.sides, beside if devices[0].kind == self.machine.arch else 1)
        cores = self.machine.share(place.number, shares)
        record = os.path.join(self.options.folder, run)
        out = os.path.join(record, "out")
        context = {
            **self.context,
            "device_count": len(keys),
            "devices": list(keys),
            "out": out,
        }
        settings = self.benchmark.filled(context)
        self.settings = self.settings or settings
        filled = replace(self.benchmark, settings=settings)
        container = self.resources.container(settings)
        python = "" if container else self.resources.python  # commands are the image's there
        program = command_lines.program_of(filled, python, self.benchmark.arguments(settings))
        folder = self._own_folder(settings) or self.resources.folder or out
        words = self._words(filled, program, place, python)
        self._check(filled, program, words[0], folder, bool(container))
        limit = filled.max_duration
        return PlannedProcess(
            key,
            keys,
            tuple(
                command_lines.inject_argv(
                    filled, python or sys.executable, record, words, container
                )
            ),
            self._environment(filled, devices, record, len(cores)),
            folder,
            run,
            limit,
            min(self.options.history.get(self.benchmark.name, limit), limit),
            cores if self.options.pin or filled.plan.get("pin") else (),
            place.machines,
        )

    def _check(
        self,
        filled: Benchmark,
        program: command_lines.ProgramCommand,
        first: str,
        folder: str,
        contained: bool,
    ) -> None:
        """Raise SuiteError for what it names and is not there: a script, a command, a folder, a voirfile.

        ``first``: the word that starts it, which may be that of a launcher. What an image has is not known
        here, nor what a module of an environment that is not installed yet would be.
        """
        problems = [
            Problem(self.benchmark.at("voirfile"), f"there is no file {path}")
            for path in command_lines.voirfiles(filled)
            if path != "auto" and not self.resources.has(path)
        ]
        of_image = contained and (program.kind == "command" or os.path.isabs(program.target))
        if not of_image and (text := self._no_program(program, folder)):
            problems.append(Problem(self.benchmark.at("run"), text))
        launches = first not in ("-m", program.target)
        if launches and not contained and not self._has_launcher(first):
            at = self.benchmark.at("plan", "launcher")
            problems.append(Problem(at, _no_command(first)))
        if not contained and (text := self._no_folder(folder)):
            problems.append(Problem(self.benchmark.at("folder"), text))
        if problems:
            raise SuiteError(problems)

    def _has_launcher(self, path: str) -> bool:
        """Whether a launcher is there; one without a folder is looked for where it runs."""
        if "/" in path:
            return self.resources.has(path)
        return bool(self.machine.engine) or shutil.which(path) is not None

    def _own_folder(self, settings: Mapping[str, Any]) -> str:
        """``folder``, absolute; empty where it does not say so itself."""
        written = settings.get("folder")
        return str(self.benchmark.path(str(written), "folder")) if written else ""

    def _no_folder(self, folder: str) -> str:
        """Why it cannot run in ``folder``: what lies below the base may still be made."""
        base = str(self.context.get("base") or self.options.folder)
        there = Path(folder).is_relative_to(base) or self.resources.has(os.path.join(folder, ""))
        return "" if there else f"there is no folder {folder}"

    def _no_program(self, program: command_lines.ProgramCommand, folder: str) -> str:
        """What of the program is not there."""
        target, has = program.target, self.resources.has
        if program.kind == "command" and not has(target):
            return _no_command(target)
        if program.kind == "command" and os.path.basename(target).startswith("python"):
            target = program.arguments[0] if program.arguments else ""
            script = target.endswith(".py")
            return "" if not script or has(os.path.join(folder, target)) else self._no_file(target)
        if program.kind == "script" and not has(os.path.join(folder, target)):
            return self._no_file(target)
        return ""

    def _no_file(self, target: str) -> str:
        text = f"there is no file {target}"
        if os.path.isabs(target):
            return text
        beside = os.path.dirname(os.path.abspath(self.benchmark.at("run").file))
        own = self._own_folder(self.settings) or self.resources.folder
        places = dict.fromkeys(str(p) for p in (beside, self.benchmark.definition, own) if p)
        return f"{text}: not in {', nor in '.join(places)}"

    def _words(
        self,
        filled: Benchmark,
        program: command_lines.ProgramCommand,
        place: _Place,
        python: str,
    ) -> list[str]:
        if filled.plan["method"] == "per_gpu":
            return program.words()
        kind = place.devices[0].kind
        ranks = command_lines.Ranks(len(place.devices), len(place.machines), kind)
        return command_lines.launcher_argv(filled, program, python, ranks)

    def _environment(
        self, filled: Benchmark, devices: Sequence[PlanDevice], record: str, cores: int
    ) -> dict[str, str | None]:
        own = filled.settings.get("env") or {}
        ranks = 1 if filled.plan["method"] == "per_gpu" else len(devices)
        return {
            "OMP_NUM_THREADS": str(max(1, cores // ranks)),
            **visible_devices(devices),
            **self.resources.variables(filled.settings),
            **{str(name): None if value is None else _text(value) for name, value in own.items()},
            MARK: record,
        }


def _no_command(path: str) -> str:
    """That ``path`` is not there; where another command of its name is found."""
    folder, name = os.path.split(path)
    text = f"there is no command {name} in {folder or 'the environment, nor on the PATH'}"
    other = shutil.which(name)
    return f"{text}; there is {other}, if its whole path is given" if other else text


def _prepare_settings(benchmark: Benchmark) -> dict[str, Any]:
    """What tells its prepare step from others, as it was written: a suite that is resumed needs it."""
    if not benchmark.settings.get("prepare"):
        return {}
    keys = ("prepare", "argv", "env")
    written = {key: benchmark.settings[key] for key in keys if key in benchmark.settings}
    return {"written": written, "variables": dict(benchmark.variables)}


def visible_devices(devices: Sequence[PlanDevice]) -> dict[str, str | None]:
    """The variables that show a program these devices, and none beside them."""
    tokens = ",".join(device.token for device in devices)
    kind = devices[0].kind
    if kind == "cuda":
        # Counted as the driver counts them; CUDA by itself counts the fastest first.
        return {"CUDA_VISIBLE_DEVICES": tokens, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if kind == "rocm":
        # The others count among those that the first leaves, so they must not stand beside it.
        hidden = {"HIP_VISIBLE_DEVICES": None, "CUDA_VISIBLE_DEVICES": None}
        return {"ROCR_VISIBLE_DEVICES": tokens, **hidden}
    if kind == "xpu":
        return {"ZE_AFFINITY_MASK": tokens}
    return {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}


def _text(value: object) -> str:
    """A value of YAML as a variable has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
