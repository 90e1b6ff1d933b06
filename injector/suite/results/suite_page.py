"""The report of a suite as a page: its result and what failed first, then every figure.

:func:`of_suite` returns what the template ``suite.html`` shows, and what ``suite.js`` draws. Each table is a
key, a title, sentences that stand above it, and a :class:`.Table` (a :data:`TitledTable`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...analysis.statistics import percentile
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
"""What a column holds, beside the kinds that a run's page has: a name with a link, the drawing of a
:class:`Spread`, why something failed, a figure with its deviation."""
USED = {"memory": "suite peak_memory", "power": "query devices.power", "energy": "suite energy"}
"""The heads of columns for what a run used, and the metrics in whose units these are shown."""
APART = 0.02
"""A device's figure is marked if it deviates from the median by this fraction or more."""
WIDTH, WIDEST = 120.0, 0.5
"""The width of the drawing of a spread, and the fraction of the median that it shows at most on each side."""

Links = Mapping[str, str]
"""The address of the page of each process's run, by the key of the process."""
TitledTable = tuple[str, str, list[str], Table]


class Spread(NamedTuple):
    """The rates of a benchmark as a box plot: positions from the left of the drawing."""

    low: float
    first: float
    median: float
    third: float
    high: float
    sort: float
    """What the column is sorted by: the distance from low to high, as a fraction of the median."""
    text: str
    """The figures in words, for the title of the drawing."""


class FailureNote(NamedTuple):
    """What is wrong with a benchmark, and in which runs."""

    benchmark: str
    sentence: str
    runs: list[tuple[str, str]]
    """The key of each, and the address of its page; empty if it has none."""
    lines: Sequence[str]
    """The last lines of a traceback."""


def of_suite(
    suite: SuiteSummary,
    links: Links,
    series: TimeSeries,
    rounding: str = EXACT,
    scaled: Sequence[Family] | None = None,
    ordered: Exploration | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the page of ``suite`` says, and what it draws; ``series`` are the plots over time.

    ``scaled`` is how it scales, by default what its tags say (:func:`.scaling.families`). ``ordered`` adds a
    table of its benchmarks by one figure. Raises UserError.
    """
    whole = total(suite)
    scaling = families(suite, rounding) if scaled is None else scaled
    severities = (("failures", "Failures", FAILURE), ("warnings", "Warnings", WARNING))
    findings = [
        (key, title, list(_findings(suite, severity, links))) for key, title, severity in severities
    ]
    content = {
        "of": "suite",
        "title": f"suite {clean(suite.name)}",
        "heading": _heading(suite),
        "missing": suite.missing,
        "total": whole,
        "verdict": cells.verdict(whole),
        "score": cells.score(whole),
        "tiles": _tiles(suite),
        "findings": [finding for finding in findings if finding[-1]],
        "tables": [
            *([_ordered(ordered)] if ordered else []),
            *_searches(suite),
            _benchmarks(suite, links),
            _devices(suite),
            _runs(suite, links),
        ],
        "scaling": [(cells.title(family), _scaled(family, rounding)) for family in scaling],
        "left_out": [skipped for skipped in suite.left_out if not skipped.failure],
        "notes": suite.notes,
        "environment": _environment(suite),
    }
    return content, _drawn(series, scaling)


def _drawn(series: Mapping[str, Any], scaling: Sequence[Family]) -> dict[str, Any]:
    """What the page draws: curves over time, and speedups over devices."""
    ends = [line[-1][0] for lines in series.values() for line in lines.values() if line]
    return {
        "seconds": max(ends, default=0.0),
        "series": series,
        "scaling": [
            {
                "over": family.over,
                "devices": [column.number for column in family.columns],
                "speedup": [column.speedup for column in family.columns],
            }
            for family in scaling
        ],
        "colors": {},
    }


def _heading(suite: SuiteSummary) -> list[str]:
    """The facts below the title, as far as they are known: the file, when, how long, host and devices."""
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
    """The figures that stand large on top, each with its title."""
    whole = total(suite)
    energies = [process.record.energy for process in suite.processes if process.record]
    joules = sum(energy for energy in energies if energy is not None)
    unit, factor = shown_at("suite energy")
    tiles = [
        ("score", UNKNOWN if whole.score is None else figure(whole.score)),
        ("benchmarks", str(len(suite.benchmarks))),
        ("runs", str(whole.n)),
        ("failed", str(whole.fail)),
    ]
    if joules:
        tiles.append(("energy of devices", f"{figure(joules * factor)} {unit}"))
    return tiles


def _findings(suite: SuiteSummary, severity: str, links: Links) -> Iterator[FailureNote]:
    for benchmark in suite.benchmarks:
        for finding in cells.shared_findings(benchmark, severity):
            runs = [(key, links.get(key, "")) for key in finding.keys]
            yield FailureNote(benchmark.name, finding.sentence, runs, finding.lines)


def _searches(suite: SuiteSummary) -> Iterator[TitledTable]:
    """A table of the trials of each search, and one that compares the studies of the programs."""
    for at, (title, best, heads, trials) in enumerate(searches.tables(suite)):
        kinds = (NUMBER, TEXT, *[NUMBER] * (len(heads) - 3), TEXT)
        table = Table(heads, kinds, [tuple(map(clean, row)) for row in trials])
        yield f"search{at}", clean(title), [f"best: {clean(best)}"], table
    if compared := searches.program_studies(suite):
        rows: list[tuple[str | float, ...]] = [*map(tuple, searches.compared_cells(compared))]
        kinds = (TEXT, TEXT, *[NUMBER] * (len(searches.COMPARED) - 1))
        yield "studies", "Studies", [], Table(("benchmark", *searches.COMPARED), kinds, rows)


# --- tables -----------------------------------------------------------------------------------------


def _benchmarks(suite: SuiteSummary, links: Links) -> TitledTable:
    """The rows of the report, those of failed benchmarks first, with the spread of each one's rates."""
    benchmark_rows = list(zip(suite.benchmarks, rows(suite), strict=True))
    benchmark_rows.sort(key=lambda pair: not pair[1].fail)
    # All spreads have one scale, so that they can be compared.
    reach = _reach(benchmark for benchmark, _ in benchmark_rows)
    figures: list[tuple[Any, ...]] = []
    at = list(cells.COLUMNS).index("std") + 1
    for benchmark, row in benchmark_rows:
        failures = cells.shared_findings(benchmark, FAILURE) if row.fail else ()
        failure = next((finding.sentence for finding in failures), "")
        only = benchmark.processes if len(benchmark.processes) == 1 else ()
        link = next((links.get(process.key, "") for process in only), "")
        shown = cells.of_row(row)
        spread = _spread(benchmark.rates, reach) or ""
        figures.append(((clean(row.benchmark), link), *shown[:at], spread, *shown[at:], failure))
    heads = (
        "benchmark",
        *cells.HEADS[:at],
        f"rates ±{100 * reach:.0f} %",
        *cells.HEADS[at:],
        "failure",
    )
    kinds = (LINK, *[NUMBER] * at, SPREAD, *[NUMBER] * (len(cells.HEADS) - at), FAILED)
    texts = cells.units(row for _, row in benchmark_rows)
    return "benchmarks", "Benchmarks", texts, Table(heads, kinds, figures)


def _ordered(exploration: Exploration) -> TitledTable:
    heads, body = exploration_cells(exploration)
    kinds = (TEXT, NUMBER, *[TEXT] * len(exploration.names), NUMBER)
    table = Table(heads, kinds, body)
    return "ordered", f"Benchmarks by {clean(exploration.target)}", [], table


def _reach(benchmarks: Iterable[BenchmarkSummary]) -> float:
    """The fraction of the median that the drawings of all spreads show on each side."""
    deviations = [0.01]
    for benchmark in benchmarks:
        kept = trimmed(benchmark.rates)
        if kept and (median := percentile(kept, 0.5)):
            deviations += [(kept[-1] - median) / median, (median - kept[0]) / median]
    return min(max(deviations), WIDEST)


def _spread(rates: Sequence[float], reach: float) -> Spread | None:
    """The spread of ``rates`` without the smallest and the largest, as in a score; None if too few remain."""
    kept = trimmed(rates)
    median = percentile(kept, 0.5) if kept else 0.0
    if len(kept) < 2 or not median:
        return None

    def position(rate: float) -> float:
        deviation = max(-reach, min(reach, rate / median - 1))
        # A margin of 2 on each side keeps the ends of lines visible.
        return round(WIDTH / 2 + deviation / reach * (WIDTH / 2 - 2), 1)

    low, first, third, high = kept[0], percentile(kept, 0.25), percentile(kept, 0.75), kept[-1]
    text = (
        f"half of the rates from {figure(first)} to {figure(third)}, "
        f"all from {figure(low)} to {figure(high)}, median {figure(median)}"
    )
    distance = round((high - low) / median, 6)
    drawn = (position(low), position(first), position(median), position(third), position(high))
    return Spread(*drawn, distance, text)


def _devices(suite: SuiteSummary) -> TitledTable:
    """The perf of each device that works beside others, and how far it is from the median of these."""

    def by_number(slot: str) -> tuple[str, int]:
        name = slot.rstrip("0123456789")
        return name, int(slot[len(name) :] or 0)

    slots = sorted(
        {slot for benchmark in suite.benchmarks for slot in benchmark.by_slot}, key=by_number
    )
    figures: list[tuple[Any, ...]] = []
    for benchmark in suite.benchmarks:
        perfs = {slot: perf(rates, suite.ddof) for slot, rates in benchmark.by_slot.items()}
        means = {slot: one.mean for slot, one in perfs.items() if one}
        if len(means) < 2:
            continue
        median = percentile(sorted(means.values()), 0.5)
        row: list[Any] = [clean(benchmark.name)]
        for slot in slots:
            mean = means.get(slot)
            deviation = mean / median - 1 if mean is not None and median else 0.0
            marked = deviation if abs(deviation) >= APART else 0.0
            row.append("" if mean is None else (figure(mean), marked))
        figures.append(tuple(row))
    heads, kinds = ("benchmark", *slots), (TEXT, *[HEAT] * len(slots))
    texts = [
        "perf of each of the processes that work side by side; what is "
        f"{percent(APART)} or more from their median is marked"
    ]
    return "slots", "Device by device", texts, Table(heads, kinds, figures)


def _runs(suite: SuiteSummary, links: Links) -> TitledTable:
    """Every process, those that failed first."""
    processes = sorted(suite.processes, key=lambda process: not process.failed)
    figures = [_run(process, suite.ddof, links.get(process.key, "")) for process in processes]
    used = (f"{name}, {shown_at(metric)[0]}" for name, metric in USED.items())
    heads = ("run", "devices", "perf", "std %", "load", "peak load", *used, "took", "failure")
    kinds = (LINK, TEXT, *[NUMBER] * 8, FAILED)
    return "runs", "Runs", [], Table(heads, kinds, figures)


def _run(process: ProcessSummary, ddof: int, link: str) -> tuple[Any, ...]:
    """The row of one process; what is not known is empty."""
    record, speed = process.record or RunRecord(), perf(process.rates, ddof)
    loads = [device.load for device in record.devices if device.load is not None]
    peaks = [device.peak_load for device in record.devices if device.peak_load is not None]
    memory, power, energy, took = record.memory, record.power, record.energy, record.duration
    failure = next((finding.sentence for finding in process.findings if finding.fails), "")
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
        clean(failure or (process.reason if process.failed else "")),
    )


def _scaled(family: Family, rounding: str) -> Table:
    body: list[tuple[str | float, ...]] = [
        tuple(cells.of_scaled(column, rounding, family)) for column in family.columns
    ]
    heads = cells.scaling_heads(family)
    return Table(heads, (NUMBER,) * len(heads), body)
