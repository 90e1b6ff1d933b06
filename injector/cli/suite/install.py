"""``inject suite install``: sources and environments; what ``inject suite prepare`` shares."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ...analysis.wording import some
from ...errors import UserError
from ...suite.config.scope import ARCHITECTURES
from ...suite.environments.commands import indented
from ...suite.environments.installers import INSTALLERS
from ...suite.environments.setup import SetupOptions, SetupOutcome
from . import options
from .options import add_base, base_of

INTERRUPTED = 130


def add_options(made: argparse.ArgumentParser) -> None:
    """The options that both have."""
    add_base(made)
    add = made.add_argument
    add("--arch", choices=ARCHITECTURES, help="what it is for (default: this machine's devices)")
    add("--use-current-env", action="store_true", help="use inject's own environment for all")
    add("--force", action="store_true", help="do again what is done")
    add("--dry-run", action="store_true", help="say what would be done, and do nothing")


def setup_options(given: argparse.Namespace, **more: Any) -> SetupOptions:
    """What the options say.

    Raises:
        UserError: the base folder cannot be made, or this machine's devices are not known.
    """
    from ...suite.environments import folders
    from ...suite.plan import machine

    place = base_of(given.base)
    facts: dict[str, Any] = {"arch": given.arch}
    try:
        facts = {**machine.find_machine().facts(), **(facts if given.arch else {})}
    except UserError:
        if not given.arch:  # on a machine without the devices that it installs for
            raise
    if not given.dry_run:
        folders.make(place)
    return SetupOptions(
        base=place,
        arch=str(facts["arch"]),
        say=lambda text: print(f"inject: {text}", file=sys.stderr, flush=True),
        use_current=given.use_current_env,
        force=given.force,
        dry_run=given.dry_run,
        facts=facts,
        **more,
    )


def done(verb: str, act: Callable[[], list[SetupOutcome]]) -> int:
    """Do it and print what became of it: 0, 1 where something failed, 2 on bad input."""
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
    """A line for each, with the reasons of failures below it, and a last one for all."""
    if not outcomes:
        return ["nothing to do"]
    width = max(len(each.what) for each in outcomes)
    found = []
    for each in outcomes:
        took = f"  {each.seconds:.1f} s" if each.seconds >= 0.1 else ""
        why = f"  {each.text}" if each.text and not each.failed else ""
        found.append(f"{each.what:<{width}}  {each.state}{took}{why}")
        if each.failed:
            found += [indented(each.text), indented(f"needed by {some(each.benchmarks, 6)}")]
    failed = sum(1 for each in outcomes if each.failed)
    if failed:
        found.append(f"{failed} of {len(outcomes)} failed")
    return found


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    made = options.parser(
        "install",
        "Check out sources and make an environment for each install group. What is there already "
        "stays. Exit code 1 if something failed; the rest is done nevertheless.",
    )
    add_options(made)
    add = made.add_argument
    add(
        "--installer",
        choices=INSTALLERS,
        help="what installs packages (default: uv if it is there)",
    )
    add("--update", action="store_true", help="look for newer versions than those that are locked")
    return made


def main(argv: Sequence[str]) -> int:
    """Run the verb; returns 0, 1 or 2."""
    given = parser().parse_args(argv)
    return done("install", lambda: _install(given))


def _install(given: argparse.Namespace) -> list[SetupOutcome]:
    from ...suite.config import load
    from ...suite.environments.setup import install
    from ...suite.plan.selection import select_benchmarks

    how = setup_options(given, installer=given.installer, update=given.update)
    whole = load(given.suite, how.facts, given.override, given.parameters, given.variables)
    selected = select_benchmarks(whole, given.select, given.exclude)
    return install(whole.benchmarks, selected.benchmarks, how)
