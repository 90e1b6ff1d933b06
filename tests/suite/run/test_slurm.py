"""Suites on a cluster with Slurm: under Slurm itself, with two virtual nodes."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest
from suite_runs import PATIENCE, RANKS, gpus, journal, last, nothing_left, plan, until

from injector.errors import UserError
from injector.suite.run import slurm as commands

pytestmark = pytest.mark.xdist_group("slurm")


@pytest.fixture
def cluster(suites, slurm):
    """Suites that have the cluster's configuration."""
    suites.environ |= slurm
    return suites


def ask(cluster, *words):
    """What a command of Slurm prints."""
    done = subprocess.run(words, env=cluster.environ, capture_output=True, text=True, check=True)
    return done.stdout


def test_jobs_of_one_node_and_of_two(cluster):
    shows = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['SLURMD_NODENAME'])"
    program = cluster.program("shows.py", f"{shows}\nimport sys; sys.exit(int(sys.argv[1]))")
    suite = {
        "both": {"run": f"{program} 0", "num_machines": 2},
        "fails": {"run": f"{program} 3", "plan": {"devices": 1}},
        "large": {"run": f"{program} 0", "num_machines": 3},
    }
    cluster.environ |= gpus(cluster.folder)
    done = cluster.call("run", cluster.write(suite), "--engine", "slurm", devices=None)
    run = cluster.run()
    assert done.returncode == 1, done.stderr
    assert "large was left out: needs 3 machines; there are 2" in done.stderr
    both, fails = last(run)["both.R0"], last(run)["fails.R0"]
    assert both["ok"] and len(both["processes"]) == 4
    assert not fails["ok"] and fails["reason"].startswith("exit code 3")
    said = {(run / f"jobs/both.R0.D{n}/stdout").read_text().strip() for n in range(4)}
    assert said == {"0 n1", "1 n1", "0 n2", "1 n2"}
    begun = [each for each in journal(run) if each.get("state") == "started"]
    assert all(each["handle"].isdecimal() for each in begun)
    assert len(plan(run)["jobs"]) == 2


@pytest.mark.release
def test_one_program_over_two_nodes(cluster):
    run = cluster.program("ranks.py", RANKS)
    suite = {"ranks": {"run": run, "num_machines": 2, "plan": {"method": "njobs"}}}
    done = cluster.call("run", cluster.write(suite), "--engine", "slurm", devices="cpu:2")
    assert done.returncode == 0, done.stderr
    info = json.loads((cluster.run() / "jobs/ranks.R0.D0/run.json").read_text())
    ranks = {(each["rank"], each["world"]) for each in info["processes"] if each["world"] == 4}
    assert ranks == {(n, 4) for n in range(4)} and info["problems"] == []


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
    until(lambda: not ask(cluster, "squeue", "--noheader"), "an empty queue")
    assert nothing_left(cluster.base)


@pytest.mark.release
def test_a_job_that_slurm_requeues_runs_again(cluster):
    process = waiting(cluster)
    ask(cluster, "scontrol", "requeue", number(cluster))
    until(lambda: last(cluster.run())["a.R0"]["attempt"] == 2, "a second attempt")
    (cluster.folder / "ledger.go").touch()
    until(lambda: ask(cluster, "squeue", "-ho", "%T").split() == ["PENDING"], "the queue")
    ask(cluster, "scontrol", "update", f"JobId={number(cluster)}", "StartTime=now")
    _, message = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, message
    assert cluster.entries()["end a.R0.D0.a2"] == 1


@pytest.mark.release
def test_a_job_that_was_cancelled_in_slurm_has_failed_and_left_its_record(cluster):
    process = waiting(cluster)
    ask(cluster, "scancel", number(cluster))
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
        (["-P", "system.slurm.partition=nope"], "no partition nope; there is main, short"),
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


def test_jobs_as_slurm_lists_them(answers):
    answers["squeue"] = "12|PENDING|0||BeginTime|\n13|NODE_FAIL|2|n[1-2]|None|\n"
    assert commands.states() == {
        "12": ("PENDING", 0, "", "BeginTime"),
        "13": ("NODE_FAIL", 2, "n[1-2]", "None"),
    }
