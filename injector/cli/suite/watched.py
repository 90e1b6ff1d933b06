"""``inject watch`` of a suite: all its benchmarks and their processes together."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

from ...analysis.timeseries import TimeSeries
from ...errors import UserError
from ...live.rows import BUSY
from ...report.live_page import RUNS, LivePage
from ...report.output import show
from ...report.panel import as_json
from ...report.watching import Watching, rest_after
from ...store.folder import is_run, open_run
from ...suite.results import live_view
from ...suite.results.live_view import SuiteSnapshot
from ...suite.results.status import SuiteStatus, runs_of
from ...suite.results.suite_reader import SuiteReader, summarise
from ...suite.results.suite_summary import ENDED, RUNNING, STARTING
from ...suite.results.timelines import combined, of_run
from ..live_pages import RunPage
from ..opened import DAMAGED, collected

PATIENCE = 10.0
"""Seconds in which a suite that no process runs may still be about to begin, or to go on."""
EVERY = 2.0
"""Seconds between two lines, for output that is no terminal."""


def watch(path: str, once: bool, json: bool) -> int:
    """Show the suite in ``path`` until it ends; ``once``: as it is now."""
    state = _Watched(path)
    while once and state.settling():
        time.sleep(0.5)
    while json:
        began = time.thread_time()
        print(as_json(state.tick()), flush=True)
        if once or state.over:
            return state.code
        time.sleep(rest_after(began, EVERY))
    state.tick()
    if not once and not state.over:
        Watching(state, sys.stdout.fileno(), every=EVERY, view=live_view).until(state.reached)
    shown = state.tick()
    show(lambda: "\n".join([*live_view.lines(shown), ""]), sys.stdout)
    return state.code


def serve(path: str, port: int) -> int:
    """Serve a page about the suite in ``path``, and one about each of its runs."""
    from ...report import web

    page = SuitePage(path)
    return web.serve(web.PageServer(page, port, page.run_page))


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
        alive = any(process.state in BUSY for row in shown.benchmarks for process in row.processes)
        if alive or shown.state in (RUNNING, STARTING):
            self._since = time.monotonic()
        self.over = shown.state == ENDED or time.monotonic() - self._since > PATIENCE
        return shown

    def settling(self) -> bool:
        """Read what is new; whether some seconds more will show which hosts are silent."""
        self.tick()
        return self._reader.settling

    def reached(self, seconds: float) -> bool:
        """Wait so long; whether the end has come."""
        time.sleep(seconds)
        return self.over


class SuitePage(LivePage):
    """The page of the suite in the folder ``path``, with the pages of its runs. Raises UserError."""

    def __init__(self, path: str) -> None:
        super().__init__("suite")
        self._path = path
        self._watched = _Watched(path)
        self._runs: dict[str, RunPage] = {}
        self._lock = threading.Lock()
        # In a suite of many runs it takes longer than a reader waits for what happens now.
        threading.Thread(target=self._before, daemon=True).start()

    def _before(self) -> None:
        series = time_series(self._path)
        if not self.over:
            self.past = series

    def follow(self) -> bool:
        with self._lock:
            if not self.over:
                self.show(self._watched.tick())
                if self._watched.over:
                    self._end()
        return self.over

    def _end(self) -> None:
        from ...report.page import parts
        from ...suite.results import suite_page

        series, suite = time_series(self._path), summarise(self._path)
        links = {
            each.key: f"{RUNS}{quote(each.key, safe='')}/"
            for each in suite.processes
            if each.folder is not None and is_run(each.folder)
        }
        content, drawn = suite_page.of_suite(suite, links, series)
        self.publish((parts(suite_page.TEMPLATE, content), drawn), series, over=True)

    def run_page(self, key: str) -> RunPage | None:
        """The page of the latest run of the process ``key``; None where it has not begun."""
        status = SuiteStatus(self._path)
        folders = {process: folder for process, _, _, folder in status.started_processes()}
        folder = folders.get(key)
        if folder is None or not is_run(folder):
            return None
        with self._lock:
            if folder not in self._runs:
                self._runs[folder] = RunPage(folder, status.name)
            return self._runs[folder]
