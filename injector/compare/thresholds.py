"""``--fail-on``: how much worse a figure may become before a comparison fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import UserError
from .changes import TIME, Change, Comparison
from .comparison import UNITS

HELD, UNSURE, BROKEN = 0, 3, 4
"""Exit codes: within the threshold, cannot tell, confidently worse."""
_UNINFORMATIVE = 10.0
"""An interval of the change that reaches further than this part tells a reader nothing."""
_FORM = re.compile(r"\s*(?P<name>[^<>%]+?)\s*(?P<sign>[<>])\s*(?P<limit>[-+]?\d+(\.\d+)?)\s*%\s*")


@dataclass(frozen=True)
class Threshold:
    """A limit such as ``step_time>5%``, which is broken if the step time is worse by more than 5 %."""

    text: str
    name: str
    """The figure's."""
    limit: float
    """As a part, at least 0."""
    falls: bool
    """Whether less is worse, as in ``f1<-2%``, for a value of which that is not known."""


@dataclass(frozen=True)
class Outcome:
    """Whether a threshold holds in one place."""

    threshold: Threshold
    where: str
    """Benchmark and loop."""
    code: int
    """:data:`HELD`, :data:`UNSURE` or :data:`BROKEN`."""
    sentence: str


def threshold(text: str) -> Threshold:
    """Parse a threshold. Raises UserError if ``text`` is none, or limits changes for the better."""
    match = _FORM.fullmatch(text)
    right = 'right would be "step_time>5%", "throughput>5%", "memory>10%", "io>20%" or "f1<-1%"'
    if not match:
        raise UserError(f"--fail-on {text}: no threshold; {right}")
    limit, falls = float(match["limit"]) / 100, match["sign"] == "<"
    if (limit < 0) != falls and limit != 0:
        raise UserError(f"--fail-on {text}: that is a change for the better; {right}")
    return Threshold(text, match["name"], abs(limit), falls)


def judged(comparison: Comparison, thresholds: Sequence[Threshold]) -> list[Outcome]:
    """The outcome of every threshold in every place that has its figure, and UNSURE for what may hide it.

    Raises UserError for a figure that no side has.
    """
    places = [
        (limit, where, change)
        for limit in thresholds
        for where, change in figures(comparison)
        if change.name == limit.name
    ]
    known = sorted({change.name for _, change in figures(comparison)})
    one_sided = {
        name for each in comparison.benchmarks for names in each.totals_only for name in names
    }
    # Regions of a loop that only one side has are not known by name.
    has_one_sided_loops = any(any(each.only) for each in comparison.benchmarks)
    for limit in thresholds:
        if known and limit.name not in (*known, *one_sided) and not has_one_sided_loops:
            raise UserError(
                f"--fail-on {limit.text}: neither side has {limit.name}; there are {', '.join(known)}"
            )
    outcomes = [_outcome(limit, where, change, len(places)) for limit, where, change in places]
    return outcomes + [
        Outcome(limit, where, UNSURE, why)
        for limit in thresholds
        for where, why in _obstacles(comparison, limit.name)
    ]


def figures(comparison: Comparison) -> Iterator[tuple[str, Change]]:
    """All changes of a comparison, each after its place: benchmark and loop."""
    for benchmark in comparison.benchmarks:
        for loop in benchmark.loops:
            where = f"{benchmark.name}, {loop.name}" if len(benchmark.loops) > 1 else benchmark.name
            for change in (loop.step, loop.throughput, *loop.regions):
                yield where, change
        for change in benchmark.totals:
            yield benchmark.name, change


def _obstacles(comparison: Comparison, name: str) -> Iterator[tuple[str, str]]:
    """Where the figure ``name`` cannot be judged, and why: it is lost after, or a record is damaged."""
    yield from (("records", text) for text in comparison.problems)
    yield from ((benchmark, "it has not run") for benchmark in comparison.only.before)
    for benchmark in comparison.benchmarks:
        totals = {change.name for change in benchmark.totals}
        if name in benchmark.totals_only.before:
            yield benchmark.name, f"{name} is only there before"
        elif name not in totals:
            for loop in benchmark.only.before:
                yield benchmark.name, f"the loop {loop} is only there before"
        for text in benchmark.damage:
            yield benchmark.name, text


def _outcome(limit: Threshold, where: str, change: Change, places: int) -> Outcome:
    """The outcome for a ``change`` whose interval holds for all ``places`` together."""
    if limit.falls and (change.name in {TIME, *UNITS} or change.unit == "s"):
        raise UserError(f"--fail-on {limit.text}: less {change.name} is better, not worse: use >")
    low, high = change.worse(places, limit.falls)
    if low > limit.limit:
        return Outcome(limit, where, BROKEN, f"worse by {_range(low, high)}")
    if change.ratio is None:
        return Outcome(limit, where, UNSURE, "it is 0 on one side")
    if high <= limit.limit:
        return Outcome(limit, where, HELD, f"at most {high * 100:+.1f} % worse")
    if change.why or max(abs(low), abs(high)) > _UNINFORMATIVE:
        return Outcome(limit, where, UNSURE, change.why or "too few runs and steps to tell")
    return Outcome(limit, where, UNSURE, f"worse by {_range(low, high)}: more runs would tell")


def signed(part: float) -> str:
    """A part as percent with its sign: ``+5.0``. Nothing is +0.0, never -0.0."""
    return f"{round(part * 100, 1) + 0.0:+.1f}"


def _range(low: float, high: float) -> str:
    """``"+3.0 to +8.0 %"``."""
    one, two = signed(low), signed(high)
    return f"{one} %" if one == two else f"{one} to {two} %"
