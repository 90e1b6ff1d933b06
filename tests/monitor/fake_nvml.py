"""A stand-in for ``pynvml``: two devices, the second of which has a life of its own."""

from __future__ import annotations

from types import SimpleNamespace

NVML_TEMPERATURE_GPU = 0
NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES = 0, 1
NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 138, 139
NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 0, 1
NVML_VOLATILE_ECC = 0
NVML_DEVICE_MIG_ENABLE = 1
NVML_SUCCESS = 0


class NVMLError(Exception):
    pass


class NVMLError_LibraryNotFound(NVMLError):
    pass


class NVMLError_DriverNotLoaded(NVMLError):
    pass


class NVMLError_NoPermission(NVMLError):
    pass


state = {"init": None, "slices": 0, "power": 250_000}


def nvmlInit():
    if state["init"] is not None:
        raise state["init"]


def nvmlDeviceGetCount():
    return 2


def nvmlDeviceGetHandleByIndex(index):
    return (index, None)


def nvmlDeviceGetMigMode(handle):
    if not state["slices"]:
        raise NVMLError("Not Supported")
    return (1, 1)


def nvmlDeviceGetMaxMigDeviceCount(handle):
    return 7


def nvmlDeviceGetMigDeviceHandleByIndex(handle, number):
    if number >= state["slices"]:
        raise NVMLError("Not Found")
    return (handle[0], number)


def nvmlDeviceGetUUID(handle):
    index, part = handle
    return f"GPU-{index}" if part is None else f"MIG-{index}-{part}"


def nvmlDeviceGetName(handle):
    return b"Stand-in H1"


def nvmlSystemGetDriverVersion():
    return b"575.51.03"


def nvmlDeviceGetUtilizationRates(handle):
    return SimpleNamespace(gpu=50, memory=25)


def nvmlDeviceGetMemoryInfo(handle):
    return SimpleNamespace(used=1 << 30, total=80 << 30)


def nvmlDeviceGetTemperature(handle, sensor):
    return 61


def nvmlDeviceGetPowerUsage(handle):
    if isinstance(state["power"], Exception):
        raise state["power"]
    return state["power"]


def nvmlDeviceGetEnforcedPowerLimit(handle):
    return 700_000


def nvmlDeviceGetTotalEnergyConsumption(handle):
    return 12_345_678


def nvmlDeviceGetClockInfo(handle, kind):
    return {NVML_CLOCK_SM: 1_980, NVML_CLOCK_MEM: 2_619}[kind]


def nvmlDeviceGetCurrentClocksThrottleReasons(handle):
    return 0x4 | 0x40 | 0x1  # a cap, heat, and idleness, which is no fault


def nvmlDeviceGetPcieThroughput(handle, direction):
    return 100 + direction


def nvmlDeviceGetFieldValues(handle, fields):
    return [
        SimpleNamespace(nvmlReturn=NVML_SUCCESS, value=SimpleNamespace(ullVal=field))
        for field in fields
    ]


def nvmlDeviceGetTotalEccErrors(handle, kind, counter):
    raise NVMLError("Not Supported")


def nvmlDeviceGetComputeRunningProcesses(handle):
    return [
        SimpleNamespace(pid=7, usedGpuMemory=1 << 20),
        SimpleNamespace(pid=8, usedGpuMemory=None),
    ]
