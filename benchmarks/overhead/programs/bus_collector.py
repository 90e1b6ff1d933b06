"""The collector of the bus benchmark: ``bus_collector.py WAY FOLDER PRODUCERS SECONDS KILL GAP``.

Starts the producers, takes what they send, and prints what arrived and what it cost to take it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

PRODUCER = str(Path(__file__).with_name("bus_producer.py"))


def figures_of(folder, number):
    return os.path.join(folder, f"figures.{number}.json")


def gap():
    """Seconds that a producer sleeps between two calls."""
    return sys.argv[6]


def start(way, where, folder, number, seconds, kill, **more):
    tail = [seconds, kill, figures_of(folder, number), gap()]
    return subprocess.Popen([sys.executable, PRODUCER, way, where, *tail], **more)


def nothing_way(folder, count, seconds, kill):
    """Nothing is sent."""
    processes = [start("nothing", folder, folder, n, seconds, kill) for n in range(count)]
    for process in processes:
        process.wait()
    return 0, 0.0


def injector_way(folder, count, seconds, kill):
    """Rows are read from the mapped files, as the analysis does."""
    from injector.live.raw_files import Follower, NewSpans

    processes = [start("injector", folder, folder, n, seconds, kill) for n in range(count)]
    arrived, cpu, follower = 0, 0.0, Follower(folder)
    over = False
    while True:
        before = time.process_time()
        new = sum(len(found.rows) for found in follower.poll() if isinstance(found, NewSpans))
        cpu += time.process_time() - before
        arrived += new
        if over and not new:
            return arrived, cpu
        over = all(process.poll() is not None for process in processes)
        if not over:
            time.sleep(0.1)


def pipe_way(folder, count, seconds, kill):
    import selectors

    chooser = selectors.DefaultSelector()
    processes = []
    for number in range(count):
        read, write = os.pipe()
        processes.append(start("pipe", str(write), folder, number, seconds, kill, pass_fds=[write]))
        os.close(write)
        chooser.register(os.fdopen(read, "rb"), selectors.EVENT_READ)
    arrived, before = 0, time.process_time()
    while chooser.get_map():
        for key, _ in chooser.select():
            line = key.fileobj.readline()
            if not line:
                chooser.unregister(key.fileobj)
                continue
            json.loads(line)
            arrived += 1
    cpu = time.process_time() - before
    for process in processes:
        process.wait()
    return arrived, cpu


def _queue_producer(queue, seconds, kill, figures, gap):
    sys.path.insert(0, os.path.dirname(PRODUCER))
    import bus_producer

    emit = lambda at: queue.put({"task": "train", "rate": at})
    found = bus_producer.produce(emit, seconds, kill, gap)
    with open(figures, "w") as file:
        json.dump(found, file)


def queue_way(folder, count, seconds, kill):
    import multiprocessing
    import queue as queues

    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [
        context.Process(
            target=_queue_producer,
            args=(queue, float(seconds), int(kill), figures_of(folder, n), float(gap())),
        )
        for n in range(count)
    ]
    for process in processes:
        process.start()
    arrived, before = 0, time.process_time()
    while True:
        try:
            queue.get(timeout=1)
            arrived += 1
        except queues.Empty:
            if not any(process.is_alive() for process in processes):
                return arrived, time.process_time() - before


def voir_way(folder, count, seconds, kill, smuggle):
    from voir.proc import Multiplexer

    multiplexer = Multiplexer(timeout=0.5)
    for number in range(count):
        tail = [seconds, kill, figures_of(folder, number), gap()]
        environ = dict(os.environ)
        if smuggle:
            argv = [sys.executable, PRODUCER, "voir", "smuggle", *tail]
            multiplexer.start(argv, info={}, env=environ, use_stdout=True)
        else:  # the descriptor's number is known to the child alone
            shell = f'exec {sys.executable} {PRODUCER} voir "$DATA_FD" {" ".join(tail)}'
            multiplexer.start(["sh", "-c", shell], info={}, env=environ)
    arrived, before = 0, time.process_time()
    try:
        for event in multiplexer:
            arrived += event is not None and event.event == "data"
    except Exception:
        pass  # it raises as soon as one of several children has ended
    return arrived, time.process_time() - before


def main():
    way, folder, count, seconds, kill = sys.argv[1:6]
    began = time.monotonic()
    known = {"nothing": nothing_way, "injector": injector_way}
    how = {**known, "pipe": pipe_way, "queue": queue_way}.get(way)
    if how is not None:
        arrived, cpu = how(folder, int(count), seconds, kill)
    else:
        arrived, cpu = voir_way(folder, int(count), seconds, kill, way == "voir-smuggle")
    took = time.monotonic() - began
    found = []
    for number in range(int(count)):
        try:
            with open(figures_of(folder, number)) as file:
                found.append(json.load(file))
        except OSError:
            pass  # it was killed
    figures = {
        "arrived": arrived,
        "cpu": cpu,
        "seconds": took,
        # What those emitted that did not live to say so is not known.
        "emitted": sum(each["emitted"] for each in found) if len(found) == int(count) else None,
        "p50": sorted(each["p50"] for each in found)[len(found) // 2] if found else 0,
        "p999": max((each["p999"] for each in found), default=0),
        "worst": max((each["worst"] for each in found), default=0),
        "long": sum(each["long"] for each in found),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
