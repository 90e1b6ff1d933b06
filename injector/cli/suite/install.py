"""``inject suite install``: checks out sources and makes environments. ``inject suite prepare`` shares its
options and its way of printing outcomes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ...analysis.wording import some
from ...errors import UserError
from ...suite.config.scope import ARCHITECTURES
from ...suite.environments.commands import indented
from ...suite.environments.folders import base_of
from ...suite.environments.installers import INSTALLERS
from ...suite.environments.setup import SetupOptions, SetupOutcome
from . import options
from .options import add_base

INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 + SIGINT."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that both verbs have."""
    add_base(parser)
    add = parser.add_argument
    add("--arch", choices=ARCHITECTURES, help="what it is for (default: this machine's devices)")
    add("--use-current-env", action="store_true", help="use inject's own environment for all")
    add("--force", action="store_true", help="do again what is done")
    add("--dry-run", action="store_true", help="say what would be done, and do nothing")


def setup_options(given: argparse.Namespace, **more: Any) -> SetupOptions:
    """The options for the rooms that install and prepare.

    Raises UserError if the base folder cannot be created, or this machine's devices cannot be found out.
    """
    from ...suite.environments import folders
    from ...suite.plan import machine

    base = base_of(given.base)
    facts: dict[str, Any] = {"arch": given.arch}
    try:
        facts = {**machine.find_machine().facts(), **(facts if given.arch else {})}
    except UserError:
        if not given.arch:  # --arch installs for devices that this machine need not have
            raise
    if not given.dry_run:
        folders.make(base)
    return SetupOptions(
        base=base,
        arch=str(facts["arch"]),
        say=lambda text: print(f"inject: {text}", file=sys.stderr, flush=True),
        use_current=given.use_current_env,
        force=given.force,
        dry_run=given.dry_run,
        facts=facts,
        **more,
    )


def report(verb: str, act: Callable[[], list[SetupOutcome]]) -> int:
    """Call ``act()`` and print its outcomes. Returns 0, 1 if something failed, 2 for bad input."""
    try:
        outcomes = act()
    except UserError as error:
        print(f"inject suite {verb}:\n{error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"inject suite {verb}: interrupted; it goes on from here", file=sys.stderr)
        return INTERRUPTED
    for line in lines(outcomes):
        print(line)
    return 1 if any(each.failed for each in outcomes) else 0


def lines(outcomes: Sequence[SetupOutcome]) -> list[str]:
    """A line for each outcome, with the reason of a failure below it, then the number of failures."""
    if not outcomes:
        return ["nothing to do"]
    width = max(len(each.what) for each in outcomes)
    result = []
    for each in outcomes:
        took = f"  {each.seconds:.1f} s" if each.seconds >= 0.1 else ""
        why = f"  {each.text}" if each.text and not each.failed else ""
        result.append(f"{each.what:<{width}}  {each.state}{took}{why}")
        if each.failed:
            result += [indented(each.text), indented(f"needed by {some(each.benchmarks, 6)}")]
    failures = sum(1 for each in outcomes if each.failed)
    if failures:
        result.append(f"{failures} of {len(outcomes)} failed")
    return result


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = options.parser(
        "install",
        "Check out sources and make an environment for each install group. What is there already "
        "stays. Exit code 1 if something failed; the rest is done nevertheless.",
    )
    add_options(result)
    add = result.add_argument
    add(
        "--installer",
        choices=INSTALLERS,
        help="what installs packages (default: uv if it is there)",
    )
    add("--update", action="store_true", help="look for newer versions than those that are locked")
    return result


def main(argv: Sequence[str]) -> int:
    """Install. Returns 0, 1 if something failed, 2 for bad input."""
    given = parser().parse_args(argv)
    return report("install", lambda: _install(given))


def _install(given: argparse.Namespace) -> list[SetupOutcome]:
    from ...suite.config import load
    from ...suite.environments.setup import install
    from ...suite.plan.selection import select_benchmarks

    setup = setup_options(given, installer=given.installer, update=given.update)
    whole = load(given.suite, setup.facts, given.override, given.parameters, given.variables)
    selected = select_benchmarks(whole, given.select, given.exclude)
    return install(whole.benchmarks, selected.benchmarks, setup)
