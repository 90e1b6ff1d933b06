"""``python -m benchmarks.overhead.layers``: what ``--layers`` costs for each call of a layer.

A model of many small layers is trained under ``inject run`` with ``--layers 1`` and without, in turns, in
processes of their own. What a step takes longer, divided by the number of layers, is the cost of one of them:
its call, the hook of its backward, and a span of each. It is measured in CPU time of the process, on which
other programs have little influence.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

from . import machine
from .processes import cost
from .spread import Spread, differences, spread

PROGRAM = Path(__file__).parent / "programs" / "layered.py"
WARMUP = 50
"""Steps that are not counted."""


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print the cost of one call in microseconds."""
    options = _parser().parse_args(arguments)
    pairs = []
    with tempfile.TemporaryDirectory(prefix="injector-layers-") as folder:
        for turn in range(options.pairs):
            # Pair by pair: a machine that becomes slower then slows both.
            without, layered = (
                _step(Path(folder), f"{turn}-{depth}", depth, options) for depth in (0, 1)
            )
            pairs.append((without, layered))
    layer = spread([1e6 * seconds / options.layers for seconds in differences(pairs)])
    step = spread([100 * (layered / without - 1) for without, layered in pairs])
    print(f"--layers, of {options.layers} layers of a step, in {options.pairs} pairs of processes")
    print(f"  µs a layer        {_shown(layer)}")
    print(f"  % of that step    {_shown(step)}   without: {1e3 * pairs[0][0]:.3g} ms")
    for key, value in machine.describe(None).items():
        print(f"{key}: {value}")
    return 0


def _step(folder: Path, name: str, depth: int, options: argparse.Namespace) -> float:
    """CPU seconds of the median step with ``--layers`` of this depth, or without it for 0."""
    file = folder / f"{name}.json"
    words = [sys.executable, "-m", "injector", "run", "--quiet", "--no-monitor"]
    words += ["--into", str(folder / name), *(["--layers", str(depth)] if depth else [])]
    cost([*words, str(PROGRAM), str(file), str(options.layers), str(options.steps)], folder)
    return median(json.loads(file.read_text(encoding="utf-8"))[WARMUP:])


def _shown(figure: Spread) -> str:
    return f"{figure.median:8.2f}  ({figure.low:.2f} … {figure.high:.2f}, n={figure.n})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.overhead.layers", description=__doc__)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--layers", type=int, default=100, help="layers of the model (100)")
    parser.add_argument("--steps", type=int, default=500, help="steps of each process (500)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
