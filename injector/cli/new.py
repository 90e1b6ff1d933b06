"""``inject new``: makes a benchmark of a program, with a voirfile that finds its training loop."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from ..suite.environments.folders import base_of
from .ending import reports_errors
from .suite.options import add_base

SECONDS = 120
"""Seconds that the program may run by default, to show its loops."""


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = argparse.ArgumentParser(
        prog="inject new",
        description="Write the folder of a benchmark of a training program: benchmark.yaml, "
        "requirements.txt, README.md and a voirfile that names its loop. The program is run briefly, "
        "to see where it trains.",
    )
    add = result.add_argument
    add("name", metavar="NAME", help="the benchmark's name, and its folder's")
    add("--package", metavar="PIN", help="a package of the registry: NAME==VERSION, or NAME")
    add("--git", metavar="URL", help="a git repository")
    add("--commit", metavar="SHA", help="its commit (default: where it is now)")
    add("--script", metavar="FILE", type=Path, help="a script of this machine")
    add(
        "--run",
        metavar="TEXT",
        help="how it is started: 'train.py', '-m pkg.train', 'cmd sub --x 1'",
    )
    add(
        "--into", metavar="DIR", type=Path, default=Path("benchmarks"), help="(default: benchmarks)"
    )
    add(
        "--try",
        dest="tried",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="run it for a few steps, to see its loops (default), or do not run it",
    )
    add(
        "--try-for",
        type=_seconds,
        default=SECONDS,
        metavar="SECONDS",
        help=f"let a run last at most so long (default: {SECONDS})",
    )
    add_base(result)
    return result


def _seconds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number of seconds, from 1, is needed")
    return int(text)


@reports_errors("inject new")
def main(argv: Sequence[str]) -> int:
    """Write the benchmark. Returns 0, 1 if the program cannot be fetched, 2 for bad input."""
    options = parser().parse_args(argv)

    def end(number: int, _: FrameType | None) -> None:
        """End by an exception, so that the program that is being run is ended as well."""
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    from ..suite.environments.commands import Failed, indented
    from ..suite.new.fetching import parse
    from ..suite.new.scaffold import NewRequest, make

    def say(text: str) -> None:
        print(f"inject: {text}", file=sys.stderr, flush=True)

    try:
        request = NewRequest(
            name=options.name,
            into=options.into,
            base=base_of(options.base),
            package=options.package,
            git=options.git,
            commit=options.commit,
            script=options.script,
            run=parse(options.run) if options.run is not None else None,
            seconds=options.try_for if options.tried else None,
        )
        proposal = make(request, say)
    except Failed as error:
        print(f"inject new: {error}", file=sys.stderr)
        return 1
    print(f"{options.into / options.name}:")
    for line in proposal.lines:
        print(f"  {line.text()}")
    for remark in proposal.remarks:
        print(indented(str(remark), "  "))
    return 0
