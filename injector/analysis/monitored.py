"""What the monitor saw: the samples of one run, host by host."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ..store.folder import Damage, check_schema, read_records

SUFFIX = ".monitor"


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
    raw = os.path.join(folder, "raw")
    try:
        names = sorted(name for name in os.listdir(raw) if name.endswith(SUFFIX))
    except OSError:
        return []
    return [_read(os.path.join(raw, name)) for name in names]


def _read(path: str) -> Monitored:
    samples: dict[str, list[Sample]] = {"host": [], "tree": [], "devices": []}
    process: dict[str, Any] = {}
    described: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    whole = False
    for record in read_records(path, Damage()):
        event, data = record["event"], record.get("data")
        if not isinstance(data, dict):
            continue
        if event == "process":
            check_schema(data.get("schema"), path)
            process = data
        elif event in samples:
            samples[event].append(Sample(_unix(process, record.get("t")), data))
        elif event == "device_list":
            described = data
        elif event == "problem":
            problems.append(str(data.get("text")))
        whole = whole or event == "end"
    return Monitored(
        str(process.get("host") or os.path.basename(path).rpartition(".")[0]),
        float(process.get("interval") or 0.0),
        samples["host"],
        samples["tree"],
        samples["devices"],
        described,
        problems,
        whole,
    )


def _unix(process: dict[str, Any], t: object) -> float:
    start = float(process.get("time") or 0.0)
    monotonic = process.get("monotonic_ns")
    if isinstance(t, int) and isinstance(monotonic, int):
        return start + (t - monotonic) / 1e9
    return start
