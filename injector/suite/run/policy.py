"""The policy of a suite's run: how many jobs at once, which may start, and which of them passed.

:class:`.job_loop.JobLoop` asks a :class:`RunPolicy`, so that it needs to know nothing of environments and of
validation. A policy is made from the plan alone, since the suite's files may have changed when it is resumed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..config.model import Benchmark
from ..config.problems import Where
from ..config.rules import FAILURE, rules_of
from ..environments.install_groups import keeping
from ..environments.setup import why_not_ready
from ..plan.jobs import Job, Plan
from .processes import ProcessEnd, failures_by_exit_code, joined_failures
from .progress import print_through


@dataclass
class RunPolicy:
    """What a suite's run may do, and how it is judged."""

    max_parallel: int | None = None
    """How many jobs may run at the same time; None leaves that to the engine."""
    patience: float = 60.0
    """Seconds that a job waits for devices that other processes use, before it fails."""
    allow_busy: bool = False
    """Whether a job may start on devices that other processes use."""
    links: bool = True
    """Whether the suite's folder gets links to the events that its jobs recorded."""
    ready: Callable[[str], str | None] = lambda benchmark: None
    """``ready(benchmark)``: why it cannot be started (not installed, not prepared), or None."""
    around: Callable[[], AbstractContextManager[object]] = nullcontext
    """The context that jobs run in, which keeps other suites from changing their environments."""
    judge: Callable[[str, Job, Mapping[str, ProcessEnd]], list[str]] = failures_by_exit_code
    """``judge(folder, job, ends)``: why a job of the suite in ``folder`` has failed, as sentences."""
    log: Callable[[str, Plan, Job, Mapping[str, ProcessEnd]], list[str]] = lambda *_: []
    """``log(folder, plan, job, ends)``: writes the job's own log; what went wrong, as sentences."""


class _Finding(Protocol):
    """One result of validation."""

    @property
    def fails(self) -> bool: ...
    @property
    def sentence(self) -> str: ...


Check = Callable[[Mapping[str, Any], str, Sequence[str]], Iterable[_Finding]]
"""``check(settings, run, devices)`` validates the run folder of a process."""


def policy_of(plan: Plan, check: Check | None = None) -> RunPolicy:
    """The policy for a suite with ``plan``. Without ``check`` only exit codes count."""
    file = plan.suite["file"]
    benchmarks = {
        name: Benchmark(
            name,
            Where(file, 1, name),
            # As written, not as filled: by that the prepare step is recognised (see planner).
            {**planned["settings"], **planned.get("written", {})},
            planned.get("family", ""),
            planned.get("variables", {}),
            places={tuple(path): Where(place, 0) for path, place in planned.get("files", ())},
        )
        for name, planned in plan.benchmarks.items()
    }
    base, facts = Path(plan.base), plan.machine["facts"]
    use_current = bool(plan.options.get("use_current_env"))

    def ready(name: str) -> str | None:
        return why_not_ready(benchmarks[name], base, facts, use_current)

    def judge(folder: str, job: Job, ended: Mapping[str, ProcessEnd]) -> list[str]:
        settings = plan.benchmarks[job.benchmark]["settings"]
        rules = rules_of(settings, "error")
        by_exit_code = failures_by_exit_code(folder, job, ended)
        # Validation judges exit codes too (the rule `error`). Where that rule is in force, what broke is the
        # reason to show: the figures of a run that died say no more.
        if check is None or (by_exit_code and rules is not None and rules["severity"] == FAILURE):
            return by_exit_code
        failures = {}
        for process in job.processes:
            run = os.path.join(folder, ended[process.key].run)
            sentences = [f.sentence for f in check(settings, run, process.devices) if f.fails]
            failures[process.key] = "; ".join(sentences) or None
        return joined_failures(failures)

    @contextmanager
    def around() -> Iterator[None]:
        groups = {each.install_group for each in benchmarks.values()}
        with ExitStack() as stack:
            # In one order: two suites that each wait for an environment of the other would wait for ever.
            for group in () if use_current else sorted(groups):
                stack.enter_context(keeping(group, base, _print))
            yield

    return RunPolicy(ready=ready, judge=judge, around=around)


def _print(text: str) -> None:
    print_through(sys.stderr, f"inject suite: {text}\n")
