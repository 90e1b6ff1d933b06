"""From a suite and a machine to a plan: which processes, on which devices, with which arguments.

:func:`plan_suite` goes through the benchmarks of a suite. :class:`_Planner` decides whether the machine can
run a benchmark at all; :class:`_JobPlanner` then lays its processes out over devices, cores and machines, and
fills in the placeholders of its settings. :mod:`.command_lines` writes the command line of each process,
:mod:`.existence` looks whether what it names is there, and :mod:`.jobs` has the classes that a plan consists
of.

Planning is pure: the same suite on the same machine gives the same plan, and nothing is started or created.
What it has to know of the disk (environments, data, earlier runs) comes in through
:class:`injector.suite.environments.setup.Resources`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ...store.place import clean_name
from ..config.capabilities import NodeCondition
from ..config.functions import read_numbers
from ..config.model import Benchmark, Suite
from ..config.problems import Problem, SuiteError, meant
from ..config.templates import looks_like_template
from ..environments.setup import Resources
from . import command_lines
from .existence import ProgramStart, missing
from .jobs import Job, LeftOut, Plan, PlannedProcess
from .machine import Machine, PlanDevice, visible_devices

JOBS = "jobs"
LOG_FILE = "exp.log_file"
"""The variable that names a benchmark's log in the format of the Deep Learning Benchmarking Suite."""
DECIDING = {"num_machines": (), **dict.fromkeys(("method", "n", "devices"), ("plan",))}
"""Settings that decide how many processes there are, each with the keys it is nested under.

They cannot have placeholders that differ between processes, such as ``{device_count}``.
"""
MARK = "INJECT_SUITE_RUN"
"""The environment variable that holds a process's run folder.

Whatever a program starts inherits it, so all processes of a run can be found, even those that left its tree.
"""


@dataclass(frozen=True)
class PlanOptions:
    """What the command line decides about a plan."""

    folder: str
    """The suite's run folder, as an absolute path; it need not exist."""
    repeat: int = 1
    """How many times every benchmark runs."""
    pin: bool = False
    """Whether processes that run side by side are bound to cores of their own."""
    history: Mapping[str, float] = field(default_factory=dict)
    """By benchmark, the seconds that it took when it last ran."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """All options of the command line, which the plan only records."""


def plan_suite(
    suite: Suite,
    machine: Machine,
    base: str,
    resources: Callable[[Benchmark], Resources],
    options: PlanOptions,
) -> Plan:
    """Plan every benchmark of ``suite`` on ``machine``.

    ``base`` is the folder of environments and data; ``resources`` gives what is installed and prepared for a
    benchmark. Raises SuiteError with every mistake in every benchmark, not only the first one.
    """
    planner = _Planner(machine, options)
    jobs_by_benchmark = [list(planner.jobs(benchmark, resources)) for benchmark in suite.benchmarks]
    if planner.problems:
        raise SuiteError(planner.problems)
    # Every benchmark runs once before any runs a second time: a suite that is cut short has a figure for
    # each, and a machine that slows down in the course of hours does so for all of them alike.
    order = [jobs[repeat] for repeat in range(options.repeat) for jobs in jobs_by_benchmark if jobs]
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
    """Plans benchmarks one after the other, and collects the mistakes in them."""

    def __init__(self, machine: Machine, options: PlanOptions) -> None:
        self.machine = machine
        self.options = options
        self.facts = machine.facts()
        self.problems: list[Problem] = []
        self.left_out: list[LeftOut] = []
        self.benchmarks: dict[str, dict[str, Any]] = {}
        self._stems: set[str] = set()
        """The stems of file names that are in use."""
        self._logs: dict[str, str] = {}
        """The benchmark that writes each log, by the log's path."""

    def jobs(
        self, benchmark: Benchmark, resources: Callable[[Benchmark], Resources]
    ) -> Iterator[Job]:
        """Yield the jobs of one benchmark, one for each repeat.

        There are none if it is left out (it then stands in ``left_out``) or has mistakes (in ``problems``).
        """
        try:
            if reason := self._why_left_out(benchmark):
                # One that should have run counts in the suite's score with 0; a disabled one does not.
                weight = benchmark.weight if benchmark.enabled else 0.0
                self.left_out.append(LeftOut(benchmark.name, reason, weight=weight))
                return
            stem = self._unique_stem(benchmark.name)
            job_planner = _JobPlanner(
                benchmark, stem, self.machine, self.facts, resources(benchmark), self.options
            )
            jobs = [job_planner.job(repeat) for repeat in range(self.options.repeat)]
            parameters = self._parameters(benchmark, job_planner.context)
        except SuiteError as error:
            # Planning goes on with the next benchmark, so that one run of the command shows all mistakes.
            self.problems += error.problems
            return
        self.benchmarks[benchmark.name] = {
            "family": benchmark.family,
            "values": dict(benchmark.values),
            "group": benchmark.group,
            "tags": list(benchmark.tags),
            "weight": benchmark.weight,
            "settings": job_planner.settings,
            "parameters": parameters,
            **_prepare_settings(benchmark),
        }
        yield from jobs

    def _parameters(self, benchmark: Benchmark, context: Mapping[str, Any]) -> dict[str, Any]:
        """The benchmark's own variables with their placeholders filled, which the plan records.

        Raises SuiteError if another benchmark writes to the same log.
        """
        parameters = benchmark.parameters(context)
        log = parameters.get(LOG_FILE)
        if isinstance(log, str) and log:
            parameters[LOG_FILE] = log = os.path.abspath(os.path.expanduser(log))
            other = self._logs.setdefault(log, benchmark.name)
            if other != benchmark.name:
                text = f"{LOG_FILE} is {log}, which is that of {other} as well"
                raise SuiteError([Problem(benchmark.where, text)])
        return parameters

    def _why_left_out(self, benchmark: Benchmark) -> str | None:
        """Why the benchmark will not run on this machine; None if it will.

        Raises SuiteError if a setting that decides how many processes there are holds a placeholder that
        has no value until there are processes.
        """
        if not benchmark.enabled:
            return "not enabled"
        settings = {"num_machines": benchmark.settings.get("num_machines"), **benchmark.plan}
        if late := [key for key in DECIDING if looks_like_template(str(settings.get(key)))]:
            text = "is known once there are processes, and this decides which there are: {gpu_count} is known"
            raise SuiteError(
                Problem(benchmark.at(*DECIDING[key], key), f"{settings[key]} {text}")
                for key in late
            )
        machines = int(benchmark.settings.get("num_machines") or 1)
        if machines > self.machine.count:
            there = f"there are {self.machine.count}" if self.machine.count > 1 else "this is one"
            return f"needs {machines} machines; {there}"
        wanted = read_numbers(benchmark.plan.get("devices")) or 1
        devices = len(self.machine.devices)
        # A list names its devices; those that are missing are a mistake in the suite (see _devices).
        if not isinstance(wanted, list) and wanted > devices:
            return f"needs {wanted} devices; there {'is' if devices == 1 else 'are'} {devices}"
        keys = [key for key in ("requires_capabilities", "when") if benchmark.settings.get(key)]
        return self._unmet_needs(benchmark, machines) if keys else None

    def _unmet_needs(self, benchmark: Benchmark, machines: int) -> str | None:
        """The benchmark's conditions, as a sentence, if fewer than ``machines`` machines meet them all."""
        if not self.machine.nodes:
            unmet = benchmark.unmet(self.facts, self.machine.devices_known)
            return f"needs {' and '.join(unmet)}" if unmet else None
        by_node = _unmet_by_node(benchmark, self.machine)
        # A heterogeneous cluster: the job runs on those nodes that will do (_JobPlanner._nodes), if there
        # are enough of them.
        able = sum(not unmet for unmet in by_node.values())
        if able >= machines:
            return None
        needs = " and ".join(dict.fromkeys(text for unmet in by_node.values() for text in unmet))
        return f"needs {needs}" + (f", which {able} of {len(by_node)} nodes have" if able else "")

    def _unique_stem(self, name: str) -> str:
        """``name`` as the stem of file names, numbered if another benchmark's comes out the same."""
        clean, number = clean_name(name), 1
        while (stem := clean if number == 1 else f"{clean}.{number}") in self._stems:
            number += 1
        self._stems.add(stem)
        return stem


def _unmet_by_node(benchmark: Benchmark, machine: Machine) -> dict[str, tuple[str, ...]]:
    """The conditions that do not hold on each machine that a job may get, by the machine's name."""
    # A cluster has thousands of nodes of a few kinds: conditions are evaluated once for each kind.
    unmet_by_facts: dict[str, tuple[str, ...]] = {}
    unmet = {}
    for name in machine.nodes:
        facts = machine.facts_on(name)
        key = repr(facts)
        if key not in unmet_by_facts:
            unmet_by_facts[key] = benchmark.unmet(facts)
        unmet[name] = unmet_by_facts[key]
    return unmet


class _Placement(NamedTuple):
    """Where one process runs."""

    machines: tuple[int, ...]
    """The job's machines, counted from 0; more than one for a program that spans them."""
    devices: tuple[PlanDevice, ...]
    """The devices that it uses on each of these machines."""
    position: int
    """Its number among the processes that run side by side on a machine."""
    side_by_side: int
    """How many such processes there are."""


class _JobPlanner:
    """Plans the jobs of one benchmark."""

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
        """The benchmark's settings with the placeholders filled as for the first process."""

    def job(self, repeat: int) -> Job:
        """The job of one repeat, counted from 0."""
        key = f"{self.stem}.R{repeat}"
        placements = self._placements()
        processes = [
            self._process(f"{key}.D{n}", placement) for n, placement in enumerate(placements)
        ]
        return Job(key, self.benchmark.name, repeat, tuple(processes), *self._nodes())

    def _nodes(self) -> tuple[tuple[str, ...], tuple[NodeCondition, ...]]:
        """The nodes that the job may run on, and the conditions that each node must check when it gets it.

        No node names mean that all of them will do.
        """
        if not self.benchmark.settings.get("requires_capabilities"):
            return (), ()
        # Slurm says which GPUs a node has only once the job runs there: the node itself has to check.
        if not self.machine.devices_known:
            return (), self.benchmark.node_conditions(self.context)
        by_node = _unmet_by_node(self.benchmark, self.machine)
        able = tuple(name for name, unmet in by_node.items() if not unmet)
        return able if len(able) < len(by_node) else (), ()

    def _placements(self) -> list[_Placement]:
        """Where each process of a job runs. Raises SuiteError for an unknown method."""
        plan = self.benchmark.plan
        devices = self._devices(read_numbers(plan.get("devices")))
        machines = tuple(range(int(self.benchmark.settings.get("num_machines") or 1)))
        method = str(plan["method"]).replace("-", "_")
        if method == "per_gpu":
            one_each = [(device,) for device in devices]
            count = len(devices)
            return [_Placement((m,), d, n, count) for m in machines for n, d in enumerate(one_each)]
        if method == "njobs":
            # Each of the n programs spans all devices of all machines.
            count = self._number_of_programs(plan.get("n", 1))
            return [_Placement(machines, devices, n, count) for n in range(count)]
        text = f"no plan is called {plan['method']!r}{meant(method, ('per_gpu', 'njobs'))}"
        raise SuiteError([Problem(self.benchmark.at("plan", "method"), text)])

    def _devices(self, wanted: int | list[int] | None) -> tuple[PlanDevice, ...]:
        """The devices that ``plan.devices`` chooses: the first N, or those with the numbers listed.

        None means all of them, an empty list the processor.

        Raises SuiteError for a number that the machine does not have, or that is listed twice.
        """
        if not isinstance(wanted, list):
            return self.machine.devices[:wanted]
        if not wanted:
            return (PlanDevice("cpu", 0),)
        by_number = {device.number: device for device in self.machine.devices}
        repeated = [n for n in dict.fromkeys(wanted) if wanted.count(n) > 1]
        texts = [f"device {n} stands {wanted.count(n)} times" for n in repeated]
        if missing := [str(n) for n in dict.fromkeys(wanted) if n not in by_number]:
            available = ", ".join(device.key for device in self.machine.devices)
            texts.append(f"there is no device {', '.join(missing)}; there is {available}")
        if texts:
            at = self.benchmark.at("plan", "devices")
            raise SuiteError([Problem(at, text) for text in texts])
        return tuple(by_number[n] for n in wanted)

    def _number_of_programs(self, value: object) -> int:
        """``plan.n``, checked. Raises SuiteError."""
        # True is an int of value 1, but `n: yes` is a slip.
        if isinstance(value, int) and value >= 1 and value is not True:
            return value
        text = f"n is a number of jobs, at least 1, not {value!r}"
        raise SuiteError([Problem(self.benchmark.at("plan", "n"), text)])

    def _process(self, key: str, placement: _Placement) -> PlannedProcess:
        """Plan one process. Raises SuiteError for whatever its settings name and does not exist."""
        devices, run = placement.devices, f"{JOBS}/{key}"
        keys = tuple(device.key_on(machine) for machine in placement.machines for device in devices)
        # A process on one of four devices gets a quarter of the cores even if nothing runs on the others:
        # its figures are then comparable with those of four such processes side by side.
        fitting = len(self.machine.devices) // len(devices)
        shares = max(placement.side_by_side, fitting if devices[0].kind == self.machine.arch else 1)
        cores = self.machine.share(placement.position, shares)
        record = os.path.join(self.options.folder, run)
        out = os.path.join(record, "out")
        own = {"device_count": len(keys), "devices": list(keys), "out": out}
        settings = self.benchmark.filled({**self.context, **own})
        self.settings = self.settings or settings
        filled = replace(self.benchmark, settings=settings)
        container = self.resources.container(settings)
        python = "" if container else self.resources.python  # a container has commands of its own
        program = command_lines.program_of(filled, python, self.benchmark.arguments(settings))
        chosen = settings.get("folder")
        current = str(filled.path(str(chosen), "folder")) if chosen else self.resources.folder or ""
        folder = current or out
        words = self._program_words(filled, program, placement, python)
        base = str(self.context.get("base") or self.options.folder)
        start = ProgramStart(filled, program, words[0], current, folder, bool(container))
        if problems := list(missing(start, self.resources, base, bool(self.machine.engine))):
            raise SuiteError(problems)
        limit = filled.max_duration
        interpreter = python or sys.executable
        return PlannedProcess(
            key,
            keys,
            tuple(command_lines.inject_argv(filled, interpreter, record, words, container)),
            self._environment(filled, devices, record, len(cores)),
            folder,
            run,
            limit,
            min(self.options.history.get(self.benchmark.name, limit), limit),
            cores if self.options.pin or filled.plan.get("pin") else (),
            placement.machines,
        )

    def _program_words(
        self,
        filled: Benchmark,
        program: command_lines.ProgramCommand,
        placement: _Placement,
        python: str,
    ) -> list[str]:
        """The command line of the program, with a launcher before it where it runs on several devices."""
        if filled.plan["method"] == "per_gpu":
            return program.words()
        kind = placement.devices[0].kind
        ranks = command_lines.Ranks(len(placement.devices), len(placement.machines), kind)
        return command_lines.launcher_argv(filled, program, python, ranks)

    def _environment(
        self, filled: Benchmark, devices: Sequence[PlanDevice], record: str, cores: int
    ) -> dict[str, str | None]:
        """The environment variables to set, and with None to remove; later entries win over earlier ones."""
        own = filled.settings.get("env") or {}
        # torch would start a thread for every core of the machine in each of the ranks that share them.
        ranks = 1 if filled.plan["method"] == "per_gpu" else len(devices)
        return {
            "OMP_NUM_THREADS": str(max(1, cores // ranks)),
            **visible_devices(devices),
            **self.resources.variables(filled.settings),
            **{str(name): None if value is None else _text(value) for name, value in own.items()},
            MARK: record,
        }


def _prepare_settings(benchmark: Benchmark) -> dict[str, Any]:
    """The settings that a prepare step is recognised by, as they stand in the suite's file.

    Whether data is prepared for exactly this step is checked again when a suite is resumed, from its plan
    alone. Filled settings would not do: their placeholders have the values of one process.
    """
    if not benchmark.settings.get("prepare"):
        return {}
    keys = ("prepare", "argv", "env")
    written = {key: benchmark.settings[key] for key in keys if key in benchmark.settings}
    return {"written": written, "variables": dict(benchmark.variables)}


def _text(value: object) -> str:
    """A value from YAML as the text of an environment variable: ``true`` rather than ``True``."""
    return str(value).lower() if isinstance(value, bool) else str(value)
