"""Whether repeats of a benchmark agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import fsum
from typing import Any

from ...config.rules import FAILURE
from .. import score
from ..outcome import BenchmarkResult, Finding
from .texts import share

LAYER = "reproducibility"


def check(benchmark: BenchmarkResult, rules: Mapping[str, Any]) -> Iterator[Finding]:
    """The spread of perf over repeats, and that all repeats had the same packages."""
    perfs = by_repeat(benchmark)
    if len(perfs) < 2:
        return
    mean = fsum(perfs) / len(perfs)
    std = (fsum((each - mean) ** 2 for each in perfs) / (len(perfs) - 1)) ** 0.5
    spread = std / mean if mean else 0.0
    right = spread <= rules["spread"]
    sentence = f"perf of {len(perfs)} repeats spreads by {share(spread)}"
    if not right:
        sentence += f", at most {share(rules['spread'])} was asked for"
    yield Finding(LAYER, right, rules["severity"], sentence)


def by_repeat(benchmark: BenchmarkResult) -> list[float]:
    """Σ over its devices of perf, of each repeat in which none of its processes failed."""
    repeats = sorted({process.repeat for process in benchmark.processes})
    found = []
    for repeat in repeats:
        mine = [process for process in benchmark.processes if process.repeat == repeat]
        perfs = [score.perf(process.rates) for process in mine]
        if all(perfs) and not any(process.failed for process in mine):
            found.append(fsum(perf.mean for perf in perfs if perf))
    return found


def same_packages(benchmark: BenchmarkResult) -> Iterator[Finding]:
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
        yield Finding("version", False, FAILURE, sentence)
