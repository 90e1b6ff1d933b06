"""The page of a run that ``inject watch --web`` serves, and when a run that is watched is over."""

from __future__ import annotations

import os
import threading
import time

from ..analysis.summary import summarise, uncommitted
from ..live.snapshot import Snapshot
from ..live.state import State
from ..report.final import snapshot as final_snapshot
from ..report.live_page import LivePage, Reporter
from ..report.page import changes_of, of_summary, parts
from ..report.watching import rest_after
from ..store.folder import Run, open_run
from .opened import collected, is_foreign

PATIENCE = 20.0
"""Seconds after the end of all processes in which a run is still expected to be collected."""
SHORTEST = 0.4
"""The least seconds between two looks at the files of a run, however many browsers ask."""


def is_over(run: Run) -> bool:
    """Whether the run was collected, which writes run.json last. A run of another tool counts as over."""
    return is_foreign(run) or os.path.exists(os.path.join(run.path, "run.json"))


class RunEnd:
    """When there is nothing more to watch: the run was collected, or no process is left to collect it."""

    def __init__(self, run: Run, state: State) -> None:
        self._run = run
        self._since: float | None = None
        """When all processes had ended, monotonic seconds; None while one runs."""
        state.subscribe(self._look)

    def _look(self, snapshot: Snapshot) -> None:
        if snapshot.state not in ("ended", "died"):
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Wait so long, unless the end has come. Returns whether it has."""
        if self.has_come():
            return True
        time.sleep(seconds)
        return self.has_come()

    def has_come(self) -> bool:
        """Whether there is nothing more to watch. The supervisor that would collect may have been killed."""
        given_up = self._since is not None and time.monotonic() - self._since > PATIENCE
        return given_up or is_over(self._run)


class RunPage(LivePage):
    """The page of the run in the folder ``path``: its processes, and the report of what is recorded."""

    def __init__(self, path: str, within: str = "") -> None:
        """``within``: the name of the suite that the run belongs to. Raises UserError, OSError."""
        super().__init__("run", within)
        self._run = open_run(path)
        self._state = State(path)
        self._end = RunEnd(self._run, self._state)
        self._reporter: Reporter | None = None
        self._lock = threading.Lock()
        self._next = 0.0

    def follow(self) -> bool:
        with self._lock:
            if not self.over and time.monotonic() > self._next:
                began = time.thread_time()
                self._follow()
                self._next = time.monotonic() + rest_after(began, SHORTEST)
        return self.over

    def _follow(self) -> None:
        if self._end.has_come():
            if self._reporter is not None:
                self._reporter.stop()
            self.make(over=True)
            return
        if self._reporter is None:
            self._state.catch_up()
            self._reporter = Reporter(self.make, lambda: self.is_looked_at, self._failed)
            self._reporter.start()
        self.show(self._state.tick())

    def _failed(self, why: str) -> None:
        self.trouble = why

    def make(self, over: bool = False) -> None:
        """Publish a report of what is recorded. ``over``: it is the last one. Raises UserError, OSError."""
        # Here, as these import NumPy, which the panel of a terminal does not need.
        from ..analysis.charts import charts_of
        from ..analysis.traces import Recording

        with collected(open_run(self._run.path)) as run:
            recording = Recording(run)
            summary = summarise(run, goes_on=not over, recording=recording)
            charts = charts_of(run, recording)
            content, drawn = of_summary(summary, charts, changes_of(uncommitted(run)))
            self.publish((parts("run.html", content), drawn), charts.series, over)
            if over:
                self.show(final_snapshot(summary))
