"""The overview of milabench, claim by claim: its files, its configuration, its plans, its phases, its runs.

The configurations and the voirfile are those of the overview, as they stand there; what they are about (a
benchmark with milabench's files) is a program of our own that needs no library.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from search_path import search_path
from suitefolders import GB, state, write_run

from injector.suite.config import load
from injector.suite.environments import folders, requirements
from injector.suite.environments.setup import Resources
from injector.suite.plan.jobs import PlanOptions
from injector.suite.plan.machine import Machine, PlanDevice
from injector.suite.plan.planner import plan_suite
from injector.suite.results.validation import check
from injector.suite.run.ssh_nodes import nodes_of

MACHINE = Machine(
    tuple(PlanDevice("cuda", n, str(n), f"Card {n}", f"GPU-{n}", 80 << 30) for n in range(8)),
    tuple(range(64)),
    64,
    512 << 30,
    "there",
)
JOB = {"base": "/b", "data": "/b/data", "out": "/o", "source": "/s", "device_count": 8}

STANDARD = """\
# you can include a previous configuration
# and override its values
include:
   - base.yaml

_defaults:
   max_duration: 600                           # Bench time out
   voir:
      options:
         stop: 60                            # Bench stops after gathering 60 observations
         interval: "1s"                      # Gathering interval

   validation:                                 # Validation (disabled by default)
      usage:
         gpu_load_threshold: 0.5             # ensure GPU load is higher than 50%
         gpu_mem_threshold: 0.5              # ensure GPU memory is higher than 50%

_torchvision:
   inherits: _defaults                         # base configuration
   definition: ../benchmarks/torchvision       # benchmark definition location
   group: torchvision
   install_group: torch                        # venv name to use for this benchmark
   plan:                                       # Specify how the benchmark is scheduled
      method: per_gpu                          # `per_gpu` means it will spawn one bench per GPU
   argv:                                       # arguments to forward
      --precision: 'tf32-fp16'
      --lr: 0.01
      --no-stdout: true
      --epochs: 50
      --num-workers: 8

resnet50:                                          # benchmark name "_" are "private" and never run
   inherits: _torchvision
   tags:                                           # selection tags
      - vision
      - classification
      - convnet
      - resnet

   argv:
      --model: resnet50
      --batch-size: 64
      --num-workers: "{cpu_per_gpu}"              # Placeholder variable to be resolved

# milabench can also define matrix job
resnet-matrix-noio:
   matrix:
      batch-size: [32, 64, 128, 256, 512, 1024]

   job:
      name: 'resnet50-noio-bs{batch-size}'
      inherits: _resnet50
      argv:
         --batch-size: '{batch-size}'
         --synthetic-data: true
         --fixed-batch: true
"""

INCLUDED = """\
_defaults:
  max_duration: 10
_resnet50:
  inherits: _torchvision
  argv: {--model: resnet50}
"""
"""What the overview includes; `_resnet50`, which its matrix inherits, has to be in it."""

SYSTEM = """\
system:
   arch: cuda                 # Default arch
   sshkey: ~/.ssh/id_ed25519  # sshkey used in remote milabench operations
   # Docker image to use
   docker_image: ghcr.io/mila-iqia/milabench:${system.arch}-nightly

   # Nodes list
   nodes:
      # Alias used to reference the node
      - name: manager
        ip: 192.168.11.11
        port: 5000
        main: true     # Use this node as the rank=0 node or not
        user: manager  # User to use in remote milabench operations

      - name: node1
        ip: 192.168.11.12
        main: false
        user: username
"""

BENCHFILE = """\
from milabench.pack import Package


class TorchvisionBenchmark(Package):
    base_requirements = "requirements.in"
    prepare_script = "prepare.py"
    main_script = "main.py"


__pack__ = TorchvisionBenchmark
"""

PREPARE = """\
import json, os
from pathlib import Path

assert json.loads(os.environ["MILABENCH_CONFIG"])["name"] == "resnet50"
folder = Path(os.environ["MILABENCH_DIR_DATA"], "FakeImageNet")
folder.mkdir(parents=True, exist_ok=True)
(folder / "batches").write_text("64 " * 100)
"""

MAIN = """\
import argparse, os, time

parser = argparse.ArgumentParser()
for name in ("--precision", "--lr", "--epochs", "--num-workers", "--model", "--batch-size"):
    parser.add_argument(name)
parser.add_argument("--no-stdout", action="store_true")
given = parser.parse_args()


def dataloader():
    path = os.path.join(os.environ["MILABENCH_DIR_DATA"], "FakeImageNet", "batches")
    return [[0.0] * int(size) for size in open(path).read().split()]


def main():
    for batch in dataloader():
        time.sleep(0.001)
    print("never reached")


main()
"""

WRAPPER = """\
import time


class Wrapper:
    def __init__(self, loader):
        self.loader = loader
        self.times = []

    def __iter__(self):
        before = time.perf_counter()
        for batch in self.loader:
            yield batch
            now = time.perf_counter()
            self.times.append(now - before)
            before = now

"""
EXAMPLE = """\
def wrapper(loader):
   print("received loader obj")
   return Wrapper(loader)

probe = ov.probe("//dataloader() as loader", overridable=True)
probe['loader'].override(wrapper)
"""


@pytest.fixture
def workdir(tmp_path):
    """The overview's tree, as far as it is not made by a command."""
    root = tmp_path / "workdir" / "milabench"
    for name in ("torchvision", "torchvision_ddp"):
        folder = root / "benchmarks" / name
        folder.mkdir(parents=True)
        for file, text in (
            ("benchfile.py", BENCHFILE),
            ("voirfile.py", VOIRFILE),
            ("prepare.py", PREPARE),
            ("main.py", MAIN),
            ("requirements.in", "pytest\n"),
            *((f"requirements.{arch}.txt", "pytest\n") for arch in ("cuda", "rocm", "xpu")),
        ):
            (folder / file).write_text(text)
    (root / "config").mkdir()
    (root / "config" / "standard.yaml").write_text(STANDARD)
    (root / "config" / "base.yaml").write_text(INCLUDED)
    return tmp_path / "workdir"


VOIRFILE = """\
def instrument_loader(ov):
    ov.loader("//dataloader > #value")
"""


def standard(workdir, more=""):
    file = workdir / "milabench" / "config" / "standard.yaml"
    file.write_text(STANDARD + dedent(more))
    return load(file, MACHINE.facts())


def by_name(suite):
    return {each.name: each for each in suite.benchmarks}


# --- benchmarks, each inside a folder


def test_a_benchmark_is_a_folder_with_these_files(workdir):
    resnet = by_name(standard(workdir))["resnet50"]
    folder = workdir / "milabench" / "benchmarks" / "torchvision"
    assert resnet.definition == folder
    found = resnet.filled({**MACHINE.facts(), **JOB, "milabench_code": str(folder)})
    assert found["run"] == str(folder / "main.py")
    assert resnet.path("voirfile.py", "voirfile") == folder / "voirfile.py"
    assert found["prepare"]["script"] == "prepare.py"
    for arch, name in [
        *((arch, f"requirements.{arch}.txt") for arch in ("cuda", "rocm", "xpu")),
        ("cpu", "requirements.in"),
    ]:
        required = requirements.requirements_of(resnet, arch, workdir)
        assert [file.name for file in required.files] == [name]


def test_constraints_of_each_vendor(workdir):
    constraints = workdir / "milabench" / "benchmarks" / "constraints"
    constraints.mkdir()
    (constraints / "rocm.txt").write_text("six==1.17.0\n")
    resnet = by_name(standard(workdir))["resnet50"]
    found = {
        arch: requirements.requirements_of(resnet, arch, workdir).constraints
        for arch in ("cuda", "rocm")
    }
    assert found == {"cuda": (), "rocm": (constraints / "rocm.txt",)}


# --- benchmark configuration


def test_the_configuration_of_the_overview(workdir):
    benchmarks = by_name(standard(workdir))
    sizes = (32, 64, 128, 256, 512, 1024)
    assert list(benchmarks) == ["resnet50", *(f"resnet50-noio-bs{size}" for size in sizes)]
    resnet = benchmarks["resnet50"]
    words = resnet.argv({**MACHINE.facts(), **JOB})
    assert " ".join(words) == (
        "--precision tf32-fp16 --lr 0.01 --no-stdout --epochs 50 --num-workers 8 --model resnet50 "
        "--batch-size 64"
    )
    assert resnet.tags == ("vision", "classification", "convnet", "resnet")
    assert (resnet.group, resnet.install_group) == ("torchvision", "torch")
    assert resnet.max_duration == 600, "what a file says stands over what it includes"
    assert resnet.plan["method"] == "per_gpu"
    assert resnet.settings["voir"]["options"] == {"stop": 60, "interval": "1s"}
    for size in sizes:
        words = benchmarks[f"resnet50-noio-bs{size}"].argv({**MACHINE.facts(), **JOB})
        assert words[-4:] == ["--batch-size", str(size), "--synthetic-data", "--fixed-batch"]


def test_the_placeholder_is_resolved_by_the_machine(workdir):
    resnet = by_name(standard(workdir))["resnet50"]
    words = resnet.argv({**MACHINE.facts(), **JOB, "cpu_per_gpu": 3})
    assert words[words.index("--num-workers") + 1] == "3"


@pytest.mark.parametrize(("load_of_gpu", "failed"), [(0.8, 0), (0.2, 1)])
def test_the_load_of_a_gpu_is_validated_where_it_is_configured(
    workdir, tmp_path, load_of_gpu, failed
):
    settings = by_name(standard(workdir))["resnet50"].settings
    device = [state(load=load_of_gpu, used=70 * GB, total=80 * GB)] * 4
    write_run(tmp_path / "run", [10.0 + n for n in range(60)], devices=[device])
    for given, wanted in ((settings, failed), ({**settings, "validation": {}}, 0)):
        found = check(given, tmp_path / "run", ("cuda:0",))
        usage = [each.sentence for each in found if each.layer == "usage" and each.fails]
        assert usage == ["gpu load 0.20, at least 0.50 is required"] * wanted


# --- system configuration, several nodes


def test_the_system_configuration_names_the_nodes(workdir):
    more = "nodes-known:\n  run: x.py\n"
    more += "  argv: {--first: '{nodes[0].ip}', --image: '${system.docker_image}'}\n"
    suite = standard(workdir, SYSTEM + more)
    assert [node["name"] for node in suite.system["nodes"]] == ["manager", "node1"]
    assert [node["main"] for node in suite.system["nodes"]] == [True, False]
    assert suite.system["arch"] == "cuda"
    image = "ghcr.io/mila-iqia/milabench:cuda-nightly"
    words = by_name(suite)["nodes-known"].argv({**MACHINE.facts(), **JOB})
    assert words == ["--first", "192.168.11.11", "--image", image]


def test_commands_are_sent_to_all_nodes(workdir, tmp_path, monkeypatch):
    """The main node, where the suite is started, needs no connection; the others are reached by the key.

    What two machines do with them is in ``tests/suite/run/test_ssh.py``.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    key = tmp_path / ".ssh" / "id_ed25519"
    key.parent.mkdir()
    key.write_text("")
    key.chmod(0o600)
    manager, node = nodes_of(standard(workdir, SYSTEM).system)
    assert manager.argv("true") == ["sh", "-c", "true"]
    words = node.argv("true")
    assert words[-2:] == ["username@192.168.11.12", "exec sh -c true"]
    assert words[words.index("-i") + 1] == str(key)


# --- methodology


METHOD = """\
from voir.phase import StopProgram

queue, waited, logged = [], [], []


class Event:
    def record(self):
        queue.append(self)
        self.time = len(queue) / 100
    def wait(self):
        waited.append(len(queue))
    def __sub__(self, other):
        return self.time - other.time


class Loss(float):
    def detach(self):
        return self
    def item(self):
        return float(self)


def log(**values):
    logged.append(values)


def train(epoch, loader, model, fn, target):
    for i in range(epoch):
       events = []

       # Creation of the iterator from the dataloader is time consuming
       # it would get amortized across many batch during real training
       # but we want benchmarking to be fast so it is something we cannot afford
       batch_iter = iter(loader)
       total_obs = 0

       # Avoid sync in the batch loop
       start = Event()
       start.record()

       for batch in batch_iter:
          pred = model(batch)
          loss = fn(pred, target)

          end = Event()                                           # +->
          end.record()                                            # |
          events.append((start, end, len(batch), loss.detach()))  # | Limited overhead
          if len(events) + total_obs >= 60:                       # |
             break                                                # |
          start = end                                             # +->

       # Force sync at the end of the epoch                       # +->
       for start, end, bs, loss  in events:                       # | Timer is off, no impact on perf measures
          end.wait()                                              # |
          log(loss=loss.item())                                   # |
          log(rate=bs / (end - start))                            # |
                                                                  # |
       total_obs += len(events)                                   # |
       if total_obs >= 60:                                        # |
          raise StopProgram()                                     # +->


try:
    train(9, [[0] * 8] * 500, lambda batch: 1.0, lambda pred, target: Loss(pred), None)
finally:
    rates = [round(values["rate"]) for values in logged if "rate" in values]
    print(len(rates), set(rates), set(waited))
"""


def inject(folder, *words, **environ):
    done = subprocess.run(
        [sys.executable, "-m", "injector", *words],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": search_path(),
            "INJECT_RUNS": str(folder / "runs"),
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_the_loop_of_the_methodology_ends_well_after_60_observations(tmp_path):
    """Its ``StopProgram`` is a success; its events are waited for after its loop alone."""
    (tmp_path / "main.py").write_text(METHOD)
    assert inject(tmp_path, "run", "main.py").stdout == "60 {800} {61}\n"


DEVICE = """\
import json
from injector.measure import device

reads = []


class Clock:
    '''A device that is far behind: it passes no event before the loop has ended.'''
    marked = 0
    def mark(self):
        Clock.marked += 1
        return Clock.marked
    def ready(self, event):
        import __main__
        return __main__.ended
    def elapsed_ns(self, first, second):
        import __main__
        reads.append(__main__.ended)
        return (second - first) * 1_000_000
    def device(self, event):
        return "cuda:0"
    def free(self, event):
        pass
    def numbers(self, values):
        return [float(value) for value in values]


def instrument_steps(ov):
    yield ov.phases.load_script
    device.use(Clock())
    ov.step("//step", task="train", items=8, device=True)
    yield ov.phases.finalize
    with open("reads.json", "w") as file:
        json.dump([Clock.marked, reads], file)
"""
STEPS = """\
ended = False
def step():
    pass
for _ in range(60):
    step()
ended = True
"""


def test_no_event_of_a_device_is_waited_for_in_the_loop(tmp_path):
    """Without a line in the program: events are recorded in the loop, and read when they have passed."""
    (tmp_path / "main.py").write_text(STEPS)
    (tmp_path / "x.py").write_text(DEVICE)
    inject(tmp_path, "run", "--voirfile", "x.py", "main.py")
    marked, reads = json.loads((tmp_path / "reads.json").read_text())
    assert marked == 2 * 60
    assert all(reads)
    [run] = (tmp_path / "runs").iterdir()
    words = ("query", str(run), "select clock, seconds from regions where region = 'step'")
    rows = json.loads(inject(tmp_path, *words, "--format", "json").stdout)
    assert [row["seconds"] for row in rows if row["clock"] == "device"] == [0.001] * 60


# --- instrumentation


def test_the_voirfile_of_the_overview(tmp_path):
    """A return value of ``__main__`` is overridden by an object that times between ``__next__`` calls."""
    program = (
        "def dataloader():\n    return [1, 2, 3]\n\nloader = dataloader()\nprint(sum(loader))\n"
    )
    program += "print(type(loader).__name__, len(loader.times))\n"
    voirfile = WRAPPER + "def instrument_loader(ov):\n" + re.sub(r"(?m)^(?=.)", "    ", EXAMPLE)
    (tmp_path / "main.py").write_text(program)
    (tmp_path / "voirfile.py").write_text(voirfile)
    out = inject(tmp_path, "run", "main.py").stdout
    assert out == "received loader obj\n6\nWrapper 3\n"


# --- execution flow


PHASES = """\
import sys

def instrument_phases(ov):
    yield ov.phases.init
    ov.argparser.add_argument("--more", type=int)
    print("init")
    yield ov.phases.parse_args
    print("parse_args", ov.options.more)
    yield ov.phases.load_script
    print("load_script", hasattr(sys.modules["__main__"], "answer"))
    yield ov.phases.run_script
    print("run_script", sys.modules["__main__"].answer)
    yield ov.phases.finalize
    print("finalize")
"""


def test_the_phases_of_a_run(tmp_path):
    """In this order. Nothing of the program has run when ``load_script`` ends, its imports included."""
    (tmp_path / "main.py").write_text("print('program')\nanswer = 42\n")
    (tmp_path / "x.py").write_text(PHASES)
    out = inject(tmp_path, "run", "--voirfile", "x.py", "--more", "3", "main.py").stdout
    assert out.splitlines() == [
        *("init", "parse_args 3", "load_script False", "program", "run_script 42", "finalize"),
    ]


def test_install_prepare_and_run_fill_the_base_folder(workdir):
    """The suite and the folder are those of milabench's variables; names are those of the overview."""
    base = workdir / "results"
    config = workdir / "milabench" / "config" / "standard.yaml"
    environ = {"MILABENCH_BASE": str(base), "MILABENCH_CONFIG": str(config)}
    choice = ("--select", "resnet50 and tag:vision")
    said = inject(workdir, "suite", "install", *choice, "--dry-run", **environ).stdout
    assert said.split()[:4] == ["environment", "torch", "to", "do"]
    assert str(folders.venv(base, "torch")) == f"{base}/venv/torch"
    current = (*choice, "--use-current-env")
    inject(workdir, "suite", "prepare", *current, **environ)
    assert (base / "data" / "FakeImageNet" / "batches").is_file()
    inject(workdir, "suite", "run", *current, "--devices", "cpu:2", **environ)
    assert {each.name for each in base.iterdir() if each.name[0] != "."} <= {
        *("data", "extra", "venv", "runs", "cache")
    }
    [run] = (base / "runs").iterdir()
    assert re.fullmatch(r"standard\.\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d\.\d+", run.name)
    assert [file.name for file in sorted(run.glob("*.data"))] == [
        "resnet50.D0.data",
        "resnet50.D1.data",
    ]
    for file in run.glob("*.data"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        phases = [line["data"]["name"] for line in lines if line["event"] == "phase"]
        assert phases == ["init", "parse_args", "load_script", "run_script", "finalize"]
        rates = [line["data"]["rate"] for line in lines if "rate" in line["data"]]
        assert len(rates) == 60, "the suite's stop, not the program's 100 batches"
        [end] = [line["data"] for line in lines if line["event"] == "end"]
        assert end["return_code"] == 0


# --- execution plan


def planned(suite):
    ground = Resources("/b/venv/torch/bin/python", {"data": "/b/data"})
    return plan_suite(suite, MACHINE, "/b", lambda each: ground, PlanOptions("/b/runs/x")).jobs


def test_per_gpu_is_one_process_for_each_gpu(workdir):
    """The same program on each of 8 GPUs at once, each of which sees one, in the group's environment."""
    job = next(job for job in planned(standard(workdir)) if job.benchmark == "resnet50")
    visible = [process.environment["CUDA_VISIBLE_DEVICES"] for process in job.processes]
    assert visible == [str(n) for n in range(8)]
    commands = [list(process.command) for process in job.processes]
    assert {words[0] for words in commands} == {"/b/venv/torch/bin/python"}
    programs = [words[words.index("--") + 1 :] for words in commands]
    assert all(words == programs[0] for words in programs)
    assert programs[0][0].endswith("/benchmarks/torchvision/main.py")
    assert all("--stop 60" in " ".join(words) for words in commands)


def test_njobs_is_one_process_that_sees_all_gpus(workdir):
    """``torchrun`` starts a rank on each of them."""
    more = """
    _torchvision_ddp:
      inherits: _defaults
      definition: ../benchmarks/torchvision_ddp
      group: torchvision
      install_group: torch
      plan:
        method: njobs
        n: 1

    ddp:
      inherits: _torchvision_ddp
      plan: {launcher: torchrun}
    """
    [job] = [job for job in planned(standard(workdir, more)) if job.benchmark == "ddp"]
    [process] = job.processes
    assert process.environment["CUDA_VISIBLE_DEVICES"] == ",".join(map(str, range(8)))
    words = list(process.command)
    program = words[words.index("--") + 1 :]
    assert program[:2] == ["-m", "torch.distributed.run"]
    assert program[program.index("--nproc-per-node") + 1] == "8"
    assert Path(program[-1]).parts[-2:] == ("torchvision_ddp", "main.py")


def test_a_benchmark_that_takes_too_long_is_ended(workdir):
    """The suite manages its benchmarks: what runs into ``max_duration`` is ended, and is a failure."""
    slow = workdir / "slow.py"
    slow.write_text("import time\ntime.sleep(60)\n")
    (workdir / "slow.yaml").write_text("slow: {run: slow.py, max_duration: 0.5}\n")
    words = ("suite", "run", "slow.yaml", "--use-current-env", "--devices", "cpu:1", "--base", "b")
    done = subprocess.run(
        [sys.executable, "-m", "injector", *words], cwd=workdir, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "time limit" in done.stderr
