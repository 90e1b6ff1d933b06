"""The options that say how a suite is planned, and the plan that they come to."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UserError
from . import options as common

if TYPE_CHECKING:
    from ...suite.config.model import Benchmark, Suite
    from ...suite.environments.resources import Resources
    from ...suite.plan.jobs import Plan
    from ...suite.plan.machine import Machine

RECORDED = (
    *("select", "exclude", "override", "parameters", "variables"),
    *("devices", "repeat", "batch"),
)


def add_options(made: argparse.ArgumentParser) -> None:
    """The options of everything that plans."""
    add_ground(made)
    add_sizing(made)
    add = made.add_argument
    add(
        "--batch",
        metavar="HOW",
        help="auto (the largest that fits), fastest (that fits), or a size for all",
    )
    add("--repeat", type=int, metavar="N", help="run every benchmark so many times (default 1)")
    add("--name", metavar="NAME", help="what the run is called (default: the suite's name)")
    add(
        "--max-parallel", type=int, default=1, metavar="N", help="jobs at the same time (default 1)"
    )
    add(
        "--pin", action="store_true", help="bind processes that run side by side to their own cores"
    )


def add_ground(made: argparse.ArgumentParser) -> None:
    """The options that say on what something runs."""
    common.add_base(made)
    common.add_devices(made)
    add = made.add_argument
    add(
        "--use-current-env",
        action="store_true",
        help="run in the environment of inject itself",
    )


def add_sizing(made: argparse.ArgumentParser) -> None:
    """``--sizing``, for the verbs that know of batch sizes."""
    made.add_argument(
        "--sizing",
        metavar="DIR",
        help="where batch sizes that were measured lie (default: sizing/ beside the suite)",
    )


def suite_and_plan(given: argparse.Namespace, folder: str | None = None) -> tuple[Suite, Plan]:
    """The suite that a command line names, and its plan.

    ``folder``: the run folder; one that does not exist unless given. Raises UserError.
    """
    from ...suite.environments.resources import resources_below
    from ...suite.plan import machine, planner
    from ...suite.run.suite_folder import past_durations

    if given.repeat is not None and given.repeat < 1:
        raise UserError(f"--repeat is a number of times, at least 1, not {given.repeat}")
    check_parallel(given.max_parallel)
    base = common.base(given.base)
    found = machine.find_machine(given.devices)
    suite = common.suite(given, found.facts())
    below = resources_below(Path(base), given.use_current_env)
    if given.batch:
        suite, below = _sized(given, suite, found, below)
    name = given.name or suite.name
    options = planner.PlanOptions(
        folder or os.path.join(base, "runs", f"{name}.TIME"),
        repeat=given.repeat or 1,
        pin=given.pin,
        history=past_durations(str(base), {each.name for each in suite.benchmarks}),
        options={
            **{key: vars(given)[key] for key in RECORDED},
            "use_current_env": given.use_current_env,
        },
    )
    return suite, planner.plan_suite(suite, found, str(base), below, options)


def check_parallel(jobs: int) -> None:
    """Raise UserError for a ``--max-parallel`` that is none."""
    if jobs < 1:
        raise UserError(f"--max-parallel is at least 1, not {jobs}")


def _sized(
    given: argparse.Namespace,
    suite: Suite,
    machine: Machine,
    ground: Callable[[Benchmark], Resources],
) -> tuple[Suite, Callable[[Benchmark], Resources]]:
    """The suite with the batches that ``--batch`` means, and what ``auto_batch`` means for it."""
    from ...suite.plan import batch_sizes

    how = batch_sizes.sizer_for(given.batch, suite, machine, given.sizing)
    for name in how.left(suite):
        print(
            f"inject suite: {name} keeps its batch: nothing is known of it on {how.kind}; "
            "inject suite size measures it",
            file=sys.stderr,
        )
    return how.all_sized(suite), how.resources(ground)
