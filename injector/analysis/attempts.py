"""At which attempt of its job each rank was started, where a launcher starts a job again.

torchrun tells its workers how often their job was started before (``TORCHELASTIC_RESTART_COUNT``), but each
of its agents, one a node, counts only restarts after a failure of its own workers, not those that a change
of members brings (``SimpleElasticAgent._invoke_run`` of torch.distributed.elastic). After a failure on one
of two nodes the workers there are of attempt 1, and those of the other node of attempt 0 once more. What
tells the attempts apart then is when their workers began: an agent ends all of its own before it meets the
others again, so that no attempt begins before the whole of the one before has begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from .outcomes import RankProcess

    Agent = tuple[str, int | None]
    """A host, and the process on it that starts ranks."""


def count_attempts(processes: Sequence[RankProcess]) -> None:
    """Correct the attempts of ``processes``, where launchers gave several the same number."""
    if all(each.attempt is None for each in processes):
        return
    started, inherited = _started_by_launchers(processes)
    if _are_counted(started):
        return
    begun: dict[Agent, list[Start]] = {}
    for each in started:
        starts = begun.setdefault((each.host, each.ppid), [])
        if not starts or starts[-1].is_over_for(each):
            starts.append(Start((each.host, each.ppid)))
        starts[-1].ranks.append(each)
    for job in _jobs(begun):
        _count(sorted((start for agent in job for start in begun[agent]), key=_when))
    for each, above in inherited:
        each.attempt = above.attempt


def number_attempts(ranks: Sequence[RankProcess]) -> None:
    """Count attempts that no launcher has numbered: one begins after the one before was last heard of."""
    known: dict[tuple[str, int], list[RankProcess]] = {}
    for each in ranks:
        if each.rank is None:
            each.attempt = each.attempt or 0
            continue
        before = known.setdefault((each.host, each.rank), [])
        if each.attempt is None:
            over = [one for one in before if not one.alive and one.heard <= each.began]
            each.attempt = 1 + max((one.attempt or 0 for one in over), default=-1)
        before.append(each)


class Start:
    """Ranks that one agent started together."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.ranks: list[RankProcess] = []

    @property
    def number(self) -> int:
        """Its attempt, as the agent counts."""
        return self.ranks[0].attempt or 0

    @property
    def began(self) -> int:
        return self.ranks[0].began

    @property
    def members(self) -> tuple[int | None, str | None]:
        """How many ranks there are over all nodes, and where they meet."""
        return self.ranks[0].world, self.ranks[0].master

    def is_over_for(self, new: RankProcess) -> bool:
        """Whether ``new``, which the same agent started, belongs to its next start."""
        if new.attempt != self.number or (new.world, new.master) != self.members:
            return True
        return any(
            _is_over(each, new.began)
            for each in self.ranks
            if (each.slot == new.slot if new.slot is not None else each.rank == new.rank)
        )


def _started_by_launchers(
    processes: Sequence[RankProcess],
) -> tuple[list[RankProcess], list[tuple[RankProcess, RankProcess]]]:
    """The ranks that a launcher numbered, in the order in which they began; what they started or became.

    Of the latter, each comes with the process whose number it has.
    """
    latest: dict[tuple[str, int | None], RankProcess] = {}
    started, inherited = [], []
    for each in sorted(processes, key=lambda process: process.began):
        above, before = latest.get((each.host, each.ppid)), latest.get((each.host, each.pid))
        latest[each.host, each.pid] = each
        if each.rank is None or each.attempt is None:
            continue
        if before is not None and (before.ppid, before.attempt) == (each.ppid, each.attempt):
            before.became = each
            inherited.append((each, before))
        elif above is not None and above.rank == each.rank:
            inherited.append((each, above))
        else:
            started.append(each)
    return started, inherited


def _are_counted(started: Sequence[RankProcess]) -> bool:
    """Whether those of the same number may all be of one attempt."""
    ranks = {(each.attempt, each.rank) for each in started}
    worlds = {(each.attempt, each.world) for each in started}
    return len(ranks) == len(started) and len(worlds) == len({each.attempt for each in started})


def _last(one: RankProcess) -> RankProcess:
    """What it has become in the end, by ``exec``."""
    while one.became is not None:
        one = one.became
    return one


def _is_over(one: RankProcess, at: int) -> bool:
    last = _last(one)
    return not last.alive and last.heard <= at


def _when(start: Start) -> int:
    return start.began


def _jobs(begun: dict[Agent, list[Start]]) -> list[list[Agent]]:
    """Which agents work together: at one time, their workers met at the same place."""
    until = {
        agent: max(_until(each) for start in starts for each in start.ranks)
        for agent, starts in begun.items()
    }
    jobs: list[list[Agent]] = []
    for agent in sorted(begun, key=lambda one: begun[one][0].began):
        places = {start.members[1] for start in begun[agent]} - {None}
        together = [
            job
            for job in jobs
            if any(until[one] >= begun[agent][0].began and _meet(begun[one], places) for one in job)
        ]
        jobs = [job for job in jobs if job not in together]
        jobs.append([one for job in together for one in job] + [agent])
    return jobs


def _until(one: RankProcess) -> float:
    """When it was last there."""
    last = _last(one)
    return inf if last.alive else max(last.heard, last.gone or 0)


def _meet(starts: Sequence[Start], places: set[str | None]) -> bool:
    return any(start.members[1] in places for start in starts)


def _count(starts: Sequence[Start]) -> None:
    """Number the attempts of one job, whose ``starts`` are in the order in which they began."""
    number, attempt = -1, Attempt()
    for start in starts:
        if not attempt.takes(start):
            number, attempt = max(number + 1, start.number), Attempt()
        attempt.add(start)
        for each in start.ranks:
            each.attempt = number


class Attempt:
    """What the agents of a job started together."""

    def __init__(self) -> None:
        self.agents: set[Agent] = set()
        self.members: tuple[int | None, str | None] | None = None
        self.ranks: dict[int | None, list[RankProcess]] = {}

    def add(self, start: Start) -> None:
        self.agents.add(start.agent)
        if not self.ranks:
            self.members = start.members
        for each in start.ranks:
            self.ranks.setdefault(each.rank, []).append(each)

    def takes(self, start: Start) -> bool:
        """Whether ``start`` is part of it, and not of the next attempt.

        It is as long as a process of its ranks goes on: that one started it, by another program.
        """
        same = [one for each in start.ranks for one in self.ranks.get(each.rank, ())]
        if same:
            return not all(_is_over(each, start.began) for each in same)
        return self.members == start.members and start.agent not in self.agents
