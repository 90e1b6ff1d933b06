"""``inject suite plan``: shows every process that a run would start."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.wording import some
from ..ending import reports_errors
from . import options as common

if TYPE_CHECKING:
    from ...suite.config.model import Suite
    from ...suite.plan.jobs import Plan

SHOWN = 4
"""The most benchmarks that are named with one reason."""


@reports_errors("inject suite")
def main(argv: Sequence[str]) -> int:
    """Print the plan. Returns 0, or 2 for a suite with mistakes."""
    parser = common.parser("plan", "Show every process that a run would start, and start none.")
    common.add_options(parser)
    parser.add_argument("--json", action="store_true", help="print it as plan.json would have it")
    given = parser.parse_args(argv)
    suite, plan = common.suite_and_plan(given)
    if given.json:
        print(json.dumps(plan.as_json(), indent=1))
    else:
        print(plan_text(suite, plan, given.max_parallel))
    return 0


def plan_text(suite: Suite, plan: Plan, parallel: int | None) -> str:
    """Lines on every process of ``plan``, and on what would keep benchmarks from starting.

    ``parallel``: how many jobs run at the same time.
    """
    from ...suite.plan.jobs import plan_lines

    return "\n".join([*plan_lines(plan, parallel), *_not_ready(suite, plan)])


def _not_ready(suite: Suite, plan: Plan) -> Iterator[str]:
    """A line for each reason why planned benchmarks would not start now."""
    from ...suite.environments.setup import why_not_ready

    use_current = bool(plan.options.get("use_current_env"))
    names: dict[str, list[str]] = {}
    for each in suite.benchmarks:
        if each.name in plan.benchmarks:
            why = why_not_ready(each, Path(plan.base), plan.machine["facts"], use_current)
            names.setdefault(why or "", []).append(each.name)
    for why, which in names.items():
        if why:
            yield f"would not start yet: {some(which, SHOWN)}: {why}"
