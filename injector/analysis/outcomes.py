"""What became of each rank: one classifier, for a run that goes on and for one that is over.

A rank *died* if it ended with an error before the run was ended from outside. It *hung* if it recorded
nothing for much longer than its steps usually take, was in no collective, and others waited in one (these
*waited*) or went on. Where all ranks were silent and none is known to have waited, they are *stuck*. A rank
that ended because another one did *followed* it. While a run goes on, a rank is judged by the time that has
passed until now; afterwards, by the time until its end. A process that records nothing for a minute, while no
rank waits for it, is *silent*.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from ..named_tuple import NamedTuple
from ..value_class import replace, state_class
from .profile import RankOutcome, SourceLine
from .wording import duration, line_of, short, signal_name

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

SECOND = 1_000_000_000
WAITING = "comm"
"""The region in which a rank waits for others."""
LEAST = 10.0
"""Seconds without a span after which a rank counts as hanging."""
TIMES = 20.0
"""So many of its usual steps have to fit into that time."""
SILENT = 60.0
"""Seconds without a span after which a process that no rank waits for is called silent."""
POLITE = (-_signal.SIGINT, -_signal.SIGTERM, -_signal.SIGHUP)
"""How launchers end the ranks that are left when one has died."""
MARGIN = SECOND // 2
"""Before the end of a run, in which its processes may already have been ended with it."""


class RegionCall(NamedTuple):
    """A region that a process is in, or was in last."""

    region: str
    what: str | None
    place: SourceLine | None

    @property
    def name(self) -> str:
        """``comm (all_reduce)``."""
        return f"{self.region} ({self.what})" if self.what else self.region


class LastSpan(NamedTuple):
    """The last span that a process recorded, without waits: a rank that hangs may sleep over and over."""

    began: int
    """Unix nanoseconds, as ``ended``."""
    ended: int
    call: RegionCall


@state_class
class RankProcess:
    """A process that may be a rank of a job, as far as it is known. Times are unix nanoseconds."""

    rank: int | None
    process: int = 0
    """Index of ``processes`` in run.json."""
    host: str = ""
    pid: int | None = None
    ppid: int | None = None
    attempt: int | None = None
    """How often its job had been started before; None until :mod:`.attempts` has counted."""
    slot: int | None = None
    """Which of its launcher's ranks on this host it is (``LOCAL_RANK``)."""
    world: int | None = None
    """The number of ranks, as its launcher had it at the start."""
    master: str | None = None
    """Where the ranks of its job meet: ``host:port``."""
    became: RankProcess | None = None
    """The record of what it became by ``exec``."""
    began: int = 0
    own_end: int | None = None
    """When it recorded its own end."""
    gone: int | None = None
    """When another process saw that it had ended."""
    alive: bool = False
    """Whether nothing says that it has ended, and the run goes on."""
    code: int | None = None
    """Its exit code, or minus the signal that it died by; None if unknown."""
    error: str = ""
    in_order: bool = False
    """Whether it recorded its end, or became another program (``exec``), whose record is another one."""
    last: LastSpan | None = None
    opened: tuple[RegionCall, ...] = ()
    """The calls that it is in now, or was in at its end, of those that are seen while they are open."""
    steps: int = 0
    usual: float = 0.0
    """Seconds of its median step."""
    until: int = 0
    """The moment at which it is judged: now, or its end."""

    @property
    def heard(self) -> int:
        """When it is last known to have done anything."""
        return max(self.began, self.own_end or 0, self.last.ended if self.last else 0)

    @property
    def end(self) -> int | None:
        """When it ended; None if no process saw that."""
        return self.gone or self.own_end

    @property
    def abnormal(self) -> bool:
        """Whether it ended with an error, or vanished."""
        if self.alive:
            return False
        if self.code is not None:
            return self.code != 0
        return bool(self.error) or not self.in_order

    @property
    def how(self) -> str:
        """How it ended: the exception, the exit code or the signal."""
        if self.error:
            return self.error
        if self.code is None:
            return "exit not known"
        if self.code >= 0:
            return f"exit code {self.code}"
        return f"killed by {signal_name(-self.code)}"

    @property
    def silence(self) -> float:
        """Seconds between the end of its last span and the moment at which it is judged."""
        return (self.until - (self.last.ended if self.last else self.heard)) / SECOND

    @property
    def limit(self) -> float:
        """Seconds of silence after which it is not just slow."""
        return max(LEAST, TIMES * self.usual)

    @property
    def collective(self) -> RegionCall | None:
        """The collective that it is in, or was in at its end."""
        return next((call for call in self.opened if call.region == WAITING), None)

    @property
    def waited(self) -> tuple[RegionCall, float] | None:
        """The collective in which it waits for long, or did until its end, and for how many seconds."""
        if self.last is None:
            return None
        if self.collective is not None:
            return (self.collective, self.silence) if self.silence > self.limit else None
        seconds = (self.last.ended - self.last.began) / SECOND
        if self.last.call.region == WAITING and seconds > self.limit:
            return self.last.call, seconds  # its end interrupted the call
        return None


def gone_of(fact: Mapping[str, Any]) -> int | None:
    """When a process of run.json was seen to have ended, unix nanoseconds; None if it was not."""
    gone = fact.get("gone")
    return round(gone * SECOND) if isinstance(gone, (int, float)) else None


# --- which processes are ranks ----------------------------------------------


def own(processes: Sequence[RankProcess], recorded: Sequence[bool]) -> list[int]:
    """The ranks among ``processes``, which are in the order in which they began; by their indices.

    What a rank starts (workers, helpers) inherits its rank. Of processes that descend from each other
    and have the same rank it is the first that ``recorded`` spans.
    """
    latest: dict[tuple[str, int | None], int] = {}
    root: dict[int, int] = {}
    families: dict[int, list[int]] = {}
    for index, each in enumerate(processes):
        if each.rank is not None:
            above = latest.get((each.host, each.ppid))
            same = above is not None and processes[above].rank == each.rank
            root[index] = root.get(above, above) if same and above is not None else index
            families.setdefault(root[index], []).append(index)
        latest[each.host, each.pid] = index
    return sorted(
        next((one for one in family if recorded[one]), family[0]) for family in families.values()
    )


# --- the classifier -------------------------------------------------------------------------------


class Together(NamedTuple):
    """What several ranks do, taken together once: a job has thousands, and each is compared with all."""

    waits: bool
    """Whether one of them waits in a collective for long."""
    heard: int
    """When any of them is last known to have done anything."""


def together(ranks: Iterable[RankProcess]) -> Together:
    """Of these ``ranks``."""
    waits, heard = False, 0
    for each in ranks:
        waits = waits or each.waited is not None
        heard = max(heard, each.heard)
    return Together(waits, heard)


def hangs(one: RankProcess, ranks: Together) -> bool:
    """Whether it records nothing and is in no collective, while one of ``ranks`` waits in one or went on."""
    if not one.steps or one.silence <= one.limit or one.collective is not None or one.waited:
        return False
    return ranks.waits or ranks.heard > one.heard + round(one.limit * SECOND)


def outcome_now(one: RankProcess, ranks: Together) -> RankOutcome | None:
    """What has become of a rank of a run that goes on; None of one that works, or ended in order.

    ``ranks`` are those that have not ended.
    """
    if one.abnormal:
        kind = "died"
    elif not one.alive:
        return None
    elif one.collective is not None and one.waited is not None:
        kind = "waited"
    elif hangs(one, ranks):
        kind = "hung"
    elif one.silence > max(SILENT, one.limit):
        kind = "silent"
    else:
        return None
    return _outcome(one, kind, {})


def outcomes_of(info: Mapping[str, Any], ranks: Sequence[RankProcess]) -> tuple[RankOutcome, ...]:
    """Of the ranks that did not end in order, attempt by attempt; in each the first cause first.

    ``info`` is what run.json says of the run: when and how it ended, and whether it was ended from outside.
    """
    if not _is_over(info) or (info.get("stopped") and info["exit"].get("code") == 0):
        return ()
    found: list[RankOutcome] = []
    ordered = sorted(ranks, key=lambda each: each.attempt or 0)
    attempts: dict[int | None, list[int]] = {}
    for each in ordered:
        attempts.setdefault(each.rank, []).append(each.attempt or 0)
    for _, group in groupby(ordered, key=lambda each: each.attempt or 0):
        found += _of_attempt(info, list(group), attempts)
    return tuple(found)


def _is_over(info: Mapping[str, Any]) -> bool:
    ended = info.get("exit") or {}
    known = ended.get("code") is not None or ended.get("signal") is not None
    return known and isinstance(info.get("ended"), (int, float))


def _of_attempt(
    info: Mapping[str, Any], group: list[RankProcess], attempts: Mapping[int | None, list[int]]
) -> list[RankOutcome]:
    """``attempts``: by rank, all of the run."""
    broken = [each for each in group if each.abnormal]
    if not broken:
        return []
    cut = _cut(info)
    for each in group:
        each.until = _until(each, info, cut)
    kinds = _kinds(broken, group, cut)
    order = sorted(
        (each for each in broken if id(each) in kinds),
        key=lambda each: (_ORDER[kinds[id(each)]], each.until - round(each.silence * SECOND)),
    )
    return [_outcome(each, kinds[id(each)], attempts) for each in order]


_ORDER = {"hung": 0, "stuck": 0, "died": 1, "waited": 2, "followed": 3}


def _kinds(broken: list[RankProcess], group: list[RankProcess], cut: int | None) -> dict[int, str]:
    """The kind of each that has an outcome, by identity."""
    dead = [each for each in broken if cut is None or each.until < cut]
    everyone = together(group)
    hung = [each for each in broken if hangs(each, everyone)]
    if hung:
        waited = {id(each): "waited" for each in broken if each.waited is not None}
        return {id(m): "followed" for m in dead} | waited | {id(each): "hung" for each in hung}
    if dead:
        first = min(dead, key=lambda each: (each.collective is not None, _moment_of_death(each)))
        return {id(m): "followed" if m is not first and _follows(m) else "died" for m in dead}
    silent = [each for each in broken if each.steps and each.silence > each.limit]
    return {id(m): "stuck" for m in silent} if len(silent) == len(group) > 1 else {}


def _moment_of_death(one: RankProcess) -> int:
    """For comparing: no later than it was, unless it was ended politely, as those are that follow.

    The supervisor may notice several at once, and in any order.
    """
    politely = one.code in POLITE
    return one.own_end or (politely and one.gone) or one.heard


def _until(one: RankProcess, info: Mapping[str, Any], cut: int | None) -> int:
    """When it ended, as well as that is known.

    One that vanished unseen ended with the run if it was in a collective then, or if the run was ended
    from outside; else when it was last heard of.
    """
    if one.end is not None:
        return one.end
    with_the_run = one.collective is not None or cut is not None
    return _nanoseconds(info["ended"]) if with_the_run else one.heard


def _cut(info: Mapping[str, Any]) -> int | None:
    """When the run was ended from outside, if it was: processes that ended after that did not die."""
    limits, interrupted = info.get("limits") or {}, info.get("interrupted") or {}
    if info.get("timed_out") and isinstance(limits.get("timeout"), (int, float)):
        return _nanoseconds(info["started"] + limits["timeout"]) - MARGIN
    if isinstance(interrupted.get("time"), (int, float)):
        return _nanoseconds(interrupted["time"]) - MARGIN
    if info["exit"].get("signal") is not None:
        return _nanoseconds(info["ended"]) + 1  # what the program left behind is ended then
    return None


def _nanoseconds(seconds: float) -> int:
    return round(seconds * SECOND)


def _follows(one: RankProcess) -> bool:
    """Whether its end is what becomes of a rank when another one dies."""
    return one.code in POLITE or bool(one.error) or one.collective is not None


def _outcome(one: RankProcess, kind: str, attempts: Mapping[int | None, list[int]]) -> RankOutcome:
    wait = one.waited if kind == "waited" else None
    attempt = one.attempt or 0
    inside = (wait[0],) if wait else one.opened
    return RankOutcome(
        rank=one.rank or 0,
        attempt=attempt,
        process=one.process,
        kind=kind,
        how=one.how,
        steps=one.steps,
        usual=one.usual,
        last=one.last.call.region if one.last else "",
        place=one.last.call.place if one.last else None,
        inside=tuple((call.name, call.place) for call in inside),
        seconds=wait[1] if wait else max(one.silence, 0.0),
        ended=one.end / SECOND if one.end is not None else None,
        restarted=next((n for n in attempts.get(one.rank, ()) if n > attempt), None),
    )


# --- in words -------------------------------------------------------------------------------------


def is_broken(outcomes: Sequence[RankOutcome]) -> bool:
    """Whether some rank was not started again: the job as a whole did not come to its end."""
    return any(each.restarted is None for each in outcomes)


def sentences(outcomes: Sequence[RankOutcome]) -> list[str]:
    """One for each rank; ranks with the same outcome share one."""
    several = any(each.attempt or each.restarted is not None for each in outcomes)
    groups: dict[tuple[object, ...], list[RankOutcome]] = {}
    for each in outcomes:
        groups.setdefault(_alike(each), []).append(each)
    return [
        (f"attempt {group[0].attempt}: " if several else "") + _sentence(group)
        for group in groups.values()
    ]


def _alike(one: RankOutcome) -> tuple[object, ...]:
    """What has to be the same of two ranks that share a sentence."""
    same = replace(one, rank=0, process=0, usual=0.0, seconds=0.0, ended=None)
    return (same,) if one.kind in ("followed", "waited") else (same, one.rank)


def _sentence(group: Sequence[RankOutcome]) -> str:
    one = max(group, key=lambda each: each.seconds)
    numbers = sorted(each.rank for each in group)
    ranks = ", ".join(map(str, numbers[:16])) + (", …" if len(numbers) > 16 else "")
    again = "" if one.restarted is None else f"; started again as attempt {one.restarted}"
    return f"rank{'s' if len(numbers) > 1 else ''} {ranks} {predicate(one)}{again}"


def predicate(one: RankOutcome, now: bool = False) -> str:
    """What became of a rank, without naming it; ``now``: the run goes on."""
    has = "has " if now else ""
    spent = duration(one.seconds)
    if one.kind == "waited":
        return f"{has}waited {spent} in {_calls(one)}, after step {one.steps}"
    if one.kind in ("hung", "stuck"):
        usual = f" (a step usually takes {short(one.usual)})" if one.usual else ""
        cause = "; which rank is the cause is not known" if one.kind == "stuck" else ""
        return f"{has}hung for {spent} after step {one.steps}{usual}; {_where(one, now)}{cause}"
    if one.kind == "silent":
        return f"has recorded nothing for {spent} after step {one.steps}; {_where(one, now)}"
    if one.kind == "followed":
        inside = f", in {_calls(one)}" if one.inside else ""
        return f"ended after that, at step {one.steps}: {one.how}{inside}"
    return f"died at step {one.steps}: {one.how}; {_where(one)}"


def _where(one: RankOutcome, now: bool = False) -> str:
    """What it is in, or the last span that it recorded."""
    if one.inside:
        return f"it {'is' if now else 'was'} in {_calls(one)}"
    if not one.last:
        return "it recorded no span"
    return f"its last span: {_call(one.last, one.place)}"


def _calls(one: RankOutcome) -> str:
    return " and ".join(_call(name, place) for name, place in one.inside)


def _call(name: str, place: SourceLine | None) -> str:
    return f"{name} at {line_of(place)}" if place else name
