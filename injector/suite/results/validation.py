"""Whether what ran may be believed: all layers of checks on one process, one job or one benchmark.

The layers are in :mod:`.checks`, but for ``version``, which is here. What can be set of each stands in
:mod:`..config.rules`.
"""

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
from ..environments.install_groups import RECORD
from ..environments.requirements import normal_name
from . import checks, run_record
from .suite_summary import BenchmarkSummary, Finding, ProcessSummary

__all__ = ["RULES", "check", "judged_benchmark", "judged_process"]

Layer = Callable[[ProcessSummary, Settings, Rules], Iterable[Finding]]

EXPLAINED = (checks.RATE, checks.PLANNING)
"""Layers that are left out if a process did not end well: that is why rates or ranks are missing."""

LAYERS: dict[str, Layer] = {
    checks.ERROR: checks.check_error,
    checks.RATE: checks.check_rate,
    checks.LOSS: checks.check_loss,
    checks.USAGE: checks.check_usage,
    checks.PLANNING: checks.check_planning,
}
"""The layers that look at one process; ``version`` needs what was locked in its environment as well."""


def check(settings: Settings, run: str | Path, devices: Sequence[str] = ()) -> list[Finding]:
    """What the layers find in a process with ``devices`` whose run folder is ``run``.

    ``settings`` are those of the benchmark, with placeholders filled. A folder without a record is a failure.
    """
    key, record = os.path.basename(run), run_record.read(str(run))
    process = ProcessSummary(key, key, devices=tuple(devices), folder=str(run), record=record)
    return list(_findings(process, settings))


def judged_process(process: ProcessSummary, settings: Settings) -> ProcessSummary:
    """``process`` with what the layers find in it."""
    return replace(process, findings=tuple(_findings(process, settings)))


def judged_benchmark(benchmark: BenchmarkSummary) -> BenchmarkSummary:
    """``benchmark`` with what the layers find in its processes together."""
    findings = list(benchmark.findings)
    rules = rules_of(benchmark.settings, checks.REPRODUCIBILITY)
    if rules is not None:
        findings += checks.check_reproducibility(benchmark, rules)
    if rules_of(benchmark.settings, VERSION) is not None:
        findings += _differing_packages(benchmark)
    return replace(benchmark, findings=tuple(findings))


def _findings(process: ProcessSummary, settings: Settings) -> Iterator[Finding]:
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
        yield from _check_version(process, settings, rules)


# --- the layer version: packages and driver ---------------------------------------------------------

VERSION = "version"
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;,]+)$")


def _check_version(process: ProcessSummary, settings: Settings, rules: Rules) -> Iterator[Finding]:
    """Whether packages are as locked, as pinned and as the rules require, and the driver is as required.

    Of these three the later one overrides the earlier one, package by package.
    """
    record = process.record
    if record is None or record.schema is None:
        return
    locked = rules["locked"] and record.interpreter
    wanted = dict(_lock_of(record.interpreter)) if locked else {}
    package = (settings.get("origin") or {}).get("package")
    if isinstance(package, str) and (match := _PIN.match(package)):
        wanted[normal_name(match[1])] = match[2]
    wanted.update(_by_plain_name(rules["packages"] or {}))
    packages = _by_plain_name(record.packages)
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


def _driver(version: str, wanted: str, severity: str) -> Finding:
    if not version:
        return Finding(VERSION, False, severity, f"the driver is not known, {wanted} is required")
    fits = _fits(version, wanted)
    sentence = f"the driver is {version}" + ("" if fits else f", {wanted} is required")
    return Finding(VERSION, fits, severity, sentence)


def _by_plain_name(packages: Mapping[Any, Any]) -> dict[str, str]:
    """Versions of packages, by their names as indexes compare these (PEP 503)."""
    return {normal_name(str(name)): str(version) for name, version in packages.items()}


def _fits(version: str | None, wanted: str) -> bool:
    """Whether ``version`` is the one that is ``wanted``: ``2.13.0+cpu`` is ``2.13.0``, and ``2.13.*``."""
    if version is None:
        return False
    if wanted.endswith("*"):
        return version.startswith(wanted[:-1])
    return _plain_version(wanted) in (
        _plain_version(version),
        _plain_version(version.partition("+")[0]),
    )


def _plain_version(version: str) -> str:
    """A version as it stands in the name of a metadata folder: ``2024.01-1`` is ``2024.1.1`` (PEP 440)."""
    return re.sub(r"(?<![\w])0+(?=\d)", "", re.sub(r"[-_]", ".", version.lower()))


def _differing_packages(benchmark: BenchmarkSummary) -> Iterator[Finding]:
    """A failure that names the packages of which two processes had different versions."""
    versions: dict[str, set[str]] = {}
    for process in benchmark.processes:
        for name, version in (process.record.packages if process.record else {}).items():
            versions.setdefault(name, set()).add(version)
    differing = [
        f"{name} {' and '.join(sorted(seen))}"
        for name, seen in sorted(versions.items())
        if len(seen) > 1
    ]
    if differing:
        sentence = f"not all of its runs had the same packages: {some(differing, 3)}"
        yield Finding(VERSION, False, FAILURE, sentence)


@lru_cache(maxsize=64)  # the runs of an environment share the file
def _lock_of(interpreter: str) -> dict[str, str]:
    """The versions that were installed in the environment of ``interpreter``; empty without a record."""
    path = os.path.join(os.path.dirname(os.path.dirname(interpreter)), RECORD)
    try:
        with open(path, "rb") as file:
            packages = json.load(file)["packages"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return _by_plain_name(packages) if isinstance(packages, dict) else {}
