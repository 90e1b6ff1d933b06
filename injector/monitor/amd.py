"""AMD devices through ``amdsmi``, which comes with ROCm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import amdsmi

from .devices import AbsentError


def devices(environ: Mapping[str, str]) -> list[AmdDevice]:
    """All devices of this machine. Raises AbsentError without driver or device."""
    try:
        amdsmi.amdsmi_init()
        handles = amdsmi.amdsmi_get_processor_handles()
    except Exception as error:  # AmdSmiLibraryException, KeyError of an unknown driver state, …
        raise AbsentError from error
    return [AmdDevice(index, handle) for index, handle in enumerate(handles)]


class AmdDevice:
    """A device."""

    vendor = "amd"

    def __init__(self, index: int, handle: Any) -> None:
        self.index = index
        self._handle = handle
        self.uuid = str(amdsmi.amdsmi_get_gpu_device_uuid(handle))
        info = amdsmi.amdsmi_get_gpu_asic_info(handle)
        self.name = str(info.get("market_name") or "AMD GPU")
        self.driver = self._driver()

    def read(self) -> dict[str, Callable[[], Any]]:
        """See :class:`.devices.DeviceReader`."""
        return {
            "load": lambda: self._activity("gfx_activity") / 100,
            "memory_load": lambda: self._activity("umc_activity") / 100,
            "memory_used": lambda: self._memory("vram_used"),
            "memory_total": lambda: self._memory("vram_total"),
            "temperature": self._temperature,
            "power": self._power,
            "energy": self._energy,
            "clocks": self._clocks,
            "ecc": self._ecc,
            "processes": self._processes,
        }

    def _driver(self) -> str:
        """The version of the driver; empty if it is not known."""
        try:
            return str(amdsmi.amdsmi_get_gpu_driver_info(self._handle).get("driver_version") or "")
        except Exception:
            return ""

    def _activity(self, key: str) -> float:
        return float(amdsmi.amdsmi_get_gpu_activity(self._handle)[key])

    def _memory(self, key: str) -> int:
        return int(amdsmi.amdsmi_get_gpu_vram_usage(self._handle)[key]) << 20  # from MiB

    def _temperature(self) -> float:
        kind, metric = amdsmi.AmdSmiTemperatureType.HOTSPOT, amdsmi.AmdSmiTemperatureMetric.CURRENT
        return float(amdsmi.amdsmi_get_temp_metric(self._handle, kind, metric))

    def _power(self) -> float | None:
        """Watts; None if there is no figure. Devices and versions of the library differ in the key."""
        info = amdsmi.amdsmi_get_power_info(self._handle)
        for key in ("current_socket_power", "average_socket_power", "socket_power"):
            if isinstance(info.get(key), (int, float)):
                return float(info[key])
        return None

    def _energy(self) -> float:
        """Joules. The key of the counter has changed with a version of the library."""
        info = amdsmi.amdsmi_get_energy_count(self._handle)
        counter = info.get("energy_accumulator", info.get("power", 0))
        return float(counter) * float(info["counter_resolution"]) / 1e6  # from microjoules

    def _clocks(self) -> dict[str, int]:
        kinds = {"sm": amdsmi.AmdSmiClkType.SYS, "memory": amdsmi.AmdSmiClkType.MEM}
        return {
            name: int(amdsmi.amdsmi_get_clock_info(self._handle, kind)["clk"]) * 1_000_000
            for name, kind in kinds.items()
        }

    def _ecc(self) -> dict[str, int]:
        errors = amdsmi.amdsmi_get_gpu_total_ecc_count(self._handle)
        return {
            "corrected": int(errors["correctable_count"]),
            "uncorrected": int(errors["uncorrectable_count"]),
        }

    def _processes(self) -> dict[str, int]:
        """Bytes of memory by process."""
        running = amdsmi.amdsmi_get_gpu_process_list(self._handle)
        return {
            str(process["pid"]): int(process["memory_usage"]["vram_mem"]) for process in running
        }
