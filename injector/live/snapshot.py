"""A run at one moment, as whoever shows it needs it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class RankRow:
    """One process that trains."""

    rank: int | None
    pid: int | None
    host: str
    device: str | None
    steps: int
    rate: float | None
    """Items (else steps) per second over the window."""
    step: float | None
    """Seconds of a step over the window."""
    loss: float | None
    state: str
    """``training``, ``evaluating``, ``ended`` or ``silent`` (nothing for a minute)."""
    regions: dict[str, float] = field(default_factory=dict)
    """Share of the window by region, 0…1."""


@dataclass(frozen=True)
class DeviceRow:
    """One device. Fractions, bytes, °C, watts."""

    number: str
    name: str
    host: str
    load: float | None
    memory: float | None
    memory_total: float | None
    temperature: float | None
    power: float | None


@dataclass(frozen=True)
class HostRow:
    """One host: fractions of its processors and its memory in use."""

    host: str
    cpu: float | None
    memory: float | None
    rss: float | None
    """Bytes of the program's processes."""


@dataclass(frozen=True)
class Snapshot:
    """The whole run."""

    name: str
    elapsed: float
    """Seconds since the program began."""
    state: str
    """``starting``, ``training``, ``evaluating``, ``stopping`` or ``ended``."""
    steps: int
    """Of the rank that made the fewest: what the job as a whole has done."""
    goal: int | None
    """Steps after which the program is stopped, those that are skipped included."""
    left: float | None
    """Seconds until the goal at the window's speed."""
    unit: str
    """``items/s`` or ``steps/s``."""
    rate: float | None
    """All ranks' rates together, over the window."""
    overall: float | None
    """The same since training began."""
    step: float | None
    """Seconds of a step over the window, of the slowest rank."""
    regions: dict[str, float]
    """Share of the window by region, over all ranks."""
    values: dict[str, float]
    """Last values by series, of the first rank."""
    ranks: tuple[RankRow, ...]
    devices: tuple[DeviceRow, ...]
    hosts: tuple[HostRow, ...]

    def as_dict(self) -> dict[str, Any]:
        """Made of what JSON has."""
        return asdict(self)
