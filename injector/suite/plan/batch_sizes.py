"""``--batch``: which batch size each benchmark of a suite is given, from what was observed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
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
"""Of a device's memory, what is left free: what else lies there differs from run to run."""
REACH = 2
"""How far beyond the largest batch that was measured the line is believed."""


def largest(
    known: BatchObservations,
    capacity: float,
    multiple: int | None = None,
    power: int | None = None,
    margin: float = MARGIN,
) -> int | None:
    """The largest batch that fits into ``capacity`` bytes; None if it is not known.

    A line is fitted through the observations (least squares, memory → batch, as milabench does it) and
    read at the capacity. Never more than memory allows: by no observation, by no batch that did not
    fit, and not by the line batch → memory raised to the observation that lies highest above it. The
    result is rounded down to ``multiple``, or to a power of ``power``.
    """
    room = capacity * (1 - margin)
    fitting = [each for each in known.observations if each.memory <= room]
    if not fitting:
        return None
    most = max(each.batch for each in fitting)
    line = min(_batch_at(known.observations, room), most * REACH)
    found = min(max(line, most), _largest_allowed(known, room))
    return rounded(found, multiple, power) if found > 0 else None


def _largest_allowed(known: BatchObservations, room: float) -> int:
    """The largest batch that nothing speaks against."""
    # What needed too much here, and what did not even fit into more than there is here.
    refused = [each.batch for each in known.observations if each.memory > room]
    refused += [each.batch for each in known.limits if each.capacity >= room]
    return min(refused, default=1 << 62) - 1


def _batch_at(observations: tuple[Observation, ...], room: float) -> int:
    """The batch at which the line through ``observations`` reaches ``room``; 0 without a line."""
    memory, batch = [each.memory for each in observations], [each.batch for each in observations]
    if len(set(memory)) < 2 or len(set(batch)) < 2:
        return 0  # only one size was measured, or memory does not grow with it
    there, back = linear_regression(memory, batch), linear_regression(batch, memory)
    if there.slope <= 0:
        return 0
    found = floor(there.slope * room + there.intercept + 1e-9)
    above = max(each.memory - (back.slope * each.batch + back.intercept) for each in observations)
    return min(found, floor((room - back.intercept - above) / back.slope + 1e-9))


def fastest(known: BatchObservations, capacity: float, margin: float = MARGIN) -> int | None:
    """Of the batches that were measured and fit the one with the highest rate; of equals the smallest."""
    room = capacity * (1 - margin)
    below = _largest_allowed(known, room)
    fitting = [
        each
        for each in known.observations
        if each.memory <= room and each.rate is not None and each.batch <= below
    ]
    best = max(fitting, key=lambda each: (each.rate or 0.0, -each.batch), default=None)
    return best.batch if best else None


def rounded(batch: int, multiple: int | None = None, power: int | None = None) -> int:
    """``batch`` down to a multiple, or to a power; what is below the first one stays."""
    if power and batch >= power:
        found = power
        while found * power <= batch:
            found *= power
        return found
    if multiple and batch >= multiple:
        return batch // multiple * multiple
    return batch


AUTO, FASTEST = "auto", "fastest"
_AUTO = re.compile(r"\bauto_batch\(\s*(\d+)\s*\)")


@dataclass(frozen=True)
class BatchSizer:
    """Chooses batch sizes for one kind of device."""

    how: str
    """``"auto"``, ``"fastest"`` or a number."""
    kind: str = CPU
    """The device's name."""
    capacity: float | None = None
    """Bytes of a device."""
    known: Mapping[str, BatchObservations] = field(default_factory=dict)
    """By benchmark."""

    def size(self, benchmark: Benchmark) -> int | None:
        """The batch size for ``benchmark``; None where nothing is known that says one."""
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
        """What ``auto_batch(N)`` means for ``benchmark``."""
        found = self.size(benchmark)
        return lambda default: default if found is None else found

    def sized(self, benchmark: Benchmark) -> Benchmark:
        """``benchmark`` with the argument of its batch set, if it says which that is."""
        found = self.size(benchmark)
        return benchmark if found is None else with_batch(benchmark, found)

    def resources(
        self, resources: Callable[[Benchmark], Resources]
    ) -> Callable[[Benchmark], Resources]:
        """``resources``, on which ``auto_batch`` means what is chosen here."""

        def sized(benchmark: Benchmark) -> Resources:
            found = resources(benchmark)
            return replace(found, context={**found.context, "auto_batch": self.resize(benchmark)})

        return sized

    def left(self, suite: Suite) -> list[str]:
        """The benchmarks of ``suite`` whose batch could be changed, and of which nothing is known."""
        return [
            each.name for each in suite.benchmarks if resizable(each) and self.size(each) is None
        ]

    def all_sized(self, suite: Suite) -> Suite:
        """``suite`` with every benchmark sized."""
        return replace(suite, benchmarks=tuple(map(self.sized, suite.benchmarks)))


def sizer_for(how: str, suite: Suite, machine: Machine, folder: str | None = None) -> BatchSizer:
    """What ``--batch`` means for ``suite`` on ``machine``, with the observations in ``folder``.

    Without ``folder`` those beside the suite's file, then the shipped ones.

    Raises:
        UserError: ``how`` makes no sense, or a file of observations cannot be understood.
    """
    kind = kind_of(machine)
    places = [folder] if folder else [folder_of(suite), os.path.join(shipped("suites"), "sizing")]
    found = observations.known_batches(dict.fromkeys(places), kind)
    return BatchSizer(checked_option(how), kind, capacity_of(machine), found)


def folder_of(suite: Suite) -> str:
    """Where the observations of a suite lie by default: ``sizing/`` beside its file."""
    return str(Path(suite.file).absolute().parent / "sizing")


def kind_of(machine: Machine) -> str:
    """The kind of a machine's devices, as files of observations call it."""
    return machine.devices[0].name or CPU


def capacity_of(machine: Machine) -> float | None:
    """Bytes of its smallest device."""
    return min((each.memory for each in machine.devices if each.memory), default=None)


def checked_option(how: str) -> str:
    """What ``--batch`` was given, if it makes sense. Raises UserError."""
    if how in (AUTO, FASTEST) or (how.isascii() and how.isdecimal() and int(how) > 0):
        return how
    raise UserError(f"--batch {how}: is auto, fastest, or a batch size such as 64")


def batch_of(benchmark: Benchmark) -> Mapping[str, Any]:
    """``batch:`` of a benchmark."""
    batch = benchmark.settings.get("batch")
    return batch if isinstance(batch, Mapping) else {}


def resizable(benchmark: Benchmark) -> bool:
    """Whether it says how its batch can be changed: ``batch.arg``, or ``auto_batch(N)`` somewhere."""
    return bool(batch_of(benchmark).get("arg")) or bool(_defaults(benchmark.settings))


def default_of(benchmark: Benchmark) -> int:
    """The batch that it was written with; 1 where it does not say."""
    batch = batch_of(benchmark)
    argv = benchmark.settings.get("argv")
    given = argv.get(batch.get("arg")) if isinstance(argv, Mapping) else None
    for each in (batch.get("default"), given, *_defaults(benchmark.settings)):
        if isinstance(each, int) and not isinstance(each, bool) and each > 0:
            return each
    return 1


def _defaults(value: Any) -> list[int]:
    """Every N of ``auto_batch(N)``."""
    if isinstance(value, Mapping):
        return [found for each in value.values() for found in _defaults(each)]
    if isinstance(value, (list, tuple)):
        return [found for each in value for found in _defaults(each)]
    return [int(n) for n in _AUTO.findall(value)] if isinstance(value, str) else []


def with_batch(benchmark: Benchmark, size: int) -> Benchmark:
    """``benchmark`` with its batch's argument set to ``size``; itself where it does not say which."""
    argument = batch_of(benchmark).get("arg")
    if not argument:
        return benchmark
    argv = benchmark.settings.get("argv") or {}
    if isinstance(argv, Mapping):
        return benchmark.with_settings(argv={**argv, argument: size})
    return benchmark.with_settings(argv=[*_without_option(list(argv), argument), argument, size])


def _without_option(words: list[Any], argument: str) -> list[Any]:
    """``words`` of a command line without ``argument`` and its value."""
    if argument not in words:
        return words
    at = words.index(argument)
    return [*words[:at], *words[at + 2 :]]
