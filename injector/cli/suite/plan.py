"""``inject suite plan``: what a run would start."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from ...errors import UserError
from . import options as common


def main(argv: Sequence[str]) -> int:
    """Print the plan; exit code 2 for a suite with mistakes."""
    made = common.parser("plan", "Show every process that a run would start, and start none.")
    common.add_options(made)
    made.add_argument("--json", action="store_true", help="print it as plan.json would have it")
    given = made.parse_args(argv)
    try:
        _, plan = common.suite_and_plan(given)
    except UserError as error:
        print(f"inject suite: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps(plan.as_json(), indent=1))
        return 0
    from ...suite.plan.jobs import plan_lines

    print("\n".join(plan_lines(plan, given.max_parallel)))
    return 0
