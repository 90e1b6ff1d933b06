"""What a machine has to run a suite on: devices, cores, memory.

:func:`find_machine` finds it out for this machine. Engines that reach others describe them as a
:class:`Machine` too, with :func:`node_devices` for what ``--devices`` means there.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ...errors import UserError

KINDS = {"nvidia": "cuda", "scripted": "cuda", "amd": "rocm"}
"""The kind of device that each vendor of :mod:`injector.monitor.devices` makes."""
SYNONYMS = {"gpu": "cuda", "hip": "rocm"}
MOST_VIRTUAL = 1024
"""The largest number of shares that ``--devices cpu:N`` divides the cores into."""


@dataclass(frozen=True)
class PlanDevice:
    """One device that processes can be given: an accelerator, or a share of the cores."""

    kind: str
    """``cuda`` ``rocm`` ``xpu`` ``cpu``."""
    number: int
    """Its number among the visible devices of its kind, as a program counts them."""
    token: str = ""
    """What stands for it in a variable such as ``CUDA_VISIBLE_DEVICES``; empty for a share of the cores."""
    name: str = ""
    uuid: str = ""
    memory: int | None = None
    """Bytes, if known."""

    @property
    def key(self) -> str:
        """Its name in a plan, such as ``cuda:0``."""
        return f"{self.kind}:{self.number}"


def visible_devices(devices: Sequence[PlanDevice]) -> dict[str, str | None]:
    """The environment variables (None: to remove) that make a program see these devices and no others."""
    tokens = ",".join(device.token for device in devices)
    kind = devices[0].kind
    if kind == "cuda":
        # Numbers are the driver's, in the order of the PCI bus; by default CUDA numbers the fastest first.
        return {"CUDA_VISIBLE_DEVICES": tokens, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if kind == "rocm":
        # HIP applies its own variables to the devices that ROCR leaves: set as well, they would choose twice.
        removed = {"HIP_VISIBLE_DEVICES": None, "CUDA_VISIBLE_DEVICES": None}
        return {"ROCR_VISIBLE_DEVICES": tokens, **removed}
    if kind == "xpu":
        return {"ZE_AFFINITY_MASK": tokens}
    return {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}


class NodeFacts(NamedTuple):
    """The hardware of one machine that an engine reaches."""

    cpus: int
    memory: int
    """Bytes."""
    gpus: tuple[tuple[str, int], ...]
    """The name of each GPU and its memory in bytes."""


@dataclass(frozen=True)
class Machine:
    """The devices that a suite may use, and the cores and memory that they share."""

    devices: tuple[PlanDevice, ...]
    cores: tuple[int, ...]
    """The numbers of the cores that this process may run on."""
    cpu_count: int
    """How many cores may be busy at the same time: fewer than ``cores`` if a container has a quota."""
    memory: int | None = None
    """Bytes that may be used."""
    host: str = ""
    count: int = 1
    """How many machines like this one a job may have."""
    engine: Mapping[str, Any] = field(default_factory=dict)
    """The engine that reaches the machines: its ``name`` and its own options. Empty for this machine."""
    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    """The machines that a job may get, by name, if the engine knows them."""
    devices_known: bool = True
    """Whether name and memory of the devices are known before a job has its machines (not under Slurm)."""

    @property
    def arch(self) -> str:
        """The kind of its devices."""
        return self.devices[0].kind

    def share(self, number: int, of: int) -> tuple[int, ...]:
        """The cores for process ``number`` of the ``of`` that run side by side.

        They are neighbours, and belong to this process alone unless there are more processes than cores.
        """
        size = max(1, self.cpu_count // of)
        first = number * size % len(self.cores)
        # Repeated, since a share that begins near the last core goes on at the first.
        return tuple(sorted((self.cores + self.cores)[first : first + size]))

    def facts(self) -> dict[str, Any]:
        """What placeholders and conditions of a suite can use about the machine.

        Shares of the cores count as devices (``gpu_count``), so that a suite for GPUs runs on them unchanged.
        """
        count = len(self.devices)
        facts = {
            "arch": self.arch,
            "gpu_count": count,
            "cpu_count": self.cpu_count,
            "cpu_per_gpu": max(1, self.cpu_count // count),
            "gpu": {"count": count, "arch": self.arch, **device_facts(self.devices)},
        }
        if self.engine:
            names = list(self.nodes) or [f"{n}" for n in range(self.count)]
            facts["nodes"] = [{"name": name, "main": not n} for n, name in enumerate(names)]
        return facts

    def facts_on(self, node: str) -> dict[str, Any]:
        """:meth:`facts` as they are on one of :attr:`nodes`."""
        cpus, _, gpus = self.nodes[node]
        facts = {**self.facts(), "cpu_count": cpus}
        facts["cpu_per_gpu"] = max(1, cpus // len(self.devices))
        if self.arch != "cpu" and gpus:
            devices = [
                replace(d, name=gpus[d.number][0], memory=gpus[d.number][1]) for d in self.devices
            ]
            facts["gpu"] = {**facts["gpu"], **device_facts(devices)}
        return facts

    def described(self) -> dict[str, Any]:
        """The machine as ``plan.json`` records it."""
        return {
            "arch": self.arch,
            "host": self.host,
            "cores": list(self.cores),
            "cpu_count": self.cpu_count,
            "memory": self.memory,
            "count": self.count,
            "engine": dict(self.engine),
            "devices": [
                {"key": d.key, "name": d.name, "uuid": d.uuid, "memory": d.memory}
                for d in self.devices
            ],
        }


def device_facts(devices: Sequence[PlanDevice]) -> dict[str, str]:
    """What conditions can use about devices: the first one's ``name`` and the smallest ``capacity``."""
    memory = min((device.memory for device in devices if device.memory), default=0)
    return {"name": devices[0].name, "capacity": f"{memory >> 20} MiB"}


def find_machine(option: str | None = None, environ: Mapping[str, str] | None = None) -> Machine:
    """This machine with the devices that ``--devices`` chooses.

    ``option`` is ``cpu:N`` for N shares of the cores, ``cuda:0,1`` or ``cuda`` (likewise ``rocm`` and
    ``xpu``), or ``all``: the accelerators that ``environ`` leaves visible, else one share of all cores.
    Raises UserError if there is no such device; the message lists those that exist.
    """
    from ...monitor.host import limits

    environ = os.environ if environ is None else environ
    cores = tuple(sorted(os.sched_getaffinity(0)))
    group = limits().get("cgroup", {})
    cpu_count = min(len(cores), max(1, int(group.get("cpus") or len(cores))))
    memory = group.get("memory_limit")
    with suppress(ValueError, OSError):
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory = min(physical, memory or physical)
    devices = _devices((option or "all").strip(), environ, memory)
    return Machine(devices, cores, cpu_count, memory, socket.gethostname())


def node_devices(
    option: str | None, gpus: Sequence[tuple[str, int | None]], place: str
) -> tuple[PlanDevice, ...]:
    """The devices of another machine that ``--devices`` chooses.

    ``gpus`` has the name and the memory in bytes of each of its GPUs, ``place`` is what messages call it.
    Raises UserError if it has no such devices, or ``option`` is not understood.
    """
    option = (option or "all").strip()
    kind, _, rest = option.partition(":")
    kind = SYNONYMS.get(kind, kind)
    if kind == "cpu" or (option == "all" and not gpus):
        return _core_shares(option, rest, None)
    if option == "all":
        kind = "cuda"
    if kind not in ("cuda", "rocm"):
        text = f"on {place} it is all, cpu:4, cuda:0,1 or rocm:0"
        raise UserError(f"--devices {option}: not understood; {text}")
    numbers = _numbers(option, rest) if rest else list(range(len(gpus)))
    if not numbers or max(numbers) >= len(gpus):
        raise UserError(f"--devices {option}: {place} has {len(gpus)} GPUs, counted from 0")
    return tuple(PlanDevice(kind, n, str(n), gpus[n][0], memory=gpus[n][1]) for n in numbers)


def _devices(option: str, environ: Mapping[str, str], memory: int | None) -> tuple[PlanDevice, ...]:
    """The devices of this machine that ``option`` chooses. Raises UserError."""
    kind, _, rest = option.partition(":")
    kind = SYNONYMS.get(kind, kind)
    if kind == "cpu":
        return _core_shares(option, rest, memory)
    if kind == "xpu" and rest:
        return tuple(PlanDevice("xpu", number, str(number)) for number in _numbers(option, rest))
    if kind == "xpu":  # no library that is always there can list them, as NVML does NVIDIA's
        raise UserError(f"--devices {option}: devices of Intel have to be named, as in xpu:0,1")
    if (kind == "all" and rest) or kind not in ("all", *KINDS.values()):
        raise UserError(_misunderstood(option))
    accelerators, problems = _accelerators(environ)
    # A broken driver shows no accelerators: to fall back to the cores would hide that, and take days.
    if kind == "all" and problems:
        raise UserError(f"{'; '.join(problems)} (--devices cpu:1 runs on the cores)")
    if kind == "all":
        return tuple(accelerators) or _core_shares("cpu", "", memory)
    of_kind = [device for device in accelerators if device.kind == kind]
    return _listed_devices(option, rest, of_kind, problems)


def _core_shares(option: str, count: str, memory: int | None) -> tuple[PlanDevice, ...]:
    """``count`` equal shares of the cores and of ``memory``. Raises UserError."""
    if count and not (count.isascii() and count.isdecimal()):
        raise UserError(_misunderstood(option))
    number = int(count or 1)
    if not 0 < number <= MOST_VIRTUAL:
        raise UserError(f"--devices {option}: between 1 and {MOST_VIRTUAL} shares of the cores")
    part = memory // number if memory else None
    return tuple(PlanDevice("cpu", n, memory=part) for n in range(number))


def _listed_devices(
    option: str, rest: str, devices: Sequence[PlanDevice], problems: Sequence[str]
) -> tuple[PlanDevice, ...]:
    """Those of ``devices`` whose numbers ``rest`` lists, or all of them. Raises UserError.

    ``problems`` says why devices could not be found, if so.
    """
    by_number = {device.number: device for device in devices}
    wanted = _numbers(option, rest) if rest else list(by_number)
    missing = [number for number in wanted if number not in by_number]
    if missing or not wanted:
        kind = devices[0].kind if devices else option.partition(":")[0]
        lost = f"there is no {kind}:{missing[0]}" if missing else f"there is no {kind} device"
        available = ", ".join(f"{device.key} ({device.name})" for device in devices)
        why = f" ({'; '.join(problems)})" if problems else ""
        raise UserError(
            f"--devices {option}: {lost}{why}; there {'are ' + available if available else 'is cpu'}"
        )
    return tuple(by_number[number] for number in wanted)


def _numbers(option: str, rest: str) -> list[int]:
    """The numbers in ``0,1`` or ``cuda:0,cuda:1``, each once. Raises UserError."""
    words = [word.strip().rpartition(":")[2] for word in rest.split(",")]
    if not all(word.isascii() and word.isdecimal() for word in words):
        raise UserError(_misunderstood(option))
    return list(dict.fromkeys(map(int, words)))


def _misunderstood(option: str) -> str:
    return f"--devices {option}: not understood; it is all, cpu:4, cuda:0,1, rocm:0 or xpu:0"


def _accelerators(environ: Mapping[str, str]) -> tuple[list[PlanDevice], list[str]]:
    """The accelerators that ``environ`` leaves visible, and why others could not be found."""
    from ...monitor.devices import Devices

    visible = Devices.visible(environ)
    memory = {
        number: state.get("memory_total")
        for number, state in visible.sample(("memory_total",)).items()
    }
    devices: list[PlanDevice] = []
    for number, facts in visible.described().items():
        kind = KINDS[facts["vendor"]]
        # CUDA_VISIBLE_DEVICES takes a slice of a GPU (MIG) by its UUID only.
        is_slice = facts["uuid"].startswith("MIG-")
        devices.append(
            PlanDevice(
                kind,
                sum(device.kind == kind for device in devices),
                facts["uuid"] if is_slice else str(facts["index"]),
                facts["name"],
                facts["uuid"],
                memory[number],
            )
        )
    return devices, visible.problems
