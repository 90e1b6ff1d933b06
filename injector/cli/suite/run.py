"""``inject suite run``: run a suite, or go on with one."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import UserError
from ...limits import duration
from ..ending import reports_errors
from . import options as common
from .plan import plan_text

if TYPE_CHECKING:
    from ...suite.run.policy import RunPolicy


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    made = common.parser("run", "Run a suite, or go on with one.", needs_suite=False)
    common.add_options(made)
    add = made.add_argument
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
    return made


@reports_errors("inject suite")
def main(argv: Sequence[str]) -> int:
    """Run it; the exit code is 0 only if everything that should have run did, and passed."""
    given = parser().parse_args(argv)
    _check(given)
    return _run(given) if given.resume is None else _resume(given)


def _check(given: argparse.Namespace) -> None:
    """Raise UserError for options that do not go together."""
    if given.resume and given.suite is None and given.resume.endswith((".yaml", ".yml")):
        given.suite, given.resume = given.resume, ""  # `--resume SUITE.yaml`: the suite is meant
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
    from ...suite.results.validation import check
    from ...suite.run import suite_folder, suite_run
    from ...suite.run.policy import policy_of_suite

    if given.dry_run:
        print(plan_text(*common.suite_and_plan(given), given.max_parallel))
        return 0
    base = str(common.base_of(given.base))
    path = suite_folder.create(base, given.name or os.path.basename(given.suite).partition(".")[0])
    try:
        suite, plan = common.suite_and_plan(given, path)
    except BaseException:
        os.rmdir(path)
        raise
    return suite_run.run(plan, path, _with(given, policy_of_suite(suite, plan, check)))


def _resume(given: argparse.Namespace) -> int:
    from ...suite.plan.jobs import read_plan
    from ...suite.results.validation import check
    from ...suite.run import suite_folder, suite_run
    from ...suite.run.policy import policy_of_plan

    path = suite_folder.find_resumable(
        str(common.base_of(given.base)), given.resume or None, given.suite
    )
    plan = read_plan(path)
    policy = _with(given, policy_of_plan(plan, check))
    return suite_run.resume(plan, path, policy, given.rerun or "never", given.dry_run)


def _with(given: argparse.Namespace, policy: RunPolicy) -> RunPolicy:
    from ...suite.results import job_log

    policy.log = job_log.write
    policy.max_parallel = given.max_parallel
    policy.patience = given.wait
    policy.allow_busy = given.allow_busy
    return policy
