"""The processes of a benchmark's jobs, laid out over devices, cores and machines, and what each runs.

:mod:`.command_lines` writes the command line of each process. Whether what the settings of a process name
exists (its program, its launcher, its folder, its voirfiles) is looked up in the last section.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..config.expressions import NodeCondition
from ..config.functions import read_numbers
from ..config.model import Benchmark
from ..config.problems import Problem, SuiteError, meant
from ..environments.setup import Resources
from . import command_lines
from .jobs import Job, PlannedProcess, PlanOptions
from .machine import Machine, PlanDevice, visible_devices

JOBS = "jobs"
MARK = "INJECT_SUITE_RUN"
"""The environment variable that holds a process's run folder.

Whatever a program starts inherits it, so all processes of a run can be found, even those that left its tree.
"""


def unmet_by_node(benchmark: Benchmark, machine: Machine) -> dict[str, tuple[str, ...]]:
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


@dataclass
class JobPlanner:
    """Plans the jobs of one benchmark."""

    benchmark: Benchmark
    stem: str
    machine: Machine
    context: Mapping[str, Any]
    """The values of placeholders that all its processes have in common."""
    resources: Resources
    options: PlanOptions
    settings: dict[str, Any] = field(default_factory=dict)
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
        by_node = unmet_by_node(self.benchmark, self.machine)
        able = tuple(name for name, unmet in by_node.items() if not unmet)
        return able if len(able) < len(by_node) else (), ()

    def _placements(self) -> list[_Placement]:
        """Where each process of a job runs. Raises SuiteError for an unknown method or a wrong number."""
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
            count = plan.get("n", 1)
            # True is an int of value 1, but `n: yes` is a slip.
            if isinstance(count, int) and count >= 1 and count is not True:
                return [_Placement(machines, devices, n, count) for n in range(count)]
            text = f"n is a number of jobs, at least 1, not {count!r}"
            raise SuiteError([Problem(self.benchmark.at("plan", "n"), text)])
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

    def _process(self, key: str, placement: _Placement) -> PlannedProcess:
        """Plan one process. Raises SuiteError for whatever its settings name and does not exist."""
        devices, run = placement.devices, f"{JOBS}/{key}"
        # cuda:0 on the job's first machine, cuda:0@1 on the second.
        suffixes = [f"@{machine}" if machine else "" for machine in placement.machines]
        keys = tuple(device.key + suffix for suffix in suffixes for device in devices)
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
        words = program.words()
        if filled.plan["method"] != "per_gpu":
            ranks = command_lines.Ranks(len(devices), len(placement.machines), devices[0].kind)
            words = command_lines.launcher_argv(filled, program, python, ranks)
        base = str(self.context.get("base") or self.options.folder)
        start = ProgramStart(filled, program, words[0], current, folder, bool(container))
        if problems := list(_missing(start, self.resources, base, bool(self.machine.engine))):
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


def _text(value: object) -> str:
    """A value from YAML as the text of an environment variable: ``true`` rather than ``True``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- whether what the settings name exists -----------------------------------------------------------


class ProgramStart(NamedTuple):
    """How the program of one process starts."""

    benchmark: Benchmark
    """With the placeholders of its settings filled."""
    program: command_lines.ProgramCommand
    first: str
    """The first word of the command line, which may be that of a launcher."""
    current: str
    """The folder that the settings, or the definition, name for it to run in; empty if they name none."""
    folder: str
    in_container: bool


def _missing(
    start: ProgramStart, resources: Resources, base: str, remote: bool
) -> Iterator[Problem]:
    """The mistakes in what the settings name and does not exist, beginning with voirfiles.

    Found now, a slip costs seconds; found when the job's turn comes, it may cost a night. What an image
    contains cannot be looked up from here, nor the modules of an environment that may not be installed yet:
    those are not checked.

    ``base`` is the folder of environments and data; ``remote`` whether other machines run the job.
    """
    at, program, folder = start.benchmark.at, start.program, start.folder
    for path in command_lines.voirfiles(start.benchmark):
        if path != "auto" and not resources.has(path):
            yield Problem(at("voirfile"), f"there is no file {path}")
    of_image = program.kind == "command" or os.path.isabs(program.target)
    if not (start.in_container and of_image) and (text := _missing_program(start, resources)):
        yield Problem(at("run"), text)
    if start.in_container:
        return
    first = start.first
    # A bare name is looked up in the PATH of the machine that runs the job, which may be another one.
    exists = resources.has(first) if "/" in first else remote or shutil.which(first)
    if first not in ("-m", program.target) and not exists:
        yield Problem(at("plan", "launcher"), _missing_command(first))
    if not _has_voirfile(start, resources):
        yield from command_lines.unknown_options(start.benchmark)
    # Below the base, a prepare step or the job itself may still create it.
    if not (Path(folder).is_relative_to(base) or resources.has(os.path.join(folder, ""))):
        yield Problem(at("folder"), f"there is no folder {folder}")


def _has_voirfile(start: ProgramStart, resources: Resources) -> bool:
    """Whether ``inject run`` may find a voirfile, whose options nothing knows before it is loaded."""
    names = command_lines.voirfiles(start.benchmark)
    if names:
        return {*names} != {"auto"}
    if "VOIRFILE" in {**os.environ, **(start.benchmark.settings.get("env") or {})}:
        return True
    return any(
        resources.has(os.path.join(start.folder, os.path.dirname(word), command_lines.VOIRFILE))
        for word in (start.program.target, *start.program.arguments)
        if word.endswith(".py")
    )


def _missing_program(start: ProgramStart, resources: Resources) -> str:
    """Which file or command of the program does not exist, as a sentence; empty if all do."""
    target, arguments, kind = start.program.target, start.program.arguments, start.program.kind
    if kind == "module":
        return ""
    if kind == "command":
        if not resources.has(target):
            return _missing_command(target)
        # In `python train.py`, the script is what is likely to be misspelt.
        script = arguments[0] if arguments else ""
        if not (os.path.basename(target).startswith("python") and script.endswith(".py")):
            return ""
        target = script
    exists = resources.has(os.path.join(start.folder, target))
    return "" if exists else _missing_file(target, start)


def _missing_file(target: str, start: ProgramStart) -> str:
    """That there is no file ``target``, as a sentence that names the folders where it could be."""
    text = f"there is no file {target}"
    if os.path.isabs(target):
        return text
    beside_suite = os.path.dirname(os.path.abspath(start.benchmark.at("run").file))
    folders = (beside_suite, start.benchmark.definition, start.current)
    searched = dict.fromkeys(str(folder) for folder in folders if folder)
    return f"{text}: not in {', nor in '.join(searched)}"


def _missing_command(path: str) -> str:
    """That there is no command ``path``, and where another one of its name is, as a sentence."""
    folder, name = os.path.split(path)
    text = f"there is no command {name} in {folder or 'the environment, nor on the PATH'}"
    other = shutil.which(name)
    return f"{text}; there is {other}, if its whole path is given" if other else text
