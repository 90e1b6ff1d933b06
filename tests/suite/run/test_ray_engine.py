"""Suites on a Ray cluster: on Ray's own multi-node test cluster, with two nodes on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from suite_runs import (
    PATIENCE,
    RANKS,
    SHOWS,
    Suites,
    last,
    nothing_left,
    run_on_one_node_and_on_two,
    run_over_two_nodes,
    until,
)

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.release]


class RaySuites(Suites):
    """Suites that run on ``cluster``."""

    def __init__(self, folder, environ, cluster, *options):
        super().__init__(folder, environ)
        self.cluster = cluster
        self.options = ["--engine", "ray"]
        for each in (f"address={cluster.address}", *options):
            self.options += ["--engine-option", each]

    def words(self, verb, *words, devices="cpu:1"):
        options = [] if "--resume" in words else self.options
        return super().words(verb, *words, *options, devices=devices)


@pytest.fixture
def on_ray(tmp_path, environ, ray):
    return RaySuites(tmp_path, environ, ray)


def test_jobs_of_one_node_and_of_two(on_ray):
    run = run_on_one_node_and_on_two(on_ray)
    assert not list((run / "machines").glob(".here.*"))


def test_one_program_over_two_nodes(on_ray):
    run_over_two_nodes(on_ray)


def test_a_suite_that_was_killed_goes_on_with_its_jobs(on_ray):
    """Two run, one is queued behind them."""
    process = on_ray.start(on_ray.write(on_ray.counted("a", "b", "c", seconds=600)), devices=None)
    until(lambda: len(on_ray.entries()) == 4, "a beginning on both nodes")
    until(lambda: last(on_ray.run())["a.R0"]["state"] == "started", "a line")
    process.kill()
    process.wait()
    assert last(on_ray.run())["c.R0"]["state"] == "queued"
    (on_ray.folder / "ledger.go").touch()
    done = on_ray.call("run", "--resume")
    assert done.returncode == 0, done.stderr
    keys = [f"{name}.R0.D{n}" for name in "abc" for n in (0, 1)]
    assert on_ray.entries() == {f"{word} {key}": 1 for word in ("begin", "end") for key in keys}


def test_an_interrupt_cancels_what_runs_and_what_waits(on_ray):
    process = on_ray.start(on_ray.write(on_ray.counted("a", "b", "c", seconds=600)), devices=None)
    until(lambda: len(on_ray.entries()) == 4, "a beginning on both nodes")
    os.killpg(process.pid, signal.SIGINT)
    _, message = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "3 left to run" in message, message
    assert {each["state"] for each in last(on_ray.run()).values()} == {"interrupted"}
    assert (on_ray.run() / "jobs/a.R0.D0/run.json").exists()
    assert not (on_ray.run() / "jobs/c.R0.D0").exists()
    assert nothing_left(on_ray.base)


def test_a_node_that_dies_fails_its_job_and_not_the_suite(on_ray):
    process = on_ray.start(on_ray.write(on_ray.counted("a", "b", "c", seconds=600)), devices=None)
    until(lambda: len(on_ray.entries()) == 4, "a beginning on both nodes")
    begun = on_ray.run() / "machines/a.R0.1.m0/journal.jsonl"
    node = json.loads(begun.read_text().splitlines()[0])["host"]
    on_ray.cluster.ask("kill", node)
    try:
        until(lambda: last(on_ray.run())["a.R0"]["state"] == "finished", "an end of a")
        (on_ray.folder / "ledger.go").touch()
        _, message = process.communicate(timeout=PATIENCE)
    finally:
        on_ray.cluster.ask("add", node)
    assert process.returncode == 1
    states = {key: each["ok"] for key, each in last(on_ray.run()).items()}
    assert states == {"a.R0": False, "b.R0": True, "c.R0": True}, message
    assert f"node {node} died" in message
    assert nothing_left(on_ray.base)


CARDS = """
import sys
from injector.suite.run import ray_client
real = ray_client.cluster

def cluster(address):
    found = real(address)
    for each in found["nodes"]:
        each["gpus"] = [["Large" if each["name"] == "n2" else "Small", 80 << 30]] * 2
    return found

ray_client.cluster = cluster
from injector.cli import main
sys.exit(main())
"""
"""The nodes say that their GPUs differ."""


def test_jobs_run_on_the_nodes_that_meet_what_they_require(on_ray):
    program = on_ray.program("shows.py", SHOWS)
    needs = {"run": f"{program} 0", "requires_capabilities": ["gpu.name == 'Large'"]}
    words = on_ray.words("run", on_ray.write({"a": needs, "b": needs}), devices=None)
    words[1:3] = [on_ray.program("cards.py", CARDS)]
    done = subprocess.run(
        words,
        cwd=on_ray.folder,
        env=on_ray.environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    said = [(on_ray.run() / f"jobs/{name}.R0.D0/stdout").read_text() for name in "ab"]
    assert said == ["0 n2\n"] * 2


def test_a_time_limit_ends_a_job(on_ray):
    suite = on_ray.write(on_ray.counted("a", seconds=600, max_duration=5))
    done = on_ray.call("run", suite)
    assert done.returncode == 1 and "a.R0 failed: ended by its time limit" in done.stderr
    assert (on_ray.run() / "jobs/a.R0.D0/run.json").exists()


def test_nodes_that_do_not_see_the_folder_get_files_and_send_records_home(environ, tmp_path, far):
    folder = far.far / tmp_path.name
    folder.mkdir()
    suites = RaySuites(folder, environ, far, "resources.far=1")
    shows = suites.program("shows.py", SHOWS)
    suite = {
        "each": {"run": f"{shows} 0", "num_machines": 2},
        "fails": {"run": f"{shows} 3"},
        "ranks": {
            "run": suites.program("ranks.py", RANKS),
            "num_machines": 2,
            "plan": {"method": "njobs"},
        },
    }
    done = suites.call("run", suites.write(suite))
    run = suites.run()
    assert done.returncode == 1, done.stderr
    states = {key: (each["ok"], each["reason"]) for key, each in last(run).items()}
    assert states == {
        "each.R0": (True, ""),
        "fails.R0": (False, "exit code 3"),
        "ranks.R0": (True, ""),
    }
    said = {(run / f"jobs/each.R0.D{n}/stdout").read_text() for n in (0, 1)}
    assert said == {" a1\n", " a2\n"}
    info = json.loads((run / "jobs/ranks.R0.D0/run.json").read_text())
    assert {each["rank"] for each in info["processes"] if each["rank"] is not None} == {0, 1}


def test_a_cluster_that_the_suite_starts_outlives_it(tmp_path, environ, ray):
    suites = Suites(tmp_path, environ)
    suite = suites.write(suites.counted("a", seconds=600))
    process = suites.start(suite, "--engine", "ray", "--engine-option", "address=local")
    until(lambda: suites.entries(), "a beginning")
    until(lambda: last(suites.run())["a.R0"]["state"] == "started", "a line")
    process.kill()
    process.wait()
    (suites.folder / "ledger.go").touch()
    done = suites.call("run", "--resume")
    assert done.returncode == 0, done.stderr
    assert suites.entries() == {"begin a.R0.D0": 1, "end a.R0.D0": 1}


# --- one program -------------------------------------------------------------------------------------

PROGRAM = """\
import os, sys, time
print("on", os.environ["INJECT_NODE"], *sys.argv[1:], flush=True)
print("an error", file=sys.stderr, flush=True)
time.sleep(float(sys.argv[1]))
sys.exit(3)
"""


def words(cluster, *options):
    found = [sys.executable, "-m", "injector", "run", "-q", "--no-monitor", "--engine", "ray"]
    for each in (f"address={cluster.address}", *options):
        found += ["--engine-option", each]
    return [*found, "--into", "r", "program.py"]


def test_output_exit_code_and_record_of_a_program_are_as_here(on_ray, ray):
    on_ray.program("program.py", PROGRAM)
    asked = [*words(ray, "gpus=1"), "0", "a b"]
    done = subprocess.run(
        asked,
        cwd=on_ray.folder,
        env=on_ray.environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout in ("on n1 0 a b\n", "on n2 0 a b\n") and done.stderr == "an error\n"
    assert (on_ray.folder / "r/run.json").exists() and not list(on_ray.folder.glob("r/.here.*"))


def test_a_signal_reaches_the_program(environ, tmp_path, far):
    """On a node with a file system of its own; its record comes home."""
    folder = far.far / tmp_path.name
    folder.mkdir()
    suites = RaySuites(folder, environ, far)
    suites.program("program.py", PROGRAM)
    process = subprocess.Popen(
        [*words(far, "resources.far=1"), "600"], cwd=folder, env=suites.environ,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() in ("on a1 600\n", "on a2 600\n")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == -signal.SIGTERM
    assert (folder / "r/run.json").exists()
