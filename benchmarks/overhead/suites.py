"""What a suite adds to the time of the commands that it starts, and what planning thousands of them takes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter

from .measures import Table, in_turns
from .processes import ProgramFailed, answer
from .spread import spread
from .tools import PROGRAMS, Tool, environment, inject

BENCHMARKS = 8
"""Benchmarks of the suite; what the suite takes once is divided among them."""
JOBS = 10_000
"""Jobs of the plan."""
ENTRY = """\
empty-{number}:
  run: {program}
  validation: {{rate: false}}
"""


def suites(folder: Path, rounds: int) -> Table:
    """Milliseconds that a suite adds to each of its benchmarks, and CPU milliseconds of a large plan."""
    return {**_added(folder / "suites", rounds), **_planning(folder, rounds)}


def _added(folder: Path, rounds: int) -> Table:
    """Run a suite of empty programs, and in turns the commands of its plan without a suite."""
    folder.mkdir()
    suite = folder / "suite.yaml"
    program = PROGRAMS / "empty.py"
    suite.write_text(
        "".join(ENTRY.format(number=number, program=program) for number in range(BENCHMARKS))
    )
    words = [str(suite), "--base", str(folder / "base"), "--use-current-env", "--devices", "cpu:1"]
    plan = json.loads(answer([*inject(), "suite", "plan", *words, "--json"], folder))

    def run(tool: Tool) -> float:
        shutil.rmtree(folder / "base", ignore_errors=True)
        before = perf_counter()
        if tool.name == "suite":
            _call([*tool.command, *words], folder, environment())
        else:
            for command, environ in _by_hand(plan, folder):
                _call(command, folder, environ)
        return perf_counter() - before

    tools = [Tool("python", (), folder), Tool("suite", (*inject(), "suite", "run"), folder)]
    seconds = in_turns(tools, rounds, run)
    pairs = zip(seconds["python"], seconds["suite"], strict=True)
    row = {"python": spread([1e3 * by_hand / BENCHMARKS for by_hand in seconds["python"]])}
    row["suite"] = spread([1e3 * (suite - by_hand) / BENCHMARKS for by_hand, suite in pairs])
    return {"suite": row}


def _by_hand(
    plan: Mapping[str, object], folder: Path
) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The commands of a plan, each with its environment; their run folders are made in ``base/by-hand``."""
    runs = str(folder / "base" / "by-hand")
    for job in plan["jobs"]:  # type: ignore[attr-defined]
        for process in job["processes"]:
            # A plan has TIME in its paths, which the suite would replace by the time at which it starts.
            text = json.dumps([process["command"], process["environment"]])
            command, variables = json.loads(re.sub(r'[^"]*/suite\.TIME', runs, text))
            yield command, {**environment(), **variables}


def _call(command: list[str], folder: Path, environ: dict[str, str]) -> None:
    done = subprocess.run(
        command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        raise ProgramFailed(f"{' '.join(command)}: {done.returncode}\n{done.stderr[-2000:]}")


def _planning(folder: Path, rounds: int) -> Table:
    program = [sys.executable, str(PROGRAMS / "plan_many.py"), str(JOBS)]
    milliseconds = [1e3 * float(answer(program, folder)) for _ in range(rounds)]
    return {"planning": {"suite": spread(milliseconds)}}
