"""The same suite on all engines: the same plan, and the same results."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml
from suite_runs import gpus, last, made_suite

from injector.analysis.summary import summarise
from injector.store.folder import open_run
from injector.suite.environments.setup import Resources
from injector.suite.plan.machine import find_machine
from injector.suite.plan.planner import PlanOptions, plan_suite
from injector.suite.run import engines, ray_client, slurm, ssh_engine
from injector.suite.run.ssh_nodes import NodeFacts, SshNode

CARD = ("Stand-in", 80 << 30)


@pytest.fixture
def nodes(monkeypatch, tmp_path):
    """This machine has two GPUs, and each engine finds two nodes that are like it."""
    for name, value in gpus(tmp_path).items():
        monkeypatch.setenv(name, value)
    here = find_machine()
    cpus, memory = here.cpu_count, here.memory
    found = NodeFacts(cpus, memory, (CARD, CARD))
    resources = {"CPU": float(cpus), "GPU": 2.0}
    ray_nodes = [{"name": n, "resources": resources, **found._asdict()} for n in "ab"]
    there = {SshNode(n): found for n in "ab"}
    monkeypatch.setattr(ssh_engine, "facts", lambda nodes: (there, {}))
    monkeypatch.setattr(slurm, "nodes", lambda _: slurm.Nodes(2, cpus, memory, 2, "Stand-in", None))
    cluster = {"nodes": ray_nodes, "address": "10.0.0.1:6379"}
    monkeypatch.setattr(ray_client, "cluster", lambda address: cluster)
    return {"nodes": [{"name": "a"}, {"name": "b"}]}


def planned(name, system, **benchmarks):
    machine = engines.machine_of(name, system, None)
    if name == "local":
        machine = replace(machine, count=2)  # which it has not: for the sake of the plan
    options = PlanOptions("/base/runs/x")
    ground = Resources("/env/bin/python", {"data": "/base/data"})
    return plan_suite(made_suite(**benchmarks), machine, "/base", lambda each: ground, options)


@pytest.mark.parametrize("name", [each for each in engines.ENGINES if each != engines.LOCAL])
def test_the_same_suite_has_the_same_plan(nodes, name):
    suite = {
        "each": {},
        "one": {"plan": {"method": "per_gpu", "devices": [1]}},
        "ranks": {"num_machines": 2, "plan": {"method": "njobs"}, "argv": {"--n": "{gpu_count}"}},
        "both": {"num_machines": 2},
        "large": {"num_machines": 3},
    }
    local, other = planned(engines.LOCAL, {}, **suite), planned(name, nodes, **suite)
    assert [each.key for each in other.jobs] == ["each.R0", "one.R0", "ranks.R0", "both.R0"]
    assert [_compared(each) for each in other.jobs] == [_compared(each) for each in local.jobs]
    assert [each.benchmark for each in other.left_out] == ["large"]


def _compared(job):
    """A job without what stands for a device in the variables of a node of its own."""
    hidden = {"CUDA_VISIBLE_DEVICES": "?"}
    return [
        replace(each, environment={**each.environment, **hidden}, cores=())
        for each in job.processes
    ]


TRAINS = """
import os, sys, torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in DataLoader(torch.randn(int(sys.argv[1]) * 4, 8), batch_size=4):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
print("trained", sys.argv[1])
sys.exit(int(sys.argv[2]))
"""


def results(suites, engine, *options, **system):
    """What becomes of each process of a suite on an engine, what it prints, how many steps it takes."""
    program = suites.program("trains.py", TRAINS)
    suite = {
        "short": {"run": f"{program} 12 0"},
        "long": {"run": f"{program} 30 0", "voir": {"options": {"stop": 20, "skip": 5}}},
        "fails": {"run": f"{program} 3 4"},
    }
    path = suites.write(suite)
    path.write_text(yaml.safe_dump({"system": system} if system else {}) + path.read_text())
    done = suites.call("run", path, "--engine", engine, *options, "--name", engine, devices="cpu:2")
    assert done.returncode == 1, done.stderr
    [run] = suites.base.glob(f"runs/{engine}.*")
    found = {}
    for job in last(run).values():
        for key, process in job["processes"].items():
            folder = run / process["run"]
            exit_code = json.loads((folder / "run.json").read_text())["exit"]["code"]
            [loop] = summarise(open_run(str(folder))).profile.loops
            steps = sum(each.steps for each in loop.ranks)
            found[key] = (job["ok"], exit_code, (folder / "stdout").read_text(), steps)
    return found


@pytest.mark.release
@pytest.mark.parametrize("name", [each for each in engines.ENGINES if each != engines.LOCAL])
def test_the_same_suite_has_the_same_results(suites, name, request):
    options, system = [], {}
    if name == "slurm":
        suites.environ |= request.getfixturevalue("slurm")
    elif name == "ray":
        options = ["--engine-option", f"address={request.getfixturevalue('ray').address}"]
    else:
        system = {"nodes": [{"name": "here", "main": True}]}
    expected = results(suites, "local")
    assert results(suites, name, *options, **system) == expected
    assert {key: each[0] for key, each in expected.items()} == {
        f"{job}.R0.D{n}": job != "fails" for job in ("short", "long", "fails") for n in (0, 1)
    }
    assert [expected[f"{job}.R0.D0"][3] for job in ("short", "long", "fails")] == [12, 25, 3]
