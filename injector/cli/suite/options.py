"""The options that verbs of ``inject suite`` share, and the suite and plan that a command line results in."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UserError
from ...suite.environments.folders import BASE, base_of

if TYPE_CHECKING:
    from ...suite.config.model import Benchmark, Suite
    from ...suite.environments.setup import Resources
    from ...suite.plan.jobs import Plan
    from ...suite.plan.machine import Machine

_WHAT = "names, groups, tags or definitions, with * and with and, or, not (repeats)"


def parser(verb: str, description: str, needs_suite: bool = True) -> argparse.ArgumentParser:
    """A parser of ``inject suite VERB SUITE.yaml`` with the options that select and change its benchmarks.

    ``needs_suite``: it is an error to name no suite.
    """
    result = argparse.ArgumentParser(prog=f"inject suite {verb}", description=description)
    add = result.add_argument
    add(
        "suite",
        metavar="SUITE.yaml",
        nargs=None if needs_suite and default_suite() is None else "?",
        default=default_suite() if needs_suite else None,
        help="the suite, or the name of a shipped one ($MILABENCH_CONFIG)",
    )
    add("--select", action="append", default=[], metavar="WHAT", help=f"only these: {_WHAT}")
    add("--exclude", action="append", default=[], metavar="WHAT", help="not these (as --select)")
    add("--override", action="append", default=[], metavar="A.B=V", help="set a key (repeats)")
    add(
        "-P", action="append", default=[], dest="parameters", metavar="KEY=V", help="set a variable"
    )
    add("-V", action="append", default=[], dest="variables", metavar="KEY=[…]", help="sweep one")
    return result


def default_suite() -> str | None:
    """The suite that ``$MILABENCH_CONFIG`` names. Programs of milabench have JSON in that variable."""
    named = os.environ.get("MILABENCH_CONFIG", "")
    return named if named.endswith((".yaml", ".yml")) else None


def add_base(parser: argparse.ArgumentParser) -> None:
    """Add ``--base``."""
    parser.add_argument(
        "--base",
        metavar="DIR",
        help=f"environments, data and runs ($INJECT_BASE, $MILABENCH_BASE, {BASE})",
    )


def suite_of(given: argparse.Namespace, facts: Mapping[str, object] | None = None) -> Suite:
    """The suite that a command line names, with the benchmarks that it selects.

    Raises SuiteError if the suite or an option has mistakes, or nothing is selected.
    """
    from ...suite.config import load
    from ...suite.plan.selection import select_benchmarks

    whole = load(given.suite, facts, given.override, given.parameters, given.variables)
    return select_benchmarks(whole, given.select, given.exclude)


RECORDED = (
    *("select", "exclude", "override", "parameters", "variables"),
    *("devices", "repeat", "batch", "engine"),
)
"""The options that a plan records."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verbs that plan."""
    from ...suite.run import suite_run

    add_resources(parser)
    add = parser.add_argument
    add(
        "--batch",
        metavar="HOW",
        help="auto (the largest that fits), fastest (that fits), or a size for all",
    )
    add(
        "--engine",
        choices=tuple(suite_run.ENGINES),
        default=suite_run.LOCAL,
        help="what runs the jobs (default local: this machine); its options are in the suite's system",
    )
    add(
        "--engine-option",
        action="append",
        default=[],
        dest="engine_options",
        metavar="KEY=V",
        help="one of these options, of slurm or ray (repeats)",
    )
    add("--repeat", type=int, metavar="N", help="run every benchmark so many times (default 1)")
    add("--name", metavar="NAME", help="what the run is called (default: the suite's name)")
    add("--max-parallel", type=int, metavar="N", help="jobs at the same time (default 1)")
    add(
        "--pin", action="store_true", help="bind processes that run side by side to their own cores"
    )


def add_resources(parser: argparse.ArgumentParser) -> None:
    """Add the options about base folder, devices, environment and measured batch sizes."""
    add_base(parser)
    add = parser.add_argument
    add(
        "--devices",
        metavar="WHICH",
        help="cpu:N (shares of the cores), cuda:0,1, rocm:0, xpu:0, or all (default)",
    )
    add("--use-current-env", action="store_true", help="run in the environment of inject itself")
    add(
        "--sizing",
        metavar="DIR",
        help="where batch sizes that were measured lie (default: sizing/ beside the suite)",
    )


def suite_and_plan(given: argparse.Namespace, folder: str | None = None) -> tuple[Suite, Plan]:
    """The suite that a command line names, and its plan.

    ``folder`` is the run folder; without it the plan names one that does not exist. Raises UserError.
    """
    from ...suite.environments.setup import resources_below
    from ...suite.plan import planner
    from ...suite.plan.jobs import PlanOptions
    from ...suite.run import suite_run
    from ...suite.run.suite_folder import past_durations

    if given.repeat is not None and given.repeat < 1:
        raise UserError(f"--repeat is a number of times, at least 1, not {given.repeat}")
    check_parallel(given.max_parallel)
    if given.engine_options and given.engine not in ("slurm", "ray"):
        raise UserError("--engine-option is for --engine slurm and --engine ray")
    own = [f"system.{given.engine}.{each}" for each in given.engine_options]
    given.parameters = [*given.parameters, *own]
    base = base_of(given.base)
    system = {} if given.engine == suite_run.LOCAL else suite_of(given).system
    machine = suite_run.machine_of(given.engine, system, given.devices)
    suite = suite_of(given, machine.facts())
    resources = resources_below(Path(base), given.use_current_env)
    if given.batch:
        suite, resources = _sized(given, suite, machine, resources)
    name = given.name or suite.name
    options = PlanOptions(
        folder or os.path.join(base, "runs", f"{name}.TIME"),
        repeat=given.repeat or 1,
        pin=given.pin,
        history=past_durations(str(base), {each.name for each in suite.benchmarks}),
        options={
            **{key: vars(given)[key] for key in RECORDED},
            "use_current_env": given.use_current_env,
        },
    )
    plan = planner.plan_suite(suite, machine, str(base), resources, options)
    suite_run.check(plan)
    return suite, plan


def check_parallel(jobs: int | None) -> None:
    """Raise UserError if ``--max-parallel`` is less than 1."""
    if jobs is not None and jobs < 1:
        raise UserError(f"--max-parallel is at least 1, not {jobs}")


def _sized(
    given: argparse.Namespace,
    suite: Suite,
    machine: Machine,
    resources: Callable[[Benchmark], Resources],
) -> tuple[Suite, Callable[[Benchmark], Resources]]:
    """The suite with the batch sizes of ``--batch``, and resources with each benchmark's ``auto_batch``."""
    from ...suite.plan import batch_sizes

    sizer = batch_sizes.sizer_for(given.batch, suite, machine, given.sizing)
    for name in sizer.left(suite):
        print(
            f"inject suite: {name} keeps its batch: nothing is known of it on {sizer.kind}; "
            "inject suite size measures it",
            file=sys.stderr,
        )
    sized = replace(suite, benchmarks=tuple(map(sizer.sized, suite.benchmarks)))
    return sized, sizer.resources(resources)
