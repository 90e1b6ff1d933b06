"""Attempts of ranks: those of made-up jobs of torchrun, whose agents count as torchrun's do."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.analysis.attempts import count_attempts
from injector.analysis.outcomes import RankProcess
from injector.value_class import replace

SECOND = 1_000_000_000


@dataclass
class Agent:
    host: str
    pid: int
    failures: int = 0
    """Of its own workers: all that it counts."""


class Job:
    """A job of torchrun: each attempt starts after all of the one before have ended."""

    def __init__(self, random: Random, workers: int, first: float = 0.0, port: int = 29500) -> None:
        self.random = random
        self.workers = workers
        self.now = first
        self.port = port
        self.processes: list[RankProcess] = []
        self.true: list[int] = []
        self.attempts = 0
        self.pids = iter(range(100 + port * 10, 10**7))

    def start(
        self, agents: list[Agent], moved: bool = False, whole: bool = True
    ) -> list[RankProcess]:
        """One attempt of ``agents``; ``moved``: they meet at another port; not ``whole``: some are killed."""
        self.port += moved
        began, made = self.now, []
        world = len(agents) * self.workers
        for node, agent in enumerate(agents):
            for slot in range(self.workers):
                begin = began + self.random.uniform(0, 0.9)
                end = began + self.random.uniform(1, 5)
                made.append(
                    RankProcess(
                        rank=node * self.workers + slot,
                        host=agent.host,
                        pid=next(self.pids),
                        ppid=agent.pid,
                        attempt=agent.failures,
                        slot=slot,
                        world=world,
                        master=f"m:{self.port}",
                        began=round(begin * SECOND),
                        own_end=round(end * SECOND)
                        if whole or self.random.random() < 0.5
                        else None,
                        gone=round((end + self.random.random()) * SECOND),
                    )
                )
        self.now = began + 6
        self._add(made)
        self.attempts += 1
        return made

    def _add(self, made: list[RankProcess]) -> None:
        self.processes += made
        self.true += [self.attempts] * len(made)

    def helper(self, rank: RankProcess, number: int, shell: bool) -> None:
        """``number`` processes that ``rank`` starts one after another while it goes on."""
        ppid = next(self.pids) if shell else rank.pid
        end = rank.own_end or rank.began + SECOND
        length = (end - rank.began) // (number + 1)
        for at in range(number):
            begin = rank.began + at * length + 1
            self.processes.append(
                replace(
                    rank, pid=next(self.pids), ppid=ppid, began=begin, own_end=begin + length // 2
                )
            )
            self.true.append(self.attempts - 1)

    def becomes(self, rank: RankProcess) -> None:
        """``rank`` becomes another program, whose record is another one."""
        middle = (rank.began + rank.own_end) // 2
        self.processes.append(replace(rank, began=middle))
        rank.own_end = None
        self.true.append(self.attempts - 1)


WHATS = ("failure", "failure of all", "swapped", "left", "joined", "replaced", "moved")


def lived(job: Job, events: list[str], helpers: bool = False) -> None:
    """A job of two nodes with one of ``events`` after each attempt."""
    agents = [Agent(f"h{job.port}{node}", 1000 * job.port + node) for node in range(2)]
    spare = iter(range(10, 1000))

    def start(moved: bool = False) -> None:
        made = job.start(agents, moved, whole=helpers or job.random.random() < 0.7)
        if helpers:
            job.helper(made[0], job.random.randrange(1, 4), shell=job.random.random() < 0.5)
            job.becomes(made[-1])

    start()
    for event in events:
        if event == "failure of all":
            for agent in agents:
                agent.failures += 1
        elif event == "replaced" and len(agents) < 2:
            continue  # the job would be over
        elif event != "joined":
            job.random.choice(agents).failures += 1
        if event == "swapped":
            agents.reverse()
        if event == "left" and len(agents) > 1:
            agents.pop(job.random.randrange(len(agents)))
        if event in ("joined", "replaced"):
            number = next(spare)
            new = Agent(f"h{job.port}n{number}", 1000 * job.port + number)
            if event == "replaced":
                agents[0] = new
            else:
                agents.append(new)
        start(event == "moved")


def numbered(*jobs: Job) -> None:
    """Check the numbers of all processes of ``jobs``, in an order of no meaning."""
    processes = [each for job in jobs for each in job.processes]
    jobs[0].random.shuffle(processes)
    count_attempts(processes)
    for job in jobs:
        assert [each.attempt for each in job.processes] == job.true


@pytest.mark.parametrize("second", WHATS)
@pytest.mark.parametrize("first", WHATS)
@pytest.mark.parametrize("workers", (1, 3))
def test_every_attempt_is_counted(first, second, workers):
    for seed in range(5):
        job = Job(Random(seed), workers)
        lived(job, [first, second])
        numbered(job)


@given(st.lists(st.sampled_from(WHATS), max_size=6), st.integers(1, 4), st.randoms())
def test_every_attempt_of_long_jobs_is_counted(events, workers, random):
    job = Job(random, workers)
    lived(job, events)
    numbered(job)


@given(st.lists(st.sampled_from(WHATS), max_size=4), st.integers(1, 3), st.randoms())
def test_what_a_rank_starts_or_becomes_is_of_its_attempt(events, workers, random):
    job = Job(random, workers)
    lived(job, events, helpers=True)
    numbered(job)


@given(
    st.lists(st.sampled_from(WHATS), max_size=3),
    st.lists(st.sampled_from(WHATS), max_size=3),
    st.sampled_from(("after", "beside")),
    st.randoms(),
)
def test_jobs_after_or_beside_each_other_are_counted_apart(one, other, when, random):
    first = Job(random, 2)
    lived(first, one)
    second = Job(random, 2, first.now + 10 if when == "after" else 1.0, port=29900)
    lived(second, other)
    numbered(first, second)


def test_jobs_that_meet_at_the_same_port_one_after_another_are_counted_apart():
    jobs = [Job(Random(1), 2), Job(Random(2), 2, 100.0)]
    for at, job in enumerate(jobs):
        agents = [Agent("a", 10 + at), Agent("b", 20 + at)]
        job.start(agents)
        agents[0].failures += 1
        job.start(agents)
    numbered(*jobs)


def test_without_a_place_to_meet_each_node_is_counted_for_itself():
    """Records of before it was recorded."""
    job = Job(Random(1), 2)
    agents = [Agent("a", 10), Agent("b", 20)]
    job.start(agents)
    agents[0].failures += 1
    job.start(agents)
    for each in job.processes:
        each.master = each.slot = None
    numbered(job)
