"""NVIDIA devices through ``nvidia-ml-py`` (``pynvml``); MIG slices are devices of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pynvml

from .devices import AbsentError

_NO_LIMIT = 0xFFFFFFFFFFFFFFFF


def devices(environ: Mapping[str, str]) -> list[NvidiaDevice]:
    """All devices of this machine. Raises AbsentError without driver or device."""
    try:
        pynvml.nvmlInit()
    except (
        pynvml.NVMLError_LibraryNotFound,
        pynvml.NVMLError_DriverNotLoaded,
        pynvml.NVMLError_NoPermission,
    ) as error:
        raise AbsentError from error
    found: list[NvidiaDevice] = []
    sliced = any(
        word.strip().startswith("MIG-")
        for word in environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    )
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        slices = list(_slices(handle)) if sliced else []
        found += [NvidiaDevice(index, each) for each in slices] or [NvidiaDevice(index, handle)]
    return found


def _slices(handle: Any) -> Iterator[Any]:
    try:
        if pynvml.nvmlDeviceGetMigMode(handle)[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            return
        count = pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    except pynvml.NVMLError:
        return
    for number in range(count):
        try:
            yield pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except pynvml.NVMLError:
            continue  # a place without a slice


def _driver() -> str:
    try:
        return _text(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return ""


class NvidiaDevice:
    """One device, or one slice of one."""

    vendor = "nvidia"

    def __init__(self, index: int, handle: Any) -> None:
        self.index = index
        self._handle = handle
        self.uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
        self.name = _text(pynvml.nvmlDeviceGetName(handle))
        self.driver = _driver()

    def read(self) -> dict[str, Callable[[], Any]]:
        """See :class:`.devices.DeviceReader`."""
        return {
            "load": lambda: pynvml.nvmlDeviceGetUtilizationRates(self._handle).gpu / 100,
            "memory_load": lambda: pynvml.nvmlDeviceGetUtilizationRates(self._handle).memory / 100,
            "memory_used": lambda: pynvml.nvmlDeviceGetMemoryInfo(self._handle).used,
            "memory_total": lambda: pynvml.nvmlDeviceGetMemoryInfo(self._handle).total,
            "temperature": lambda: pynvml.nvmlDeviceGetTemperature(
                self._handle, pynvml.NVML_TEMPERATURE_GPU
            ),
            "power": lambda: pynvml.nvmlDeviceGetPowerUsage(self._handle) / 1000,
            "power_limit": lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(self._handle) / 1000,
            "energy": lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle) / 1000,
            "clocks": self._clocks,
            "throttle": self._throttle,
            "pcie": self._pcie,
            "nvlink": self._nvlink,
            "ecc": self._ecc,
            "processes": self._processes,
        }

    def _clocks(self) -> dict[str, int]:
        kinds = {"sm": pynvml.NVML_CLOCK_SM, "memory": pynvml.NVML_CLOCK_MEM}
        return {
            name: pynvml.nvmlDeviceGetClockInfo(self._handle, kind) * 1_000_000
            for name, kind in kinds.items()
        }

    def _throttle(self) -> list[str]:
        """Why the clocks are below what was set; ``[]`` if they are not."""
        mask = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)
        return [name for name, bit in _REASONS.items() if mask & bit]

    def _pcie(self) -> dict[str, int]:
        """Bytes a second, over the last 20 ms."""
        sent = pynvml.nvmlDeviceGetPcieThroughput(self._handle, pynvml.NVML_PCIE_UTIL_TX_BYTES)
        received = pynvml.nvmlDeviceGetPcieThroughput(self._handle, pynvml.NVML_PCIE_UTIL_RX_BYTES)
        return {"sent": sent * 1000, "received": received * 1000}

    def _nvlink(self) -> dict[str, int] | None:
        """Bytes over all links since the driver was loaded."""
        fields = [
            pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
            pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        ]
        found = pynvml.nvmlDeviceGetFieldValues(self._handle, fields)
        if any(value.nvmlReturn != pynvml.NVML_SUCCESS for value in found):
            return None  # no links
        sent, received = (int(value.value.ullVal) * 1024 for value in found)
        return {"sent": sent, "received": received}

    def _ecc(self) -> dict[str, int]:
        kinds = {
            "corrected": pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
            "uncorrected": pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        }
        return {
            name: pynvml.nvmlDeviceGetTotalEccErrors(self._handle, kind, pynvml.NVML_VOLATILE_ECC)
            for name, kind in kinds.items()
        }

    def _processes(self) -> dict[str, int]:
        found = pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        return {
            str(process.pid): process.usedGpuMemory
            for process in found
            if process.usedGpuMemory not in (None, _NO_LIMIT)
        }


_REASONS = {
    "power cap": 0x4,
    "hardware slowdown": 0x8,
    "sync boost": 0x10,
    "software thermal": 0x20,
    "hardware thermal": 0x40,
    "power brake": 0x80,
}
"""Bits of ``nvmlClocksEventReasons`` (NVML API reference); idleness and clocks that were set are no fault."""


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
