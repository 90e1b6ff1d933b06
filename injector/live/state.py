"""The state of a run while it is running: fed by a follower, read as snapshots."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ..store import monitor, series
from .host_clocks import HostClock
from .parts import WINDOW
from .position import LoopPosition
from .process import LiveProcess
from .raw_files import Follower, NewRecord, NewSample, NewSpans
from .rows import BUSY, ProcessState, speeds, states_of, task_rows
from .snapshot import EPOCH, TRAINING, DeviceRow, HostRow, RankRow, Snapshot

PATIENCE = 60.0
"""Seconds after which a view that is opened late in a long run shows what was read so far."""


class State:
    """The run in ``folder``; ``goal`` is the number of steps after which it is stopped.

    ``parts``: where its records are meanwhile, if its nodes record apart.
    """

    def __init__(self, folder: str, goal: int | None = None, parts: Sequence[str] = ()) -> None:
        self.folder = folder
        self.goal = goal
        self._followers = [Follower(each) for each in parts or (folder,)]
        self._processes: dict[tuple[str, str], LiveProcess] = {}
        """By folder and name."""
        self._monitors: dict[tuple[str, str], MonitorState] = {}
        self._exited: list[tuple[object, object, int]] = []
        self._clocks: dict[tuple[str, object], HostClock] = {}
        """By folder and host."""
        self._looked: int | None = None
        """When all that there was had been read, unix nanoseconds."""
        self._subscribers: list[Callable[[Snapshot], None]] = []
        self.ended = False
        """Set by the caller when the program is over."""

    @property
    def processes(self) -> tuple[LiveProcess, ...]:
        """Those of the program, as far as they have recorded anything."""
        return tuple(self._processes.values())

    @property
    def settling(self) -> bool:
        """Whether some seconds more will show which hosts are silent, and which have another clock."""
        return any(each.settling and not each.ended for each in self._processes.values())

    def subscribe(self, subscriber: Callable[[Snapshot], None]) -> None:
        """Have ``subscriber`` called with each snapshot that :meth:`tick` makes."""
        self._subscribers.append(subscriber)

    def tick(self, now: float | None = None) -> Snapshot:
        """Take in what is new, tell the subscribers, and return the snapshot. ``now`` is unix seconds."""
        now = time.time() if now is None else now
        self._read(now)
        snapshot = self.snapshot(now)
        for subscriber in self._subscribers:
            subscriber(snapshot)
        return snapshot

    def catch_up(self, patience: float = PATIENCE, now: float | None = None) -> None:
        """Take in all that was written so far, in as many turns as that takes; at most ``patience`` s.

        ``now`` is unix seconds.
        """
        began = time.monotonic()
        now = time.time() if now is None else now
        self._read(now)
        while any(each.behind for each in self._followers) and time.monotonic() < began + patience:
            self._read(now + time.monotonic() - began)

    def _read(self, now: float) -> None:
        """Take in what is new at ``now``, unix seconds."""
        for follower in self._followers:
            for found in follower.poll():
                if isinstance(found, NewSample):
                    key, new = (follower.raw, found.monitor), MonitorState(found.monitor)
                    self._monitors.setdefault(key, new).take(found.sample)
                    continue
                process = self._process(follower.raw, found.process)
                if isinstance(found, NewSpans):
                    process.spans(found.rows)
                else:
                    self._take(process, found)
        for process in self._processes.values():
            process.mark()
        self._look_at_clocks(round(now * 1e9))
        self._endings()
        for process in self._processes.values():
            if process.shown and not (process.ended or process.gone):
                process.losses.update(last_values(process.raw, process.name))

    def _look_at_clocks(self, now: int) -> None:
        """Note up to which moment the files of each host tell, at ``now``, unix nanoseconds."""
        found: dict[tuple[str, object], int] = {}
        for each in self._processes.values():
            key = each.raw, each.facts.get("host")
            found[key] = max(found.get(key, 0), each.latest, each.noted)
            each.clock = self._clocks.setdefault(key, HostClock())
        for (raw, _), seen in self._monitors.items():
            key = raw, seen.host
            found[key] = max(found.get(key, 0), seen.newest)
        for key, moment in found.items():
            self._clocks.setdefault(key, HostClock()).take(moment, now, self._looked)
        behind = any(each.behind for each in self._followers)
        self._looked = None if behind else now

    def _process(self, raw: str, name: str) -> LiveProcess:
        if (raw, name) not in self._processes:
            self._processes[raw, name] = LiveProcess(name, raw)
        return self._processes[raw, name]

    def _take(self, process: LiveProcess, record: NewRecord) -> None:
        """A record of a process; a launcher also records the end of those that it has started."""
        process.record(record.event, record.data, record.t)
        if record.event == "exited" and isinstance(record.data, dict):
            code = record.data.get("code")
            if isinstance(code, int):
                self._exited.append((process.facts.get("host"), record.data.get("pid"), code))

    def _endings(self) -> None:
        """Mark the processes that have ended, as other processes saw it."""
        numbers: dict[tuple[object, object], list[LiveProcess]] = {}
        for process in self._processes.values():
            key = process.facts.get("host"), process.facts.get("pid")
            numbers.setdefault(key, []).append(process)
        for mine in numbers.values():
            mine.sort(key=lambda process: process.facts.get("monotonic_ns") or 0)
            for process in mine[:-1]:
                process.ended = True  # its number is another one's, or it became another program
        seen = [(m.host, *one) for m in self._monitors.values() for one in m.exits]
        for host, pid, moment, code in seen:
            for process in numbers.get((host, pid), ()):
                if (process.facts.get("monotonic_ns") or 0) <= moment:
                    process.has_gone(code)
        for where, number, code in self._exited:
            for process in numbers.get((where, number), ())[-1:]:
                process.has_gone(code)

    def snapshot(self, now: float) -> Snapshot:
        """The state at ``now``, unix seconds."""
        states = states_of(list(self._processes.values()), now, self.ended)
        rows = [_row(each) for each in states]
        there = [row for row, each in zip(rows, states, strict=True) if each.there] or rows
        tasks = task_rows([each for each in states if each.process.shown])
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
            hosts=tuple(each.hosts() for each in self._monitors.values()),
            tasks=tasks,
        )

    def _devices(self, rows: list[RankRow]) -> tuple[DeviceRow, ...]:
        of_host: dict[str, list[RankRow]] = {}
        for row in rows:
            of_host.setdefault(row.host, []).append(row)
        monitors = self._monitors.values()
        return tuple(row for each in monitors for row in each.devices(of_host.get(each.host, ())))

    def _left(
        self,
        states: list[ProcessState],
        rows: list[RankRow],
        position: LoopPosition | None,
        goal: int | None,
    ) -> tuple[float | None, str]:
        """Seconds at the present speed, and of what they are."""
        paces = [row.step for row in rows if row.step is not None]
        whole = states[0].process.main.overall() if states else None
        step = max(paces) if paces else whole.step if whole else None
        steps = min((row.steps for row in rows), default=0)
        if position is None:
            if goal is None or step is None:
                return None, ""
            return max(goal - steps, 0) * step, TRAINING
        of, ends = "", 0
        if goal is not None and steps:
            batches = max(goal - steps, 0) * position.batches / steps
            if self.goal is None and position.left is not None:
                batches = min(batches, position.left)  # a trainer ends with what comes first
            # Steps are counted late by up to one; after its last one a trainer evaluates, a stop does not.
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
        """Of the first rank: the others go with it."""
        if not states or self.ended:
            return None
        process = states[0].process
        argv = process.facts.get("argv")
        return process.positions.current(argv if isinstance(argv, list) else (), process.latest)

    def _began(self, now: float) -> float:
        times = [each.start for each in self._processes.values()]
        return min((t / 1e9 for t in times if t is not None), default=now)

    def _job_state(self, rows: list[RankRow]) -> str:
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


def _row(known: ProcessState) -> RankRow:
    process = known.process
    pace = process.main.pace() if known.state in (*BUSY, "ended") else None
    return RankRow(
        process.rank,
        process.facts.get("pid"),
        str(process.facts.get("host") or ""),
        process.device,
        process.steps,
        process.main.rate(pace),
        None if pace is None else pace.step,
        next((value for name, value in process.losses.items() if "loss" in name.lower()), None),
        known.state,
        process.regions(),
        known.attempt,
        known.notes,
        speeds(process),
    )


def _mean_shares(each: list[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for shares in each for name in shares)
    return {name: sum(shares.get(name, 0.0) for shares in each) / len(each) for name in names}


def last_values(raw: str, process: str) -> dict[str, float]:
    """The last number of each series of the process whose files are ``raw/PROCESS.N.values``."""
    found: dict[str, Any] = {}
    number = 0
    while True:
        try:
            name, value = series.last(os.path.join(raw, f"{process}.{number}{series.SUFFIX}"))
        except OSError:
            return found
        if value is not None:
            found[name] = value
        number += 1


class MonitorState:
    """What one monitor has recorded so far."""

    def __init__(self, name: str) -> None:
        self.host = name.rpartition(".")[0]
        """Of the name ``HOST.PID``; replaced by the host that its records name."""
        self.exits: list[tuple[int, int, int | None]] = []
        """Number, moment (ns of the monotonic clock) and exit code of processes that ended."""
        self.newest = 0
        """The latest moment that it has recorded."""
        self._before: dict[str, Any] | None = None
        self._latest: dict[str, dict[str, Any]] = {}
        self._recent: deque[tuple[int, dict[str, Any]]] = deque()
        """The states of the devices in the window."""

    def take(self, sample: monitor.Sample) -> None:
        """Take one of its records."""
        data, moment = sample.data, sample.t or 0
        self.newest = max(self.newest, moment)
        if sample.event == "process":
            self.host = str(data.get("host") or self.host)
        elif sample.event == "exit":
            self.exits.append((data["pid"], moment, data["code"]))
        elif sample.event == monitor.HOST:
            self._before = self._latest.get(monitor.HOST)
        elif sample.event == monitor.DEVICES:
            self._recent.append((moment, data))
            while self._recent[0][0] < moment - WINDOW * 1e9:
                self._recent.popleft()
        self._latest[sample.event] = data

    def hosts(self) -> HostRow:
        """The host."""
        host = self._latest.get(monitor.HOST) or {}
        memory = (host.get("memory") or {}).get("fraction")
        processes = self._latest.get("tree", {}).get("processes") or []
        rss = sum(float(each.get("rss") or 0) for each in processes)
        cpu = monitor.cpu_load((self._before or {}).get("cores"), host.get("cores"))
        return HostRow(self.host, cpu, memory, rss or None)

    def devices(self, mine: Sequence[RankRow]) -> list[DeviceRow]:
        """Its devices, each with those of the ranks ``mine``, which are of this host, that work on it."""
        described = self._latest.get("device_list") or {}
        found = []
        for number, state in self._latest.get("devices", {}).items():
            users = [row for row in mine if _uses(row, number, state)]
            rates = [row.rate for row in users if row.rate is not None]
            counted = all(speed.items for row in users for speed in row.tasks.values())
            facts = described.get(number) or {}
            found.append(
                DeviceRow(
                    number,
                    str(facts.get("name", "")),
                    self.host,
                    load=state.get("load"),
                    memory=state.get("memory_used"),
                    memory_total=state.get("memory_total"),
                    temperature=state.get("temperature"),
                    power=state.get("power"),
                    mean_load=self._mean(number, "load"),
                    mean_power=self._mean(number, "power"),
                    ranks=tuple(row.rank for row in users if row.rank is not None),
                    rate=sum(rates) if rates else None,
                    unit="items/s" if counted else "steps/s",
                    index=facts.get("index") if isinstance(facts.get("index"), int) else None,
                    uuid=str(facts.get("uuid") or ""),
                )
            )
        return found

    def _mean(self, number: str, key: str) -> float | None:
        values = [state.get(number, {}).get(key) for _, state in self._recent]
        known = [value for value in values if isinstance(value, (int, float))]
        return sum(known) / len(known) if known else None


def _uses(row: RankRow, number: str, state: dict[str, Any]) -> bool:
    """Whether a rank works on a device: its driver lists the process, or else the rank recorded it."""
    users = state.get("processes")
    if isinstance(users, dict) and str(row.pid) in users:
        return True
    return (row.device or "").partition(":")[2] == number
