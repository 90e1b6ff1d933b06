"""What goes wrong on a cluster: a full disk that nodes share, and daemons of nodes that are killed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time

import pytest
import wrong_clock
from suite_runs import PATIENCE, RANKS, last, until

from injector.analysis.summary import summarise
from injector.store.folder import open_run

pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.release]

STEPS = """
import os, sys, time
import injector

def note(word):
    with open(sys.argv[2], "a") as file:
        file.write(word + "\\n")

note("begin")
while not os.path.exists(sys.argv[2] + ".go"):
    with injector.region("step"):
        time.sleep(0.002)
for _ in range(20_000):
    with injector.region("step"):
        pass
note("end")
sys.exit(int(sys.argv[1]))
"""
"""Steps before and after something happens; what it notes stands on another disk."""


class Filler(threading.Thread):
    """Takes all room that there is on a disk, and all that becomes free."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.full = threading.Event()
        self.over = threading.Event()

    def run(self):
        with open(self.path, "wb", buffering=0) as file:
            while not self.over.is_set():
                try:
                    file.write(bytes(4096))
                except OSError:
                    self.full.set()
                    time.sleep(0.001)

    def end(self):
        self.over.set()
        self.join()
        os.unlink(self.path)


@pytest.fixture
def small(suites):
    """The base folder, on a disk of 4 MiB."""
    suites.base.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(suites.base)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"needs leave to mount a file system: {done.stderr}")
    try:
        yield suites.base
    finally:
        subprocess.run(["umount", "--lazy", str(suites.base)], check=True)


def report(suites, *words):
    return subprocess.run(
        [sys.executable, "-m", "injector", "suite", "report", str(suites.run()), *words],
        env=suites.environ, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip


@pytest.mark.parametrize("engine", ["local", "slurm"])
def test_the_shared_disk_is_full(suites, small, engine, request):
    """One runs when it becomes full, one fails then, one begins when it is full."""
    if engine == "slurm":
        suites.environ |= request.getfixturevalue("slurm")
    program, notes = suites.program("steps.py", STEPS), suites.folder / "notes"
    suite = {
        name: {"run": f"{program} {code} {notes}"} for name, code in (("a", 0), ("b", 3), ("c", 0))
    }
    process = suites.start(suites.write(suite), "--engine", engine)
    filler = Filler(small / "filler")
    try:
        spans = "runs/*/jobs/a.R0.D0/raw/*.spans"
        until(lambda: any(each.stat().st_size for each in small.glob(spans)), "a's first steps")
        filler.start()
        assert filler.full.wait(PATIENCE)
        (suites.folder / "notes.go").touch()
        _, message = process.communicate(timeout=PATIENCE)
    finally:
        filler.end()
    assert sorted(notes.read_text().split()) == ["begin"] * 3 + ["end"] * 3, "as without inject"
    assert process.returncode == 1 and "0 of 3 passed, 3 failed" in message, message
    assert "b.R0 failed: exit code 3" in message
    assert "c.R0 failed: left no record (there is no space left in" in message
    told = report(suites)
    assert told.returncode == 1 and told.stdout.startswith("missing  a.R0.D0: "), told.stdout
    for name in "abc":
        assert f"{name}.R0.D0: " in told.stdout.partition("\nsuite ")[0], "before anything else"
    assert "No space left on device" in told.stdout and "3 of 3 runs failed" in told.stdout
    first = summarise(open_run(str(suites.run() / "jobs/a.R0.D0"))).profile.loops[0]
    assert 0 < first.ranks[0].steps < 20_000, "what there was room for"


@pytest.fixture
def cluster(suites, slurm):
    suites.environ |= slurm
    return suites


def lost(cluster, slurm, *words, **more):
    """A suite of one job, whose last node loses its daemon while it runs."""
    suite = cluster.write(cluster.counted("a", seconds=600, **more))
    process = cluster.start(suite, "--engine", "slurm", *words)
    until(cluster.entries, "a beginning")
    until(lambda: last(cluster.run())["a.R0"]["state"] == "started", "a line")
    number = last(cluster.run())["a.R0"]["handle"]
    words = ["squeue", "--noheader", f"--jobs={number}", "--format=%B"]
    done = subprocess.run(words, env=cluster.environ, capture_output=True, text=True, check=True)
    node = "n2" if "num_machines" in more else done.stdout.strip()
    slurm.lose(node)
    return process, node


def test_a_job_whose_node_lost_its_daemon_runs_again_elsewhere(cluster, slurm):
    process, node = lost(cluster, slurm)
    try:
        until(lambda: last(cluster.run())["a.R0"]["attempt"] == 2, "a second attempt")
        until(lambda: "begin a.R0.D0.a2" in cluster.entries(), "its beginning")
        (cluster.folder / "ledger.go").touch()
        _, message = process.communicate(timeout=PATIENCE)
    finally:
        slurm.add(node)
    assert process.returncode == 0, message
    assert cluster.entries()["end a.R0.D0.a2"] == 1
    assert f"requeued after {node} ended without a word" in message


def test_a_job_that_may_not_run_again_has_failed_with_its_node(cluster, slurm):
    process, node = lost(cluster, slurm, "-P", "system.slurm.requeue=false", num_machines=2)
    try:
        _, message = process.communicate(timeout=PATIENCE)
    finally:
        (cluster.folder / "ledger.go").touch()
        slurm.add(node)
    assert process.returncode == 1
    assert "a.R0 failed: " in message and "a node failed (Slurm job " in message, message
    assert "NODE_FAIL" in message and node in message


@pytest.mark.parametrize("wrong", [3600, -3600])
def test_clocks_an_hour_apart(cluster, wrong):
    """Ranks of both nodes record into one run, by one clock."""
    (cluster.folder / "clock").write_text(str(wrong))
    cluster.environ |= {
        "LD_PRELOAD": str(wrong_clock.build(cluster.folder)),
        "CLOCK_FILE": str(cluster.folder / "clock"),
        "CLOCK_NODE": "n2",
    }
    suite = {
        "ranks": {
            "run": cluster.program("ranks.py", RANKS),
            "num_machines": 2,
            "plan": {"method": "njobs"},
        }
    }
    done = cluster.call("run", cluster.write(suite), "--engine", "slurm")
    assert done.returncode == 0, done.stderr
    assert 0 < last(cluster.run())["ranks.R0"]["seconds"] < PATIENCE
    info = json.loads((cluster.run() / "jobs/ranks.R0.D0/run.json").read_text())
    [text] = [each for each in info["remarks"] if "clock" in each]
    found = re.match(r"the clock of n2 is moved by (\S+) s to that of \S+, by asking", text)
    assert found and abs(float(found[1]) + wrong) < 1, text
    ranks = [each for each in info["processes"] if each["rank"] is not None]
    assert {each["rank"] for each in ranks} == {0, 1} and "n2" in {each["host"] for each in ranks}
    assert all(0 <= each["time"] - info["started"] < PATIENCE for each in ranks)
    assert 0 < info["ended"] - info["started"] < PATIENCE
