"""What this machine has to run a suite on: devices, cores, memory."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ...errors import UserError

KINDS = {"nvidia": "cuda", "scripted": "cuda", "amd": "rocm"}
"""How devices of a vendor are called, as of :mod:`injector.monitor.devices`."""
SYNONYMS = {"gpu": "cuda", "hip": "rocm"}
MOST_VIRTUAL = 1024


@dataclass(frozen=True)
class PlanDevice:
    """One device that processes can be given: an accelerator, or a share of the cores."""

    kind: str
    """``cuda`` ``rocm`` ``xpu`` ``cpu``."""
    number: int
    """Among those of its kind that this process may use, as a program counts them."""
    token: str = ""
    """What stands for it in a variable such as ``CUDA_VISIBLE_DEVICES``; none for a share of cores."""
    name: str = ""
    uuid: str = ""
    memory: int | None = None
    """Bytes."""

    @property
    def key(self) -> str:
        """``cuda:0``."""
        return f"{self.kind}:{self.number}"

    def key_on(self, machine: int) -> str:
        """``cuda:0`` of a job's first machine, ``cuda:0@1`` of its second."""
        return f"{self.key}@{machine}" if machine else self.key


class NodeFacts(NamedTuple):
    """What a machine has that an engine reaches."""

    cpus: int
    memory: int
    """Bytes."""
    gpus: tuple[tuple[str, int], ...]
    """Of each its name and its memory in bytes."""


@dataclass(frozen=True)
class Machine:
    """The devices that a suite may use, and what they share."""

    devices: tuple[PlanDevice, ...]
    cores: tuple[int, ...]
    """The numbers of the cores that this process may run on."""
    cpu_count: int
    """Cores that may be used at the same time: fewer than ``cores`` where a container has a quota."""
    memory: int | None = None
    """Bytes that may be used."""
    host: str = ""
    count: int = 1
    """Machines like this one that a job may have."""
    engine: Mapping[str, Any] = field(default_factory=dict)
    """What reaches them, where they are not this one: ``name``, and what that engine needs to know."""
    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    """The machines that a job may get, by their names, where the engine knows them."""
    devices_known: bool = True
    """Whether name and memory of the devices are known before a job has its machines."""

    @property
    def arch(self) -> str:
        """The kind of its devices."""
        return self.devices[0].kind

    @property
    def cpu_per_gpu(self) -> int:
        """Cores for each device; never none."""
        return max(1, self.cpu_count // len(self.devices))

    def share(self, number: int, of: int) -> tuple[int, ...]:
        """The cores of the process ``number`` of ``of`` that run side by side.

        Neighbouring cores, not shared with another process as long as there are enough.
        """
        each = max(1, self.cpu_count // of)
        first = number * each % len(self.cores)
        return tuple(sorted((self.cores + self.cores)[first : first + each]))

    def facts(self) -> dict[str, Any]:
        """What placeholders and conditions of a suite may ask about the machine.

        Shares of the processor count as devices: the same plans run on them.
        """
        count = len(self.devices)
        found = {
            "arch": self.arch,
            "gpu_count": count,
            "cpu_count": self.cpu_count,
            "cpu_per_gpu": self.cpu_per_gpu,
            "gpu": {"count": count, "arch": self.arch, **device_facts(self.devices)},
        }
        if self.engine:
            names = list(self.nodes) or [f"{n}" for n in range(self.count)]
            found["nodes"] = [{"name": each, "main": not n} for n, each in enumerate(names)]
        return found

    def facts_on(self, node: str) -> dict[str, Any]:
        """The same of one of :attr:`nodes`."""
        cpus, _, gpus = self.nodes[node]
        found = {**self.facts(), "cpu_count": cpus}
        found["cpu_per_gpu"] = max(1, cpus // len(self.devices))
        if self.arch != "cpu" and gpus:
            there = [
                replace(d, name=gpus[d.number][0], memory=gpus[d.number][1]) for d in self.devices
            ]
            found["gpu"] = {**found["gpu"], **device_facts(there)}
        return found

    def described(self) -> dict[str, Any]:
        """For ``plan.json``."""
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
    """What conditions may ask about devices: the ``name`` of the first, and the least ``capacity``."""
    memory = min((each.memory for each in devices if each.memory), default=0)
    return {"name": devices[0].name, "capacity": f"{memory >> 20} MiB"}


def find_machine(option: str | None = None, environ: Mapping[str, str] | None = None) -> Machine:
    """This machine with the devices that ``--devices`` names.

    ``option``: ``cpu:N`` (N shares of the cores), ``cuda:0,1`` (or ``cuda``, ``rocm:…``), or ``all``:
    the accelerators that the environment leaves visible, else one share of all cores.

    Raises:
        UserError: no such device; the text says which there are.
    """
    environ = os.environ if environ is None else environ
    cores = tuple(sorted(os.sched_getaffinity(0)))
    limits = _limits()
    cpu_count = min(len(cores), max(1, int(limits.get("cpus") or len(cores))))
    memory = _memory(limits)
    devices = _devices((option or "all").strip(), environ, memory)
    return Machine(devices, cores, cpu_count, memory, socket.gethostname())


def node_devices(
    option: str | None, gpus: Sequence[tuple[str, int | None]], place: str
) -> tuple[PlanDevice, ...]:
    """The devices of another machine, called ``place``, that ``--devices`` names.

    ``gpus``: of each that it has name and memory in bytes. Raises UserError.
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
    kind, _, rest = option.partition(":")
    kind = SYNONYMS.get(kind, kind)
    if kind == "cpu":
        return _core_shares(option, rest, memory)
    if kind == "xpu":
        return _intel_devices(option, rest)
    if kind == "all" and rest:
        raise UserError(_misunderstood(option))
    if kind not in ("all", *KINDS.values()):
        raise UserError(_misunderstood(option))
    found, problems = _accelerators(environ)
    if kind == "all" and problems:  # running on the cores instead would be no small surprise
        raise UserError(f"{'; '.join(problems)} (--devices cpu:1 runs on the cores)")
    if kind == "all":
        return tuple(found) or _core_shares("cpu", "", memory)
    return _listed_devices(option, rest, [each for each in found if each.kind == kind], problems)


def _core_shares(option: str, count: str, memory: int | None) -> tuple[PlanDevice, ...]:
    """So many shares of the processor."""
    if count and not (count.isascii() and count.isdecimal()):
        raise UserError(_misunderstood(option))
    number = int(count or 1)
    if not 0 < number <= MOST_VIRTUAL:
        raise UserError(f"--devices {option}: between 1 and {MOST_VIRTUAL} shares of the cores")
    part = memory // number if memory else None
    return tuple(PlanDevice("cpu", each, memory=part) for each in range(number))


def _intel_devices(option: str, rest: str) -> tuple[PlanDevice, ...]:
    """Devices of Intel: nothing that is always installed could list them."""
    if not rest:
        raise UserError(f"--devices {option}: devices of Intel have to be named, as in xpu:0,1")
    return tuple(PlanDevice("xpu", each, str(each)) for each in _numbers(option, rest))


def _listed_devices(
    option: str, rest: str, found: Sequence[PlanDevice], problems: Sequence[str]
) -> tuple[PlanDevice, ...]:
    """Those of ``found`` that ``rest`` counts up, or all of them."""
    by_number = {each.number: each for each in found}
    wanted = _numbers(option, rest) if rest else list(by_number)
    missing = [number for number in wanted if number not in by_number]
    if missing or not wanted:
        kind = found[0].kind if found else option.partition(":")[0]
        lost = f"there is no {kind}:{missing[0]}" if missing else f"there is no {kind} device"
        there = ", ".join(f"{each.key} ({each.name})" for each in found)
        why = f" ({'; '.join(problems)})" if problems else ""
        raise UserError(
            f"--devices {option}: {lost}{why}; there {'are ' + there if there else 'is cpu'}"
        )
    return tuple(by_number[number] for number in wanted)


def _numbers(option: str, rest: str) -> list[int]:
    words = [word.strip().rpartition(":")[2] for word in rest.split(",")]
    if not all(word.isascii() and word.isdecimal() for word in words):
        raise UserError(_misunderstood(option))
    return list(dict.fromkeys(map(int, words)))


def _misunderstood(option: str) -> str:
    return f"--devices {option}: not understood; it is all, cpu:4, cuda:0,1, rocm:0 or xpu:0"


def _accelerators(environ: Mapping[str, str]) -> tuple[list[PlanDevice], list[str]]:
    from ...monitor.devices import Devices

    visible = Devices.visible(environ)
    memory = {
        number: state.get("memory_total")
        for number, state in visible.sample(("memory_total",)).items()
    }
    found: list[PlanDevice] = []
    for number, each in visible.described().items():
        kind = KINDS[each["vendor"]]
        sliced = each["uuid"].startswith("MIG-")
        found.append(
            PlanDevice(
                kind,
                sum(other.kind == kind for other in found),
                each["uuid"] if sliced else str(each["index"]),
                each["name"],
                each["uuid"],
                memory[number],
            )
        )
    return found, visible.problems


def _limits() -> Mapping[str, Any]:
    from ...monitor.host import limits

    group: Mapping[str, Any] = limits().get("cgroup", {})
    return group


def _memory(limits: Mapping[str, Any]) -> int | None:
    """Bytes that the machine has, or the container allows."""
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return limits.get("memory_limit")
    return min(there, limits.get("memory_limit") or there)
