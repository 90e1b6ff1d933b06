"""Run folders that were recorded apart: what each has of a job, and whether they are parts of one.

An elastic launcher that starts a job again may give a rank to another node: it is in two parts then, as two
attempts of one job.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from ..errors import UserError
from ..store import spans
from ..store.call_sites import read_call_sites
from ..store.folder import Run
from ..store.logs import UNKNOWN, Log, logs_of
from .clocks import ClockBounds, Tie
from .endings import Gone

BARRIERS = ("barrier", "monitored_barrier", "all_gather_object", "DDP's parameters")
"""Collectives that no rank leaves before all have entered, and that wait on the host; the last is what each
DistributedDataParallel begins with."""
ONE_CLOCK = 1_000_000_000
"""Nanoseconds by which unix time less the monotonic clock may differ on one host, where the wall clock is
adjusted; of two machines it differs by what lies between their boots."""


class PartMember:
    """A process of a rank, or one that has its number from it."""

    def __init__(self, part: JobPart, log: Log, facts: Mapping[str, Any]) -> None:
        self.part = part
        self.log = log
        self.rank: int = facts["rank"]
        self.attempt: int | None = facts.get("attempt")
        """As its launcher counts, which on several nodes is not the number of all attempts."""
        self.world: int | None = facts.get("world")
        self.master = log.process.get("master")
        """Where the ranks of its job met."""

    @property
    def began(self) -> float:
        """Unix seconds by the clock of the whole run."""
        return self.log.clock.at(self.log.began) + self.part.tie.shift

    @cached_property
    def _heard(self) -> float:
        """When it did what it recorded last, by its own clock."""
        moments = [record.get("t") for record in self.log.records()]
        path = self.log.stem + spans.SUFFIX
        if os.path.exists(path) or spans.is_packed(path):
            moments += [row[1] for row in spans.read(path)]
        last = max((each for each in moments if isinstance(each, int)), default=None)
        return self.log.clock.at(last if last is not None else self.log.began)

    @property
    def heard(self) -> float:
        """When it did what it recorded last: it may have gone on."""
        return max(self.began, self._heard + self.part.tie.shift)

    @cached_property
    def barriers(self) -> list[tuple[Any, float, float]]:
        """The collectives that wait for all: what and where; begin and end in unix seconds of its clock."""
        path = self.log.stem + spans.SUFFIX
        if not (os.path.exists(path) or spans.is_packed(path)):
            return []
        sites = {
            number: (site.label, site.place and (site.place.function, site.place.line))
            for number, site in read_call_sites(self.log.path).items()
            if site.clock == "host" and site.label in BARRIERS
        }
        rows = sorted(row for row in spans.read(path) if row[3] in sites) if sites else []
        at = self.log.clock.at
        return [(sites[row[3]], at(row[0]), at(row[1])) for row in rows]


class JobPart:
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
        self.error = 0.0
        """Seconds by which its clock may still differ, where that is known."""
        self.members = [
            PartMember(self, log, each)
            for log, each in zip(self.logs, self.info["processes"], strict=True)
            if isinstance(each.get("rank"), int)
        ]
        for each in self.info["processes"]:
            if isinstance(each.get("rank"), int):
                self.host = str(each.get("host") or self.host)

    @property
    def first(self) -> tuple[int, float, str]:
        """Orders parts: by the least of their ranks, the one that was its node first."""
        least = min(self.members, key=lambda one: (one.rank, one.began))
        return least.rank, least.began, self.run.path

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


def check_program(parts: Sequence[JobPart]) -> None:
    """Raise UserError where they are not parts of one job."""
    named = [part for part in parts if part.info.get("collected") is not False]
    for part in parts:
        path = part.run.path
        if not part.members:
            raise UserError(
                f"{path}: no process in it has a rank; only ranks of one job are merged"
            )
        if part in named and part.info["name"] != named[0].info["name"]:
            raise UserError(
                f"{path} is a run of {part.info['name']}, {named[0].run.path} one of "
                f"{named[0].info['name']}: only ranks of one program are merged"
            )


def check_ranks(parts: Sequence[JobPart]) -> None:
    """Raise UserError where two parts cannot be of one job, by what they have in an attempt at the same time.

    A launcher may give a rank to another node when it starts all ranks again, of which there may be another
    number then, and those of the other node may count it as the same attempt (:mod:`..analysis.attempts`).
    """
    same: dict[tuple[int, int | None], list[PartMember]] = {}
    attempts: dict[int | None, list[PartMember]] = {}
    for each in (each for part in parts for each in part.members):
        same.setdefault((each.rank, each.attempt), []).append(each)
        attempts.setdefault(each.attempt, []).append(each)
    for (rank, attempt), members in same.items():
        for one, other in _of_two_parts(members, lambda each: each.part):
            where = f"rank {rank} is in {one.part.run.path} and in {other.part.run.path}"
            if attempt is None:
                raise UserError(
                    f"{where}, and no elastic launcher says that it was started again: only ranks of one "
                    "job are merged"
                )
            if (common := _in_common(one, other)) > 0:
                raise UserError(
                    f"{where}, for {common:.3g} s at the same time by the clocks of their hosts, as attempt "
                    f"{attempt} of both: only ranks of one job are merged"
                )
    for members in attempts.values():
        if len({each.world for each in members}) > 1:
            for one, other in _of_two_parts(members, lambda each: each.world):
                if one.part is not other.part and _in_common(one, other) > 0:
                    raise UserError(
                        f"{other.part.run.path} has a rank of {other.world}, {one.part.run.path} one of "
                        f"{one.world} at the same time: these are two jobs"
                    )


def _of_two_parts(
    members: Sequence[PartMember], which: Callable[[PartMember], object]
) -> Iterator[tuple[PartMember, PartMember]]:
    """Each of ``members``, and of those that began before it with another ``which`` the last to end."""
    if len(set(map(which, members))) < 2:
        return
    last: dict[object, PartMember] = {}
    for each in sorted(members, key=lambda one: one.began):
        mine = which(each)
        yield from ((other, each) for key, other in last.items() if key != mine)
        if mine not in last or last[mine].heard < each.heard:
            last[mine] = each


def _in_common(one: PartMember, other: PartMember) -> float:
    """Seconds for which two processes surely were there together."""
    together = min(one.heard, other.heard) - max(one.began, other.began)
    return together - one.part.error - other.part.error


def check_times(parts: Sequence[JobPart]) -> None:
    """Raise UserError for a part that began when all that had begun before it had ended."""
    before: JobPart | None = None
    for part in sorted(parts, key=lambda each: each.info["started"] + each.tie.shift):
        if before is not None:
            apart = part.info["started"] + part.tie.shift - before.info["ended"] - before.tie.shift
            if apart > 0:
                raise UserError(
                    f"{before.run.path} had ended {apart:.1f} s before {part.run.path} began, by the clocks "
                    "of their hosts: these are two jobs, or the clocks differ by more than the run took"
                )
            if part.info["ended"] + part.tie.shift < before.info["ended"] + before.tie.shift:
                continue
        before = part


def name_hosts(parts: Sequence[JobPart]) -> None:
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
