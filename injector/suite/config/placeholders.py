"""What ``{…}`` may stand for besides a benchmark's own keys: one table.

A machine, a job or a folder gives some; the others follow from those. docs/suites.md has this
table, and a test holds it to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

MOST_WORKERS, LEAST_WORKERS = 16, 2

DEVICES = (
    *("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga"),
    *("maia", "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"),
)
"""The device types of PyTorch: what ``{device_name}`` may be."""

LIBRARIES = {"hpu": "hccl", "cuda": "nccl", "rocm": "rccl", "xpu": "ccl", "cpu": "gloo"}
"""The communication library of each architecture."""

Known = Mapping[str, Any]


class Placeholder(NamedTuple):
    """One word that may stand in braces."""

    name: str
    text: str
    """What it stands for."""
    source: str
    """Who knows: ``machine``, ``job``, ``folder`` or ``benchmark``."""
    derived: Callable[[Known], Any] | None = None
    """What it is where nobody gave it; raises KeyError for what that takes and nobody gave either."""


def _cpu_options(known: Known) -> Mapping[str, Any]:
    options = _inner(known.get("system"), "options", "cpu")
    return options if isinstance(options, Mapping) else {}


def _inner(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _per_gpu(known: Known) -> int:
    return int(known["cpu_count"]) // max(int(known["gpu_count"]), 1)


def _workers(known: Known) -> int:
    options = _cpu_options(known)
    if (given := options.get("n_workers")) is not None:
        return int(given)
    per_gpu = int(known["cpu_per_gpu"])
    return int(
        min(max(per_gpu, options.get("min", LEAST_WORKERS)), options.get("max", MOST_WORKERS))
    )


def _device(known: Known) -> str:
    arch = known["arch"]
    return "cuda" if arch == "rocm" else arch if arch in DEVICES else "cpu"


def _under(folder: str, group: str = "") -> Callable[[Known], str]:
    def path(known: Known) -> str:
        return os.path.join(known["base"], folder, *([known[group]] if group else []))

    return path


TABLE: tuple[Placeholder, ...] = (
    Placeholder("arch", "cuda, rocm, xpu, hpu or cpu", "machine"),
    Placeholder("device_name", "what PyTorch calls such a device", "machine", _device),
    Placeholder(
        "ccl",
        "the communication library: nccl, rccl, ccl, hccl, gloo",
        "machine",
        lambda known: LIBRARIES.get(known["arch"], "gloo"),
    ),
    Placeholder("gpu_count", "accelerators of the machine", "machine"),
    Placeholder("cpu_count", "processors that may be used", "machine"),
    Placeholder("cpu_per_gpu", "cpu_count // gpu_count", "machine", _per_gpu),
    Placeholder("n_worker", "cpu_per_gpu, at least 2 and at most 16", "machine", _workers),
    Placeholder(
        "gpu",
        "gpu.count, gpu.name, gpu.capacity",
        "machine",
        lambda known: {"count": known["gpu_count"], "arch": known["arch"]},
    ),
    Placeholder(
        "nodes",
        "the machines of the system file",
        "machine",
        lambda known: _inner(known.get("system"), "nodes") or [{"name": "local", "main": True}],
    ),
    Placeholder("device_count", "devices that this job uses", "job"),
    Placeholder("devices", "their names", "job"),
    Placeholder("base", "the base folder", "folder"),
    Placeholder("data", "the benchmark's data", "folder"),
    Placeholder("out", "where this process may write", "folder"),
    Placeholder("source", "the benchmark's sources", "folder"),
    Placeholder("cache", "what may be downloaded twice", "folder", _under("cache")),
    Placeholder("name", "the benchmark's name", "benchmark"),
    Placeholder(
        "benchmark_folder",
        "the folder of its definition",
        "benchmark",
        lambda known: known["definition"],
    ),
    Placeholder(
        "milabench_name", "milabench's word for name", "benchmark", lambda known: known["name"]
    ),
    Placeholder(
        "milabench_code", "… for benchmark_folder", "benchmark", lambda known: known["definition"]
    ),
    Placeholder("milabench_base", "… for base", "folder", lambda known: known["base"]),
    Placeholder("milabench_data", "BASE/data, shared by all", "folder", _under("data")),
    Placeholder("milabench_cache", "… for cache", "folder", lambda known: known["cache"]),
    Placeholder("milabench_runs", "BASE/runs", "folder", _under("runs")),
    Placeholder("milabench_extra", "BASE/extra/GROUP", "folder", _under("extra", "group")),
    Placeholder(
        "milabench_venv", "BASE/venv/INSTALL_GROUP", "folder", _under("venv", "install_group")
    ),
)

NAMES = {each.name: each for each in TABLE}


class Context(dict[str, Any]):
    """What placeholders mean: as given, and what follows from that when it is first asked for."""

    def __missing__(self, name: str) -> Any:
        known = NAMES.get(name)
        if known is None or known.derived is None:
            raise KeyError(name)
        value = self[name] = known.derived(self)
        return value
