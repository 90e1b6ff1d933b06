"""Devices: what each vendor's reading becomes, what is visible, and what fails."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from injector.monitor.devices import SCRIPT_VARIABLE, Devices


def scripted(tmp_path, content, **environ):
    path = tmp_path / "devices.json"
    path.write_text(json.dumps(content))
    return Devices.visible({SCRIPT_VARIABLE: str(path), **environ})


def test_a_scripted_device_tells_one_sample_after_the_other(tmp_path):
    found = scripted(tmp_path, [{"name": "A", "samples": [{"load": 0.5}, {"load": 1.0}]}])
    assert found.described()["0"]["name"] == "A"
    assert [found.sample()["0"]["load"] for _ in range(3)] == [0.5, 1.0, 1.0]


def test_nvidia_is_told_in_the_units_of_the_house(nvml):
    found = Devices.visible({})
    assert [each["uuid"] for each in found.described().values()] == ["GPU-0", "GPU-1"]
    assert found.described()["0"]["name"] == "Stand-in H1"
    assert found.described()["0"]["driver"] == "575.51.03"
    assert found.sample()["1"] == {
        "load": 0.5,
        "memory_load": 0.25,
        "memory_used": 1 << 30,
        "memory_total": 80 << 30,
        "temperature": 61,
        "power": 250.0,
        "power_limit": 700.0,
        "energy": 12_345.678,
        "clocks": {"sm": 1_980_000_000, "memory": 2_619_000_000},
        "throttle": ["power cap", "hardware thermal"],
        "pcie": {"sent": 100_000, "received": 101_000},
        "nvlink": {"sent": 138 * 1024, "received": 139 * 1024},
        "processes": {"7": 1 << 20},
    }
    assert found.problems == []


def test_slices_are_devices_of_their_own_where_they_are_requested(nvml):
    nvml.state["slices"] = 2
    assert len(Devices.visible({}).described()) == 2
    found = Devices.visible({"CUDA_VISIBLE_DEVICES": "MIG-1-0"})
    assert [each["uuid"] for each in found.described().values()] == ["MIG-1-0"]


def test_a_machine_without_a_driver_has_no_devices_and_no_problem(nvml):
    nvml.state["init"] = nvml.NVMLError_LibraryNotFound("no library")
    found = Devices.visible({})
    assert not found
    assert found.problems == []


def test_a_driver_that_fails_at_its_start_is_a_problem(nvml):
    nvml.state["init"] = nvml.NVMLError("Unknown Error")
    found = Devices.visible({})
    assert not found
    assert found.problems == ["nvidia devices cannot be read: Unknown Error"]


def test_a_reading_that_fails_in_the_middle_is_reported_and_comes_back(nvml):
    found = Devices.visible({})
    assert found.sample()["0"]["power"] == 250.0
    nvml.state["power"] = nvml.NVMLError("GPU is lost")
    state = found.sample()["0"]
    assert "power" not in state
    assert state["load"] == 0.5
    assert any("power could not be read: GPU is lost" in each for each in found.problems)
    nvml.state["power"] = 100_000
    assert found.sample()["0"]["power"] == 100.0


def test_garbage_is_left_out_and_reported(nvml):
    found = Devices.visible({})
    nvml.state["power"] = -1_000
    assert "power" not in found.sample()["0"]
    assert any("power was -1.0, which cannot be" in each for each in found.problems)


def test_problems_do_not_grow_without_end(nvml):
    found = Devices.visible({})
    nvml.state["power"] = nvml.NVMLError("lost")
    for _ in range(200):
        found.sample()
    assert len(found.problems) <= 100


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ("0", [0]),
        ("1,0", [1, 0]),
        ("0,0", [0]),
        ("", []),
        ("-1", []),
        ("GPU-b", [1]),
        ("GPU-", []),  # of more than one
        ("1,5,0", [1]),
    ],
)
def test_visible_devices_are_counted_as_cuda_counts_them(tmp_path, asked, kept):
    content = [{"uuid": "GPU-a"}, {"uuid": "GPU-b"}]
    found = scripted(tmp_path, content, CUDA_VISIBLE_DEVICES=asked)
    assert [each["index"] for each in found.described().values()] == kept


def test_a_device_that_does_not_exist_is_named_with_those_that_do(tmp_path):
    found = scripted(tmp_path, [{}, {}], CUDA_VISIBLE_DEVICES="0,7")
    assert found.problems == ["CUDA_VISIBLE_DEVICES=0,7: there is no device 7 (there are: 0, 1)"]


def test_a_script_may_fail_as_a_whole(tmp_path):
    found = scripted(tmp_path, {"fail": "no such bus"})
    assert not found
    assert found.problems == ["scripted devices cannot be read: no such bus"]


def test_amd_is_told_in_the_units_of_the_house(monkeypatch):
    library = SimpleNamespace(
        amdsmi_init=lambda: None,
        amdsmi_get_processor_handles=lambda: ["one"],
        amdsmi_get_gpu_device_uuid=lambda handle: "uuid-1",
        amdsmi_get_gpu_driver_info=lambda handle: {"driver_version": "6.10.5"},
        amdsmi_get_gpu_asic_info=lambda handle: {"market_name": "Instinct"},
        amdsmi_get_gpu_activity=lambda handle: {"gfx_activity": 80, "umc_activity": 10},
        amdsmi_get_gpu_vram_usage=lambda handle: {"vram_used": 1024, "vram_total": 2048},
        amdsmi_get_temp_metric=lambda handle, kind, metric: 55,
        AmdSmiTemperatureType=SimpleNamespace(HOTSPOT=1),
        AmdSmiTemperatureMetric=SimpleNamespace(CURRENT=1),
        amdsmi_get_power_info=lambda handle: {
            "current_socket_power": "N/A",
            "average_socket_power": 120,
        },
        amdsmi_get_energy_count=lambda handle: {
            "energy_accumulator": 2_000_000,
            "counter_resolution": 15.3,
        },
        AmdSmiClkType=SimpleNamespace(SYS=0, MEM=1),
        amdsmi_get_clock_info=lambda handle, kind: {"clk": 1500 + kind},
        amdsmi_get_gpu_total_ecc_count=lambda handle: {
            "correctable_count": 1,
            "uncorrectable_count": 0,
        },
        amdsmi_get_gpu_process_list=lambda handle: [{"pid": 9, "memory_usage": {"vram_mem": 4096}}],
    )
    monkeypatch.setitem(sys.modules, "amdsmi", library)
    monkeypatch.delitem(sys.modules, "injector.monitor.amd", raising=False)
    from injector.monitor import amd

    [device] = amd.devices({})
    state = {name: read() for name, read in device.read().items()}
    assert state == {
        "load": 0.8,
        "memory_load": 0.1,
        "memory_used": 1 << 30,
        "memory_total": 2 << 30,
        "temperature": 55.0,
        "power": 120.0,
        "energy": pytest.approx(30.6),
        "clocks": {"sm": 1_500_000_000, "memory": 1_501_000_000},
        "ecc": {"corrected": 1, "uncorrected": 0},
        "processes": {"9": 4096},
    }
    sys.modules.pop("injector.monitor.amd", None)
