"""Suites of small programs, run by ``inject suite`` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from unittest import mock

import yaml
from mpi_here import OPEN_MPI
from search_path import search_path
from small_run import inject_here

from injector import reaper
from injector.suite.config.model import Benchmark, Suite
from injector.suite.config.problems import Where

ROOT = Path(__file__).parents[2]
PATIENCE = 120
"""Seconds after which something that must happen never will."""

LEDGER = """
import os, sys, time
def note(word):
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(file, f"{word} {os.environ['INJECT_SUITE_RUN'].rpartition('/')[2]}\\n".encode())
    os.close(file)
note("begin")
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end and not os.path.exists(sys.argv[1] + ".go"):
    time.sleep(0.01)
note("end")
"""
"""Writes down when it begins and ends, in one file for all."""

RANKS = """
import os, sys, time, torch, torch.distributed as dist
from torch.utils.data import DataLoader
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in DataLoader(torch.randn(64, 8), batch_size=8):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
print("rank", dist.get_rank(), "of", dist.get_world_size(), flush=True)
dist.destroy_process_group()
"""
"""Trains in several ranks."""

BY_MPI = 'dist.init_process_group("gloo", rank=int(names[rank]), world_size=int(names[size]))'
MPI_RANKS = """
import os
names = os.environ
mine = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
rank, size = mine if mine[0] in names else ("PMI_RANK", "PMI_SIZE")
open(names[rank], "w").close()
print(names.get("INJECT_NODE") or names.get("SLURMD_NODENAME"), "has", names[rank], flush=True)
""" + RANKS.replace('dist.init_process_group("gloo")', BY_MPI)
"""The same, by the numbers that Open MPI or MPICH gives."""


class Suites:
    """A folder with a suite's YAML, its programs and its base folder."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.folder = folder
        self.base = folder / "base"
        self.environ = {**environ, "PYTHONPATH": search_path()}
        self.ledger = folder / "ledger"

    def program(self, name: str, text: str) -> str:
        """A program; the words that run it."""
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def write(self, benchmarks: dict, name: str = "suite") -> Path:
        """The YAML of a suite; nothing is asked of rates unless a benchmark does."""
        whole = {key: {"validation": {"rate": False}, **each} for key, each in benchmarks.items()}
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(whole, sort_keys=False))
        return path

    def counted(self, *names: str, seconds: float = 0, **more) -> dict:
        """Benchmarks that write to the ledger."""
        program = self.program("counted.py", LEDGER)
        run = f"{program} {self.ledger} {seconds}"
        return {name: {"run": run, **more} for name in names}

    def words(self, verb: str, *words: object, devices: str | None = "cpu:1") -> list[str]:
        made = [sys.executable, "-m", "injector", "suite", verb, *map(str, words)]
        made += ["--base", str(self.base)]
        if "--resume" not in made:
            made += ["--use-current-env", *(["--devices", devices] if devices else [])]
        return made

    def call(
        self,
        verb: str,
        *words: object,
        devices: str | None = "cpu:1",
        patience: float = PATIENCE,
    ):
        """``inject suite VERB``, to its end; what starts nothing, in this process, ten times as fast."""
        made = self.words(verb, *words, devices=devices)
        if verb == "plan":
            with mock.patch.dict(os.environ, self.environ, clear=True):
                return inject_here(self.folder, *made[made.index("suite") :])
        return subprocess.run(
            made,
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=patience,
        )

    def start(self, *words: object, devices: str | None = "cpu:1", **how):
        """``inject suite run`` in a process group of its own, as a shell starts it."""
        return subprocess.Popen(
            self.words("run", *words, devices=devices),
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **how,
        )

    def ask(self, *words: str) -> str:
        """What a command prints in this environment, such as one of Slurm."""
        how = {"env": self.environ, "capture_output": True, "text": True, "check": True}
        return str(subprocess.run(words, **how).stdout)

    def runs(self) -> list[Path]:
        return sorted((self.base / "runs").iterdir()) if (self.base / "runs").exists() else []

    def run(self) -> Path:
        """The only run folder."""
        [found] = self.runs()
        return found

    def entries(self) -> Counter[str]:
        """The lines of the ledger."""
        return Counter(self.ledger.read_text().splitlines() if self.ledger.exists() else ())


def plan(run: Path) -> dict:
    return json.loads((run / "plan.json").read_text())


def journal(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]


def last(run: Path) -> dict[str, dict]:
    """By job, what the journal says last of it."""
    return {each["key"]: each for each in journal(run) if each["event"] == "job"}


def until(condition, what: str = "this"):
    """Wait for ``condition()``; what it returned."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} never happened"
        time.sleep(0.01)
    return found


def of(folder: Path) -> list[str]:
    """The command lines of all processes that belong to runs below ``folder``."""
    mark = f"INJECT_SUITE_RUN={folder}".encode()
    found = []
    for each in reaper.everyone():
        try:
            variables = Path(f"/proc/{each.pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if each.state not in "ZX" and any(one.startswith(mark) for one in variables):
            found.append(reaper.command(each))
    return found


def nothing_left(folder: Path) -> bool:
    until(lambda: not of(folder), "an end of all processes")
    return True


def gpus(folder, count=2):
    """Devices as a node without any pretends to have them."""
    path = folder / "devices.json"
    sample = {"load": 0.0, "memory_used": 0, "memory_total": 80 << 30, "processes": {}}
    devices = [{"name": "Stand-in", "uuid": f"GPU-{n}", "samples": [sample]} for n in range(count)]
    path.write_text(json.dumps(devices))
    return {"INJECT_SCRIPTED_DEVICES": str(path)}


SHOWS = """
import os, sys
print(os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("INJECT_NODE") or os.environ["SLURMD_NODENAME"])
sys.exit(int(sys.argv[1]))
"""
"""Prints its devices and its node."""


def run_on_one_node_and_on_two(suites, *options):
    """A suite on a cluster of the nodes n1 and n2 with two GPUs each; its run folder, once it was judged."""
    program = suites.program("shows.py", SHOWS)
    suite = {
        "both": {"run": f"{program} 0", "num_machines": 2},
        "fails": {"run": f"{program} 3", "plan": {"devices": 1}},
        "large": {"run": f"{program} 0", "num_machines": 3},
    }
    done = suites.call("run", suites.write(suite), *options, devices=None)
    run = suites.run()
    assert done.returncode == 1, done.stderr
    assert "large was left out: needs 3 machines; there are 2" in done.stderr
    both, fails = last(run)["both.R0"], last(run)["fails.R0"]
    assert both["ok"] and len(both["processes"]) == 4
    assert not fails["ok"] and fails["reason"].startswith("exit code 3")
    said = {(run / f"jobs/both.R0.D{n}/stdout").read_text().strip() for n in range(4)}
    assert said == {"0 n1", "1 n1", "0 n2", "1 n2"}
    assert len(plan(run)["jobs"]) == 2
    return run


def run_over_two_nodes(suites, *options, stop=0, launcher=""):
    """One program over both nodes, with two ranks on each, which end early where ``stop`` says after how many
    steps; what its run.json says."""
    plan = {"method": "njobs", **({"launcher": launcher} if launcher else {})}
    program = suites.program("ranks.py", MPI_RANKS if "mpi" in launcher else RANKS)
    suite = {"ranks": {"run": program, "num_machines": 2, "plan": plan, "env": OPEN_MPI}}
    if stop:
        suite["ranks"]["voir"] = {"options": {"stop": stop}}
    done = suites.call("run", suites.write(suite), *options, devices="cpu:2")
    assert done.returncode == 0, done.stderr
    info = json.loads((suites.run() / "jobs/ranks.R0.D0/run.json").read_text())
    ranks = {(each["rank"], each["world"]) for each in info["processes"] if each["world"] == 4}
    assert ranks == {(n, 4) for n in range(4)} and info["problems"] == []
    return info


def made_suite(**benchmarks):
    """A suite as it was read, of benchmarks that run a program."""
    made = [
        Benchmark(name, Where("/suites/x.yaml", 1, name), {"run": "/x/train.py", **each}, name)
        for name, each in benchmarks.items()
    ]
    return Suite("x", Path("/suites/x.yaml"), tuple(made))
