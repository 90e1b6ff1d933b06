"""A job of two ranks that torchrun starts, in which rank 1 comes to grief; and what a run of it left."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

STEPS, BAD = 20, 12
"""How many steps a rank makes that comes to no grief, and after how many rank 1 does."""

JOB = f"""
import os, signal, sys, time
import torch, torch.distributed as dist

how, rank = sys.argv[1], int(os.environ["RANK"])
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
together = how != "killed-once"  # who was started again may be refused a connection
if together:
    dist.init_process_group("gloo")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.ones(2, 4)

def grief():
    if how == "killed-once" and attempt == 0:
        while not os.path.exists("there"):  # the launcher ends the other as soon as this one has died
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exits":
        sys.exit(3)
    if how == "hangs":
        open("hangs", "w").write(str(time.time()))
    while how == "hangs":
        time.sleep(0.1)

for step in range({STEPS}):
    if rank == 1 and step == {BAD}:
        grief()
    model(batch).sum().backward()
    if together:
        dist.all_reduce(model.weight.grad)
    optimizer.step()
    while rank == 0 and step == {BAD} and how == "killed-once" and attempt == 0:
        open("there", "w").close()
        time.sleep(0.1)
if together:
    dist.destroy_process_group()
"""
COLLECTIVE = 1 + JOB.splitlines().index("        dist.all_reduce(model.weight.grad)")
UPDATE = COLLECTIVE + 1
"""Lines of the collective, and of what a step ends with."""


class Job:
    """A finished run of the job."""

    def __init__(self, done: subprocess.CompletedProcess[str], runs: Path) -> None:
        self.exit, self.err = done.returncode, done.stderr
        self.folder = max(runs.glob("*"))
        self.info = json.loads((self.folder / "run.json").read_text())

    @property
    def broken(self) -> list[dict]:
        return self.info["broken"]

    def loops(self) -> list[tuple[int | None, int, int]]:
        """Attempt, ranks and steps of each loop."""
        return [(each["attempt"], each["ranks"], each["steps"]) for each in self.info["training"]]


def start(
    inject, environ, folder: Path, how: str, *options: str, restarts: int = 0
) -> subprocess.Popen[str]:
    """Start the job."""
    (folder / "job.py").write_text(JOB)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = ["run", "--runs", "runs", *options, *launch, "--max-restarts", str(restarts)]
    return subprocess.Popen(
        [*inject, *words, "job.py", how],
        cwd=folder,
        env={**environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], folder: Path) -> Job:
    """Wait for its end."""
    out, err = process.communicate(timeout=600)
    done = subprocess.CompletedProcess((), process.returncode, out, err)
    return Job(done, folder / "runs")
