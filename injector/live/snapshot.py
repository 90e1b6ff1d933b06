"""The state of a run at one moment, as a live view shows it: plain values, for renderers and exporters."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Speed:
    """The progress of one rank in one task. Rates are of the window, None before there is one."""

    steps: int
    items: int
    """0 if they are not known."""
    rate: float | None
    """Items per second, or steps if items are not known."""
    step: float | None
    """Seconds of a step."""
    overall: float | None
    """The rate since the task began."""


@dataclass(frozen=True)
class RankRow:
    """One process with tasks; of a rank that was started again, the process of its latest attempt."""

    rank: int | None
    pid: int | None
    host: str
    device: str | None
    steps: int
    rate: float | None
    """Items per second over the window, or steps if items are not known."""
    step: float | None
    """Seconds of a step over the window."""
    loss: float | None
    """The last value of the first series with ``loss`` in its name."""
    state: str
    """``training``, ``evaluating``, ``inference``, ``ended``, ``silent`` (nothing for a minute), ``died``,
    ``hung``, ``waiting`` (in a collective, for longer than it ever takes) or ``restarted`` (no step yet)."""
    regions: dict[str, float] = field(default_factory=dict)
    """By region its share, 0…1, of the steps in the window."""
    attempt: int = 0
    """How often the rank was started before."""
    notes: tuple[str, ...] = ()
    """Sentences on why it is in that state, and on what became of its earlier attempts."""
    tasks: dict[str, Speed] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskRow:
    """One task of the whole job, of all ranks together."""

    task: str
    ranks: int
    """The number of ranks that have it."""
    steps: int
    """The fewest of any rank if the ranks make each step together, else the sum of all."""
    unit: str
    """``items/s`` or ``steps/s``."""
    rate: float | None
    overall: float | None
    step: float | None
    """Seconds of a step of the slowest rank."""
    active: bool
    """Whether a rank goes on with it now."""


@dataclass(frozen=True)
class DeviceRow:
    """One device. Loads are fractions, memory is in bytes, temperature in °C, power in watts."""

    number: str
    name: str
    host: str
    load: float | None
    memory: float | None
    memory_total: float | None
    temperature: float | None
    power: float | None
    mean_load: float | None = None
    """The mean over the window, as the next."""
    mean_power: float | None = None
    ranks: tuple[int, ...] = ()
    """The ranks that work on it."""
    rate: float | None = None
    """The sum of their rates over the window."""
    unit: str = ""
    """``items/s`` or ``steps/s``."""
    index: int | None = None
    """Its number among all devices of the host, while ``number`` counts those that the program sees."""
    uuid: str = ""


@dataclass(frozen=True)
class HostRow:
    """One host. ``cpu`` and ``memory`` are the fractions of its processors and its memory in use."""

    host: str
    cpu: float | None
    memory: float | None
    rss: float | None
    """Bytes of memory of the program's processes."""


EPOCH, TRAINING = "epoch", "training"
"""Values of :attr:`Snapshot.left_of`."""


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
    """The steps of the rank that made the fewest, which are those of the job as a whole."""
    goal: int | None
    """The number of steps after which the program is stopped, those that are skipped included."""
    left: float | None
    """Seconds until the goal at the speed of the window, else until the end of the loop, as far as it is
    known, with the evaluations that are to come.
    """
    unit: str
    """``items/s`` or ``steps/s``."""
    rate: float | None
    """The rate of the job over the window, as :class:`TaskRow` has it for the main task."""
    overall: float | None
    """The rate since training began."""
    step: float | None
    """Seconds of a step over the window, of the slowest rank."""
    regions: dict[str, float]
    """By region its share of the steps in the window, without regions inside it; the mean over ranks."""
    values: dict[str, float]
    """The last value of each series of the first rank."""
    ranks: tuple[RankRow, ...]
    devices: tuple[DeviceRow, ...]
    hosts: tuple[HostRow, ...]
    tasks: tuple[TaskRow, ...] = ()
    left_of: str = ""
    """What ``left`` is the rest of: ``epoch`` if the number of epochs is not known; ``training`` if
    evaluations are not counted, as no pass has ended yet to show how long they take; empty if it is the rest
    of the run.
    """
    position: str = ""
    """The position in the loop if its length is known, such as ``epoch 2 of 3, batch 312 of 1500``."""
    missing: tuple[str, ...] = ()
    """Sentences on what is damaged or lost in the record of a run that has ended."""
    notes: tuple[str, ...] = ()
    """Sentences on how a run ended, or since when nothing was recorded."""
