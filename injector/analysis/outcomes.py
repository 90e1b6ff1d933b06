"""What became of each rank: one classifier, for a run that goes on and for one that is over.

When one rank of a job fails, all others fail with it a little later, and each prints an error of its own. The
classifier separates the cause from its consequences. Each rank gets at most one of these kinds:

``died``      it ended with an error before the run was ended from outside, and did so first
``hung``      it recorded nothing for much longer than its steps usually take and was in no collective, while
              others waited in one or went on
``waited``    it was in a collective, for the rank that hung
``followed``  it ended because another rank had ended
``stuck``     all ranks were silent, and none is known to have waited for another
``silent``    it has recorded nothing for a minute while no rank waits for it (only while a run goes on)

Say that rank 1 of two enters an endless loop at step 40, rank 0 waits for it in ``all_reduce``, and
``--timeout`` ends the run half an hour later: rank 1 hung, rank 0 waited, and no rank died, since both ended
with the run.

While a run goes on, a rank is judged by the time that has passed until now; afterwards, by the time until its
end.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from ..exit_status import code_of
from ..named_tuple import NamedTuple
from ..value_class import state_class
from .profile import RankOutcome, SourceLine
from .wording import signal_name

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

SECOND = 1_000_000_000
WAITING = "comm"
"""The region in which a rank waits for others."""
LEAST = 10.0
"""A rank that hangs has been silent for at least so many seconds …"""
TIMES = 20.0
"""… and for at least so many of its usual steps."""
SILENT = 60.0
"""Seconds without a span after which a process that no rank waits for is called silent."""
POLITE = (-_signal.SIGINT, -_signal.SIGTERM, -_signal.SIGHUP)
"""Exit codes of ranks that their launcher ended because another one had died."""
MARGIN = SECOND // 2
"""Processes that end within so many nanoseconds before the end of the run ended because of it."""


class RegionCall(NamedTuple):
    """A call of a region that a process is in, or was in last."""

    region: str
    what: str | None
    place: SourceLine | None

    @property
    def name(self) -> str:
        """For example ``comm (all_reduce)``."""
        return f"{self.region} ({self.what})" if self.what else self.region


class LastSpan(NamedTuple):
    """The last span that a process recorded. Waits do not count: a rank that hangs may sleep in a loop."""

    began: int
    """Unix nanoseconds, as ``ended``."""
    ended: int
    call: RegionCall


@state_class
class RankProcess:
    """A process that may be a rank of a job: what is known of it. Times are unix nanoseconds."""

    rank: int | None
    process: int = 0
    """Index of ``processes`` in run.json."""
    host: str = ""
    pid: int | None = None
    ppid: int | None = None
    attempt: int | None = None
    """How often its job had been started before; None until :mod:`.attempts` has counted."""
    slot: int | None = None
    """Its number among its launcher's ranks on this host (``LOCAL_RANK``)."""
    world: int | None = None
    """The number of ranks in the job, as its launcher had it at the start."""
    master: str | None = None
    """Where the ranks of its job meet: ``host:port``."""
    became: RankProcess | None = None
    """The program that it became by ``exec``, which has a record of its own."""
    began: int = 0
    own_end: int | None = None
    """When it recorded its own end."""
    gone: int | None = None
    """When another process noticed that it had ended."""
    alive: bool = False
    """Whether the run goes on, and nothing says that this process has ended."""
    code: int | None = None
    """Its exit code, or minus the signal that it died by; None if unknown."""
    error: str = ""
    in_order: bool = False
    """Whether it recorded its end, or became another program by ``exec``."""
    last: LastSpan | None = None
    opened: tuple[RegionCall, ...] = ()
    """The calls that it is in now, or was in at its end. Only some regions (collectives, above all) are
    recorded while they are open."""
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
        """When it ended; None if no process noticed."""
        return self.gone or self.own_end

    @property
    def abnormal(self) -> bool:
        """Whether it ended with an error, or vanished."""
        if self.alive:
            return False
        if self.code is not None:
            return self.code != 0
        # Its parent did not record the exit code. A record that just stops then means that it was killed.
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
        """Seconds of silence beyond which it is not just slow."""
        return max(LEAST, TIMES * self.usual)

    @property
    def collective(self) -> RegionCall | None:
        """The collective that it is in, or was in at its end."""
        return next((call for call in self.opened if call.region == WAITING), None)

    @property
    def waited(self) -> tuple[RegionCall, float] | None:
        """The collective that it is waiting in, or was until its end, and for how many seconds.

        None unless that is longer than ``limit``.
        """
        if self.last is None:
            return None
        if self.collective is not None:
            return (self.collective, self.silence) if self.silence > self.limit else None
        # The call may have ended after all: a signal or a timeout of the collective interrupted it.
        seconds = (self.last.ended - self.last.began) / SECOND
        if self.last.call.region == WAITING and seconds > self.limit:
            return self.last.call, seconds
        return None


class JobActivity(NamedTuple):
    """What the ranks of a job do, computed once: each of thousands is compared with all others."""

    waits: bool
    """Whether any rank has waited in a collective for long."""
    heard: int
    """The latest moment at which any rank is known to have done anything."""


def activity_of(ranks: Iterable[RankProcess]) -> JobActivity:
    """What ``ranks`` do, as a whole."""
    waits, heard = False, 0
    for rank in ranks:
        waits = waits or rank.waited is not None
        heard = max(heard, rank.heard)
    return JobActivity(waits, heard)


def hangs(rank: RankProcess, job: JobActivity) -> bool:
    """Whether ``rank`` records nothing and is in no collective, while its job waits in one or went on."""
    # Without a step it may still be starting up, which takes minutes at times (a download, a compilation).
    if not rank.steps or rank.silence <= rank.limit or rank.collective is not None or rank.waited:
        return False
    return job.waits or job.heard > rank.heard + round(rank.limit * SECOND)


def outcome_now(rank: RankProcess, job: JobActivity) -> RankOutcome | None:
    """What has become of ``rank`` in a run that goes on; None if it works, or ended in order.

    ``job`` is the activity of the ranks that have not ended.
    """
    if rank.abnormal:
        kind = "died"
    elif not rank.alive:
        return None
    elif rank.collective is not None and rank.waited is not None:
        kind = "waited"
    elif hangs(rank, job):
        kind = "hung"
    elif rank.silence > max(SILENT, rank.limit):
        kind = "silent"
    else:
        return None
    return _outcome(rank, kind, {})


def outcomes_of(info: Mapping[str, Any], ranks: Sequence[RankProcess]) -> tuple[RankOutcome, ...]:
    """The outcomes of ``ranks`` that did not end in order, by attempt; within an attempt, causes come first.

    ``info`` is the run's run.json, which says when and how the run ended, and whether from outside. There are
    no outcomes while it goes on, and none where a voirfile or a limit stopped the program on purpose.
    """
    if not _is_over(info) or (info.get("stopped") and info["exit"].get("code") == 0):
        return ()
    outcomes: list[RankOutcome] = []
    ordered = sorted(ranks, key=lambda rank: rank.attempt or 0)
    attempts_of_rank: dict[int | None, list[int]] = {}
    for rank in ordered:
        attempts_of_rank.setdefault(rank.rank, []).append(rank.attempt or 0)
    for _, group in groupby(ordered, key=lambda rank: rank.attempt or 0):
        outcomes += _outcomes_of_attempt(info, list(group), attempts_of_rank)
    return tuple(outcomes)


def _is_over(info: Mapping[str, Any]) -> bool:
    return code_of(info.get("exit")) is not None and info.get("ended") is not None


def _outcomes_of_attempt(
    info: Mapping[str, Any],
    ranks: list[RankProcess],
    attempts_of_rank: Mapping[int | None, list[int]],
) -> list[RankOutcome]:
    """The outcomes of the ``ranks`` of one attempt; ``attempts_of_rank`` has all attempts of the run."""
    broken = [rank for rank in ranks if rank.abnormal]
    if not broken:
        return []
    cut = _forced_end(info)
    for rank in ranks:
        # Also of ranks that ended in order: whether a rank hung is judged by what all others did.
        rank.until = _end_of(rank, info, cut)
    kinds = _kinds(broken, ranks, cut)
    with_outcome = [rank for rank in broken if id(rank) in kinds]
    # Within a kind, the rank that fell silent first is the likeliest cause.
    with_outcome.sort(
        key=lambda rank: (_ORDER[kinds[id(rank)]], rank.until - round(rank.silence * SECOND))
    )
    return [_outcome(rank, kinds[id(rank)], attempts_of_rank) for rank in with_outcome]


_ORDER = {"hung": 0, "stuck": 0, "died": 1, "waited": 2, "followed": 3}


def _kinds(broken: list[RankProcess], ranks: list[RankProcess], cut: int | None) -> dict[int, str]:
    """The kind of outcome of each rank that has one, by the rank's ``id()``.

    ``broken`` are those of ``ranks`` that ended abnormally; ``cut`` is what :func:`_forced_end` found.
    """
    dead = [rank for rank in broken if cut is None or rank.until < cut]
    job = activity_of(ranks)
    hung = [rank for rank in broken if hangs(rank, job)]
    if hung:
        # First a rank hangs; then the collectives of others time out, and they die of that. So the rank
        # that hung is the cause, even where it outlived those that waited for it.
        waited = {id(rank): "waited" for rank in broken if rank.waited is not None}
        followed = {id(rank): "followed" for rank in dead}
        return followed | waited | {id(rank): "hung" for rank in hung}
    if dead:
        # A rank that died in a collective may well have died because its peer was gone.
        first = min(dead, key=lambda rank: (rank.collective is not None, _moment_of_death(rank)))
        return {
            id(rank): "followed" if rank is not first and _follows(rank) else "died"
            for rank in dead
        }
    # One silent rank proves nothing: it may have been in a long computation when the run was ended.
    silent = [rank for rank in broken if rank.steps and rank.silence > rank.limit]
    return {id(rank): "stuck" for rank in silent} if len(silent) == len(ranks) > 1 else {}


def _moment_of_death(rank: RankProcess) -> int:
    """When ``rank`` died, for comparing it with others: never too late for one that died by itself.

    The supervisor may notice several deaths at once, and in any order. What counts is therefore the last sign
    of life, except for ranks that were ended politely: these are known to have lived until then, also those
    that were over but for what Python does at its exit.
    """
    politely = rank.gone if rank.code in POLITE else None
    if politely and not rank.error:
        return politely
    return rank.own_end or politely or rank.heard


def _end_of(rank: RankProcess, info: Mapping[str, Any], cut: int | None) -> int:
    """When ``rank`` ended, as well as that is known.

    A process whose end was not noticed ended with the run if it was in a collective, or if the run was ended
    from outside; otherwise, it ended at its last sign of life.
    """
    if rank.end is not None:
        return rank.end
    with_the_run = rank.collective is not None or cut is not None
    return _nanoseconds(info["ended"]) if with_the_run else rank.heard


def _forced_end(info: Mapping[str, Any]) -> int | None:
    """When the supervisor began to end the processes of the run; None if it did not have to.

    It does so at ``--timeout``, at a user's Ctrl-C, and once the program itself has died by a signal. A
    process that ended after that moment did not die by itself.
    """
    limits, interrupted = info.get("limits") or {}, info.get("interrupted") or {}
    if info.get("timed_out") and limits.get("timeout") is not None:
        return _nanoseconds(info["started"] + limits["timeout"]) - MARGIN
    if interrupted.get("time") is not None:
        return _nanoseconds(interrupted["time"]) - MARGIN
    if info["exit"].get("signal") is not None:
        # Only then does the supervisor end what the program left behind: all else ended before.
        return _nanoseconds(info["ended"]) + 1
    return None


def _nanoseconds(seconds: float) -> int:
    return round(seconds * SECOND)


def _follows(rank: RankProcess) -> bool:
    """Whether ``rank`` ended as ranks do when another one dies.

    Its launcher ends it politely, its next collective raises an error, or it aborts in the collective that it
    is in. A rank that was killed (by the kernel for its memory, say) died independently of the others.
    """
    return rank.code in POLITE or bool(rank.error) or rank.collective is not None


def _outcome(
    rank: RankProcess, kind: str, attempts_of_rank: Mapping[int | None, list[int]]
) -> RankOutcome:
    wait = rank.waited if kind == "waited" else None
    attempt = rank.attempt or 0
    inside = (wait[0],) if wait else rank.opened
    return RankOutcome(
        rank=rank.rank or 0,
        attempt=attempt,
        process=rank.process,
        kind=kind,
        how=rank.how,
        steps=rank.steps,
        usual=rank.usual,
        last=rank.last.call.region if rank.last else "",
        place=rank.last.call.place if rank.last else None,
        inside=tuple((call.name, call.place) for call in inside),
        seconds=wait[1] if wait else max(rank.silence, 0.0),
        ended=rank.end / SECOND if rank.end is not None else None,
        restarted=next((n for n in attempts_of_rank.get(rank.rank, ()) if n > attempt), None),
    )
