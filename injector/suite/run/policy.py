"""The policy of a suite's run: how many jobs at once, which may start, which of them passed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..config.model import Benchmark, Suite
from ..config.problems import Where
from ..config.rules import FAILURE, rules_of
from ..environments.install_groups import keeping
from ..environments.setup import why_not_ready
from ..plan.jobs import Job, Plan
from .processes import ProcessEnd, failures_by_exit_code, joined_failures
from .progress import print_through


@dataclass
class RunPolicy:
    """How jobs are run."""

    max_parallel: int | None = None
    """Jobs at the same time; None: what the engine is made for."""
    patience: float = 60.0
    """Seconds to wait for devices that other processes use."""
    allow_busy: bool = False
    """Whether a job may begin on devices that other processes use."""
    links: bool = True
    """Whether links to the events of its jobs are put into the suite's folder."""
    ready: Callable[[str], str | None] = lambda benchmark: None
    """Why a benchmark cannot be started (not installed, not prepared), if it cannot."""
    around: Callable[[], AbstractContextManager[object]] = nullcontext
    """What is held while jobs run: environments, so that no other suite changes them meanwhile."""
    judge: Callable[[str, Job, Mapping[str, ProcessEnd]], list[str]] = failures_by_exit_code
    """What is wrong with a job whose processes have ended so, as sentences; the suite's folder first."""
    log: Callable[[str, Plan, Job, Mapping[str, ProcessEnd]], list[str]] = lambda *_: []
    """Writes the log of a job that has ended, where it has one; what went wrong, as sentences."""


class _Verdict(Protocol):
    """One sentence of validation."""

    @property
    def fails(self) -> bool: ...
    @property
    def sentence(self) -> str: ...


Check = Callable[[Mapping[str, Any], Sequence[str], Sequence[Sequence[str]]], Iterable[_Verdict]]
"""Validates runs: a benchmark's settings, the run folders, the devices of each."""


def policy_of_suite(suite: Suite, plan: Plan, check: Check | None = None) -> RunPolicy:
    """For a suite that was just planned. Without ``check`` only exit codes decide."""
    return _policy({each.name: each for each in suite.benchmarks}, plan, check)


def policy_of_plan(plan: Plan, check: Check) -> RunPolicy:
    """For a plan of which nothing else is known any more."""
    file = plan.suite["file"]
    benchmarks = {
        name: Benchmark(
            name,
            Where(file, 1, name),
            {**each["settings"], **each.get("written", {})},
            each.get("family", ""),
            each.get("variables", {}),
        )
        for name, each in plan.benchmarks.items()
    }
    return _policy(benchmarks, plan, check)


def _policy(benchmarks: Mapping[str, Benchmark], plan: Plan, check: Check | None) -> RunPolicy:
    base, facts = Path(plan.base), plan.machine["facts"]
    use_current = bool(plan.options.get("use_current_env"))

    def ready(name: str) -> str | None:
        return why_not_ready(benchmarks[name], base, facts, use_current)

    def judge(folder: str, job: Job, ended: Mapping[str, ProcessEnd]) -> list[str]:
        settings = plan.benchmarks[job.benchmark]["settings"]
        rules = rules_of(settings, "error")
        wrong = failures_by_exit_code(folder, job, ended)
        if check is None or (wrong and rules is not None and rules["severity"] == FAILURE):
            return wrong
        failures = {}
        for process in job.processes:
            run = os.path.join(folder, ended[process.key].run)
            findings = check(settings, [run], [process.devices])
            failures[process.key] = (
                "; ".join(each.sentence for each in findings if each.fails) or None
            )
        return joined_failures(failures)

    @contextmanager
    def around() -> Iterator[None]:
        groups = {each.install_group for each in benchmarks.values()}
        with ExitStack() as stack:
            for group in () if use_current else sorted(groups):
                stack.enter_context(keeping(group, base, _say))
            yield

    return RunPolicy(ready=ready, judge=judge, around=around)


def _say(text: str) -> None:
    print_through(sys.stderr, f"inject suite: {text}\n")
