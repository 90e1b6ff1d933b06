"""A program whose record is known, and what a run of it left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from injector.bus.readable import repair
from injector.store import monitor, series, spans
from injector.store.logs import Damage, read_records

ROOT = Path(__file__).parents[2]
PATIENCE = 120
"""Seconds after which something that must happen never will."""

VOIRFILE = """
def instrument_steps(ov):
    ov.step("//step")
    ov.value("//step > loss")
"""

STEPS = """
import mmap, os, signal, sys, time

progress = mmap.mmap(-1, 8 * 1024)  # shared with children: how many steps each has made
counts = memoryview(progress).cast("q")

def step(number):
    loss = float(number)
    return loss

def steps(count, who=0):
    for number in range(count):
        step(number)
        counts[who] = number + 1

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""
"""What every program here begins with. Step number ``n`` (from 0) records a span, and the value n."""


class Process:
    """What one process of the program has recorded."""

    def __init__(self, log: Path, info: dict) -> None:
        self.info = info
        self.lost = info["lost"]
        self.values = [
            value
            for file in sorted(log.parent.glob(f"{log.stem}.*{series.SUFFIX}"))
            for _, value in series.read(str(file))[1]
        ]
        records = list(read_records(str(log), Damage()))
        self.late = sum(record["event"] == "value" for record in records)
        """Values that had no room in their own file and went to the log."""
        sites = [record["data"] for record in records if record["event"] == "site"]
        steps = {site["site"] for site in sites if site["region"] == "step"}
        file = log.with_suffix(spans.SUFFIX)
        rows = spans.read(str(file)) if file.exists() else ()
        self.steps = sum(site in steps for *_, site in rows)

    def is_whole(self, count: int | None = None) -> bool:
        """Whether nothing is missing: values from 0 on, each once, and as many steps, or one less.

        A step whose value is stored may have been left unfinished. ``count`` is how many there are,
        and says that the last was finished.
        """
        counted = [float(number) for number in range(len(self.values))]
        if count is not None:
            return self.values == counted and self.steps == len(self.values) == count
        return self.values == counted and self.steps in (len(self.values), len(self.values) - 1)


class Run:
    """A run that is over."""

    def __init__(self, done: subprocess.CompletedProcess[str], folder: Path) -> None:
        self.exit, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.folder = folder

    @property
    def info(self) -> dict:
        """What run.json says, or what a repair makes of a folder that has none."""
        file = self.folder / "run.json"
        if file.exists():
            return json.loads(file.read_text())
        with tempfile.TemporaryDirectory() as out:
            return repair(str(self.folder), out)

    def events(self, name: str) -> list[dict]:
        [file] = self.folder.glob("*.data")
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        return [line["data"] for line in lines if line["event"] == name]

    @property
    def processes(self) -> dict[int, Process]:
        """By process id, which no two of these runs share."""
        found = {}
        for info in self.info["processes"]:
            logs = (self.folder / "raw").glob(f"*.{info['pid']}.log")
            found[info["pid"]] = Process(next(logs), info)
        return found


def report(folder: Path, environ: dict[str, str]) -> str:
    """What ``inject report`` says of a run, which it must be able to read."""
    done = subprocess.run(
        [sys.executable, "-m", "injector", "report", str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, **environ, "PYTHONPATH": str(ROOT)},
        timeout=PATIENCE,
    )
    assert done.returncode == int(done.stdout.startswith("missing")), done.stderr
    return done.stdout


def until_sampled(run, count: int):
    """What the monitor saw of a run under way, once it has taken that many samples of the host."""
    due = time.monotonic() + PATIENCE
    while time.monotonic() < due:
        for folder in run.runs.glob("*"):
            for seen in monitor.read(str(folder)):
                if len(seen.hosts) >= count:
                    return seen
        time.sleep(0.02)
    raise AssertionError("nothing was sampled")
