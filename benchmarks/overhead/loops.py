"""What ``inject run`` costs training loops: steps of four lengths, regions, submodules, start-up, lost steps.

Two methods are used. Most functions run whole processes, each tool in turns within a round, and compare a
tool with ``python`` in the same round: that is what a user pays, but differences of a microsecond drown in
what the machine does. Others measure pairs within one process: the same code with its hooks and without, or a
function beside its *twin*, a copy that no probe names. Programs are in ``programs/``; each writes its figures
into a file as JSON.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from injector.analysis.profiling import profile
from injector.rewrite.method_calls import MethodCalls
from injector.rewrite.module_source import ModuleSource
from injector.store.folder import open_run

from .measures import Table, in_turns, over_python
from .processes import Cost, cost
from .profilers import loop_tools, start_tools, step_counters
from .spread import Spread, differences, spread
from .tools import Tool, ours, plain, program

TWINS = ("by hand", "io + step", "voir")
"""Tools that act on one function only, so that its twin in the same process runs as under ``python``."""
EVERY = 60_000, 200
"""How many steps :func:`every` makes, and microseconds of each."""

FUNCTION = """
def work_{n}(batch, device, scale=1.0):
    values = [value * scale for value in batch.values if value is not None]
    if len(values) > 10:
        first, *rest = sorted(values)
        return batch.{last}(first, rest)
    total = sum(values) / max(len(values), 1)
    batch.total, batch.count = total, len(values)
    return batch
"""
"""Ten lines of a module whose calls are hooked."""

Block = tuple[float, float, float, float]
"""Nanoseconds of a step: CPU and wall time of the twin, CPU and wall time of the loop."""


class Peers(NamedTuple):
    """Interpreters with the peers."""

    voir: str | None
    """The one that has voir and ptera."""
    profilers: Mapping[str, str]
    """Those of other peers, by name."""


def steps(
    peers: Peers, folder: Path, rounds: int, part: float = 1.0, lengths: Sequence[int] = ()
) -> Table:
    """Microseconds that a step takes longer than under ``python`` in the same round.

    ``lengths`` selects among the lengths of step that the program has; ``part`` is the fraction of each loop
    to run.
    """

    def run(tool: Tool) -> dict[str, list[Block]]:
        file = folder / "steps.json"
        blocks: dict[str, list[Block]] = _written("train_steps.py", tool, file, part, *lengths)
        return blocks

    table: Table = {}
    runs_of = in_turns(loop_tools(*peers, folder), rounds, run)
    for length in runs_of.get("python", [{}])[0]:
        blocks = {name: [run_[length] for run_ in runs] for name, runs in runs_of.items()}
        table |= dict(rows(length, blocks))
    return table


def rows(
    length: str, blocks: dict[str, list[list[Block]]]
) -> Iterator[tuple[str, dict[str, Spread]]]:
    """The rows of the table for one length of step; ``blocks`` has those of each run of each tool."""
    for clock, kind in ((2, "CPU"), (3, "wall")):
        microseconds = {
            name: [median(block[clock] for block in run) / 1e3 for run in runs]
            for name, runs in blocks.items()
        }
        yield f"steps {length} {kind}", _over_python(microseconds)
        if kind == "wall":
            yield f"steps {length} slower", _percent_over_python(microseconds)
    # A block has both, measured one right after the other, so that each block is a pair.
    with_twins = {
        name: [block for run in blocks[name] for block in run] for name in TWINS if name in blocks
    }
    yield (
        f"steps {length} twins",
        {
            name: spread([(block[2] - block[0]) / 1e3 for block in of_tool])
            for name, of_tool in with_twins.items()
        },
    )


def _over_python(figures: dict[str, list[float]]) -> dict[str, Spread]:
    """A row: the figure of ``python``, and how much that of each other tool is above it in the same round."""
    base = figures["python"]
    row = {
        name: spread(differences(list(zip(base, of_tool, strict=True))))
        for name, of_tool in figures.items()
        if name != "python"
    }
    return {"python": spread(base), **row}


def _percent_over_python(figures: dict[str, list[float]]) -> dict[str, Spread]:
    """A row: by how many percent the figure of each tool is above that of ``python`` in the same round."""
    base = figures["python"]
    return {
        name: spread([100 * (b / a - 1) for a, b in zip(base, of_tool, strict=True)])
        for name, of_tool in figures.items()
        if name != "python"
    }


def calls(folder: Path, rounds: int, part: float = 1.0) -> Table:
    """Microseconds of thread CPU that a recorded call takes longer than its twin in the same process."""

    def run(tool: Tool) -> dict[str, list[tuple[float, float]]]:
        file = folder / "regions.json"
        turns = int(10_000 * part)
        pairs: dict[str, list[tuple[float, float]]]
        pairs = _written("region_calls.py", tool, file, turns, 9)
        return pairs

    tools = [
        plain(folder)._replace(name="by hand", replaces="regions_by_hand.py"),
        ours(folder, "regions", "regions.py", "--no-auto"),
        ours(folder, "devices", "devices.py", "--no-auto"),
    ]
    table: Table = {}
    for name, processes in in_turns(tools, rounds, run).items():
        for case in processes[0]:
            pairs = [pair for process in processes for pair in process[case]]
            cells = table.setdefault(f"regions {case}", {})
            cells[name] = spread([ns / 1e3 for ns in differences(pairs)])
    if "devices" in table.get("regions every", {}):
        # A row of its own, as a row of the table has only one goal.
        table["regions every, device"] = {"devices": table["regions every"].pop("devices")}
    return table


def small(folder: Path, rounds: int, part: float = 1.0) -> Table:
    """Microseconds of thread CPU that each kind of hook adds to a step of a small loop.

    Steps with the hook and without run in turns within one process; the row ``small, processes`` compares
    whole processes.
    """

    def run(tool: Tool) -> dict[str, list[tuple[float, float]]]:
        pairs: dict[str, list[tuple[float, float]]]
        pairs = _written("train_small.py", tool, folder / "small.json", part)
        return pairs

    tools = [
        plain(folder),
        ours(folder, "io + step", "loop.py", "--no-auto"),
        ours(folder, "ov.value", "loss.py", "--no-auto"),
        ours(folder, "auto", None),
    ]
    table: Table = {}
    runs_of = in_turns(tools, rounds, run)
    for name, processes in runs_of.items():
        for kind in processes[0]:
            pairs = [pair for process in processes for pair in process[kind]]
            cells = table.setdefault(f"small {kind}", {})
            # Under python both are the same code: this column shows what the method cannot tell from 0.
            cells[name] = spread([ns / 1e3 for ns in differences(pairs)])
    if "ov.value" in table.get("small loop", {}):
        # A row of its own, as a row of the table has only one goal.
        table["small value"] = {"ov.value": table["small loop"].pop("ov.value")}
    if "python" in runs_of:
        table["small, processes"] = _over_python(
            {
                name: [median(with_ for _, with_ in run["loop"]) / 1e3 for run in runs]
                for name, runs in runs_of.items()
            }
        )
    return table


def boosting(folder: Path, rounds: int, part: float = 1.0) -> Table:
    """What a round of boosting takes longer, in CPU time of the whole process while it trains.

    It is in microseconds for rounds of few rows, where hooks are most of the time, and in percent for 100 000
    rows.
    """
    tools = [plain(folder), ours(folder, "auto", None)]
    few, many = (200, max(int(2000 * part), 2)), (100_000, max(int(200 * part), 2))
    table: Table = {}
    for library in ("lightgbm", "xgboost"):
        for row, size in (("", few), (" slower", many)):

            def run(tool: Tool, words: tuple[object, ...] = (library, *size)) -> float:
                seconds: float = _written("boost_trees.py", tool, folder / "boosting.json", *words)
                return 1e6 * seconds

            figures = in_turns(tools, rounds, run)
            if len(figures) == len(tools):
                compare = _percent_over_python if row else _over_python
                table[f"boosting {library}{row}"] = compare(figures)
    return table


def studies(folder: Path, rounds: int, part: float = 1.0) -> Table:
    """Milliseconds of CPU time that a trial takes longer, whatever it computes."""
    tools = [plain(folder), ours(folder, "auto", None)]
    table: Table = {}
    for library in ("optuna", "sklearn"):

        def run(tool: Tool, library: str = library) -> float:
            file, trials = folder / "studies.json", max(int(200 * part), 2)
            seconds: float = _written("run_trials.py", tool, file, library, trials)
            return 1e3 * seconds

        figures = in_turns(tools, rounds, run)
        if len(figures) == len(tools):
            table[f"trial {library}"] = _over_python(figures)
    return table


def methods(folder: Path, rounds: int, part: float = 1.0) -> Table:
    """Microseconds of thread CPU that a hooked ``.to`` takes longer, and milliseconds to hook a module."""

    def run(tool: Tool) -> dict[str, list[tuple[float, float]]]:
        file = folder / "methods.json"
        pairs: dict[str, list[tuple[float, float]]]
        pairs = _written("method_calls.py", tool, file, int(20_000 * part) + 1, 9)
        return pairs

    auto = ours(folder, "auto", None)
    # Such calls are hooked only where there may be an accelerator.
    auto = auto._replace(command=("env", "INJECT_ACCELERATOR=1", *auto.command))
    processes = in_turns([auto], rounds, run).get("auto", [])
    table: Table = {}
    for case in processes[0] if processes else ():
        pairs = [pair for process in processes for pair in process[case]]
        table[f"methods {case}"] = {"auto": spread([ns / 1e3 for ns in differences(pairs)])}
    return table | {"methods module": {"auto": spread(hooked(rounds))}}


def hooked(rounds: int) -> list[float]:
    """Milliseconds of thread CPU that hooking the calls in the code of a module of 1 000 lines takes.

    Every tenth function has such a call. The module's text is parsed, as it is when a program imports it.
    """
    functions = (FUNCTION.format(n=n, last="to" if n % 10 == 0 else "view") for n in range(100))
    text = "\n".join(functions)
    code, method_calls = compile(text, "module.py", "exec"), MethodCalls(["to", "cuda"])
    milliseconds = []
    for _ in range(3 * rounds + 1):
        begin = time.thread_time_ns()
        new, _, _ = ModuleSource("module", "module.py", text, code).rewrite(
            method_calls.requests(code, "module")
        )
        milliseconds.append((time.thread_time_ns() - begin) / 1e6)
        if new is None:
            raise RuntimeError("no call was hooked")
    return milliseconds[1:]  # the first one imports what is needed


def submodules(folder: Path, rounds: int, part: float = 1.0) -> Table:
    """Nanoseconds of thread CPU that the call of a submodule takes longer than under ``python``."""

    def run(tool: Tool) -> float:
        file = folder / "submodules.json"
        nanoseconds: list[float] = _written("submodules.py", tool, file, int(50 * part) + 1, 9)
        return median(nanoseconds)

    figures = in_turns([plain(folder), ours(folder, "auto", None)], rounds, run)
    return {"submodules": _over_python(figures)} if "python" in figures else {}


def starts(peers: Peers, folder: Path, rounds: int) -> Table:
    """Milliseconds that a script which imports torch takes longer than under ``python`` in the same round."""

    def run(tool: Tool) -> Cost:
        return cost(program(tool, "imports_torch.py"), tool.folder)

    tools = [
        tool._replace(before=()) if tool.name == "traceml" else tool
        for tool in start_tools(*peers, folder)
    ]
    costs = in_turns(tools, rounds, run)
    if "python" not in costs:
        return {}
    return {
        "starts": over_python(costs, lambda cost: cost.wall),
        "starts (CPU)": over_python(costs, lambda cost: cost.cpu),
    }


def every(peers: Peers, folder: Path, rounds: int, part: float = 1.0) -> Table:
    """How many steps of a fast loop are missing in the records of each tool."""
    count, microseconds = int(EVERY[0] * part), EVERY[1]

    def run(tool: Tool) -> float:
        before = set(_records(tool))
        cost(program(tool, "every_step.py", (count, microseconds)), tool.folder)
        (record,) = set(_records(tool)) - before
        return float(count - COUNTED.get(tool.name, _counted_by_us)(record))

    missing = in_turns(step_counters(*peers, folder), rounds, run)
    return {"every": {name: spread(of_tool) for name, of_tool in missing.items()}}


def _records(tool: Tool) -> Iterator[Path]:
    """The files or folders that a tool has left of its runs, one for each."""
    if tool.name == "traceml":
        return (tool.folder / "traceml").glob("*")
    if tool.name == "voir":
        return tool.folder.glob("*.jsonl")
    return (tool.folder / "runs").glob("*")


def _counted_by_us(folder: Path) -> int:
    recorded = profile(open_run(str(folder)))
    return max((loop.steps for loop in recorded.loops), default=0) if recorded else 0


def _counted_by_traceml(folder: Path) -> int:
    """How many steps TraceML's summary is about."""
    summary = json.loads((folder / "final_summary.json").read_text(encoding="utf-8"))
    return max(_values_of_key(summary, "steps_analyzed"), default=0)


def _values_of_key(value: Any, key: str) -> Iterator[int]:
    """The whole numbers that any object within ``value`` has by the name ``key``."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == key and isinstance(inner, int):
                yield inner
            yield from _values_of_key(inner, key)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from _values_of_key(inner, key)


def _counted_by_observer(file: Path) -> int:
    """How many rates voir's observer has written."""
    return sum('"rate"' in line for line in file.read_text(encoding="utf-8").splitlines())


COUNTED: dict[str, Callable[[Path], int]] = {
    "traceml": _counted_by_traceml,
    "voir": _counted_by_observer,
}


def _written(script: str, tool: Tool, file: Path, *arguments: object) -> Any:
    """Run a program under ``tool``, and return what it wrote into ``file``.

    It is not printed, since tools print on stdout as well.
    """
    file.unlink(missing_ok=True)
    cost(program(tool, script, (file, *arguments)), tool.folder)
    return json.loads(file.read_text(encoding="utf-8"))
