"""Whether what ran may be believed: all layers of checks over one process, one job, one benchmark."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...analysis.wording import count, some
from ..config.rules import FAILURE, RULES, Rules, Settings, rules_of
from . import checks, run_record
from .suite_summary import BenchmarkSummary, Finding, ProcessSummary

__all__ = ["RULES", "check", "judged_benchmark", "judged_process"]

Layer = Callable[[ProcessSummary, Settings, Rules], Iterable[Finding]]

EXPLAINED = (checks.RATE, checks.PLANNING)
"""Layers that miss something: where a process did not end well, that is why."""

LAYERS: dict[str, Layer] = {
    checks.ERROR: checks.check_error,
    checks.RATE: checks.check_rate,
    checks.LOSS: checks.check_loss,
    checks.USAGE: checks.check_usage,
    checks.PLANNING: checks.check_planning,
}
"""The layers that one process is enough for; ``version`` needs the lock of its environment beside."""


def check(
    settings: Settings,
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


def judged_process(process: ProcessSummary, settings: Settings) -> ProcessSummary:
    """``process`` with what the layers find in it."""
    return replace(process, findings=tuple(_of_process(process, settings, None)))


def judged_benchmark(benchmark: BenchmarkSummary) -> BenchmarkSummary:
    """``benchmark`` with what the layers find in its processes together."""
    found = list(benchmark.findings)
    rules = rules_of(benchmark.settings, checks.REPRODUCIBILITY)
    if rules is not None:
        found += checks.check_reproducibility(benchmark, rules)
    if rules_of(benchmark.settings, VERSION) is not None:
        found += same_packages(benchmark)
    return replace(benchmark, findings=tuple(found))


def _of_process(
    process: ProcessSummary, settings: Settings, lock: Mapping[str, str] | None
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
    rules = rules_of(settings, VERSION)
    if rules is not None:
        if lock is None and process.record and process.record.interpreter:
            lock = lock_of(process.record.interpreter)
        yield from check_version(process, settings, rules, lock)


# --- the layer version: packages and driver ---------------------------------------------------------

VERSION = "version"
ENVIRONMENT = "inject-environment.json"
"""In an environment that `inject suite install` made: what it holds."""
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;,]+)$")


def check_version(
    process: ProcessSummary,
    settings: Settings,
    rules: Rules,
    lock: Mapping[str, str] | None = None,
) -> Iterator[Finding]:
    """Packages as pinned and as locked (``lock``: name → version)."""
    record = process.record
    if record is None or record.schema is None:
        return
    wanted = plain(lock or {}) if rules["locked"] else {}
    wanted.update(pinned(settings))
    wanted.update(plain(rules["packages"] or {}))
    packages = plain(record.packages)
    wrong = [
        f"{name} is {found or 'not installed'}, {version} is required"
        for name, version in sorted(wanted.items())
        if not _fits(found := packages.get(name), version)
    ]
    if wrong:
        yield Finding(VERSION, False, rules["severity"], some(wrong, 3, "; "))
    elif wanted:
        yield Finding(
            VERSION, True, rules["severity"], f"{count(len(wanted), 'package')} as required"
        )
    if rules["driver"] is not None:
        yield _driver(record.driver, str(rules["driver"]), rules["severity"])


def pinned(settings: Settings) -> dict[str, str]:
    """The package that the benchmark itself is, where its origin pins one."""
    package = (settings.get("origin") or {}).get("package")
    match = _PIN.match(package) if isinstance(package, str) else None
    return {_plain(match[1]): match[2]} if match else {}


def _driver(found: str, wanted: str, severity: str) -> Finding:
    if not found:
        return Finding(VERSION, False, severity, f"the driver is not known, {wanted} is required")
    right = _fits(found, wanted)
    sentence = f"the driver is {found}" + ("" if right else f", {wanted} is required")
    return Finding(VERSION, right, severity, sentence)


def plain(packages: Mapping[Any, Any]) -> dict[str, str]:
    """Versions by the names of packages as indexes compare them (PEP 503)."""
    return {_plain(name): str(version) for name, version in packages.items()}


def _plain(name: object) -> str:
    return re.sub(r"[-_.]+", "-", str(name)).lower()


def _fits(found: str | None, wanted: str) -> bool:
    """``2.13.0+cpu`` is 2.13.0, and 2.13.*."""
    if found is None:
        return False
    if wanted.endswith("*"):
        return found.startswith(wanted[:-1])
    return _same(wanted) in (_same(found), _same(found.partition("+")[0]))


def _same(version: str) -> str:
    """A version as it stands in the names of metadata folders: without zeros in front (PEP 440)."""
    return re.sub(r"(?<![\w])0+(?=\d)", "", re.sub(r"[-_]", ".", version.lower()))


def same_packages(benchmark: BenchmarkSummary) -> Iterator[Finding]:
    """Every package that two of its processes had in different versions."""
    versions: dict[str, set[str]] = {}
    for process in benchmark.processes:
        for name, version in (process.record.packages if process.record else {}).items():
            versions.setdefault(name, set()).add(version)
    wrong = [
        f"{name} {' and '.join(sorted(found))}"
        for name, found in sorted(versions.items())
        if len(found) > 1
    ]
    if wrong:
        sentence = f"not all of its runs had the same packages: {some(wrong, 3)}"
        yield Finding(VERSION, False, FAILURE, sentence)


@lru_cache(maxsize=64)  # one file for all runs of an environment
def lock_of(interpreter: str) -> dict[str, str] | None:
    """What was installed in the environment of ``interpreter``; None where that was not recorded."""
    path = os.path.join(os.path.dirname(os.path.dirname(interpreter)), ENVIRONMENT)
    try:
        with open(path, "rb") as file:
            packages = json.load(file)["packages"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return plain(packages) if isinstance(packages, dict) else None
