"""The sidecars of ``inject run``, beside its program: git, monitor, sampler, trackers, live view."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from injector.bus.surroundings import WorkTree
    from injector.launch.command import Command
    from injector.monitor.sampler import Sampler
    from injector.monitor.start import MonitorProcess
    from injector.report.watching import InBackground
    from injector.run.tracking import Trackers


MONITOR_AFTER = 0.2
"""Seconds until the monitor starts, which costs as much as a program that is over by then. With
``--interval`` it starts at once."""


class Sidecars:
    """The sidecars of one run. One that fails adds a sentence to ``problems`` and changes nothing else."""

    def __init__(
        self,
        command: Command,
        folder: str | None,
        problems: list[str],
        follows: bool = False,
        moved: float = 0.0,
    ) -> None:
        """``follows``: another process collects the run, and has the sidecars of which a run needs only one.

        ``moved``: seconds to add to this host's clock.
        """
        self._moved = moved
        self._command = command
        self._follows = follows
        self._folder = folder
        self._problems = problems
        self._pid = 0
        self._monitor: MonitorProcess | None = None
        self._live: InBackground | None = None
        self._work_tree: WorkTree | None = None
        self._trackers: Trackers | None = None
        self.apart: set[int] = set()
        """The ids of our own processes, which are not the program's."""
        self._sampler = self._new_sampler() if "--sample" in command.flags else None

    def _new_sampler(self) -> Sampler | None:
        from injector.monitor.sampler import Sampler

        native = "--sample-native" in self._command.flags
        return None if self._folder is None else Sampler(self._folder, self.apart, native=native)

    def later(self) -> list[tuple[float, Callable[[], object]]]:
        """Actions with their seconds, as :func:`injector.launch.supervisor.run` takes them."""
        later: list[tuple[float, Callable[[], object]]] = []
        if self._sampler is not None:
            later.append((self._sampler.period, self._sampler.look))
        if self._monitored() and "--interval" not in self._command.limits:
            later.append((MONITOR_AFTER, lambda: self._guarded(self._start_monitor)))
        return later

    @property
    def sampling(self) -> int:
        """How many times a second the program's stacks are sampled; 0 without ``--sample``."""
        return 0 if self._sampler is None else self._sampler.rate

    def start(self, pid: int) -> None:
        """Start the sidecars, now that the program has started as the process ``pid``."""
        self._pid = pid
        if self._folder is None:
            return
        if not self._follows:
            self._guarded(self._start_git)
        if self._monitored() and "--interval" in self._command.limits:
            self._guarded(self._start_monitor)
        if self._follows:
            return
        if self._command.tracks:
            self._guarded(self._start_trackers)
        if self._is_live():
            self._guarded(self._start_live)

    def _guarded(self, start: Callable[[str], None]) -> None:
        """Call ``start(folder)``, and record an error of it as a problem."""
        try:
            start(self._folder or "")
        except Exception as error:
            self._problems.append(f"not watched: {type(error).__name__}: {error}")

    def _monitored(self) -> bool:
        return self._folder is not None and "--no-monitor" not in self._command.flags

    def _start_git(self, folder: str) -> None:
        from injector.bus.surroundings import WorkTree

        command = self._command
        script = os.path.realpath(command.target) if command.kind == "script" else ""
        self._work_tree = WorkTree(os.path.dirname(script) or os.getcwd(), folder)
        if self._work_tree.pid is not None:
            self.apart.add(self._work_tree.pid)

    def _start_monitor(self, folder: str) -> None:
        from injector.monitor.start import MonitorProcess

        self._monitor = MonitorProcess(
            folder, self._pid, self._command.limits.get("--interval", 1.0), self._moved
        )
        self.apart.add(self._monitor.pid)

    def _start_trackers(self, folder: str) -> None:
        from injector.run.tracking import Trackers

        command = self._command
        self._trackers = Trackers(tuple(command.tracks.items()), self.apart)
        self._trackers.start(folder, command.name)

    def _is_live(self) -> bool:
        """Whether there is a live view: with ``--live``, or on a terminal."""
        flags = self._command.flags
        if "--quiet" in flags or "--no-live" in flags:
            return False
        return "--live" in flags or (sys.stderr.isatty() and sys.stdout.isatty())

    def _start_live(self, folder: str) -> None:
        from injector.live.state import State
        from injector.report.watching import InBackground, Watching

        limits = self._command.limits
        stop = limits.get("--stop")
        goal = None if stop is None else int(stop + limits.get("--skip", 0))
        watching = Watching(State(folder, goal), sys.stderr.fileno(), prefix="inject: ")
        self._live = InBackground(watching, self._problems.append)
        self._live.start()

    def end(self) -> dict[str, Any] | None:
        """End the live view, and let the others take what they sample last, now that the program has ended.

        Returns what git knows of the program's work tree; None if it is in none.
        """
        if self._live is not None:
            self._live.stop()
        if self._sampler is not None:
            self._problems += self._sampler.end()
        if self._monitor is not None and self._monitor.pid in self.apart:
            self._monitor.end()
        if self._trackers is not None:
            self._problems += self._trackers.sentences()
        tree = self._work_tree
        if tree is None:
            return None
        try:
            tree.end(running=tree.pid in self.apart)
        except OSError as error:
            self._problems.append(f"uncommitted changes are not recorded: {error}")
        return tree.info

    def end_trackers(self) -> tuple[list[str], bool]:
        """Wait until the trackers have the figures of the collected run.

        Returns sentences that say where, and whether a tracker has not taken them.
        """
        if self._trackers is None:
            return [], False
        return self._trackers.end(), self._trackers.failed
