"""What a program says of itself, run under ``inject run``, and what the analysis says of it.

Nothing here depends on how fast a machine is. A program's naps are lower bounds of its regions: a
sleep never ends early. Its clock around the loop is an upper bound of its steps: they lie inside.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from search_path import search_path

from injector.analysis.profile import Profile
from injector.analysis.profiling import profile
from injector.analysis.training_loop import Node, TrainingLoop
from injector.store.folder import open_run

from .cases import Case

PROGRAMS = Path(__file__).parents[1] / "programs" / "loops"
MARK = re.compile(r"#: (.+)$")
SLEEP = 0.98
"""A sleep may be shorter by the granularity of its clock."""


class Ran(NamedTuple):
    """A program that was run."""

    code: int
    output: str
    seconds: float
    truth: dict[str, Any]
    profile: Profile | None
    """None where nothing was recorded."""
    marks: dict[str, set[int]]
    """Lines of the program by what their comment says."""


def run(
    case: Case, inject: list[str], environ: dict[str, str], tmp_path: Path, text: str = ""
) -> Ran:
    """Run the program of ``case`` in a folder of its own and read what was recorded.

    ``text`` is that of a program that is in no file yet.
    """
    programs = tmp_path / "programs"
    shutil.copytree(PROGRAMS, programs, ignore=shutil.ignore_patterns("__pycache__"))
    if text:
        (programs / case.program).write_text(text)
    runs, truth = tmp_path / "runs", tmp_path / "truth.json"
    command = [*inject, "run", "--quiet", "--runs", str(runs), *case.words.split()]
    own = {
        **environ,
        "LOOP_TRUTH": str(truth),
        "PYTHONPATH": search_path(programs / "site-packages"),
        "OMP_NUM_THREADS": "1",
    }
    began = time.monotonic()
    done = subprocess.run(
        command,
        cwd=programs,
        env=own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    seconds = time.monotonic() - began
    output = done.stdout.decode(errors="replace")
    assert truth.exists(), output[-3000:]
    told = json.loads(truth.read_text())
    (folder,) = runs.iterdir()
    found = profile(open_run(os.fspath(folder)))
    lines = marks(programs / told.get("lines", case.program))
    return Ran(done.returncode, output, seconds, told, found, lines)


def marks(program: Path) -> dict[str, set[int]]:
    """The lines of ``program`` by the words of their ``#:`` comments."""
    found: dict[str, set[int]] = defaultdict(set)
    for number, line in enumerate(program.read_text().splitlines(), 1):
        comment = MARK.search(line)
        for word in comment[1].split() if comment else ():
            found[word].add(number)
    return found


class Problems(list):
    """Everything that is not as it should be, said together."""

    def same(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self.append(f"{what}: {found!r}, expected {expected!r}")

    def near(self, what: str, found: float | None, expected: float, within: float = 1e-4) -> None:
        if found is None or abs(found - expected) > within * max(abs(expected), 1e-3):
            self.append(f"{what}: {found!r}, expected {expected!r}")

    def between(self, what: str, low: float, found: float, high: float) -> None:
        if not low <= found <= high:
            self.append(f"{what}: {found!r}, expected {low!r} to {high!r}")


def problems(ran: Ran, case: Case) -> Problems:
    """All that the analysis got wrong about the program of ``case``."""
    wrong = Problems()
    wrong.same("exit code", ran.code, case.code)
    if ran.profile is None:
        wrong.same("nothing recorded", bool(ran.truth["loops"] or "evaluation" in ran.truth), False)
        return wrong
    wrong.same("loops", len(ran.profile.loops), len(ran.truth["loops"]))
    for loop, truth in zip(_ordered(ran.profile.loops), ran.truth["loops"], strict=False):
        _steps(wrong, loop, truth, ran)
        _regions(wrong, loop, truth)
        _lines(wrong, loop, truth, ran.marks)
    _evaluation(wrong, ran)
    _wall(wrong, ran)
    verdicts = (ran.truth["verdict"] or "").split(" or ")
    if verdicts != [""] and ran.profile.verdict.kind not in verdicts:
        wrong.append(f"verdict: {ran.profile.verdict}, expected {verdicts}")
    _ranks(wrong, ran)
    return wrong


def _ordered(loops: tuple[TrainingLoop, ...]) -> list[TrainingLoop]:
    # Which of two took longer may depend on the machine; which has more steps does not.
    return sorted(loops, key=lambda loop: -loop.steps)


def _steps(wrong: Problems, loop: TrainingLoop, truth: dict[str, Any], ran: Ran) -> None:
    ranks = ran.truth.get("ranks", 1)
    tracks = truth.get("tracks", ranks * [truth["steps"]])
    wrong.same("steps", loop.steps, truth["steps"])
    wrong.same("steps of the tracks", sorted(each.steps for each in loop.ranks), sorted(tracks))
    measured = sum(tracks) - len(tracks) * loop.warmup.steps
    wrong.same("measured steps", loop.step.n, measured)
    wrong.between("warm-up", ran.truth.get("warmup", 0), loop.warmup.steps, truth["steps"] // 2)
    slowest = SLEEP * ran.truth.get("slowest", 0.0)
    wrong.between("the slowest step of the warm-up", slowest, loop.warmup.slowest, math.inf)
    if truth["fetches"] is not None:
        wrong.near("fetches per step", loop.fetches_per_step, truth["fetches"])
    if truth["updates"] is not None:
        wrong.near("updates per step", loop.updates_per_step, truth["updates"], 0.02)
    _items(wrong, loop, truth)
    total = loop.warmup.seconds + loop.step.mean * loop.step.n / len(tracks)
    evaluation = ran.truth.get("evaluation") or {}
    slack = evaluation["seconds"] - evaluation["least"] if evaluation.get("inside") else 0.0
    # The clock of one rank says nothing of how long another one waited for it.
    high = truth["seconds"] * 1.001 + slack + 0.001 if ranks == 1 else math.inf
    low = SLEEP * sum(tracks) / len(tracks) * sum(truth["naps"].values())
    wrong.between("seconds of all steps", low, total, high)


def _items(wrong: Problems, loop: TrainingLoop, truth: dict[str, Any]) -> None:
    items = truth["items"]
    if items == "unknown":
        wrong.same("items", loop.items_per_step, None)
        wrong.same("items per second", loop.throughput.items, None)
        wrong.same("a reason", bool(loop.throughput.why_no_items), True)
    elif items:
        measured = items[loop.warmup.steps :]
        wrong.near("items per step", loop.items_per_step, sum(measured) / len(measured))
        if len(loop.ranks) == 1:
            rate = sum(measured) / len(measured) / loop.step.mean
            wrong.near("items per second", loop.throughput.items, rate)
    if "tokens" in truth:
        wrong.near("tokens per step", loop.tokens_per_step, truth["tokens"])


def _regions(wrong: Problems, loop: TrainingLoop, truth: dict[str, Any]) -> None:
    """A region lasts at least as long as its naps; parts add up to what they are parts of."""
    found: dict[str, float] = defaultdict(float)
    for node, above in _nodes(loop.tree):
        if node.name not in above:
            found[node.name] += node.host.mean
        if node.children:
            whole = sum(child.host.mean for child in node.children)
            wrong.near(f"parts of {node.name}", whole, node.host.mean)
            shares = sum(child.share for child in node.children)
            wrong.near(f"shares of {node.name}", shares, node.share)
            wrong.same(f"the last part of {node.name}", node.children[-1].name, "other")
    wrong.near("step", loop.tree.host.mean, loop.step.mean)
    for name, nap in truth["naps"].items():
        wrong.between(f"seconds of {name}", SLEEP * nap, found.get(name, 0.0), loop.step.mean)


def _nodes(node: Node, above: tuple[str, ...] = ()):
    yield node, above
    for child in node.children:
        yield from _nodes(child, (*above, node.name))


def _lines(
    wrong: Problems, loop: TrainingLoop, truth: dict[str, Any], marks: dict[str, set[int]]
) -> None:
    suffix = truth.get("mark", "")
    for line in marks[told] if (told := truth.get("other")) else ():
        where = loop.tree.children[-1].what or ""
        wrong.same("where most of the rest lies", f":{line} " in where, True)
    wrong.same("paced by", loop.paced_by, truth["paced"])
    pace = marks.get("pace" + suffix)
    if pace:
        wrong.same("line of the pace", {loop.place.line if loop.place else None}, pace)
    for region in ("io", "forward", "backward", "optimizer"):
        marked = marks.get(region + suffix)
        if marked:
            lines = {
                node.place.line if node.place else None
                for node, above in _nodes(loop.tree)
                if node.name == region and region not in above
            }
            wrong.same(f"lines of {region}", lines - marks.get(f"{region}?", set()), marked)


def _evaluation(wrong: Problems, ran: Ran) -> None:
    truth, found = ran.truth.get("evaluation"), ran.profile.evaluations
    if truth is None:
        wrong.same("evaluations", found, ())
        return
    wrong.same("passes of evaluation", sum(each.passes for each in found), truth["passes"])
    if truth["batches"] is not None:
        wrong.same("batches of evaluation", sum(each.batches for each in found), truth["batches"])
    wrong.same("items of evaluation", sum(each.items or 0 for each in found), truth["items"])
    seconds = sum(each.seconds for each in found)
    wrong.between("evaluation", SLEEP * truth["least"], seconds, truth["seconds"] * 1.001 + 0.001)
    lines = {each.place.line if each.place else None for each in found}
    wrong.same("lines of evaluation", lines - ran.marks["eval"], set())


def _wall(wrong: Problems, ran: Ran) -> None:
    """Everything adds up to the run."""
    found: dict[str, float] = defaultdict(float)
    for stretch in ran.profile.segments:
        found[stretch.name] += stretch.seconds
        wrong.between(f"a stretch of {stretch.name}", 0.0, stretch.seconds, ran.profile.wall)
    wrong.near("segments", sum(found.values()), ran.profile.wall)
    wrong.between("wall", 0.0, ran.profile.wall, ran.seconds + 1)
    wrong.between("gaps", SLEEP * ran.truth.get("gaps", 0.0), found["gap"], ran.profile.wall)
    if len(ran.profile.loops) == 1 and len(ran.profile.loops[0].ranks) == 1:
        (loop,) = ran.profile.loops
        steps = loop.warmup.seconds + loop.step.mean * loop.step.n
        measured = found["training"] + found["inference"]
        wrong.near("training and warm-up", measured + found["warm-up"], steps)
    if "rollout" in ran.truth:
        notes = [each.note for each in ran.profile.segments if each.name == "gap"]
        wrong.same("a gap that is a rollout", any("rollout" in note for note in notes), True)
    evaluating = sum(each.seconds for each in ran.profile.evaluations)
    wrong.near("evaluation's segments", found["evaluation"], evaluating)


def _ranks(wrong: Problems, ran: Ran) -> None:
    ranks = ran.truth.get("ranks", 1)
    for loop in ran.profile.loops:
        if ranks > 1:
            wrong.same("ranks", [track.rank for track in loop.ranks], list(range(ranks)))
        slow = ran.truth.get("straggler")
        straggler = loop.straggler
        if slow is None:
            wrong.same("straggler", straggler, None)
        else:
            found = straggler and {"rank": straggler.rank, "slow_at": straggler.slow_at}
            wrong.same("straggler", found, slow)
