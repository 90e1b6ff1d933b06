"""``python -m benchmarks.overhead.gpu``: what `inject run` costs a step of a program on a GPU.

Programs run in turns, whole, each way: under ``python``, ``inject run``, and with ``--sampled`` under
``inject run --interval 0.1`` (NVML is read ten times a second). They time their steps themselves, in blocks
from one synchronised moment to another; nanoGPT (``--nanogpt FOLDER``: a checkout of it, with its data)
prints what its iterations take. Beside the time of a step stands what its launching thread spends of the
processor, which a busy GPU hides.
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
"""Microseconds of a step of 2 ms and more."""
SPEED = 0.5
"""Percent of a step."""
MODELS = {"small": (400, 12), "mlp": (200, 12), "resnet50": (20, 12), "transformer": (40, 12)}
"""Steps of a block, and blocks."""
NANOGPT = ("train.py", "config/train_shakespeare_char.py", "--device=cuda", "--compile=False",
           "--eval_iters=2", "--max_iters=400", "--log_interval=1", "--dropout=0.0")  # fmt: skip
SKIPPED = 100
"""Iterations of nanoGPT, until its step is steady."""
WAYS = ("python", "inject run", "inject run --interval 0.1")


class Taken(NamedTuple):
    """What a run took, milliseconds: a step by the clock and on the processor (None: not known), and all."""

    wall: float
    cpu: float | None
    whole: float


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print two lines for each program and way; 1 if a goal is missed."""
    options = _parser().parse_args(arguments)
    missed = False
    found: dict[str, dict[str, list[Taken]]] = {}
    ways = WAYS if options.sampled else WAYS[:2]
    for name in options.only or [*MODELS, *(["nanogpt"] if options.nanogpt else [])]:
        try:
            found[name] = _in_turns(name, ways, options)
        except ProgramFailed as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        print("\n".join(lines(name, found[name])), flush=True)
        missed = missed or _is_missed(found[name])
    about = machine.describe(None) | {"gpu": _gpu()}
    for key, value in about.items():
        print(f"{key}: {value}")
    if options.json:
        kept = {n: {w: [t._asdict() for t in r] for w, r in of.items()} for n, of in found.items()}
        text = json.dumps({"machine": about, "measured": kept}, indent=1)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    return int(missed)


def _in_turns(
    name: str, ways: Sequence[str], options: argparse.Namespace
) -> dict[str, list[Taken]]:
    """Each way once in every round; a first round counts for nothing, as it compiles and fills caches."""
    found: dict[str, list[Taken]] = {way: [] for way in ways}
    for number in range(-1, options.rounds):
        for way in ways if number % 2 else reversed(ways):
            if number >= 0 or way != WAYS[2]:
                taken = run(name, way, options)
                found[way] += [taken] if number >= 0 else []
    return found


def run(name: str, way: str, options: argparse.Namespace) -> Taken:
    """One run. Raises ProgramFailed."""
    with tempfile.TemporaryDirectory(prefix="injector-gpu-") as folder:
        before: tuple[str, ...] = (sys.executable,)
        if way != "python":
            before = (*inject(), "run", "--quiet", "--runs", str(Path(folder) / "runs"))
            before += (*way.split()[2:], "--")
        began = time.perf_counter()
        wall, cpu = timed(name, before, folder, options)
        return Taken(wall, cpu, 1e3 * (time.perf_counter() - began))


def timed(
    name: str, before: Sequence[str], folder: str, options: argparse.Namespace
) -> tuple[float, float | None]:
    """Milliseconds of the median step. Raises ProgramFailed."""
    if name == "nanogpt":
        words = [*before, *NANOGPT, f"--out_dir={folder}"]
        steps = re.findall(r"^iter \d+: .*time ([\d.]+)ms", answer(words, options.nanogpt), re.M)
        return median(map(float, steps[SKIPPED:])), None
    steps, blocks = MODELS[name]
    words = [*before, str(PROGRAMS / "gpu_train.py"), name, str(steps), str(blocks)]
    figures = json.loads(answer(words, Path(folder)).splitlines()[-1])
    return median(figures["wall"]), median(figures["cpu"])


def over(found: dict[str, list[Taken]], way: str, read: Callable[[Taken], float]) -> Spread:
    """Microseconds of a step over ``python`` in the same round."""
    pairs = zip(found["python"], found[way], strict=True)
    return spread([1e3 * (read(with_) - read(without)) for without, with_ in pairs])


def percent(found: dict[str, list[Taken]], way: str) -> Spread:
    """Of the step's time, over ``python`` in the same round."""
    pairs = zip(found["python"], found[way], strict=True)
    return spread([100 * (with_.wall / without.wall - 1) for without, with_ in pairs])


def lines(name: str, found: dict[str, list[Taken]]) -> list[str]:
    """What a step takes under ``python``, and what each other way adds to it."""
    base = found["python"]
    step = median(each.wall for each in base)
    whole = median(each.whole for each in base) / 1e3
    made = [f"{name}: {step:.3f} ms a step, {whole:.1f} s in all, n={len(base)}"]
    for way in list(found)[1:]:
        cells = [
            f"{over(found, way, lambda t: t.wall).text(1)} µs",
            f"{percent(found, way).text(2)} %",
        ]
        if base[0].cpu is not None:
            cells.append(f"CPU of the thread {over(found, way, lambda t: t.cpu or 0.0).text(1)} µs")
        whole = median(each.whole for each in found[way]) / 1e3
        made.append(f"  {way:26}{'   '.join(cells)}   {whole:.1f} s in all")
    return made


def _is_missed(found: dict[str, list[Taken]]) -> bool:
    long = median(each.wall for each in found["python"]) >= 2
    return any(
        (long and over(found, way, lambda t: t.wall).low > GOAL)
        or (long and percent(found, way).low > SPEED)
        for way in list(found)[1:]
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
