"""``inject suite prepare``: makes the data of benchmarks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ...suite.environments.setup import SetupOutcome, prepare
from . import install, options


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = options.parser(
        "prepare",
        "Run the prepare step of each benchmark, once. Exit code 1 if something failed; the rest is "
        "done nevertheless.",
    )
    install.add_options(result)
    return result


def main(argv: Sequence[str]) -> int:
    """Prepare. Returns 0, 1 if something failed, 2 for bad input."""
    given = parser().parse_args(argv)

    def act() -> list[SetupOutcome]:
        setup = install.setup_options(given)
        return prepare(options.suite_of(given, setup.facts).benchmarks, setup)

    return install.report("prepare", act)
