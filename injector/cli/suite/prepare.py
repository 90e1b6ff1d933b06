"""``inject suite prepare``: data."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ...suite.environments.setup import SetupOutcome
from . import options, readied


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    made = options.parser(
        "prepare",
        "Run the prepare step of each benchmark, once. Exit code 1 if something failed; the rest is "
        "done nevertheless.",
    )
    readied.add_options(made)
    return made


def main(argv: Sequence[str]) -> int:
    """Run the verb; returns 0, 1 or 2."""
    given = parser().parse_args(argv)
    return readied.done("prepare", lambda: _prepare(given))


def _prepare(given: argparse.Namespace) -> list[SetupOutcome]:
    from ...suite.environments.setup import prepare

    how = readied.how(given)
    return prepare(options.suite(given, how.facts).benchmarks, how)
