"""``python -m benchmarks.overhead.bus``: eight producers at full speed, beside other ways to carry records.

Each producer records steps for some seconds, and reports how many it recorded and how long its calls took;
every call of the second half is timed by itself, which costs it two readings of the clock. A collector counts
what arrives, and what that costs it. Then the same is measured

- with the collector stopped (SIGSTOP): does a producer wait for it?
- with only one producer, since eight on two cores wait for each other,
- with one producer that pauses between its calls, since at full speed the disk makes it wait,
- with the producers killed after 1 000 records each: how many records are lost?

The way ``nothing`` records nothing: its longest call shows for how long the machine took the producers' cores
away.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from . import machine, peers

WAYS = ("nothing", "injector", "pipe", "queue", "voir-fd", "voir-smuggle")
BEFORE_KILL = 1_000
"""How many records each producer writes before it is killed."""
GAP = 1e-4
"""Seconds between the calls of a producer that is about as fast as a training loop; sleeping takes longer."""


def main(arguments: list[str] | None = None) -> int:
    """Measure every way, and print a line for each."""
    parser = argparse.ArgumentParser(prog="benchmarks.overhead.bus", description=__doc__)
    parser.add_argument("--producers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument(
        "--pause", type=float, default=60.0, help="seconds of the stopped collector"
    )
    parser.add_argument("--only", action="append", choices=WAYS)
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has voir")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    ways = options.only or list(WAYS)
    interpreter = peers.find(options.peers) if any(w.startswith("voir") for w in ways) else None
    figures: dict[str, dict[str, float]] = {}
    print(f"load before: {os.getloadavg()[0]:.2f}", flush=True)
    for way in ways:
        if way.startswith("voir") and interpreter is None:
            continue
        # voir is only installed in the environment of the peers.
        python = interpreter if way.startswith("voir") else sys.executable
        figures[way] = _measure(way, python or sys.executable, options)
        print(_line(way, figures[way]), flush=True)
    for key, value in machine.describe(interpreter).items():
        print(f"{key}: {value}")
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def _line(way: str, figures: dict[str, float]) -> str:
    return f"{way:13}" + "  ".join(f"{name} {value:,.4g}" for name, value in figures.items())


def _measure(way: str, python: str, options: argparse.Namespace) -> dict[str, float]:
    """The figures of one way, by their titles."""
    run = _run(way, python, options.producers, options.seconds)
    stopped = _run(way, python, options.producers, options.pause + 1, stop=options.pause)
    alone = _run(way, python, 1, options.pause + 1, stop=options.pause)
    paced = _run(way, python, 1, options.pause + 1, stop=options.pause, gap=GAP)
    if way == "nothing":
        return {
            "producer ns p50": run["p50"],
            "p99.9": run["p999"],
            "worst ms": run["worst"] / 1e6,
            f"worst ms in {options.pause:g} s": stopped["worst"] / 1e6,
            "calls over 1 ms": stopped["long"],
            "the same, one producer": alone["worst"] / 1e6,
            "over 1 ms": alone["long"],
            "worst ms, 0.1 ms between calls": paced["worst"] / 1e6,
        }
    killed = _run(way, python, options.producers, 0.0)
    return {
        "records/s": run["arrived"] / run["seconds"],
        "producer ns p50": run["p50"],
        "p99.9": run["p999"],
        "worst ms": run["worst"] / 1e6,
        "worst ms, collector stopped": stopped["worst"] / 1e6,
        "calls over 1 ms": stopped["long"],
        "the same, one producer": alone["worst"] / 1e6,
        "over 1 ms": alone["long"],
        "worst ms, 0.1 ms between calls": paced["worst"] / 1e6,
        "collector ns a record": run["cpu"] * 1e9 / max(run["arrived"], 1),
        "lost": float("nan") if run["emitted"] is None else run["emitted"] - run["arrived"],
        f"lost of {options.producers * BEFORE_KILL} on SIGKILL": (
            options.producers * BEFORE_KILL - killed["arrived"]
        ),
    }


def _run(
    way: str, python: str, count: int, seconds: float, stop: float = 0.0, gap: float = 0.0
) -> dict[str, float]:
    """Run ``count`` producers with their collector, and return what it measured.

    With ``seconds`` of 0, the producers are killed after :data:`BEFORE_KILL` records each. The collector is
    stopped for ``stop`` seconds; producers wait ``gap`` seconds between two calls.
    """
    with tempfile.TemporaryDirectory(prefix="injector-bus-") as folder:
        script = str(Path(__file__).parent / "programs" / "bus_collector.py")
        words = [python, script, way, folder, str(count), str(seconds), str(BEFORE_KILL)]
        words.append(str(gap))
        environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environ)
        if stop:
            time.sleep(0.5 + seconds / 100)  # until all producers have begun
            process.send_signal(signal.SIGSTOP)
            time.sleep(stop)
            process.send_signal(signal.SIGCONT)
        out, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"{' '.join(words)}: exit code {process.returncode}")
        answer: dict[str, Any] = json.loads(out)
        return answer


if __name__ == "__main__":
    sys.exit(main())
