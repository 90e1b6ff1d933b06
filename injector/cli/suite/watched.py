"""``inject watch`` of a suite: all its benchmarks and their processes together."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

from ...analysis.timeseries import TimeSeries
from ...errors import UserError
from ...report.output import show
from ...report.panel import as_json
from ...report.watching import Watching
from ...store.folder import open_run
from ...suite.results import live_view
from ...suite.results.live_view import SuiteSnapshot
from ...suite.results.status import SuiteStatus, runs_of
from ...suite.results.suite_reader import SuiteReader, summarise
from ...suite.results.suite_summary import ENDED, RUNNING, STARTING
from ...suite.results.timelines import combined, of_run
from ..opened import DAMAGED, collected

PATIENCE = 10.0
"""Seconds in which a suite that no process runs may still be about to begin, or to go on."""
EVERY = 2.0
"""Seconds between two lines, for output that is no terminal."""


def watch(path: str, once: bool, json: bool) -> int:
    """Show the suite in ``path`` until it ends; ``once``: as it is now."""
    state = _Watched(path)
    while json:
        print(as_json(state.tick()), flush=True)
        if once or state.over:
            return state.code
        time.sleep(EVERY)
    state.tick()
    if not once and not state.over:
        Watching(state, sys.stdout.fileno(), every=EVERY, view=live_view).until(state.reached)
    shown = state.tick()
    show(lambda: "\n".join([*live_view.lines(shown), ""]), sys.stdout)
    return state.code


def serve(path: str, port: int) -> int:
    """Serve a page about the suite in ``path``."""
    from ...report import web
    from ...report.page import parts
    from ...suite.results import suite_page

    state, page = _Watched(path), web.PageServer(port, of="suite")

    def past() -> None:
        page.past = time_series(path)

    page.past = {}
    # In a suite of many runs it takes longer than a reader waits for what happens now.
    Thread(target=past, daemon=True).start()

    def follow() -> bool:
        page.show(state.tick())
        if state.over:
            series = time_series(path)
            said, drawn = suite_page.of_suite(summarise(path), {}, series)
            found = parts("suite.html", said), drawn
            page.report = lambda: found
            page.whole = series
        return state.over

    return web.serve(page, follow)


def time_series(path: str) -> TimeSeries:
    """What the runs of the suite in ``path`` recorded until now; of those that can be read."""
    began = SuiteStatus(path).resumed or time.time()

    def each() -> Iterator[tuple[str, float, TimeSeries]]:
        for labels, folder in runs_of(path):
            with suppress(OSError, UserError), collected(open_run(folder)) as run:
                started = run.info.get("started")
                if isinstance(started, (int, float)):
                    yield labels["benchmark"], started - began, of_run(run)

    return combined(each())


class _Watched:
    """A suite that is read again and again, and whether there is nothing more to watch."""

    def __init__(self, path: str) -> None:
        self._reader = SuiteReader(path, follow=True)
        self._since = time.monotonic()
        self.over = False
        self.code = 0

    def tick(self) -> SuiteSnapshot:
        """Read what is new, and return the snapshot."""
        now = time.time()
        shown = live_view.snapshot(self._reader.read(now), now)
        self.code = DAMAGED if shown.missing else 0
        # What a suite that was killed has started goes on without it.
        alive = any(
            process.state in ("training", "evaluating")
            for row in shown.benchmarks
            for process in row.processes
        )
        if alive or shown.state in (RUNNING, STARTING):
            self._since = time.monotonic()
        self.over = shown.state == ENDED or time.monotonic() - self._since > PATIENCE
        return shown

    def reached(self, seconds: float) -> bool:
        """Wait so long; whether the end has come."""
        time.sleep(seconds)
        return self.over
