"""Run folders of one job that were recorded apart, by an ``inject run`` on each node, joined into one.

:func:`join` checks that the folders are parts of one job (:mod:`.parts`) and how far the clocks of their
hosts differ (:mod:`.part_clocks`). Then it copies all raw files and collects the new folder like any run
(:mod:`.collector`).

The files are copied unchanged, but for two facts in the first line of each, from which all of its times
follow: the name of its host, if several machines have one name, and its moment in unix time, if the clock is
moved.
"""

from __future__ import annotations

import os
import shutil
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import UserError
from ..store import drift, seal
from ..store.event import line_of
from ..store.folder import open_run, read_events
from ..store.logs import Damage, parse
from ..store.place import UNCOMMITTED, data_files
from ..store.run_json import write_info
from .clocks import ClockBounds
from .collector import FinishedRun, collect
from .part_clocks import tie_all
from .parts import JobPart, check_program, check_ranks, check_times, name_hosts
from .readable import collected, is_foreign


def join(
    folders: Sequence[str], out: str, clocks: Sequence[ClockBounds | None] | None = None
) -> None:
    """Make the run folder ``out`` of the runs in ``folders``, in one step.

    ``clocks``: for the host of each folder how far its clock is ahead of ours, if that was measured. A rank
    that an elastic launcher moved from one node to another is in both, as two attempts.

    Raises UserError if a folder is no run, if the runs are not of one job (of different programs or numbers
    of ranks, at different times, without ranks, or with one rank at the same time), and if ``out`` exists;
    OSError.
    """
    out = os.path.abspath(out)
    parent = os.path.dirname(out)
    if os.path.lexists(out):
        raise UserError(f"{out} exists already: name a folder that is to be made")
    if not os.path.isdir(parent):
        raise UserError(f"{out}: there is no folder {parent}")
    with ExitStack() as opened:
        runs = [opened.enter_context(collected(open_run(folder))) for folder in folders]
        for run in runs:
            if is_foreign(run) or "processes" not in run.info:
                raise UserError(f"{run.path}: there are no raw files of inject in it to merge")
            if not all("log" in process for process in run.info["processes"]):
                raise UserError(f"{run.path}: its injector was too old for inject merge")
        measured = clocks or [None] * len(runs)
        parts = [JobPart(run, clock) for run, clock in zip(runs, measured, strict=True)]
        check_program(parts)
        parts.sort(key=lambda part: part.first)
        name_hosts(parts)
        # Only by one clock can be seen what was at the same time.
        tie_all(parts)
        check_ranks(parts)
        check_times(parts)
        # Beside `out`, so that the folder can be renamed: until then there is no folder of that name.
        draft = os.path.join(
            opened.enter_context(TemporaryDirectory(dir=parent, prefix=".merge.")),
            os.path.basename(out),
        )
        os.makedirs(os.path.join(draft, "raw"))
        _copy(parts, draft)
        _finish(parts, draft)
        os.rename(draft, out)


# --- the new folder -------------------------------------------------------------------------------


def _copy(parts: Sequence[JobPart], draft: str) -> None:
    """Copy all raw files and artifacts into ``draft``. A name that another part has as well gets a number."""
    taken: set[str] = set()
    added: set[str] = set()
    for part in parts:
        stems: dict[str, str] = {}  # the files of one process must keep one stem
        content = part.run.content if "files" in part.info else part.run.path
        for name in seal.names(part.run.content):
            folder, file = os.path.split(name)
            if folder:
                stem = seal.stem_of(file)
                new = stems.get(stem) or _free(stem, taken)
                stems[stem] = new
                target = os.path.join(draft, folder, new + file[len(stem) :])
                _copy_raw(os.path.join(part.run.content, name), target, part)
        # Only now: within a part, a stem that is there again is of the same process.
        taken.update(stems.values())
        for name in seal.artifacts(content):
            added.add(new := _free(name, added))
            target = os.path.join(draft, new)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(os.path.join(content, name), target)
    diff = os.path.join(parts[0].run.path, UNCOMMITTED)
    if os.path.exists(diff):
        shutil.copyfile(diff, os.path.join(draft, UNCOMMITTED))


def _free(name: str, taken: set[str]) -> str:
    """``name``, or if it is in ``taken``, the name with the first number with which it is not."""
    number = 0
    while (candidate := f"{name}.{number}" if number else name) in taken:
        number += 1
    return candidate


def _copy_raw(path: str, target: str, part: JobPart) -> None:
    """Copy a raw file. Its first line gets the host's name and the time that these have in the whole run."""
    with open(path, "rb") as source, open(target, "xb") as file:
        if path.endswith(seal.LINES) and (part.names or part.tie.shift):
            first = source.readline()
            record = parse(first.strip()) or {}
            if record.get("event") == "process" and isinstance(data := record.get("data"), dict):
                data["host"] = part.named(data.get("host"))
                if isinstance(time := data.get("time"), (int, float)):
                    data["time"] = time + part.tie.shift
                first = line_of(record)
            file.write(first)
        if path.endswith(drift.SUFFIX) and part.tie.shift:
            file.writelines(_moved(line, part.tie.shift) for line in source)
            return
        shutil.copyfileobj(source, file, 1 << 20)


def _moved(line: bytes, seconds: float) -> bytes:
    """A line of a file of measurements, with the clock that they are of moved by ``seconds``."""
    record = parse(line.strip()) or {}
    reading = drift.measurement_of(record.get("data"))
    if reading is None:
        return line
    moved = {"at": reading.at, "low": reading.low + seconds, "high": reading.high + seconds}
    return line_of({**record, "data": moved})


def _whole(parts: Sequence[JobPart]) -> FinishedRun:
    """The facts about the whole run, from the ``run.json`` of each part."""
    # The command and the machine are those of a part whose end was seen, rank 0's if possible.
    first = next((part for part in parts if part.info.get("collected") is not False), parts[0])
    infos = [part.info for part in parts]
    codes = [part.code for part in parts]
    events = read_events(first.run, Damage())
    meta: Any = next((data for _, event, data in events if event == "meta"), None)
    interrupted = next(filter(None, (info.get("interrupted") for info in infos)), None)
    return FinishedRun(
        command=first.info["command"],
        name=first.info["name"],
        started=min(part.info["started"] + part.tie.shift for part in parts),
        ended=max(part.info["ended"] + part.tie.shift for part in parts),
        exit=next(filter(None, codes), None if None in codes else 0),
        program=first.info.get("program"),
        voirfiles=list(dict.fromkeys(_all(infos, "voirfiles"))),
        problems=[text for part in parts for text in _problems(part)],
        remarks=_remarks(parts),
        limits=first.info.get("limits") or {},
        sampling=max((info.get("sampling") or {}).get("rate") or 0 for info in infos),
        # Those of the first part count.
        tags=dict(ChainMap(*(info.get("tags") or {} for info in infos))),
        price=_price(infos),
        git=parts[0].info.get("git"),
        timed_out=any(info.get("timed_out") for info in infos),
        stopped=any(info.get("stopped") for info in infos),
        outlived=_all(infos, "outlived"),
        peak_rss=max(info.get("peak_rss") or 0 for info in infos),
        interrupted=(interrupted["signal"], interrupted["time"]) if interrupted else None,
        gone=[gone for part in parts for gone in part.gone()],
        machine=meta,
        packages=first.info.get("packages"),
    )


def _all(infos: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    """The lists ``key`` of all parts, one after the other."""
    return [each for info in infos for each in info.get(key) or ()]


def _finish(parts: Sequence[JobPart], draft: str) -> None:
    """Collect the whole run in the folder ``draft``, and add what only the parts' own ``run.json`` have.

    Raises UserError if the folder cannot be written.
    """
    infos = [part.info for part in parts]
    info = collect(draft, _whole(parts))
    # collect() reports a full disk as a problem of the run. Here it must not leave half of a run.
    names = os.listdir(draft)
    if "run.json" not in names or not data_files(names):
        raise UserError("; ".join(info["problems"]))
    moments = [one["collected_at"] for one in infos if one.get("collected_at")]
    if moments:
        info["collected_at"] = max(moments)
    sources = [(one.get("sampling") or {}).get("sources") for one in infos]
    if any(sources):
        info["sampling"]["sources"] = {k: v for one in sources for k, v in (one or {}).items()}
    flops = [one["flops"] for one in infos if one.get("flops")]
    if flops:
        is_complete = len(flops) == len(parts) and all("ranks" in one for one in flops)
        ranks = [rank for one in flops for rank in one.get("ranks", ())]
        info["flops"] = (
            {**flops[0], "ranks": ranks} if is_complete else {"why": "not all parts counted FLOPs"}
        )
    write_info(draft, {key: value for key, value in info.items() if key != "schema"})


def _problems(part: JobPart) -> Iterator[str]:
    """The problems of a part, each with the name of its host, its damage among them."""
    for text in (*part.info.get("problems", ()), *part.run.damage):
        yield f"{part.named(part.host)}: {text}"
    if part.info.get("collected") is False:
        yield f"{part.named(part.host)}: how the program ended is not known, as inject ended before it"


def _remarks(parts: Sequence[JobPart]) -> list[str]:
    """The remarks of all parts, and those about clocks, names of hosts and different commits."""
    remarks = [text for part in parts for text in part.info.get("remarks", ())]
    remarks += [part.tie.sentence for part in parts if part.tie.sentence]
    for part in parts:
        remarks += [
            f"{new} is what another machine named {old} is called here"
            for old, new in part.names.items()
        ]
    commits = [(part, (part.info.get("git") or {}).get("commit")) for part in parts]
    for part, commit in commits:
        if commit != commits[0][1]:
            remarks.append(
                f"{part.named(part.host)} ran commit {commit}, rank 0's host {commits[0][1]}"
            )
    return list(dict.fromkeys(remarks))


def _price(infos: Sequence[Mapping[str, Any]]) -> tuple[float, str] | None:
    """The price of an hour of all parts, and its currency; None unless all have a price in one currency."""
    prices = [info.get("price") or {} for info in infos]
    currencies = {price.get("currency") for price in prices}
    if len(currencies) != 1 or None in currencies:
        return None
    return sum(price["per_hour"] for price in prices), str(currencies.pop())
