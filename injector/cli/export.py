"""``inject export``: a run, or each run of a suite, put into another tool."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module

from injector.value_class import replace

from ..analysis.summary import summarise
from ..errors import UserError
from ..export import content
from ..export.content import Content, without_secrets
from ..export.tracked import Destination
from ..store.folder import Run, open_run
from . import opened
from .ending import reports_errors
from .forms import maker

TRACKERS = {
    "mlflow": "properties, figures, series and files, with the page",
    "otel": "series and figures as metrics, steps and regions as a trace, to a collector over OTLP",
    "perfetto": "a trace of steps, regions, ranks, devices and hosts",
    "prometheus": "figures as its text, or to its Pushgateway",
    "tensorboard": "series and parameters as event files",
    "wandb": "properties, figures, series and files as an offline run of Weights & Biases",
}
"""By the name of its module and of its extra, what each is given."""
SERVED = frozenset({"mlflow", "otel", "prometheus"})
"""Those that have an address."""


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    result = argparse.ArgumentParser(
        prog="inject export",
        description="Put a run, or each run of a suite, into another tool.",
        epilog="; ".join(f"{name}: {what}" for name, what in TRACKERS.items())
        + ". Each needs its extra: pip install 'overlay-injector[NAME]'.",
    )
    opened.add_run(result, "?")
    opened.add_base(result)
    result.add_argument("--to", choices=TRACKERS, help="which tool")
    result.add_argument(
        "-o", "--output", metavar="PATH", help="file, or folder; of a suite always a folder"
    )
    result.add_argument("--uri", metavar="URI", help="where its server or its store is")
    result.add_argument("--project", metavar="NAME", help="experiment or project there")
    result.add_argument(
        "--points",
        metavar="N",
        type=_count,
        default=content.POINTS,
        help="of each series, at most; 0: all (%(default)s)",
    )
    return result


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of points: 0 or more")
    return int(text)


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Export; exit code 2 where there is no such run or the tool cannot be reached, 1 where parts of a
    record are missing.
    """
    options = parser().parse_args(argv)
    if options.to is None:
        raise UserError(f"--to says which tool: {', '.join(TRACKERS)}")
    if options.uri is not None and options.to not in SERVED:
        raise UserError(f"--uri: {options.to} has no address; --output says where its files go")
    path = opened.located(options.run, options)
    module = import_module(f"injector.export.{options.to}")
    name = os.path.basename(path.rstrip("/")) if opened.is_suite(path) else None
    target = Destination(options.output, options.uri, options.project, name)
    contents = _Contents(path, options.points)
    for sentence in module.export(contents, target):
        print(sentence)
    return contents.code


class _Contents:
    """The runs of ``path`` one after the other; what is damaged or left out is printed."""

    def __init__(self, path: str, points: int) -> None:
        self.points = points
        self.code = 0
        self._found = opened.runs_in(path)
        if not self._found:
            raise UserError(f"{path}: this suite has run nothing yet")
        open_run(self._found[0][1])  # before the tracker makes a store for what cannot be read

    def __iter__(self) -> Iterator[Content]:
        for labels, each in self._found:
            with ExitStack() as stack:
                run = stack.enter_context(opened.collected(open_run(each)))
                opened.say_missing(run, " ".join(labels.values()))
                self.code = max(self.code, opened.exit_code(run))
                one = content_of(run, labels, self.points)
                yield one
                if "series" in vars(one) and (note := content.thinning(one)):
                    print(f"inject: {note}", file=sys.stderr)


def content_of(run: Run, labels: Mapping[str, str], points: int = content.POINTS) -> Content:
    """What is exported of a run that is open. Raises OSError."""
    summary = summarise(run)
    pages = {}
    # The page goes where others read it.
    shown = replace(summary, command=tuple(without_secrets(summary.command or ())))
    try:
        pages["report.html"] = maker(run, shown, "html")
    except UserError as error:  # the libraries of the page are an extra of their own
        print(f"inject: without the page: {error}", file=sys.stderr)
    return Content(run, summary, labels, points, pages)
