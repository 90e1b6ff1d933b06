"""Processes of mpirun that are `inject run` share a run folder; over several hosts, those of `inject run
mpirun` are."""

from __future__ import annotations

import json
import os
import shlex
import subprocess

import pytest
from mpi_here import OPEN_MPI, mpi_launcher

from injector.errors import UserError
from injector.launch.command import split
from injector.run import own_task
from injector.run.mpi_hosts import over_hosts
from injector.run.own_task import mpi_task

PROGRAM = """\
import os, sys

def train(steps):
    loss = 1.0
    for _ in range(steps):
        loss += 1
    return loss

train(3)
print("task", os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"], flush=True)
"""
VOIRFILE = """\
def instrument_it(ov):
    ov.value("//train > loss")
"""


def sources(folder):
    (folder / "train.py").write_text(PROGRAM)
    (folder / "x.py").write_text(VOIRFILE)
    return ["run", "--no-monitor", "--runs", "runs", "--voirfile", "x.py"]


@pytest.mark.parametrize("which", ["Open MPI", "MPICH"])
def test_processes_of_mpirun_share_a_run_folder(tmp_path, inject, environ, which):
    words = [mpi_launcher(which), "-n", "2"]
    words += ["--oversubscribe"] if which == "Open MPI" else []
    words += [*inject, *sources(tmp_path), "train.py"]
    if which == "MPICH":  # where they know no name of theirs
        at = words.index("--runs")
        words[at : at + 2] = ["--into", "runs/one"]
        (tmp_path / "runs").mkdir()
    done = subprocess.run(
        words, cwd=tmp_path, env=environ | OPEN_MPI, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["task 0", "task 1"]
    [path] = tmp_path.glob("runs/*/run.json")
    info = json.loads(path.read_text())
    assert sorted((each["rank"], each["world"]) for each in info["processes"]) == [(0, 2), (1, 2)]
    assert info["problems"] == [] and "2 processes" in done.stderr


@pytest.mark.release
@pytest.mark.xdist_group("slurm")
@pytest.mark.parametrize("inside", [False, True], ids=["mpirun inject run", "inject run mpirun"])
def test_in_a_job_of_slurm_over_two_nodes(tmp_path, slurm, inject, environ, inside):
    """Open MPI starts its daemons by srun."""
    launcher = [mpi_launcher("Open MPI"), "-n", "4", "--bind-to", "none"]
    own = [*inject, *sources(tmp_path)]
    own.remove("--no-monitor")
    own += ["--interval", "0.1"]
    words = [*own, *launcher, inject[0]] if inside else [*launcher, *own, inject[0]]
    script = f"#!/bin/sh\nexec {shlex.join([*words, 'train.py'])}\n"
    how = ["--wait", "--nodes=2", "--ntasks-per-node=2", "--output=out"]
    done = subprocess.run(
        ["sbatch", *how],
        input=script,
        cwd=tmp_path,
        env=environ | slurm | OPEN_MPI,
        capture_output=True,
        text=True,
        timeout=300,
    )
    printed = (tmp_path / "out").read_text()
    assert done.returncode == 0, printed
    assert [printed.count(f"task {rank}\n") for rank in range(4)] == [1] * 4
    [path] = tmp_path.glob("runs/*/run.json")
    info = json.loads(path.read_text())
    assert {(each["rank"], each["world"]) for each in info["processes"]} == {
        (rank, 4) for rank in range(4)
    }
    assert info["problems"] == []


def described(rank, world=2, here=2):
    """What Open MPI says to a process."""
    names = {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": world}
    names |= {"OMPI_COMM_WORLD_LOCAL_SIZE": here, "PMIX_NAMESPACE": "77"}
    return {name: str(text) for name, text in names.items()}


def taken(*words):
    return split([*words, "train.py"], lambda command: {})


@pytest.mark.parametrize(
    ("parents", "found"),
    [
        ({1: ("orted", 0)}, True),
        ({1: ("hydra_pmi_proxy", 0)}, True),
        ({1: ("bash", 2), 2: ("mpirun.openmpi", 0)}, True),
        ({1: ("python3", 2), 2: ("orted", 0)}, False),
        ({1: ("bash", 2), 2: ("python3", 3), 3: ("orted", 0)}, False),
    ],
    ids=["daemon", "proxy", "shell", "below a rank", "a shell below a rank"],
)
def test_what_is_a_process_of_mpirun(monkeypatch, parents, found):
    monkeypatch.setattr(os, "getppid", lambda: 1)
    monkeypatch.setattr(own_task, "_name_and_parent", parents.__getitem__)
    task = mpi_task(taken(), described(1))
    assert (task is not None and task.rank == 1 and task.nodes == 1) == found
    if found:
        assert mpi_task(taken(), described(0, here=1)).nodes == 2
        assert mpi_task(taken(), described(0, world=1)) is None
        with pytest.raises(UserError, match="one task of mpirun cannot do"):
            mpi_task(taken("--flops"), described(0))
        mpich = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
        assert mpi_task(taken(), mpich) is None
        assert mpi_task(taken("--into", "x"), mpich).rank == 1


# --- inject run mpirun ------------------------------------------------------------------------------

SHOWS = """\
#!/bin/sh
case "$1" in --version) echo "{version}"; exit;; esac
printf '%s\\n' "$@"
"""


def shown(folder, inject, environ, *words, version="mpirun (Open MPI) 5.0", **more):
    """What a double of mpirun is called with by `inject run`, without what comes before our own words."""
    (folder / "bin").mkdir()
    (folder / "bin/mpirun").write_text(SHOWS.format(version=version))
    (folder / "bin/mpirun").chmod(0o755)
    (folder / "hosts").write_text("# ours\n\na slots=2\nb slots=2\n")
    (folder / "train.py").write_text("#!/usr/bin/env python3\n")
    (folder / "train.py").chmod(0o755)
    done = subprocess.run(
        [*inject, "run", "--no-monitor", *words],
        cwd=folder,
        env={**environ, "PATH": f"{folder}/bin:{environ['PATH']}", **more},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ("mpirun -np 4 --host a:2,b:2 python train.py --lr 1", {}),
        ("mpirun -np 4 -hostfile hosts ./train.py", {}),
        ("mpirun python train.py", {"OMPI_MCA_orte_default_hostfile": "hosts"}),
        ("mpirun numactl -N 0 python train.py --host x", {"SLURM_JOB_NUM_NODES": "2"}),
        ("--stop 5 -- mpirun --host a,b python train.py : -n 1 python other.py", {}),
        ("--name mpirun mpirun --host a,b python train.py", {}),
    ],
    ids=["host", "file", "variable", "slurm", "two programs", "a value of that name"],
)
def test_over_several_hosts_each_process_is_an_inject_run(tmp_path, inject, environ, words, more):
    given = words.split()
    at = len(given) - 1 - given[::-1].index("mpirun")
    paths = {"PYTHONPATH": str(tmp_path)} if more else {}
    before = ["env", f"PYTHONPATH={tmp_path}"] if more else []
    inner = [*before, inject[0], "-m", "injector", "run", "--no-monitor", *given[:at]]
    expected = []
    for word in given[at + 1 :]:
        expected += inner if word in ("python", "./train.py") else []
        expected.append(word)
    without = {name: text for name, text in environ.items() if name != "PYTHONPATH"}
    assert shown(tmp_path, inject, without, *given, **more, **paths) == expected


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ("mpirun -np 2 python train.py --host a,b", {}),
        ("mpirun -np 2 --host localhost:2 python train.py", {}),
        ("mpirun --host a,b ./compiled --fast", {}),
        ("mpirun --host a,b python train.py", {"version": "HYDRA build details"}),
    ],
    ids=["one host", "this host", "no Python", "MPICH"],
)
def test_else_mpirun_is_a_program_as_any(tmp_path, inject, environ, words, more):
    assert shown(tmp_path, inject, environ, *words.split(), **more) == words.split()[1:]


def test_a_file_of_hosts_that_cannot_be_read(tmp_path):
    words = ["mpirun", "--hostfile", str(tmp_path / "none"), "python", "train.py"]
    assert over_hosts(split(words, lambda command: {}), words, {}) is None
