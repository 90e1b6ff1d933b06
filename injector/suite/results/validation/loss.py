"""Whether it learned something: losses that are numbers, and that fall."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from ...config.rules import WARNING
from ..outcome import Finding, ProcessResult
from ..records import Losses
from .texts import number

LAYER = "loss"


def check(
    process: ProcessResult, settings: Mapping[str, Any], rules: Mapping[str, Any]
) -> Iterator[Finding]:
    """Each series of losses that ``names`` leaves."""
    if process.record is None:
        return
    names = rules["names"]
    for name, losses in process.record.losses.items():
        if names is not None and name not in names:
            continue
        if rules["finite"] and losses.odd:
            sentence = f"{losses.odd} of {losses.n} values of {name} are not finite"
            yield Finding(LAYER, False, rules["severity"], sentence)
        elif rules["falls"]:
            yield from _falls(name, losses, rules)


def _falls(name: str, losses: Losses, rules: Mapping[str, Any]) -> Iterator[Finding]:
    """Medians of the first and the last part: single values of a batch rise and fall by chance."""
    values = losses.values
    size = int(len(values) * rules["part"])
    if len(values) < rules["least"] or not size:
        return
    first, last = median(values[:size]), median(values[-size:])
    severity = WARNING if rules["falls"] == "warn" else rules["severity"]
    if last < first:
        sentence = f"{name} fell from {number(first)} to {number(last)}"
        yield Finding(LAYER, True, severity, sentence)
        return
    part = f"{rules['part']:.0%}".replace("%", " %")
    sentence = (
        f"{name} did not fall: its median is {number(first)} in the first {part} of the run, "
        f"{number(last)} in the last"
    )
    yield Finding(LAYER, False, severity, sentence)
