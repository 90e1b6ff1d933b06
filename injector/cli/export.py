"""``inject export``: a run, or each run of a suite, put into another tool."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module

from ..errors import UserError
from ..export.content import Content, thinning
from ..export.series import POINTS
from ..export.tracked import Destination
from ..run.tracking import content_of
from ..store.folder import open_run
from . import opened
from .ending import reports_errors

TRACKERS = {
    "mlflow": "properties, figures, series and files, with the page",
    "otel": "series and figures as metrics, steps and regions as a trace, to a collector over OTLP",
    "perfetto": "a trace of steps, regions, ranks, devices and hosts",
    "prometheus": "figures as its text, or to its Pushgateway",
    "tensorboard": "series and parameters as event files",
    "wandb": "properties, figures, series and files as an offline run of Weights & Biases",
}
"""By the name of a tracker, of its module and its extra: what of a run it receives."""
SERVED = frozenset({"mlflow", "otel", "prometheus"})
"""The trackers that may be servers with an address."""
WRITING = frozenset({"perfetto", "prometheus", "tensorboard", "wandb"})
"""The trackers that are given files, in a place that ``--output`` names."""
GROUPING = frozenset({"mlflow", "otel", "wandb"})
"""The trackers that put a run below an experiment, a project or a service."""


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = argparse.ArgumentParser(
        prog="inject export",
        description="Put a run, or each run of a suite, into another tool.",
        epilog="; ".join(f"{name}: {what}" for name, what in TRACKERS.items())
        + ". Each needs its extra: pip install 'overlay-injector[NAME]'.",
    )
    opened.add_run(result, "?")
    opened.add_base(result)
    add = result.add_argument
    add("--to", choices=TRACKERS, help="which tool")
    add("-o", "--output", metavar="PATH", help="file, or folder; of a suite always a folder")
    add("--uri", metavar="URI", help="where its server or its store is")
    add("--project", metavar="NAME", help="experiment or project there")
    add(
        "--points",
        metavar="N",
        type=_count,
        default=POINTS,
        help="of each series, at most, two or more; 0: all (%(default)s)",
    )
    return result


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 1:  # the least and the largest value are two
        raise argparse.ArgumentTypeError(f"{text!r} is no number of points: 0, or 2 and more")
    return int(text)


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Export each run. Returns 0, 1 if parts of a record are missing, 2 for bad input or a tool's refusal."""
    options = parser().parse_args(argv)
    if options.to is None:
        raise UserError(f"--to says which tool: {', '.join(TRACKERS)}")
    _check_words(options)
    path = opened.locate(options.run, options)
    module = import_module(f"injector.export.{options.to}")
    name = os.path.basename(path.rstrip("/")) if opened.is_suite(path) else None
    target = Destination(options.output, options.uri, options.project, name)
    contents = _Contents(path, options.points)
    for sentence in module.export(contents, target):
        print(sentence)
    return contents.code


def _check_words(options: argparse.Namespace) -> None:
    """Raise UserError for an option that the tracker would not heed."""
    to = options.to
    if options.uri is not None and to not in SERVED:
        raise UserError(f"--uri: {to} has no address; --output says where its files go")
    if options.output is not None and to not in WRITING:
        raise UserError(f"--output: {to} is given no file; --uri says where it is sent")
    if options.output is not None and options.uri is not None:
        raise UserError(f"--output and --uri: {to} is either written or sent")
    if options.project is not None and to not in GROUPING:
        raise UserError(f"--project: {to} has no projects")


class _Contents:
    """Iterates over the contents of the runs of ``path``, and prints what is missing or left out of each."""

    def __init__(self, path: str, points: int) -> None:
        self.points = points
        self.code = 0
        """The exit code for the runs so far."""
        self._folders = opened.runs_in(path)
        if not self._folders:
            raise UserError(f"{path}: this suite has run nothing yet")
        open_run(self._folders[0][1])  # raises its error before the tracker creates anything

    def __iter__(self) -> Iterator[Content]:
        for labels, folder in self._folders:
            with ExitStack() as stack:
                run = stack.enter_context(opened.collected(open_run(folder)))
                opened.print_missing(run, " ".join(labels.values()))
                self.code = max(self.code, opened.exit_code(run))
                one = content_of(run, labels, self.points)
                yield one
                # Only what reads the series leaves points out.
                if "series" in vars(one) and (note := thinning(one)):
                    print(f"inject: {note}", file=sys.stderr)
