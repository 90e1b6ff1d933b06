"""One job over all devices, as a framework's launcher starts it."""

from __future__ import annotations

import json

import pytest
from suite_runs import last

RANKS = """
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
whole = torch.ones(1)
dist.all_reduce(whole)
with open(f"{sys.argv[1]}.{dist.get_rank()}", "w") as file:
    file.write(f"{whole.item():.0f} of {dist.get_world_size()}")
dist.destroy_process_group()
"""


def test_torchrun_over_the_cores(suites):
    pytest.importorskip("torch")
    program = suites.program("ranks.py", RANKS)
    benchmark = {"run": f"{program} {suites.folder}/rank", "plan": {"method": "njobs", "n": 1}}
    done = suites.call("run", suites.write({"ranks": benchmark}), devices="cpu:2")
    assert done.returncode == 0, done.stderr
    assert [(suites.folder / f"rank.{n}").read_text() for n in (0, 1)] == ["2 of 2", "2 of 2"]
    run = suites.run()
    assert list(last(run)["ranks.R0"]["processes"]) == ["ranks.R0.D0"]
    record = json.loads((run / "jobs/ranks.R0.D0/run.json").read_text())
    assert sorted(each["rank"] for each in record["processes"] if each["rank"] is not None) == [
        0,
        1,
    ]


@pytest.mark.release  # what it makes of a command line: tests/suite/plan/test_planner.py
def test_a_launcher_with_options_of_its_own(suites):
    """Of a suite's YAML, which is checked before anything is planned."""
    pytest.importorskip("torch")
    program = suites.program("ranks.py", RANKS)
    launcher = "torchrun --standalone --nproc-per-node 2 --max-restarts 1"
    plan = {"method": "njobs", "launcher": launcher}
    benchmark = {"run": f"{program} {suites.folder}/rank", "plan": plan}
    done = suites.call("run", suites.write({"ranks": benchmark}), devices="cpu:1")
    assert done.returncode == 0, done.stderr
    assert [(suites.folder / f"rank.{n}").read_text() for n in (0, 1)] == ["2 of 2", "2 of 2"]


def test_a_launcher_that_is_misspelt_is_a_mistake(suites):
    plan = {"method": "njobs", "launcher": "torchrn"}
    benchmark = {"run": suites.program("ranks.py", RANKS), "plan": plan}
    done = suites.call("plan", suites.write({"ranks": benchmark}))
    assert done.returncode == 2, done.stderr
    assert "no launcher is called 'torchrn'; did you mean torchrun?" in done.stderr
    assert "suite.yaml:" in done.stderr and "ranks.plan.launcher" in done.stderr
