"""Tables of what probes gave, the probes themselves, and what a reader has to be warned of."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

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

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

    from ..analysis.columns import RecordedProcess  # and with it numpy


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


_NO_PROCESS = "no Python process of the program recorded anything"
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
    """Of a program without a voirfile: why there are no rates, and how to have some."""
    ended = summary.exit or {}
    if ended.get("code") or ended.get("signal") is not None:
        # It is to be mended before it can be measured: no advice.
        return f"{_unseen(summary)} before the program failed"
    return f"{_unseen(summary)}, and no voirfile records rates: {_NAMED}"


def _unseen(summary: Summary) -> str:
    if not summary.processes:
        return f"no rates were recorded: {_NO_PROCESS}"
    if summary.automatic is None:
        return "no shipped voirfile was used"
    # One library may have several voirfiles (torch and torch.distributed): it is named once.
    libraries = dict.fromkeys(str(each.get("library")) for each in summary.automatic)
    if libraries:
        return f"no training was recognised in {fit(', '.join(libraries), 30)}"
    return "no library that a shipped voirfile measures was imported"


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


def in_each_process(summary: Summary, found: Iterable[RecordedProcess]) -> list[str]:
    """For ``--verbose``: what acted in each process, where its probes landed, and what they recorded there.

    Nothing is cut: who wants this looks for a place, and a place that is cut is none.
    """
    lines: list[str] = []
    for each in found:
        process = summary.processes[each.index]
        argv = " ".join(map(str, process.get("argv") or ()))
        records = count(int(process.get("records") or 0), "record")
        lines += [
            clean(f"process {process.get('pid')} on {process.get('host')}: {argv}"),
            "  " + " · ".join([*_role(process), records, f"{process.get('lost') or 0} lost"]),
            *_acted(summary, each.index),
            *_landed(summary, each.index),
            *_recorded(each),
            "",
        ]
    return ["in each process", *(f"  {line}".rstrip() for line in lines[:-1]), ""] if lines else []


def _role(process: Mapping[str, Any]) -> list[str]:
    rank, code = process.get("rank"), (process.get("exit") or {}).get("code")
    known = ["exit not known" if code is None else f"exit {code}"]
    return [*([] if rank is None else [f"rank {rank}"]), *known]


def _acted(summary: Summary, index: int) -> list[str]:
    """The shipped voirfiles that acted in a process, and what each missed in its library."""
    lines = []
    for each in summary.automatic or ():
        if index in each["processes"]:
            version = f"{each['library']} {each['version'] or ''}".strip()
            lines.append(clean(f"    {each['name']}  for {version}"))
            lines += [clean(f"      not found: {miss.get('what')}") for miss in each["missed"]]
    return ["  shipped voirfiles", *lines] if lines else ["  no shipped voirfile acted"]


def _landed(summary: Summary, index: int) -> list[str]:
    """Each probe of the run's voirfiles, with its places in a process, or why it has none."""
    missed = {each["selector"]: each for each in summary.misses if index in each["processes"]}
    lines = []
    for probe in summary.probes:
        lines.append(clean(f"    {probe['selector']}  set at {probe['voirfile']}"))
        places = [place for place in probe["places"] if index in place["processes"]]
        lines += [f"      {clean(probe_place(place, whole=True))}" for place in places]
        if not places:
            why = missed.get(probe["selector"], {}).get("reason")
            lines.append(f"      nowhere: {clean(why or 'the code that it names was not loaded')}")
    return ["  probes", *lines] if lines else []


def _recorded(found: RecordedProcess) -> list[str]:
    """Each region, with the probe that recorded it and the line of the program that it is of."""
    lines: dict[str, None] = {}
    for _, site in sorted(found.sites.items()):
        place = site.place
        where = f"{place.file}:{place.line} ({place.function})  {place.text}" if place else ""
        if not site.is_memory:
            lines[clean(f"    {site.region}  {site.selector or ''}  {where}").rstrip()] = None
    return ["  regions", *lines] if lines else []


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


def probe_place(place: Mapping[str, Any], whole: bool = False) -> str:
    """Line, function and text of a landing; ``whole``: with the path of the file."""
    where = place.get("function") or place.get("module") or ""
    file = str(place.get("file") or "")
    file = file if whole else os.path.basename(file)
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
