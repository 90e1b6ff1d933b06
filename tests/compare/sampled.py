"""Runs whose true speed is known: steps that depend on each other, runs that differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from layouts import EPOCH, Program

from injector.analysis.step_blocks import edges_of, sums_of
from injector.analysis.training_loop import Blocks
from injector.compare.sides import LoopFigures, RunFigures, Side


def steps(random, number=300, mean=1.0, spread=0.1, correlation=0.5, run_to_run=0.0):
    """Seconds of ``number`` steps, an autoregressive series of order one."""
    from scipy.signal import lfilter  # a second, which only these tests are to take

    noise = random.standard_normal(number + 200)
    found = lfilter([np.sqrt(1 - correlation**2)], [1, -correlation], noise)
    speed = 1 + run_to_run * random.standard_normal()
    return mean * speed * np.maximum(1 + spread * found[200:], 0.05)


def blocks(
    seconds, regions: Mapping[str, float] | None = None, items: float | None = 8.0
) -> Blocks:
    """Of a process whose steps took ``seconds``; ``regions`` are parts of each step."""
    edges = edges_of(seconds)
    sums = sums_of(seconds, edges)
    parts = {"forward": 1.0} if regions is None else regions
    number = np.diff(edges, append=len(seconds))
    return Blocks(
        steps=tuple(number.tolist()),
        seconds=tuple(sums.tolist()),
        items=None if items is None else tuple((number * items).tolist()),
        tokens=None,
        regions={name: tuple((sums * part).tolist()) for name, part in parts.items()},
    )


def process(seconds):
    """What the statistics take: seconds and steps by block."""
    made = blocks(seconds)
    return np.array(made.seconds), np.array(made.steps, dtype=float)


def run(*loops: LoopFigures, totals=None, work=None, **more) -> RunFigures:
    return RunFigures(tuple(loops), totals or {}, work or {}, **more)


def loop(made: Blocks, function="train.py:main", line=10, task="train") -> LoopFigures:
    return LoopFigures(task, function, line, sum(made.steps), 8.0, 1, (made,))


def side(label, **benchmarks) -> Side:
    """By name the runs of each benchmark."""
    return Side(label, {name: tuple(runs) for name, runs in benchmarks.items()})


def folder(path: Path, seed: int = 0, number: int = 200, io: float = 1.0, **info) -> Path:
    """A run folder of a loop whose steps take 7 ms and ``io``, ± 5 %."""
    random = np.random.default_rng(seed)
    program = Program()
    for _ in range(number):
        program.io(io * (1 + 0.05 * random.standard_normal()))
        program.train()
    program.write(path)
    last = max(row[1] for row in program.rows)
    facts = {"schema": 1, "name": "train", "started": EPOCH, "ended": EPOCH + last / 1e9}
    (path / "run.json").write_text(json.dumps({**facts, "duration": last / 1e9, **info}))
    return path
