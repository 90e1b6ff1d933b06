"""The plan of a suite: jobs, the processes of each, and what is left out.

The whole plan is written to ``plan.json`` before anything starts. A suite that is resumed reads it there and
starts only what it lists, so later changes to the suite's files do not mix with results that exist already.
:func:`plan_lines` renders a plan for ``inject suite plan``.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ...analysis.wording import count
from ...errors import UserError
from ...schema import SCHEMA
from ...store.folder import JOURNAL, PLAN
from ...store.run_json import check_schema, checksum_of
from ..config.expressions import NodeCondition
from ..environments import folders

FILE = PLAN
LARGEST = 1 << 28
"""How many characters of a plan are read at most; no suite writes as many."""


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


@dataclass(frozen=True)
class PlannedProcess:
    """One ``inject run``, which starts the program."""

    key: str
    """``resnet50.R0.D0``."""
    devices: tuple[str, ...]
    """``cuda:0``, …"""
    command: tuple[str, ...]
    environment: Mapping[str, str | None]
    """Variables set on top of the suite's own environment; those that are None are removed from it."""
    folder: str
    run: str
    """Its run folder, relative to the suite's."""
    timeout: float
    """Seconds after which it is ended."""
    expected: float
    """Seconds that it will probably take."""
    cores: tuple[int, ...] = ()
    """The cores that it is bound to; if empty, it may use all."""
    machines: tuple[int, ...] = (0,)
    """The job's machines that it runs on, counted from 0. On several it is one program that spans them."""

    def attempt(self, number: int, folder: str) -> PlannedProcess:
        """This process as attempt ``number``, counted from 1, starts it.

        Each attempt has a run folder of its own, so that a second one does not overwrite what the first
        recorded. ``folder`` is the suite's.
        """
        return self if number == 1 else self.recorded_in(f"{self.run}.a{number}", folder)

    def recorded_in(self, run: str, folder: str) -> PlannedProcess:
        """This process with another run folder; ``folder`` is the suite's."""
        old, new = (os.path.join(folder, each) for each in (self.run, run))

        def moved(text: str) -> str:
            return folders.with_path(text, old, new)

        return replace(
            self,
            command=tuple(map(moved, self.command)),
            environment={k: value and moved(value) for k, value in self.environment.items()},
            folder=moved(self.folder),
            run=run,
        )


@dataclass(frozen=True)
class Job:
    """One benchmark, run once: processes that start together and run side by side."""

    key: str
    """``resnet50.R0``."""
    benchmark: str
    repeat: int
    processes: tuple[PlannedProcess, ...]
    nodes: tuple[str, ...] = ()
    """Names of the machines that meet its requirements; if empty, all of them do."""
    conditions: tuple[NodeCondition, ...] = ()
    """Requirements that only the machines themselves can check, once the job has them."""

    @property
    def devices(self) -> tuple[str, ...]:
        """The keys of all devices that its processes use, each once."""
        return tuple(dict.fromkeys(key for process in self.processes for key in process.devices))

    @property
    def machines(self) -> int:
        """How many machines it needs."""
        return 1 + max(number for process in self.processes for number in process.machines)

    @property
    def is_contained_apart(self) -> bool:
        """Whether it runs one program in containers on several machines, which share no run folder."""
        return any("--container" in p.command and len(p.machines) > 1 for p in self.processes)

    @property
    def expected(self) -> float:
        """Seconds that its slowest process will probably take."""
        return max(process.expected for process in self.processes)

    def attempt(self, number: int, folder: str) -> Job:
        """This job as attempt ``number`` starts it; see :meth:`PlannedProcess.attempt`."""
        processes = tuple(process.attempt(number, folder) for process in self.processes)
        return replace(self, processes=processes)


@dataclass(frozen=True)
class LeftOut:
    """A benchmark that will not run at all."""

    benchmark: str
    reason: str
    failure: bool = False
    """Whether it should have run."""
    weight: float = 0.0
    """Its weight in the suite's score, in which it has the score 0."""


@dataclass(frozen=True)
class Plan:
    """Everything that a suite will start on a machine, and which benchmarks are left out."""

    suite: Mapping[str, str]
    """``name`` and ``file``."""
    base: str
    machine: Mapping[str, Any]
    benchmarks: Mapping[str, Mapping[str, Any]]
    """By name: ``family values group tags weight settings`` and ``parameters``, the variables whose names
    have a dot; ``files written variables`` where a job needs them before it starts."""
    jobs: tuple[Job, ...]
    """In the order in which they are to start."""
    left_out: tuple[LeftOut, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of the command line that the plan was made with."""

    def as_json(self) -> dict[str, Any]:
        """The content of :data:`FILE`, but for its checksum."""
        jobs = [
            {**vars(job), "processes": [dict(vars(each)) for each in job.processes]}
            for job in self.jobs
        ]
        left_out = [dict(vars(each)) for each in self.left_out]
        return {"schema": SCHEMA, **vars(self), "jobs": jobs, "left_out": left_out}

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Plan:
        """The plan that :meth:`as_json` gave. Raises KeyError or TypeError if ``content`` is not one."""
        values = {each.name: content[each.name] for each in fields(cls)}
        values["jobs"] = tuple(map(_job_of_json, content["jobs"]))
        values["left_out"] = tuple(LeftOut(**each) for each in content["left_out"])
        return cls(**values)


def _job_of_json(content: Mapping[str, Any]) -> Job:
    processes = (
        PlannedProcess(**{**each, **{key: tuple(each[key]) for key in _TUPLES if key in each}})
        for each in content["processes"]
    )
    conditions = tuple(NodeCondition(*each) for each in content.get("conditions", ()))
    values = {"processes": tuple(processes), "nodes": tuple(content.get("nodes", ()))}
    return Job(**{**content, **values, "conditions": conditions})


_TUPLES = ("devices", "command", "cores", "machines")
"""The fields of a process that are tuples, which JSON turns into lists."""


def read_plan(folder: str) -> Plan:
    """The plan in the suite's run folder ``folder``.

    Raises UserError if there is none, it was changed, or a later version of this program wrote it.
    """
    path = os.path.join(folder, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.loads(file.read(LARGEST))
        if not isinstance(content, dict) or "schema" not in content:
            raise ValueError("it holds no JSON object with a schema")
        checksum = content.pop("checksum", None)
        if checksum is not None and checksum != checksum_of(content):
            raise ValueError(
                "it was changed after it was written (where it was edited by hand, remove its key checksum)"
            )
        check_schema(content["schema"], path)
        return Plan.of_json(content)
    except OSError as error:
        text = f"{path}: {error.strerror}; no suite has been run there"
        if isinstance(error, FileNotFoundError) and os.path.exists(os.path.join(folder, JOURNAL)):
            jobs = os.path.join(folder, "jobs", "KEY")
            text = (
                f"{path} is missing: what was to run is not known. What each job left can still be read: "
                f"inject report {jobs}"
            )
        raise UserError(text) from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is no plan of a suite: {error}") from None


# --- as text ----------------------------------------------------------------------------------------

LONGEST = 120
"""Characters of an environment variable's value that are shown."""


def plan_lines(plan: Plan, parallel: int | None) -> Iterator[str]:
    """The plan as text, line by line.

    ``parallel`` is how many jobs run at the same time, one by default, on which the estimated time depends.
    """
    machine = plan.machine
    devices = ", ".join(
        each["key"] + (f" ({each['name']})" if each["name"] else "") for each in machine["devices"]
    )
    yield f"suite {plan.suite['name']}  ({plan.suite['file']})"
    several = f"{machine['count']} machines, each " if machine.get("count", 1) > 1 else ""
    yield f"on {machine['host']}: {several}{machine['cpu_count']} cores; {devices}"
    common = _common_variables(plan)
    yield from _variable_lines("", "env of all", common)
    for job in plan.jobs:
        limit = max(process.timeout for process in job.processes)
        yield ""
        yield f"{job.key}  about {time_of(job.expected)}, at most {time_of(limit)}"
        for process in job.processes:
            yield from _process_lines(process, common)
    yield ""
    for each in plan.left_out:
        yield f"{each.benchmark} is left out: {each.reason}"
    processes = sum(len(job.processes) for job in plan.jobs)
    expected = [job.expected for job in plan.jobs]
    parallel = parallel or 1
    # However many run side by side, the suite takes no less time than its longest job.
    estimate = time_of(max([sum(expected) / parallel, *expected]))
    how = "one after the other" if parallel == 1 else f"with {parallel} jobs at the same time"
    jobs = count(len(plan.jobs), "job")
    yield f"{jobs}, {count(processes, 'process')}, about {estimate} {how}"


def _common_variables(plan: Plan) -> dict[str, str | None]:
    """The environment variables that every one of several processes has with the same value."""
    first, *others = [
        dict(process.environment) for job in plan.jobs for process in job.processes
    ] or [{}]
    return {
        name: value
        for name, value in first.items()
        if others and all(name in each and each[name] == value for each in others)
    }


def _variable_lines(indent: str, what: str, variables: Mapping[str, str | None]) -> Iterator[str]:
    for name, value in variables.items():
        shown = value if value is None or len(value) <= LONGEST else value[:LONGEST] + "…"
        text = " is taken away" if shown is None else f"={shlex.quote(shown)}"
        yield f"{indent}{what}  {name}{text}"


def _process_lines(process: PlannedProcess, common: Mapping[str, str | None]) -> Iterator[str]:
    """The lines of one process, without the variables that all have in ``common``."""
    cores = f" · bound to cores {','.join(map(str, process.cores))}" if process.cores else ""
    yield f"  {process.key}  {', '.join(process.devices)}{cores}"
    yield f"    in   {process.folder}"
    own = {name: value for name, value in process.environment.items() if name not in common}
    yield from _variable_lines("    ", "env", own)
    yield f"    run  {shlex.join(process.command)}"


def time_of(seconds: float) -> str:
    """``seconds`` as text: ``3.2 s``, ``41 s``, ``12 min``, ``2 h 05 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
