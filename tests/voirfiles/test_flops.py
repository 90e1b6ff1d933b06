"""``--flops``: operations of a step, counted in a second run of the program."""

from __future__ import annotations

import pytest

from injector.analysis.summary import summarise
from injector.report import markdown, terminal
from injector.store.folder import open_run

pytest.importorskip("torch")

PROGRAM = """
import sys
from pathlib import Path

runs = Path("runs.txt")
with runs.open("a") as file:
    print(*sys.argv[1:], file=file)
if "--once" in sys.argv and len(runs.read_text().splitlines()) > 1:
    sys.exit("it has run before")

import torch
from torch import nn

net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(12):
    loss = net(torch.ones(32, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("done", step)
"""
FORWARD = 2 * 32 * (64 * 128 + 128 * 10)
"""Of two products."""
BACKWARD = 2 * 32 * (64 * 128 + 2 * 128 * 10)
"""By the weights of both, and by the input of the second: the first one's needs no gradient."""


def test_two_linear_layers(run, tmp_path):
    done = run(PROGRAM, "--flops", "--peak-flops", "1e12", after=["--lr", "1"])
    assert done.out == "done 11\n"  # the second run's output is nobody's
    assert (tmp_path / "runs.txt").read_text() == "--lr 1\n" * 2
    assert [path.name for path in (tmp_path / "runs").glob("*/run.json")] == ["run.json"]
    assert done.info["tags"] == {} and done.info["voirfiles"] == []
    summary = summarise(open_run(str(done.folder)))
    found = summary.flops
    [loop] = summary.profile.loops
    assert loop.steps == 12  # the measured run is not stopped
    assert found.step == FORWARD + BACKWARD
    assert found.rate == pytest.approx(found.step * loop.throughput.steps)
    assert found.mfu == pytest.approx(found.rate / 1e12) and found.peak == 1e12
    assert "a lower bound" in found.notes[0] and len(found.notes) == 1
    assert done.info["flops"]["precisions"] == {"fp32": found.step}
    assert done.info["flops"]["device"] == "cpu"
    for shown in (done.err, terminal.render(summary), markdown.render(summary)):
        assert "1.294 MFLOPs a step" in shown.replace("\u2003", " "), shown
        assert "MFU" in shown


@pytest.mark.release
def test_a_program_that_fails_in_its_second_run(run):
    done = run(PROGRAM, "--flops", after=["--once"])
    assert done.exit == 0 and done.out == "done 11\n"
    [note] = summarise(open_run(str(done.folder))).flops.notes
    assert note == "no FLOPs: its second run failed with exit code 1: it has run before"
    assert "its second run failed" in done.err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--flops", "--peak-flops", "x", "a.py"), "--peak-flops is the FLOP/s of one device"),
        (("--flops", "--peak-flops", "nan", "a.py"), "--peak-flops is the FLOP/s of one device"),
        (("--peak-flops", "1e12", "a.py"), "add --flops"),
        (("--flops", "-"), "not standard input"),
    ],
)
def test_bad_input(options, why, capsys):
    from injector.cli.run import main

    assert main(list(options)) == 2
    assert why in capsys.readouterr().err
