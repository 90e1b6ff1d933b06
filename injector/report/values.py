"""The sections about values that probes recorded, the probes themselves, and the warnings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ..analysis.outcome_words import RANKS
from ..analysis.recorded import Rate, Recorded, ValueSeries
from ..analysis.statistics import Statistics, number
from ..analysis.summary import Summary
from ..analysis.wording import signal_name
from ..exit_status import code_of
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

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

    from ..analysis.columns import RecordedProcess  # and with it numpy


def rates(summary: Summary) -> list[str]:
    """The table of the rates that probes recorded: a row for all processes, then one for each."""
    rows: list[list[str]] = []
    for rate in summary.summary.rates:
        odd = f"  ({_odd(rate)})" if rate.odd else ""
        rows.append([name_of(rate), *figures_of(rate.overall), rate.unit + odd])
        for index, statistics in rate.by_process.items():
            rows.append([f"  {process_name(summary, index)}", *figures_of(statistics), rate.unit])
    return table("rates", ["n", "mean", "median", "p95", "std", ""], rows)


def name_of(what: Rate | ValueSeries) -> str:
    """The benchmark and the task of a rate or a series."""
    return "  ".join(part for part in (what.bench, what.task) if part) or "(no task)"


def figures_of(statistics: Statistics) -> list[str]:
    """The cells ``n mean median p95 std``."""
    figures = statistics.mean, statistics.median, statistics.p95, statistics.std
    return [str(statistics.n), *map(figure, figures)]


def process_name(summary: Summary, index: int) -> str:
    """The name of the process with that index: its rank, or else its number."""
    processes = summary.processes
    process = processes[index] if 0 <= index < len(processes) else {}
    return rank_name(process.get("rank"), process.get("pid", index))


_NO_PROCESS = "no Python process of the program recorded anything"
_NAMED = (
    'to measure a loop, name in one what makes a step, ov.step("//FUNCTION"), the loop itself, '
    'ov.step("//FUNCTION > #loop_VARIABLE"), or what it goes over, ov.loader("//FUNCTION > VARIABLE"); '
    "`inject functions FILE` lists all three"
)


def no_rates(summary: Summary) -> list[str]:
    """The lines that say why there are no rates, as far as that is known."""
    if summary.incomplete:
        return ["what was trained is not known: parts of the record are missing", ""]
    ours = not summary.foreign
    if ours and not summary.voirfiles:
        return [*wrapped(_not_trained(summary), hang=2), ""]
    if ours and not summary.processes:
        why = _NO_PROCESS
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
    """For a program without a voirfile, a sentence on why there are no rates and how to get some."""
    if code_of(summary.exit):
        # A program that failed has to be corrected first: no advice on how to measure it.
        return f"{_unseen(summary)} before the program failed"
    return f"{_unseen(summary)}, and no voirfile records rates: {_NAMED}"


def _unseen(summary: Summary) -> str:
    """The beginning of that sentence: why the shipped voirfiles measured nothing."""
    if not summary.processes:
        return f"no rates were recorded: {_NO_PROCESS}"
    if summary.automatic is None:
        return "no shipped voirfile was used"
    # A library may have several voirfiles (torch and torch.distributed) and is named once. What only saves
    # and logs beside a training cannot have shown one.
    libraries = dict.fromkeys(
        str(voirfile.get("library"))
        for voirfile in summary.automatic
        if voirfile.get("name") != "saving"
    )
    if libraries:
        return f"no training was recognised in {fit(', '.join(libraries), 30)}"
    return "no library that a shipped voirfile measures was imported"


def losses(summary: Recorded) -> list[str]:
    """The table of the series that are losses by their names."""
    rows = [
        [*cells, "  ".join(filter(None, (odd, line)))] for *cells, odd, line in loss_cells(summary)
    ]
    return limited(table("losses", ["n", "first", "last", "min", ""], rows[:LIMIT]), len(rows))


def loss_cells(summary: Recorded) -> list[list[str]]:
    """Of each loss: name, number, first, last, least, how many are not finite, and the line.

    That is the line that computed it, or else the one that calls backward on it.
    """
    rows = []
    for series in summary.series:
        if series.is_loss:
            source, statistics = series.source, series.statistics
            ends = (value_text(series.first), value_text(series.last))
            least = figure(statistics.min) if statistics else ""
            line = code_line(source.made or source.place) if source else ""
            rows.append([label_of(series), str(series.n), *ends, least, _odd(series), line])
    return rows


def _odd(values: Rate | ValueSeries) -> str:
    return f"{values.odd} not finite" if values.odd else ""


def values(summary: Recorded) -> list[str]:
    """The table of all other series."""
    rows = value_cells(summary)
    return limited(table("values", ["n", "mean", "median", "last", ""], rows[:LIMIT]), len(rows))


def value_cells(summary: Recorded) -> list[list[str]]:
    """Of each series that is no loss: name, number, mean, median, last, and how many are not finite."""
    rows = []
    for series in summary.series:
        if not series.is_loss:
            known = series.statistics
            middle = [figure(known.mean), figure(known.median)] if known else ["", ""]
            last = value_text(series.last)
            rows.append([label_of(series), str(series.n), *middle, last, _odd(series)])
    return rows


def label_of(series: ValueSeries) -> str:
    """The name of a series with its task."""
    task = "" if not (series.bench or series.task) else f"{name_of(series)} "
    return task + clean(series.name)


def value_text(value: object) -> str:
    """A recorded value, which may be of any type."""
    as_number = number(value)
    return fit(value, 16) if as_number is None or isinstance(value, str) else figure(as_number)


def regions(summary: Recorded) -> list[str]:
    """The table of the regions whose calls a voirfile recorded as events, as under voir."""
    rows = region_cells(summary)
    return limited(table("regions", ["n", "mean", "p95", "total"], rows[:LIMIT]), len(rows))


def region_cells(summary: Recorded) -> list[list[str]]:
    """Of each region that was timed as events: name, calls, mean, 95th percentile, total."""
    return [
        [
            "  ".join(filter(None, (clean(region.bench), clean(region.name)))),
            str(region.statistics.n),
            short(region.statistics.mean),
            short(region.statistics.p95),
            duration(region.total),
        ]
        for region in summary.regions
    ]


def in_each_process(summary: Summary, details: Iterable[RecordedProcess]) -> list[str]:
    """The section of ``--verbose``: of each process the shipped voirfiles, the probes with their places, and
    the regions that were recorded.

    Nothing is cut, since a reader looks for a place here, and may search for its path.
    """
    lines: list[str] = []
    for recorded in details:
        process = summary.processes[recorded.index]
        argv = " ".join(map(str, process.get("argv") or ()))
        records = count(int(process.get("records") or 0), "record")
        lines += [
            clean(f"process {process.get('pid')} on {process.get('host')}: {argv}"),
            "  " + " · ".join([*_role(process), records, f"{process.get('lost') or 0} lost"]),
            *_voirfiles(summary, recorded.index),
            *_places(summary, recorded.index),
            *_regions(recorded),
            "",
        ]
    return ["in each process", *(f"  {line}".rstrip() for line in lines[:-1]), ""] if lines else []


def _role(process: Mapping[str, Any]) -> list[str]:
    """The rank of a process, if it has one, and its exit code or the signal that it died by."""
    rank, code = process.get("rank"), code_of(process.get("exit"))
    how = "exit not known" if code is None else f"exit {code}"
    if code is not None and code < 0:
        how = f"killed by {signal_name(-code)}"
    return [*([] if rank is None else [f"rank {rank}"]), how]


def _voirfiles(summary: Summary, index: int) -> list[str]:
    """The shipped voirfiles that acted in a process, and what each did not find in its library."""
    lines = []
    for voirfile in summary.automatic or ():
        if index in voirfile["processes"]:
            version = f"{voirfile['library']} {voirfile['version'] or ''}".strip()
            lines.append(clean(f"    {voirfile['name']}  for {version}"))
            lines += [clean(f"      not found: {miss.get('what')}") for miss in voirfile["missed"]]
    return ["  shipped voirfiles", *lines] if lines else ["  no shipped voirfile acted"]


def _places(summary: Summary, index: int) -> list[str]:
    """The probes of the run's voirfiles, each with its places in a process, or why it has none."""
    missed = {miss["selector"]: miss for miss in summary.misses if index in miss["processes"]}
    lines = []
    for probe in summary.probes:
        lines.append(clean(f"    {probe['selector']}  set at {probe['voirfile']}"))
        places = [place for place in probe["places"] if index in place["processes"]]
        lines += [f"      {clean(probe_place(place, whole=True))}" for place in places]
        if not places:
            why = missed.get(probe["selector"], {}).get("reason")
            lines.append(f"      nowhere: {clean(why or 'the code that it names was not loaded')}")
    return ["  probes", *lines] if lines else []


def _regions(recorded: RecordedProcess) -> list[str]:
    """The regions that a process recorded, each with the selector of its probe and its line."""
    lines: dict[str, None] = {}  # call sites of several threads or objects may have the same line
    for _, site in sorted(recorded.sites.items()):
        place = site.place
        where = f"{place.file}:{place.line} ({place.function})  {place.text}" if place else ""
        if not site.is_memory:
            lines[clean(f"    {site.region}  {site.selector or ''}  {where}").rstrip()] = None
    return ["  regions", *lines] if lines else []


AUTO_MISSED = "auto-missed"
"""The kind of warning about a library that differs from those its shipped voirfile was made for."""
_ELSEWHERE = (AUTO_MISSED, RANKS, "lost")
"""Kinds of warnings that the report shows in other sections."""


def probes(summary: Summary) -> list[str]:
    """The section about the probes: how often each fired, and its places."""
    if not summary.probes:
        return []
    lines = ["probes"]
    for probe in summary.probes:
        fired = fired_of(probe)
        lines.append(f"  {fit(probe['selector'], room() - 4 - len(fired))}  {fired}")
        # The begin and the end of a call are two places, but one line of the program.
        places = list(dict.fromkeys(probe_place(place) for place in probe["places"]))
        lines += ["      " + fit(place, room() - 6) for place in places[:LIMIT]]
        if len(places) > LIMIT:
            lines.append(f"      … and {len(places) - LIMIT} more places")
    return [*lines, ""]


def fired_of(probe: Mapping[str, Any]) -> str:
    """The words for how often a probe fired."""
    if not probe["fired"] and not probe["places"]:
        return "attached nowhere"
    if not probe["fired"] and not probe["exact"]:
        return "fired: not known"
    return f"fired {probe['fired']}" if probe["exact"] else f"fired at least {probe['fired']}"


def probe_place(place: Mapping[str, Any], whole: bool = False) -> str:
    """The place of a probe: file and line, function, text. ``whole``: with the path of the file."""
    where = place.get("function") or place.get("module") or ""
    file = str(place.get("file") or "")
    file = file if whole else os.path.basename(file)
    source = place.get("source") or place.get("kind") or ""
    at = f"{file}:{place.get('line')}" if file else str(place.get("module"))
    return f"{at} ({where})  {source}" if where else f"{at}  {source}"


def auto_missed(summary: Summary) -> list[str]:
    """The warnings about what shipped voirfiles did not find in their libraries."""
    return [
        str(warning.get("text"))
        for warning in summary.warnings
        if warning.get("kind") == AUTO_MISSED
    ]


def warnings(summary: Summary) -> list[str]:
    """The section of the warnings."""
    texts = warning_texts(summary)
    if not texts:
        return []
    return [count(len(texts), "warning"), *bullets(texts), ""]


def warning_texts(summary: Summary) -> list[str]:
    """The warnings of ``run.json`` that no other section shows, and one on lines that could not be read."""
    texts = [
        str(warning.get("text"))
        for warning in summary.warnings
        if warning.get("kind") not in _ELSEWHERE
    ]
    if summary.summary.torn:
        texts.append(f"{count(summary.summary.torn, 'unreadable line')} of .data files left out")
    return texts
