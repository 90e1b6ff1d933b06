"""The pages that ``inject watch --web`` serves: of a run, and of a suite with those of its runs."""

from __future__ import annotations

import os
import threading
import time

from ..analysis.summary import summarise, uncommitted
from ..live.snapshot import Snapshot
from ..live.state import State
from ..report.final import snapshot
from ..report.live_page import LivePage, Reporter
from ..report.page import changes_of, of_summary, parts
from ..report.watching import rest_after
from ..store.folder import Run, open_run
from .opened import collected, is_foreign

PATIENCE = 20.0
"""Seconds after all processes have ended in which a run is still expected to be collected."""
OFTEN = 0.4
"""Seconds between two looks at the files of a run, at least, however many browsers call."""


def over(run: Run) -> bool:
    """Whether the run was collected: its last record is written after its end. Others' runs are over."""
    return is_foreign(run) or os.path.exists(os.path.join(run.path, "run.json"))


class RunEnd:
    """When there is nothing more to watch: the run was collected, or no process is left to do that."""

    def __init__(self, run: Run, state: State) -> None:
        self._run = run
        self._since: float | None = None
        state.subscribe(self._hear)

    def _hear(self, shown: Snapshot) -> None:
        """All processes may have ended before the run is collected; or what collects it was killed."""
        if shown.state not in ("ended", "died"):
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()

    def reached(self, seconds: float) -> bool:
        """Wait so long; whether the end has come."""
        if self.come():
            return True
        time.sleep(seconds)
        return self.come()

    def come(self) -> bool:
        """Whether it has."""
        left_alone = self._since is not None and time.monotonic() - self._since > PATIENCE
        return left_alone or over(self._run)


class RunPage(LivePage):
    """The page of the run in the folder ``path``: what its processes do, and its report so far, or at last.

    Raises UserError, OSError, NotARunError.
    """

    def __init__(self, path: str, within: str = "") -> None:
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
                self._next = time.monotonic() + rest_after(began, OFTEN)
        return self.over

    def _follow(self) -> None:
        if self._end.come():
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
        """Publish a report of what there is. Raises OSError, NotARunError."""
        from ..analysis.charts import charts_of  # numpy, which the panel of a terminal does without
        from ..analysis.traces import Recording

        with collected(open_run(self._run.path)) as run:
            recording = Recording(run)
            summary = summarise(run, goes_on=not over, recording=recording)
            charts = charts_of(run, int(summary.limits.get("skip") or 0), recording)
            content, drawn = of_summary(summary, charts, changes_of(uncommitted(run)))
            self.publish((parts("run.html", content), drawn), charts.series, over)
            if over:
                self.show(snapshot(summary))
