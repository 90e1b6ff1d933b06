"""Whether it ran with what it should have: packages, driver, a record that can be read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..config.rules import FAILURE
from .summary import BenchmarkSummary, Finding, ProcessSummary

LAYER = "version"
ENVIRONMENT = "inject-environment.json"
"""In an environment that `inject suite install` made: what it holds."""
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;,]+)$")


def check(
    process: ProcessSummary,
    settings: Mapping[str, Any],
    rules: Mapping[str, Any],
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
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    if wrong:
        yield Finding(LAYER, False, rules["severity"], "; ".join(wrong[:3]) + more)
    elif wanted:
        yield Finding(LAYER, True, rules["severity"], f"{len(wanted)} packages are as required")
    if rules["driver"] is not None:
        yield _driver(record.driver, str(rules["driver"]), rules["severity"])


def pinned(settings: Mapping[str, Any]) -> dict[str, str]:
    """The package that the benchmark itself is, where its origin pins one."""
    package = (settings.get("origin") or {}).get("package")
    match = _PIN.match(package) if isinstance(package, str) else None
    return {_plain(match[1]): match[2]} if match else {}


def _driver(found: str, wanted: str, severity: str) -> Finding:
    if not found:
        return Finding(LAYER, False, severity, f"the driver is not known, {wanted} is required")
    right = _fits(found, wanted)
    sentence = f"the driver is {found}" + ("" if right else f", {wanted} is required")
    return Finding(LAYER, right, severity, sentence)


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
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        sentence = "not all of its runs had the same packages: " + ", ".join(wrong[:3]) + more
        yield Finding(LAYER, False, FAILURE, sentence)


def lock_of(interpreter: str) -> dict[str, str] | None:
    """What was installed in the environment of ``interpreter``; None where that was not recorded."""
    path = os.path.join(os.path.dirname(os.path.dirname(interpreter)), ENVIRONMENT)
    try:
        with open(path, "rb") as file:
            packages = json.load(file)["packages"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return plain(packages) if isinstance(packages, dict) else None
