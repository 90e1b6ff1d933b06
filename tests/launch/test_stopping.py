"""`--stop` and `--max-duration` with PyTorch: worker processes, ranks, launchers."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys

import pytest
from search_path import search_path

from injector.analysis.profiling import profile
from injector.store.folder import open_run

pytest.importorskip("torch")


SINGLE = """
import atexit, multiprocessing, sys, torch
from torch.utils.data import DataLoader, TensorDataset

def main():
    atexit.register(print, "atexit", flush=True)
    data = TensorDataset(torch.randn(24, 4), torch.randn(24, 1))
    loader = DataLoader(data, batch_size=8, num_workers=2, persistent_workers="keep" in sys.argv)
    valid = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    try:
        while True:
            for x, y in loader:
                optimizer.zero_grad()
                ((model(x) - y) ** 2).mean().backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for (x,) in valid:
                    model(x)
            model.train()
    finally:
        print("finally", flush=True)

if __name__ == "__main__":
    main()
"""

BY_HAND = """
import sys, torch

how, source = sys.argv[1:]
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
batches = list(zip(*(each.split(4) for each in data.tensors)))
if source == "loader":
    batches = torch.utils.data.DataLoader(data, 4)
model = torch.nn.Linear(4, 1)
optimizer = None if how == "hand" else torch.optim.SGD(model.parameters(), lr=0.01)
for at, (x, y) in enumerate(batches, 1):
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    if how == "hand":
        with torch.no_grad():
            for each in model.parameters():
                each -= 0.01 * each.grad
                each.grad = None
    elif how == "each" or at % 3 == 0:
        optimizer.step()
        optimizer.zero_grad()
print("all")
"""

RANKS = """
import os, sys, time, torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

close = dist.destroy_process_group
dist.destroy_process_group = lambda: print(f"closed {dist.get_rank()}", flush=True) or close()

def train(rank, world):
    dist.init_process_group("gloo", rank=rank, world_size=world)
    loader = DataLoader(TensorDataset(torch.randn(24, 4), torch.randn(24, 1)), batch_size=8)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    try:
        while True:
            for x, y in loader:
                if rank == 1:
                    time.sleep(0.02)
                optimizer.zero_grad()
                ((model(x) - y) ** 2).mean().backward()
                optimizer.step()
    finally:
        print(f"finally {rank}", flush=True)
        if "destroy" in sys.argv:
            dist.destroy_process_group()

if __name__ == "__main__":
    if "spawn" in sys.argv:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[-1])
        torch.multiprocessing.spawn(train, (2,), 2)
        print("joined", flush=True)
    else:
        train(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
"""


ONE_RANK = """
def instrument_one_rank(ov):
    yield ov.phases.load_script
    ov.probe("//train(rank) > x").where(rank=1).skip(4).subscribe(lambda _: ov.stop())
"""


def exit_of(folder):
    return json.loads((folder / "run.json").read_text())["exit"]


@pytest.fixture
def run(tmp_path):
    def go(program, *words):
        (tmp_path / "main.py").write_text(program)
        done = subprocess.run(
            [sys.executable, "-m", "injector", "run", "--runs", "runs", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "PYTHONPATH": search_path(), "OMP_NUM_THREADS": "1"},
        )
        [folder] = (tmp_path / "runs").glob("*")
        [file] = folder.glob("*.data")
        events = [json.loads(line) for line in file.read_text().splitlines()]
        stops = [event["data"] for event in events if event["event"] == "stop"]
        [loop] = profile(open_run(str(folder))).loops
        tracks = {stop.get("process", 0): stop["steps"] for stop in stops}
        assert {track.process: track.steps for track in loop.ranks} == tracks
        return done, [(stop["steps"], stop["why"]) for stop in stops], folder

    return go


@pytest.mark.parametrize("keep", [(), pytest.param(("keep",), marks=pytest.mark.release)])
def test_workers_are_closed(keep, run):
    done, stops, folder = run(SINGLE, "--skip", "2", "--stop", "5", "main.py", *keep)
    assert (done.returncode, done.stdout) == (0, "finally\natexit\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert stops == [(7, "stop")]
    assert json.loads((folder / "run.json").read_text())["outlived"] == []


@pytest.mark.parametrize("source", ["loader", "list"])
@pytest.mark.parametrize("how", ["hand", "each", "accumulated"])
def test_steps_without_an_optimizer_are_backwards(how, source, run):
    """An optimizer that exists makes the updates, however many backwards come before its first one."""
    done, stops, _ = run(BY_HAND, "--stop", "4", "main.py", how, source)
    assert done.returncode == 0 and stops == [(4, "stop")]
    assert "train: 4 steps" in done.stderr and "all" not in done.stdout


@pytest.mark.release
def test_time_is_up_with_workers(run):
    done, stops, _ = run(SINGLE, "--max-duration", "100ms", "main.py")
    assert (done.returncode, done.stdout) == (0, "finally\natexit\n"), done.stderr
    assert stops == [(1, "max-duration")]


def port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


LAUNCHERS = {
    "torchrun": (
        *("-m", "torch.distributed.run", "--nproc-per-node", "2"),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "main.py"),
    ),
    "torchrun, group destroyed": (
        *("-m", "torch.distributed.run", "--nproc-per-node", "2"),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "main.py", "destroy"),
    ),
    "mp.spawn": ("main.py", "spawn"),
}


@pytest.mark.parametrize(
    ("launcher", "limit"),
    [
        ("torchrun", ("--stop", "6")),
        *(
            pytest.param(*each, marks=pytest.mark.release)
            for each in (
                ("torchrun, group destroyed", ("--stop", "6")),
                ("mp.spawn", ("--stop", "6")),
                ("torchrun", ("--max-duration", "100ms")),
                ("torchrun", ("--voirfile", "one.py")),
                ("mp.spawn", ("--voirfile", "one.py")),
            )
        ),
    ],
)
def test_all_ranks_stop_at_the_same_step(launcher, limit, run, tmp_path):
    words = LAUNCHERS[launcher]
    words = (*words, port()) if "spawn" in words else words
    if "--voirfile" in limit:
        (tmp_path / "one.py").write_text(ONE_RANK)
    done, stops, folder = run(RANKS, *limit, *words)
    assert done.returncode == 0, done.stderr
    # Two processes write the ends of their lines as they come.
    for word in ("finally", "closed"):  # the group is closed by the program, or else for it
        assert sorted(re.findall(rf"{word} \d", done.stdout)) == [f"{word} 0", f"{word} 1"]
    assert ("joined" in done.stdout) == (launcher == "mp.spawn")
    assert "failed" not in done.stderr.lower(), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert len(stops) == 2 and stops[0] == stops[1], stops
    if "--voirfile" in limit:
        # The steps that the others were let go on for are not recorded.
        assert stops[0] == (4, "rank")
        assert exit_of(folder) == {"code": 0, "signal": None, "stopped_by": {"rank": 1, "step": 5}}
        assert "stopped on request of rank 1 in step 5, exit 0" in done.stderr
    elif limit[0] == "--stop":
        assert stops[0] == (6, "stop")
    else:
        assert stops[0] == (3, "max-duration")  # late after the first: two steps later
