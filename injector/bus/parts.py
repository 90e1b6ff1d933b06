"""The parts of a job that were recorded apart, a run folder on each node, and the checks that they are of one
job.

An elastic launcher that starts a job again may give a rank to another node. Then the rank is in two parts, as
two attempts of one job, which must not overlap in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from ..errors import UserError
from ..exit_status import code_of
from ..store import spans
from ..store.call_sites import read_call_sites
from ..store.folder import Run
from ..store.logs import UNKNOWN, Log, logs_of
from .clocks import ClockBounds, Tie
from .endings import Gone

BARRIERS = ("barrier", "monitored_barrier", "all_gather_object", "DDP's parameters")
"""Labels of collectives that no rank leaves before all have entered, and for which the host waits. The last
is the comparison of parameters with which each DistributedDataParallel begins.
"""
ONE_CLOCK = 1_000_000_000
"""Nanoseconds: by less, unix time minus the monotonic clock may differ between two processes of one host, as
the wall clock is adjusted. On two machines the difference is the time between their boots.
"""


class PartMember:
    """A process of a part that has a rank: the rank itself, or a child that inherited its number."""

    def __init__(self, part: JobPart, log: Log, facts: Mapping[str, Any]) -> None:
        self.part = part
        self.log = log
        self.rank: int = facts["rank"]
        self.attempt: int | None = facts.get("attempt")
        """How often its launcher had started it again; launchers of several nodes may count differently."""
        self.world: int | None = facts.get("world")
        self.master = log.process.get("master")
        """The address and port at which the ranks of its job met."""

    @property
    def began(self) -> float:
        """When it began, unix seconds by the clock of the whole run."""
        return self.log.clock.at(self.log.began) + self.part.tie.shift

    @cached_property
    def _last_recorded(self) -> float:
        """The end of the last thing that it recorded, unix seconds by its own clock."""
        moments = [record.get("t") for record in self.log.records()]
        path = self.log.stem + spans.SUFFIX
        if spans.exists(path):
            moments += [row[1] for row in spans.read(path)]
        last = max((moment for moment in moments if isinstance(moment, int)), default=None)
        return self.log.clock.at(last if last is not None else self.log.began)

    @property
    def last_recorded(self) -> float:
        """The end of the last thing that it recorded, unix seconds by the clock of the whole run.

        It may have gone on after that, and not before :attr:`began`.
        """
        return max(self.began, self._last_recorded + self.part.tie.shift)

    @cached_property
    def barriers(self) -> list[tuple[Any, float, float]]:
        """Its calls of :data:`BARRIERS` in order: label, line; begin and end, unix seconds of its clock."""
        path = self.log.stem + spans.SUFFIX
        if not spans.exists(path):
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
    """One of the run folders of a job."""

    def __init__(self, run: Run, clock: ClockBounds | None) -> None:
        """``clock``: how far the clock of its host is ahead of ours, if that was measured."""
        self.run = run
        self.clock = clock
        self.info = run.info
        self.logs = logs_of(run.content, self.info["processes"])
        self.hosts = {str(log.host): log.clock.offset for log in self.logs if log.began is not None}
        """By host what to add to its monotonic clock for unix time, nanoseconds."""
        self.host = str(self.info.get("host"))
        """The host of its ranks; collected elsewhere, ``run.json`` has the collector's."""
        self.names: dict[str, str] = {}
        """New names of hosts, by the old name that another machine has as well."""
        self.tie = Tie(0.0, "")
        """What is to be added to its unix times; 0 until :func:`.part_clocks.tie_all`."""
        self.error = 0.0
        """Seconds by which its clock may then still differ, as far as that is known."""
        self.members = [
            PartMember(self, log, facts)
            for log, facts in zip(self.logs, self.info["processes"], strict=True)
            if isinstance(facts.get("rank"), int)
        ]
        for facts in self.info["processes"]:
            if isinstance(facts.get("rank"), int):
                self.host = str(facts.get("host") or self.host)

    @property
    def first(self) -> tuple[int, float, str]:
        """The key that orders parts: by their lowest ranks, and of one rank by when it began."""
        lowest = min(self.members, key=lambda member: (member.rank, member.began))
        return lowest.rank, lowest.began, self.run.path

    @property
    def code(self) -> int | None:
        """The program's exit code, or minus its deadly signal."""
        return code_of(self.info.get("exit"))

    def named(self, host: object) -> str:
        """The name of ``host`` in the whole run."""
        return self.names.get(str(host), str(host))

    def gone(self) -> Iterator[Gone]:
        """The ends of its processes, as far as they are known."""
        for log, facts in zip(self.logs, self.info["processes"], strict=True):
            code, gone = code_of(facts.get("exit")), facts.get("gone")
            # Back to the monotonic clock, from which the whole run's unix time follows again.
            at = None if gone is None or log.clock is UNKNOWN else gone - log.clock.unix
            t = None if at is None else log.clock.monotonic + round(at * 1e9)
            if (code, t) != (None, None):
                yield Gone(self.named(log.host), facts.get("pid") or 0, t, code)


def check_program(parts: Sequence[JobPart]) -> None:
    """Raise UserError if a part has no rank, or is a run of another program than the others."""
    # A run that was not collected is named after its folder, which says nothing about its program.
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
    """Raise UserError if two parts had one rank, or different numbers of ranks, at the same time.

    That alone shows that they are of two jobs. When a launcher starts all ranks again, it may give a rank to
    another node, and start another number of them. Its process on the other node may count that as the same
    attempt (:mod:`..analysis.attempts`), so attempts cannot be compared by number.
    """
    by_rank: dict[tuple[int, int | None], list[PartMember]] = {}
    by_attempt: dict[int | None, list[PartMember]] = {}
    for member in (member for part in parts for member in part.members):
        by_rank.setdefault((member.rank, member.attempt), []).append(member)
        by_attempt.setdefault(member.attempt, []).append(member)
    for (rank, attempt), members in by_rank.items():
        for one, other in _neighbours_in_time(members, lambda member: member.part):
            where = f"rank {rank} is in {one.part.run.path} and in {other.part.run.path}"
            if attempt is None:
                raise UserError(
                    f"{where}, and no elastic launcher says that it was started again: only ranks of one "
                    "job are merged"
                )
            if (common := _overlap(one, other)) > 0:
                raise UserError(
                    f"{where}, for {common:.3g} s at the same time by the clocks of their hosts, as attempt "
                    f"{attempt} of both: only ranks of one job are merged"
                )
    for members in by_attempt.values():
        if len({member.world for member in members}) > 1:
            for one, other in _neighbours_in_time(members, lambda member: member.world):
                if one.part is not other.part and _overlap(one, other) > 0:
                    raise UserError(
                        f"{other.part.run.path} has a rank of {other.world}, {one.part.run.path} one of "
                        f"{one.world} at the same time: these are two jobs"
                    )


def _neighbours_in_time(
    members: Sequence[PartMember], kind: Callable[[PartMember], object]
) -> Iterator[tuple[PartMember, PartMember]]:
    """Pairs of members of different ``kind`` that overlap in time, if any do.

    With each member comes, of each other kind, the one that recorded for longest of those that began before
    it: if that does not overlap, none does. There are many fewer such pairs than pairs of members.
    """
    if len(set(map(kind, members))) < 2:
        return
    longest: dict[object, PartMember] = {}
    for member in sorted(members, key=lambda member: member.began):
        own_kind = kind(member)
        yield from ((other, member) for key, other in longest.items() if key != own_kind)
        if own_kind not in longest or longest[own_kind].last_recorded < member.last_recorded:
            longest[own_kind] = member


def _overlap(one: PartMember, other: PartMember) -> float:
    """Seconds for which two processes certainly ran at the same time; negative if there may be none."""
    overlap = min(one.last_recorded, other.last_recorded) - max(one.began, other.began)
    return overlap - one.part.error - other.part.error


def check_times(parts: Sequence[JobPart]) -> None:
    """Raise UserError for a part that began after all parts before it had ended."""
    before: JobPart | None = None  # of the parts so far, the one that ended last
    for part in sorted(parts, key=lambda part: part.info["started"] + part.tie.shift):
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
    """Give machines that have one name, such as containers, different ones: ``HOST-2``, ``HOST-3``.

    Their monotonic clocks show that they are two machines. Without new names, the processes of both would be
    read by the clock of one.
    """
    offsets: dict[str, int] = {}
    for part in parts:
        for host, offset in part.hosts.items():
            name, number = host, 2
            while abs(offsets.get(name, offset) - offset) > ONE_CLOCK:
                name, number = f"{host}-{number}", number + 1
            offsets.setdefault(name, offset)
            if name != host:
                part.names[host] = name
