"""What it costs to watch a job of many nodes while it runs, and to collect its records when it is over.

A job of thousands of ranks cannot be run here, so its time is simulated: after each refresh of the live view,
the rows are written that all ranks would have recorded until the next refresh, and the clock is set to that
moment. How long the view rests after a refresh follows from the CPU time that it took, as in the product.
Only the ranks are simulated: the files, and all that reads, draws and collects them, are the product's.
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
    """The cost of one process."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds of a core, in user and kernel mode."""
    memory: float
    """Peak memory in MB."""


def cost_of(words: Sequence[str]) -> Cost:
    """Run a command and return what it costs. Raises CalledProcessError."""
    began = time.monotonic()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, list(words))
    cpu = usage.ru_utime + usage.ru_stime
    return Cost(time.monotonic() - began, cpu, usage.ru_maxrss / 1000)


def lay_out(folder: Path, nodes: int, ranks: int, monitors: bool) -> None:
    """Write the files of a run on ``nodes`` with ``ranks`` each, as they are before the first step."""
    from spans import site, write_process

    sites = [site(1, "step", line=31, task="train", payload="items")]
    for rank in range(nodes * ranks):
        node, local = divmod(rank, ranks)
        write_process(folder, sites, (), pid=100 + local, host=f"n{node}", time=1e9, monotonic_ns=0,
                      rank=rank, world=nodes * ranks, attempt=0)  # fmt: skip
    for node in range(nodes if monitors else 0):
        facts = {"schema": 1, "pid": 9, "ppid": 1, "host": f"n{node}", "time": 1e9, "monotonic_ns": 0,
                 "interval": 1.0, "role": "monitor", "rank": None}  # fmt: skip
        devices = {
            str(n): {"name": "H100", "index": n, "uuid": f"GPU-{node}-{n}"} for n in range(DEVICES)
        }
        lines = _line("process", facts, 0) + _line("device_list", devices, 0)
        (folder / "raw" / f"n{node}.9.monitor").write_text(lines)


def _line(event: str, data: Any, moment: int) -> str:
    return json.dumps({"event": event, "data": data, "t": moment}) + "\n"


def write(raw: Path, seconds: range) -> None:
    """Append what all ranks record in ``seconds``, one step in each, and what their monitors sample."""
    # One block of bytes for all ranks: writing must not take most of the time.
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
    """A monitor's sample of the host and the devices of a node."""
    memory = {"total": 2**40, "used": 2**38, "fraction": 0.25}
    cores = [[0.5 * second, 0.5 * second] for _ in range(4)]
    devices = {str(n): {"load": 0.9, "power": 600.0, "memory_used": 6e10, "memory_total": 8e10,
                        "temperature": 60.0} for n in range(DEVICES)}  # fmt: skip
    host = _line("host", {"cores": cores, "memory": memory}, second * SECOND)
    return host + _line("devices", devices, second * SECOND)


def main(nodes: int, ranks: int, seconds: int, monitors: bool) -> None:
    """Print the fraction of a core that watching takes, and what collecting takes."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, "train.1")
        lay_out(folder, nodes, ranks, monitors)
        write(folder / "raw", range(1))
        state, now, spent, refreshes = State(str(folder)), 1.0, 0.0, 0
        state.catch_up()
        while now < seconds:
            # CPU time of this thread alone, whatever other programs do.
            began = time.thread_time()
            snapshot = state.tick(1e9 + now)
            panel.lines(snapshot, 120)
            took = time.thread_time() - began
            until = min(now + took + rest_after(began, INTERVAL), seconds)
            write(folder / "raw", range(int(now), int(until)))
            now, spent, refreshes = until, spent + took, refreshes + 1
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        collected = cost_of([sys.executable, "-c", COLLECT, str(folder), str(seconds)])
    print(f"{nodes} nodes, {nodes * ranks} ranks, a row a rank and second"
          f"{', host and devices of each node' if monitors else ''}; {seconds} s")  # fmt: skip
    print(f"shown last: {snapshot.steps} steps, {snapshot.rate or 0:.0f} {snapshot.unit}, "
          f"{len(snapshot.ranks)} ranks, {len(snapshot.devices)} devices")  # fmt: skip
    print(f"watching: {spent / seconds:.2f} of a core, a look in {seconds / refreshes:.1f} s, "
          f"{memory:.0f} MB")  # fmt: skip
    print(f"collecting at the end: {collected.cpu:.1f} s of a core, {collected.cpu / seconds:.2f} of a core "
          f"for each second of it, {collected.memory:.0f} MB")  # fmt: skip
