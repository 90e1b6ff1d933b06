"""A comparison as text for a terminal, as Markdown for a pull request, and as JSON.

All forms hold the same parts: what is missing, what differs in the work, sentences on the loops that changed,
tables of figures, what only one side has, notes, and the thresholds of ``--fail-on``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any

from ..analysis.wording import UNKNOWN as UNKNOWN_FIGURE
from ..analysis.wording import clean, count, figure, short, some
from ..report.text import LIMIT, bullets, escaped, size, table, wrapped
from .changes import (
    FASTER,
    RATE,
    SAME,
    SLOWER,
    TIME,
    UNKNOWN,
    BenchmarkChange,
    Change,
    Comparison,
    LoopChange,
)
from .statistics import CONFIDENCE, RUN_TO_RUN, geometric_mean
from .thresholds import BROKEN, HELD, Outcome, signed
from .work import COMMAND, PACKAGE, brief

FORMATS = ("terminal", "md", "json")
HEADS = ("before", "after", "change", "interval", "")
RATIO_HEADS = ("before", "after", "ratio", "interval", "")
_SHOWN = 4
"""Regions of a loop, and benchmarks in one sentence, that are shown."""
_VERDICTS = {SLOWER: "slower", FASTER: "faster", SAME: "no change", UNKNOWN: "cannot tell"}
_OUTCOMES = {HELD: "held", BROKEN: "FAILED"}


def render(comparisons: Sequence[Comparison], outcomes: Sequence[Outcome], form: str) -> str:
    """The comparisons of the first side with each other one, in one of :data:`FORMATS`."""
    return {"terminal": _terminal, "md": _markdown, "json": _json}[form](comparisons, outcomes)


# --- sentences --------------------------------------------------------------------------------------


def sentences(comparison: Comparison) -> Iterator[str]:
    """A sentence for each loop that is surely slower or faster, with the region that changed most."""
    for benchmark in comparison.benchmarks:
        for loop in benchmark.loops:
            verdict = loop.step.verdict
            if verdict in (SLOWER, FASTER):
                yield f"{_place(benchmark, loop)} is {_change_of_step(loop.step)}{_part_of_change(loop)}"


def _findings(comparison: Comparison) -> list[str]:
    """The sentences on loops that changed, or if there are none, one on why."""
    return [*sentences(comparison)] or [_no_change(comparison)]


def _no_change(comparison: Comparison) -> str:
    if comparison.why_nothing:
        return f"nothing can be compared: {comparison.why_nothing}"
    if not comparison.changes:
        return "there is no training loop that both have"
    if len(comparison.changes) > 1:
        return f"of {count(len(comparison.changes), 'loop')} none is surely slower or faster"
    [loop] = comparison.changes
    if loop.step.verdict == SAME:
        return "the loop is as fast as before"
    why = (
        loop.step.why or "the interval is wide: more runs of each side, or longer ones, would tell"
    )
    return f"cannot tell whether the loop is slower or faster: {why}"


def _change_of_step(step: Change) -> str:
    """``"slower: a step takes 5.2 % more (4.1 to 6.3 %)"``."""
    low, high = sorted(abs(part) for part in step.worse())
    size = abs(step.change) * 100
    interval = f"{low * 100:.1f} to {high * 100:.1f} %"
    word, much = ("slower", "more") if step.verdict == SLOWER else ("faster", "less")
    return f"{word}: a step takes {size:.1f} % {much} ({interval})"


def _part_of_change(loop: LoopChange) -> str:
    """``", 12 ms more in io, 80 % of the change"``, if the largest change of a region has that sign."""
    total = loop.step.after - loop.step.before
    if not loop.regions or not total:
        return ""
    region = loop.regions[0]
    change = region.after - region.before
    if change * total <= 0:
        return ""
    size = f"{short(abs(change))} {'more' if change > 0 else 'less'} in {region.name}"
    part = change / total
    return f", {size}, {part * 100:.0f} % of the change" if part <= 1 else f", {size}"


def _place(benchmark: BenchmarkChange, loop: LoopChange) -> str:
    """The benchmark, and the loop if that has another name."""
    return f"{benchmark.name} ({loop.name})" if loop.name != benchmark.name else benchmark.name


def notes(comparison: Comparison) -> Iterator[str]:
    """What a reader has to know about the intervals."""
    yield (
        f"intervals hold the true change with {CONFIDENCE:.0%}, for all step times together; "
        "what differs in the work above may be the reason for any of it"
    )
    crowded: dict[tuple[tuple[int, int], tuple[int, int], bool], list[str]] = {}
    for benchmark in comparison.benchmarks:
        if any(benchmark.crowded):
            once = 1 in benchmark.repeats
            crowded.setdefault((benchmark.crowded, benchmark.runs, once), []).append(benchmark.name)
    for ((before, after), runs, once), names in crowded.items():
        single = "; a single run then says nothing of a change" if once else ""
        yield (
            f"{some(names, _SHOWN)}: other programs had processors that it could have "
            f"used in {before} of {count(runs[0], 'run')} before and {after} of "
            f"{count(runs[1], 'run')} after{single}"
        )
    if any(1 in each.repeats for each in comparison.benchmarks):
        yield (
            "where a side has one run, or several side by side, runs of one program are taken to differ by "
            f"{RUN_TO_RUN * 100:g} % (standard deviation): three to five runs a side tell more"
        )


def shown_differences(benchmark: BenchmarkChange) -> list[tuple[str, str, str]]:
    """What differs in the work; of packages only the first ones, and how many more."""
    packages = [row for row in benchmark.work if row[0].startswith(PACKAGE)]
    rows = [
        (name, *brief(before, after)) if name == COMMAND else (name, before, after)
        for name, before, after in benchmark.work
        if not name.startswith(PACKAGE)
    ]
    rows += packages[:LIMIT]
    more = len(packages) - LIMIT
    return [*rows, ("packages", f"{more} more differ", "")] if more > 0 else rows


# --- cells ------------------------------------------------------------------------------------------


def cells(change: Change, as_ratio: bool = False) -> tuple[str, ...]:
    """Before, after, change, interval and verdict of one figure; the change may be shown as a ratio."""
    low, high = change.interval
    if as_ratio:
        size = f"{change.ratio.value:.3f}x" if change.ratio else UNKNOWN_FIGURE
        interval = f"{low:.3f} to {high:.3f}"
    else:
        size = f"{signed(change.change)} %" if isfinite(change.change) else "new"
        interval = f"{signed(low - 1)} to {signed(high - 1)} %"
    has_verdict = as_ratio or change.name in (TIME, RATE)
    return (
        amount(change.before, change.unit),
        amount(change.after, change.unit),
        size,
        interval if isfinite(high) and low > 0 and high < 10 else UNKNOWN_FIGURE,
        _VERDICTS[change.verdict] if has_verdict else "",
    )


def amount(value: float, unit: str) -> str:
    """``value`` with its unit."""
    if unit == "s":
        return short(value)
    if unit == "B":
        return size(value)
    return f"{figure(value)} {unit}".rstrip()


def _tables(comparison: Comparison) -> Iterator[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Title, heads and rows of each table.

    Of a single loop all figures are shown; of several the throughput of each, and steps that changed.
    """
    many = len(comparison.changes) > 1
    if many:
        ratios = [
            (_place(benchmark, loop), *cells(loop.throughput, as_ratio=True))
            for benchmark in comparison.benchmarks
            for loop in benchmark.loops
        ]
        yield "throughput", RATIO_HEADS, [*ratios, *_mean_rows(comparison)]
    rows = []
    for benchmark in comparison.benchmarks:
        for loop in benchmark.loops:
            if not many or loop.step.verdict in (SLOWER, FASTER):
                rows.append((_place(benchmark, loop), *cells(loop.step)))
                rows += [("  throughput", *cells(loop.throughput))] if not many else []
                rows += [(f"  {each.name}", *cells(each)) for each in loop.regions[:_SHOWN]]
        if not many or not benchmark.loops:
            name = "" if benchmark.loops else f"{benchmark.name} "
            rows += [(f"{name}{each.name}", *cells(each)) for each in benchmark.totals]
    yield "a step" if comparison.changes else "a run", HEADS, rows


def _mean_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """The row of the geometric mean of all ratios of throughput, if there are several."""
    ratios = [
        loop.throughput.ratio.value
        for loop in comparison.changes
        if loop.throughput.ratio is not None and loop.throughput.ratio.value > 0
    ]
    if len(ratios) < 2:
        return []
    name = f"geometric mean of {len(ratios)}"
    return [(name, "", "", f"{geometric_mean(ratios):.3f}x", "", "")]


def _problems(comparison: Comparison) -> list[str]:
    """What is missing or damaged on either side, as sentences."""
    damage = [
        f"{benchmark.name}, {text}" if len(comparison.benchmarks) > 1 else text
        for benchmark in comparison.benchmarks
        for text in benchmark.damage
    ]
    return [*comparison.problems, *damage]


def _one_sided(comparison: Comparison) -> list[str]:
    """What only one side has, as sentences."""
    several = len(comparison.benchmarks) > 1
    return [
        *(f"{name} is only in {comparison.before} (before)" for name in comparison.only.before),
        *(f"{name} is only in {comparison.after} (after)" for name in comparison.only.after),
        *(
            f"{f'{benchmark.name}: ' if several else ''}{what}{name} is only there {which}"
            for benchmark in comparison.benchmarks
            for what, only in (("the loop ", benchmark.only), ("", benchmark.totals_only))
            for which, names in only._asdict().items()
            for name in names
        ),
    ]


# --- forms ------------------------------------------------------------------------------------------


def _terminal(comparisons: Sequence[Comparison], outcomes: Sequence[Outcome]) -> str:
    lines: list[str] = []
    for comparison in comparisons:
        missing = _problems(comparison)
        if missing:
            lines += ["missing", *bullets(missing), ""]
        lines += wrapped(f"compare: {comparison.before} (before) with {comparison.after} (after)")
        lines.append("")
        for benchmark, work in _differences(comparison):
            title = "differs" if len(comparison.benchmarks) == 1 else f"differs, {benchmark}"
            lines += table(title, ("before", "after"), [tuple(map(clean, row)) for row in work])
        lines += [line for text in _findings(comparison) for line in wrapped(text)]
        lines.append("")
        for title, heads, rows in _tables(comparison):
            lines += table(title, heads, rows, indent=0)
        one_sided = _one_sided(comparison)
        if one_sided:
            lines += ["not compared", *bullets(one_sided), ""]
        lines += ["notes", *bullets(list(notes(comparison))), ""] if comparison.changes else []
    lines += table("fail on", ("where", ""), _outcome_rows(outcomes))
    return "\n".join(lines).rstrip() + "\n"


def _outcome_rows(outcomes: Sequence[Outcome]) -> list[tuple[str, str, str]]:
    """A row for each threshold in each place."""
    words = [_OUTCOMES.get(each.code, "cannot tell") for each in outcomes]
    pairs = zip(outcomes, words, strict=True)
    return [(each.threshold.text, each.where, f"{word}: {each.sentence}") for each, word in pairs]


def _differences(comparison: Comparison) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """What differs in the work, by benchmark. What differs alike in all of them comes first, as ``all``."""
    rows_of = {each.name: shown_differences(each) for each in comparison.benchmarks}
    first = next(iter(rows_of.values()), [])
    shared = [row for row in first if all(row in rows for rows in rows_of.values())]
    if shared:
        yield ("all" if len(rows_of) > 1 else next(iter(rows_of))), shared
    for name, rows in rows_of.items():
        own = [row for row in rows if row not in shared]
        if own:
            yield name, own


def _markdown(comparisons: Sequence[Comparison], outcomes: Sequence[Outcome]) -> str:
    lines: list[str] = []
    for comparison in comparisons:
        lines += [f"## {escaped(comparison.before)} → {escaped(comparison.after)}", ""]
        lines += [
            line for text in _problems(comparison) for line in (f"> missing: {escaped(text)}", "")
        ]
        lines += [f"- {escaped(text)}" for text in _findings(comparison)]
        lines.append("")
        for title, heads, rows in _tables(comparison):
            indented = [(_indented(name), *row) for name, *row in rows]
            lines += _md_table((title, *heads[:-1], "verdict"), indented)
        for benchmark, work in _differences(comparison):
            lines += ["<details><summary>What differs in the work of "
                      f"{escaped(benchmark)}</summary>", "",
                      *_md_table(("", "before", "after"), [tuple(map(escaped, row)) for row in work]),
                      "</details>", ""]  # fmt: skip
        lines += [f"- not compared: {escaped(text)}" for text in _one_sided(comparison)]
        lines += (
            ["", *(f"> {escaped(text)}" for text in notes(comparison)), ""]
            if comparison.changes
            else [""]
        )
    judged = [tuple(map(escaped, row)) for row in _outcome_rows(outcomes)]
    lines += _md_table(("fail on", "where", ""), judged)
    return "\n".join(lines).rstrip() + "\n"


def _indented(name: str) -> str:
    """``name`` as a cell, indented by wide blanks: Markdown drops others at its beginning."""
    bare = name.lstrip()
    return "\u2003" * ((len(name) - len(bare)) // 2) + escaped(bare)


def _md_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return []
    return [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads), *lines, ""]


def _json(comparisons: Sequence[Comparison], outcomes: Sequence[Outcome]) -> str:
    data = {
        "confidence": CONFIDENCE,
        "comparisons": [_comparison_data(comparison) for comparison in comparisons],
        "thresholds": [
            {
                "threshold": each.threshold.text,
                "where": each.where,
                "exit": each.code,
                "sentence": each.sentence,
            }
            for each in outcomes
        ],
    }
    return json.dumps(data, indent=1) + "\n"


def _comparison_data(comparison: Comparison) -> dict[str, Any]:
    return {
        "missing": _problems(comparison),
        "before": comparison.before,
        "after": comparison.after,
        "nothing": comparison.why_nothing or None,
        "sentences": list(sentences(comparison)),
        "not_compared": _one_sided(comparison),
        "benchmarks": [
            {
                "name": each.name,
                "runs": list(each.runs),
                "differs": [
                    dict(zip(("what", "before", "after"), row, strict=True)) for row in each.work
                ],
                "loops": [
                    {
                        "name": loop.name,
                        **{c.name: _change_data(c) for c in (loop.step, loop.throughput)},
                        "regions": {c.name: _change_data(c) for c in loop.regions},
                    }
                    for loop in each.loops
                ],
                "totals": {c.name: _change_data(c) for c in each.totals},
            }
            for each in comparison.benchmarks
        ],
    }


def _change_data(change: Change) -> dict[str, Any]:
    low, high = change.interval
    return {
        "unit": change.unit,
        "before": change.before,
        "after": change.after,
        "ratio": change.ratio.value if change.ratio else None,
        "low": low if isfinite(high) else None,
        "high": high if isfinite(high) else None,
        # A recorded value has no unit, and it is not known whether more of it is better.
        "verdict": change.verdict if change.unit else None,
        "why": change.why or None,
    }
