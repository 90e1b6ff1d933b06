"""The devices and cores that a suite may use."""

from __future__ import annotations

import json
import os
import sys

import pytest

from injector.errors import UserError
from injector.monitor import host
from injector.suite.plan import machine as module
from injector.suite.plan.machine import Machine, find_machine


@pytest.fixture
def pretended(tmp_path):
    """The environment of a machine with two devices."""
    told = [
        {"name": f"Card {n}", "uuid": f"GPU-{n}", "samples": [{"memory_total": (n + 1) << 30}]}
        for n in range(2)
    ]
    path = tmp_path / "devices.json"
    path.write_text(json.dumps(told))
    return {"INJECT_SCRIPTED_DEVICES": str(path)}


def keys(machine):
    return [device.key for device in machine.devices]


@pytest.mark.parametrize(
    ("needed", "found"),
    [
        (None, ["cuda:0", "cuda:1"]),
        ("all", ["cuda:0", "cuda:1"]),
        ("cuda", ["cuda:0", "cuda:1"]),
        ("gpu:1", ["cuda:1"]),
        ("cuda:1,0", ["cuda:1", "cuda:0"]),
        ("cuda:0,cuda:1", ["cuda:0", "cuda:1"]),
        ("cuda:1,1", ["cuda:1"]),
        ("cpu", ["cpu:0"]),
        ("cpu:3", ["cpu:0", "cpu:1", "cpu:2"]),
        ("xpu:0,2", ["xpu:0", "xpu:2"]),
    ],
)
def test_devices_that_are_requested(pretended, needed, found):
    assert keys(find_machine(needed, pretended)) == found


@pytest.mark.parametrize(
    ("needed", "message"),
    [
        ("cuda:2", "there is no cuda:2; there are cuda:0 (Card 0), cuda:1 (Card 1)"),
        ("rocm", "there is no rocm device; there is cpu"),
        ("cpu:0", "between 1 and"),
        ("cpu:x", "not understood; it is all, cpu:4"),
        ("cuda:x", "not understood"),
        ("tpu:0", "not understood"),
        ("all:1", "not understood"),
        ("xpu", "have to be named"),
    ],
)
def test_devices_that_there_are_not(pretended, needed, message):
    with pytest.raises(UserError) as raised:
        find_machine(needed, pretended)
    assert message in str(raised.value)
    assert f"--devices {needed}" in str(raised.value)


def test_what_the_environment_hides_is_not_there(pretended):
    found = find_machine("all", {**pretended, "CUDA_VISIBLE_DEVICES": "1"})
    [device] = found.devices
    assert (device.key, device.token, device.name) == ("cuda:0", "1", "Card 1")
    assert keys(find_machine("all", {**pretended, "CUDA_VISIBLE_DEVICES": ""})) == ["cpu:0"]


def test_without_accelerators_it_is_the_cores(nothing_installed):
    assert keys(find_machine("all", {})) == ["cpu:0"]


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setitem(sys.modules, "amdsmi", None)


def test_a_driver_in_trouble_is_no_reason_to_run_on_the_cores(tmp_path):
    path = tmp_path / "devices.json"
    path.write_text(json.dumps({"fail": "the driver hangs"}))
    environ = {"INJECT_SCRIPTED_DEVICES": str(path)}
    with pytest.raises(UserError, match=r"the driver hangs.*--devices cpu:1 runs on the cores"):
        find_machine("all", environ)
    assert keys(find_machine("cpu:1", environ)) == ["cpu:0"]


def test_cores_are_those_that_the_process_may_use_and_the_container_allows(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2, 3, 6, 7, 8})
    group = {"cpus": 2.5, "memory_limit": 1 << 30}
    monkeypatch.setattr(host, "limits", lambda: {"cgroup": group})
    found = find_machine("cpu:1")
    assert (found.cores, found.cpu_count, found.memory) == ((2, 3, 6, 7, 8), 2, 1 << 30)
    group["cpus"] = 0.5
    assert find_machine("cpu:1").cpu_count == 1


def of(cores, count, devices):
    made = tuple(module.PlanDevice("cpu", n) for n in range(devices))
    return Machine(made, tuple(range(cores)), count)


def test_cores_are_split_between_processes_that_run_side_by_side():
    assert [of(8, 8, 4).share(n, 4) for n in range(4)] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert of(8, 8, 1).share(0, 1) == tuple(range(8))
    assert [of(2, 2, 4).share(n, 4) for n in range(4)] == [(0,), (1,), (0,), (1,)]
    assert [of(8, 2, 2).share(n, 2) for n in range(2)] == [(0,), (1,)]


def test_what_a_suite_may_ask_of_it(pretended):
    facts = find_machine("all", pretended).facts()
    assert (facts["arch"], facts["gpu_count"]) == ("cuda", 2)
    assert facts["gpu"] == {"count": 2, "arch": "cuda", "name": "Card 0", "capacity": "1024 MiB"}
    assert facts["cpu_per_gpu"] == max(1, facts["cpu_count"] // 2)
    shares = find_machine("cpu:3").facts()
    assert (shares["arch"], shares["gpu_count"]) == ("cpu", 3)
    assert shares["cpu_per_gpu"] >= 1


def test_nothing_of_it_imports_torch_or_numpy(pretended):
    import subprocess

    code = (
        "import sys; from injector.suite.plan.machine import find_machine; find_machine(); "
        "print([name for name in ('torch', 'numpy') if name in sys.modules])"
    )
    root = str(module.__file__).rpartition("/injector/")[0]
    environ = {**os.environ, **pretended, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
