"""The three measurements: an event, start-up, imports. Tools take turns in every round."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from . import modules
from .processes import Cost, ProgramFailed, answer, cost
from .spread import Spread, differences, spread
from .tools import Tool, event_tools, ours, plain, program, startup_tools

Table = dict[str, dict[str, Spread]]
"""Row, column, what was measured."""

STARTS = (("start-up", "empty.py"), ("start-up, torch", "imports_torch.py"))
SLOW = {"ptera", "voir", "ov.probe"}
"""Tools that cost microseconds an event get fewer turns, so that no column takes minutes."""

T = TypeVar("T")


def events(peers: str | None, folder: Path, rounds: int) -> Table:
    """Microseconds that one event costs over the plain twin, for each case and tool."""

    def run(tool: Tool) -> dict[str, list[tuple[float, float]]]:
        turns = 1000 if tool.name in SLOW else 10_000
        line = answer(program(tool, "events.py", (turns, 9)), tool.folder)
        found: dict[str, list[tuple[float, float]]] = json.loads(line.splitlines()[-1])
        return found

    table: Table = {}
    for name, processes in in_turns(event_tools(peers, folder), rounds, run).items():
        for case in processes[0]:
            pairs = [pair for process in processes for pair in process[case]]
            table.setdefault(case, {})[name] = spread([ns / 1e3 for ns in differences(pairs)])
    return table


def startup(peers: str | None, folder: Path, rounds: int) -> Table:
    """Milliseconds of wall clock and of CPU that a run takes over ``python`` in the same round."""
    table: Table = {}
    for row, script in STARTS:

        def run(tool: Tool, script: str = script) -> Cost:
            return cost(program(tool, script), tool.folder)

        costs = in_turns(startup_tools(peers, folder), rounds, run)
        if "python" in costs:  # without torch there is nothing to compare
            table[row] = over_python(costs, lambda each: each.wall)
            table[row + " (CPU)"] = over_python(costs, lambda each: each.cpu)
    return table


def over_python(costs: dict[str, list[Cost]], read: Callable[[Cost], float]) -> dict[str, Spread]:
    base = costs.pop("python")
    found = {"python": spread([1e3 * read(each) for each in base])}
    for name, measured in costs.items():
        pairs = zip(base, measured, strict=True)
        found[name] = spread([1e3 * (read(each) - read(plain)) for plain, each in pairs])
    costs["python"] = base
    return found


def imports(folder: Path, rounds: int) -> Table:
    """Percent that importing modules which no probe names takes over ``python``."""
    generated = modules.write(folder / "modules")

    def run(tool: Tool) -> float:
        return float(answer(program(tool, "imports_many.py", (generated,)), tool.folder).split()[1])

    tools = [plain(folder), ours(folder, "inject", "elsewhere.py")]
    run(tools[0])  # writes the bytecode of the modules
    taken = in_turns(tools, rounds, run)
    base = taken.pop("python")
    row = {"python": spread([nanoseconds / 1e6 for nanoseconds in base])}
    for name, measured in taken.items():
        pairs = zip(base, measured, strict=True)
        row[name] = spread([100 * (each - without) / without for without, each in pairs])
    return {f"{modules.COUNT} imports": row}


def in_turns(tools: Sequence[Tool], rounds: int, run: Callable[[Tool], T]) -> dict[str, list[T]]:
    """What ``run`` gave for every tool in every round; without those that failed in any.

    Each round begins with another tool, so that none always follows the same one.
    """
    found: dict[str, list[T]] = {tool.name: [] for tool in tools}
    for number in range(rounds):
        working = [tool for tool in tools if tool.name in found]
        start = number % max(len(working), 1)
        for tool in working[start:] + working[:start]:
            _once(tool, run, found)
    return found


def _once(tool: Tool, run: Callable[[Tool], T], found: dict[str, list[T]]) -> None:
    try:
        found[tool.name].append(run(tool))
    except ProgramFailed as error:
        print(f"{tool.name} is left out: {error}", file=sys.stderr)
        del found[tool.name]
