"""``inject suite install``: sources and environments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ...suite.environments.installers import INSTALLERS
from ...suite.environments.setup import SetupOutcome
from . import options, readied


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    made = options.parser(
        "install",
        "Check out sources and make an environment for each install group. What is there already "
        "stays. Exit code 1 if something failed; the rest is done nevertheless.",
    )
    readied.add_options(made)
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
    return readied.done("install", lambda: _install(given))


def _install(given: argparse.Namespace) -> list[SetupOutcome]:
    from ...suite.config import load
    from ...suite.environments.setup import install
    from ...suite.plan.selection import select_benchmarks

    how = readied.how(given, installer=given.installer, update=given.update)
    whole = load(given.suite, how.facts, given.override, given.parameters, given.variables)
    selected = select_benchmarks(whole, given.select, given.exclude)
    return install(whole.benchmarks, selected.benchmarks, how)
