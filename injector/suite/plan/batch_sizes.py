"""``--batch``: the batch size that each benchmark of a suite gets, chosen from observations.

:mod:`.observations` reads what was measured: which batch took how much memory, at which rate, and which did
not fit. :func:`largest` and :func:`fastest` choose a size from that; :class:`BatchSizer` applies the choice
to benchmarks, either to the argument that ``batch.arg`` names or to ``auto_batch(N)`` in any setting.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor
from pathlib import Path
from statistics import linear_regression
from typing import Any

from ...errors import UserError
from ...origin import shipped
from ..config.model import Benchmark, Suite
from ..environments.setup import Resources
from . import observations
from .machine import Machine
from .observations import CPU, BatchObservations, Observation

MARGIN = 0.05
"""Fraction of a device's memory that is left free, since what else occupies it varies from run to run."""
REACH = 2
"""The fitted line is trusted up to this many times the largest batch that was measured."""


def largest(
    known: BatchObservations,
    capacity: float,
    multiple: int | None = None,
    power: int | None = None,
    margin: float = MARGIN,
) -> int | None:
    """The largest batch that fits into ``capacity`` bytes; None if no observation fits.

    A line is fitted through the observations (least squares, memory → batch, as milabench does it) and
    read at the capacity. The result stays below every batch that was seen not to fit, and below what the
    line batch → memory allows once it is raised to the observation that lies farthest above it. It is
    rounded down to ``multiple``, or to a power of ``power``.
    """
    usable = capacity * (1 - margin)
    fitting = [each for each in known.observations if each.memory <= usable]
    if not fitting:
        return None
    measured = max(each.batch for each in fitting)
    extrapolated = min(_fitted_batch(known.observations, usable), measured * REACH)
    batch = min(max(extrapolated, measured), _largest_not_refuted(known, usable))
    return rounded(batch, multiple, power) if batch > 0 else None


def _largest_not_refuted(known: BatchObservations, usable: float) -> int:
    """The largest batch that was not seen to exceed ``usable`` bytes, nor is beyond one that was."""
    # Batches that were measured on a larger device and need more than this one has ...
    refuted = [each.batch for each in known.observations if each.memory > usable]
    # ... and those that did not even fit into as much as this one has.
    refuted += [each.batch for each in known.limits if each.capacity >= usable]
    return min(refuted, default=1 << 62) - 1


def _fitted_batch(observations: tuple[Observation, ...], usable: float) -> int:
    """The batch that needs ``usable`` bytes by lines fitted through the observations; 0 if none fits."""
    if not grows(observations):
        return 0
    memory, batch = [each.memory for each in observations], [each.batch for each in observations]
    batch_by_memory = linear_regression(memory, batch)
    memory_by_batch = linear_regression(batch, memory)
    # 1e-9: a line through whole numbers may come out a hair below the whole number it means.
    best = floor(batch_by_memory.slope * usable + batch_by_memory.intercept + 1e-9)
    # Half of the observations lie above their line, and one that does would not fit: raise it over them all.
    above = max(
        each.memory - (memory_by_batch.slope * each.batch + memory_by_batch.intercept)
        for each in observations
    )
    safe = floor((usable - memory_by_batch.intercept - above) / memory_by_batch.slope + 1e-9)
    return min(best, safe)


def grows(observations: Sequence[Observation]) -> bool:
    """Whether memory grows with the batch, by the line through ``observations``; not through one of them."""
    memory, batch = [each.memory for each in observations], [each.batch for each in observations]
    if len(set(memory)) < 2 or len(set(batch)) < 2:
        return False
    return linear_regression(memory, batch).slope > 0


def fastest(known: BatchObservations, capacity: float, margin: float = MARGIN) -> int | None:
    """The measured batch with the highest rate of those that fit; the smallest of several with that rate."""
    usable = capacity * (1 - margin)
    limit = _largest_not_refuted(known, usable)
    fitting = [
        each
        for each in known.observations
        if each.memory <= usable and each.rate is not None and each.batch <= limit
    ]
    best = max(fitting, key=lambda each: (each.rate or 0.0, -each.batch), default=None)
    return best.batch if best else None


def rounded(batch: int, multiple: int | None = None, power: int | None = None) -> int:
    """``batch`` rounded down to a power of ``power``, or a multiple; a smaller batch stays as it is."""
    if power and batch >= power:
        result = power
        while result * power <= batch:
            result *= power
        return result
    if multiple and batch >= multiple:
        return batch // multiple * multiple
    return batch


AUTO, FASTEST = "auto", "fastest"
_AUTO = re.compile(r"\bauto_batch\(\s*(\d+)\s*\)")


@dataclass(frozen=True)
class BatchSizer:
    """Chooses batch sizes for one kind of device."""

    how: str
    """``"auto"``, ``"fastest"`` or a batch size."""
    kind: str = CPU
    """The name of the devices."""
    capacity: float | None = None
    """The memory of a device in bytes, if known."""
    known: Mapping[str, BatchObservations] = field(default_factory=dict)
    """The observations of each benchmark, by its name."""

    def size(self, benchmark: Benchmark) -> int | None:
        """The batch size for ``benchmark``; None if there are no observations to choose one from."""
        if self.how not in (AUTO, FASTEST):
            return int(self.how)
        known = self.known.get(benchmark.name) or self.known.get(benchmark.family)
        if known is None or self.capacity is None:
            return None
        if self.how == FASTEST:
            return fastest(known, self.capacity)
        batch = batch_of(benchmark)
        return largest(known, self.capacity, batch.get("multiple"), batch.get("power"))

    def resize(self, benchmark: Benchmark) -> Callable[[int], int]:
        """The function that evaluates ``auto_batch(N)`` in settings of ``benchmark``."""
        size = self.size(benchmark)
        return lambda default: default if size is None else size

    def sized(self, benchmark: Benchmark) -> Benchmark:
        """``benchmark`` with the argument that ``batch.arg`` names set to its size; itself without either."""
        size = self.size(benchmark)
        return benchmark if size is None else with_batch(benchmark, size)

    def resources(
        self, resources: Callable[[Benchmark], Resources]
    ) -> Callable[[Benchmark], Resources]:
        """``resources`` with this sizer's ``auto_batch`` added to the context of every benchmark."""

        def sized(benchmark: Benchmark) -> Resources:
            plain = resources(benchmark)
            return replace(plain, context={**plain.context, "auto_batch": self.resize(benchmark)})

        return sized

    def left(self, suite: Suite) -> list[str]:
        """The names of benchmarks whose batch could be changed but for which no size is known."""
        return [
            each.name for each in suite.benchmarks if resizable(each) and self.size(each) is None
        ]


def sizer_for(how: str, suite: Suite, machine: Machine, folder: str | None) -> BatchSizer:
    """The sizer for ``--batch how`` on ``machine``.

    Observations are read from ``folder``; without it from ``sizing/`` beside the suite's file, and for
    benchmarks without any there from the shipped ones. Raises UserError if ``how`` is not understood, or a
    file of observations is not.
    """
    kind = kind_of(machine)
    folders = [folder] if folder else [folder_of(suite), os.path.join(shipped("suites"), "sizing")]
    known = observations.known_batches(dict.fromkeys(folders), kind)
    return BatchSizer(checked_option(how), kind, capacity_of(machine), known)


def folder_of(suite: Suite) -> str:
    """The default folder of a suite's observations: ``sizing/`` beside its file."""
    return str(Path(suite.file).absolute().parent / "sizing")


def kind_of(machine: Machine) -> str:
    """The name of a machine's devices, by which files of observations are chosen."""
    return machine.devices[0].name or CPU


def capacity_of(machine: Machine) -> float | None:
    """The memory of the machine's smallest device in bytes; None if it is not known."""
    return min((device.memory for device in machine.devices if device.memory), default=None)


def checked_option(how: str) -> str:
    """``how``, the value of ``--batch``. Raises UserError if it is not understood."""
    if how in (AUTO, FASTEST) or (how.isascii() and how.isdecimal() and int(how) > 0):
        return how
    raise UserError(f"--batch {how}: is auto, fastest, or a batch size such as 64")


def batch_of(benchmark: Benchmark) -> Mapping[str, Any]:
    """The setting ``batch`` of a benchmark; empty if it has none."""
    batch = benchmark.settings.get("batch")
    return batch if isinstance(batch, Mapping) else {}


def resizable(benchmark: Benchmark) -> bool:
    """Whether the batch can be changed: settings have ``batch.arg``, or ``auto_batch(N)`` somewhere."""
    return bool(batch_of(benchmark).get("arg")) or bool(_auto_defaults(benchmark.settings))


def default_of(benchmark: Benchmark) -> int:
    """The batch size that the suite's file gives the benchmark; 1 if it gives none."""
    batch = batch_of(benchmark)
    argv = benchmark.settings.get("argv")
    argument = argv.get(batch.get("arg")) if isinstance(argv, Mapping) else None
    for value in (batch.get("default"), argument, *_auto_defaults(benchmark.settings)):
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return 1


def _auto_defaults(value: Any) -> list[int]:
    """Every N of ``auto_batch(N)`` in ``value``, however deep."""
    if isinstance(value, Mapping):
        return [default for inner in value.values() for default in _auto_defaults(inner)]
    if isinstance(value, (list, tuple)):
        return [default for inner in value for default in _auto_defaults(inner)]
    return [int(n) for n in _AUTO.findall(value)] if isinstance(value, str) else []


def with_batch(benchmark: Benchmark, size: int) -> Benchmark:
    """``benchmark`` with the argument that ``batch.arg`` names set to ``size``; itself without one."""
    argument = batch_of(benchmark).get("arg")
    if not argument:
        return benchmark
    argv = benchmark.settings.get("argv") or {}
    if isinstance(argv, Mapping):
        return benchmark.with_settings(argv={**argv, argument: size})
    at = argv.index(argument) if argument in argv else len(argv)
    return benchmark.with_settings(argv=[*argv[:at], *argv[at + 2 :], argument, size])
