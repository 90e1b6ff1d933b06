"""``inject watch``: a run or suite, live or afterwards, shown in another terminal or a browser."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from ..analysis.summary import summarise
from ..errors import UserError
from ..live.snapshot import Snapshot
from ..live.state import State
from ..report import panel
from ..report.final import snapshot as final_snapshot
from ..report.output import show
from ..report.watching import Watching, rest_after
from ..store.folder import Run, open_run
from .ending import reports_errors
from .live_pages import RunEnd, RunPage, is_over
from .opened import add_base, add_run, collected, exit_code, is_suite, locate

EVERY = 2.0
"""Seconds between two lines if the output is no terminal."""


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = argparse.ArgumentParser(
        prog="inject watch",
        description="Watch a run or a suite while it is running, also one on another machine through a "
        "shared folder.",
    )
    add_run(result, "?")
    add_base(result)
    add = result.add_argument
    add("--web", action="store_true", help="serve a page on this machine instead")
    add("--port", type=_port, help="of the page (any free one)")
    add("--once", action="store_true", help="print the state once and end")
    add("--json", action="store_true", help="print it for other programs, a line each")
    return result


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"a port is a number up to 65535, not {text!r}")
    return int(text)


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Watch until the run ends, or Ctrl-C. Returns 0, 1 for a damaged record, 2 for bad input."""
    options = parser().parse_args(argv)
    if options.web and options.once:
        raise UserError("--web serves a page until it is ended, --once prints and ends: not both")
    if options.web and options.json:
        raise UserError("--web serves a page, --json prints lines: not both")
    if options.port is not None and not options.web:
        raise UserError("--port is that of the page: add --web")
    try:
        path = locate(options.run, options)
        if is_suite(path):
            from .suite import watched

            if options.web:
                return watched.serve(path, options.port or 0)
            return watched.watch(path, options.once, options.json)
        if options.web:
            from ..report.web import PageServer, serve

            return serve(PageServer(RunPage(path), options.port or 0))
        return _watch(open_run(path), options.once, options.json)
    except KeyboardInterrupt:
        return 0


def _watch(run: Run, once: bool, json: bool) -> int:
    """Watch ``run`` on this terminal, or with lines of JSON. ``once``: print its state only."""
    output = _print_json if json else _print
    if not is_over(run):
        state = State(run.path)
        state.catch_up()
        if once:
            while state.settling:
                time.sleep(0.5)
                state.tick()
            output(state.tick())
            return 0
        end = RunEnd(run, state)
        if json:
            rest = EVERY
            while not end.wait(rest):
                began = time.thread_time()
                output(state.tick())
                rest = rest_after(began, EVERY)
        else:
            Watching(state, sys.stdout.fileno(), every=EVERY).until(end.wait)
    with collected(open_run(run.path)) as ended:
        output(final_snapshot(summarise(ended)))
        return exit_code(ended)


def _print_json(snapshot: Snapshot) -> None:
    print(panel.as_json(snapshot), flush=True)


def _print(snapshot: Snapshot) -> None:
    show(lambda: "\n".join([*panel.lines(snapshot), ""]), sys.stdout)
