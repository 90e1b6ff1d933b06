"""Suites by Ray, with a double of the process that talks to it: its nodes are folders of this machine."""

from __future__ import annotations

import io
import json
import os
import sys
import threading

import pytest
from mpi_here import MPIRUN
from suite_runs import ROOT, last

from injector.suite.config import load
from injector.suite.environments.setup import resources_below
from injector.suite.plan.jobs import PlanOptions
from injector.suite.plan.planner import plan_suite
from injector.suite.run import ray_client, ray_engine, suite_folder, suite_run
from injector.suite.run.policy import RunPolicy
from injector.suite.run.ray_node import RayPart

SHOWS = "import os, sys; print(os.environ['INJECT_NODE']); sys.exit(int(sys.argv[1]))"


class DoubleClient:
    """Starts what is submitted right away; ``dies``: keys of jobs whose node dies."""

    dies = ()

    def __init__(self, options):
        self.options = options
        self._parts = {}
        self._answers = []
        self._came = threading.Condition()

    def answer(self, event):
        return {"jobs": {}, "address": ""}

    def answers(self, seconds=0.0):
        with self._came:
            found, self._answers = self._answers, []
        return iter(found)

    def ask(self, do, handle="", **facts):
        if do == "submit":
            threading.Thread(target=self._run, args=(handle, facts["request"])).start()
        if do == "signal":
            for each in self._parts[handle]:
                each.signal(facts["number"])

    def _say(self, handle, state, machines, why=""):
        nodes = [{"id": str(n), "name": f"n{n}"} for n in range(machines)]
        told = {"event": "job", "handle": handle, "state": state, "nodes": nodes, "why": why}
        with self._came:
            self._answers.append(told)

    def _run(self, handle, request):
        machines = len(request["words"])
        self._parts[handle] = parts = [RayPart() for _ in range(machines)]
        ready = [each.prepare(request["mark"], {}, {}, len(request["keys"])) for each in parts]
        assert all(each["shared"] for each in ready)
        ports = zip(request["keys"], ready[0]["ports"], strict=True)
        places = {key: f"127.0.0.1:{port}" for key, port in ports}
        places = json.dumps({**places, "secret": request["secret"]}).encode()
        files = {request["meeting"]: places} if request["keys"] else {}
        for n, part in enumerate(parts):
            variables = request["variables"] | {"INJECT_NODE": f"n{n}"}
            part.start(
                request["words"][n], request["folders"][n], request["output"], variables, files
            )
        self._say(handle, "running", machines)
        if handle.startswith(self.dies):
            parts[0].signal(9)
        for each in parts:
            each.wait()
        died = handle.startswith(self.dies)
        self._say(handle, "lost" if died else "ended", machines, "node n0 died" if died else "")

    def close(self):
        pass


@pytest.fixture
def run_suite(suites, monkeypatch):
    """Runs a suite in this process; its exit code, and what it has said."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(ray_engine, "RayClient", DoubleClient)
    resources = {"CPU": 2.0}
    nodes = [
        {"name": n, "id": n, "resources": resources, "cpus": 2, "memory": 8 << 30, "gpus": ()}
        for n in "ab"
    ]
    monkeypatch.setattr(ray_client, "cluster", lambda address: {"nodes": nodes, "address": "a:1"})

    def run(benchmarks):
        machine = ray_engine.machine_of({}, "cpu:1")
        suite = load(suites.write(benchmarks), machine.facts())
        folder = suite_folder.create(str(suites.base), "suite")
        below = resources_below(suites.base, True)
        made = plan_suite(suite, machine, str(suites.base), below, PlanOptions(folder))
        output = io.StringIO()
        return suite_run.run(made, folder, RunPolicy(), output), output.getvalue()

    return run


def test_jobs_end_as_their_programs_do(suites, run_suite):
    shows = suites.program("shows.py", SHOWS)
    code, output = run_suite(
        {"both": {"run": f"{shows} 0", "num_machines": 2}, "fails": {"run": f"{shows} 3"}}
    )
    run = suites.run()
    assert code == 1 and "both.R0 begins on n0, n1: cpu:0, cpu:0@1" in output
    states = {key: (each["ok"], each["reason"]) for key, each in last(run).items()}
    assert states == {"both.R0": (True, ""), "fails.R0": (False, "exit code 3")}
    assert [(run / f"jobs/both.R0.D{n}/stdout").read_text() for n in (0, 1)] == ["n0\n", "n1\n"]
    assert not list((run / "machines").glob(".here*"))


def test_records_of_several_nodes_become_one_run(suites, run_suite):
    places = "import os; print(os.environ['PET_RDZV_ENDPOINT'], os.environ['INJECT_NODE'])"
    options = {"num_machines": 2, "plan": {"method": "njobs", "launcher": "none"}}
    code, output = run_suite({"wide": {"run": suites.program("wide.py", places), **options}})
    run = suites.run()
    parts = [(run / f"machines/wide.R0.1.m{n}/D0/stdout").read_text().split() for n in (0, 1)]
    assert code == 0 or "are not one run" in output, (
        output
    )  # a program without ranks leaves none to join
    assert parts[0][0] == parts[1][0] and [each[1] for each in parts] == ["n0", "n1"]


def test_mpirun_over_two_nodes(suites, run_suite, monkeypatch):
    (suites.folder / "mpirun").write_text(MPIRUN)
    (suites.folder / "mpirun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{suites.folder}:{os.environ['PATH']}")
    options = {"num_machines": 2, "plan": {"method": "njobs", "launcher": "mpirun"}}
    run_suite({"wide": {"run": f"{suites.program('shows.py', SHOWS)} 0", **options}})
    parts = suites.run() / "machines"
    printed = [(parts / f"wide.R0.1.m{n}/D0/stdout").read_text() for n in (0, 1)]
    assert printed == ["n0\n", "n1\n"]


def test_a_node_that_dies_is_named_and_the_suite_goes_on(suites, run_suite, monkeypatch):
    monkeypatch.setattr(DoubleClient, "dies", ("a.",))
    code, output = run_suite({**suites.counted("a", seconds=0.5), **suites.counted("b")})
    assert code == 1 and "a.R0 failed: left no record; node n0 died" in output, output
    assert last(suites.run())["b.R0"]["ok"]


def test_a_part_that_cannot_begin_says_why(suites, run_suite, monkeypatch):
    monkeypatch.setattr(ray_engine, "LATE", 0.0)
    monkeypatch.setattr(ray_engine.RayJob, "words", lambda job, n: [sys.executable, "-c", "1/0"])
    code, output = run_suite(suites.counted("a"))
    assert code == 1 and "inject on node n0 ended: ZeroDivisionError: division by zero" in output


def test_when_ray_is_away_what_runs_and_what_comes_fails(suites, run_suite, monkeypatch):
    monkeypatch.setattr(
        DoubleClient, "answers", lambda self, seconds=0: iter([{"event": "error", "text": "gone"}])
    )
    code, output = run_suite(suites.counted("a", "b"))
    assert code == 1 and "a.R0 failed: left no record; gone" in output and "2 failed" in output
