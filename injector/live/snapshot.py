"""The state of a run at one moment, as a live view shows it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Speed:
    """One task of one rank. Rates look back over the window, as far as there is one."""

    steps: int
    items: int
    """0 if they are not known."""
    rate: float | None
    """Items (else steps) per second."""
    step: float | None
    """Seconds of a step."""
    overall: float | None
    """The rate since it began."""


@dataclass(frozen=True)
class RankRow:
    """One process that trains: of a rank that was started again, the latest."""

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
    """``training``, ``evaluating``, ``inference``, ``ended``, ``silent`` (nothing for a minute), ``died``,
    ``hung``, ``waiting`` (in a collective, for longer than it ever takes) or ``restarted`` (no step yet)."""
    regions: dict[str, float] = field(default_factory=dict)
    """Of its steps in the window, the share by region, 0…1."""
    attempt: int = 0
    """How often the rank was started before."""
    notes: tuple[str, ...] = ()
    """Why it is in that state, and what became of its earlier attempts, in words."""
    tasks: dict[str, Speed] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskRow:
    """One task of the whole job: all its ranks together."""

    task: str
    ranks: int
    steps: int
    """Of ranks that make each step together, those of the last one; of others, the sum."""
    unit: str
    """``items/s`` or ``steps/s``."""
    rate: float | None
    overall: float | None
    step: float | None
    """Seconds of a step, of the slowest rank."""
    active: bool
    """Whether some rank is at it now."""


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
    mean_load: float | None = None
    """Over the window, as the next."""
    mean_power: float | None = None
    ranks: tuple[int, ...] = ()
    """Those that work on it."""
    rate: float | None = None
    """Of these together, over the window."""
    unit: str = ""
    index: int | None = None
    """Its place among all devices of the host; ``number`` counts those that the program sees."""
    uuid: str = ""


@dataclass(frozen=True)
class HostRow:
    """One host: fractions of its processors and its memory in use."""

    host: str
    cpu: float | None
    memory: float | None
    rss: float | None
    """Bytes of the program's processes."""


EPOCH, TRAINING = "epoch", "training"


@dataclass(frozen=True)
class Snapshot:
    """The whole run."""

    name: str
    elapsed: float
    """Seconds since the program began."""
    state: str
    """``starting``, ``training``, ``evaluating``, ``inference``, ``stopping``, ``silent``, ``died``,
    ``ended``; ``stuck`` if no rank goes on, and some of them hang or wait."""
    steps: int
    """Of the rank that made the fewest: what the job as a whole has done."""
    goal: int | None
    """Steps after which the program is stopped, those that are skipped included."""
    left: float | None
    """Seconds until the goal at the window's speed, else until the end of the loop, as far as it is known,
    with the evaluation that is to come."""
    unit: str
    """``items/s`` or ``steps/s``."""
    rate: float | None
    """Of the job, over the window: the ranks' rates together, as :class:`TaskRow` has them."""
    overall: float | None
    """The same since training began."""
    step: float | None
    """Seconds of a step over the window, of the slowest rank."""
    regions: dict[str, float]
    """Of the steps in the window, the share by region, over all ranks: each without those inside it."""
    values: dict[str, float]
    """Last values by series, of the first rank."""
    ranks: tuple[RankRow, ...]
    devices: tuple[DeviceRow, ...]
    hosts: tuple[HostRow, ...]
    tasks: tuple[TaskRow, ...] = ()
    left_of: str = ""
    """Of what ``left`` is: ``epoch`` where the number of epochs is not known, ``training`` as long as no pass
    is over that would tell how long evaluation takes, else nothing: of all."""
    position: str = ""
    """How far the loop has come, where its length is known: ``epoch 2 of 3, batch 312 of 1500``."""
    missing: tuple[str, ...] = ()
    """Of the record of a run that is over, what is damaged or lost."""
    notes: tuple[str, ...] = ()
    """What a reader has to know: how a run that is over ended, since when nothing was heard."""

    def as_dict(self) -> dict[str, Any]:
        """Made of what JSON has."""
        return asdict(self)
