"""A producer of the bus benchmark: ``bus_producer.py WAY WHERE SECONDS KILL FIGURES GAP``.

GAP is seconds that it sleeps between two calls.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from time import perf_counter_ns, sleep

LONG = 1_000_000
"""Nanoseconds after which a call has stalled."""


def nothing_way(where):
    return lambda at: None


def injector_way(where):
    from injector.bus.writer import Writer
    from injector.probe.room import Room
    from injector.store.spans import SpanFile

    writer = Writer(where)
    room = Room(SpanFile(writer).grow, lambda records, error: None)
    add = room.add

    def emit(at):
        add(at, at + 1, 32, 1)

    return emit


def pipe_way(where):
    fd = int(where)

    def emit(at):
        os.write(fd, b'{"event":"data","data":{"task":"train","rate":%d}}\n' % at)

    return emit


def voir_way(where):
    from voir.smuggle import SmuggleWriter

    stream = SmuggleWriter(sys.stdout) if where == "smuggle" else os.fdopen(int(where), "w")

    def emit(at):
        text = json.dumps({"task": "train", "rate": at})
        stream.write(text + "\n")

    return emit


def produce(emit, seconds, kill, gap=0.0):
    """Emit; how many, and the nanoseconds of each call of the second half; with a gap, of every one."""
    if not seconds:
        for at in range(kill):
            emit(at)
        os.kill(os.getpid(), signal.SIGKILL)
    durations = []
    emit(0)  # the first makes a file
    count = 1
    half = perf_counter_ns() + int(seconds * 5e8)
    while not gap and perf_counter_ns() < half:
        for _ in range(1000):
            emit(count)
            count += 1
    until = half + int(seconds * 5e8)
    worst = []
    long = 0
    before = perf_counter_ns()
    while before < until:
        if gap:
            sleep(gap)
            before = perf_counter_ns()
        emit(count)
        count += 1
        after = perf_counter_ns()
        durations.append(after - before)
        long += after - before > LONG
        before = perf_counter_ns()
        if len(durations) == 1_000_000:
            worst.append(max(durations))
            del durations[500_000:]
    durations.sort()
    return {
        "emitted": count,
        "p50": durations[len(durations) // 2],
        "p999": durations[len(durations) * 999 // 1000],
        "worst": max([durations[-1], *worst]),
        "long": long,
    }


def main():
    way, where, seconds, kill, figures, gap = sys.argv[1:7]
    make = {"nothing": nothing_way, "injector": injector_way, "pipe": pipe_way}.get(way, voir_way)
    found = produce(make(where), float(seconds), int(kill), float(gap))
    with open(figures, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
