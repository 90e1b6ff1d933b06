"""Ranks that an elastic launcher gave to another node are attempts of one job, recorded apart as together."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw import gather
from spans import SECOND, payload, site, write_process

from injector.analysis.columns import sources
from injector.analysis.summary import summarise
from injector.bus import joining
from injector.bus.part_clocks import _by_barriers
from injector.bus.readable import collected
from injector.errors import UserError
from injector.store.folder import open_run

SITES = [
    site(1, "step", task="train", payload="items", line=3),
    site(2, "comm", what="barrier", line=5),
]
BEGAN = 1_700_000_000.0
STEP = SECOND // 10
LENGTH = 4
"""Seconds of an attempt; one that is whole has a barrier at its begin and at its end."""


@dataclass
class Job:
    """What the nodes of a job recorded: each in a folder of its own, and all in ``shared``."""

    folder: Path
    wrong: dict[str, float] = field(default_factory=dict)
    """By node, how far its clock is ahead."""
    pids: int = 100
    drift: float = 0.03
    """By how much less time lies between the barriers of an attempt that begins a second later."""
    spans: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By node, when its inject began and ended."""

    def starts(
        self,
        at: float,
        ranks: dict[str, list[int]],
        counted: dict[str, int] | None = None,
        whole: bool = True,
        port: int = 1,
        world: int | None = None,
    ) -> None:
        """An attempt, ``at`` seconds after the begin: the ranks of each node, and the number of its agent."""
        world = world or sum(map(len, ranks.values()))
        for node, mine in ranks.items():
            zero = round((1000 + at) * SECOND)
            for slot, rank in enumerate(mine):
                self.pids += 1
                turns = (0.5, 3.5 - self.drift * at) if whole else (0.5,)
                rows = [
                    (zero + round(turn * SECOND), zero + round(turn * SECOND) + 20_000_000, 0, 2)
                    for turn in turns
                ]
                rows += [
                    (zero + SECOND + n * STEP, zero + SECOND + (n + 1) * STEP, payload(items=4), 1)
                    for n in range(20 if whole else 10)
                ]
                for folder in (self.folder / node, self.folder / "shared"):
                    moved = self.wrong.get(node, 0.0) if folder.name == node else 0.0
                    write_process(
                        folder, SITES, rows, pid=self.pids, host=node, time=BEGAN + at + moved,
                        monotonic_ns=zero, rank=rank, world=world, slot=slot, master=f"m:{port}",
                        attempt=(counted or {}).get(node, 0),
                        ended=zero + LENGTH * SECOND if whole else None,
                    )  # fmt: skip
            begin, end = self.spans.get(node, (at, at))
            self.spans[node] = (min(begin, at), max(end, at + LENGTH))

    def done(self) -> list[Path]:
        """The folders of the nodes, collected."""
        # The agents were there before their ranks; all numbers of processes are of one launcher a node.
        for node, (begin, end) in self.spans.items():
            late = BEGAN + self.wrong.get(node, 0.0)
            gather(self.folder / node, started=late + begin, ended=late + end + 0.1)
        last = max(end for _, end in self.spans.values())
        gather(self.folder / "shared", started=BEGAN, ended=BEGAN + last)
        return [self.folder / node for node in self.spans]


# By kind of move: what is begun at 0 s and 10 s, and which node's clock may be wrong.
A0, B0 = {"a": [0], "b": [1]}, {"a": [1], "b": [0]}
MOVES = {
    "swapped": [A0, B0],
    "swapped and back": [A0, B0, A0],
    "two of each": [{"a": [0, 1], "b": [2, 3]}, {"a": [2, 3], "b": [0, 1]}],
    "to the node that is left": [A0, {"b": [0]}],
    "to a node that joins": [{"b": [0]}, A0],
    "a node is replaced": [A0, {"a": [0], "c": [1]}],
    "the first node is replaced": [A0, {"c": [0], "b": [1]}],
    "each node is replaced": [A0, {"c": [0], "b": [1]}, {"c": [0], "d": [1]}],
}
COUNTS = {
    "of members": lambda node, at: 0,
    "of its own failures": lambda node, at: at,
    "of the failures of one": lambda node, at: at if node == "b" else 0,
}


def made(folder, move, count, wrong):
    job = Job(folder, {"b": wrong, "c": -wrong})
    attempts = MOVES[move]
    for at, ranks in enumerate(attempts):
        counted = {node: COUNTS[count](node, at) for node in ranks}
        for node in ranks:
            if not any(node in earlier for earlier in attempts[:at]):
                counted[node] = 0
        # Without the port nothing tells the attempts that were broken apart, but that clocks may be equal.
        port = at if move == "each node is replaced" else 1
        job.starts(10 * at, ranks, counted, whole=at == len(attempts) - 1, port=port)
    return job.done()


def facts(folder):
    """By process: rank, attempt as it is counted, and when it began; what the report says of the training."""
    with collected(open_run(str(folder))) as run:
        assert not run.damage
        ranks = {
            (each.host, each.pid): (each.rank, each.attempt, round(each.began / SECOND, 1))
            for each in sources(run)
        }
        profile = summarise(run).profile
        loops = sorted(
            (loop.attempt, sorted((each.rank, each.host, each.steps) for each in loop.ranks))
            for loop in profile.loops
        )
        return ranks, loops


@pytest.mark.parametrize("wrong", [0.0, 40.0, -300.0])
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("move", MOVES)
def test_a_moved_rank_has_the_attempts_that_a_shared_folder_would_have(
    tmp_path, move, count, wrong
):
    """In whichever order the folders are named."""
    parts = made(tmp_path, move, count, wrong)
    expected, loops = facts(tmp_path / "shared")
    assert {attempt for _, attempt, _ in expected.values()} == set(range(len(MOVES[move])))
    whole = tmp_path / "whole"
    seen = []
    for order in permutations(parts):
        joining.join([str(each) for each in order], str(whole))
        found, training = facts(whole)
        assert {key: each[:2] for key, each in found.items()} == {
            key: each[:2] for key, each in expected.items()
        }
        first = min(each[2] for each in found.values())
        for key, (_, _, began) in found.items():
            assert began - first == pytest.approx(expected[key][2] - BEGAN, abs=0.11)
        assert training == loops
        seen.append({path.name: path.read_bytes() for path in (whole / "raw").iterdir()})
        shutil.rmtree(whole)
    assert all(each == seen[0] for each in seen)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"at": 0.0, "ranks": {"c": [1]}}, "rank 1 is in .*, for 3.* s at the same time"),
        ({"at": 2.0, "ranks": {"c": [1]}}, "rank 1 is in .*, for 1\\.98 s at the same time"),
        ({"at": 2.0, "ranks": {"c": [2]}, "world": 3}, "these are two jobs"),
        ({"at": 4.5, "ranks": {"c": [1]}}, "had ended 0.4 s before"),
    ],
    ids=["together", "overlap", "worlds", "later, and no other node was there"],
)
def test_what_no_move_explains_is_refused(tmp_path, second, message, count):
    job = Job(tmp_path)
    job.starts(0.0, A0)
    job.starts(**{"world": 2, **second})
    parts = job.done()
    for order in permutations(parts):
        with pytest.raises(UserError, match=message):
            joining.join([str(each) for each in order], str(tmp_path / "whole"))
    assert not (tmp_path / "whole").exists()


def test_a_lost_node_whose_ranks_go_on_in_another_attempt_is_no_conflict(tmp_path):
    job = Job(tmp_path)
    job.starts(0.0, A0)
    job.starts(2.0, {"c": [1]}, {"c": 1}, world=2)
    joining.join([str(each) for each in job.done()], str(tmp_path / "whole"))
    ranks, _ = facts(tmp_path / "whole")
    assert sorted(each[:2] for each in ranks.values()) == [(0, 0), (1, 0), (1, 1)]


def test_without_a_launcher_that_counts_no_rank_is_started_again(tmp_path):
    job = Job(tmp_path)
    job.starts(0.0, {"a": [0], "b": [1]}, {"a": None, "b": None})
    job.starts(3.0, {"a": [0]}, {"a": None}, world=2)
    job.starts(6.0, {"b": [0]}, {"b": None}, world=2)
    with pytest.raises(UserError, match="no elastic launcher says that it was started again"):
        joining.join([str(each) for each in job.done()], str(tmp_path / "whole"))


def test_a_node_that_has_no_barrier_in_common_with_the_first_is_tied_by_another(tmp_path):
    job = Job(tmp_path, {"c": 70.0})
    job.starts(0.0, A0, whole=False)
    job.starts(10.0, {"c": [0], "b": [1]})
    joining.join([str(each) for each in job.done()], str(tmp_path / "whole"))
    info = json.loads((tmp_path / "whole/run.json").read_text())
    [text] = [each for each in info["remarks"] if "clock of c" in each]
    assert text.startswith("the clock of c is moved by -70 s to that of a, by 2 barriers")


@pytest.mark.parametrize("ports", [(1, 1), (1, 2)])
def test_barriers_of_another_attempt_say_nothing_of_clocks(tmp_path, ports):
    """Where all attempts have the same, those count by which clocks may be equal, or that met at one port."""
    job = Job(tmp_path, {"b": 0.01 if ports[0] == ports[1] else 90.0}, drift=0.0)
    job.starts(0.0, A0, port=ports[0])
    job.starts(10.0, {"a": [0]}, port=ports[1], world=2)
    joining.join([str(each) for each in job.done()], str(tmp_path / "whole"))
    info = json.loads((tmp_path / "whole/run.json").read_text())
    [text] = [each for each in info["remarks"] if "clock" in each]
    if ports[0] == ports[1]:
        assert text == "the clocks of a and b differ by at most 30 ms, by 2 barriers"
    else:
        assert text.startswith("the clock of b is moved by -90 s to that of a, by 2 barriers")


BOUNDS = st.tuples(st.integers(-20, 20), st.integers(0, 5), st.integers(1, 3))


@given(st.lists(BOUNDS, max_size=8))
def test_the_bounds_that_most_agree_on(drawn):
    pairs = [(float(low), float(low + length), count) for low, length, count in drawn]
    found = _by_barriers(pairs, None)
    depth = {
        at: sum(low <= at <= high for low, high, _ in pairs)
        for at in [n / 2 for n in range(-45, 60)]
    }
    most = max(depth.values())
    if found is None:
        assert not most or {at for at, n in depth.items() if n == most} != {0.0}
        return
    low, high, count = found
    assert all(n == most for at, n in depth.items() if low <= at <= high) and most > 0
    assert count == sum(each[2] for each in pairs if each[0] <= low <= each[1])
    rest = [at for at, n in depth.items() if n == most and not low <= at <= high]
    assert not rest or low <= 0 <= high
