"""From a suite and a machine to a plan: which processes, on which devices, with which arguments.

:func:`plan_suite` goes through the benchmarks of a suite. :class:`_Planner` decides whether the machine can
run a benchmark at all; :mod:`.job_planner` then plans its processes, and :mod:`.jobs` has the classes that a
plan consists of.

Planning is pure: the same suite on the same machine gives the same plan, and nothing is started or created.
What it has to know of the disk (environments, data, earlier runs) comes in through
:class:`injector.suite.environments.setup.Resources`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...store.place import clean_name
from ..config.functions import read_numbers
from ..config.model import Benchmark, Suite
from ..config.problems import Problem, SuiteError
from ..config.templates import looks_like_template
from ..environments.setup import Resources
from .job_planner import JobPlanner, unmet_by_node
from .jobs import Job, LeftOut, Plan, PlanOptions
from .machine import Machine

OF_JOBS = {
    *("run", "argv", "client", "server", "env", "folder", "max_duration", "voirfile", "voir"),
    *("validation", "description", "url", "only_probed"),
}
"""Settings that a condition about the job may set; all others are looked at before there is one."""
_WITH_PATHS = (("origin",), ("requirements",), ("prepare",), ("docker_image",))
"""Settings that have to be there before a job starts, and may be paths."""
LOG_FILE = "exp.log_file"
"""The variable that names a benchmark's log in the format of the Deep Learning Benchmarking Suite."""
DECIDING = {"num_machines": (), **dict.fromkeys(("method", "n", "devices"), ("plan",))}
"""Settings that decide how many processes there are, each with the keys it is nested under.

They cannot have placeholders that differ between processes, such as ``{device_count}``.
"""


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
            # Numbered, if another benchmark's name comes out the same as the stem of file names.
            clean, number = clean_name(benchmark.name), 1
            while (stem := clean if number == 1 else f"{clean}.{number}") in self._stems:
                number += 1
            self._stems.add(stem)
            own = resources(benchmark)
            context = {**self.facts, **own.context}
            job_planner = JobPlanner(benchmark, stem, self.machine, context, own, self.options)
            jobs = [job_planner.job(repeat) for repeat in range(self.options.repeat)]
            parameters = self._parameters(benchmark, context)
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
            **_as_written(benchmark),
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
        # Conditions about the machine hold or not by now, and stand there no more.
        for condition, sets in (benchmark.settings.get("when") or {}).items():
            if early := [key for key in sets or () if key not in OF_JOBS]:
                text = f"waits for what a job has, and sets {early[0]}, which is needed before"
                raise SuiteError([Problem(benchmark.at("when", condition), text)])
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
        by_node = unmet_by_node(benchmark, self.machine)
        # A heterogeneous cluster: the job runs on those nodes that will do (JobPlanner._nodes), if there
        # are enough of them.
        able = sum(not unmet for unmet in by_node.values())
        if able >= machines:
            return None
        needs = " and ".join(dict.fromkeys(text for unmet in by_node.values() for text in unmet))
        return f"needs {needs}" + (f", which {able} of {len(by_node)} nodes have" if able else "")


def _as_written(benchmark: Benchmark) -> dict[str, Any]:
    """What a benchmark is recognised by when its job starts, or the suite is resumed: from the plan alone.

    That is the other files in which its paths were written, and of a prepare step the settings as they stand
    there: in filled ones placeholders have the values of one process.
    """
    files = [
        [list(path), where.file]
        for path, where in benchmark.places.items()
        if path[:1] in _WITH_PATHS and where.file != benchmark.where.file
    ]
    result: dict[str, Any] = {"files": files} if files else {}
    if benchmark.settings.get("prepare"):
        keys = ("prepare", "argv", "env")
        written = {key: benchmark.settings[key] for key in keys if key in benchmark.settings}
        result |= {"written": written, "variables": dict(benchmark.variables)}
    return result
