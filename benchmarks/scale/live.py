"""What it costs to watch a job of many nodes while it runs, and to collect its records when it is over.

Time is simulated, so that what else the machine does counts for nothing: after each look of the live view, as
many rows of spans are written as the ranks make until its next one, which is as far away as on a machine
of its own. The rows, what reads them, what draws them and what collects them are the product's.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from injector.live.state import State
from injector.report import panel
from injector.report.watching import INTERVAL, rest_after

SECOND = 1_000_000_000
ITEMS = 64
DEVICES = 8
COLLECT = """
import sys
from injector.bus.collector import FinishedRun, collect
folder, seconds = sys.argv[1], float(sys.argv[2])
info = collect(folder, FinishedRun(["inject", "run", "train.py"], "train", 0.0, seconds, 0))
assert not info["problems"], info["problems"]
"""


class Cost(NamedTuple):
    """Of one process."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds of a core, with the kernel's."""
    memory: float
    """The most that it held, MB."""


def cost_of(words: Sequence[str]) -> Cost:
    """What a command costs. Raises CalledProcessError."""
    began = time.monotonic()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, list(words))
    cpu = usage.ru_utime + usage.ru_stime
    return Cost(time.monotonic() - began, cpu, usage.ru_maxrss / 1000)


def lay_out(folder: Path, nodes: int, ranks: int, monitors: bool) -> None:
    """The files of a run whose ``nodes`` have ``ranks`` each, as they are before the first step."""
    from spans import site, write_process

    sites = [site(1, "step", line=31, task="train", payload="items")]
    for rank in range(nodes * ranks):
        node, local = divmod(rank, ranks)
        write_process(folder, sites, (), pid=100 + local, host=f"n{node}", time=1e9, monotonic_ns=0,
                      rank=rank, world=nodes * ranks, attempt=0)  # fmt: skip
    for node in range(nodes if monitors else 0):
        first = {"schema": 1, "pid": 9, "ppid": 1, "host": f"n{node}", "time": 1e9, "monotonic_ns": 0,
                 "interval": 1.0, "role": "monitor", "rank": None}  # fmt: skip
        known = {
            str(n): {"name": "H100", "index": n, "uuid": f"GPU-{node}-{n}"} for n in range(DEVICES)
        }
        lines = _line("process", first, 0) + _line("device_list", known, 0)
        (folder / "raw" / f"n{node}.9.monitor").write_text(lines)


def _line(event: str, data: Any, moment: int) -> str:
    return json.dumps({"event": event, "data": data, "t": moment}) + "\n"


def write(raw: Path, seconds: range) -> None:
    """What all ranks record in these seconds, a row in each; and their monitors, where there are any."""
    rows = b"".join(
        struct.pack("=4q", at * SECOND, at * SECOND + SECOND * 99 // 100, ITEMS, 1)
        for at in seconds
    )
    samples = "".join(map(_sample, seconds))
    for path in raw.iterdir():
        if path.suffix == ".spans":
            with path.open("ab") as file:
                file.write(rows)
        elif path.suffix == ".monitor":
            with path.open("a") as log:
                log.write(samples)


def _sample(second: int) -> str:
    """Host and devices of a node."""
    memory = {"total": 2**40, "used": 2**38, "fraction": 0.25}
    cores = [[0.5 * second, 0.5 * second] for _ in range(4)]
    devices = {str(n): {"load": 0.9, "power": 600.0, "memory_used": 6e10, "memory_total": 8e10,
                        "temperature": 60.0} for n in range(DEVICES)}  # fmt: skip
    host = _line("host", {"cores": cores, "memory": memory}, second * SECOND)
    return host + _line("devices", devices, second * SECOND)


def main(nodes: int, ranks: int, seconds: int, monitors: bool) -> None:
    """Print what watching takes of a core, and what collecting takes."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, "train.1")
        lay_out(folder, nodes, ranks, monitors)
        write(folder / "raw", range(1))
        state, now, spent, looks = State(str(folder)), 1.0, 0.0, 0
        state.catch_up()
        while now < seconds:
            began = time.thread_time()
            shown = state.tick(1e9 + now)
            panel.lines(shown, 120)
            took = time.thread_time() - began
            until = min(now + took + rest_after(began, INTERVAL), seconds)
            write(folder / "raw", range(int(now), int(until)))
            now, spent, looks = until, spent + took, looks + 1
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        collected = cost_of([sys.executable, "-c", COLLECT, str(folder), str(seconds)])
    print(f"{nodes} nodes, {nodes * ranks} ranks, a row a rank and second"
          f"{', host and devices of each node' if monitors else ''}; {seconds} s")  # fmt: skip
    print(f"shown last: {shown.steps} steps, {shown.rate or 0:.0f} {shown.unit}, {len(shown.ranks)} ranks, "
          f"{len(shown.devices)} devices")  # fmt: skip
    print(
        f"watching: {spent / seconds:.2f} of a core, a look in {seconds / looks:.1f} s, {memory:.0f} MB"
    )
    print(f"collecting at the end: {collected.cpu:.1f} s of a core, {collected.cpu / seconds:.2f} of a core "
          f"for each second of it, {collected.memory:.0f} MB")  # fmt: skip
