"""A loop of steps that is tracked, and while its tracker stands still: ``tracked.py PAIRS SECONDS``.

Run by ``inject run --track``. Prints a JSON object: ``pairs`` and ``control`` (in which the tracker stands
still both times), lists of ``[without, with]``, each ``[wall ns, CPU ns]`` of this thread. With
``tracked.py STEPS`` it makes so many steps, and prints the number of its process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from time import perf_counter_ns, thread_time_ns

import psutil
from sampled import pairs_of

STEP = 5e-3


def turn(amount):
    total = 0
    for number in range(amount):
        total += number & 7
    loss = float(total)
    return -loss


def work(steps, amount):
    wall, cpu = perf_counter_ns(), thread_time_ns()
    for _ in range(steps):
        turn(amount)
    return perf_counter_ns() - wall, thread_time_ns() - cpu


class Tracker:
    """The process that sends this run, which does so only while it is let."""

    def __init__(self, amount):
        self.amount = amount
        [found] = [
            each
            for each in psutil.Process(os.getppid()).children()
            if any("injector.run.tracking" in word for word in each.cmdline())
        ]
        self.pid = found.pid

    def timed(self, steps, tracking):
        os.killpg(self.pid, signal.SIGCONT if tracking else signal.SIGSTOP)
        work(steps // 20, self.amount)  # until that has come about
        found = work(steps, self.amount)
        os.killpg(self.pid, signal.SIGSTOP)
        return found


def main():
    if len(sys.argv) == 2:
        work(int(sys.argv[1]), 2_000)
        print(os.getpid())
        return
    count, seconds = int(sys.argv[1]), float(sys.argv[2])
    amount = round(10_000 * STEP * 1e9 / min(work(1, 10_000)[1] for _ in range(20)))
    tracker, steps = Tracker(amount), round(seconds / STEP)
    try:
        pairs = pairs_of(tracker, steps, count, True)
        control = pairs_of(tracker, steps, count, False)
    finally:
        os.killpg(tracker.pid, signal.SIGCONT)
    print(json.dumps({"pairs": pairs, "control": control}))


if __name__ == "__main__":
    main()
