"""``--batch``: which batch size each benchmark of a suite is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...errors import UserError
from .. import shipped
from ..config.model import Benchmark, Suite
from ..environments.resources import Resources
from . import choosing, observations
from .machine import Machine
from .observations import CPU, Known

AUTO, FASTEST = "auto", "fastest"
_AUTO = re.compile(r"\bauto_batch\(\s*(\d+)\s*\)")


@dataclass(frozen=True)
class Sizer:
    """Chooses batch sizes for one kind of device."""

    how: str
    """``"auto"``, ``"fastest"`` or a number."""
    kind: str = CPU
    """The device's name."""
    capacity: float | None = None
    """Bytes of a device."""
    known: Mapping[str, Known] = field(default_factory=dict)
    """By benchmark."""

    def size(self, benchmark: Benchmark) -> int | None:
        """The batch size for ``benchmark``; None where nothing is known that says one."""
        if self.how not in (AUTO, FASTEST):
            return int(self.how)
        known = self.known.get(benchmark.name) or self.known.get(benchmark.family)
        if known is None or self.capacity is None:
            return None
        if self.how == FASTEST:
            return choosing.fastest(known, self.capacity)
        batch = batch_of(benchmark)
        return choosing.largest(known, self.capacity, batch.get("multiple"), batch.get("power"))

    def resize(self, benchmark: Benchmark) -> Callable[[int], int]:
        """What ``auto_batch(N)`` means for ``benchmark``."""
        found = self.size(benchmark)
        return lambda default: default if found is None else found

    def sized(self, benchmark: Benchmark) -> Benchmark:
        """``benchmark`` with the argument of its batch set, if it says which that is."""
        found = self.size(benchmark)
        return benchmark if found is None else with_batch(benchmark, found)

    def ground(self, ground: Callable[[Benchmark], Resources]) -> Callable[[Benchmark], Resources]:
        """``ground``, on which ``auto_batch`` means what is chosen here."""

        def sized(benchmark: Benchmark) -> Resources:
            found = ground(benchmark)
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


def of(how: str, suite: Suite, machine: Machine, folder: str | None = None) -> Sizer:
    """What ``--batch`` means for ``suite`` on ``machine``, with the observations in ``folder``.

    Without ``folder`` those beside the suite's file, then the shipped ones.

    Raises:
        UserError: ``how`` makes no sense, or a file of observations cannot be understood.
    """
    kind = kind_of(machine)
    places = [folder] if folder else [folder_of(suite), str(shipped.place("suites") / "sizing")]
    found = observations.known(dict.fromkeys(places), kind)
    return Sizer(checked(how), kind, capacity_of(machine), found)


def folder_of(suite: Suite) -> str:
    """Where the observations of a suite lie unless somebody says so: ``sizing/`` beside its file."""
    return str(Path(suite.file).absolute().parent / "sizing")


def kind_of(machine: Machine) -> str:
    """The kind of a machine's devices, as files of observations call it."""
    return machine.devices[0].name or CPU


def capacity_of(machine: Machine) -> float | None:
    """Bytes of its smallest device."""
    return min((each.memory for each in machine.devices if each.memory), default=None)


def suggest(
    benchmark: Benchmark,
    kind: str,
    capacity: float,
    known: Mapping[str, Known],
    how: str = AUTO,
) -> int | None:
    """The batch for ``benchmark`` on a device of ``kind`` with ``capacity`` bytes; None if unknown."""
    return Sizer(how, kind, capacity, known).size(benchmark)


def checked(how: str) -> str:
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
    return benchmark.with_settings(argv=[*_without(list(argv), argument), argument, size])


def _without(words: list[Any], argument: str) -> list[Any]:
    """``words`` of a command line without ``argument`` and its value."""
    if argument not in words:
        return words
    at = words.index(argument)
    return [*words[:at], *words[at + 2 :]]
