"""What running a suite asks of the rest: may a benchmark start, and were its runs as they should be."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from ..config.model import Benchmark, Suite
from ..config.problems import Where
from ..config.rules import FAILURE, rules_of
from ..environments.install_groups import keeping
from ..environments.resources import why_not_ready
from ..plan.jobs import Job, Plan
from .engine import Manner
from .progress import say
from .results import Result, by_codes, told


class _Verdict(Protocol):
    """One sentence of validation."""

    @property
    def fails(self) -> bool: ...
    @property
    def sentence(self) -> str: ...


Check = Callable[[Mapping[str, Any], Sequence[str], Sequence[Sequence[str]]], Iterable[_Verdict]]
"""Validates runs: a benchmark's settings, the run folders, the devices of each."""


def of_suite(suite: Suite, plan: Plan, check: Check | None = None) -> Manner:
    """For a suite that was just planned. Without ``check`` only exit codes decide."""
    return _made({each.name: each for each in suite.benchmarks}, plan, check)


def of_plan(plan: Plan, check: Check) -> Manner:
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
    return _made(benchmarks, plan, check)


def _made(benchmarks: Mapping[str, Benchmark], plan: Plan, check: Check | None) -> Manner:
    base, facts = Path(plan.base), plan.machine["facts"]
    use_current = bool(plan.options.get("use_current_env"))

    def ready(name: str) -> str | None:
        return why_not_ready(benchmarks[name], base, facts, use_current)

    def judge(folder: str, job: Job, ended: Mapping[str, Result]) -> list[str]:
        settings = plan.benchmarks[job.benchmark]["settings"]
        rules = rules_of(settings, "error")
        wrong = by_codes(folder, job, ended)
        if check is None or (wrong and rules is not None and rules["severity"] == FAILURE):
            return wrong
        found = {}
        for process in job.processes:
            run = os.path.join(folder, ended[process.key].run)
            said = check(settings, [run], [process.devices])
            found[process.key] = "; ".join(each.sentence for each in said if each.fails) or None
        return told(found)

    @contextmanager
    def around() -> Iterator[None]:
        groups = {each.install_group for each in benchmarks.values()}
        with ExitStack() as stack:
            for group in () if use_current else sorted(groups):
                stack.enter_context(keeping(group, base, _say))
            yield

    return Manner(ready=ready, judge=judge, around=around)


def _say(text: str) -> None:
    say(sys.stderr, f"inject suite: {text}\n")
