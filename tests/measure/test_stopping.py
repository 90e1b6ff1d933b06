"""`--stop`, `--skip`, `--max-duration`: programs that would run for days end after some steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import whole_tree

from injector.analysis.profiling import profile
from injector.analysis.traces import traces_of
from injector.store import spans
from injector.store.folder import open_run

ROOT = Path(__file__).parents[2]

LIBRARY = """
import itertools

class Loader:
    def __init__(self, length=None):
        self.length = length
    def __iter__(self):
        return Draws(self)

class Draws:
    def __init__(self, loader):
        self.loader = loader
        self.drawn = 0
    def __iter__(self):
        return self
    def __next__(self):
        if self.drawn == self.loader.length:
            raise StopIteration
        self.drawn += 1
        return [self.drawn]

class Optimizer:
    def step(self, closure=None):
        if closure:
            closure()
"""

VOIRFILE = """
def instrument_library(ov):
    ov.region("/library/Draws/__next__", "io", of=lambda self: self.loader)
    ov.region("/library/Optimizer/step", "optimizer", of=lambda self: self)
"""

PRELUDE = """
import atexit, itertools, sys, threading, time
from library import Loader, Optimizer
atexit.register(print, "atexit", flush=True)
made = 0
"""


class Run:
    def __init__(self, done, folder):
        self.exit, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.folder = folder

    @property
    def record(self):
        return json.loads((self.folder / "run.json").read_text())

    def events(self, name):
        [file] = self.folder.glob("*.data")
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        return [line["data"] for line in lines if line["event"] == name]

    @property
    def stops(self):
        return [(stop["steps"], stop["why"]) for stop in self.events("stop")]

    def analysed(self):
        """How many steps the analysis finds, in all loops."""
        return sum(loop.steps for loop in profile(open_run(str(self.folder))).loops)

    def spans(self):
        """How many spans of each region every process has recorded."""
        found = []
        for log in sorted((self.folder / "raw").glob("*.log")):
            text = log.read_bytes().replace(b"\0", b"\n")
            lines = [json.loads(line) for line in text.splitlines() if line.strip()]
            sites = {x["data"]["site"]: x["data"] for x in lines if x["event"] == "site"}
            file = log.with_suffix(spans.SUFFIX)
            if file.exists():
                rows = memoryview(file.read_bytes())[1024:].cast("q")
                used = [rows[at] for at in range(3, len(rows), 4) if rows[at]]
                found.append(Counter(sites[site]["region"] for site in used))
        return found


@pytest.fixture
def run(tmp_path):
    def go(program, *options, voirfile=VOIRFILE, before=(), env=None, prelude=PRELUDE):
        (tmp_path / "library.py").write_text(LIBRARY)
        (tmp_path / "main.py").write_text(prelude + program)
        (tmp_path / "x.py").write_text(voirfile)
        words = ["run", "--runs", "runs", "--voirfile", "x.py", *options, *before, "main.py"]
        done = whole_tree.run(
            [sys.executable, "-m", "injector", *words],
            cwd=tmp_path,
            timeout=300,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        )
        [folder] = (tmp_path / "runs").glob("*")
        return Run(done, folder)

    return go


WAITS = """
import time
def instrument_device(ov):
    ov.synchronize(lambda: (time.sleep(0.05), print("waited")))
    ov.synchronize(lambda: 1 / 0)
"""


@pytest.mark.parametrize("limits", [("--skip", "3", "--stop", "5"), ("--stop", "8")], ids=" ".join)
@pytest.mark.parametrize("loop", ["for batch in Loader(): o.step()", "while True: o.step()"])
def test_what_was_handed_to_a_device_is_waited_for_where_measuring_begins_and_ends(
    run, loop, limits
):
    ran = run(f"o = Optimizer()\n{loop}", *limits, voirfile=VOIRFILE + WAITS)
    assert (ran.exit, ran.stops) == (0, [(8, "stop")]), ran.err
    ends = [3, 8] if "--skip" in limits else [8]
    assert ran.out.count("waited") == len(ends)
    [steps] = traces_of(open_run(str(ran.folder)))
    seconds = (steps.end - steps.start) / 1e9
    assert len(seconds) == 8
    assert all(seconds[number - 1] >= 0.05 for number in ends)
    assert "division by zero" in json.dumps(ran.record["failures"])


def test_no_device_is_waited_for_where_nothing_ends_the_run(run):
    ran = run("o = Optimizer()\nfor batch in Loader(9): o.step()", voirfile=VOIRFILE + WAITS)
    assert (ran.exit, ran.out, ran.analysed()) == (0, "atexit\n", 9)


LOOPS = {
    "a loader": (
        """
o = Optimizer()
for batch in Loader():
    o.step()
""",
        {"io": 6, "optimizer": 5},
    ),
    "while True, no loader": (
        """
o = Optimizer()
while True:
    o.step()
""",
        {"optimizer": 5},
    ),
    "iter and next": (
        """
o, draws = Optimizer(), iter(Loader())
while True:
    batch = next(draws)
    o.step()
""",
        {"io": 6, "optimizer": 5},
    ),
    "epochs and evaluation": (
        """
o, train, valid = Optimizer(), Loader(2), Loader(3)
while True:
    for batch in train:
        o.step()
    for batch in valid:
        pass
""",
        {"io": 2 + 3 + 2 + 3 + 2, "io.end": 4, "optimizer": 5},
    ),
    "accumulation": (
        """
o = Optimizer()
for number, batch in enumerate(Loader(), 1):
    if number % 4 == 0:
        o.step()
""",
        {"io": 21, "optimizer": 5},
    ),
    "two optimizers and a loader": (
        """
d, g = Optimizer(), Optimizer()
for batch in Loader():
    for _ in range(5):
        d.step()
    g.step()
""",
        {"io": 6, "optimizer": 30},
    ),
    "two optimizers, no loader": (
        """
d, g = Optimizer(), Optimizer()
while True:
    d.step()
    g.step()
""",
        {"optimizer": 10},
    ),
    "in nested functions": (
        """
class Trainer:
    def __init__(self):
        self.optimizer = Optimizer()
    def train(self):
        return self.inner_loop()
    def inner_loop(self):
        for epoch in range(10**9):
            for batch in Loader(3):
                self.training_step(batch)
    def training_step(self, batch):
        self.optimizer.step(lambda: None)
Trainer().train()
""",
        {"optimizer": 5},
    ),
    "in a thread": (
        """
def work():
    o = Optimizer()
    while True:
        o.step()
thread = threading.Thread(target=work)
thread.start()
thread.join()
while True:
    time.sleep(0.01)
""",
        {"optimizer": 5},
    ),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_it_ends_after_so_many_steps(loop, run):
    program, recorded = LOOPS[loop]
    found = run(program, "--skip", "2", "--stop", "3")
    assert (found.exit, found.out) == (0, "atexit\n"), found.err
    assert found.stops == [(5, "stop")]
    assert "Traceback" not in found.err
    [counts] = found.spans()
    assert {region: counts[region] for region in recorded} == recorded
    assert found.record["stopped"] is True
    assert found.record["limits"] == {"skip": 2, "stop": 3}
    assert found.analysed() == 5


def test_a_function_that_makes_batches_paces_nothing(run):
    program = """
def get_batch():
    return [1]
o = Optimizer()
batch = get_batch()
while True:
    for micro_step in range(3):
        batch = get_batch()
        o.step()
"""
    voirfile = f"{VOIRFILE}    ov.region('//get_batch', 'io')\n"
    found = run(program, "--stop", "5", voirfile=voirfile)
    assert found.stops == [(5, "stop")]
    [counts] = found.spans()
    assert (counts["io"], counts["optimizer"]) == (6, 5)
    assert found.analysed() == 5


@pytest.mark.parametrize("loop", ["a loader", "while True, no loader", "in a thread"])
def test_it_ends_when_its_time_is_up(loop, run):
    program, _ = LOOPS[loop]
    found = run(program.replace(".step()", ".step(); time.sleep(0.01)"), "--max-duration", "1s")
    assert (found.exit, found.out) == (0, "atexit\n"), found.err
    [(steps, why)] = found.stops
    assert why == "max-duration" and steps >= 1
    [counts] = found.spans()
    assert counts["optimizer"] == steps


def test_explicit_steps_win(run):
    program = """
def step():
    for batch in Loader(2):
        Optimizer().step()
while True:
    step()
"""
    found = run(program, "--stop", "4", voirfile=VOIRFILE + "    ov.step('//step')\n")
    assert (found.exit, found.out, found.stops) == (0, "atexit\n", [(4, "stop")])
    assert found.analysed() == 4
    [counts] = found.spans()
    assert (counts["step"], counts["optimizer"]) == (4, 8)


def test_a_loader_of_the_voirfile_paces(run):
    program = """
def train(loader):
    try:
        for batch in loader:
            pass
    finally:
        print("finally")
train(itertools.count())
"""
    voirfile = "def instrument_it(ov):\n    ov.loader('//train > loader', items=1)\n"
    found = run(program, "--stop", "4", voirfile=voirfile)
    assert (found.exit, found.out) == (0, "finally\natexit\n"), found.err
    assert found.stops == [(4, "stop")]
    assert found.analysed() == 4
    [counts] = found.spans()
    assert (counts["step"], counts["io"]) == (4, 4)


def test_what_is_to_be_done_at_the_end_is_done(run):
    """``finally`` blocks may train on: that stops nobody again."""
    program = """
import contextlib
o = Optimizer()
@contextlib.contextmanager
def scope():
    try:
        yield
    finally:
        for batch in Loader(5):
            o.step()
        print("scope left")
with scope():
    try:
        for batch in Loader():
            o.step()
    finally:
        for _ in range(3):
            o.step()
        print("finally")
"""
    found = run(program, "--stop", "3")
    assert (found.exit, found.out) == (0, "finally\nscope left\natexit\n"), found.err
    assert len(found.stops) == 1


@pytest.mark.parametrize("caught", ["except:", "except BaseException:"])
def test_a_program_that_swallows_everything_is_stopped(caught, run):
    program = f"""
o = Optimizer()
while True:
    try:
        o.step()
    {caught}
        print("swallowed")
print("went on")
"""
    found = run(program, "--stop", "3")
    assert found.exit == 0, found.err
    assert "went on" not in found.out
    assert found.stops == [(3, "stop")]


@pytest.mark.parametrize(
    "pool", ["ProcessPoolExecutor(1, get_context('fork'))", "ThreadPoolExecutor(2)"]
)
def test_what_a_pool_trains_after_the_stop_of_a_task_is_stopped_too(pool, run):
    """A pool keeps the stop as the task's result, and begins the next one."""
    program = f"""
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from threading import Event
all_are_there = Event()
def train(number):
    if isinstance(pool, ThreadPoolExecutor):
        all_are_there.wait()  # the stop ends the main thread, which else may not have submitted them
    o = Optimizer()
    steps = 0
    try:
        for batch in Loader(20000):
            o.step()
            steps += 1
    finally:
        if number:
            print(f"trained {{steps}} steps", flush=True)
if __name__ == "__main__":
    with {pool} as pool:
        futures = [pool.submit(train, number) for number in range(4)]
        all_are_there.set()
        print([type(each.exception()).__name__ for each in futures], flush=True)
"""
    found = run(program, "--stop", "3", "--timeout", "60")
    assert found.exit == 0, found.err
    trained = [int(line.split()[1]) for line in found.out.splitlines() if "trained" in line]
    assert trained and max(trained) < 2000, found.out
    if "Process" in pool:
        assert trained == [1, 1, 1] and "['SystemExit', 'SystemExit'" in found.out


def test_a_program_that_ends_before_is_not_disturbed(run):
    found = run("o = Optimizer()\nfor _ in range(3):\n    o.step()\nsys.exit(4)\n", "--stop", "9")
    assert (found.exit, found.out, found.stops) == (4, "atexit\n", [])
    assert found.record["stopped"] is False


def test_a_forked_child_counts_for_itself(run):
    program = """
import os
o = Optimizer()
o.step(); o.step()
if os.fork() == 0:
    for _ in range(10):
        o.step()
    os._exit(1)
_, status = os.wait()
print("child", os.waitstatus_to_exitcode(status), flush=True)
o.step(); o.step()
print("went on")
"""
    found = run(program, "--stop", "3")
    assert (found.exit, found.err.count("Traceback")) == (0, 0)
    assert found.out.split() == ["atexit", "child", "0", "atexit"]
    assert found.stops == [(3, "stop"), (3, "stop")]


def test_without_a_limit_nothing_is_counted():
    code = (
        "import sys; import injector.overseer.session, injector.measure;"
        "print([name for name in sys.modules if 'pac' in name and name.startswith('injector')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}
    )
    assert done.stdout == "[]\n"


WAITS_FOR_RESULTS = {
    "a queue": """
queue = context.Queue()
processes = [context.Process(target=work, args=(queue,)) for _ in range(2)]
for process in processes:
    process.start()
print([queue.get() for _ in processes])
""",
    "a pool": """
with context.Pool(2) as pool:
    print(pool.map(work, [None, None]))
""",
    "a thread": """
import queue
results = queue.Queue()
threading.Thread(target=work, args=(results,)).start()
print(results.get())
""",
}


@pytest.mark.parametrize("waits", WAITS_FOR_RESULTS)
def test_a_program_that_waits_for_a_result_of_what_has_stopped_is_ended(waits, run):
    program = """
import multiprocessing
context = multiprocessing.get_context("fork")
def work(queue):
    o = Optimizer()
    for _ in range(99):
        o.step()
    if queue is not None:
        queue.put(1)
"""
    options = ("--stop", "3", "--grace", "0.5s", "--timeout", "100s")
    found = run(program + WAITS_FOR_RESULTS[waits], *options)
    assert (found.exit, found.record["timed_out"], found.record["stopped"]) == (0, False, True)
    assert "[1" not in found.out and found.record["outlived"] == []


def test_a_program_that_goes_on_after_its_workers_have_stopped_is_not_ended(run):
    program = """
import multiprocessing, time
def work(o=Optimizer()):
    for _ in range(99):
        o.step()
process = multiprocessing.get_context("fork").Process(target=work)
process.start()
process.join()
time.sleep(3)
print("went on", process.exitcode)
sys.exit(5)
"""
    found = run(program, "--stop", "3", "--grace", "0.5s")
    assert found.exit == 5 and "went on 0" in found.out
