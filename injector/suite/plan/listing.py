"""A plan as text: every process that would start, with all that it would be given."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from .jobs import Job, Plan, PlannedProcess

LONGEST = 120
"""Characters of a variable's value that are shown."""


def plan_lines(plan: Plan, parallel: int = 1) -> Iterator[str]:
    """The plan, a line at a time; ``parallel``: how many jobs run at the same time."""
    machine = plan.machine
    devices = ", ".join(_device(each) for each in machine["devices"])
    yield f"suite {plan.suite['name']}  ({plan.suite['file']})"
    yield f"on {machine['host']}: {machine['cpu_count']} cores; {devices}"
    for job in plan.jobs:
        yield ""
        yield from _job_lines(job)
    yield ""
    for each in plan.left_out:
        yield f"{each.benchmark} is left out: {each.reason}"
    processes = sum(len(job.processes) for job in plan.jobs)
    expected = [job.expected for job in plan.jobs]
    took = time_of(max([sum(expected) / parallel, *expected]))
    how = "one after the other" if parallel == 1 else f"with {parallel} jobs at the same time"
    yield f"{len(plan.jobs)} jobs, {processes} processes, about {took} {how}"


def _device(described: dict[str, str]) -> str:
    name = described["name"]
    return f"{described['key']} ({name})" if name else described["key"]


def _job_lines(job: Job) -> Iterator[str]:
    limit = max(each.timeout for each in job.processes)
    yield f"{job.key}  about {time_of(job.expected)}, at most {time_of(limit)}"
    for process in job.processes:
        yield from _process_lines(process)


def _process_lines(process: PlannedProcess) -> Iterator[str]:
    cores = f" · bound to cores {_list(process.cores)}" if process.cores else ""
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


def _list(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def time_of(seconds: float) -> str:
    """``3.2 s``, ``41 s``, ``12 min``, ``2 h 05 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
