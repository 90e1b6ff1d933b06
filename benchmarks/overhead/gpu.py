"""``python -m benchmarks.overhead.gpu``: what `inject run` costs a step of a program on a GPU.

Whole programs run in turns: under ``python``, under ``inject run``, and with ``--sampled`` under ``inject run
--interval 0.1``, which reads NVML ten times a second. They time their own steps, in blocks between two
moments at which the GPU was synchronised; nanoGPT (``--nanogpt FOLDER``: a checkout with its data) prints the
time of its iterations. Beside the time of a step, the table has the CPU time of the thread that launches
kernels: what it spends more, a busy GPU hides.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from . import machine
from .processes import ProgramFailed, answer
from .spread import Spread, spread
from .tools import PROGRAMS, inject

GOAL = 40.0
"""Microseconds that a step of 2 ms or more may take longer."""
SPEED = 0.5
"""Percent that it may take longer."""
MODELS = {"small": (400, 12), "mlp": (200, 12), "resnet50": (20, 12), "transformer": (40, 12)}
"""How many steps a block has, and how many blocks there are."""
NANOGPT = ("train.py", "config/train_shakespeare_char.py", "--device=cuda", "--compile=False",
           "--eval_iters=2", "--max_iters=400", "--log_interval=1", "--dropout=0.0")  # fmt: skip
SKIPPED = 100
"""Iterations of nanoGPT that do not count: until then, a step is not steady."""
WAYS = ("python", "inject run", "inject run --interval 0.1")


class RunTimes(NamedTuple):
    """The times of a run in milliseconds."""

    wall: float
    """Of the median step."""
    cpu: float | None
    """Of the launching thread in the median step; None if it is not known."""
    whole: float
    """Of the whole run."""


def main(arguments: list[str] | None = None) -> int:
    """Measure each program, and print its lines; return 1 if a goal is missed."""
    options = _parser().parse_args(arguments)
    missed = False
    times: dict[str, dict[str, list[RunTimes]]] = {}
    ways = WAYS if options.sampled else WAYS[:2]
    for name in options.only or [*MODELS, *(["nanogpt"] if options.nanogpt else [])]:
        try:
            times[name] = _in_turns(name, ways, options)
        except ProgramFailed as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        print("\n".join(lines(name, times[name])), flush=True)
        missed = missed or _is_missed(times[name])
    about = machine.describe(None) | {"gpu": _gpu()}
    for key, value in about.items():
        print(f"{key}: {value}")
    if options.json:
        measured = {
            name: {way: [run_._asdict() for run_ in runs] for way, runs in of_program.items()}
            for name, of_program in times.items()
        }
        text = json.dumps({"machine": about, "measured": measured}, indent=1)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    return int(missed)


def _in_turns(
    name: str, ways: Sequence[str], options: argparse.Namespace
) -> dict[str, list[RunTimes]]:
    """Run a program each way once in every round, in the opposite order in every other round."""
    times: dict[str, list[RunTimes]] = {way: [] for way in ways}
    # A first round does not count, as it compiles and fills caches; sampling has none of its own to fill.
    for number in range(-1, options.rounds):
        for way in ways if number % 2 else reversed(ways):
            if number >= 0 or way != WAYS[2]:
                of_run = run(name, way, options)
                times[way] += [of_run] if number >= 0 else []
    return times


def run(name: str, way: str, options: argparse.Namespace) -> RunTimes:
    """Run a program once. Raises ProgramFailed."""
    with tempfile.TemporaryDirectory(prefix="injector-gpu-") as folder:
        before: tuple[str, ...] = (sys.executable,)
        if way != "python":
            before = (*inject(), "run", "--quiet", "--runs", str(Path(folder) / "runs"))
            before += (*way.split()[2:], "--")
        # Before `inject` is started, so that the whole run has its start-up in it.
        began = time.perf_counter()
        wall, cpu = timed(name, before, folder, options)
        return RunTimes(wall, cpu, 1e3 * (time.perf_counter() - began))


def timed(
    name: str, before: Sequence[str], folder: str, options: argparse.Namespace
) -> tuple[float, float | None]:
    """Milliseconds of the median step: wall time, and CPU time of the thread. Raises ProgramFailed.

    ``before`` are the words before those of the program.
    """
    if name == "nanogpt":
        words = [*before, *NANOGPT, f"--out_dir={folder}"]
        steps = re.findall(r"^iter \d+: .*time ([\d.]+)ms", answer(words, options.nanogpt), re.M)
        return median(map(float, steps[SKIPPED:])), None
    steps, blocks = MODELS[name]
    words = [*before, str(PROGRAMS / "gpu_train.py"), name, str(steps), str(blocks)]
    figures = json.loads(answer(words, Path(folder)).splitlines()[-1])
    return median(figures["wall"]), median(figures["cpu"])


def over(times: dict[str, list[RunTimes]], way: str, read: Callable[[RunTimes], float]) -> Spread:
    """Microseconds that a step takes longer than under ``python`` in the same round."""
    pairs = zip(times["python"], times[way], strict=True)
    return spread([1e3 * (read(with_) - read(without)) for without, with_ in pairs])


def percent(times: dict[str, list[RunTimes]], way: str) -> Spread:
    """Percent that a step takes longer than under ``python`` in the same round."""
    pairs = zip(times["python"], times[way], strict=True)
    return spread([100 * (with_.wall / without.wall - 1) for without, with_ in pairs])


def lines(name: str, times: dict[str, list[RunTimes]]) -> list[str]:
    """A line with the time of a step under ``python``, and a line with what each other way adds."""
    base = times["python"]
    step = median(run_.wall for run_ in base)
    whole = median(run_.whole for run_ in base) / 1e3
    text = [f"{name}: {step:.3f} ms a step, {whole:.1f} s in all, n={len(base)}"]
    for way in list(times)[1:]:
        cells = [
            f"{over(times, way, lambda t: t.wall).text(1)} µs",
            f"{percent(times, way).text(2)} %",
        ]
        if base[0].cpu is not None:
            cells.append(f"CPU of the thread {over(times, way, lambda t: t.cpu or 0.0).text(1)} µs")
        whole = median(run_.whole for run_ in times[way]) / 1e3
        text.append(f"  {way:26}{'   '.join(cells)}   {whole:.1f} s in all")
    return text


def _is_missed(times: dict[str, list[RunTimes]]) -> bool:
    # Goals are for steps of 2 ms and more, as most programs on a GPU have them.
    if median(run_.wall for run_ in times["python"]) < 2:
        return False
    return any(
        over(times, way, lambda t: t.wall).low > GOAL or percent(times, way).low > SPEED
        for way in list(times)[1:]
    )


def _gpu() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.overhead.gpu", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns each way gets (5)")
    parser.add_argument("--only", action="append", choices=[*MODELS, "nanogpt"])
    parser.add_argument("--nanogpt", type=Path, metavar="FOLDER", help="a checkout, with its data")
    parser.add_argument("--sampled", action="store_true", help="with --interval 0.1 as well")
    parser.add_argument("--json", metavar="FILE", help="write what was measured there as well")
    return parser


if __name__ == "__main__":
    sys.exit(main())
