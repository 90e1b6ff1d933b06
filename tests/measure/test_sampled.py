"""Times of a device of some steps, from the hooks of a program to its report, by a clock of the test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from injector.analysis.columns import read_rows, sources
from injector.analysis.profiling import profile
from injector.store.folder import open_run

PROGRAM = """
import torch

model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for number in range(3000):
    loss = model(torch.ones(2, 8)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
VOIRFILE = """
from time import perf_counter_ns

from injector.measure import device


class Clock:
    def mark(self):
        until = perf_counter_ns() + 50_000
        while (now := perf_counter_ns()) < until:
            pass
        return [now]

    def ready(self, event):
        return True

    def elapsed_ns(self, first, second):
        return second[0] - first[0]

    def device(self, event):
        return "cuda:0"

    def free(self, event):
        pass


device.use(Clock())


def instrument_nothing(ov):
    pass
"""


def test_some_steps_are_timed_and_each_row_names_its_call(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "main.py").write_text(PROGRAM)
    (tmp_path / "x.py").write_text(VOIRFILE)
    words = [sys.executable, "-m", "injector", "run", "-q", "--into", "run", "--voirfile", "x.py"]
    subprocess.run([*words, "main.py"], cwd=tmp_path, check=True)
    run = open_run(str(tmp_path / "run"))
    [source] = sources(run)
    rows = read_rows(source)
    begins: dict[str, dict[str, list[int]]] = {}
    for start, payload, site in zip(rows.start, rows.payload, rows.site, strict=True):
        of = source.sites[int(site)]
        key = payload if of.clock == "device" else start
        begins.setdefault(of.region, {}).setdefault(of.clock, []).append(int(key))
    for region in ("forward", "backward", "optimizer"):
        timed, calls = begins[region]["device"], begins[region]["host"]
        assert len(calls) == 3000 and 10 < len(timed) < 1500
        assert set(timed) <= set(calls) and len(set(timed)) == len(timed)
    found = profile(run)
    assert found is not None
    [loop] = found.loops
    device, whole = loop.tree.device, loop.tree.host
    assert device is not None and 5 < device.n < 1500 < whole.n
    assert device.median > 3 * 50e-6  # each of three regions lasts as long as its event at the end
