"""``--fail-on``: how much worse a figure may become before a comparison fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import UserError
from .comparison import TIME, UNITS, Change, Comparison

HELD, UNSURE, BROKEN = 0, 3, 4
"""Exit codes: within the threshold, cannot tell, confidently worse."""
_WIDE = 10.0
"""As a part: an interval that reaches further, or has no end, tells a reader nothing."""
_FORM = re.compile(r"\s*(?P<name>[^<>%]+?)\s*(?P<sign>[<>])\s*(?P<limit>[-+]?\d+(\.\d+)?)\s*%\s*")


@dataclass(frozen=True)
class Threshold:
    """``step_time>5%``: broken where the step time is worse by more than 5 %."""

    text: str
    name: str
    limit: float
    """As a part, at least 0."""
    falls: bool
    """Of a value whose better direction is unknown: whether less is worse, as ``f1<-2%`` says."""


@dataclass(frozen=True)
class Outcome:
    """What became of a threshold in one place."""

    threshold: Threshold
    where: str
    code: int
    """:data:`HELD`, :data:`UNSURE` or :data:`BROKEN`."""
    sentence: str


def threshold(text: str) -> Threshold:
    """What ``text`` says. Raises UserError where it says nothing."""
    found = _FORM.fullmatch(text)
    right = 'right would be "step_time>5%", "throughput>5%", "memory>10%", "io>20%" or "f1<-1%"'
    if not found:
        raise UserError(f"--fail-on {text}: no threshold; {right}")
    limit, falls = float(found["limit"]) / 100, found["sign"] == "<"
    if (limit < 0) != falls and limit != 0:
        raise UserError(f"--fail-on {text}: that is a change for the better; {right}")
    return Threshold(text, found["name"], abs(limit), falls)


def judged(comparison: Comparison, thresholds: Sequence[Threshold]) -> list[Outcome]:
    """Every threshold in every place that has its figure, and what keeps it from being judged.

    Raises UserError for a figure that no side has.
    """
    places = [
        (each, where, change)
        for each in thresholds
        for where, change in figures(comparison)
        if change.name == each.name
    ]
    known = sorted({change.name for _, change in figures(comparison)})
    alone = {name for b in comparison.benchmarks for names in b.totals_only for name in names}
    lost = any(any(each.only) for each in comparison.benchmarks)
    for each in thresholds:
        if known and each.name not in known and each.name not in alone and not lost:
            raise UserError(
                f"--fail-on {each.text}: neither side has {each.name}; there are {', '.join(known)}"
            )
    found = [_outcome(each, where, change, len(places)) for each, where, change in places]
    return found + [
        Outcome(each, where, UNSURE, why)
        for each in thresholds
        for where, why in _gone(comparison, each.name)
    ]


def figures(comparison: Comparison) -> Iterator[tuple[str, Change]]:
    """All that changed, with where: benchmark and loop."""
    for benchmark in comparison.benchmarks:
        for loop in benchmark.loops:
            where = f"{benchmark.name}, {loop.name}" if len(benchmark.loops) > 1 else benchmark.name
            for change in (loop.step, loop.throughput, *loop.regions):
                yield where, change
        for change in benchmark.totals:
            yield benchmark.name, change


def _gone(comparison: Comparison, name: str) -> Iterator[tuple[str, str]]:
    """What keeps the figure ``name`` from being judged: the side after lacks it, or a record is damaged."""
    yield from (("records", text) for text in comparison.problems)
    yield from ((each, "it has not run") for each in comparison.only.before)
    for benchmark in comparison.benchmarks:
        totals = {change.name for change in benchmark.totals}
        if name in benchmark.totals_only.before:
            yield benchmark.name, f"{name} is only there before"
        elif name not in totals:
            for loop in benchmark.only.before:
                yield benchmark.name, f"the loop {loop} is only there before"
        for text in benchmark.damage:
            yield benchmark.name, text


def _outcome(each: Threshold, where: str, change: Change, places: int) -> Outcome:
    if each.falls and (change.name in {TIME, *UNITS} or change.unit == "s"):
        raise UserError(f"--fail-on {each.text}: less {change.name} is better, not worse: use >")
    low, high = change.worse(places, each.falls)
    if low > each.limit:
        return Outcome(each, where, BROKEN, f"worse by {_between(low, high)}")
    if change.ratio is None:
        return Outcome(each, where, UNSURE, "it is 0 on one side")
    if high <= each.limit:
        return Outcome(each, where, HELD, f"at most {high * 100:+.1f} % worse")
    if change.why or max(abs(low), abs(high)) > _WIDE:
        return Outcome(each, where, UNSURE, change.why or "too few runs and steps to tell")
    return Outcome(each, where, UNSURE, f"worse by {_between(low, high)}: more runs would tell")


def signed(part: float) -> str:
    """A part as percent, with its sign; nothing is +0.0."""
    return f"{round(part * 100, 1) + 0.0:+.1f}"


def _between(low: float, high: float) -> str:
    one, two = signed(low), signed(high)
    return f"{one} %" if one == two else f"{one} to {two} %"
