"""Three measurements, of an event, of start-up and of imports, and how tools take turns in them.

Whatever is compared runs in turns within a round (:func:`in_turns`), and figures are compared within the
round: a machine that becomes slower over minutes then slows all tools alike.
"""

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
"""What was measured, by row and column."""

STARTS = (("start-up", "empty.py"), ("start-up, torch", "imports_torch.py"))
SLOW = {"ptera", "voir", "ov.probe"}
"""Tools that take microseconds for an event: they get fewer events, so that no column takes minutes."""

T = TypeVar("T")


def events(peers: str | None, folder: Path, rounds: int) -> Table:
    """Microseconds that one event takes longer than the same code without a probe, for each case and tool."""

    def run(tool: Tool) -> dict[str, list[tuple[float, float]]]:
        turns = 1000 if tool.name in SLOW else 10_000
        printed = answer(program(tool, "events.py", (turns, 9)), tool.folder)
        pairs: dict[str, list[tuple[float, float]]] = json.loads(printed.splitlines()[-1])
        return pairs

    table: Table = {}
    for name, processes in in_turns(event_tools(peers, folder), rounds, run).items():
        for case in processes[0]:
            pairs = [pair for process in processes for pair in process[case]]
            table.setdefault(case, {})[name] = spread([ns / 1e3 for ns in differences(pairs)])
    return table


def startup(peers: str | None, folder: Path, rounds: int) -> Table:
    """Milliseconds of wall and CPU time that a run takes longer than under ``python`` in the same round."""
    table: Table = {}
    for row, script in STARTS:

        def run(tool: Tool, script: str = script) -> Cost:
            return cost(program(tool, script), tool.folder)

        costs = in_turns(startup_tools(peers, folder), rounds, run)
        if "python" in costs:  # without torch there is nothing to compare
            table[row] = over_python(costs, lambda cost: cost.wall)
            table[row + " (CPU)"] = over_python(costs, lambda cost: cost.cpu)
    return table


def over_python(costs: dict[str, list[Cost]], read: Callable[[Cost], float]) -> dict[str, Spread]:
    """A row in milliseconds: the cost of ``python``, and how much that of each other tool is above it.

    ``read`` takes the seconds out of a cost.
    """
    base = costs["python"]
    row = {"python": spread([1e3 * read(plain) for plain in base])}
    for name, of_tool in costs.items():
        if name != "python":
            pairs = zip(base, of_tool, strict=True)
            row[name] = spread([1e3 * (read(cost) - read(plain)) for plain, cost in pairs])
    return row


def imports(folder: Path, rounds: int) -> Table:
    """Percent that importing modules which no probe names takes longer than under ``python``."""
    generated = modules.write(folder / "modules")

    def run(tool: Tool) -> float:
        return float(answer(program(tool, "imports_many.py", (generated,)), tool.folder).split()[1])

    tools = [plain(folder), ours(folder, "inject", "elsewhere.py")]
    run(tools[0])  # writes the bytecode of the modules
    nanoseconds = in_turns(tools, rounds, run)
    base = nanoseconds.pop("python")
    row = {"python": spread([plain / 1e6 for plain in base])}
    for name, of_tool in nanoseconds.items():
        pairs = zip(base, of_tool, strict=True)
        row[name] = spread([100 * (with_ - plain) / plain for plain, with_ in pairs])
    return {f"{modules.COUNT} imports": row}


def in_turns(tools: Sequence[Tool], rounds: int, run: Callable[[Tool], T]) -> dict[str, list[T]]:
    """The results of ``run`` for each tool, one for each round; a tool that fails is left out.

    Each round begins with another tool, so that none always follows the same one.
    """
    results: dict[str, list[T]] = {tool.name: [] for tool in tools}
    for number in range(rounds):
        working = [tool for tool in tools if tool.name in results]
        start = number % max(len(working), 1)
        for tool in working[start:] + working[:start]:
            try:
                results[tool.name].append(run(tool))
            except ProgramFailed as error:
                print(f"{tool.name} is left out: {error}", file=sys.stderr)
                del results[tool.name]
    return results
