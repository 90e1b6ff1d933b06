"""The same suite on all engines: the same plan, and the same results."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml
from suite_runs import PATIENCE, RANKS, gpus, last, made_suite

from injector.analysis.summary import summarise
from injector.store.folder import open_run
from injector.suite.config.expressions import NodeCondition, unmet_on_node
from injector.suite.environments.setup import Resources
from injector.suite.plan.jobs import Plan, PlanOptions
from injector.suite.plan.machine import find_machine
from injector.suite.plan.planner import plan_suite
from injector.suite.run import ray_client, slurm, ssh_engine, suite_run
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
    ray_nodes = [{"name": n, "id": n, "resources": resources, **found._asdict()} for n in "ab"]
    there = {SshNode(n): found for n in "ab"}
    monkeypatch.setattr(ssh_engine, "facts", lambda nodes: (there, {}))
    found = slurm.PartitionNodes(2, cpus, memory, 2, "Stand-in", None)
    monkeypatch.setattr(slurm, "nodes", lambda _: found)
    cluster = {"nodes": ray_nodes, "address": "10.0.0.1:6379"}
    monkeypatch.setattr(ray_client, "cluster", lambda address: cluster)
    return {"nodes": [{"name": "a"}, {"name": "b"}]}


def planned(name, system, container=lambda _: (), **benchmarks):
    machine = suite_run.machine_of(name, system, None)
    if name == "local":
        machine = replace(machine, count=2)  # which it has not: for the sake of the plan
    options = PlanOptions("/base/runs/x")
    ground = Resources("/env/bin/python", {"data": "/base/data"}, container=container)
    return plan_suite(made_suite(**benchmarks), machine, "/base", lambda each: ground, options)


@pytest.mark.parametrize("name", [each for each in suite_run.ENGINES if each != suite_run.LOCAL])
def test_the_same_suite_has_the_same_plan(nodes, name):
    suite = {
        "each": {},
        "one": {"plan": {"method": "per_gpu", "devices": [1]}},
        "ranks": {"num_machines": 2, "plan": {"method": "njobs"}, "argv": {"--n": "{gpu_count}"}},
        "both": {"num_machines": 2},
        "large": {"num_machines": 3},
    }
    local, other = planned(suite_run.LOCAL, {}, **suite), planned(name, nodes, **suite)
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


OTHER = ("Large", 160 << 30)


@pytest.mark.parametrize("name", [each for each in suite_run.ENGINES if each != suite_run.LOCAL])
def test_ranks_on_several_nodes_run_in_containers_and_record_apart(nodes, name):
    job = {"num_machines": 2, "plan": {"method": "njobs"}}
    benchmarks = {"ranks": job, "each": {"num_machines": 2}, "one": {}}
    there = planned(name, nodes, container=lambda _: ("--container", "image"), **benchmarks)
    apart = {each.benchmark: each.is_contained_apart for each in there.jobs}
    assert apart == {"ranks": True, "each": False, "one": False} and not there.left_out
    assert not any(each.is_contained_apart for each in planned(name, nodes, **benchmarks).jobs)


CAPABLE = {
    "large": {"requires_capabilities": ["gpu.capacity > '100 GiB'"]},
    "named": {"requires_capabilities": ["gpu.name == 'Large'", "len(nodes) >= 2"]},
    "both": {"requires_capabilities": ["gpu.name == 'Large'"], "num_machines": 2},
    "none": {"requires_capabilities": ["gpu.name == 'Huge'"]},
    "pair": {"requires_capabilities": ["len(nodes) >= ${..num_machines}"], "num_machines": 2},
}


@pytest.mark.parametrize("name", ["ssh", "ray"])
def test_a_job_runs_on_nodes_that_meet_what_it_requires(nodes, monkeypatch, name):
    here = find_machine()
    small, large = (NodeFacts(here.cpu_count, 8 << 30, (each,) * 2) for each in (CARD, OTHER))
    monkeypatch.setattr(
        ssh_engine, "facts", lambda _: ({SshNode("a"): small, SshNode("b"): large}, {})
    )
    there = {"CPU": 4.0, "GPU": 2.0}
    found = [
        {"name": n, "id": n, "resources": there, **each._asdict()}
        for n, each in (("a", small), ("b", large))
    ]
    cluster = {"nodes": found, "address": "10.0.0.1:6379"}
    monkeypatch.setattr(ray_client, "cluster", lambda address: cluster)
    made = planned(name, nodes, **CAPABLE)
    assert {each.key: each.nodes for each in made.jobs} == {
        "large.R0": ("b",), "named.R0": ("b",), "pair.R0": (),
    }  # fmt: skip
    assert {each.benchmark: each.reason for each in made.left_out} == {
        "both": "needs gpu.name == 'Large', which 1 of 2 nodes have",
        "none": "needs gpu.name == 'Huge'",
    }
    assert Plan.of_json(json.loads(json.dumps(made.as_json()))).jobs == made.jobs


def test_on_slurm_a_node_judges_its_own_devices(nodes):
    made = planned("slurm", {}, **CAPABLE)
    conditions = {each.key: each.conditions for each in made.jobs}
    assert conditions["named.R0"] == (NodeCondition("gpu.name == 'Large'", {}),)
    assert conditions["pair.R0"] == () and not made.left_out
    large = {"name": "Large", "capacity": "163840 MiB"}
    unmet = {key: unmet_on_node(each, large) for key, each in conditions.items()}
    assert unmet == {**{key: [] for key in conditions}, "none.R0": ["gpu.name == 'Huge'"]}


def test_a_condition_takes_along_what_it_compares_with(nodes):
    need = {"requires_capabilities": ["gpu.capacity > '${..weight} GiB'", "weight > gpu_count"]}
    [job] = planned("slurm", {}, a={**need, "weight": 30}).jobs
    assert [each.text for each in job.conditions] == ["gpu.capacity > '${..weight} GiB'"]
    assert unmet_on_node(job.conditions, {"name": "", "capacity": "81920 MiB"}) == []


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


HANGS = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("hangs", flush=True)
time.sleep(600)
"""


def results(suites, engine, *options, **system):
    """What becomes of each process of a suite on an engine, what it prints, how many steps it takes."""
    program = suites.program("trains.py", TRAINS)
    late = suites.program("late.py", "import time\ntime.sleep(600)\n")
    ranks = suites.program("ranks.py", RANKS.replace("print(", "dist.get_rank() or print("))
    suite = {
        "short": {"run": f"{program} 12 0"},
        "long": {"run": f"{program} 30 0", "voir": {"options": {"stop": 20, "skip": 5}}},
        "fails": {"run": f"{program} 3 4"},
        "together": {"run": ranks, "plan": {"method": "njobs"}},
        "late": {"run": late, "max_duration": 3, "plan": {"devices": 1}},
        "hangs": {
            "run": suites.program("hangs.py", HANGS),
            "max_duration": 3,
            "plan": {"devices": 1},
        },
    }
    path = suites.write(suite)
    if system:
        path.write_text(yaml.safe_dump({"system": system}) + path.read_text())
    words = ["run", path, "--engine", engine, *options, "--name", engine]
    done = suites.call(*words, devices="cpu:2", patience=6 * PATIENCE)  # for each benchmark
    assert done.returncode == 1, done.stderr
    [run] = suites.base.glob(f"runs/{engine}.*")
    found = {}
    for job in last(run).values():
        for key, process in job["processes"].items():
            folder = run / process["run"]
            ended = json.loads((folder / "run.json").read_text())["exit"]
            profile = summarise(open_run(str(folder))).profile
            loops = profile.loops if profile else ()
            steps = sum(each.steps for loop in loops for each in loop.ranks)
            how = (job["ok"], job["reason"], ended["code"], ended["signal"])
            found[key] = (*how, (folder / "stdout").read_text(), steps)
    return found


@pytest.mark.release
@pytest.mark.parametrize("name", [each for each in suite_run.ENGINES if each != suite_run.LOCAL])
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
        **{f"{job}.R0.D{n}": job != "fails" for job in ("short", "long", "fails") for n in (0, 1)},
        "together.R0.D0": True,
        "late.R0.D0": False,
        "hangs.R0.D0": False,
    }
    steps = [expected[f"{job}.R0.D0"][-1] for job in ("short", "long", "fails", "together")]
    assert steps == [12, 25, 3, 16]
    assert [expected[f"{job}.R0.D0"][3] for job in ("late", "hangs")] == [15, 9]
