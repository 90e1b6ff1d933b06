"""The options that the verbs of ``inject suite`` have in common, and the suite and plan that they come to."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UserError

if TYPE_CHECKING:
    from ...suite.config.model import Benchmark, Suite
    from ...suite.environments.setup import Resources
    from ...suite.plan.jobs import Plan
    from ...suite.plan.machine import Machine

BASE = os.path.join(".inject", "suite")
_WHAT = "names, groups, tags or definitions, with * and with and, or, not (repeats)"


def parser(verb: str, description: str, needs_suite: bool = True) -> argparse.ArgumentParser:
    """A parser of ``inject suite VERB SUITE.yaml`` with the options that say what of it is meant."""
    made = argparse.ArgumentParser(prog=f"inject suite {verb}", description=description)
    add = made.add_argument
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
    return made


def default_suite() -> str | None:
    """The suite that the environment names; to milabench's programs the variable gives JSON."""
    named = os.environ.get("MILABENCH_CONFIG", "")
    return named if named.endswith((".yaml", ".yml")) else None


def add_base(made: argparse.ArgumentParser) -> None:
    """``--base``, for the verbs that keep something there."""
    made.add_argument(
        "--base",
        metavar="DIR",
        help=f"environments, data and runs ($INJECT_BASE, $MILABENCH_BASE, {BASE})",
    )


def base_of(given: str | None) -> Path:
    """The base folder, absolute; it need not exist."""
    chosen = given or os.environ.get("INJECT_BASE") or os.environ.get("MILABENCH_BASE") or BASE
    return Path(chosen).expanduser().absolute()


def suite_of(given: argparse.Namespace, facts: Mapping[str, object] | None = None) -> Suite:
    """The suite that a command line names, reduced to what it selects.

    Raises:
        SuiteError: mistakes in it, in an option, or a selection of nothing.
    """
    from ...suite.config import load
    from ...suite.plan.selection import select_benchmarks

    whole = load(given.suite, facts, given.override, given.parameters, given.variables)
    return select_benchmarks(whole, given.select, given.exclude)


RECORDED = (
    *("select", "exclude", "override", "parameters", "variables"),
    *("devices", "repeat", "batch", "engine"),
)


def add_options(made: argparse.ArgumentParser) -> None:
    """The options of everything that plans."""
    from ...suite.run import engines

    add_ground(made)
    add_sizing(made)
    add = made.add_argument
    add(
        "--batch",
        metavar="HOW",
        help="auto (the largest that fits), fastest (that fits), or a size for all",
    )
    add(
        "--engine",
        choices=tuple(engines.ENGINES),
        default=engines.LOCAL,
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


def add_ground(made: argparse.ArgumentParser) -> None:
    """The options that say on what something runs."""
    add_base(made)
    add = made.add_argument
    add(
        "--devices",
        metavar="WHICH",
        help="cpu:N (shares of the cores), cuda:0,1, rocm:0, xpu:0, or all (default)",
    )
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
    from ...suite.environments.setup import resources_below
    from ...suite.plan import planner
    from ...suite.run import engines
    from ...suite.run.suite_folder import past_durations

    if given.repeat is not None and given.repeat < 1:
        raise UserError(f"--repeat is a number of times, at least 1, not {given.repeat}")
    check_parallel(given.max_parallel)
    if given.engine_options and given.engine not in ("slurm", "ray"):
        raise UserError("--engine-option is for --engine slurm and --engine ray")
    own = [f"system.{given.engine}.{each}" for each in given.engine_options]
    given.parameters = [*given.parameters, *own]
    base = base_of(given.base)
    system = {} if given.engine == engines.LOCAL else suite_of(given).system
    found = engines.machine_of(given.engine, system, given.devices)
    suite = suite_of(given, found.facts())
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
    plan = planner.plan_suite(suite, found, str(base), below, options)
    engines.check(plan)
    return suite, plan


def check_parallel(jobs: int | None) -> None:
    """Raise UserError for a ``--max-parallel`` that is none."""
    if jobs is not None and jobs < 1:
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
