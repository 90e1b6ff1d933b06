"""Tables of what probes gave, the probes themselves, and what a reader has to be warned of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..analysis.profile import Statistics
from ..analysis.recorded import Rate, Recorded, ValueSeries, number
from ..analysis.summary import RANKS, Summary
from .output import room
from .text import (
    LIMIT,
    bullets,
    clean,
    code_line,
    count,
    duration,
    figure,
    fit,
    limited,
    rank_name,
    short,
    table,
    wrapped,
)


def rates(summary: Summary) -> list[str]:
    """The rates that probes gave, of all processes and of each."""
    rows: list[list[str]] = []
    for rate in summary.summary.rates:
        odd = f"  ({rate.odd} not finite)" if rate.odd else ""
        rows.append([name_of(rate), *figures_of(rate.overall), rate.unit + odd])
        for index, each in rate.by_process.items():
            rows.append([f"  {process_name(summary, index)}", *figures_of(each), rate.unit])
    return table("rates", ["n", "mean", "median", "p95", "std", ""], rows)


def name_of(what: Rate | ValueSeries) -> str:
    return "  ".join(part for part in (what.bench, what.task) if part) or "(no task)"


def figures_of(found: Statistics) -> list[str]:
    return [str(found.n), *map(figure, (found.mean, found.median, found.p95, found.std))]


def process_name(summary: Summary, index: int) -> str:
    processes = summary.processes
    process = processes[index] if 0 <= index < len(processes) else {}
    return rank_name(process.get("rank"), process.get("pid", index))


_NAMED = (
    'to measure a loop, name in one what makes a step, ov.step("//FUNCTION"), or what the loop goes over, '
    'ov.loader("//FUNCTION > VARIABLE"); `inject functions FILE` lists both'
)


def no_rates(summary: Summary) -> list[str]:
    """Why there are no rates, as far as it is known."""
    if summary.incomplete:
        return ["what was trained is not known: parts of the record are missing", ""]
    ours = not summary.foreign
    if ours and not summary.voirfiles:
        return [*wrapped(f"{_not_trained(summary)}: {_NAMED}", hang=2), ""]
    if ours and not summary.processes:
        why = "no Python process of the program recorded anything"
    elif ours and not summary.probes and not summary.misses:
        why = "no probe was set"
    elif ours and not any(probe["fired"] for probe in summary.probes):
        why = "no probe fired"
    elif summary.summary.events.get("data"):
        why = "no probe gave a rate"
    else:
        why = "no probe gave anything"
    return [*wrapped(f"no rates were recorded: {why}", hang=2), ""]


def _not_trained(summary: Summary) -> str:
    """Of a program without a voirfile, why its libraries recorded nothing."""
    no_rates = "no voirfile records rates"
    if summary.automatic is None:
        return f"no rates were recorded: {no_rates}"
    # One library may have several voirfiles (torch and torch.distributed): it is named once.
    libraries = dict.fromkeys(str(each.get("library")) for each in summary.automatic)
    if libraries:
        return f"no training was recognised in {fit(', '.join(libraries), 30)}, and {no_rates}"
    return f"no library that a shipped voirfile measures was imported, and {no_rates}"


def losses(summary: Recorded) -> list[str]:
    """The values whose name calls them a loss."""
    rows = []
    for series in summary.series:
        if series.is_loss:
            found = series.statistics
            least = figure(found.min) if found else ""
            note = f"{series.odd} not finite" if series.odd else ""
            ends = (value_text(series.first), value_text(series.last))
            note = "  ".join(filter(None, (note, loss_line(series))))
            rows.append([label_of(series), str(series.n), *ends, least, note])
    return limited(table("losses", ["n", "first", "last", "min", ""], rows[:LIMIT]), len(rows))


def loss_line(series: ValueSeries) -> str:
    """The line that made a loss, else the one that backward starts from."""
    source = series.source
    return code_line(source.made or source.place) if source else ""


def values(summary: Recorded) -> list[str]:
    """All other values."""
    rows = []
    for series in summary.series:
        if not series.is_loss:
            found = series.statistics
            middle = [figure(found.mean), figure(found.median)] if found else ["", ""]
            note = f"{series.odd} not finite" if series.odd else ""
            rows.append([label_of(series), str(series.n), *middle, value_text(series.last), note])
    return limited(table("values", ["n", "mean", "median", "last", ""], rows[:LIMIT]), len(rows))


def label_of(series: ValueSeries) -> str:
    task = "" if not (series.bench or series.task) else f"{name_of(series)} "
    return task + clean(series.name)


def value_text(value: object) -> str:
    found = number(value)
    return fit(value, 16) if found is None or isinstance(value, str) else figure(found)


def regions(summary: Recorded) -> list[str]:
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


AUTO_MISSED = "auto-missed"
"""The kind of warning about a library that differs from what its shipped voirfile knows."""
_ELSEWHERE = (AUTO_MISSED, RANKS, "lost")
"""What the report has at another place."""


def probes(summary: Summary) -> list[str]:
    """What each probe fired, and where it stands."""
    found = summary.probes
    if not found:
        return []
    lines = ["probes"]
    for probe in found:
        fired = fired_of(probe)
        lines.append(f"  {fit(probe['selector'], room() - 4 - len(fired))}  {fired}")
        # The two ends of a call are one line of the program.
        places = list(dict.fromkeys(probe_place(place) for place in probe["places"]))
        lines += ["      " + fit(place, room() - 6) for place in places[:LIMIT]]
        if len(places) > LIMIT:
            lines.append(f"      … and {len(places) - LIMIT} more places")
    return [*lines, ""]


def fired_of(probe: Mapping[str, Any]) -> str:
    """How often a probe fired, in words."""
    if not probe["fired"] and not probe["places"]:
        return "attached nowhere"
    if not probe["fired"] and not probe["exact"]:
        return "fired: not known"
    return f"fired {probe['fired']}" if probe["exact"] else f"fired at least {probe['fired']}"


def probe_place(place: dict[str, Any]) -> str:
    where = place.get("function") or place.get("module") or ""
    file = os.path.basename(str(place.get("file") or ""))
    source = place.get("source") or place.get("kind") or ""
    at = f"{file}:{place.get('line')}" if file else str(place.get("module"))
    return f"{at} ({where})  {source}" if where else f"{at}  {source}"


def auto_missed(summary: Summary) -> list[str]:
    """What the shipped voirfiles looked for in their libraries and did not find."""
    found = summary.warnings
    return [str(each.get("text")) for each in found if each.get("kind") == AUTO_MISSED]


def warnings(summary: Summary) -> list[str]:
    """What run.json warns of, and lines that could not be read."""
    texts = warning_texts(summary)
    if not texts:
        return []
    return [count(len(texts), "warning"), *bullets(texts), ""]


def warning_texts(summary: Summary) -> list[str]:
    """The same, as sentences."""
    found = summary.warnings
    texts = [str(each.get("text")) for each in found if each.get("kind") not in _ELSEWHERE]
    if summary.summary.torn:
        texts.append(f"{count(summary.summary.torn, 'unreadable line')} of .data files left out")
    return texts
