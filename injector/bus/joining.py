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
from ..store import seal, spans
from ..store.call_sites import read_call_sites
from ..store.event import line_of
from ..store.folder import Run, open_run, read_events
from ..store.logs import UNKNOWN, Damage, logs_of, parse
from ..store.place import UNCOMMITTED, data_files
from ..store.run_json import write_info
from .clocks import ClockBounds, Tie, tie_of
from .collector import FinishedRun, collect
from .endings import Gone
from .readable import collected, is_foreign

BARRIERS = ("barrier", "monitored_barrier", "all_gather_object", "DDP's parameters")
"""Collectives that no rank leaves before all have entered, and that wait on the host; the last is what each
DistributedDataParallel begins with."""
ONE_CLOCK = 1_000_000_000
"""Nanoseconds by which unix time less the monotonic clock may differ on one host, where the wall clock is
adjusted; of two machines it differs by what lies between their boots."""


class _Part:
    """One of the folders."""

    def __init__(self, run: Run, clock: ClockBounds | None) -> None:
        self.run = run
        self.clock = clock
        self.info = run.info
        self.logs = logs_of(run.content, self.info["processes"])
        self.hosts = {str(log.host): log.clock.offset for log in self.logs if log.began is not None}
        self.host = str(self.info.get("host"))
        self.names: dict[str, str] = {}
        """Hosts whose name another machine has, and their new one."""
        self.tie = Tie(0.0, "")
        self.ranks: dict[tuple[int, int], int | None] = {}
        """By rank and attempt of a launcher, how many ranks there are."""
        for each in self.info["processes"]:
            if isinstance(each.get("rank"), int):
                self.ranks[each["rank"], each.get("attempt") or 0] = each.get("world")
            self.host = str(each.get("host") or self.host)

    @property
    def code(self) -> int | None:
        """The program's exit code, or minus its deadly signal."""
        ended = self.info.get("exit") or {}
        signal = ended.get("signal")
        return ended.get("code") if signal is None else -signal

    def named(self, host: object) -> str:
        return self.names.get(str(host), str(host))

    def gone(self) -> Iterator[Gone]:
        """What is known of the ends of its processes."""
        for log, each in zip(self.logs, self.info["processes"], strict=True):
            ended, gone = each.get("exit") or {}, each.get("gone")
            code = -ended["signal"] if ended.get("signal") else ended.get("code")
            at = None if gone is None or log.clock is UNKNOWN else gone - log.clock.unix
            t = None if at is None else log.clock.monotonic + round(at * 1e9)
            if (code, t) != (None, None):
                yield Gone(self.named(log.host), each.get("pid") or 0, t, code)

    def barriers(self) -> Iterator[list[tuple[Any, float, float]]]:
        """By rank, the collectives that wait for all: what and where; begin and end in unix seconds."""
        for log, each in zip(self.logs, self.info["processes"], strict=True):
            path = log.stem + spans.SUFFIX
            if isinstance(each.get("rank"), int) and (
                os.path.exists(path) or spans.is_packed(path)
            ):
                sites = {
                    number: (site.label, site.place and (site.place.function, site.place.line))
                    for number, site in read_call_sites(log.path).items()
                    if site.clock == "host" and site.label in BARRIERS
                }
                found = [row for row in spans.read(path) if row[3] in sites] if sites else []
                if found:
                    at = log.clock.at
                    yield [(sites[row[3]], at(row[0]), at(row[1])) for row in sorted(found)]


def join(
    folders: Sequence[str], out: str, clocks: Sequence[ClockBounds | None] | None = None
) -> None:
    """Make ``out`` one run folder of the runs in ``folders``, whole or not at all.

    ``clocks``: of the host of each folder, where they were measured.

    Raises UserError for folders that are no runs, or not of one job: of different programs or numbers of
    ranks, at different times, without ranks, or with a rank in common; and where ``out`` exists. OSError.
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
        parts = [_Part(run, clock) for run, clock in zip(runs, known, strict=True)]
        _check(parts)
        parts.sort(key=lambda part: min(part.ranks))
        _name_hosts(parts)
        for part in parts[1:]:
            part.tie = tie(parts[0], part)
        _check_times(parts)
        draft = os.path.join(
            opened.enter_context(TemporaryDirectory(dir=parent, prefix=".merge.")),
            os.path.basename(out),
        )
        os.makedirs(os.path.join(draft, "raw"))
        _copy(parts, draft)
        _finish(parts, draft)
        os.rename(draft, out)


def _check(parts: Sequence[_Part]) -> None:
    """Raise UserError where they are not parts of one job."""
    owners: dict[tuple[int, int], _Part] = {}
    worlds: dict[int, tuple[int | None, _Part]] = {}
    named = [part for part in parts if part.info.get("collected") is not False]
    for part in parts:
        path = part.run.path
        if not part.ranks:
            raise UserError(
                f"{path}: no process in it has a rank; only ranks of one job are merged"
            )
        if part in named and part.info["name"] != named[0].info["name"]:
            raise UserError(
                f"{path} is a run of {part.info['name']}, {named[0].run.path} one of "
                f"{named[0].info['name']}: only ranks of one program are merged"
            )
        for (rank, attempt), world in part.ranks.items():
            other = owners.setdefault((rank, attempt), part)
            if other is not part:
                raise UserError(
                    f"rank {rank} is in {other.run.path} and in {path}: only ranks of one job are merged"
                )
            first, whose = worlds.setdefault(attempt, (world, part))
            if world != first:
                raise UserError(
                    f"{path} has a rank of {world}, {whose.run.path} one of {first}: these are two jobs"
                )


def _check_times(parts: Sequence[_Part]) -> None:
    """Raise UserError for a part that had ended before another began."""
    last = max(parts, key=lambda part: part.info["started"] + part.tie.shift)
    for part in parts:
        apart = last.info["started"] + last.tie.shift - part.info["ended"] - part.tie.shift
        if apart > 0:
            raise UserError(
                f"{part.run.path} had ended {apart:.1f} s before {last.run.path} began, by the clocks of "
                "their hosts: these are two jobs, or the clocks differ by more than the run took"
            )


def _name_hosts(parts: Sequence[_Part]) -> None:
    """Machines of one name get names of their own: their clocks say that they are two."""
    known: dict[str, int] = {}
    for part in parts:
        for host, offset in part.hosts.items():
            name, number = host, 2
            while abs(known.get(name, offset) - offset) > ONE_CLOCK:
                name, number = f"{host}-{number}", number + 1
            known.setdefault(name, offset)
            if name != host:
                part.names[host] = name


def tie(first: _Part, part: _Part) -> Tie:
    """The clock of ``part`` against that of ``first``: by the barriers that both passed, and as measured."""
    here, there = first.named(first.host), part.named(part.host)
    if {part.named(host) for host in part.hosts} <= {first.named(host) for host in first.hosts}:
        return Tie(0.0, "")
    low, high, source = _bounds(first, part)
    if not source:
        return Tie(
            0.0,
            f"the clock of {there} is taken as it is: no barriers of the program show by how much it "
            f"differs from that of {here}",
        )
    return tie_of(here, there, ClockBounds(low, high), source)


def _bounds(first: _Part, part: _Part) -> tuple[float, float, str]:
    """Seconds to add to the clock of ``part``, at least and at most, and what says so, if anything does.

    No rank ends a barrier before the other has begun it, so each bounds the difference on either side.
    """
    low, high, count = float("-inf"), float("inf"), 0
    for mine in first.barriers():
        for other in part.barriers():
            if [each[0] for each in mine] != [each[0] for each in other]:
                continue  # not of the same group
            for (_, start, end), (_, began, ended) in zip(mine, other, strict=True):
                low, high, count = max(low, start - ended), min(high, end - began), count + 1
    source = f"{count} barrier{'s' if count > 1 else ''}" if count and low <= high else ""
    if first.clock is None or part.clock is None:
        return low, high, source
    least, most = first.clock.low - part.clock.high, first.clock.high - part.clock.low
    if not source:
        return least, most, "asking both"
    if max(low, least) > min(high, most):  # a clock was set between the run and the question
        return low, high, source
    return max(low, least), min(high, most), f"{source} and asking both"


# --- the new folder -------------------------------------------------------------------------------


def _copy(parts: Sequence[_Part], draft: str) -> None:
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


def _copy_raw(path: str, target: str, part: _Part) -> None:
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
        shutil.copyfileobj(source, file, 1 << 20)


def _whole(parts: Sequence[_Part]) -> FinishedRun:
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


def _finish(parts: Sequence[_Part], draft: str) -> None:
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


def _problems(part: _Part) -> Iterator[str]:
    for text in (*part.info.get("problems", ()), *part.run.damage):
        yield f"{part.named(part.host)}: {text}"
    if part.info.get("collected") is False:
        yield f"{part.named(part.host)}: how the program ended is not known, as inject ended before it"


def _remarks(parts: Sequence[_Part]) -> list[str]:
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
