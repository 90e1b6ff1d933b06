"""Hosts and devices at one moment, from what the monitors wrote; and who works on which device."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from .follow import Record
from .progress import WINDOW
from .snapshot import DeviceRow, HostRow, RankRow


class Monitor:
    """What one monitor has told so far."""

    def __init__(self, name: str) -> None:
        self.host = name.rpartition(".")[0]
        """Of the name ``HOST.PID``; replaced by what it says itself."""
        self.exits: list[tuple[int, int, int | None]] = []
        """Number, moment (ns of the monotonic clock) and exit code of processes that ended."""
        self._before: dict[str, Any] | None = None
        self._latest: dict[str, dict[str, Any]] = {}
        self._recent: deque[tuple[int, dict[str, Any]]] = deque()
        """The states of the devices in the window."""

    def take(self, record: Record) -> None:
        """Take one of its records."""
        data = record.data
        if not isinstance(data, dict):
            return
        if record.event == "process":
            self.host = str(data.get("host") or self.host)
        elif record.event == "exit":
            code = data.get("code")
            self.exits.append(
                (data.get("pid", 0), record.t, code if isinstance(code, int) else None)
            )
        elif record.event == "host":
            self._before = self._latest.get("host")
        elif record.event == "devices":
            self._recent.append((record.t, data))
            while self._recent[0][0] < record.t - WINDOW * 1e9:
                self._recent.popleft()
        self._latest[record.event] = data

    def hosts(self) -> HostRow:
        """The host."""
        host = self._latest.get("host")
        memory = ((host or {}).get("memory") or {}).get("fraction")
        processes = self._latest.get("tree", {}).get("processes") or []
        rss = sum(float(each.get("rss") or 0) for each in processes)
        return HostRow(self.host, _busy(self._before, host), memory, rss or None)

    def devices(self, ranks: Iterable[RankRow]) -> list[DeviceRow]:
        """Its devices, each with the ranks of this host that work on it."""
        described = self._latest.get("device_list") or {}
        mine = [row for row in ranks if row.host == self.host]
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
    """Whether a rank works on a device: its driver lists the process, or else the rank itself says so."""
    users = state.get("processes")
    if isinstance(users, dict) and str(row.pid) in users:
        return True
    return (row.device or "").partition(":")[2] == number


def _busy(before: Any, after: Any) -> float | None:
    if not before or not after:
        return None
    busy = sum(b[0] - a[0] for a, b in zip(before["cores"], after["cores"], strict=False))
    idle = sum(b[1] - a[1] for a, b in zip(before["cores"], after["cores"], strict=False))
    return busy / (busy + idle) if busy + idle > 0 else None
