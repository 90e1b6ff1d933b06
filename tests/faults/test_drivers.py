"""Drivers of devices that fail, and clocks that jump, while a program runs."""

from __future__ import annotations

import json

import pytest

from injector.store import monitor

from .faulty import until_sampled

FINE = {"load": 0.5, "memory_used": 1 << 30, "memory_total": 4 << 30, "power": 100.0}


@pytest.fixture
def watched(launch, tmp_path, monkeypatch):
    """A program that goes on until it is told; ``content`` stands for the driver of its devices."""

    def go(content):
        (tmp_path / "devices.json").write_text(json.dumps(content))
        monkeypatch.setenv("INJECT_SCRIPTED_DEVICES", str(tmp_path / "devices.json"))
        run = launch(
            """
say("ready", os.getpid())
while not os.path.exists("go on"):
    time.sleep(0.01)
steps(1000)
sys.exit(5)
""",
            "--interval",
            "0.05",
        )
        program = int(run.next_line()[1])
        until_sampled(run, 5)
        (tmp_path / "go on").touch()
        run = run.over()
        assert run.exit == 5
        assert run.processes[program].is_whole(1000)
        [seen] = monitor.read(str(run.folder))
        return run, seen

    return go


def test_the_driver_of_a_device_fails_at_its_start(watched):
    run, seen = watched({"fail": "driver/library version mismatch"})
    assert seen.devices == []
    message = "scripted devices cannot be read: driver/library version mismatch"
    assert seen.problems == [message]
    assert "library version mismatch" in run.err


def test_a_device_is_lost_in_the_middle(watched):
    lost = {name: {"raise": "GPU is lost"} for name in FINE}
    run, seen = watched([{"name": "A", "samples": [FINE, FINE, lost]}, {"samples": [FINE]}])
    known = [sample.data["0"] for sample in seen.devices]
    assert known[:2] == [FINE, FINE]
    assert not any(known[2:])
    assert all(sample.data["1"] == FINE for sample in seen.devices)
    assert "device 0: load could not be read: GPU is lost" in seen.problems
    assert "GPU is lost" in run.err


def test_a_device_tells_garbage(watched):
    garbage = {"load": 42_949_672.95, "memory_used": -1, "power": "?", "temperature": 61}
    run, seen = watched([{"name": "A", "samples": [garbage]}])
    assert all(sample.data["0"] == {"temperature": 61} for sample in seen.devices)
    assert any("load was 42949672.95, which cannot be" in each for each in seen.problems)
    assert "cannot be" in run.err


def test_the_clock_jumps(launch):
    """Between the starts of two processes the wall clock goes back by an hour."""
    run = launch("""
real = time.time
steps(10, 0)
if os.fork() == 0:
    time.time = lambda: real() - 3600
    steps(10, 1)
    os._exit(0)
os.wait()
time.time = lambda: real() + 3600
steps(10, 2)
""").over()
    assert run.exit == 0
    times = [data["time"] for data in run.events("data")]
    assert times == sorted(times)
    assert max(times) - min(times) < 3600
    assert run.info["lost"] == run.info["torn"] == 0
