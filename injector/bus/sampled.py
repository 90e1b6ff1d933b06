"""What the monitor recorded, as the ``data`` events that milabench's readers know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..store.logs import Log

MIB = 1 << 20


class Timed(NamedTuple):
    """One event of the run's stream."""

    time: float
    """Unix seconds."""
    event: str
    data: Any


def sent(path: str) -> Iterator[Timed]:
    """What the program itself has sent (see :mod:`.inbox`), by when it came. Raises OSError."""
    for time, event, data in _timed(path):
        yield Timed(time, event, {"time": time, **data} if isinstance(data, dict) else data)


def _timed(path: str) -> Iterator[Timed]:
    """Each record of a file that is no program's log."""
    log = Log(path)
    for record in log.records():
        yield Timed(log.clock.at(record.get("t")), record["event"], record.get("data"))


def events(path: str) -> Iterator[Timed]:
    """The samples of one monitor in the order of time. Raises OSError."""
    cores: list[list[float]] | None = None
    for time, event, data in _timed(path):
        if not isinstance(data, dict):
            continue
        if event == "devices":
            yield _at(time, gpudata={key: _device(state) for key, state in data.items()})
        elif event == "host":
            yield from _host(time, cores, data)
            cores = data.get("cores")
        elif event == "tree":
            yield _at(time, process=_tree(data.get("processes") or []))


def _at(time: float, **data: Any) -> Timed:
    return Timed(time, "data", {"task": "main", "time": time, **data})


def _device(state: dict[str, Any]) -> dict[str, Any]:
    """Memory in MiB, load 0…1, °C, W: milabench's units."""
    found: dict[str, Any] = {
        "memory": [state.get("memory_used", 0) / MIB, state.get("memory_total", 0) / MIB],
    }
    for ours in ("load", "temperature", "power"):
        if ours in state:
            found[ours] = state[ours]
    return found


def _host(time: float, before: list[list[float]] | None, data: dict[str, Any]) -> Iterator[Timed]:
    memory, cores = data.get("memory") or {}, data.get("cores") or []
    load = _load(before, cores)
    if load is not None:
        used = [memory.get("used", 0), memory.get("total", 0)]
        yield _at(time, cpudata={"memory": used, "load": load})
    if "nets" in data:
        sent, received = _sums(data["nets"])
        yield _at(time, netdata={"bytes_sent": sent, "bytes_recv": received})
    if "disks" in data:
        read, written = _sums(data["disks"])
        yield _at(time, iodata={"read_bytes": read, "write_bytes": written})


def _load(before: list[list[float]] | None, cores: list[list[float]]) -> float | None:
    """Percent of all cores."""
    if not before or len(before) != len(cores):
        return None
    busy = sum(b[0] - a[0] for a, b in zip(before, cores, strict=True))
    idle = sum(b[1] - a[1] for a, b in zip(before, cores, strict=True))
    return 100 * busy / (busy + idle) if busy + idle > 0 else None


def _sums(counters: dict[str, list[int]]) -> tuple[int, int]:
    return sum(pair[0] for pair in counters.values()), sum(pair[1] for pair in counters.values())


def _tree(processes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "pids": [each.get("pid") for each in processes],
        "cpu": sum(each.get("cpu", 0.0) for each in processes),
        "memory": sum(each.get("rss", 0) for each in processes),
        "threads": sum(each.get("threads", 0) for each in processes),
    }
