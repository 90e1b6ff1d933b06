"""What only a GPU can show; `pytest -m gpu` runs it.

Device clocks, transfers, the monitor's samples, and that hooks never wait for the device: each is compared
with what the program itself measured, synchronised by hand.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from injector.analysis.profiling import profile
from injector.analysis.query import Words
from injector.analysis.recorded import recorded
from injector.analysis.summary import summarise
from injector.analysis.views import regions
from injector.store import monitor
from injector.store.folder import open_run

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cuda")]

HEAD = """
import json, sys, time
import torch
torch.manual_seed(0)

def timed(call):
    torch.cuda.synchronize()
    began = time.perf_counter()
    result = call()
    torch.cuda.synchronize()
    return time.perf_counter() - began, result
"""
STEPS = 20


@pytest.fixture(scope="module")
def cuda() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")


def listed(column: Any) -> list[Any]:
    if isinstance(column, Words):
        return [[*column.words, None][code] for code in column.codes]
    return list(column)


class Ran:
    """A program that ran under ``inject run``: what it printed as JSON, and its record."""

    def __init__(
        self, folder: Path, program: str, *words: str, voirfile: str = "", plain: bool = True
    ) -> None:
        """``plain``: whether it runs without us as well."""
        (folder / "main.py").write_text(HEAD + program)
        if voirfile:
            (folder / "x.py").write_text(voirfile)
            words = (*words, "--voirfile", "x.py")
        probed = self._run(folder, "-m", "injector", "run", "--into", "run", *words, "main.py")
        self.plain: Any = json.loads(self._run(folder, "main.py").stdout) if plain else None
        self.printed: Any = json.loads(probed.stdout)
        self.folder = str(folder / "run")
        self.run = open_run(self.folder)
        assert self.run.info["failures"] == []
        assert self.run.info["lost"] == 0

    @staticmethod
    def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done

    def spans(self, region: str, clock: str) -> Iterator[dict[str, Any]]:
        """The spans of a region by one clock, in the order in which they began."""
        columns = {name: listed(column) for name, column in regions(self.run).items()}
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        found = [row for row in rows if (row["region"], row["clock"]) == (region, clock)]
        yield from sorted(found, key=lambda row: row["start"])


def test_device_events_agree_with_synchronised_wall_time(tmp_path: Path) -> None:
    """The device's time of a long kernel is the wall time of it, though the call returns at once."""
    program = f"""
x = torch.randn(8192, 8192, device="cuda")

def work():
    y = x
    for _ in range(4):
        y = y @ x
    return y

timed(work)
times = [timed(work)[0] for _ in range({STEPS})]
print(json.dumps(times))
"""
    voirfile = """
def instrument_work(ov):
    ov.region("//work", "work", device=True)
"""
    ran = Ran(tmp_path, program, voirfile=voirfile)
    device = [row["seconds"] for row in ran.spans("work", "device")][1:]
    host = [row["seconds"] for row in ran.spans("work", "host")][1:]
    assert len(device) == len(host) == len(ran.printed) == STEPS
    assert 0.8 < median(device) / median(ran.printed) < 1.1
    assert median(host) < median(device)
    assert {row["device"] for row in ran.spans("work", "device")} == {"cuda:0"}


def test_every_way_of_timing_a_part_by_its_device_agrees(tmp_path: Path) -> None:
    """A Timer, a region of the program and a region of a voirfile around the same kernels."""
    program = f"""
import injector
x = torch.randn(8192, 8192, device="cuda")
timer = injector.Timer(device="cuda:0")

@injector.region("own", device=x.device)
def work():
    y = x
    for _ in range(4):
        y = y @ x
    return y

timed(work)
times = []
for _ in range({STEPS}):
    timer.start("Forward")
    times.append(timed(work)[0])
    timer.end("Forward")
timer.synchronize()
print(json.dumps([times, timer.statistics("Forward", device=True).median]))
"""
    voirfile = """
def instrument_work(ov):
    ov.region("//work", "voirfile", device="cuda:0")
"""
    ran = Ran(tmp_path, program, voirfile=voirfile)
    wall, timed = ran.printed
    for name in ("forward", "own", "voirfile"):
        found = median(row["seconds"] for row in ran.spans(name, "device"))
        assert 0.8 < found / median(wall) < 1.1, name
    assert 0.8 < timed / median(wall) < 1.1


TRAINING = """
model = torch.nn.Sequential(
    torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 10)
).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
batches = [torch.randn(256, 1024).pin_memory() for _ in range(STEPS)]
target = torch.randint(0, 10, (256,), device="cuda")

def step(x):
    loss = torch.nn.functional.cross_entropy(model(x.to("cuda", non_blocking=True)), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss

step(batches[0])
torch.cuda.synchronize()
""".replace("STEPS", str(STEPS))


def test_hooks_never_synchronise(tmp_path: Path) -> None:
    """PyTorch itself refuses what synchronises: steps under our hooks have none, and lose nothing."""
    program = f"""{TRAINING}
torch.cuda.set_sync_debug_mode("error")
for _ in range(10):
    for x in batches:
        loss = step(x)
torch.cuda.set_sync_debug_mode("default")
print(json.dumps(loss.item()))
"""
    ran = Ran(tmp_path, program)
    assert ran.printed == pytest.approx(ran.plain, rel=1e-3)
    assert len(list(ran.spans("optimizer", "host"))) == 10 * STEPS + 1
    assert len(list(ran.spans("optimizer", "device"))) >= STEPS  # of the first steps, at least
    [losses] = [series for series in recorded(ran.run).series if series.is_loss]
    assert (losses.n, losses.odd) == (10 * STEPS + 1, 0)


def test_hooks_add_no_call_that_waits(tmp_path: Path) -> None:
    """The CUDA calls that wait, as CUPTI counts them, are those of the program alone."""
    program = f"""{TRAINING}
from torch.profiler import ProfilerActivity, profile

with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
    for x in batches:
        step(x)
    torch.cuda.synchronize()
counts = {{}}
for event in seen.events():
    if event.name in ("cudaDeviceSynchronize", "cudaEventSynchronize", "cudaLaunchKernel", "cudaMalloc"):
        counts[event.name] = counts.get(event.name, 0) + 1
print(json.dumps(counts))
"""
    ran = Ran(tmp_path, program)
    if not ran.plain.get("cudaLaunchKernel"):
        pytest.skip("CUPTI counts nothing on this machine")
    for name in ("cudaDeviceSynchronize", "cudaEventSynchronize"):
        assert ran.printed.get(name, 0) == ran.plain.get(name, 0), name


def test_bytes_and_time_of_transfers(tmp_path: Path) -> None:
    program = f"""
batch = torch.randn(64, 1024, 1024)
batch.to("cuda")
times = []
for _ in range({STEPS}):
    seconds, _ = timed(lambda: batch.to("cuda"))
    times.append(seconds)
print(json.dumps([times, batch.numel() * batch.element_size()]))
"""
    ran = Ran(tmp_path, program)
    seconds, size = ran.printed
    host = list(ran.spans("h2d", "host"))[1:]
    device = list(ran.spans("h2d", "device"))[1:]
    assert [row["bytes"] for row in host] == [float(size)] * STEPS
    assert 0.8 < median(row["seconds"] for row in host) / median(seconds) < 1.1
    assert 0.5 < median(row["seconds"] for row in device) / median(seconds) < 1.1


def test_the_monitor_sees_the_load_and_the_memory(tmp_path: Path) -> None:
    program = """
x = torch.randn(16384, 16384, device="cuda")
until = time.monotonic() + 8
while time.monotonic() < until:
    for _ in range(4):
        x @ x
    torch.cuda.synchronize()
free, total = torch.cuda.mem_get_info()
print(json.dumps([torch.cuda.get_device_name(), torch.cuda.max_memory_reserved(), total]))
"""
    ran = Ran(tmp_path, program, "--interval", "0.25")
    name, reserved, total = ran.printed
    samples = [
        (seen.described.get(device, {}).get("name"), state)
        for seen in monitor.read(ran.folder)
        for sample in seen.devices
        for device, state in sample.data.items()
    ]
    mine = [state for called, state in samples if called == name]
    assert len(mine) >= 8
    busiest = max(mine, key=lambda state: state.get("memory_used") or 0)
    assert reserved <= busiest["memory_used"] <= busiest["memory_total"]
    assert np.isclose(busiest["memory_total"], total, rtol=0.05)
    assert max(state.get("load") or 0.0 for state in mine) > 0.5
    assert all(0.0 <= (state.get("load") or 0.0) <= 1.0 for state in mine)


def test_workers_that_are_forked_once_the_device_is_in_use(tmp_path: Path) -> None:
    """CUDA ends a process that destroys an event of the one that it was forked from."""
    program = f"""{TRAINING}
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, number):
        return torch.full((1024,), float(number))

loader = torch.utils.data.DataLoader(Rows(), 256, num_workers=4, multiprocessing_context="fork")
for epoch in range(3):
    for x in loader:
        loss = step(x)
print(json.dumps(loss.item()))
"""
    ran = Ran(tmp_path, program)
    assert ran.printed == pytest.approx(ran.plain, rel=1e-3)


def test_a_graph_is_captured_as_without_us(tmp_path: Path) -> None:
    program = f"""{TRAINING}
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
batch = batches[0].cuda()
with torch.cuda.stream(side):
    for _ in range(50):
        step(batch)
torch.cuda.current_stream().wait_stream(side)
optimizer.zero_grad(set_to_none=True)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step(batch)
losses = []
for x in batches:
    batch.copy_(x)
    graph.replay()
    losses.append(loss.item())
print(json.dumps(losses))
"""
    ran = Ran(tmp_path, program)
    assert ran.printed == pytest.approx(ran.plain, rel=1e-3)


def test_memory_is_that_of_the_allocator(tmp_path: Path) -> None:
    """After forward most is allocated: its activations."""
    program = f"""{TRAINING.replace("step(batches[0])", "")}
allocated = []
for x in batches:
    optimizer.zero_grad()
    out = model(x.to("cuda").repeat(64, 1))
    allocated.append(torch.cuda.memory_allocated())
    out.mean().backward()
    optimizer.step()
print(json.dumps(max(allocated)))
"""
    ran = Ran(tmp_path, program, "--memory", plain=False)
    found = profile(ran.run)
    assert found is not None
    [used] = [each for each in found.memory if (each.where, each.region) == ("cuda:0", "forward")]
    assert used.largest == pytest.approx(ran.printed, rel=0.02)


LOOP = """
layers = []
for _ in range(DEPTH):
    layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
model = torch.nn.Sequential(*layers).to("cuda", torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
batch = torch.randn(ROWS, WIDTH, dtype=torch.bfloat16)
until = time.monotonic() + 6
while time.monotonic() < until:
    x = batch.to("cuda")
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss.item()
print(json.dumps(0))
"""


@pytest.mark.parametrize(
    ("kind", "depth", "width", "rows"),
    [
        ("launch-bound", 100, 64, 8),
        ("compute-bound", 24, 8192, 512),
        ("transfer-bound", 1, 4096, 65536),
    ],
)
def test_what_limits_a_program(
    tmp_path: Path, kind: str, depth: int, width: int, rows: int
) -> None:
    """Kernels shorter than their launches; large ones, for which the host waits; large copies."""
    numbers = {"DEPTH": depth, "WIDTH": width, "ROWS": rows}
    program = LOOP
    for name, number in numbers.items():
        program = program.replace(name, str(number))
    ran = Ran(tmp_path, program, "--interval", "0.25", plain=False)
    found = summarise(ran.run).profile
    assert found is not None
    verdict = found.verdict
    assert verdict.kind == kind, verdict
    assert "uncertain" not in verdict.sentence, verdict
