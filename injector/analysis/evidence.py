"""What a verdict is made of, and what to try: shares of a loop, its hosts, advice that fits them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..rewrite.batches import Making
from ..store.spans import gives
from ..value_class import field, value_class
from .arrays import exceptional, middle_of
from .gaps import LargestGap
from .machines import HostUsage
from .profile import (
    BOOSTING,
    READING,
    SYNC,
    UNSEEN_CALLS,
    Node,
    SourceLine,
    TimeSegment,
    TrainingLoop,
    UpperBound,
)
from .tables import Seconds
from .traces import LoopTrace, is_queued_to

WINDOWS, IN_WINDOW = 16, 8
"""Into how many parts a loop is cut at most, and of how many steps each is at least."""
FULL = 0.9
"""Of the cores, from which nothing is left for more."""
GROWTH = 1 << 30
"""Bytes."""
LAG = 1.0
"""Seconds: the load of a device at a moment is that of up to so long before it."""
SAMPLES = 3
"""Of a device, without which its load is not known."""
LEAST_STEPS = 150
"""Of three bands of 50 each, in which memory has to grow."""

Memory = Mapping[int, tuple[Sequence[float], Sequence[float]]]
"""By process (its index in run.json): unix seconds, and bytes of resident memory at each."""
Shares = Mapping[str, float]
"""The part of a step that each region takes without those inside it, 0…1."""


class Host(NamedTuple):
    """What is known of the hosts of a loop while it ran."""

    cores: int | None = None
    """Of the smallest."""
    full: bool = False
    """Whether all cores of some host, or all that its container may use, were in use."""
    crowded: str = ""
    """Which cores other programs had, in words; empty where none took cores that this one needed."""


class DeviceWork(NamedTuple):
    """What the devices of a loop had to do in its steps."""

    idle: Shares
    """Of each region, the part of its time on the host in which the device had nothing queued."""
    copying: float
    """The part of the steps in which devices copied batches that were queued."""
    load: float | None
    """The mean part of the time in which devices computed, as their driver has it; None where it was
    sampled too seldom."""

    def queued(self, shares: Shares) -> float:
        """The part of a step of these ``shares`` in which the device had work for certain."""
        return sum(share * (1 - self.idle.get(name, 1.0)) for name, share in shares.items())


@value_class
class Evidence:
    """What a verdict is made of."""

    loop: TrainingLoop
    windows: list[Shares]
    """Of the parts of the run, in order."""
    device: DeviceWork | None = None
    """None without a device clock."""
    between: LargestGap | None = None
    growth: tuple[int, float] | None = None
    """Which process grew, and by how many bytes."""
    segments: Sequence[TimeSegment] = ()
    others: Sequence[Node] = ()
    """Regions outside of steps."""
    wall: float = 0.0
    command: Sequence[str] = ()
    """That started the program."""
    host: Host = field(default_factory=Host)
    bounds: Sequence[UpperBound] = ()


def windows_of(traces: list[LoopTrace], warmup: int) -> list[Shares]:
    """The same over parts of the measured steps, all ranks together."""
    count = min(len(trace) - trace.measured_from(warmup) for trace in traces)
    count = max(1, min(WINDOWS, count // IN_WINDOW))
    sums: list[dict[str, float]] = [{} for _ in range(count)]
    for trace in traces:
        first = trace.measured_from(warmup)
        kept = ~exceptional(trace.table.seconds[first:])
        edges, whole = np.linspace(0, len(kept), count + 1).astype(int)[:-1], bool(kept.all())
        for name, seconds in trace.table.regions().items():
            counted = seconds[first:] if whole else seconds[first:] * kept
            parts = np.add.reduceat(counted, edges, dtype=np.float64)
            name = "io" if name in READING else name
            for window, part in zip(sums, parts.tolist(), strict=True):
                window[name] = window.get(name, 0.0) + part
    totals = [sum(window.values()) for window in sums]
    return [
        {name: part / total for name, part in window.items()}
        for window, total in zip(sums, totals, strict=True)
        if total > 0
    ]


def device_work(
    traces: list[LoopTrace], warmup: int, watched: Sequence[HostUsage]
) -> DeviceWork | None:
    """What the devices of a loop had to do in its measured steps, without exceptional ones."""
    idle: dict[str, float] = {}
    whole: dict[str, float] = {}
    copied = total = 0.0
    for trace in traces:
        table = trace.table
        if table.idle is None or table.copying is None or not is_queued_to(trace.device):
            continue
        first = trace.measured_from(warmup)
        usual = ~exceptional(table.seconds[first:])
        if table.timed is not None:
            usual &= table.timed[first:]
        for sums, columns in ((whole, table.regions()), (idle, table.idle_regions())):
            for name, seconds in columns.items():
                name = "io" if name in READING else name
                sums[name] = sums.get(name, 0.0) + _sum(seconds[first:][usual])
        copied += _sum(table.copying[first:][usual])
        total += _sum(table.seconds[first:][usual])
    if total <= 0:
        return None
    parts = {name: min(idle[name] / seconds, 1.0) for name, seconds in whole.items() if seconds > 0}
    # What was queued last may be copied after the last step.
    copied = min(copied, max(total - sum(idle.values()), 0.0))
    return DeviceWork(parts, copied / total, _load(traces, watched))


def _sum(seconds: Seconds) -> float:
    return float(seconds.sum(dtype=np.float64))


def _load(traces: list[LoopTrace], watched: Sequence[HostUsage]) -> float | None:
    """The mean load of the devices of a loop; None where one was sampled too seldom."""
    found = []
    for trace in traces:
        begin, end = trace.thirds[0] / 1e9 + LAG, trace.thirds[-1] / 1e9
        devices = [each for m in watched if m.host == trace.source.host for each in m.devices]
        # In a container, a driver may know processes by other numbers.
        mine = [each for each in devices if trace.source.pid in each.pids] or devices
        loads = [load for time, load in mine[0].loads if begin <= time <= end] if mine else []
        if len(mine) != 1 or len(loads) < SAMPLES:
            return None
        found.append(sum(loads) / len(loads))
    return sum(found) / len(found) if found else None


def growth_of(memory: Memory, traces: list[LoopTrace]) -> tuple[int, float] | None:
    """The process whose memory grew most through three bands of the loop, beyond doubt."""
    worst: tuple[int, float] | None = None
    for trace in traces:
        if len(trace) < LEAST_STEPS or trace.source.index not in memory:
            continue
        times, values = (np.asarray(each, np.float64) for each in memory[trace.source.index])
        edges = [moment / 1e9 for moment in trace.thirds]
        bands = [values[(times >= a) & (times <= b)] for a, b in pairwise(edges)]
        if any(not len(band) for band in bands):
            continue
        low, middle, high = (float(middle_of(band)) for band in bands)
        if low < middle < high and high - low >= GROWTH and (not worst or high - low > worst[1]):
            worst = trace.source.index, high - low
    return worst


def host_of(watched: Sequence[HostUsage], traces: list[LoopTrace]) -> Host:
    """What the monitors saw of the hosts of a loop while it ran."""
    names = {trace.source.host for trace in traces}
    begin = min(trace.thirds[0] for trace in traces) / 1e9
    end = max(trace.thirds[-1] for trace in traces) / 1e9
    mine = [machine for machine in watched if machine.host in names]
    return Host(
        cores=min((machine.total_cores for machine in mine if machine.total_cores), default=None),
        full=any(_is_full(machine, begin, end) for machine in mine),
        crowded=next((machine.crowded for machine in mine if machine.crowded), ""),
    )


def _is_full(machine: HostUsage, begin: float, end: float) -> bool:
    during = [load for time, load in machine.load if begin <= time <= end + 1]
    if during and sum(during) / len(during) >= FULL:
        return True
    limit, used = machine.container.get("cpus"), machine.cores
    return bool(limit and used and used >= FULL * limit)


LOADER = re.compile(r"(DataLoader of [^,]+)(?:, (\d+) workers?)?")
"""How torch's voirfile names a loader: one without workers says nothing of them."""
IN_MEMORY = re.compile(r"DataLoader of (TensorDataset|ndarray|Tensor)\b")
EXAMPLES = re.compile(r"DataLoader of (list|tuple)\b")
"""In memory, too, but each by itself: tensors, texts or graphs."""
COMPILED = ("OptimizedModule", "compiled ")


def nodes(node: Node, name: str) -> list[Node]:
    """The regions called ``name`` within ``node``, itself included."""
    found = [node] if node.name == name else []
    for child in node.children:
        found += nodes(child, name)
    return found


def heaviest(loop: TrainingLoop, *names: str) -> Node | None:
    """The region of one of these names that takes most of a step."""
    found = [node for name in names for node in nodes(loop.tree, name)]
    return max(found, key=lambda node: node.share, default=None)


def is_compiled(loop: TrainingLoop) -> bool:
    """Whether the model that takes most of a step, or more than it, was compiled, as far as that is seen."""
    node = heaviest(loop, "forward")
    if heaviest(loop, "compiled"):
        return True
    return bool(node and node.what and any(mark in node.what for mark in COMPILED))


def reading(loop: TrainingLoop, host: Host) -> tuple[str, ...]:
    """For ``io``."""
    node = heaviest(loop, "io", "io.start")
    if node and node.what is None:  # of no loader
        return (AHEAD,)
    what = node.what if node and node.what else "the loader"
    if IN_MEMORY.match(what):
        return (
            "its examples are in memory: take a batch out of the tensors with one index, instead of "
            "collating single examples (or a BatchSampler as sampler, with batch_size=None)",
        )
    if EXAMPLES.match(what):
        stacked = (
            "its examples are in memory: where they can be stacked, make one tensor of them in advance, and "
            "take each batch out of it with one index"
        )
        others = "else collate in worker processes (num_workers), with persistent_workers=True"
        return (stacked,) if host.full else (stacked, others)
    known = LOADER.fullmatch(what)
    what, workers = (known[1], int(known[2] or 0)) if known else (what, None)
    ahead = "decode or transform once in advance, and store the result"
    if host.full:
        free = ("free the cores that other programs use",) if host.crowded else ()
        cheaper = "reduce the work per example: faster decoding, fewer copies"
        return (*free, f"all cores are in use: {cheaper}", ahead)
    local = "read from local storage, in fewer and larger files"
    if gives(what):
        first = f"prepare batches in more threads or processes: training waits for them in {what}"
        return (first, ahead, local)
    if workers is None:
        return (f"prepare the batches of {what} in advance, in processes or threads", ahead, local)
    if workers and host.cores is not None and workers >= host.cores:
        return (
            f"its {workers} workers have a core each: reduce the work per example",
            ahead,
            local,
        )
    if workers:
        first = f"give {what} more worker processes (num_workers is {workers}), or prefetch further ahead"
    else:
        first = f"give {what} worker processes (num_workers), with persistent_workers=True"
    return (first, ahead, local)


def made(batch: Making, place: SourceLine | None, command: Sequence[str]) -> tuple[str, ...]:
    """For a batch that no loader makes; ``place`` is in the file that does, ``command`` has started it."""
    if not batch.functions or place is None:
        return (AHEAD, 'to record it as io: injector.region("io") in the program')
    where = _module(place.file, command)
    regions = "; ".join(f'ov.region("{where}/{path}", "io")' for path in batch.functions)
    return (
        AHEAD,
        f"to record it as io, save a voirfile FILE with `def instrument_batches(ov): {regions}` "
        "and run it with inject run --voirfile FILE",
    )


def _module(file: str, command: Sequence[str]) -> str:
    """How a selector names the module of ``file``: the program itself, or a module that it imports."""
    folder, name = os.path.split(file)
    if any(os.path.basename(word) == name for word in command):
        return "/"
    parts = [name.rpartition(".")[0]]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    module = ".".join(parts)
    return "/" if module in command or module.removesuffix(".__main__") in command else f"/{module}"


def moving(loop: TrainingLoop) -> tuple[str, ...]:
    """For ``h2d``."""
    node = heaviest(loop, "h2d")
    advice = (
        "pin the loader's memory (pin_memory=True) and copy with non_blocking=True",
        "copy the next batch while this one is processed; send smaller types and convert on the device",
    )
    if node and node.nbytes and node.host.median > 0:
        rate = node.nbytes / node.host.median
        return (*advice, f"{node.nbytes / 1e6:.3g} MB a step move at {rate / 1e9:.3g} GB/s")
    return advice


def computing(loop: TrainingLoop, part: str) -> tuple[str, ...]:
    """For what is computed, most of it in the region ``part``."""
    if part in BOOSTING:
        return ("fewer bins, leaves or rounds, more threads, a device, where the library has them",)
    if part in UNSEEN_CALLS:
        return (
            "more rows a call, a smaller model, more threads, a device, where the library has them",
        )
    if part == SYNC:
        return ("what the device computes is the largest part: lower precision, a faster device",)
    if is_compiled(loop):
        return (f"{part} is the largest part: lower precision, a faster device",)
    return (f"{part} is the largest part: lower precision, a compiled model, a faster device",)


def launching(loop: TrainingLoop) -> tuple[str, ...]:
    """For a device that waits until the host has launched something."""
    fewer = "larger batches; fused or foreach optimizers; fewer small operators"
    if is_compiled(loop):
        return ('capture the step as a graph (torch.compile(mode="reduce-overhead"))', fewer)
    return ("compile the model (torch.compile), or capture the step as a graph", fewer)


OF_REGIONS = {
    "comm": (
        "accumulate gradients over several batches (no_sync between), or take larger batches",
        "larger buckets, gradients in half precision, and a look at the network between the ranks",
    ),
    "env": ("run several environments in parallel, in processes or as one vectorised environment",),
    "wait": (
        "find what fills the queue or holds the lock, and let it work in advance, or in more threads or "
        "processes",
    ),
}
BESIDE = (
    "check what these lines do: logging, metrics, .item() and printing each step, "
    "transforms on the host",
    'name it with injector.region("…") to measure it by itself',
)
AHEAD = (
    "make the batch in advance: in a Dataset that a DataLoader with workers reads, or in a thread"
)
KEPT = (
    "look for objects that are kept from step to step: losses with their graphs (.item(), .detach()), "
    "lists of outputs, caches",
)
UNNAMED = ("name the loop: ov.step or ov.loader in a voirfile, or injector.region in the program",)
UNDIVIDED = (
    "name its parts: ov.region in a voirfile, or injector.region in the program; the inside "
    "of one call of compiled code (a round of boosting, a tree) is not recorded",
)
