"""The report of a suite as a page: its result and what failed first, then every figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...analysis.recorded import percentile
from ...analysis.timeseries import TimeSeries
from ...metrics import shown_at
from ...report.tables import NUMBER, TEXT, Table
from ...report.text import UNKNOWN, clean, duration, figure, percent
from ..config.rules import FAILURE, WARNING
from . import cells, searches
from .run_record import RunRecord
from .scaling import EXACT, Family, families
from .scores import perf, rows, total, trimmed
from .suite_report import Exploration, exploration_cells
from .suite_summary import BenchmarkSummary, ProcessSummary, SuiteSummary

TEMPLATE, SCRIPTS = "suite.html", ("plots.js", "suite.js", "page.js")
LINK, SPREAD, FAILED, HEAT = "link", "spread", "failed", "heat"
"""What a column holds, beside what columns of a run's page do."""
USED = {"memory": "suite peak_memory", "power": "query devices.power", "energy": "suite energy"}
"""What a run used: the heads of columns, and the metrics that these are of."""
APART = 0.02
"""From what part of the median on a device's figure is marked."""
WIDTH, WIDEST = 120.0, 0.5
"""Of the drawing of a spread, and what part of the median it shows at most on either side."""

Links = Mapping[str, str]
"""By the key of a process, the address of the page of its run."""


class Spread(NamedTuple):
    """The rates of a benchmark as they are drawn, from the left of the drawing."""

    low: float
    first: float
    median: float
    third: float
    high: float
    sort: float
    text: str


class FailureNote(NamedTuple):
    """What is wrong with a benchmark, and in which runs."""

    benchmark: str
    sentence: str
    runs: list[tuple[str, str]]
    """Name, and address of the page, where there is one."""
    lines: Sequence[str]


def of_suite(
    suite: SuiteSummary,
    links: Links,
    series: TimeSeries,
    rounding: str = EXACT,
    scaled: Sequence[Family] | None = None,
    ordered: Exploration | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the page of ``suite`` says, and what it draws; ``series``: over its time.

    ``scaled``: how it scales, where that is to be something else than all that is known; ``ordered``: its
    benchmarks by one figure, as a table more. Raises UserError.
    """
    whole, found = total(suite), families(suite, rounding) if scaled is None else scaled
    content = {
        "of": "suite",
        "title": f"suite {clean(suite.name)}",
        "heading": _heading(suite),
        "missing": suite.missing,
        "total": whole,
        "verdict": cells.verdict(whole),
        "score": cells.score(whole),
        "tiles": _tiles(suite),
        "findings": [
            (key, title, listed)
            for key, title, severity in (
                ("failures", "Failures", FAILURE),
                ("warnings", "Warnings", WARNING),
            )
            if (listed := list(_findings(suite, severity, links)))
        ],
        "tables": [
            *([_ordered(ordered)] if ordered else []),
            *_searches(suite),
            _benchmarks(suite, links),
            _devices(suite, links),
            _runs(suite, links),
        ],
        "scaling": [(cells.title(each), _scaled(each, rounding)) for each in found],
        "left_out": [each for each in suite.left_out if not each.failure],
        "notes": suite.notes,
        "environment": _environment(suite),
    }
    ends = [line[-1][0] for lines in series.values() for line in lines.values() if line]
    drawn = {
        "seconds": max(ends, default=0.0),
        "series": series,
        "scaling": [
            {
                "over": family.over,
                "devices": [column.number for column in family.columns],
                "speedup": [column.speedup for column in family.columns],
            }
            for family in found
        ],
        "colors": {},
    }
    return content, drawn


def _heading(suite: SuiteSummary) -> list[str]:
    facts = (suite.file or "", cells.began(suite), cells.took(suite), *cells.machine(suite)[:1])
    return [fact for fact in (*facts, *cells.devices(suite)) if fact]


def _environment(suite: SuiteSummary) -> list[tuple[str, list[str]]]:
    packages = [f"{name} {version}" for name, version in cells.packages(suite).items()]
    return [
        ("run folder", [suite.folder]),
        ("suite", [suite.file] if suite.file else []),
        ("machine", cells.machine(suite)),
        ("devices", cells.devices(suite)),
        ("packages", packages),
    ]


def _tiles(suite: SuiteSummary) -> list[tuple[str, str]]:
    whole = total(suite)
    energies = [process.record.energy for process in suite.processes if process.record]
    joules = sum(each for each in energies if each is not None)
    unit, factor = shown_at("suite energy")
    tiles = [
        ("score", UNKNOWN if whole.score is None else figure(whole.score)),
        ("benchmarks", str(len(suite.benchmarks))),
        ("runs", str(whole.n)),
        ("failed", str(whole.fail)),
    ]
    return [
        *tiles,
        *([("energy of devices", f"{figure(joules * factor)} {unit}")] if joules else []),
    ]


def _findings(suite: SuiteSummary, severity: str, links: Links) -> Iterator[FailureNote]:
    for benchmark in suite.benchmarks:
        for each in cells.shared_findings(benchmark, severity):
            runs = [(key, links.get(key, "")) for key in each.keys]
            yield FailureNote(benchmark.name, each.sentence, runs, each.lines)


def _searches(suite: SuiteSummary) -> Iterator[tuple[str, str, list[str], Table]]:
    for at, (title, best, heads, found) in enumerate(searches.tables(suite)):
        kinds = (NUMBER, TEXT, *[NUMBER] * (len(heads) - 3), TEXT)
        table = Table(tuple(heads), kinds, [tuple(map(clean, row)) for row in found])
        yield f"search{at}", clean(title), [f"best: {clean(best)}"], table
    if compared := searches.program_studies(suite):
        rows: list[tuple[str | float, ...]] = [*map(tuple, searches.compared_cells(compared))]
        kinds = (TEXT, TEXT, *[NUMBER] * (len(searches.COMPARED) - 1))
        yield "studies", "Studies", [], Table(("benchmark", *searches.COMPARED), kinds, rows)


# --- tables -----------------------------------------------------------------------------------------


def _benchmarks(suite: SuiteSummary, links: Links) -> tuple[str, str, list[str], Table]:
    """Of each benchmark the row of the report, those that failed first, with the spread of its rates."""
    found = list(zip(suite.benchmarks, rows(suite), strict=True))
    found.sort(key=lambda each: not each[1].fail)
    reach = _reach(benchmark for benchmark, _ in found)
    figures: list[tuple[Any, ...]] = []
    at = list(cells.COLUMNS).index("std") + 1
    for benchmark, row in found:
        failures = cells.shared_findings(benchmark, FAILURE) if row.fail else ()
        result = next((each.sentence for each in failures), "")
        only = benchmark.processes if len(benchmark.processes) == 1 else ()
        link = next((links.get(each.key, "") for each in only), "")
        shown = cells.of_row(row)
        spread = _spread(benchmark.rates, reach) or ""
        figures.append(((clean(row.benchmark), link), *shown[:at], spread, *shown[at:], result))
    heads = (
        "benchmark",
        *cells.HEADS[:at],
        f"rates ±{100 * reach:.0f} %",
        *cells.HEADS[at:],
        "failure",
    )
    kinds = (LINK, *[NUMBER] * at, SPREAD, *[NUMBER] * (len(cells.HEADS) - at), FAILED)
    texts = cells.units(row for _, row in found)
    return "benchmarks", "Benchmarks", texts, Table(heads, kinds, figures)


def _ordered(found: Exploration) -> tuple[str, str, list[str], Table]:
    """The benchmarks by one figure."""
    heads, cells_of = exploration_cells(found)
    kinds = (TEXT, NUMBER, *[TEXT] * len(found.names), NUMBER)
    table = Table(heads, kinds, [tuple(row) for row in cells_of])
    return "ordered", f"Benchmarks by {clean(found.target)}", [], table


def _reach(benchmarks: Iterable[BenchmarkSummary]) -> float:
    """What part of the median all drawings of spreads show on either side."""
    parts = [0.01]
    for benchmark in benchmarks:
        kept = trimmed(benchmark.rates)
        if kept and (middle := percentile(kept, 0.5)):
            parts += [(kept[-1] - middle) / middle, (middle - kept[0]) / middle]
    return min(max(parts), WIDEST)


def _spread(rates: Sequence[float], reach: float) -> Spread | None:
    """Of ``rates`` without the smallest and the largest, as a score has them."""
    kept = trimmed(rates)
    middle = percentile(kept, 0.5) if kept else 0.0
    if len(kept) < 2 or not middle:
        return None

    def place(value: float) -> float:
        part = max(-reach, min(reach, value / middle - 1))
        return round(WIDTH / 2 + part / reach * (WIDTH / 2 - 2), 1)

    low, first, third, high = kept[0], percentile(kept, 0.25), percentile(kept, 0.75), kept[-1]
    text = (
        f"half of the rates from {figure(first)} to {figure(third)}, "
        f"all from {figure(low)} to {figure(high)}, median {figure(middle)}"
    )
    width = round((high - low) / middle, 6)
    drawn = (place(low), place(first), place(middle), place(third), place(high))
    return Spread(*drawn, width, text)


def _devices(suite: SuiteSummary, links: Links) -> tuple[str, str, list[str], Table]:
    """The perf of each device that works beside others, with how far it is from the median of them."""

    def numbered(slot: str) -> tuple[str, int]:
        name = slot.rstrip("0123456789")
        return name, int(slot[len(name) :] or 0)

    slots = sorted({slot for each in suite.benchmarks for slot in each.by_slot}, key=numbered)
    figures: list[tuple[Any, ...]] = []
    for benchmark in suite.benchmarks:
        by_slot = {slot: perf(rates, suite.ddof) for slot, rates in benchmark.by_slot.items()}
        means = {slot: each.mean for slot, each in by_slot.items() if each}
        if len(means) < 2:
            continue
        middle = percentile(sorted(means.values()), 0.5)
        row: list[Any] = [clean(benchmark.name)]
        for slot in slots:
            mean = means.get(slot)
            apart = mean / middle - 1 if mean is not None and middle else 0.0
            marked = apart if abs(apart) >= APART else 0.0
            row.append("" if mean is None else (figure(mean), marked))
        figures.append(tuple(row))
    heads, kinds = ("benchmark", *slots), (TEXT, *[HEAT] * len(slots))
    texts = [
        "perf of each of the processes that work side by side; what is "
        f"{percent(APART)} or more from their median is marked"
    ]
    return "slots", "Device by device", texts, Table(heads, kinds, figures)


def _runs(suite: SuiteSummary, links: Links) -> tuple[str, str, list[str], Table]:
    """Every process, those that failed first."""
    found = sorted(suite.processes, key=lambda each: not each.failed)
    figures = [_run(each, suite.ddof, links.get(each.key, "")) for each in found]
    used = (f"{name}, {shown_at(place)[0]}" for name, place in USED.items())
    heads = ("run", "devices", "perf", "std %", "load", "peak load", *used, "took", "failure")
    kinds = (LINK, TEXT, *[NUMBER] * 8, FAILED)
    return "runs", "Runs", [], Table(heads, kinds, figures)


def _run(process: ProcessSummary, ddof: int, link: str) -> tuple[Any, ...]:
    record, speed = process.record or RunRecord(), perf(process.rates, ddof)
    loads = [each.load for each in record.devices if each.load is not None]
    peaks = [each.peak_load for each in record.devices if each.peak_load is not None]
    memory, power, energy, took = record.memory, record.power, record.energy, record.duration
    failed = next((each.sentence for each in process.findings if each.fails), "")
    return (
        (clean(process.key), link),
        ", ".join(process.devices),
        figure(speed.mean) if speed else "",
        f"{100 * speed.std_share:.2f}" if speed and speed.std_share is not None else "",
        percent(sum(loads) / len(loads)) if loads else "",
        percent(max(peaks)) if peaks else "",
        "" if memory is None else f"{memory * shown_at(USED['memory'])[1]:.2f}",
        "" if power is None else figure(power),
        "" if energy is None else figure(energy * shown_at(USED["energy"])[1]),
        "" if took is None else duration(took),
        clean(failed or ("" if not process.failed else process.reason)),
    )


def _scaled(family: Family, rounding: str) -> Table:
    found: list[tuple[str | float, ...]] = [
        tuple(cells.of_scaled(column, rounding, family)) for column in family.columns
    ]
    heads = cells.scaling_heads(family)
    return Table(heads, (NUMBER,) * len(heads), found)
