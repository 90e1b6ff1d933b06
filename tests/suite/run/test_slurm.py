"""Suites on a cluster with Slurm: under Slurm itself, with two virtual nodes."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest
from engine_doubles import IMAGE, calls, make_doubles
from mpi_here import mpi_launcher
from suite_runs import (
    PATIENCE,
    RANKS,
    gpus,
    journal,
    last,
    nothing_left,
    run_on_one_node_and_on_two,
    run_over_two_nodes,
    until,
)

from injector.analysis.profiling import profile
from injector.errors import UserError
from injector.store.folder import open_run
from injector.suite.plan.jobs import Job, PlannedProcess
from injector.suite.run import slurm as commands
from injector.suite.run.engine import QueuedJob
from injector.suite.run.slurm_engine import PendingCancels, SlurmJob

pytestmark = pytest.mark.xdist_group("slurm")


def test_jobs_of_one_node_and_of_two(cluster):
    cluster.environ |= gpus(cluster.folder)
    run = run_on_one_node_and_on_two(cluster, "--engine", "slurm")
    begun = [each for each in journal(run) if each.get("state") == "started"]
    assert all(each["handle"].isdecimal() for each in begun)


@pytest.mark.release
def test_one_program_over_two_nodes(cluster):
    run_over_two_nodes(cluster, "--engine", "slurm")


@pytest.mark.release
def test_all_ranks_of_two_nodes_stop_at_the_same_step(cluster):
    run_over_two_nodes(cluster, "--engine", "slurm", stop=5)
    [loop] = profile(open_run(str(cluster.run() / "jobs/ranks.R0.D0"))).loops
    assert [rank.steps for rank in loop.ranks] == [5] * 4  # of 8


@pytest.mark.release
@pytest.mark.parametrize("which", ["Open MPI", "MPICH"])
def test_mpirun_over_two_nodes(cluster, which):
    """Of a program that stops early; each node has its own ranks, its monitor, and its variables."""
    launcher = mpi_launcher(which)
    info = run_over_two_nodes(cluster, "--engine", "slurm", stop=5, launcher=launcher)
    run = cluster.run()
    [loop] = profile(open_run(str(run / "jobs/ranks.R0.D0"))).loops
    assert [rank.steps for rank in loop.ranks] == [5] * 4
    lines = (run / "jobs/ranks.R0.D0/stdout").read_text().splitlines()
    nodes = {line for line in lines if " has " in line}
    assert nodes == {"n1 has 0", "n1 has 1", "n2 has 2", "n2 has 3"}
    assert len(list((run / "jobs/ranks.R0.D0/raw").glob("*.monitor"))) == 2
    assert info["exit"]["code"] == 0 and info["stopped"]


ACCELERATED = """
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(8, 1)
made = model, torch.optim.SGD(model.parameters(), lr=0.01), DataLoader(torch.randn(64, 8), batch_size=4)
model, optimizer, loader = accelerator.prepare(*made)
for batch in loader:
    optimizer.zero_grad()
    accelerator.backward(model(batch).square().mean())
    optimizer.step()
print("rank", accelerator.process_index, "of", accelerator.num_processes, flush=True)
accelerator.end_training()
"""


@pytest.mark.release
def test_accelerate_over_two_nodes(cluster):
    """torchrun starts it, whose variables it reads."""
    pytest.importorskip("accelerate")
    suite = {
        "ranks": {
            "run": cluster.program("ranks.py", ACCELERATED),
            "num_machines": 2,
            "plan": {"method": "njobs", "launcher": "accelerate"},
        }
    }
    done = cluster.call("run", cluster.write(suite), "--engine", "slurm", devices="cpu:2")
    assert done.returncode == 0, done.stderr
    [loop] = profile(open_run(str(cluster.run() / "jobs/ranks.R0.D0"))).loops
    assert [rank.steps for rank in loop.ranks] == [4] * 4  # of 16 batches


FAILS = {
    "at once": """
    optimizer.step()
    at = globals().get("at", 0) + 1
    if dist.get_rank() == 3 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and at == 3:
        sys.exit(3)
""",
    # The other ranks do not fail: torchrun on their node starts them again, and does not count that.
    "while others wait": """
    optimizer.step()
    at = globals().get("at", 0) + 1
    if not os.path.exists(sys.argv[1]) and at == 3:
        if dist.get_rank() == 3:
            open(sys.argv[1], "w").close()
            sys.exit(3)
        time.sleep(600)
""",
}


@pytest.mark.release
@pytest.mark.parametrize("how", FAILS)
def test_a_rank_that_fails_is_started_again_with_those_of_both_nodes(cluster, how):
    program = cluster.program("ranks.py", RANKS.replace("    optimizer.step()\n", FAILS[how], 1))
    suite = {
        "ranks": {
            "run": f"{program} {cluster.folder}/failed",
            "num_machines": 2,
            "env": {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},  # see docs/clusters.md
            "plan": {
                "method": "njobs",
                "launcher": "torchrun --nnodes 2 --nproc-per-node 2 --max-restarts 1",
            },
        }
    }
    done = cluster.call("run", cluster.write(suite), "--engine", "slurm", devices="cpu:2")
    assert done.returncode == 0, done.stderr
    info = json.loads((cluster.run() / "jobs/ranks.R0.D0/run.json").read_text())
    assert {(each["rank"], each["attempt"], each["restarted"]) for each in info["broken"]} <= {
        (rank, 0, 1) for rank in range(4)
    }
    loops = [(each["attempt"], each["ranks"], each["steps"]) for each in info["training"]]
    assert sorted(loops) == [(0, 4, 3), (1, 4, 8)]


@pytest.mark.release
def test_one_program_over_two_nodes_in_containers(cluster):
    """Of a double of docker. Its ranks record apart, as they could not join one run."""
    make_doubles(cluster.folder / "bin")
    (cluster.folder / "bin/docker.json.pulled").touch()
    cluster.environ["PATH"] = f"{cluster.folder}/bin:{cluster.environ['PATH']}"
    suite = {
        "ranks": {
            "run": cluster.program("ranks.py", RANKS),
            "num_machines": 2,
            "plan": {"method": "njobs"},
            "docker_image": IMAGE,
            "container_engine": "docker",
        }
    }
    done = cluster.call("run", cluster.write(suite), "--engine", "slurm", devices="cpu:2")
    assert done.returncode == 0, done.stderr
    run = cluster.run()
    info = json.loads((run / "jobs/ranks.R0.D0/run.json").read_text())
    ranks = {(each["rank"], each["world"]) for each in info["processes"] if each["world"] == 4}
    assert ranks == {(n, 4) for n in range(4)}
    for machine in (0, 1):
        part = json.loads((run / f"machines/ranks.R0.1.m{machine}/D0/run.json").read_text())
        assert len([each for each in part["processes"] if each["world"] == 4]) == 2
    begun = [each for each in calls(cluster.folder / "bin", "docker") if each[0] == "run"]
    assert len(begun) == 2


def waiting(cluster, seconds=600, **more):
    """A suite of one job, which runs."""
    suite = cluster.write(cluster.counted("a", seconds=seconds, **more))
    process = cluster.start(suite, "--engine", "slurm")
    until(lambda: cluster.entries(), "a beginning")
    return process


def number(cluster):
    return last(cluster.run())["a.R0"]["handle"]


@pytest.mark.release
def test_a_suite_that_was_killed_goes_on_with_its_job(cluster):
    process = waiting(cluster)
    until(lambda: last(cluster.run())["a.R0"]["state"] == "started", "a line")
    process.kill()
    process.wait()
    (cluster.folder / "ledger.go").touch()
    done = cluster.call("run", "--resume")
    assert done.returncode == 0, done.stderr
    assert cluster.entries() == {"begin a.R0.D0": 1, "end a.R0.D0": 1}


@pytest.mark.release
def test_an_interrupt_cancels_what_runs_and_what_waits(cluster):
    suite = cluster.write(cluster.counted("a", "b", "c", seconds=600))
    process = cluster.start(suite, "--engine", "slurm", devices="cpu:1")
    until(lambda: len(cluster.entries()) == 2, "a beginning on both nodes")
    os.killpg(process.pid, signal.SIGINT)
    _, message = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "3 left to run" in message, message
    assert {each["state"] for each in last(cluster.run()).values()} == {"interrupted"}
    assert (cluster.run() / "jobs/a.R0.D0/run.json").exists()
    until(lambda: not cluster.ask("squeue", "--noheader"), "an empty queue")
    assert nothing_left(cluster.base)


def over(cluster, process, which):
    """Whether the suite has ended; until then a job that Slurm holds back is let begin."""
    if "PENDING" in cluster.ask("squeue", "-ho", "%T"):
        now = ["scontrol", "update", f"JobId={which}", "StartTime=now"]
        subprocess.run(now, env=cluster.environ, capture_output=True, check=False)
    return process.poll() is not None


@pytest.mark.release
@pytest.mark.parametrize("why", ["scontrol requeue", "preempted"])
def test_a_job_that_slurm_requeues_runs_again(cluster, why):
    process = waiting(cluster)
    which = number(cluster)
    if why == "preempted":
        words = ["sbatch", "--parsable", "--partition=urgent", "--nodes=2", "--exclusive"]
        cluster.ask(*words, "--output=/dev/null", "--wrap=sleep 1")
        until(lambda: not cluster.ask("squeue", "-h", "--partition=urgent"), "the urgent job's end")
    else:
        cluster.ask("scontrol", "requeue", which)
    until(lambda: last(cluster.run())["a.R0"]["attempt"] == 2, "a second attempt")
    (cluster.folder / "ledger.go").touch()
    until(lambda: over(cluster, process, which), "the end")
    _, message = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, message
    assert cluster.entries()["end a.R0.D0.a2"] == 1


@pytest.mark.release
def test_a_job_that_was_cancelled_in_slurm_has_failed_and_left_its_record(cluster):
    process = waiting(cluster)
    cluster.ask("scancel", number(cluster))
    _, message = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "killed by SIGTERM; it was cancelled in Slurm (Slurm job" in message
    assert (cluster.run() / "jobs/a.R0.D0/run.json").exists()


@pytest.mark.release
def test_a_time_limit_of_slurm_leaves_time_for_the_record(cluster):
    """The partition gives two minutes, one of which is for the end."""
    suite = cluster.write(cluster.counted("a", seconds=600))
    done = cluster.call("run", suite, "--engine", "slurm", "-P", "system.slurm.partition=short")
    assert done.returncode == 1
    assert "it got a signal to end, as before a time limit" in done.stderr, done.stderr
    assert (cluster.run() / "jobs/a.R0.D0/run.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-P", "system.slurm.partition=nope"], "no partition nope; there is main, short, urgent"),
        (["-P", "system.slurm.nodes=3"], "system.slurm.nodes cannot be set"),
        (["-P", "system.slurm.partitoin=main"], "unrecognized option '--partitoin=main'"),
        (["-P", "system.slurm.constraint=fast"], "Invalid feature specification"),
        (["-P", "system.slurm=main"], "system.slurm is a map of options"),
        (["--devices", "cuda:0,5"], "a node of the partition has 2 GPUs, counted from 0"),
        (["--devices", "xpu:0"], "--devices xpu:0: not understood"),
    ],
    ids=["partition", "own", "option", "constraint", "no map", "devices", "kind"],
)
@pytest.mark.release
def test_what_the_cluster_does_not_have_is_a_mistake(cluster, words, message):
    suite = cluster.write(cluster.counted("a"))
    done = cluster.call("run", suite, "--engine", "slurm", *words, devices=None)
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert not cluster.runs()


def test_without_slurm(suites):
    suites.environ["PATH"] = str(suites.folder)
    done = suites.call("run", suites.write(suites.counted("a")), "--engine", "slurm")
    assert done.returncode == 2
    assert "there is no command sinfo: Slurm is not installed here" in done.stderr


@pytest.fixture
def answers(monkeypatch):
    """What the commands of Slurm print, by the first word."""
    texts = {}
    monkeypatch.setattr(commands, "call", lambda words, script=None: texts[words[0]])
    return texts


def test_the_least_of_the_nodes_that_are_up_counts(answers):
    answers["sinfo"] = (
        "gpu*|a1|64|500000|gpu:a100:8(S:0-1)|idle|1-00:00:00\n"
        "gpu*|a2|32+|250000|gpu:a100:4|mixed|1-00:00:00\n"
        "gpu*|a3|64|500000|gpu:a100:8|drained*|1-00:00:00\n"
        "gpu*|login|8|16000|(null)|idle|1-00:00:00\n"
        "cpu|c1|128|1000|(null)|idle|infinite\n"
    )
    assert commands.nodes(None) == (2, 32, 250000 << 20, 4, "a100", 86400.0)
    assert commands.nodes("cpu") == (1, 128, 1000 << 20, 0, "", None)
    answers["sinfo"] = "gpu*|a3|64|500000|gpu:a100:8|down*|30:00\n"
    with pytest.raises(UserError, match=r"no node of the partition can run jobs: a3 is down\*"):
        commands.nodes("gpu")


def test_a_node_that_cannot_run_a_part_says_why(tmp_path):
    process = PlannedProcess(
        "a.R0.D0", ("cpu:0",), ("/env/bin/python",), {}, str(tmp_path), "jobs/a.R0.D0", 60.0, 60.0
    )
    queued = QueuedJob(Job("a.R0", "a", 0, (process,)), 1)
    job = SlurmJob(queued, str(tmp_path), "7", queued, PendingCancels())
    (tmp_path / "machines").mkdir()
    (tmp_path / "machines/a.R0.7.out").write_text("x\n/env/bin/python: cannot execute\n\n")
    for _ in range(2):
        job.update(commands.JobState("FAILED", 0, "n2", "NonZeroExitCode"))
    assert job.over and job.problems == [
        "it left no word but: /env/bin/python: cannot execute (Slurm job 7: FAILED, nodes n2)"
    ]


def test_jobs_as_slurm_lists_them(answers):
    answers["squeue"] = "12|PENDING|0||BeginTime|\n13|NODE_FAIL|2|n[1-2]|None|\n"
    assert commands.states() == {
        "12": ("PENDING", 0, "", "BeginTime"),
        "13": ("NODE_FAIL", 2, "n[1-2]", "None"),
    }
