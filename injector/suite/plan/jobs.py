"""What a suite will start: jobs, and the processes that each of them is.

A plan is made before anything starts and lies in ``plan.json``; all that is started, now or when the
suite is resumed, stands in it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ...errors import UserError
from ...schema import SCHEMA
from ...store.run_json import check_schema, checksum_of

FILE = "plan.json"
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

    def attempt(self, number: int, folder: str) -> PlannedProcess:
        """The same once more, with a run folder of its own; ``folder`` is the suite's."""
        if number == 1:
            return self
        run = f"{self.run}.a{number}"
        old, new = (os.path.join(folder, each) for each in (self.run, run))

        def moved(text: str) -> str:
            return re.sub(re.escape(old) + r"(?![\w.-])", lambda _: new, text)

        return PlannedProcess(
            self.key,
            self.devices,
            tuple(map(moved, self.command)),
            {name: value and moved(value) for name, value in self.environment.items()},
            moved(self.folder),
            run,
            self.timeout,
            self.expected,
            self.cores,
        )


@dataclass(frozen=True)
class Job:
    """Processes that run side by side: one benchmark, once."""

    key: str
    """``resnet50.R0``."""
    benchmark: str
    repeat: int
    processes: tuple[PlannedProcess, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """All that its processes use."""
        return tuple(dict.fromkeys(key for each in self.processes for key in each.devices))

    @property
    def expected(self) -> float:
        """Seconds, of its slowest process."""
        return max(each.expected for each in self.processes)

    def attempt(self, number: int, folder: str) -> Job:
        """The same once more; see :meth:`Process.attempt`."""
        processes = tuple(each.attempt(number, folder) for each in self.processes)
        return Job(self.key, self.benchmark, self.repeat, processes)


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
    and ``variables``."""
    jobs: tuple[Job, ...]
    """In the order in which they are to start."""
    left_out: tuple[LeftOut, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """What :data:`FILE` holds."""
        return {
            "schema": SCHEMA,
            "suite": dict(self.suite),
            "base": self.base,
            "machine": dict(self.machine),
            "options": dict(self.options),
            "benchmarks": dict(self.benchmarks),
            "jobs": [_job_json(job) for job in self.jobs],
            "left_out": [asdict(each) for each in self.left_out],
        }

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Plan:
        """The plan that :meth:`as_json` made. Raises KeyError, TypeError for what is none."""
        return cls(
            content["suite"],
            content["base"],
            content["machine"],
            content["benchmarks"],
            tuple(map(_job_of, content["jobs"])),
            tuple(LeftOut(**each) for each in content["left_out"]),
            content["options"],
        )


def _job_json(job: Job) -> dict[str, Any]:
    processes = [dict(vars(each)) for each in job.processes]
    return {
        "key": job.key,
        "benchmark": job.benchmark,
        "repeat": job.repeat,
        "processes": processes,
    }


def _job_of(content: Mapping[str, Any]) -> Job:
    made = tuple(map(_process_of, content["processes"]))
    return Job(content["key"], content["benchmark"], content["repeat"], made)


def _process_of(content: Mapping[str, Any]) -> PlannedProcess:
    given: dict[str, Any] = dict(content)
    for name in ("devices", "command", "cores"):
        given[name] = tuple(given[name])
    return PlannedProcess(**given)


def is_suite_run(folder: str) -> bool:
    """Whether ``folder`` holds what ``inject suite run`` leaves."""
    return os.path.isfile(os.path.join(folder, FILE))


def read_plan(folder: str) -> Plan:
    """The plan of the suite's run in ``folder``.

    Raises:
        UserError: there is none, or a later version wrote it.
    """
    path = os.path.join(folder, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.loads(file.read(LARGEST))
        checksum = content.pop("checksum", None)
        if checksum is not None and checksum != checksum_of(content):
            raise ValueError(
                "it was changed after it was written (where it was edited by hand, remove its key checksum)"
            )
        check_schema(content["schema"], path)
        return Plan.of_json(content)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; no suite has been run there") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is no plan of a suite: {error}") from None
