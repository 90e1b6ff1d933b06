"""A loop under the monitor, and while the monitor stands still: ``sampled.py PAIRS SECONDS INTERVAL BUSY``.

``BUSY`` processes burn a processor each, this one included. Prints a JSON object: ``pairs`` and ``control``
(in which the monitor stands still both times), lists of ``[without, with]``, each ``[wall ns, CPU ns]``
of this thread; ``samples``, how often was sampled, and ``cpu``, the monitor's own seconds meanwhile.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from time import perf_counter_ns, thread_time_ns

import psutil

from injector.monitor.start import MonitorProcess


def work(turns):
    """Nothing but the interpreter; what it takes, on both clocks."""
    wall, cpu = perf_counter_ns(), thread_time_ns()
    total = 0
    for number in range(turns):
        total += number & 7
    return perf_counter_ns() - wall, thread_time_ns() - cpu


def turns_of(seconds):
    turns = 100_000
    return round(turns * seconds * 1e9 / min(work(turns)[1] for _ in range(20)))


def burn():
    pid = os.fork()
    if pid == 0:
        while os.getppid() != 1:
            work(100_000)
        os._exit(0)
    return pid


class Stopped:
    """The monitor, which samples only while it is let."""

    def __init__(self, folder, interval):
        self.folder = folder
        self.beside = MonitorProcess(folder, os.getpid(), interval)
        while self.samples() < 5:
            time.sleep(0.05)

    def samples(self):
        return sum(
            log.read_bytes().count(b'"event":"tree"')
            for log in Path(self.folder).rglob("*.monitor")
        )

    def cpu(self):
        times = psutil.Process(self.beside.pid).cpu_times()
        return times.user + times.system

    def timed(self, turns, sampling):
        os.kill(self.beside.pid, signal.SIGCONT if sampling else signal.SIGSTOP)
        work(turns // 20)  # until that has come about
        found = work(turns)
        os.kill(self.beside.pid, signal.SIGSTOP)
        return found


def pairs_of(monitor, turns, count, sampling):
    """Each pair begins with the other one than the one before."""
    found = []
    for number in range(count):
        order = (False, sampling) if number % 2 else (sampling, False)
        first, second = (monitor.timed(turns, each) for each in order)
        found.append([first, second] if number % 2 else [second, first])
    return found


def main():
    count, seconds, interval, busy = int(sys.argv[1]), *map(float, sys.argv[2:4]), int(sys.argv[4])
    turns = turns_of(seconds)
    with tempfile.TemporaryDirectory(prefix="injector-sampled-") as folder:
        monitor = Stopped(folder, interval)
        burning = [burn() for _ in range(busy - 1)]
        try:
            before, cpu = monitor.samples(), monitor.cpu()
            pairs = pairs_of(monitor, turns, count, True)
            after, used = monitor.samples(), monitor.cpu() - cpu
            control = pairs_of(monitor, turns, count, False)
        finally:
            for pid in burning:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            os.kill(monitor.beside.pid, signal.SIGCONT)
            monitor.beside.end()
    figures = {"pairs": pairs, "control": control, "samples": after - before, "cpu": used}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
