"""Whether what ran may be believed: all layers of checks over one process, one job, one benchmark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..config.rules import FAILURE, RULES, rules_of
from . import checks, run_record, versions
from .summary import BenchmarkSummary, Finding, ProcessSummary

__all__ = ["RULES", "check", "judged_benchmark", "judged_process"]

Layer = Callable[[ProcessSummary, Mapping[str, Any], Mapping[str, Any]], Iterable[Finding]]

EXPLAINED = (checks.RATE, checks.PLANNING)
"""Layers that miss something: where a process did not end well, that is why."""

_lock_of = lru_cache(maxsize=64)(versions.lock_of)  # one file for all runs of an environment

LAYERS: dict[str, Layer] = {
    checks.ERROR: checks.check_error,
    checks.RATE: checks.check_rate,
    checks.LOSS: checks.check_loss,
    checks.USAGE: checks.check_usage,
    checks.PLANNING: checks.check_planning,
}
"""The layers that one process is enough for; ``version`` needs the lock of its environment beside."""


def check(
    settings: Mapping[str, Any],
    runs: Sequence[str | Path],
    devices: Sequence[Sequence[str]] = (),
    lock: Mapping[str, str] | None = None,
) -> list[Finding]:
    """What the layers find in the processes of one job, whose run folders are ``runs``.

    ``settings``: of the benchmark, filled. ``devices``: for each run the devices that it was given.
    ``lock``: the packages of its environment as they were locked, name → version; what the environment
    itself records, if not given. A folder without a record is a failure.
    """
    found: list[Finding] = []
    for at, folder in enumerate(map(str, runs)):
        given = tuple(devices[at]) if at < len(devices) else ()
        key, record = os.path.basename(folder), run_record.read(folder)
        process = ProcessSummary(key, key, devices=given, folder=folder, record=record)
        found += _of_process(process, settings, lock)
    return found


def judged_process(process: ProcessSummary, settings: Mapping[str, Any]) -> ProcessSummary:
    """``process`` with what the layers find in it."""
    return replace(process, findings=tuple(_of_process(process, settings, None)))


def judged_benchmark(benchmark: BenchmarkSummary) -> BenchmarkSummary:
    """``benchmark`` with what the layers find in its processes together."""
    return replace(benchmark, findings=(*benchmark.findings, *_of_benchmark(benchmark)))


def _of_process(
    process: ProcessSummary, settings: Mapping[str, Any], lock: Mapping[str, str] | None
) -> Iterator[Finding]:
    failed = bool(process.record and process.record.missing)
    if failed:
        yield Finding("record", False, FAILURE, "its record is damaged: " + process.missing[0])
    for name, layer in LAYERS.items():
        rules = rules_of(settings, name)
        if rules is None or (failed and name in EXPLAINED):
            continue
        for finding in layer(process, settings, rules):
            failed = failed or (name == checks.ERROR and finding.fails)
            yield finding
    rules = rules_of(settings, versions.LAYER)
    if rules is not None:
        if lock is None and process.record and process.record.interpreter:
            lock = _lock_of(process.record.interpreter)
        yield from versions.check(process, settings, rules, lock)


def _of_benchmark(benchmark: BenchmarkSummary) -> Iterator[Finding]:
    rules = rules_of(benchmark.settings, checks.REPRODUCIBILITY)
    if rules is not None:
        yield from checks.check_reproducibility(benchmark, rules)
    if rules_of(benchmark.settings, versions.LAYER) is not None:
        yield from versions.same_packages(benchmark)
