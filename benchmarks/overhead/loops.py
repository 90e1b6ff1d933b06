"""What training loops pay: steps of four lengths, regions, submodules, start-up, steps that are lost."""

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
"""Tools that act on one function only: its twin in the same process runs as under ``python``."""
EVERY = 60_000, 200
"""Steps, and microseconds of each."""

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
"""Ten lines of a module."""

Block = tuple[float, float, float, float]
"""Nanoseconds a step: CPU and wall of the twin, CPU and wall of the loop."""


class Peers(NamedTuple):
    """Interpreters of the peers: the one with voir and ptera, and one for each other by its name."""

    voir: str | None
    profilers: Mapping[str, str]


def steps(
    peers: Peers, folder: Path, rounds: int, part: float = 1.0, lengths: Sequence[int] = ()
) -> Table:
    """Microseconds that a step costs over the step of ``python`` in the same round.

    ``lengths`` are those of the program (all, if empty), ``part`` is how much of each loop is run.
    """

    def run(tool: Tool) -> dict[str, list[Block]]:
        file = folder / "steps.json"
        blocks: dict[str, list[Block]] = _written("train_steps.py", tool, file, part, *lengths)
        return blocks

    table: Table = {}
    found = in_turns(loop_tools(*peers, folder), rounds, run)
    for length in found.get("python", [{}])[0]:
        blocks = {name: [each[length] for each in runs] for name, runs in found.items()}
        table |= dict(rows(length, blocks))
    return table


def rows(
    length: str, blocks: dict[str, list[list[Block]]]
) -> Iterator[tuple[str, dict[str, Spread]]]:
    """The rows of one length: by tool, what each run's blocks were."""
    for clock, kind in ((2, "CPU"), (3, "wall")):
        taken = {
            name: [median(block[clock] for block in run) / 1e3 for run in runs]
            for name, runs in blocks.items()
        }
        yield f"steps {length} {kind}", _over(taken)
        if kind == "wall":
            yield f"steps {length} slower", _percent(taken)
    twins = {
        name: [block for run in blocks[name] for block in run] for name in TWINS if name in blocks
    }
    yield (
        f"steps {length} twins",
        {
            name: spread([(block[2] - block[0]) / 1e3 for block in each])
            for name, each in twins.items()
        },
    )


def _over(taken: dict[str, list[float]]) -> dict[str, Spread]:
    base = taken["python"]
    row = {
        name: spread(differences(list(zip(base, each, strict=True))))
        for name, each in taken.items()
        if name != "python"
    }
    return {"python": spread(base), **row}


def _percent(taken: dict[str, list[float]]) -> dict[str, Spread]:
    base = taken["python"]
    return {
        name: spread([100 * (b / a - 1) for a, b in zip(base, each, strict=True)])
        for name, each in taken.items()
        if name != "python"
    }


def calls(folder: Path, rounds: int, part: float = 1.0) -> Table:
    """Microseconds of thread CPU that recording a call costs over its twin in the same process."""

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
        # The same measurement, but another goal: a row has only one.
        table["regions every, device"] = {"devices": table["regions every"].pop("devices")}
    return table


def small(folder: Path, rounds: int, part: float = 1.0) -> Table:
    """Microseconds of thread CPU that each kind of hook adds to a step of a small loop.

    With and without it run in turns in one process; ``small, processes`` compares whole processes.
    """

    def run(tool: Tool) -> dict[str, list[tuple[float, float]]]:
        found: dict[str, list[tuple[float, float]]]
        found = _written("train_small.py", tool, folder / "small.json", part)
        return found

    tools = [
        plain(folder),
        ours(folder, "io + step", "loop.py", "--no-auto"),
        ours(folder, "ov.value", "loss.py", "--no-auto"),
        ours(folder, "auto", None),
    ]
    table: Table = {}
    taken = in_turns(tools, rounds, run)
    for name, processes in taken.items():
        for kind in processes[0]:
            pairs = [pair for process in processes for pair in process[kind]]
            cells = table.setdefault(f"small {kind}", {})
            # Under python the two are the same: what it shows is what the method cannot tell from 0.
            cells[name] = spread([ns / 1e3 for ns in differences(pairs)])
    if "ov.value" in table.get("small loop", {}):
        # The same measurement, but another goal: a row has only one.
        table["small value"] = {"ov.value": table["small loop"].pop("ov.value")}
    if "python" in taken:
        table["small, processes"] = _over(
            {
                name: [median(each for _, each in run["loop"]) / 1e3 for run in runs]
                for name, runs in taken.items()
            }
        )
    return table


def boosting(folder: Path, rounds: int, part: float = 1.0) -> Table:
    """What a round of boosting takes longer, of the CPU of the whole process while it trains.

    Microseconds of a round of few rows, where hooks are the more of it; percent of one of 100 000.
    """
    tools = [plain(folder), ours(folder, "auto", None)]
    few, many = (200, max(int(2000 * part), 2)), (100_000, max(int(200 * part), 2))
    table: Table = {}
    for library in ("lightgbm", "xgboost"):
        for row, size in (("", few), (" slower", many)):

            def run(tool: Tool, words: tuple[object, ...] = (library, *size)) -> float:
                used: float = _written("boost_trees.py", tool, folder / "boosting.json", *words)
                return 1e6 * used

            taken = in_turns(tools, rounds, run)
            if len(taken) == len(tools):
                table[f"boosting {library}{row}"] = _percent(taken) if row else _over(taken)
    return table


def studies(folder: Path, rounds: int, part: float = 1.0) -> Table:
    """Milliseconds of CPU of its process that a trial takes longer, whatever it computes."""
    tools = [plain(folder), ours(folder, "auto", None)]
    table: Table = {}
    for library in ("optuna", "sklearn"):

        def run(tool: Tool, library: str = library) -> float:
            file, trials = folder / "studies.json", max(int(200 * part), 2)
            used: float = _written("run_trials.py", tool, file, library, trials)
            return 1e3 * used

        taken = in_turns(tools, rounds, run)
        if len(taken) == len(tools):
            table[f"trial {library}"] = _over(taken)
    return table


def methods(folder: Path, rounds: int, part: float = 1.0) -> Table:
    """Microseconds of thread CPU that a hooked ``.to`` takes longer, milliseconds to hook a module."""

    def run(tool: Tool) -> dict[str, list[tuple[float, float]]]:
        file = folder / "methods.json"
        pairs: dict[str, list[tuple[float, float]]]
        pairs = _written("method_calls.py", tool, file, int(20_000 * part) + 1, 9)
        return pairs

    auto = ours(folder, "auto", None)
    auto = auto._replace(command=("env", "INJECT_ACCELERATOR=1", *auto.command))
    processes = in_turns([auto], rounds, run).get("auto", [])
    table: Table = {}
    for case in processes[0] if processes else ():
        pairs = [pair for process in processes for pair in process[case]]
        table[f"methods {case}"] = {"auto": spread([ns / 1e3 for ns in differences(pairs)])}
    return table | {"methods module": {"auto": spread(hooked(rounds))}}


def hooked(rounds: int) -> list[float]:
    """Milliseconds of thread CPU from the code of a module of 1 000 lines to that with its calls hooked.

    Every tenth function has such a call. Its text is read, as it is when a program imports it.
    """
    functions = (FUNCTION.format(n=n, last="to" if n % 10 == 0 else "view") for n in range(100))
    text = "\n".join(functions)
    code, sought = compile(text, "module.py", "exec"), MethodCalls(["to", "cuda"])
    taken = []
    for _ in range(3 * rounds + 1):
        begin = time.thread_time_ns()
        new, _, _ = ModuleSource("module", "module.py", text, code).rewrite(
            sought.requests(code, "module")
        )
        taken.append((time.thread_time_ns() - begin) / 1e6)
        if new is None:
            raise RuntimeError("no call was hooked")
    return taken[1:]


def submodules(folder: Path, rounds: int, part: float = 1.0) -> Table:
    """Nanoseconds of thread CPU that a submodule's call takes longer than under ``python``."""

    def run(tool: Tool) -> float:
        file = folder / "submodules.json"
        found: list[float] = _written("submodules.py", tool, file, int(50 * part) + 1, 9)
        return median(found)

    taken = in_turns([plain(folder), ours(folder, "auto", None)], rounds, run)
    return {"submodules": _over(taken)} if "python" in taken else {}


def starts(peers: Peers, folder: Path, rounds: int) -> Table:
    """Milliseconds that a script which imports torch takes over ``python`` in the same round."""

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
        "starts": over_python(costs, lambda each: each.wall),
        "starts (CPU)": over_python(costs, lambda each: each.cpu),
    }


def every(peers: Peers, folder: Path, rounds: int, part: float = 1.0) -> Table:
    """How many of the steps of a fast loop are not in what a tool has kept."""
    count, microseconds = int(EVERY[0] * part), EVERY[1]

    def run(tool: Tool) -> float:
        seen = set(_kept(tool))
        cost(program(tool, "every_step.py", (count, microseconds)), tool.folder)
        (new,) = set(_kept(tool)) - seen
        return float(count - COUNTED.get(tool.name, _counted_by_us)(new))

    found = in_turns(step_counters(*peers, folder), rounds, run)
    return {"every": {name: spread(missing) for name, missing in found.items()}}


def _kept(tool: Tool) -> Iterator[Path]:
    """What a tool has left of its runs."""
    if tool.name == "traceml":
        return (tool.folder / "traceml").glob("*")
    if tool.name == "voir":
        return tool.folder.glob("*.jsonl")
    return (tool.folder / "runs").glob("*")


def _counted_by_us(folder: Path) -> int:
    found = profile(open_run(str(folder)))
    return max((loop.steps for loop in found.loops), default=0) if found else 0


def _counted_by_traceml(folder: Path) -> int:
    """How many steps its summary is about."""
    summary = json.loads((folder / "final_summary.json").read_text(encoding="utf-8"))
    return max(_named(summary, "steps_analyzed"), default=0)


def _named(value: Any, name: str) -> Iterator[int]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == name and isinstance(inner, int):
                yield inner
            yield from _named(inner, name)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from _named(inner, name)


def _counted_by_observer(file: Path) -> int:
    """How many rates it has written."""
    return sum('"rate"' in line for line in file.read_text(encoding="utf-8").splitlines())


COUNTED: dict[str, Callable[[Path], int]] = {
    "traceml": _counted_by_traceml,
    "voir": _counted_by_observer,
}


def _written(script: str, tool: Tool, file: Path, *arguments: object) -> Any:
    """What a program wrote into ``file``: tools print on stdout what they like."""
    file.unlink(missing_ok=True)
    cost(program(tool, script, (file, *arguments)), tool.folder)
    return json.loads(file.read_text(encoding="utf-8"))
