"""``inject suite prepare``: data."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ...suite.environments.setup import SetupOutcome, prepare
from . import install, options


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    made = options.parser(
        "prepare",
        "Run the prepare step of each benchmark, once. Exit code 1 if something failed; the rest is "
        "done nevertheless.",
    )
    install.add_options(made)
    return made


def main(argv: Sequence[str]) -> int:
    """Run the verb; returns 0, 1 or 2."""
    given = parser().parse_args(argv)

    def act() -> list[SetupOutcome]:
        how = install.setup_options(given)
        return prepare(options.suite_of(given, how.facts).benchmarks, how)

    return install.done("prepare", act)
