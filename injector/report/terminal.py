"""The short report of one run."""

from __future__ import annotations

import os
from typing import Any

from ..analysis.rates import Rate, Series, Statistics, Summary, number, summarise
from ..store.folder import Run, open_run
from .text import WIDTH, clean, count, duration, figure, fit, table

_SHOWN = 12
"""Rows of a table of values, and warnings, beyond which only their number is said."""


def render(run: Run | str) -> str:
    """What a run (a folder, or one that was opened) has to tell, in lines of at most 100 columns.

    Raises NotARunError for a folder that is none, OSError for one that cannot be read.
    """
    run = open_run(run) if isinstance(run, str) else run
    summary = summarise(run)
    lines = [
        *_header(run, summary),
        "",
        *_rates(run, summary),
        *_losses(summary),
        *_values(summary),
        *_regions(summary),
        *_probes(run),
        *_warnings(run, summary),
        # A path that is cut could not be pasted.
        f"run: {clean(run.path)}",
    ]
    return "\n".join(lines) + "\n"


def _header(run: Run, summary: Summary) -> list[str]:
    info = run.info
    if not info:
        return _foreign_header(run, summary)
    processes = info.get("processes") or []
    facts = [
        _exit(info),
        duration(float(info.get("duration") or 0)),
        count(len(processes), "process") if processes else "nothing recorded",
        f"Python {info.get('python')}",
    ]
    words = [str(word) for word in info.get("command") or ()]
    # A command that is ours needs no further sign of who reports.
    command = " ".join(words if words[:1] == ["inject"] else ["inject:", *words])
    return [fit(command, WIDTH), fit("  " + " · ".join(facts), WIDTH)]


def _foreign_header(run: Run, summary: Summary) -> list[str]:
    lines = [fit(f"inject: {os.path.basename(run.path)}", WIDTH)]
    for bench, events in summary.benches.items():
        start, end = _mapping(events.get("start")), _mapping(events.get("end"))
        began, ended = number(start.get("time")), number(end.get("time"))
        took = duration(ended - began) if began is not None and ended is not None else "no end"
        code = end.get("return_code")
        said = _code(code) if isinstance(code, int) else "exit not known"
        lines.append(fit(f"  {bench + ': ' if bench else ''}{said} · {took}", WIDTH))
    return lines


def _mapping(data: object) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def _exit(info: dict[str, Any]) -> str:
    ended = _mapping(info.get("exit"))
    if ended.get("signal") is not None:
        return _code(-int(ended["signal"]))
    if ended.get("code") is None:
        return "exit not known"
    stopped = "stopped as asked, " if info.get("stopped") else ""
    return stopped + _code(int(ended["code"]))


def _code(code: int) -> str:
    if code >= 0:
        return f"exit {code}"
    from signal import Signals  # 2 ms that only such an end is to cost

    try:
        name = Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"killed by {name}"


# --- what was measured ----------------------------------------------------------------------------


def _rates(run: Run, summary: Summary) -> list[str]:
    if not summary.rates:
        return [*_no_rates(run, summary), ""]
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


def _no_rates(run: Run, summary: Summary) -> list[str]:
    """Say why there are no rates, as far as it is known."""
    info = run.info
    if info and not info.get("voirfiles"):
        why = "no voirfile asked for any (see `inject functions`)"
    elif info and not info.get("processes"):
        why = "no Python process of the program recorded anything"
    elif info and not info.get("probes") and not info.get("misses"):
        why = "nothing asked for any: no probe was set"
    elif info and not any(probe["fired"] for probe in info.get("probes") or ()):
        why = "no probe fired"
    elif summary.events.get("data"):
        why = "no probe gave a rate"
    else:
        why = "no probe gave anything"
    return [f"no rates were recorded: {why}"]


def _losses(summary: Summary) -> list[str]:
    rows = []
    for series in summary.series:
        if series.is_loss:
            found = series.statistics
            least = figure(found.min) if found else ""
            note = f"{series.odd} not finite" if series.odd else ""
            ends = (_value(series.first), _value(series.last))
            rows.append([_label(series), str(series.n), *ends, least, note])
    return _limited(table("losses", ["n", "first", "last", "min", ""], rows), rows)


def _values(summary: Summary) -> list[str]:
    rows = []
    for series in summary.series:
        if not series.is_loss:
            found = series.statistics
            middle = [figure(found.mean), figure(found.median)] if found else ["", ""]
            note = f"{series.odd} not finite" if series.odd else ""
            rows.append([_label(series), str(series.n), *middle, _value(series.last), note])
    return _limited(table("values", ["n", "mean", "median", "last", ""], rows), rows)


def _label(series: Series) -> str:
    task = "" if not (series.bench or series.task) else f"{_named(series)} "
    return task + clean(series.name)


def _value(value: object) -> str:
    found = number(value)
    return fit(value, 16) if found is None or isinstance(value, str) else figure(found)


def _limited(lines: list[str], rows: list[list[str]]) -> list[str]:
    if len(rows) <= _SHOWN:
        return lines
    return [*lines[: _SHOWN + 1], f"  … and {len(rows) - _SHOWN} more", ""]


def _regions(summary: Summary) -> list[str]:
    rows = [
        [
            "  ".join(part for part in (region.bench, region.name) if part),
            str(region.statistics.n),
            *(_seconds(value) for value in (region.statistics.mean, region.statistics.p95)),
            duration(region.total),
        ]
        for region in summary.regions
    ]
    return _limited(table("regions", ["n", "mean", "p95", "total"], rows), rows)


def _seconds(value: float) -> str:
    if value >= 1:
        return duration(value)
    return f"{figure(value * 1e3)} ms" if value >= 1e-3 else f"{figure(value * 1e6)} µs"


# --- what the probes did --------------------------------------------------------------------------


def _probes(run: Run) -> list[str]:
    probes = run.info.get("probes") or []
    if not probes:
        return []
    lines = ["probes"]
    for probe in probes:
        fired = f"fired {probe['fired']}" if probe["exact"] else f"fired at least {probe['fired']}"
        if not probe["fired"] and not probe["places"]:
            fired = "attached nowhere"
        elif not probe["fired"] and not probe["exact"]:
            fired = "fired: not known"
        lines.append(f"  {fit(probe['selector'], WIDTH - 4 - len(fired))}  {fired}")
        # The two ends of a call are one line of the program.
        places = list(dict.fromkeys(_place(place) for place in probe["places"]))
        lines += [fit_indented(place) for place in places[:_SHOWN]]
        if len(places) > _SHOWN:
            lines.append(f"      … and {len(places) - _SHOWN} more places")
    return [*lines, ""]


def fit_indented(text: str) -> str:
    """``text`` under a probe or a warning."""
    return "      " + fit(text, WIDTH - 6)


def _place(place: dict[str, Any]) -> str:
    where = place.get("function") or place.get("module") or ""
    file = os.path.basename(str(place.get("file") or ""))
    source = place.get("source") or place.get("kind") or ""
    at = f"{file}:{place.get('line')}" if file else str(place.get("module"))
    return f"{at} ({where})  {source}" if where else f"{at}  {source}"


def _warnings(run: Run, summary: Summary) -> list[str]:
    texts = [str(warning.get("text")) for warning in run.info.get("warnings") or ()]
    if summary.torn:
        texts.append(f"{count(summary.torn, 'torn line')} of .data files left out")
    if not texts:
        return []
    lines = [count(len(texts), "warning")]
    for text in texts[:_SHOWN]:
        first, *rest = text.splitlines() or [""]
        lines.append("  - " + fit(first, WIDTH - 4))
        lines += [fit_indented(line) for line in rest]
    if len(texts) > _SHOWN:
        lines.append(f"  … and {len(texts) - _SHOWN} more")
    return [*lines, ""]
