"""All layers over one run, one job, a whole suite."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...config.rules import FAILURE, rules_of
from .. import records
from ..outcome import BenchmarkResult, Finding, ProcessResult, SuiteResult
from . import checks, version

Layer = Callable[[ProcessResult, Mapping[str, Any], Mapping[str, Any]], Iterable[Finding]]

EXPLAINED = (checks.RATE, checks.PLANNING)
"""Layers that miss something: where a process did not end well, that is why."""

_lock_of = lru_cache(maxsize=64)(version.lock_of)  # one file for all runs of an environment

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
    """What the layers say of the processes of one job, whose run folders are ``runs``.

    ``settings``: of the benchmark, filled. ``devices``: for each run the devices that it was given.
    ``lock``: the packages of its environment as they were locked, name → version; what the environment
    itself says, if not given. A folder without a record is a failure.
    """
    found: list[Finding] = []
    for at, folder in enumerate(map(str, runs)):
        given = tuple(devices[at]) if at < len(devices) else ()
        key = os.path.basename(folder)
        process = ProcessResult(key, key, devices=given, folder=folder, record=records.read(folder))
        found += _of_process(process, settings, lock)
    return found


def judged(suite: SuiteResult) -> SuiteResult:
    """``suite`` with what the layers find in it."""
    return replace(suite, benchmarks=tuple(map(_judged, suite.benchmarks)))


def _judged(benchmark: BenchmarkResult) -> BenchmarkResult:
    processes = tuple(
        replace(each, findings=tuple(_of_process(each, benchmark.settings, None)))
        for each in benchmark.processes
    )
    benchmark = replace(benchmark, processes=processes)
    return replace(benchmark, findings=(*benchmark.findings, *_of_benchmark(benchmark)))


def _of_process(
    process: ProcessResult, settings: Mapping[str, Any], lock: Mapping[str, str] | None
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
    rules = rules_of(settings, version.LAYER)
    if rules is not None:
        if lock is None and process.record and process.record.interpreter:
            lock = _lock_of(process.record.interpreter)
        yield from version.check(process, settings, rules, lock)


def _of_benchmark(benchmark: BenchmarkResult) -> Iterator[Finding]:
    rules = rules_of(benchmark.settings, checks.REPRODUCIBILITY)
    if rules is not None:
        yield from checks.check_reproducibility(benchmark, rules)
    if rules_of(benchmark.settings, version.LAYER) is not None:
        yield from checks.same_packages(benchmark)
