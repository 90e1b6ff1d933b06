"""What monitors record of a host and its devices: the latest samples, and means over a window of time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from ..store import monitor
from .parts import WINDOW
from .snapshot import DeviceRow, HostRow, RankRow


class MonitorState:
    """The latest samples of one monitor."""

    def __init__(self, name: str) -> None:
        """A monitor whose file is ``NAME.monitor``."""
        self.host = name.rpartition(".")[0]
        """The host in that name, ``HOST.PID``, until its records name the host."""
        self.exits: list[tuple[int, int, int | None]] = []
        """Number, moment (ns of the monotonic clock) and exit code of the processes that ended."""
        self.newest = 0
        """The latest moment that it has recorded, nanoseconds of the monotonic clock."""
        self._before: dict[str, Any] | None = None
        """The sample of the host before the latest, as the load is the difference of two."""
        self._latest: dict[str, dict[str, Any]] = {}
        """By event, the data of its latest sample."""
        self._recent: deque[tuple[int, dict[str, Any]]] = deque()
        """Moment and data of the samples of the devices in the window."""

    def take(self, sample: monitor.Sample) -> None:
        """Take the next of its records."""
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
        """The row of the host."""
        host = self._latest.get(monitor.HOST) or {}
        memory = (host.get("memory") or {}).get("fraction")
        processes = self._latest.get("tree", {}).get("processes") or []
        rss = sum(float(process.get("rss") or 0) for process in processes)
        cpu = monitor.cpu_load((self._before or {}).get("cores"), host.get("cores"))
        return HostRow(self.host, cpu, memory, rss or None)

    def devices(self, ranks: Sequence[RankRow]) -> list[DeviceRow]:
        """The rows of its devices, each with those of the ``ranks`` of this host that work on it."""
        described = self._latest.get("device_list") or {}
        result = []
        for number, state in self._latest.get("devices", {}).items():
            users = [row for row in ranks if _uses(row, number, state)]
            rates = [row.rate for row in users if row.rate is not None]
            counted = all(speed.items for row in users for speed in row.tasks.values())
            facts = described.get(number) or {}
            result.append(
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
        return result

    def _mean(self, number: str, key: str) -> float | None:
        """The mean of a metric of a device over the window; None if no sample has it."""
        values = [state.get(number, {}).get(key) for _, state in self._recent]
        known = [value for value in values if isinstance(value, (int, float))]
        return sum(known) / len(known) if known else None


def _uses(row: RankRow, number: str, state: dict[str, Any]) -> bool:
    """Whether a rank works on a device: the driver lists its process, or else its call sites name it."""
    users = state.get("processes")
    if isinstance(users, dict) and str(row.pid) in users:
        return True
    return (row.device or "").partition(":")[2] == number
