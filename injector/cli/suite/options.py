"""The options that the verbs of ``inject suite`` have in common."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...suite.config.model import Suite

BASE = os.path.join(".inject", "suite")
_WHAT = "names, groups, tags or definitions, with * and with and, or, not (repeats)"


def parser(verb: str, description: str, needs_suite: bool = True) -> argparse.ArgumentParser:
    """A parser of ``inject suite VERB SUITE.yaml`` with the options that say what of it is meant."""
    made = argparse.ArgumentParser(prog=f"inject suite {verb}", description=description)
    add = made.add_argument
    add(
        "suite",
        metavar="SUITE.yaml",
        nargs=None if needs_suite else "?",
        help="the suite, or the name of a shipped one",
    )
    add("--select", action="append", default=[], metavar="WHAT", help=f"only these: {_WHAT}")
    add("--exclude", action="append", default=[], metavar="WHAT", help="not these (as --select)")
    add("--override", action="append", default=[], metavar="A.B=V", help="set a key (repeats)")
    add(
        "-P", action="append", default=[], dest="parameters", metavar="KEY=V", help="set a variable"
    )
    add("-V", action="append", default=[], dest="variables", metavar="KEY=[…]", help="sweep one")
    return made


def add_base(made: argparse.ArgumentParser) -> None:
    """``--base``, for the verbs that keep something there."""
    made.add_argument(
        "--base",
        metavar="DIR",
        help=f"environments, data and runs ($INJECT_BASE, $MILABENCH_BASE, {BASE})",
    )


def add_devices(made: argparse.ArgumentParser) -> None:
    """``--devices``, for the verbs that plan."""
    made.add_argument(
        "--devices",
        metavar="WHICH",
        help="cpu:N (shares of the cores), cuda:0,1, rocm:0, xpu:0, or all (default)",
    )


def base(given: str | None) -> Path:
    """The base folder, absolute; it need not exist."""
    chosen = given or os.environ.get("INJECT_BASE") or os.environ.get("MILABENCH_BASE") or BASE
    return Path(chosen).expanduser().absolute()


def suite(given: argparse.Namespace, facts: Mapping[str, object] | None = None) -> Suite:
    """The suite that a command line names, reduced to what it selects.

    Raises:
        SuiteError: mistakes in it, in an option, or a selection of nothing.
    """
    from ...suite.config import load
    from ...suite.plan.selection import select_benchmarks

    whole = load(given.suite, facts, given.override, given.parameters, given.variables)
    return select_benchmarks(whole, given.select, given.exclude)
