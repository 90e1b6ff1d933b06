"""Run folders of one job that were recorded apart, by an ``inject run`` on each node, as one run folder.

Raw files are copied as they are. The first line of each may change: the name of its host, where machines of
one name recorded, and its moment in unix time, where collectives show that the clocks of the hosts differ.
"""

from __future__ import annotations

import os
import shutil
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
    """Make ``out`` one run folder of the runs in ``folders``, whole or not at all.

    ``clocks``: of the host of each folder, where they were measured.

    A rank that an elastic launcher moved from one node to another is in both, as two attempts.

    Raises UserError for folders that are no runs, or not of one job: of different programs or numbers of
    ranks, at different times, without ranks, or with a rank at the same time; and where ``out`` exists.
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
            if not all("log" in each for each in run.info["processes"]):
                raise UserError(f"{run.path}: its injector was too old for inject merge")
        known = clocks or [None] * len(runs)
        parts = [JobPart(run, clock) for run, clock in zip(runs, known, strict=True)]
        check_program(parts)
        parts.sort(key=lambda part: part.first)
        name_hosts(parts)
        tie_all(parts)
        check_ranks(parts)
        check_times(parts)
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
    """All raw files and artifacts. What another part has under the same name gets a number."""
    taken: set[str] = set()
    added: set[str] = set()
    for part in parts:
        stems: dict[str, str] = {}
        content = part.run.content if "files" in part.info else part.run.path
        for name in seal.names(part.run.content):
            folder, file = os.path.split(name)
            if folder:
                stem = seal.stem_of(file)
                new = stems.get(stem) or _free(stem, taken)
                stems[stem] = new
                target = os.path.join(draft, folder, new + file[len(stem) :])
                _copy_raw(os.path.join(part.run.content, name), target, part)
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
    number = 0
    while (found := f"{name}.{number}" if number else name) in taken:
        number += 1
    return found


def _copy_raw(path: str, target: str, part: JobPart) -> None:
    """A raw file, its first line with the host's name and time as they are in the whole run."""
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
    """A line of a file of measurements, where the clock that they are of is moved."""
    record = parse(line.strip()) or {}
    found = drift.measurement_of(record.get("data"))
    if found is None:
        return line
    moved = {"at": found.at, "low": found.low + seconds, "high": found.high + seconds}
    return line_of({**record, "data": moved})


def _whole(parts: Sequence[JobPart]) -> FinishedRun:
    """How the whole run went."""
    first = next((part for part in parts if part.info.get("collected") is not False), parts[0])
    infos = [part.info for part in parts]
    codes = [part.code for part in parts]
    events = read_events(first.run, Damage())
    meta: Any = next((data for _, event, data in events if event == "meta"), None)
    started = min(part.info["started"] + part.tie.shift for part in parts)
    ended = max(part.info["ended"] + part.tie.shift for part in parts)
    return FinishedRun(
        command=first.info["command"],
        name=first.info["name"],
        started=started,
        ended=ended,
        exit=next(filter(None, codes), None if None in codes else 0),
        program=first.info.get("program"),
        voirfiles=list(
            dict.fromkeys(path for info in infos for path in info.get("voirfiles") or ())
        ),
        problems=[text for part in parts for text in _problems(part)],
        remarks=_remarks(parts),
        limits=first.info.get("limits") or {},
        sampling=max((info.get("sampling") or {}).get("rate") or 0 for info in infos),
        tags={
            key: value
            for info in reversed(infos)
            for key, value in (info.get("tags") or {}).items()
        },
        price=_price(infos),
        git=parts[0].info.get("git"),
        timed_out=any(info.get("timed_out") for info in infos),
        stopped=any(info.get("stopped") for info in infos),
        outlived=[words for info in infos for words in info.get("outlived") or ()],
        peak_rss=max(info.get("peak_rss") or 0 for info in infos),
        interrupted=next(
            (
                (info["interrupted"]["signal"], info["interrupted"]["time"])
                for info in infos
                if info.get("interrupted")
            ),
            None,
        ),
        gone=[gone for part in parts for gone in part.gone()],
        machine=meta,
        packages=first.info.get("packages"),
    )


def _finish(parts: Sequence[JobPart], draft: str) -> None:
    """Collect the whole run in the folder ``draft``. Raises UserError where that cannot be written."""
    infos = [part.info for part in parts]
    info = collect(draft, _whole(parts))
    there = os.listdir(draft)
    if "run.json" not in there or not data_files(there):
        raise UserError("; ".join(info["problems"]))
    moments = [each["collected_at"] for each in infos if each.get("collected_at")]
    if moments:
        info["collected_at"] = max(moments)
    sources = [(each.get("sampling") or {}).get("sources") for each in infos]
    if any(sources):
        info["sampling"]["sources"] = {k: v for each in sources for k, v in (each or {}).items()}
    counted = [each["flops"] for each in infos if each.get("flops")]
    if counted:
        whole = len(counted) == len(parts) and all("ranks" in each for each in counted)
        ranks = [rank for each in counted for rank in each.get("ranks", ())]
        info["flops"] = (
            {**counted[0], "ranks": ranks} if whole else {"why": "not all parts counted FLOPs"}
        )
    write_info(draft, {key: value for key, value in info.items() if key != "schema"})


def _problems(part: JobPart) -> Iterator[str]:
    for text in (*part.info.get("problems", ()), *part.run.damage):
        yield f"{part.named(part.host)}: {text}"
    if part.info.get("collected") is False:
        yield f"{part.named(part.host)}: how the program ended is not known, as inject ended before it"


def _remarks(parts: Sequence[JobPart]) -> list[str]:
    found = [text for part in parts for text in part.info.get("remarks", ())]
    found += [part.tie.sentence for part in parts if part.tie.sentence]
    for part in parts:
        found += [
            f"{new} is what another machine named {old} is called here"
            for old, new in part.names.items()
        ]
    commits = [(part, (part.info.get("git") or {}).get("commit")) for part in parts]
    for part, commit in commits:
        if commit != commits[0][1]:
            found.append(
                f"{part.named(part.host)} ran commit {commit}, rank 0's host {commits[0][1]}"
            )
    return list(dict.fromkeys(found))


def _price(infos: Sequence[Mapping[str, Any]]) -> tuple[float, str] | None:
    """What an hour of all parts costs; None unless all have a price in one currency."""
    found = [info.get("price") or {} for info in infos]
    currencies = {each.get("currency") for each in found}
    if len(currencies) != 1 or None in currencies:
        return None
    return sum(each["per_hour"] for each in found), str(currencies.pop())
