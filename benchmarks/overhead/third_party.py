"""What programs that nobody here wrote pay: each under ``python`` and under ``inject run``, in turns.

They are those of ``third_party.yaml``, a suite: where they come from, how they are installed and what data
they need, stands in its definitions. A run's cost is its wall clock, and the processor time of its whole
process tree.
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
"""Seconds that a program may take."""
GRACE = 5.0
"""Seconds that what outlives a program is given, as ``inject run`` gives it."""
WAYS: dict[str, tuple[str, ...]] = {"python": (), "inject run": (), "inject run -q": ("--quiet",)}
"""How each is run, and the options of that."""
GOAL = 1.0
"""Percent of the processor time that ``inject run`` may add."""


class Program(NamedTuple):
    """One program as a suite's plan has it; ``OUT`` in its words stands for the folder of a run."""

    name: str
    python: str
    """The interpreter of its environment."""
    words: tuple[str, ...]
    folder: str
    environ: Mapping[str, str]

    def command(self, way: str, runs: Path) -> list[str]:
        """The words of a run; what is recorded goes to ``runs``."""
        if way != "python":
            script = str(Path(self.python).with_name("inject"))
            return [script, "run", *WAYS[way], "--runs", str(runs), "--", *self.words]
        if self.words[0].endswith(".py") or self.words[0] == "-m":
            return [self.python, *self.words]
        return list(self.words)


class Paid(NamedTuple):
    """What one program pays one way, beside ``python`` in the same rounds."""

    cpu: Spread
    """Seconds of processor time over those of ``python``."""
    cpu_percent: Spread
    wall: Spread
    """Seconds."""
    wall_percent: Spread


OUT = "@OUT@"

Costs = dict[str, dict[str, list[Cost]]]
"""By program and way, what each round cost."""


def programs(plan: Mapping[str, Any]) -> list[Program]:
    """The programs of a suite's plan (``inject suite plan --json``), without what the suite puts before."""
    return [_program(job["benchmark"], job["processes"][0]) for job in plan["jobs"]]


def _program(name: str, process: Mapping[str, Any]) -> Program:
    command = process["command"]
    at = command.index("--")
    jobs = str(Path(command[command.index("--into") + 1]).parent)

    def placed(word: str) -> str:
        return re.sub(rf"{re.escape(jobs)}/[^/]*", OUT, word)

    environ = {
        key: placed(text)
        for key, text in process["environment"].items()
        if not key.startswith(("INJECT", "MILABENCH"))
    }
    words = tuple(placed(word) for word in command[at + 1 :])
    return Program(name, command[0], words, placed(process["folder"]), environ)


def install(base: Path, select: Sequence[str]) -> list[Program]:
    """The programs, with their environments and data where these could be made: what failed will say so."""
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
    """One run in a folder of its own, with the package of the checkout ``root``. Raises ProgramFailed."""
    with tempfile.TemporaryDirectory(prefix="injector-program-") as name:
        out = str(Path(name) / "out")
        os.mkdir(out)
        placed = {key: text.replace(OUT, name) for key, text in program.environ.items()}
        environ = {**environment(), **placed, "PYTHONPATH": str(root)}
        words = [word.replace(OUT, name) for word in program.command(way, Path(name) / "runs")]
        folder = program.folder.replace(OUT, name)
        errors = Path(name) / "errors"
        # A process of its own adopts, and waits for, what a program leaves: none of these are our children.
        with ProcessPoolExecutor(1, get_context("spawn")) as apart:
            found, code = apart.submit(tree_cost, words, folder, environ, str(errors)).result()
        if code:
            lines = errors.read_text(errors="replace").strip().splitlines()
            raise ProgramFailed(f"exit code {code}: {lines[-1] if lines else ''}"[:200])
    return found


def tree_cost(
    words: Sequence[str], folder: str, environ: Mapping[str, str], errors: str
) -> tuple[Cost, int]:
    """What a process and all that it started cost, with its exit code; stderr goes to the file ``errors``.

    Wall clock is that of the process itself, as a shell would wait. The process that calls this has no
    other child, now or later. Raises ProgramFailed if the program cannot begin.
    """
    reaper.adopt_orphans()  # else what its parent has left alone would cost nothing
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
    """Seconds of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait_for_all() -> None:
    """Until nothing is left of a program; what does not end in time is killed."""
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


def taken(
    program: Program, ways: Mapping[str, Callable[[Program], Cost]], rounds: int
) -> dict[str, list[Cost]]:
    """What each round cost each way. Raises ProgramFailed, with the way, where it ends otherwise than with 0.

    A run of each way comes first and counts for nothing: it writes bytecode, and the cache of instrumented
    functions. Rounds begin with another way each.
    """
    found: dict[str, list[Cost]] = {way: [] for way in ways}
    names = list(ways)
    for number in range(-1, rounds):
        at = number % len(names) if number > 0 else 0
        for way in names[at:] + names[:at]:
            try:
                cost = ways[way](program)
            except ProgramFailed as error:
                raise ProgramFailed(f"under {way}, {error}") from None
            if number >= 0:
                found[way].append(cost)
    return found


def paid(costs: Mapping[str, Sequence[Cost]]) -> dict[str, Paid]:
    """By way, what a program pays over ``python`` in the same round."""
    base = costs["python"]
    found = {}
    for way, measured in costs.items():
        if way != "python":
            pairs = list(zip(base, measured, strict=True))
            found[way] = Paid(
                spread([with_.cpu - plain.cpu for plain, with_ in pairs]),
                spread([100 * (with_.cpu / plain.cpu - 1) for plain, with_ in pairs]),
                spread([with_.wall - plain.wall for plain, with_ in pairs]),
                spread([100 * (with_.wall / plain.wall - 1) for plain, with_ in pairs]),
            )
    return found


def measure(
    base: Path, select: Sequence[str], rounds: int, roots: Mapping[str, Path] | None = None
) -> tuple[Costs, dict[str, str]]:
    """Install, run and print the programs one by one; all costs, and the reasons of what could not be run.

    ``roots`` are other checkouts of this package by name, measured in the same rounds.
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
            costs[program.name] = taken(program, ways, rounds)
        except ProgramFailed as error:
            failed[program.name] = str(error)
            continue
        print("\n".join(lines(program.name, costs[program.name])), flush=True)
    print("\n".join(summary({name: paid(each) for name, each in costs.items()}, failed)))
    return costs, failed


def missed(costs: Costs) -> list[str]:
    """The goal, if it was missed by more than what the programs differ by."""
    if not costs:
        return ["third-party programs: none could be run"]
    percents = [paid(each)["inject run"].cpu_percent.median for each in costs.values()]
    found = spread(percents)
    if found.low <= GOAL:
        return []
    return [f"third-party programs, median: {found.median:+.1f} % of CPU, goal {GOAL:+g}"]


def _heading() -> str:
    titles = "".join(f"{title:>28}" for title in ("CPU s", "CPU %", "wall s", "wall %"))
    return f"{'over python, median (95 %)':28}{titles}"


def lines(name: str, costs: Mapping[str, Sequence[Cost]]) -> Iterator[str]:
    """A line of a program for ``python``, and one for what each other way adds to it."""
    wall, cpu = (median(each) for each in zip(*costs["python"], strict=True))
    yield f"{name}: {cpu:.2f} s of CPU, {wall:.2f} s, n={len(costs['python'])}"
    for way, found in paid(costs).items():
        yield f"  {way:26}" + "".join(f"{_cell(each):>28}" for each in found)


def _cell(found: Spread) -> str:
    return f"{found.median:+.2f} ({found.low:+.2f} … {found.high:+.2f})"


def summary(found: Mapping[str, Mapping[str, Paid]], failed: Mapping[str, str]) -> Iterator[str]:
    """The median over all programs, and the worst of them, by way; what could not be run."""
    ways = list(dict.fromkeys(way for each in found.values() for way in each))
    for way in ways:
        yield f"{way}, of {len(found)} programs (goal: CPU {GOAL:+g} %)"
        for title, field in (("CPU", "cpu"), ("wall", "wall")):
            seconds = spread([getattr(each[way], field).median for each in found.values()])
            percents = {
                name: getattr(each[way], f"{field}_percent") for name, each in found.items()
            }
            middle = spread([each.median for each in percents.values()])
            worst = max(percents, key=lambda name: percents[name].median)
            yield f"  {title} median {_cell(middle)} %, {_cell(seconds)} s"
            yield f"  {title} worst  {_cell(percents[worst])} %, {worst}"
    for name, why in failed.items():
        yield f"not run: {name}: {why}"
