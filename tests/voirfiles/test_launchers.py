"""Every way to start ranks: what each did arrives under its number, each step once."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from trained import run

from injector.analysis.profiling import profile
from injector.store.folder import open_run

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

BIN = Path(sys.executable).parent
REPLICAS = "launched/replicas.py"
LIGHTNING = "launched/by_lightning.py"
STEPS = 7

ACCELERATE = ("launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1")
LAUNCHERS = {
    "torchrun": (
        BIN / "torchrun",
        "--standalone",
        "--nproc-per-node",
        "2",
        REPLICAS,
        "environment",
    ),
    "mp.spawn": (REPLICAS, "mp.spawn"),
    "forkserver": (REPLICAS, "forkserver"),
    "fork": (REPLICAS, "fork"),
    # The only kind of ranks on processors that it starts without MPI: it does not look for GPUs itself.
    "accelerate launch": (
        *(BIN / "accelerate", *ACCELERATE, "--main_process_port", "0"),
        *("--mixed_precision", "no", "--dynamo_backend", "no", REPLICAS, "accelerated"),
    ),
    "accelerate notebook_launcher": (REPLICAS, "notebook_launcher"),
    "accelerate debug_launcher": (REPLICAS, "debug_launcher"),
    "lightning ddp": (LIGHTNING, "ddp"),
    "lightning ddp_spawn": (LIGHTNING, "ddp_spawn"),
    "lightning ddp_fork": (LIGHTNING, "ddp_fork"),
    "lightning fabric run": (
        *(BIN / "fabric", "run", "--accelerator=cpu", "--devices=2", "--strategy=ddp"),
        *(LIGHTNING, "fabric"),
    ),
    "deepspeed": (BIN / "deepspeed", "--num_gpus", "2", "launched/by_deepspeed.py", "--stage", "1"),
    "ray train": ("launched/by_ray.py",),
}
RELEASE = {
    *("torchrun", "mp.spawn", "forkserver", "accelerate launch", "accelerate debug_launcher"),
    "accelerate notebook_launcher",
    *("lightning ddp", "lightning ddp_spawn", "lightning ddp_fork", "lightning fabric run"),
}
"""Those whose every process starts PyTorch once more. Every commit tests torchrun in tests/launch and
test_torch_ranks, and here `fork`: ranks that no launcher tells their number."""
LIBRARIES = {"accelerate", "lightning", "deepspeed", "ray"}


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param(each, marks=[pytest.mark.release] if each in RELEASE else [])
        for each in LAUNCHERS
    ],
)
def test_each_rank_arrives_as_itself(launcher, tmp_path, monkeypatch):
    library, _, _ = launcher.partition(" ")
    if library in LIBRARIES and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")  # what DeepSpeed looks at
    ran = run(tmp_path, *map(str, LAUNCHERS[launcher]))
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    assert sorted(ran.reported) == sorted(ran.processes) == [0, 1]
    for rank, reported in ran.reported.items():
        process = ran.processes[rank]
        assert process.pid == reported["pid"]
        assert process.values["train/loss"] == pytest.approx(reported["losses"])
        for region in ("io", "forward", "backward", "optimizer"):
            assert len(process.of(region)) == STEPS, region
    [loop] = profile(open_run(str(ran.folder))).loops
    assert [(track.rank, track.steps) for track in loop.ranks] == [(0, STEPS), (1, STEPS)]
    assert {track.host for track in loop.ranks} == {os.uname().nodename}
    assert ran.record["lost"] == ran.record["torn"] == 0
    assert ran.record["outlived"] == []


@pytest.mark.parametrize(
    "strategy", ["ddp_fork", pytest.param("ddp_spawn", marks=pytest.mark.release)]
)
def test_a_launcher_that_waits_for_a_result_of_stopped_ranks_stops_too(strategy, tmp_path):
    pytest.importorskip("lightning.pytorch")
    ran = run(tmp_path, LIGHTNING, strategy, options=("--stop", "3", "--timeout", "120"))
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    [loop] = profile(open_run(str(ran.folder))).loops
    assert [(track.rank, track.steps) for track in loop.ranks] == [(0, 3), (1, 3)]
