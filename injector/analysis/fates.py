"""What became of the ranks: which died or hung, what the others did then, what was started again.

A rank *died* if it ended otherwise than in order, before the run was ended from outside. It *hung* if it
had recorded nothing for much longer than its steps usually take when it ended, was in no collective,
and others waited in one (these *waited*) or went on. Where all were silent and none of them is known to
have waited, they are *stuck*. Who ended because another one did *followed* it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from .columns import SECOND, Site
from .members import WAITING, Member
from .profile import Fate

LEAST = 10.0
"""Seconds without a sign after which a rank may be said to hang; the live view says so as well."""
TIMES = 20.0
"""So many of its usual steps have to fit in there."""
POLITE = (-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP)
"""How launchers end the ranks that are left when one has died."""
MARGIN = SECOND // 2
"""Before the end of a run, in which its processes may already have been ended with it."""


def fates_of(info: Mapping[str, Any], members: Sequence[Member]) -> tuple[Fate, ...]:
    """Of the members that did not end in order, attempt by attempt; in each the first cause first."""
    if _nobody_knows(info) or (info.get("stopped") and info["exit"].get("code") == 0):
        return ()  # it goes on, or nobody saw how it ended; or it ended as it was to
    found: list[Fate] = []
    ordered = sorted(members, key=lambda member: member.attempt)
    for _, group in groupby(ordered, key=lambda member: member.attempt):
        found += _attempt(info, list(group), members)
    return tuple(found)


def _nobody_knows(info: Mapping[str, Any]) -> bool:
    ended = info.get("exit") or {}
    known = ended.get("code") is not None or ended.get("signal") is not None
    return not known or not isinstance(info.get("ended"), (int, float))


def _attempt(
    info: Mapping[str, Any], group: list[Member], everybody: Sequence[Member]
) -> list[Fate]:
    """One attempt of a job."""
    broken = [member for member in group if member.abnormal]
    if not broken:
        return []
    cut = _cut(info)
    until = {id(member): _until(member, info, cut) for member in group}
    kinds = _kinds(broken, group, until, cut)
    order = sorted(
        (member for member in broken if id(member) in kinds),
        key=lambda m: (
            _ORDER[kinds[id(m)]],
            until[id(m)] - round(silence(m, until[id(m)]) * SECOND),
        ),
    )
    return [_fate(m, kinds[id(m)], until[id(m)], everybody) for m in order]


_ORDER = {"hung": 0, "stuck": 0, "died": 1, "waited": 2, "followed": 3}


def _kinds(
    broken: list[Member], group: list[Member], until: Mapping[int, int], cut: int | None
) -> dict[int, str]:
    """The kind of each whose end has to be told, by identity."""
    hung = [member for member in broken if _hangs(member, group, until)]
    if hung:
        kinds = {id(m): "hung" for m in hung}
        for other in broken:
            if id(other) not in kinds and waited(other, until[id(other)]) is not None:
                kinds[id(other)] = "waited"
        return kinds | {id(m): "followed" for m in _dead(broken, until, cut) if id(m) not in kinds}
    dead = _dead(broken, until, cut)
    if dead:
        first = min(dead, key=lambda m: (m.waits is not None, _moment_of_death(m)))
        return {id(m): "followed" if m is not first and _follows(m) else "died" for m in dead}
    silent = [m for m in broken if m.steps and silence(m, until[id(m)]) > limit(m)]
    return {id(m): "stuck" for m in silent} if len(silent) == len(group) > 1 else {}


def _moment_of_death(member: Member) -> int:
    """For comparing: no later than it was, unless it was ended politely, as those are that follow.

    Who watches from outside may notice several at once, and in any order.
    """
    politely = member.code in POLITE
    return member.source.ended or (politely and member.gone) or member.last


def _dead(broken: list[Member], until: Mapping[int, int], cut: int | None) -> list[Member]:
    return [m for m in broken if cut is None or until[id(m)] < cut]


def _until(member: Member, info: Mapping[str, Any], cut: int | None) -> int:
    """When it ended, as well as that is known.

    One that vanished unseen ended with the run if it was in a collective then, or if somebody ended the
    run; else it is last heard of before.
    """
    if member.end is not None:
        return member.end
    with_the_run = member.waits is not None or cut is not None
    return _moment(info["ended"]) if with_the_run else member.last


def _moment(seconds: float) -> int:
    return round(seconds * SECOND)


def _cut(info: Mapping[str, Any]) -> int | None:
    """When somebody ended the run, if anybody did: processes that ended after that did not die."""
    limits, interrupted = info.get("limits") or {}, info.get("interrupted") or {}
    if info.get("timed_out") and isinstance(limits.get("timeout"), (int, float)):
        return _moment(info["started"] + limits["timeout"]) - MARGIN
    if isinstance(interrupted.get("time"), (int, float)):
        return _moment(interrupted["time"]) - MARGIN
    if info["exit"].get("signal") is not None:
        return _moment(info["ended"]) + 1  # what the program left behind is ended then
    return None


def silence(member: Member, until: int) -> float:
    """Seconds that passed between the last that it recorded and its end."""
    return (until - (member.trail.ended if member.trail else member.last)) / SECOND


def limit(member: Member) -> float:
    """Seconds of silence from which on a rank hangs."""
    return max(LEAST, TIMES * member.usual)


def _hangs(member: Member, group: Sequence[Member], until: Mapping[int, int]) -> bool:
    """Whether it recorded nothing any more and was in no collective; others waited in one or went on."""
    end = until[id(member)]
    if not member.steps or silence(member, end) <= limit(member) or member.waits is not None:
        return False
    enough = round(limit(member) * SECOND)
    return waited(member, end) is None and any(
        waited(other, until[id(other)]) is not None or other.last > member.last + enough
        for other in group
        if other is not member
    )


def waited(member: Member, until: int) -> tuple[Site, float] | None:
    """The collective in which it waited for long until its end, and for how many seconds."""
    trail = member.trail
    if trail is None:
        return None
    if member.waits is not None:
        seconds = (until - trail.ended) / SECOND
        return (member.waits, seconds) if seconds > limit(member) else None
    seconds = (trail.ended - trail.began) / SECOND  # it was torn out of it in the end
    if trail.site.region == WAITING and seconds > limit(member):
        return trail.site, seconds
    return None


def _follows(member: Member) -> bool:
    """Whether its end is what becomes of a rank when another one dies."""
    return member.code in POLITE or bool(member.error) or member.waits is not None


def _fate(member: Member, kind: str, until: int, everybody: Iterable[Member]) -> Fate:
    wait = waited(member, until) if kind == "waited" else None
    again = [m for m in everybody if m.rank == member.rank and m.attempt > member.attempt]
    return Fate(
        rank=member.rank,
        attempt=member.attempt,
        process=member.source.index,
        kind=kind,
        how=_how(member),
        steps=member.steps,
        usual=member.usual,
        last=member.trail.site.region if member.trail else "",
        place=member.trail.site.place if member.trail else None,
        inside=tuple((_name(site), site.place) for site in _inside(member, wait)),
        seconds=wait[1] if wait else max(silence(member, until), 0.0),
        ended=member.end / SECOND if member.end is not None else None,
        restarted=min((m.attempt for m in again), default=None),
    )


def _inside(member: Member, wait: tuple[Site, float] | None) -> tuple[Site, ...]:
    """The calls that it never came out of."""
    if wait is not None:
        return (wait[0],)
    return member.trail.opened if member.trail else ()


def _name(site: Site) -> str:
    return f"{site.region} ({site.what})" if site.what else site.region


def _how(member: Member) -> str:
    """How it ended, in words."""
    if member.error:
        return member.error
    if member.code is None:
        return "nobody knows how"
    if member.code >= 0:
        return f"exit code {member.code}"
    try:
        return f"killed by {signal.Signals(-member.code).name}"
    except ValueError:
        return f"killed by signal {-member.code}"
