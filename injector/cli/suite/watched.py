"""``inject watch`` of a suite: shows all its benchmarks and their processes together."""

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
from ...suite.results.suite_summary import ENDED, RUNNING, STARTING, seconds_run
from ...suite.results.timelines import combined, of_run
from ..live_pages import RunPage
from ..opened import DAMAGED, collected

PATIENCE = 10.0
"""Seconds in which a suite without a process may still begin, or go on."""
EVERY = 2.0
"""Seconds between two lines if the output is no terminal."""


def watch(path: str, once: bool, json: bool) -> int:
    """Show the suite in ``path`` until it ends; ``once``: as it is now. Returns the exit code."""
    state = _WatchedSuite(path)
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
        Watching(state, sys.stdout.fileno(), every=EVERY, view=live_view).until(state.wait)
    snapshot = state.tick()
    show(lambda: "\n".join([*live_view.lines(snapshot), ""]), sys.stdout)
    return state.code


def serve(path: str, port: int) -> int:
    """Serve a page about the suite in ``path``, and one about each of its runs. Returns the exit code."""
    from ...report import web

    page = SuitePage(path)
    return web.serve(web.PageServer(page, port, page.run_page))


def time_series(path: str) -> TimeSeries:
    """What the runs of the suite in ``path`` have recorded over time, as far as they can be read."""
    status = SuiteStatus(path)
    began = time.time() if status.started is None else status.started

    def series_of_runs() -> Iterator[tuple[str, float, TimeSeries]]:
        """By run: its benchmark, the seconds that the suite had run when it began, and its series."""
        for labels, folder in runs_of(path):
            with suppress(OSError, UserError), collected(open_run(folder)) as run:
                started = run.info.get("started")
                if isinstance(started, (int, float)):
                    yield (
                        labels["benchmark"],
                        seconds_run(began, status.pauses, started),
                        of_run(run),
                    )

    return combined(series_of_runs())


class _WatchedSuite:
    """A suite whose files are read at every tick until there is nothing more to watch."""

    def __init__(self, path: str) -> None:
        self._reader = SuiteReader(path, follow=True)
        self._since = time.monotonic()
        """When a process of the suite was last alive, monotonic seconds."""
        self.over = False
        self.code = 0
        """The exit code of a verb that shows what was read last."""

    def tick(self) -> SuiteSnapshot:
        """Read what is new, and return the snapshot."""
        now = time.time()
        snapshot = live_view.snapshot(self._reader.read(now), now)
        self.code = DAMAGED if snapshot.missing else 0
        # If the suite was killed, the processes that it has started may still run.
        alive = any(
            process.state in BUSY for row in snapshot.benchmarks for process in row.processes
        )
        if alive or snapshot.state in (RUNNING, STARTING):
            self._since = time.monotonic()
        self.over = snapshot.state == ENDED or time.monotonic() - self._since > PATIENCE
        return snapshot

    def settling(self) -> bool:
        """Read what is new. Returns whether it takes some seconds more to see which hosts are silent."""
        self.tick()
        return self._reader.settling

    def wait(self, seconds: float) -> bool:
        """Wait so long. Returns whether the suite was over at the last tick."""
        time.sleep(seconds)
        return self.over


class SuitePage(LivePage):
    """The page of the suite in the folder ``path``, with the pages of its runs."""

    def __init__(self, path: str) -> None:
        """Raises UserError if what pages are made with is not installed."""
        super().__init__("suite")
        self._path = path
        self._watched = _WatchedSuite(path)
        self._runs: dict[str, RunPage] = {}
        """The pages that were opened, by run folder."""
        self._lock = threading.Lock()
        # In a thread: with many runs it takes longer than a reader waits for the state of now.
        threading.Thread(target=self._read_past, daemon=True).start()

    def _read_past(self) -> None:
        series = time_series(self._path)
        if not self.over:
            self.past = series

    def follow(self) -> bool:
        with self._lock:
            if not self.over:
                self.show(self._watched.tick())
                if self._watched.over:
                    self._publish_report()
        return self.over

    def _publish_report(self) -> None:
        """Publish the report of the suite, which is over. It links to the pages of the runs."""
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
        """The page of the latest run of the process ``key``; None if there is no run yet."""
        status = SuiteStatus(self._path)
        folders = {process: folder for process, _, _, folder in status.started_processes()}
        folder = folders.get(key)
        if folder is None or not is_run(folder):
            return None
        with self._lock:
            if folder not in self._runs:
                self._runs[folder] = RunPage(folder, status.name)
            return self._runs[folder]
