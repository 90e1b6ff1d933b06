"""A comparison as text for a terminal, as Markdown for a pull request, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any

from ..analysis.wording import UNKNOWN as UNKNOWN_FIGURE
from ..analysis.wording import clean, count, figure, short, some
from ..report.text import LIMIT, bullets, escaped, table, wrapped
from .comparison import (
    FASTER,
    SAME,
    SLOWER,
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
"""Regions of a loop, and benchmarks of one sentence, that are shown."""
_WORDS = {SLOWER: "slower", FASTER: "faster", SAME: "no change", UNKNOWN: "cannot tell"}
_JUDGED = {HELD: "held", BROKEN: "FAILED"}


def render(found: Sequence[Comparison], outcomes: Sequence[Outcome], form: str) -> str:
    """``found``: each side after the first beside the first; ``form`` is one of :data:`FORMATS`."""
    return {"terminal": _terminal, "md": _markdown, "json": _json}[form](found, outcomes)


# --- sentences --------------------------------------------------------------------------------------


def sentences(found: Comparison) -> Iterator[str]:
    """What changed, of which loop, and where the time goes."""
    for benchmark in found.benchmarks:
        for loop in benchmark.loops:
            verdict = loop.step.verdict
            if verdict in (SLOWER, FASTER):
                yield f"{_where(benchmark, loop)} is {_by(loop.step)}{_because(loop)}"


def _nothing(found: Comparison) -> str:
    if found.nothing:
        return f"nothing can be compared: {found.nothing}"
    if not found.changes:
        return "there is no training loop that both have"
    if len(found.changes) > 1:
        return f"of {count(len(found.changes), 'loop')} none is surely slower or faster"
    [only] = found.changes
    if only.step.verdict == SAME:
        return "the loop is as fast as before"
    why = (
        only.step.why or "the interval is wide: more runs of each side, or longer ones, would tell"
    )
    return f"cannot tell whether the loop is slower or faster: {why}"


def _by(step: Change) -> str:
    slower = step.verdict == SLOWER
    low, high = sorted(abs(part) for part in step.worse())
    size = abs(step.change) * 100
    sure = f"{low * 100:.1f} to {high * 100:.1f} %"
    word, much = ("slower", "more") if slower else ("faster", "less")
    return f"{word}: a step takes {size:.1f} % {much} ({sure})"


def _because(loop: LoopChange) -> str:
    total = loop.step.after - loop.step.before
    if not loop.regions or not total:
        return ""
    most = loop.regions[0]
    moved = most.after - most.before
    if moved * total <= 0:
        return ""
    size = f"{short(abs(moved))} {'more' if moved > 0 else 'less'} in {most.name}"
    part = moved / total
    return f", {size}, {part * 100:.0f} % of the change" if part <= 1 else f", {size}"


def _where(benchmark: BenchmarkChange, loop: LoopChange) -> str:
    return f"{benchmark.name} ({loop.name})" if loop.name != benchmark.name else benchmark.name


def notes(found: Comparison) -> Iterator[str]:
    """What a reader has to know of the intervals."""
    yield (
        f"intervals hold the true change with {CONFIDENCE:.0%}, for all step times together; "
        "what differs in the work above may be the reason for any of it"
    )
    crowded: dict[tuple[tuple[int, int], tuple[int, int]], list[str]] = {}
    for each in found.benchmarks:
        if any(each.crowded):
            crowded.setdefault((each.crowded, each.runs), []).append(each.name)
    for ((one, two), runs), names in crowded.items():
        alone = "; a single run then says nothing of a change" if 1 in runs else ""
        yield (
            f"{some(names, _SHOWN)}: other programs had processors that it could have "
            f"used in {one} of {count(runs[0], 'run')} before and {two} of {count(runs[1], 'run')} "
            f"after{alone}"
        )
    if any(1 in each.runs for each in found.benchmarks):
        yield (
            "where a side has one run, runs of one program are taken to differ by "
            f"{RUN_TO_RUN * 100:g} % (standard deviation): three to five runs a side tell more"
        )


def differing(benchmark: BenchmarkChange) -> list[tuple[str, str, str]]:
    """What differs in the work; of the packages the first ones, and how many more."""
    packages = [each for each in benchmark.work if each[0].startswith(PACKAGE)]
    found = [
        (name, *brief(one, two)) if name == COMMAND else (name, one, two)
        for name, one, two in benchmark.work
        if not name.startswith(PACKAGE)
    ]
    found += packages[:LIMIT]
    more = len(packages) - LIMIT
    return [*found, ("packages", f"{more} more differ", "")] if more > 0 else found


# --- cells ------------------------------------------------------------------------------------------


def cells(change: Change, as_ratio: bool = False) -> tuple[str, ...]:
    """Before, after, change, interval and verdict of one figure; ``as_ratio``: that of both sides."""
    low, high = change.interval
    if as_ratio:
        size = f"{change.ratio.value:.3f}x" if change.ratio else UNKNOWN_FIGURE
        sure = f"{low:.3f} to {high:.3f}"
    else:
        size = f"{signed(change.change)} %" if isfinite(change.change) else "new"
        sure = f"{signed(low - 1)} to {signed(high - 1)} %"
    judged = as_ratio or change.name in ("step_time", "throughput")
    return (
        amount(change.before, change.unit),
        amount(change.after, change.unit),
        size,
        sure if isfinite(high) and low > 0 and high < 10 else UNKNOWN_FIGURE,
        _WORDS[change.verdict] if judged else "",
    )


def amount(value: float, unit: str) -> str:
    """``value`` with its unit."""
    if unit == "s":
        return short(value)
    if unit == "B":
        return f"{value / 1e6:.1f} MB" if value < 1e9 else f"{value / 1e9:.2f} GB"
    return f"{figure(value)} {unit}".rstrip()


def _tables(found: Comparison) -> Iterator[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Title, heads and rows: of one loop all its figures, of several the speed of each as a ratio."""
    many = len(found.changes) > 1
    if many:
        ratios = [
            (_where(benchmark, loop), *cells(loop.throughput, as_ratio=True))
            for benchmark in found.benchmarks
            for loop in benchmark.loops
        ]
        yield "throughput", RATIO_HEADS, [*ratios, *_mean_row(found)]
    rows = []
    for benchmark in found.benchmarks:
        for loop in benchmark.loops:
            if not many or loop.step.verdict in (SLOWER, FASTER):
                rows.append((_where(benchmark, loop), *cells(loop.step)))
                rows += [("  throughput", *cells(loop.throughput))] if not many else []
                rows += [(f"  {each.name}", *cells(each)) for each in loop.regions[:_SHOWN]]
        if not many or not benchmark.loops:
            name = "" if benchmark.loops else f"{benchmark.name} "
            rows += [(f"{name}{each.name}", *cells(each)) for each in benchmark.totals]
    yield "a step" if found.changes else "a run", HEADS, rows


def _mean_row(found: Comparison) -> list[tuple[str, ...]]:
    ratios = [
        loop.throughput.ratio.value
        for loop in found.changes
        if loop.throughput.ratio is not None and loop.throughput.ratio.value > 0
    ]
    if len(ratios) < 2:
        return []
    name = f"geometric mean of {len(ratios)}"
    return [(name, "", "", f"{geometric_mean(ratios):.3f}x", "", "")]


def _missing(found: Comparison) -> list[str]:
    damage = [
        f"{each.name}, {text}" if len(found.benchmarks) > 1 else text
        for each in found.benchmarks
        for text in each.damage
    ]
    return [*found.problems, *damage]


def _alone(found: Comparison) -> list[str]:
    """What only one side has, as sentences."""
    loops = (("the loop ", each.only) for each in found.benchmarks)
    totals = (("", each.totals_only) for each in found.benchmarks)
    return [
        *(f"{name} is only in {found.before} (before)" for name in found.only.before),
        *(f"{name} is only in {found.after} (after)" for name in found.only.after),
        *(
            f"{what}{name} is only there {which}"
            for what, only in (*loops, *totals)
            for which, names in only._asdict().items()
            for name in names
        ),
    ]


# --- forms ------------------------------------------------------------------------------------------


def _terminal(found: Sequence[Comparison], outcomes: Sequence[Outcome]) -> str:
    lines: list[str] = []
    for each in found:
        missing = _missing(each)
        if missing:
            lines += ["missing", *bullets(missing), ""]
        lines += wrapped(f"compare: {each.before} (before) with {each.after} (after)")
        lines.append("")
        for benchmark, work in _works(each):
            title = "differs" if len(each.benchmarks) == 1 else f"differs, {benchmark}"
            lines += table(title, ("before", "after"), [tuple(map(clean, row)) for row in work])
        lines += [line for text in [*sentences(each)] or [_nothing(each)] for line in wrapped(text)]
        lines.append("")
        for title, heads, found_rows in _tables(each):
            lines += table(title, heads, found_rows, indent=0)
        alone = _alone(each)
        if alone:
            lines += ["not compared", *bullets(alone), ""]
        lines += ["notes", *bullets(list(notes(each))), ""] if each.changes else []
    lines += table("fail on", ("where", ""), _outcomes(outcomes))
    return "\n".join(lines).rstrip() + "\n"


def _outcomes(outcomes: Sequence[Outcome]) -> list[tuple[str, str, str]]:
    """A row for each threshold in each place."""
    judged = (f"{_JUDGED.get(each.code, 'cannot tell')}: {each.sentence}" for each in outcomes)
    return [(o.threshold.text, o.where, text) for o, text in zip(outcomes, judged, strict=True)]


def _works(found: Comparison) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """What differs by benchmark; what differs in the same way in all of them once, under ``all``."""
    works = {each.name: differing(each) for each in found.benchmarks}
    first = next(iter(works.values()), [])
    shared = [row for row in first if all(row in work for work in works.values())]
    if shared:
        yield ("all" if len(works) > 1 else next(iter(works))), shared
    for name, work in works.items():
        own = [row for row in work if row not in shared]
        if own:
            yield name, own


def _markdown(found: Sequence[Comparison], outcomes: Sequence[Outcome]) -> str:
    lines: list[str] = []
    for each in found:
        lines += [f"## {escaped(each.before)} → {escaped(each.after)}", ""]
        lines += [line for text in _missing(each) for line in (f"> missing: {escaped(text)}", "")]
        lines += [f"- {escaped(text)}" for text in [*sentences(each)] or [_nothing(each)]]
        lines.append("")
        for title, heads, found_rows in _tables(each):
            rows = [(_indented(name), *row) for name, *row in found_rows]
            lines += _md_table((title, *heads[:-1], "verdict"), rows)
        for benchmark, work in _works(each):
            lines += ["<details><summary>What differs in the work of "
                      f"{escaped(benchmark)}</summary>", "",
                      *_md_table(("", "before", "after"), [tuple(map(escaped, row)) for row in work]),
                      "</details>", ""]  # fmt: skip
        lines += [f"- not compared: {escaped(text)}" for text in _alone(each)]
        lines += ["", *(f"> {escaped(text)}" for text in notes(each)), ""] if each.changes else [""]
    judged = [tuple(map(escaped, row)) for row in _outcomes(outcomes)]
    lines += _md_table(("fail on", "where", ""), judged)
    return "\n".join(lines).rstrip() + "\n"


def _indented(name: str) -> str:
    """Markdown takes blanks at the beginning of a cell away."""
    bare = name.lstrip()
    return "\u2003" * ((len(name) - len(bare)) // 2) + escaped(bare)


def _md_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    made = [f"| {' | '.join(row)} |" for row in rows]
    if not made:
        return []
    return [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads), *made, ""]


def _json(found: Sequence[Comparison], outcomes: Sequence[Outcome]) -> str:
    data = {
        "confidence": CONFIDENCE,
        "comparisons": [_as_data(each) for each in found],
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


def _as_data(found: Comparison) -> dict[str, Any]:
    return {
        "missing": _missing(found),
        "before": found.before,
        "after": found.after,
        "nothing": found.nothing or None,
        "sentences": list(sentences(found)),
        "not_compared": _alone(found),
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
                        **{c.name: _figures(c) for c in (loop.step, loop.throughput)},
                        "regions": {c.name: _figures(c) for c in loop.regions},
                    }
                    for loop in each.loops
                ],
                "totals": {c.name: _figures(c) for c in each.totals},
            }
            for each in found.benchmarks
        ],
    }


def _figures(change: Change) -> dict[str, Any]:
    low, high = change.interval
    return {
        "unit": change.unit,
        "before": change.before,
        "after": change.after,
        "ratio": change.ratio.value if change.ratio else None,
        "low": low if isfinite(high) else None,
        "high": high if isfinite(high) else None,
        # Whether more of a recorded value is better is not known: it has no unit.
        "verdict": change.verdict if change.unit else None,
        "why": change.why or None,
    }
