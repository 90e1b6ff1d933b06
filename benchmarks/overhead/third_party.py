"""What ``inject run`` costs third-party programs: each runs under ``python`` and under ``inject run``, in
turns.

The programs are those of the suite ``third_party.yaml``, whose definitions say where they come from, how they
are installed and what data they need. The cost of a run is its wall time, and the processor time of its whole
tree of processes. From a suite only the command lines are taken (:func:`programs`): the suite itself must
cost nothing here.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from injector import reaper

from .processes import Cost, ProgramFailed
from .spread import Spread, spread
from .tools import HERE, HOME, environment, inject

SUITE = HERE / "third_party.yaml"
PATIENCE = 600.0
"""Seconds after which a program is killed."""
GRACE = 5.0
"""Seconds after which processes that outlive their program are killed, as by ``inject run``."""
WAYS: dict[str, tuple[str, ...]] = {"python": (), "inject run": (), "inject run -q": ("--quiet",)}
"""The ways of running a program, each with its options for ``inject run``."""
GOAL = 1.0
"""Percent of the processor time that ``inject run`` may add."""


class Program(NamedTuple):
    """One program of the suite; ``OUT`` in its words, folder and variables stands for the folder of a run."""

    name: str
    python: str
    """The interpreter of its environment."""
    words: tuple[str, ...]
    folder: str
    environ: Mapping[str, str]

    def command(self, way: str, runs: Path) -> list[str]:
        """The command of a run in one way; ``inject run`` makes its run folder in ``runs``."""
        if way != "python":
            script = str(Path(self.python).with_name("inject"))
            return [script, "run", *WAYS[way], "--runs", str(runs), "--", *self.words]
        if self.words[0].endswith(".py") or self.words[0] == "-m":
            return [self.python, *self.words]
        return list(self.words)


class AddedCost(NamedTuple):
    """What one way of running a program costs more than ``python`` in the same rounds."""

    cpu: Spread
    """Seconds of processor time."""
    cpu_percent: Spread
    wall: Spread
    """Seconds."""
    wall_percent: Spread


OUT = "@OUT@"

Costs = dict[str, dict[str, list[Cost]]]
"""The cost of each round, by program and way."""


def programs(plan: Mapping[str, Any]) -> list[Program]:
    """The programs of a suite's plan (``inject suite plan --json``), without the words of ``inject run``."""
    return [_program(job["benchmark"], job["processes"][0]) for job in plan["jobs"]]


def _program(name: str, process: Mapping[str, Any]) -> Program:
    # The command of a plan is `inject run … --into FOLDER/JOB -- PROGRAM …`.
    command = process["command"]
    at = command.index("--")
    jobs = str(Path(command[command.index("--into") + 1]).parent)

    def placed(word: str) -> str:
        """``word`` with the job's folder of the plan replaced by that of a run."""
        return re.sub(rf"{re.escape(jobs)}/[^/]*", OUT, word)

    environ = {
        key: placed(text)
        for key, text in process["environment"].items()
        if not key.startswith(("INJECT", "MILABENCH"))
    }
    words = tuple(placed(word) for word in command[at + 1 :])
    return Program(name, command[0], words, placed(process["folder"]), environ)


def install(base: Path, select: Sequence[str]) -> list[Program]:
    """Install the programs with their data into ``base``, and return them.

    A program that could not be installed is returned as well: it fails when it is run, with its reason.
    """
    chosen = [str(SUITE), "--base", str(base)]
    chosen += [word for name in select for word in ("--select", name)]
    for verb in ("install", "prepare"):
        done = subprocess.run([*inject(), "suite", verb, *chosen], stdout=sys.stderr, check=False)
        if done.returncode == 2:
            raise ProgramFailed(f"inject suite {verb} {' '.join(chosen)}: exit code 2")
    words = [*inject(), "suite", "plan", *chosen, "--devices", "cpu:1", "--json"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ProgramFailed(f"{' '.join(words)}: exit code {done.returncode}")
    return programs(json.loads(done.stdout))


def run(program: Program, way: str, root: Path = HOME) -> Cost:
    """Run a program once, in a folder of its own, with the package in ``root``. Raises ProgramFailed."""
    with tempfile.TemporaryDirectory(prefix="injector-program-") as name:
        out = str(Path(name) / "out")
        os.mkdir(out)
        placed = {key: text.replace(OUT, name) for key, text in program.environ.items()}
        environ = {**environment(), **placed, "PYTHONPATH": str(root)}
        words = [word.replace(OUT, name) for word in program.command(way, Path(name) / "runs")]
        folder = program.folder.replace(OUT, name)
        errors = Path(name) / "errors"
        # In a process of its own, which has no other children that it could wait for by mistake.
        with ProcessPoolExecutor(1, get_context("spawn")) as apart:
            cost, code = apart.submit(tree_cost, words, folder, environ, str(errors)).result()
        if code:
            lines = errors.read_text(errors="replace").strip().splitlines()
            raise ProgramFailed(f"exit code {code}: {lines[-1] if lines else ''}"[:200])
    return cost


def tree_cost(
    words: Sequence[str], folder: str, environ: Mapping[str, str], errors: str
) -> tuple[Cost, int]:
    """The cost of a process and of all that it started, and its exit code; stderr goes to the file
    ``errors``.

    Wall time is that of the process itself, for as long as a shell would wait. The process that calls this
    must have no other children, now or later. Raises ProgramFailed if the program cannot be started.
    """
    # The kernel adds a process's time to that of the parent that waits for it. A daemon has process 1 as its
    # parent, so that its time would be missing: here it becomes our child.
    reaper.adopt_orphans()
    begun, before = time.perf_counter(), _processor_time()
    null = subprocess.DEVNULL
    try:
        with open(errors, "wb") as file:
            process = subprocess.Popen(
                words, cwd=folder, env=environ, stdin=null, stdout=null, stderr=file
            )
    except OSError as error:
        raise ProgramFailed(f"{error.strerror}: {error.filename}") from None
    try:
        code = process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        code = 124
        reaper.end_by_force(reaper.descendants(os.getpid()))
        process.wait()
    wall = time.perf_counter() - begun
    _wait_for_all()
    return Cost(wall, _processor_time() - before), code


def _processor_time() -> float:
    """Seconds of all children that have ended and were waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait_for_all() -> None:
    """Wait until nothing is left of a program; what has not ended after :data:`GRACE` is killed."""
    due = time.monotonic() + GRACE
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            time.sleep(0.01)
            if time.monotonic() > due:
                reaper.end_by_force(reaper.descendants(os.getpid()))


def costs_by_way(
    program: Program, ways: Mapping[str, Callable[[Program], Cost]], rounds: int
) -> dict[str, list[Cost]]:
    """The costs of a program in each round, by way. Raises ProgramFailed, with the way, if it does not exit
    with 0.

    An additional first round does not count: it writes bytecode, and the cache of rewritten functions. Each
    round begins with another way.
    """
    costs: dict[str, list[Cost]] = {way: [] for way in ways}
    names = list(ways)
    for number in range(-1, rounds):
        at = number % len(names) if number > 0 else 0
        for way in names[at:] + names[:at]:
            try:
                cost = ways[way](program)
            except ProgramFailed as error:
                raise ProgramFailed(f"under {way}, {error}") from None
            if number >= 0:
                costs[way].append(cost)
    return costs


def added_costs(costs: Mapping[str, Sequence[Cost]]) -> dict[str, AddedCost]:
    """What each way costs more than ``python`` in the same round."""
    base = costs["python"]
    added = {}
    for way, of_way in costs.items():
        if way != "python":
            pairs = list(zip(base, of_way, strict=True))
            added[way] = AddedCost(
                spread([with_.cpu - plain.cpu for plain, with_ in pairs]),
                spread([100 * (with_.cpu / plain.cpu - 1) for plain, with_ in pairs]),
                spread([with_.wall - plain.wall for plain, with_ in pairs]),
                spread([100 * (with_.wall / plain.wall - 1) for plain, with_ in pairs]),
            )
    return added


def measure(
    base: Path, select: Sequence[str], rounds: int, roots: Mapping[str, Path] | None = None
) -> tuple[Costs, dict[str, str]]:
    """Install and run the programs one by one, and print what each costs.

    ``roots`` are other checkouts of this package by name, which are measured in the same rounds. Returns all
    costs, and for each program that could not be run the reason.
    """
    ways: dict[str, Callable[[Program], Cost]] = {
        way: lambda program, way=way: run(program, way)  # type: ignore[misc]
        for way in WAYS
    }
    for name, root in (roots or {}).items():
        ways[f"inject run, {name}"] = lambda program, root=root: run(program, "inject run", root)  # type: ignore[misc]
    costs: Costs = {}
    failed: dict[str, str] = {}
    print(_heading(), flush=True)
    for program in install(base, select):
        try:
            costs[program.name] = costs_by_way(program, ways, rounds)
        except ProgramFailed as error:
            failed[program.name] = str(error)
            continue
        print("\n".join(lines(program.name, costs[program.name])), flush=True)
    added = {name: added_costs(of_program) for name, of_program in costs.items()}
    print("\n".join(summary(added, failed)))
    return costs, failed


def missed(costs: Costs) -> list[str]:
    """A line if the goal was missed by more than the spread of the programs explains."""
    if not costs:
        return ["third-party programs: none could be run"]
    added = [added_costs(of_program)["inject run"] for of_program in costs.values()]
    percent = spread([cost.cpu_percent.median for cost in added])
    if percent.low <= GOAL:
        return []
    return [f"third-party programs, median: {percent.median:+.1f} % of CPU, goal {GOAL:+g}"]


def _heading() -> str:
    titles = "".join(f"{title:>28}" for title in ("CPU s", "CPU %", "wall s", "wall %"))
    return f"{'over python, median (95 %)':28}{titles}"


def lines(name: str, costs: Mapping[str, Sequence[Cost]]) -> Iterator[str]:
    """A line with the cost of a program under ``python``, and a line with what each other way adds."""
    wall, cpu = (median(of_clock) for of_clock in zip(*costs["python"], strict=True))
    yield f"{name}: {cpu:.2f} s of CPU, {wall:.2f} s, n={len(costs['python'])}"
    for way, added in added_costs(costs).items():
        yield f"  {way:26}" + "".join(f"{_cell(figure):>28}" for figure in added)


def _cell(figure: Spread) -> str:
    return f"{figure.median:+.2f} ({figure.low:+.2f} … {figure.high:+.2f})"


def summary(
    added: Mapping[str, Mapping[str, AddedCost]], failed: Mapping[str, str]
) -> Iterator[str]:
    """For each way, the median over all programs and the worst program; then what could not be run."""
    ways = list(dict.fromkeys(way for of_program in added.values() for way in of_program))
    for way in ways:
        yield f"{way}, of {len(added)} programs (goal: CPU {GOAL:+g} %)"
        for title, field in (("CPU", "cpu"), ("wall", "wall")):
            seconds = spread([getattr(costs[way], field).median for costs in added.values()])
            percents = {
                name: getattr(costs[way], f"{field}_percent") for name, costs in added.items()
            }
            middle = spread([percent.median for percent in percents.values()])
            worst = max(percents, key=lambda name: percents[name].median)
            yield f"  {title} median {_cell(middle)} %, {_cell(seconds)} s"
            yield f"  {title} worst  {_cell(percents[worst])} %, {worst}"
    for name, why in failed.items():
        yield f"not run: {name}: {why}"
