"""The processes that are ranks of a job: which one is which, at which attempt, and its last sign of life."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..store import packed
from .columns import SECOND, Rows, Site, Source
from .samples import median_of
from .units import Unit

WAITING = "comm"
"""The region in which a rank waits for others."""


class Trail(NamedTuple):
    """The last that a process recorded."""

    began: int
    """When its last span began, and when it ended; unix nanoseconds."""
    ended: int
    site: Site
    opened: tuple[Site, ...]
    """The calls that it was in at its end, of those that can be seen while they are open."""


def trail_of(source: Source, rows: Rows) -> Trail | None:
    """The last that ``source`` recorded, without waits; None if it recorded no such span.

    A rank that hangs may sleep over and over: a wait is no sign that it goes on.
    """
    waits = [number for number, site in source.sites.items() if site.region == "wait"]
    others = np.flatnonzero(~np.isin(rows.site, waits))
    if not len(others):
        return None
    last = int(others[rows.end[others].argmax()])
    open_sites = (source.sites.get(number) for number in packed.opened(source.spans_path))
    return Trail(
        int(rows.start[last]),
        int(rows.end[last]),
        source.sites[int(rows.site[last])],
        tuple(site for site in open_sites if site is not None),
    )


@dataclass
class Member:
    """One process that is a rank of the job. Times are unix nanoseconds."""

    source: Source
    rank: int
    attempt: int
    code: int | None
    """Its exit code, or minus the signal that it died by; None if nobody knows."""
    gone: int | None
    """When it was seen to be gone, if it was."""
    error: str
    replaced: bool
    """Whether it became another program (``exec``), which is a process of its own in the record."""
    trail: Trail | None
    steps: int = 0
    usual: float = 0.0
    """Seconds of its median step."""

    @property
    def last(self) -> int:
        """The last that is heard of it."""
        signs = [self.source.began, self.source.ended, self.trail and self.trail.ended]
        return max(sign for sign in signs if sign)

    @property
    def end(self) -> int | None:
        """When it ended; None for one that vanished."""
        return self.gone or self.source.ended

    @property
    def abnormal(self) -> bool:
        """Whether it ended otherwise than in order."""
        if self.code is not None:
            return self.code != 0
        return bool(self.error) or not (self.source.ended is not None or self.replaced)

    @property
    def waits(self) -> Site | None:
        """The collective that it was in at its end."""
        opened = self.trail.opened if self.trail else ()
        return next((site for site in opened if site.region == WAITING), None)


def members_of(
    info: Mapping[str, Any],
    sources: Sequence[Source],
    trails: Mapping[int, Trail],
    units: Sequence[Unit],
) -> list[Member]:
    """The ranks of a run in the order in which they began; nothing where nobody collected it."""
    facts = info.get("processes")
    if not isinstance(facts, list) or len(facts) != len(sources):
        return []
    again = _replaced(sources)
    found = []
    for index in _own(facts, sources, trails):
        source, fact = sources[index], facts[index]
        found.append(
            Member(
                source=source,
                rank=source.rank or 0,
                attempt=source.attempt if source.attempt is not None else -1,
                code=_code(fact.get("exit")),
                gone=_nanoseconds(fact.get("gone")),
                error=str(fact.get("error") or ""),
                replaced=index in again,
                trail=trails.get(index),
            )
        )
    for member in found:
        _count(member, [unit for unit in units if unit.source is member.source])
    _number(found)
    return found


def _own(
    facts: Sequence[Mapping[str, Any]], sources: Sequence[Source], trails: Mapping[int, Trail]
) -> list[int]:
    """Of each rank its own processes. What these start (workers, helpers) is told the same rank.

    Of processes that descend from each other and are the same rank it is the first that recorded spans.
    """
    latest: dict[tuple[str, int | None], int] = {}
    root: dict[int, int] = {}
    families: dict[int, list[int]] = {}
    for index, source in enumerate(sources):
        if source.rank is not None:
            above = latest.get((source.host, facts[index].get("ppid")))
            same = above is not None and sources[above].rank == source.rank
            root[index] = root.get(above, above) if same and above is not None else index
            families.setdefault(root[index], []).append(index)
        latest[source.host, source.pid] = index
    return sorted(
        next((one for one in family if one in trails), family[0]) for family in families.values()
    )


def _replaced(sources: Sequence[Source]) -> set[int]:
    """Processes whose number recorded once more without an end in between."""
    last: dict[tuple[str, int | None], int] = {}
    found = set()
    for index, source in enumerate(sources):
        before = last.get((source.host, source.pid))
        if before is not None and sources[before].ended is None:
            found.add(before)
        last[source.host, source.pid] = index
    return found


def _count(member: Member, units: list[Unit]) -> None:
    """The steps of its last loop, and what they usually took."""
    if units:
        unit = max(units, key=lambda unit: int(unit.end[-1]))
        member.steps = len(unit.start)
        member.usual = median_of(unit.table.seconds)


def _number(members: list[Member]) -> None:
    """Attempts that no launcher has numbered: who begins after the one before it was last heard of."""
    known: dict[tuple[str, int], list[Member]] = {}
    for member in members:
        before = known.setdefault((member.source.host, member.rank), [])
        if member.attempt < 0:
            followed = [one for one in before if one.last <= member.source.began]
            member.attempt = 1 + max((one.attempt for one in followed), default=-1)
        before.append(member)


def _code(exit: object) -> int | None:
    if not isinstance(exit, dict):
        return None
    signal, code = exit.get("signal"), exit.get("code")
    return -signal if isinstance(signal, int) else code if isinstance(code, int) else None


def _nanoseconds(seconds: object) -> int | None:
    return round(seconds * SECOND) if isinstance(seconds, (int, float)) else None
