"""Tables of what probes gave: rates, losses, other values, regions timed one by one."""

from __future__ import annotations

from typing import Any

from ..analysis.missing import missing_of
from ..analysis.rates import Rate, Series, Statistics, Summary, number
from ..store.folder import Run
from .text import LIMIT, clean, duration, figure, fit, limited, short, table, wrapped


def rates(run: Run, summary: Summary) -> list[str]:
    """The rates that probes gave, of all processes and of each."""
    rows: list[list[str]] = []
    for rate in summary.rates:
        odd = f"  ({rate.odd} not finite)" if rate.odd else ""
        rows.append([_named(rate), *_cells(rate.overall), rate.unit + odd])
        for index, each in rate.by_process.items():
            rows.append([f"  {_who(run, index)}", *_cells(each), rate.unit])
    return table("rates", ["n", "mean", "median", "p95", "std", ""], rows)


def _named(what: Rate | Series) -> str:
    return "  ".join(part for part in (what.bench, what.task) if part) or "(no task)"


def _cells(found: Statistics) -> list[str]:
    return [str(found.n), *map(figure, (found.mean, found.median, found.p95, found.std))]


def _who(run: Run, index: int) -> str:
    processes = run.info.get("processes") or []
    process = processes[index] if 0 <= index < len(processes) else {}
    if process.get("rank") is not None:
        return f"rank {process['rank']}"
    return f"process {process.get('pid', index)}"


def no_rates(run: Run, summary: Summary) -> list[str]:
    """Say why there are no rates, as far as it is known."""
    info = run.info
    if missing_of(run):
        return ["what was trained is not known: parts of the record are missing", ""]
    if info and not info.get("voirfiles"):
        return [*wrapped(f"{_not_trained(info)} (see `inject functions`)", hang=2), ""]
    if info and not info.get("processes"):
        why = "no Python process of the program recorded anything"
    elif info and not info.get("probes") and not info.get("misses"):
        why = "nothing asked for any: no probe was set"
    elif info and not any(probe["fired"] for probe in info.get("probes") or ()):
        why = "no probe fired"
    elif summary.events.get("data"):
        why = "no probe gave a rate"
    else:
        why = "no probe gave anything"
    return [*wrapped(f"no rates were recorded: {why}", hang=2), ""]


def _not_trained(info: dict[str, Any]) -> str:
    """Of a program that nobody asked about, why its libraries tell nothing."""
    asked = "no voirfile asked for any"
    if info.get("automatic") is None:
        return f"no rates were recorded: {asked}"
    libraries = [str(each.get("library")) for each in info["automatic"]]
    if libraries:
        return f"nothing was trained with {fit(', '.join(libraries), 30)}, and {asked}"
    return f"no library was imported that trains, and {asked}"


def losses(summary: Summary) -> list[str]:
    """The values whose name calls them a loss."""
    rows = []
    for series in summary.series:
        if series.is_loss:
            found = series.statistics
            least = figure(found.min) if found else ""
            note = f"{series.odd} not finite" if series.odd else ""
            ends = (_value(series.first), _value(series.last))
            rows.append([_label(series), str(series.n), *ends, least, note])
    return limited(table("losses", ["n", "first", "last", "min", ""], rows[:LIMIT]), len(rows))


def values(summary: Summary) -> list[str]:
    """All other values."""
    rows = []
    for series in summary.series:
        if not series.is_loss:
            found = series.statistics
            middle = [figure(found.mean), figure(found.median)] if found else ["", ""]
            note = f"{series.odd} not finite" if series.odd else ""
            rows.append([_label(series), str(series.n), *middle, _value(series.last), note])
    return limited(table("values", ["n", "mean", "median", "last", ""], rows[:LIMIT]), len(rows))


def _label(series: Series) -> str:
    task = "" if not (series.bench or series.task) else f"{_named(series)} "
    return task + clean(series.name)


def _value(value: object) -> str:
    found = number(value)
    return fit(value, 16) if found is None or isinstance(value, str) else figure(found)


def regions(summary: Summary) -> list[str]:
    """Regions whose calls a voirfile timed as events."""
    rows = [
        [
            "  ".join(part for part in (region.bench, region.name) if part),
            str(region.statistics.n),
            *(short(value) for value in (region.statistics.mean, region.statistics.p95)),
            duration(region.total),
        ]
        for region in summary.regions
    ]
    return limited(table("regions", ["n", "mean", "p95", "total"], rows[:LIMIT]), len(rows))
