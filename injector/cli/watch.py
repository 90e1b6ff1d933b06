"""``inject watch``: a run that goes on, seen from another terminal or a browser."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from ..errors import UserError
from ..live.state import State
from ..report import live
from ..report.watching import Watching
from ..store.folder import find, read_info


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    result = argparse.ArgumentParser(
        prog="inject watch",
        description="Watch a run that goes on, also one on another machine through a shared folder.",
    )
    result.add_argument("run", nargs="?", help="run folder, or its name; the newest if left out")
    result.add_argument("--runs", metavar="DIR", help="folder of runs ($INJECT_RUNS, .inject/runs)")
    result.add_argument("--web", action="store_true", help="serve a page on this machine instead")
    result.add_argument("--port", type=int, default=0, help="of the page (any free one)")
    result.add_argument("--once", action="store_true", help="print the state once and end")
    return result


def main(argv: Sequence[str]) -> int:
    """Watch until the run ends, or Ctrl-C; exit code 2 when there is no such run."""
    options = parser().parse_args(argv)
    try:
        folder = find(options.run, options.runs)
        state = State(folder)
        if options.web:
            from ..report.web import serve

            return serve(state, options.port, lambda: over(folder))
        return _watch(state, folder, options.once)
    except KeyboardInterrupt:
        return 0
    except (UserError, OSError) as error:
        print(f"inject: {error}", file=sys.stderr)
        return 2


def over(folder: str) -> bool:
    """Whether the run was collected: its last record is written after its end."""
    return bool(read_info(folder))


def _watch(state: State, folder: str, once: bool) -> int:
    def ended(seconds: float) -> bool:
        state.ended = over(folder)
        if not state.ended:
            time.sleep(seconds)
        return state.ended

    if not once:
        Watching(state, sys.stdout.fileno(), every=2.0).until(ended)
    print("\n".join(live.lines(state.tick())))
    return 0
