"""What the monitor saw: the samples of one run, host by host."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..store.event import MONITOR
from ..store.logs import Log, files


class Sample(NamedTuple):
    """One sample of one kind."""

    time: float
    """Unix seconds."""
    data: Any


class Monitored(NamedTuple):
    """The samples that one monitor took, each kind in the order of time."""

    host: str
    interval: float
    """Seconds between samples, as asked for."""
    hosts: list[Sample]
    trees: list[Sample]
    devices: list[Sample]
    described: dict[str, dict[str, Any]]
    """The visible devices: number → index, uuid, name, vendor."""
    problems: list[str]
    whole: bool
    """Whether the monitor ended in order."""


def read(folder: str) -> list[Monitored]:
    """What each monitor of the run in ``folder`` recorded. A run without one has an empty list."""
    return [_read(path) for path in files(folder, MONITOR)]


def _read(path: str) -> Monitored:
    samples: dict[str, list[Sample]] = {"host": [], "tree": [], "devices": []}
    described: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    whole = False
    log = Log(path)
    for record in log.records():
        event, data = record["event"], record.get("data")
        if not isinstance(data, dict):
            continue
        if event in samples:
            samples[event].append(Sample(log.clock.at(record.get("t")), data))
        elif event == "device_list":
            described = data
        elif event == "problem":
            problems.append(str(data.get("text")))
        whole = whole or event == "end"
    return Monitored(
        str(log.host or ""),
        float(log.process.get("interval") or 0.0),
        samples["host"],
        samples["tree"],
        samples["devices"],
        described,
        problems,
        whole,
    )
