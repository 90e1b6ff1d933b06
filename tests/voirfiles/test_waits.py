"""A training loop that is blocked in the standard library: each way has its name and its line."""

from __future__ import annotations

import sys

import pytest

PROGRAM = """
import multiprocessing, os, queue, select, socket, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from multiprocessing.pool import ThreadPool

import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
pool = ThreadPoolExecutor(2)
PAUSE = 0.02

def make(number=0):
    time.sleep(PAUSE)
    return torch.ones(2, 4)

def later(function):
    threading.Thread(target=lambda: (time.sleep(PAUSE), function()), daemon=True).start()

def queued(box):
    later(lambda: box.put(1))
    box.get()

def full():
    box = queue.Queue(1)
    box.put(1)
    later(box.get)
    box.put(2)

def signalled():
    event = threading.Event()
    later(event.set)
    event.wait()

def locked():
    lock = threading.Lock()
    lock.acquire()
    later(lock.release)
    with lock:
        pass

def notified():
    condition = threading.Condition()
    def notify():
        with condition:
            condition.notify()
    with condition:
        later(notify)
        condition.wait()

def received():
    ours, theirs = multiprocessing.Pipe()
    later(lambda: theirs.send(1))
    ours.recv()

def from_socket():
    ours, theirs = socket.socketpair()
    later(lambda: theirs.send(b"1"))
    ours.recv(1)

def from_pipe():
    reader, writer = os.pipe()
    later(lambda: os.write(writer, b"1"))
    os.read(reader, 1)

def from_child():
    child = subprocess.Popen(["sh", "-c", "sleep 0.02; echo 1"], stdout=subprocess.PIPE)
    child.stdout.readline()
    child.wait()

def joined():
    thread = threading.Thread(target=make)
    thread.start()
    thread.join()

WAYS = [
    lambda: queued(queue.Queue()), lambda: queued(queue.SimpleQueue()), full, signalled, locked, notified,
    received, from_socket, from_pipe, from_child, joined,
    lambda: pool.submit(make).result(), lambda: wait([pool.submit(make)]),
    lambda: list(as_completed([pool.submit(make)])), lambda: list(pool.map(make, [1])),
    lambda: ThreadPool(1).apply_async(make).get(), lambda: select.select([], [], [], PAUSE),
    lambda: time.sleep(PAUSE),
]
for turn in range(2):
    for way in WAYS:
        way()
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
"""

NAMES = {
    *("Queue.get", "get", "Queue.put", "Event.wait", "__enter__", "Condition.wait"),
    *("_ConnectionBase.recv", "recv", "read", "readinto", "Thread.join", "Future.result", "wait"),
    *(
        "as_completed",
        "Executor.map.<locals>.result_iterator",
        "ApplyResult.get",
        "select",
        "sleep",
    ),
}


def test_every_way_to_wait_has_its_name_and_its_line(run):
    spans = run(PROGRAM).only.named("wait")
    lines = dict(enumerate(PROGRAM.splitlines(), 1))
    by_name = {}
    for span in spans:
        by_name.setdefault(span.what.rpartition(".")[2], set()).add(lines[span.line])
    assert {name.rpartition(".")[2] for name in NAMES} <= by_name.keys()
    assert "    box.get()" in by_name["get"] and "    box.put(2)" in by_name["put"]
    assert "    with lock:" in by_name["__enter__"]
    assert all(span.end - span.start >= 50_000 for span in spans)
    assert len({span.thread for span in spans}) == 1  # other threads' waits are nobody's


@pytest.mark.release
def test_what_does_not_wait_is_no_span_and_a_loader_s_waits_are_its_own(run):
    program = """
    import queue, threading, torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    box, lock = queue.Queue(), threading.RLock()
    for x in DataLoader(torch.ones(64, 4), batch_size=4, num_workers=1):
        box.put(x)
        with lock:
            model(box.get()).sum().backward()
        optimizer.step()
    """
    found = run(program).only
    assert found.counts()["io"] == 16
    assert found.named("wait") == []


ASYNC = """
import asyncio, torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def step(x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()

async def feed(box):
    while True:
        await asyncio.sleep(0.02)
        await box.put(torch.ones(2, 4))

async def batches(box):
    for turn in range(6):
        yield await box.get()

async def one(box):
    for turn in range(6):
        step(await box.get())

async def other(box):
    async for x in batches(box):
        step(x)

async def timed(box):
    for turn in range(6):
        step(await asyncio.wait_for(box.get(), 10))

async def main(*trained):
    box = asyncio.Queue(1)
    feeding = asyncio.create_task(feed(box))
    await asyncio.gather(*(train(box) for train in trained))
    feeding.cancel()
"""


TRAINED = {
    "one": ("step(await box.get())", "Queue.get"),
    "timed": ("step(await asyncio.wait_for(box.get(), 10))", "wait_for"),
    "other": ("async for x in batches(box):", "asyncio"),
    "one, other": (None, "asyncio"),  # either may be meant
}


def test_an_event_loop_waits_where_the_task_that_trains_awaits(run):
    """One event loop after the other, in one program."""
    program = ASYNC + "\n".join(f"asyncio.run(main({tasks}))" for tasks in TRAINED)
    lines = dict(enumerate(map(str.strip, program.splitlines()), 1))
    spans = run(program).only.named("wait")
    found = [(lines.get(span.line), span.what) for span in spans]
    for line, what in TRAINED.values():
        waited = line, what if sys.version_info >= (3, 11) else what.rpartition(".")[2]
        assert found.count(waited) >= 4, found
    assert "asyncio.run" not in str(found)
