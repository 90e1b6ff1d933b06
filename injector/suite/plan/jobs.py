"""What a suite will start: jobs, and the processes that each of them is.

A plan is made before anything starts and lies in ``plan.json``; all that is started, now or when the
suite is resumed, stands in it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ...analysis.wording import count
from ...errors import UserError
from ...schema import SCHEMA
from ...store.folder import JOURNAL, PLAN
from ...store.run_json import check_schema, checksum_of
from ..config.capabilities import NodeCondition

FILE = PLAN
LARGEST = 1 << 28
"""Characters of a plan that are read: no suite writes as many."""


@dataclass(frozen=True)
class PlannedProcess:
    """One ``inject run`` and all that it starts."""

    key: str
    """``resnet50.R0.D0``."""
    devices: tuple[str, ...]
    """``cuda:0``, …"""
    command: tuple[str, ...]
    environment: Mapping[str, str | None]
    """What is set on top of the suite's own environment; None is taken away."""
    folder: str
    """Its current folder."""
    run: str
    """Its run folder, below the suite's."""
    timeout: float
    """Seconds after which it is ended."""
    expected: float
    """Seconds that it will probably take."""
    cores: tuple[int, ...] = ()
    """The cores that it is bound to; none: to all."""
    machines: tuple[int, ...] = (0,)
    """The machines of its job that it runs on, counted from 0: on several, as one program over all."""

    def attempt(self, number: int, folder: str) -> PlannedProcess:
        """The same once more, with a run folder of its own; ``folder`` is the suite's."""
        return self if number == 1 else self.recorded_in(f"{self.run}.a{number}", folder)

    def recorded_in(self, run: str, folder: str) -> PlannedProcess:
        """The same with another run folder; ``folder`` is the suite's."""
        old, new = (os.path.join(folder, each) for each in (self.run, run))

        def moved(text: str) -> str:
            return re.sub(re.escape(old) + r"(?![\w.-])", lambda _: new, text)

        return replace(
            self,
            command=tuple(map(moved, self.command)),
            environment={k: value and moved(value) for k, value in self.environment.items()},
            folder=moved(self.folder),
            run=run,
        )


@dataclass(frozen=True)
class Job:
    """Processes that run side by side: one benchmark, once."""

    key: str
    """``resnet50.R0``."""
    benchmark: str
    repeat: int
    processes: tuple[PlannedProcess, ...]
    nodes: tuple[str, ...] = ()
    """The machines that meet what it requires, by their names; none: all do."""
    conditions: tuple[NodeCondition, ...] = ()
    """What it requires and only its machines can judge."""

    @property
    def devices(self) -> tuple[str, ...]:
        """All that its processes use."""
        return tuple(dict.fromkeys(key for each in self.processes for key in each.devices))

    @property
    def machines(self) -> int:
        """How many it needs."""
        return 1 + max(number for each in self.processes for number in each.machines)

    @property
    def is_contained_apart(self) -> bool:
        """Whether ranks of one program run in containers on several machines: these share no run folder."""
        return any("--container" in p.command and len(p.machines) > 1 for p in self.processes)

    @property
    def expected(self) -> float:
        """Seconds, of its slowest process."""
        return max(each.expected for each in self.processes)

    def attempt(self, number: int, folder: str) -> Job:
        """The same once more; see :meth:`PlannedProcess.attempt`."""
        processes = tuple(each.attempt(number, folder) for each in self.processes)
        return replace(self, processes=processes)


@dataclass(frozen=True)
class LeftOut:
    """A benchmark of which nothing will run."""

    benchmark: str
    reason: str
    failure: bool = False
    """Whether it should have run."""
    weight: float = 0.0
    """What it counts in the suite's score: with 0, since nothing of it ran."""


@dataclass(frozen=True)
class Plan:
    """All that a suite will start on a machine, and what it will not."""

    suite: Mapping[str, str]
    """``name`` and ``file``."""
    base: str
    machine: Mapping[str, Any]
    benchmarks: Mapping[str, Mapping[str, Any]]
    """``family values group tags weight settings`` by name; of those that are prepared also ``written``
    and ``variables``; ``parameters`` are the variables whose names have a dot."""
    jobs: tuple[Job, ...]
    """In the order in which they are to start."""
    left_out: tuple[LeftOut, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """What :data:`FILE` holds."""
        jobs = [
            {**vars(job), "processes": [dict(vars(each)) for each in job.processes]}
            for job in self.jobs
        ]
        left_out = [dict(vars(each)) for each in self.left_out]
        return {"schema": SCHEMA, **vars(self), "jobs": jobs, "left_out": left_out}

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Plan:
        """The plan that :meth:`as_json` made. Raises KeyError, TypeError for what is none."""
        given = {each.name: content[each.name] for each in fields(cls)}
        given["jobs"] = tuple(map(_job_of, content["jobs"]))
        given["left_out"] = tuple(LeftOut(**each) for each in content["left_out"])
        return cls(**given)


def _job_of(content: Mapping[str, Any]) -> Job:
    processes = (
        PlannedProcess(**{**each, **{key: tuple(each[key]) for key in _TUPLES if key in each}})
        for each in content["processes"]
    )
    conditions = tuple(NodeCondition(*each) for each in content.get("conditions", ()))
    given = {"processes": tuple(processes), "nodes": tuple(content.get("nodes", ()))}
    return Job(**{**content, **given, "conditions": conditions})


_TUPLES = ("devices", "command", "cores", "machines")


def read_plan(folder: str) -> Plan:
    """The plan of the suite's run in ``folder``.

    Raises:
        UserError: there is none, or a later version wrote it.
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
"""Characters of a variable's value that are shown."""


def plan_lines(plan: Plan, parallel: int | None = None) -> Iterator[str]:
    """The plan, a line at a time; ``parallel``: how many jobs run at the same time (one)."""
    machine = plan.machine
    devices = ", ".join(_device(each) for each in machine["devices"])
    yield f"suite {plan.suite['name']}  ({plan.suite['file']})"
    several = f"{machine['count']} machines, each " if machine.get("count", 1) > 1 else ""
    yield f"on {machine['host']}: {several}{machine['cpu_count']} cores; {devices}"
    for job in plan.jobs:
        yield ""
        yield from _job_lines(job)
    yield ""
    for each in plan.left_out:
        yield f"{each.benchmark} is left out: {each.reason}"
    processes = sum(len(job.processes) for job in plan.jobs)
    expected = [job.expected for job in plan.jobs]
    parallel = parallel or 1
    took = time_of(max([sum(expected) / parallel, *expected]))
    how = "one after the other" if parallel == 1 else f"with {parallel} jobs at the same time"
    jobs = count(len(plan.jobs), "job")
    yield f"{jobs}, {count(processes, 'process')}, about {took} {how}"


def _device(described: dict[str, str]) -> str:
    name = described["name"]
    return f"{described['key']} ({name})" if name else described["key"]


def _job_lines(job: Job) -> Iterator[str]:
    limit = max(each.timeout for each in job.processes)
    yield f"{job.key}  about {time_of(job.expected)}, at most {time_of(limit)}"
    for process in job.processes:
        yield from _process_lines(process)


def _process_lines(process: PlannedProcess) -> Iterator[str]:
    cores = f" · bound to cores {','.join(map(str, process.cores))}" if process.cores else ""
    yield f"  {process.key}  {', '.join(process.devices)}{cores}"
    yield f"    in   {process.folder}"
    for name, value in process.environment.items():
        yield f"    env  {_variable(name, value)}"
    yield f"    run  {shlex.join(process.command)}"


def _variable(name: str, value: str | None) -> str:
    if value is None:
        return f"{name} is taken away"
    shown = value if len(value) <= LONGEST else value[:LONGEST] + "…"
    return f"{name}={shlex.quote(shown)}"


def time_of(seconds: float) -> str:
    """``3.2 s``, ``41 s``, ``12 min``, ``2 h 05 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
