"""Which processes are ranks, and how many times a launcher had started their job before it started each.

torchrun passes its workers a count of restarts (``TORCHELASTIC_RESTART_COUNT``). But each of its agents, one
per node, counts only restarts after a failure of its own workers, and not those after a change of members
(``SimpleElasticAgent._invoke_run`` of torch.distributed.elastic). After a failure on one of two nodes, the
workers there are of attempt 1, and those of the other node of attempt 0 once more::

    node A   attempt 0 ====== fails   attempt 1 =======
    node B   attempt 0 ====== ended   attempt 0 =======      by its own count

What tells the attempts apart then is when their workers began: an agent ends all of its own workers before it
meets the others again, so that no attempt begins before the whole of the one before has begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from .outcomes import RankProcess

    Agent = tuple[str, int | None]
    """A host, and the process on it that starts ranks."""


def ranks_among(processes: Sequence[RankProcess], recorded: Sequence[bool]) -> list[int]:
    """The indices of those ``processes`` that are ranks, one for each rank of each job.

    Workers and helpers that a rank starts inherit ``RANK`` from it. Processes with the same rank that descend
    from each other therefore form a family, and the rank is the first of them that ``recorded`` spans (a
    launcher's wrapper script records none). ``processes`` are in the order in which they began.
    """
    latest: dict[tuple[str, int | None], int] = {}
    root: dict[int, int] = {}
    families: dict[int, list[int]] = {}
    for index, process in enumerate(processes):
        if process.rank is not None:
            parent = latest.get((process.host, process.ppid))
            same = parent is not None and processes[parent].rank == process.rank
            root[index] = root.get(parent, parent) if same and parent is not None else index
            families.setdefault(root[index], []).append(index)
        # Process numbers are used again: a parent is the latest process that had its number.
        latest[process.host, process.pid] = index
    return sorted(
        next((index for index in family if recorded[index]), family[0])
        for family in families.values()
    )


def count_attempts(processes: Sequence[RankProcess]) -> None:
    """Correct the ``attempt`` of ``processes`` where launchers gave several attempts the same number."""
    # No launcher counted: number_attempts does, by time alone.
    if all(process.attempt is None for process in processes):
        return
    started, inherited = _started_by_launchers(processes)
    if _counts_agree(started):
        return
    starts_of: dict[Agent, list[Start]] = {}
    for process in started:
        # What one agent started together, one such start after the other.
        starts = starts_of.setdefault((process.host, process.ppid), [])
        if not starts or starts[-1].is_over_for(process):
            starts.append(Start((process.host, process.ppid)))
        starts[-1].ranks.append(process)
    for job in _jobs(starts_of):
        its_starts = (start for agent in job for start in starts_of[agent])
        _count(sorted(its_starts, key=lambda start: start.began))
    for process, origin in inherited:
        process.attempt = origin.attempt


def number_attempts(ranks: Sequence[RankProcess]) -> None:
    """Set the ``attempt`` of ``ranks`` that no launcher has numbered.

    An attempt begins after the attempt before was last heard of.
    """
    earlier: dict[tuple[str, int], list[RankProcess]] = {}
    for rank in ranks:
        # Processes without a rank are not started again.
        if rank.rank is None:
            rank.attempt = rank.attempt or 0
            continue
        same_rank = earlier.setdefault((rank.host, rank.rank), [])
        if rank.attempt is None:
            ended = [other for other in same_rank if not other.alive and other.heard <= rank.began]
            rank.attempt = 1 + max((other.attempt or 0 for other in ended), default=-1)
        same_rank.append(rank)


class Start:
    """Ranks that one agent started together."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.ranks: list[RankProcess] = []

    @property
    def number(self) -> int:
        """Their attempt, as the agent counts it."""
        return self.ranks[0].attempt or 0

    @property
    def began(self) -> int:
        return self.ranks[0].began

    @property
    def members(self) -> tuple[int | None, str | None]:
        """How many ranks there are over all nodes, and the address at which they meet."""
        return self.ranks[0].world, self.ranks[0].master

    def is_over_for(self, new: RankProcess) -> bool:
        """Whether ``new``, started by the same agent, belongs to a later start."""
        if new.attempt != self.number or (new.world, new.master) != self.members:
            return True
        # A slot (its number on the node) is taken again only after its process is over.
        return any(
            _is_over(rank, new.began)
            for rank in self.ranks
            if (rank.slot == new.slot if new.slot is not None else rank.rank == new.rank)
        )


def _started_by_launchers(
    processes: Sequence[RankProcess],
) -> tuple[list[RankProcess], list[tuple[RankProcess, RankProcess]]]:
    """The ranks that a launcher numbered, in the order of their begin, and those that inherited a number.

    These have it from the process that started them, or that they were before an ``exec``; each comes with
    that one.
    """
    latest: dict[tuple[str, int | None], RankProcess] = {}
    started, inherited = [], []
    for process in sorted(processes, key=lambda process: process.began):
        parent = latest.get((process.host, process.ppid))
        predecessor = latest.get((process.host, process.pid))
        latest[process.host, process.pid] = process
        if process.rank is None or process.attempt is None:
            continue
        # The same process number, parent and attempt: one process that has become another program.
        if predecessor is not None and (predecessor.ppid, predecessor.attempt) == (
            process.ppid,
            process.attempt,
        ):
            predecessor.became = process
            inherited.append((process, predecessor))
        elif parent is not None and parent.rank == process.rank:
            inherited.append((process, parent))
        else:
            started.append(process)
    return started, inherited


def _counts_agree(started: Sequence[RankProcess]) -> bool:
    """Whether all ranks of the same number may be of one attempt: each rank once, and one world size."""
    ranks = {(rank.attempt, rank.rank) for rank in started}
    worlds = {(rank.attempt, rank.world) for rank in started}
    return len(ranks) == len(started) and len(worlds) == len({rank.attempt for rank in started})


def _last(process: RankProcess) -> RankProcess:
    """What a process has become in the end, by ``exec``."""
    while process.became is not None:
        process = process.became
    return process


def _is_over(process: RankProcess, at: int) -> bool:
    last = _last(process)
    return not last.alive and last.heard <= at


def _jobs(starts_of: dict[Agent, list[Start]]) -> list[list[Agent]]:
    """The agents of each job: they were there at one time, and their workers met at one address."""
    last_there = {
        agent: max(_until(rank) for start in starts for rank in start.ranks)
        for agent, starts in starts_of.items()
    }
    jobs: list[list[Agent]] = []
    for agent in sorted(starts_of, key=lambda other: starts_of[other][0].began):
        addresses = {start.members[1] for start in starts_of[agent]} - {None}
        # An agent whose workers met others of several jobs shows that these are one.
        joined = [
            job
            for job in jobs
            if any(
                last_there[other] >= starts_of[agent][0].began
                and _meet(starts_of[other], addresses)
                for other in job
            )
        ]
        jobs = [job for job in jobs if job not in joined]
        jobs.append([other for job in joined for other in job] + [agent])
    return jobs


def _until(process: RankProcess) -> float:
    """When a process was last there; infinity if it still is."""
    last = _last(process)
    return inf if last.alive else max(last.heard, last.gone or 0)


def _meet(starts: Sequence[Start], addresses: set[str | None]) -> bool:
    return any(start.members[1] in addresses for start in starts)


def _count(starts: Sequence[Start]) -> None:
    """Number the attempts of one job, whose ``starts`` are in the order in which they began."""
    number, attempt = -1, Attempt()
    for start in starts:
        if not attempt.takes(start):
            # At least what the agent counted: earlier attempts may have recorded nothing.
            number, attempt = max(number + 1, start.number), Attempt()
        attempt.add(start)
        for rank in start.ranks:
            rank.attempt = number


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
        for rank in start.ranks:
            self.ranks.setdefault(rank.rank, []).append(rank)

    def takes(self, start: Start) -> bool:
        """Whether ``start`` is part of this attempt, and not of the next one.

        It is part of it if a rank of the same number goes on: that one started it, by another program.
        """
        same_rank = [other for rank in start.ranks for other in self.ranks.get(rank.rank, ())]
        if same_rank:
            return not all(_is_over(rank, start.began) for rank in same_rank)
        return self.members == start.members and start.agent not in self.agents
