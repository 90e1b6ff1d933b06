"""``inject merge`` of runs that two ``inject run`` recorded of one job."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from itertools import permutations

import pytest
import wrong_clock

from injector import reaper
from injector.cli import main

PROGRAM = """
import os, sys, time

def train(at):
    return at

rank = int(os.environ["RANK"])
open(f"here.{rank}", "w").close()
while not os.path.exists(f"here.{1 - rank}"):  # so that both are there at the same time
    time.sleep(0.01)
for at in range(10):
    loss = 10.0 - train(at)
sys.exit(rank * 3)
"""
VOIRFILE = """
def instrument_all(ov):
    ov.step("//train", items=4)
    ov.value("// > loss")
"""
DDP = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(96, 8), torch.randn(96, 1))
sampler = torch.utils.data.DistributedSampler(data)
dist.barrier()
for x, y in torch.utils.data.DataLoader(data, 4, sampler=sampler):
    optimizer.zero_grad()
    (model(x) - y).pow(2).mean().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
"""


def both(folder, environ, commands):
    """The ends of two commands that run at the same time."""
    started = [
        subprocess.Popen(
            words, cwd=folder, env=environ | more, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for words, more in commands
    ]
    try:
        errors = [process.communicate(timeout=300)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    return [process.returncode for process in started], errors


def merged(folder, inject, environ):
    return subprocess.run(
        [*inject, "merge", "b", "a", "-o", "whole"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def parts(tmp_path_factory, inject, environ):
    """A folder with the runs ``a``, of rank 0, and ``b``."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "train.py").write_text(PROGRAM)
    (folder / "v.py").write_text(VOIRFILE)
    words = ["--quiet", "--no-monitor", "--voirfile", "v.py", "train.py"]
    commands = [
        ([*inject, "run", "--into", name, *words], {"RANK": str(rank), "WORLD_SIZE": "2"})
        for rank, name in enumerate("ab")
    ]
    codes, errors = both(folder, environ, commands)
    assert codes == [0, 3], errors
    return folder


def test_two_ranks_that_were_recorded_apart(parts, inject, environ):
    done = merged(parts, inject, environ)
    assert (done.returncode, done.stderr) == (0, "")
    info = json.loads((parts / "whole" / "run.json").read_text())
    ranks = {each["rank"]: each["exit"]["code"] for each in info["processes"]}
    assert ranks == {0: 0, 1: 3} and info["exit"]["code"] == 3
    assert [loop["ranks"] for loop in info["training"]] == [2]
    assert "2 ranks" in done.stdout and "10 steps on each of 2 ranks" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a", "a"), "rank 0 is in"),
        (("a",), "name two or more that are to be merged"),
        (("a", "nope"), "nope: this folder does not exist"),
        (("a", "b", "-o", "b"), "b exists already"),
        (("a", "b", "-o", "nope/x"), "there is no folder"),
    ],
)
def test_what_cannot_be_merged(parts, monkeypatch, capsys, words, message):
    monkeypatch.chdir(parts)
    before = sorted(os.walk(parts))
    assert main(["merge", "-o", "new", *words]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and not printed.out
    assert sorted(os.walk(parts)) == before


@pytest.mark.release
@pytest.mark.parametrize("wrong", [0, 3600, -3600])
def test_two_nodes_of_torchrun(tmp_path, inject, environ, wrong):
    """Where a clock is wrong, the program has no barriers of its own."""
    pytest.importorskip("torch")
    (tmp_path / "ddp.py").write_text(DDP.replace("dist.barrier()\n", "") if wrong else DDP)
    (tmp_path / "clock").write_text(str(wrong))
    clock = {"CLOCK_FILE": str(tmp_path / "clock")}
    clock |= {"LD_PRELOAD": str(wrong_clock.build(tmp_path))} if wrong else {}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launcher = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"]
    launcher += ["--master-addr", "127.0.0.1", "--master-port", str(port)]
    commands = [
        (
            [*inject, "run", "--into", name, *launcher, "--node-rank", str(node), "ddp.py"],
            clock if node else {},
        )
        for node, name in enumerate("ab")
    ]
    codes, errors = both(tmp_path, environ, commands)
    assert codes == [0, 0], errors
    done = merged(tmp_path, inject, environ)
    assert done.returncode == 0, done.stderr
    info = json.loads((tmp_path / "whole" / "run.json").read_text())
    ranks = sorted(each["rank"] for each in info["processes"] if each["rank"] is not None)
    assert ranks == [0, 1, 2, 3] and not info["problems"]
    [loop] = info["training"]
    assert (loop["ranks"], loop["steps"]) == (4, 6)
    if wrong:
        [text] = [each for each in info["remarks"] if "is moved by" in each]
        found = re.search(
            r"is moved by (\S+) s to that of \S+, by (\d) barriers; .* at most (\S+) ms", text
        )
        assert found and abs(float(found[1]) + wrong) <= float(found[3]) / 1e3 + 1e-6, text
        assert info["ended"] - info["started"] < 300


MOVES = DDP.replace("dist.barrier()\n", "").replace(
    "    optimizer.step()\n",
    """    optimizer.step()
    with open(f"steps.{os.getpid()}", "a") as file:
        print(file=file)
    while len(open(file.name).read()) == 4 and not os.path.exists("go"):
        time.sleep(0.05)
""",
)


@pytest.mark.release
def test_a_node_of_torchrun_that_is_replaced(tmp_path, inject, environ):
    """Its ranks are those of the new node, as the other one counts: it was there all the time."""
    pytest.importorskip("torch")
    (tmp_path / "ddp.py").write_text("import os, time\n" + MOVES)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launcher = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"]
    launcher += ["--max-restarts", "3", "--rdzv-backend", "c10d", "--rdzv-id", "moved"]
    launcher += ["--rdzv-endpoint", f"127.0.0.1:{port}"]
    patience = "keep_alive_interval=1,keep_alive_max_attempt=3"
    more = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}

    def begin(name, is_host=0):
        words = [*inject, "run", "--quiet", "--no-monitor", "--into", name, *launcher]
        words += ["--rdzv-conf", f"is_host={is_host},{patience}", "ddp.py"]
        return subprocess.Popen(words, cwd=tmp_path, env=environ | more, stderr=subprocess.DEVNULL)

    def trained(ranks):
        end = time.monotonic() + 120
        while len([each for each in tmp_path.glob("steps.*") if each.stat().st_size > 3]) < ranks:
            assert time.monotonic() < end and stays.poll() is None
            time.sleep(0.1)

    stays = begin("b", 1)
    nodes = [stays, begin("a")]
    try:
        trained(4)
        reaper.end_by_force([reaper.find(nodes[1].pid), *reaper.descendants(nodes[1].pid)])
        nodes.append(begin("c"))
        trained(8)
        (tmp_path / "go").touch()
        assert [node.wait(120) for node in (stays, nodes[2])] == [0, 0]
    finally:
        for node in nodes:
            reaper.end_by_force(reaper.descendants(node.pid))
            node.kill()
            node.wait(60)
    for number, order in enumerate(permutations("abc")):
        words = [*inject, "merge", *order, "-o", f"whole{number}"]
        done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        info = json.loads((tmp_path / f"whole{number}" / "run.json").read_text())
        ranks = [each["rank"] for each in info["processes"] if each["rank"] is not None]
        assert sorted(ranks) == [0, 0, 1, 1, 2, 2, 3, 3]
        loops = [(each["attempt"], each["ranks"], each["steps"]) for each in info["training"]]
        assert sorted(loops) == [(0, 4, 4), (1, 4, 6)]
