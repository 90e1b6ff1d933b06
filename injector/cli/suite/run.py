"""``inject suite run``: runs a suite, or goes on with a run that was interrupted."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import UserError
from ...limits import duration
from ...suite.environments.folders import base_of
from ..ending import reports_errors
from . import options as common
from .plan import plan_text

if TYPE_CHECKING:
    from ...suite.run.policy import RunPolicy


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = common.parser("run", "Run a suite, or go on with one.", needs_suite=False)
    common.add_options(result)
    add = result.add_argument
    add(
        "--resume",
        nargs="?",
        const="",
        metavar="RUN",
        help="go on with a run that was interrupted (default: the newest)",
    )
    add(
        "--rerun",
        choices=("never", "onfail", "always"),
        help="with --resume: which jobs that have finished run again (default never)",
    )
    add(
        "--wait",
        default="60",
        metavar="T",
        help="how long to wait for devices that other processes use (default 60s)",
    )
    add("--allow-busy", action="store_true", help="do not wait for devices to be idle")
    add("--dry-run", action="store_true", help="only show what would be started")
    return result


@reports_errors("inject suite")
def main(argv: Sequence[str]) -> int:
    """Run the suite. Returns 0 only if everything that should have run did, and passed; 2 for bad input."""
    given = parser().parse_args(argv)
    _complete(given)
    return _run(given) if given.resume is None else _resume(given)


def _complete(given: argparse.Namespace) -> None:
    """Parse values, and fill in the suite. Raises UserError for options that contradict each other."""
    if given.resume and given.suite is None and given.resume.endswith((".yaml", ".yml")):
        # `--resume SUITE.yaml`: the newest run of that suite is meant.
        given.suite, given.resume = given.resume, ""
    given.wait = duration("--wait", given.wait)
    common.check_parallel(given.max_parallel)
    if given.resume is None:
        given.suite = given.suite or common.default_suite()
    if given.resume is None and given.suite is None:
        raise UserError("nothing to run: name a SUITE.yaml, or a run with --resume")
    if given.resume is None and given.rerun:
        raise UserError(
            "--rerun says what --resume does with jobs that have finished: add --resume"
        )
    if given.resume is not None and (given.repeat or given.name or given.devices):
        raise UserError(
            "--repeat, --name and --devices are those of the run that --resume goes on with"
        )


def _run(given: argparse.Namespace) -> int:
    """Plan and run the suite, or print the plan."""
    from ...suite.results.validation import check
    from ...suite.run import suite_folder, suite_run
    from ...suite.run.policy import policy_of

    if given.dry_run:
        print(plan_text(*common.suite_and_plan(given), given.max_parallel))
        return 0
    base = str(base_of(given.base))
    folder = suite_folder.create(
        base, given.name or os.path.basename(given.suite).partition(".")[0]
    )
    try:
        _, plan = common.suite_and_plan(given, folder)
    except BaseException:
        os.rmdir(folder)
        raise
    return suite_run.run(plan, folder, _policy(given, policy_of(plan, check)))


def _resume(given: argparse.Namespace) -> int:
    """Go on with the run of a suite by its recorded plan."""
    from ...suite.plan.jobs import read_plan
    from ...suite.results.validation import check
    from ...suite.run import suite_folder, suite_run
    from ...suite.run.policy import policy_of

    folder = suite_folder.find_resumable(
        str(base_of(given.base)), given.resume or None, given.suite
    )
    plan = read_plan(folder)
    policy = _policy(given, policy_of(plan, check))
    return suite_run.resume(plan, folder, policy, given.rerun or "never", given.dry_run)


def _policy(given: argparse.Namespace, policy: RunPolicy) -> RunPolicy:
    """``policy`` with what the command line adds to it."""
    from ...suite.results import job_log

    policy.log = job_log.write
    policy.max_parallel = given.max_parallel
    policy.patience = given.wait
    policy.allow_busy = given.allow_busy
    return policy
