"""NVIDIA devices through ``nvidia-ml-py`` (``pynvml``); MIG slices are devices of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pynvml

from .devices import AbsentError

_NOT_AVAILABLE = 0xFFFFFFFFFFFFFFFF
"""NVML's value for memory of a process that it does not know, as in a virtual machine."""


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
    readers: list[NvidiaDevice] = []
    # Slices are devices only for a program that was given some, by their UUIDs: else its device is the whole
    # one.
    has_slices = any(
        word.strip().startswith("MIG-")
        for word in environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    )
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        slices = list(_slices(handle)) if has_slices else []
        readers += [NvidiaDevice(index, part) for part in slices] or [NvidiaDevice(index, handle)]
    return readers


def _slices(handle: Any) -> Iterator[Any]:
    """The handles of the MIG slices of a device; none if it is not divided."""
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
            continue  # there may be fewer slices than there can be


def _driver() -> str:
    """The version of the driver; empty if it is not known."""
    try:
        return _text(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return ""


class NvidiaDevice:
    """A device, or a MIG slice of one."""

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
        """Hertz; NVML has MHz."""
        kinds = {"sm": pynvml.NVML_CLOCK_SM, "memory": pynvml.NVML_CLOCK_MEM}
        return {
            name: pynvml.nvmlDeviceGetClockInfo(self._handle, kind) * 1_000_000
            for name, kind in kinds.items()
        }

    def _throttle(self) -> list[str]:
        """The reasons why the clocks are lower than they could be; none if they are not."""
        mask = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)
        return [name for name, bit in _REASONS.items() if mask & bit]

    def _pcie(self) -> dict[str, int]:
        """Bytes per second, over the last 20 ms; NVML has kB."""
        sent = pynvml.nvmlDeviceGetPcieThroughput(self._handle, pynvml.NVML_PCIE_UTIL_TX_BYTES)
        received = pynvml.nvmlDeviceGetPcieThroughput(self._handle, pynvml.NVML_PCIE_UTIL_RX_BYTES)
        return {"sent": sent * 1000, "received": received * 1000}

    def _nvlink(self) -> dict[str, int] | None:
        """Bytes over all links since the driver was loaded."""
        fields = [
            pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
            pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        ]
        values = pynvml.nvmlDeviceGetFieldValues(self._handle, fields)
        if any(value.nvmlReturn != pynvml.NVML_SUCCESS for value in values):
            return None  # the device has no links
        sent, received = (int(value.value.ullVal) * 1024 for value in values)
        return {"sent": sent, "received": received}

    def _ecc(self) -> dict[str, int]:
        """Memory errors since the driver was loaded."""
        kinds = {
            "corrected": pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
            "uncorrected": pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        }
        return {
            name: pynvml.nvmlDeviceGetTotalEccErrors(self._handle, kind, pynvml.NVML_VOLATILE_ECC)
            for name, kind in kinds.items()
        }

    def _processes(self) -> dict[str, int]:
        """Bytes of memory by process."""
        running = pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        return {
            str(process.pid): process.usedGpuMemory
            for process in running
            if process.usedGpuMemory not in (None, _NOT_AVAILABLE)
        }


_REASONS = {
    "power cap": 0x4,
    "hardware slowdown": 0x8,
    "sync boost": 0x10,
    "software thermal": 0x20,
    "hardware thermal": 0x40,
    "power brake": 0x80,
}
"""Bits of ``nvmlClocksEventReasons`` (NVML API reference), without those for an idle device and for clocks
that the user has set.
"""


def _text(value: Any) -> str:
    """A string of NVML, which older versions of its library return as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
