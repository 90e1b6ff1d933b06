"""The state of a run while it goes on: fed from its growing files, read as snapshots.

A :class:`State` is ticked by its owner, a live view or an exporter. Each tick reads what is new in the raw
files (:mod:`.raw_files`) and passes it to the processes (:mod:`.process`) and monitors (:mod:`.monitors`)
that it is of; then it works out what state each rank is in (:mod:`.rows`), and makes a
:class:`.snapshot.Snapshot` of it all. Nothing of the program's own process takes part in that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..store import series
from .host_clocks import HostClock
from .monitors import MonitorState
from .position import LoopPosition
from .process import LiveProcess
from .raw_files import Follower, NewRecord, NewSample, NewSpans
from .rows import BUSY, ProcessState, speeds, states_of, task_rows
from .snapshot import EPOCH, TRAINING, DeviceRow, RankRow, Snapshot

PATIENCE = 60.0
"""Seconds after which a view that is opened late in a long run shows what was read so far."""


class State:
    """The state of one run."""

    def __init__(self, folder: str, goal: int | None = None, parts: Sequence[str] = ()) -> None:
        """The run in ``folder``. ``goal`` is the number of steps after which it is stopped.

        ``parts``: the folders into which its nodes record, if each records into one of its own.
        """
        self.folder = folder
        self.goal = goal
        self._followers = [Follower(part) for part in parts or (folder,)]
        self._processes: dict[tuple[str, str], LiveProcess] = {}
        """By folder and name, as the next one."""
        self._monitors: dict[tuple[str, str], MonitorState] = {}
        self._exited: list[tuple[object, object, int]] = []
        """Host, number and exit code of the workers whose ends launchers recorded."""
        self._clocks: dict[tuple[str, object], HostClock] = {}
        """By folder and host."""
        self._read_all_at: int | None = None
        """The last time that all there was had been read, unix nanoseconds; None if more is left."""
        self._subscribers: list[Callable[[Snapshot], None]] = []
        self.ended = False
        """Set by the owner when the program has ended."""

    @property
    def processes(self) -> tuple[LiveProcess, ...]:
        """The processes of the program that have recorded anything."""
        return tuple(self._processes.values())

    @property
    def settling(self) -> bool:
        """Whether a few more seconds will show which hosts are silent, and whose clocks are behind."""
        return any(process.settling and not process.ended for process in self._processes.values())

    def subscribe(self, subscriber: Callable[[Snapshot], None]) -> None:
        """Call ``subscriber`` with each snapshot that :meth:`tick` makes from now on."""
        self._subscribers.append(subscriber)

    def tick(self, now: float | None = None) -> Snapshot:
        """Read what is new, and return a snapshot, which the subscribers get too. ``now`` is unix seconds."""
        now = time.time() if now is None else now
        self._read(now)
        snapshot = self.snapshot(now)
        for subscriber in self._subscribers:
            subscriber(snapshot)
        return snapshot

    def catch_up(self, patience: float = PATIENCE, now: float | None = None) -> None:
        """Read all that was written so far, for at most ``patience`` seconds. ``now`` is unix seconds."""
        began = time.monotonic()
        now = time.time() if now is None else now
        self._read(now)
        while (
            any(follower.behind for follower in self._followers)
            and time.monotonic() < began + patience
        ):
            self._read(now + time.monotonic() - began)

    def _read(self, now: float) -> None:
        """Read what is new, once, at ``now`` in unix seconds."""
        for follower in self._followers:
            for new in follower.poll():
                if isinstance(new, NewSample):
                    key = follower.raw, new.monitor
                    self._monitors.setdefault(key, MonitorState(new.monitor)).take(new.sample)
                    continue
                process = self._process(follower.raw, new.process)
                if isinstance(new, NewSpans):
                    process.spans(new.rows)
                else:
                    self._take(process, new)
        for process in self._processes.values():
            process.mark()
        self._update_clocks(round(now * 1e9))
        self._note_ends()
        # A series may have millions of values: only the last one is read, and only of what is shown.
        for process in self._processes.values():
            if process.shown and not (process.ended or process.gone):
                process.losses.update(last_values(process.raw, process.name))

    def _update_clocks(self, now: int) -> None:
        """Give the clock of each host the latest moment in its files, as read at ``now``, in unix ns."""
        newest: dict[tuple[str, object], int] = {}
        for process in self._processes.values():
            key = process.raw, process.facts.get("host")
            newest[key] = max(newest.get(key, 0), process.latest, process.noted)
            process.clock = self._clocks.setdefault(key, HostClock())
        for (raw, _), seen in self._monitors.items():
            key = raw, seen.host
            newest[key] = max(newest.get(key, 0), seen.newest)
        for key, moment in newest.items():
            self._clocks.setdefault(key, HostClock()).take(moment, now, self._read_all_at)
        # What is read next is new only if nothing had been left: else it may be old.
        behind = any(follower.behind for follower in self._followers)
        self._read_all_at = None if behind else now

    def _process(self, raw: str, name: str) -> LiveProcess:
        """The process with files ``NAME.*`` in ``raw``, which begins with its first record."""
        if (raw, name) not in self._processes:
            self._processes[raw, name] = LiveProcess(name, raw)
        return self._processes[raw, name]

    def _take(self, process: LiveProcess, record: NewRecord) -> None:
        """Pass a record to its process; a launcher's, of a worker's end, is kept for :meth:`_note_ends`."""
        process.record(record.event, record.data, record.t)
        if record.event == "exited" and isinstance(record.data, dict):
            code = record.data.get("code")
            if isinstance(code, int):
                self._exited.append((process.facts.get("host"), record.data.get("pid"), code))

    def _note_ends(self) -> None:
        """Mark the processes of which another process, the monitor or a launcher, saw the end."""
        by_pid: dict[tuple[object, object], list[LiveProcess]] = {}
        for process in self._processes.values():
            key = process.facts.get("host"), process.facts.get("pid")
            by_pid.setdefault(key, []).append(process)
        for processes in by_pid.values():
            processes.sort(key=lambda process: process.facts.get("monotonic_ns") or 0)
            for process in processes[:-1]:
                process.ended = True  # its number was given to another process, or it called exec
        exits = [(m.host, *exit) for m in self._monitors.values() for exit in m.exits]
        for host, pid, moment, code in exits:
            for process in by_pid.get((host, pid), ()):
                # Not a process that was given the number afterwards.
                if (process.facts.get("monotonic_ns") or 0) <= moment:
                    process.has_gone(code)
        for where, number, code in self._exited:
            for process in by_pid.get((where, number), ())[-1:]:
                process.has_gone(code)

    def snapshot(self, now: float) -> Snapshot:
        """The state at ``now``, unix seconds, of what was read so far."""
        states = states_of(list(self._processes.values()), now, self.ended)
        rows = [_row(state) for state in states]
        # The job is as far as those of its ranks that go on; when all have ended, as far as they came.
        there = [row for row, state in zip(rows, states, strict=True) if state.there] or rows
        tasks = task_rows([state for state in states if state.process.shown])
        main = tasks[0] if tasks else None
        position = self._position(states)
        goal = self.goal or (states[0].process.goal if states else None)
        left, left_of = self._left(states, there, position, goal)
        return Snapshot(
            name=os.path.basename(self.folder).rsplit(".", 2)[0],
            elapsed=max(now - self._began(now), 0.0),
            state=self._job_state(rows),
            steps=min((row.steps for row in there), default=0),
            goal=self.goal,
            left=left,
            left_of=left_of,
            position=position.text if position else "",
            unit=main.unit if main else "steps/s",
            rate=main.rate if main else None,
            overall=main.overall if main else None,
            step=main.step if main else None,
            regions=_mean_shares([row.regions for row in there if row.regions]),
            values=dict(states[0].process.losses) if states else {},
            ranks=tuple(rows),
            devices=self._devices(rows),
            hosts=tuple(seen.hosts() for seen in self._monitors.values()),
            tasks=tasks,
        )

    def _devices(self, rows: list[RankRow]) -> tuple[DeviceRow, ...]:
        """The devices of all hosts, with the ranks in ``rows`` that work on them."""
        of_host: dict[str, list[RankRow]] = {}
        for row in rows:
            of_host.setdefault(row.host, []).append(row)
        monitors = self._monitors.values()
        return tuple(row for seen in monitors for row in seen.devices(of_host.get(seen.host, ())))

    def _left(
        self,
        states: list[ProcessState],
        rows: list[RankRow],
        position: LoopPosition | None,
        goal: int | None,
    ) -> tuple[float | None, str]:
        """The seconds that are left at the present speed, and the words of :attr:`.Snapshot.left_of`.

        With ``position`` they follow from the batches of the loop that are left, with the pauses between
        passes. Without, they follow from the steps until ``goal``.
        """
        paces = [row.step for row in rows if row.step is not None]
        overall = states[0].process.main.overall() if states else None
        # Ranks of one job wait for the slowest.
        step = max(paces) if paces else overall.step if overall else None
        steps = min((row.steps for row in rows), default=0)
        if position is None:
            if goal is None or step is None:
                return None, ""
            return max(goal - steps, 0) * step, TRAINING
        of, ends = "", 0
        if goal is not None and steps:
            batches = max(goal - steps, 0) * position.batches / steps
            if self.goal is None and position.left is not None:
                batches = min(batches, position.left)  # a trainer ends with whichever comes first
            # The ends of passes until then. Steps are counted late by up to one, so that one and a half
            # batches decide about a pass that ends with the goal: a trainer evaluates after its last step, a
            # stop ends the program before that.
            more = 1.5 if self.goal is None else -1.5
            ends = max(int((position.batch + batches + more) / position.length), 0)
        elif position.left is not None and position.passes is not None:
            batches, ends = float(position.left), position.passes
        else:
            batches, of = float(position.length - position.batch), EPOCH
        if not position.usual or (of and not position.batch):
            return None, ""
        beside = position.beside(batches, ends) if batches or position.paused else 0.0
        return batches * position.usual + (beside or 0.0), of or (
            TRAINING if beside is None else ""
        )

    def _position(self, states: list[ProcessState]) -> LoopPosition | None:
        """The position of the first rank in its loop, which stands for all; None if it is unknown."""
        if not states or self.ended:
            return None
        process = states[0].process
        argv = process.facts.get("argv")
        return process.positions.current(argv if isinstance(argv, list) else (), process.latest)

    def _began(self, now: float) -> float:
        """When the first process began, unix seconds; ``now`` before that."""
        times = [process.start for process in self._processes.values()]
        return min((t / 1e9 for t in times if t is not None), default=now)

    def _job_state(self, rows: list[RankRow]) -> str:
        """The state of the job as :attr:`.Snapshot.state` describes it."""
        states = {row.state for row in rows}
        if self.ended or states == {"ended"}:
            return "ended"
        if any(process.stopping for process in self._processes.values()):
            return "stopping"
        if not rows:
            return "starting"
        for state in BUSY:
            if state in states:
                return state
        if "restarted" in states:
            return "starting"
        for state in ("silent", "died"):
            if states <= {state, "ended"}:
                return state
        return "stuck"


def _row(state: ProcessState) -> RankRow:
    """The row of a process. One that is silent or hangs has no rate."""
    process = state.process
    pace = process.main.pace() if state.state in (*BUSY, "ended") else None
    return RankRow(
        process.rank,
        process.facts.get("pid"),
        str(process.facts.get("host") or ""),
        process.device,
        process.steps,
        process.main.rate(pace),
        None if pace is None else pace.step,
        next((value for name, value in process.losses.items() if "loss" in name.lower()), None),
        state.state,
        process.regions(),
        state.attempt,
        state.notes,
        speeds(process),
    )


def _mean_shares(of_ranks: list[dict[str, float]]) -> dict[str, float]:
    """The mean over ranks of the share of each region."""
    names = dict.fromkeys(name for shares in of_ranks for name in shares)
    return {
        name: sum(shares.get(name, 0.0) for shares in of_ranks) / len(of_ranks) for name in names
    }


def last_values(raw: str, process: str) -> dict[str, float]:
    """The last value of each series of the process whose files are ``raw/PROCESS.N.values``."""
    values: dict[str, Any] = {}
    number = 0
    while True:
        try:
            name, value = series.last(os.path.join(raw, f"{process}.{number}{series.SUFFIX}"))
        except OSError:
            return values
        if value is not None:
            values[name] = value
        number += 1
