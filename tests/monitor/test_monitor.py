"""The monitor as a process of its own, beside real programs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from injector.analysis import hosts, machines
from injector.monitor.start import MonitorProcess
from injector.store import monitor

SLEEPER = "import sys; print(flush=True); sys.stdin.read()"


def wait_for(condition):
    due = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < due, "it did not come to be"
        time.sleep(0.01)
    return found


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "raw").mkdir()
    return str(tmp_path)


@pytest.fixture
def program():
    def start(text=SLEEPER):
        process = subprocess.Popen(
            [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        process.stdout.readline()
        started.append(process)
        return process

    started = []
    yield start
    for process in started:
        process.kill()
        process.communicate()


def seen(folder):
    [found] = monitor.read(folder) or [None]
    return found


def sampled(folder, count=3):
    def enough():
        found = seen(folder)
        return found if found and len(found.trees) >= count else None

    return wait_for(enough)


def test_it_samples_until_it_is_ended(folder, program):
    process = program()
    monitor = MonitorProcess(folder, process.pid, 0.02)
    sampled(folder)
    monitor.end()
    found = seen(folder)
    assert found.whole
    assert found.problems == []
    assert found.interval == 0.02
    assert process.pid in {each.pid for each in machines.processes_of(found)}
    times = [sample.time for sample in found.hosts]
    assert times == sorted(times)
    metrics = hosts.metrics(found, hosts.utilization(found))
    assert 0 <= metrics["cpu_avg_utilization_pct"] <= 100


def test_it_ends_with_the_program(folder, program):
    process = program()
    monitor = MonitorProcess(folder, process.pid, 0.02)
    sampled(folder)
    process.communicate()
    wait_for(lambda: seen(folder).whole)
    monitor.end()
    with pytest.raises(ProcessLookupError):
        os.kill(monitor.pid, 0)


def test_children_and_their_end_are_seen(folder, program):
    process = program(
        "import subprocess, sys; "
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE); "
        "print(flush=True); sys.stdin.readline(); child.communicate(); sys.stdin.read()"
    )
    monitor = MonitorProcess(folder, process.pid, 0.02)
    wait_for(lambda: (found := seen(folder)) and len(machines.processes_of(found)) == 2)
    process.stdin.write(b"\n")
    process.stdin.flush()
    wait_for(lambda: len(seen(folder).trees[-1].data["processes"]) == 1)
    monitor.end()


def test_memory_that_a_program_takes_is_seen(folder, program):
    process = program("import sys; print(flush=True); kept = b'1' * 200_000_000; sys.stdin.read()")
    monitor = MonitorProcess(folder, process.pid, 0.02)
    wait_for(
        lambda: (
            (found := seen(folder))
            and any(each.peak_rss > 200_000_000 for each in machines.processes_of(found))
        )
    )
    monitor.end()


def test_killed_it_leaves_what_it_saw(folder, program):
    process = program()
    monitor = MonitorProcess(folder, process.pid, 0.02)
    before = len(sampled(folder).trees)
    os.kill(monitor.pid, signal.SIGKILL)
    monitor.end()
    found = seen(folder)
    assert not found.whole
    assert len(found.trees) >= before


def test_ctrl_c_is_not_its_business(folder, program):
    process = program()
    monitor = MonitorProcess(folder, process.pid, 0.02)
    sampled(folder)
    os.kill(monitor.pid, signal.SIGINT)
    count = len(seen(folder).trees)
    sampled(folder, count + 3)
    monitor.end()
    assert seen(folder).whole


def test_a_program_that_is_gone_already(folder, program):
    process = program()
    process.communicate()
    monitor = MonitorProcess(folder, process.pid, 0.02)
    wait_for(lambda: (found := seen(folder)) and found.whole)
    monitor.end()


def test_devices_come_from_a_script(folder, program, tmp_path, monkeypatch):
    states = [{"load": 0.5, "power": 100.0, "memory_used": 1 << 30, "processes": {"42": 1}}]
    script = tmp_path / "devices.json"
    script.write_text(json.dumps([{"name": "A", "samples": states}]))
    monkeypatch.setenv("INJECT_SCRIPTED_DEVICES", str(script))
    monitor = MonitorProcess(folder, program().pid, 0.02)
    sampled(folder)
    monitor.end()
    found = seen(folder)
    [device] = machines.devices_of(found)
    assert (device.name, device.load, device.power) == ("A", 0.5, 100.0)
    assert device.peak_memory == 1 << 30
    assert device.pids == (42,)
    elapsed = found.devices[-1].time - found.devices[0].time
    assert device.energy == pytest.approx(100.0 * elapsed)


def test_a_device_that_fails_is_reported(folder, program, tmp_path, monkeypatch):
    script = tmp_path / "devices.json"
    script.write_text(json.dumps([{"samples": [{"load": 0.5}, {"load": {"raise": "fell off"}}]}]))
    monkeypatch.setenv("INJECT_SCRIPTED_DEVICES", str(script))
    monitor = MonitorProcess(folder, program().pid, 0.02)
    wait_for(lambda: (found := seen(folder)) and found.problems)
    monitor.end()
    assert seen(folder).problems == ["device 0: load could not be read: fell off"]


def test_a_folder_that_cannot_be_written_is_nobodys_trouble(tmp_path, program):
    process = program()
    monitor = MonitorProcess(str(tmp_path / "none" / "\0".replace("\0", "x")), process.pid, 0.02)
    monitor.end()
    assert process.poll() is None
