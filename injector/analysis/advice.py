"""What to try where a verdict names something, as far as it fits what is known of the program."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..store.layout import gives
from .profile import Loop, Node

LOADER = re.compile(r"(DataLoader of [^,]+)(?:, (\d+) workers?)?")
"""How torch's voirfile names a loader: one without workers says nothing of them."""
IN_MEMORY = re.compile(r"DataLoader of (TensorDataset|list|tuple|ndarray|Tensor)\b")
COMPILED = ("OptimizedModule", "compiled ")


class Host(NamedTuple):
    """What is known of the hosts of a loop while it ran."""

    cores: int | None = None
    """Of the smallest."""
    full: bool = False
    """Whether all cores of some host, or all that its container may use, were in use."""
    crowded: str = ""
    """Which cores other programs had, in words; empty where they were in nobody's way."""


def nodes(node: Node, name: str) -> list[Node]:
    """The regions called ``name`` within ``node``, itself included."""
    found = [node] if node.name == name else []
    for child in node.children:
        found += nodes(child, name)
    return found


def heaviest(loop: Loop, *names: str) -> Node | None:
    """The region of one of these names that takes most of a step."""
    found = [node for name in names for node in nodes(loop.tree, name)]
    return max(found, key=lambda node: node.share, default=None)


def is_compiled(loop: Loop) -> bool:
    """Whether the model that takes most of a step was compiled, as far as that is seen."""
    node = heaviest(loop, "forward")
    return bool(node and node.what and any(mark in node.what for mark in COMPILED))


def reading(loop: Loop, host: Host) -> tuple[str, ...]:
    """For ``io``."""
    node = heaviest(loop, "io", "io.start")
    what = node.what if node and node.what else "the loader"
    if IN_MEMORY.match(what):
        return (
            "its examples are in memory: take a batch out of the tensors with one index, instead of "
            "collating single examples (or a BatchSampler as sampler, with batch_size=None)",
        )
    known = LOADER.fullmatch(what)
    what, workers = (known[1], int(known[2] or 0)) if known else (what, None)
    ahead = "decode or transform once, ahead of time, and store what comes of it"
    if host.full:
        free = ("leave it the cores that other programs have",) if host.crowded else ()
        cheaper = "what is done for an example has to become cheaper: faster decoding, fewer copies"
        return (*free, f"the cores are full: {cheaper}", ahead)
    local = "read from local storage, in fewer and larger files"
    if gives(what):
        first = (
            f"let more threads or processes make batches ahead: training waits for them in {what}"
        )
        return (first, ahead, local)
    if workers is None:
        return (f"let {what} make batches ahead, in processes or threads", ahead, local)
    if workers and host.cores is not None and workers >= host.cores:
        return (
            f"its {workers} workers have a core each: what they do has to become cheaper",
            ahead,
            local,
        )
    if workers:
        first = f"give {what} more worker processes (num_workers is {workers}), or prefetch further ahead"
    else:
        first = f"give {what} worker processes (num_workers), with persistent_workers=True"
    return (first, ahead, local)


def moving(loop: Loop) -> tuple[str, ...]:
    """For ``h2d``."""
    node = heaviest(loop, "h2d")
    advice = (
        "pin the loader's memory (pin_memory=True) and copy with non_blocking=True",
        "copy the next batch while this one is worked on; send smaller types and convert there",
    )
    if node and node.nbytes and node.host.median > 0:
        rate = node.nbytes / node.host.median
        return (*advice, f"{node.nbytes / 1e6:.3g} MB a step move at {rate / 1e9:.3g} GB/s")
    return advice


def computing(loop: Loop, part: str) -> tuple[str, ...]:
    """For what is computed, most of it in the region ``part``."""
    if is_compiled(loop):
        return (f"{part} is the largest part: lower precision, a faster device",)
    return (f"{part} is the largest part: lower precision, a compiled model, a faster device",)


def launching(loop: Loop) -> tuple[str, ...]:
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
    "env": (
        "let several environments step beside each other, in processes or as one that is vectorised",
    ),
    "wait": (
        "look at what fills the queue or holds the lock: let it work ahead, or in more threads or "
        "processes",
    ),
}
BESIDE = (
    "look at what these lines do: logging, metrics, .item() and printing each step, "
    "transforms on the host",
    'name it with injector.region("…") to see it apart',
)
MADE = (
    "make the batch ahead of time: in a Dataset that a DataLoader with workers reads, or in a thread",
    BESIDE[-1].replace("apart", "apart, or have it as io with ov.region in a voirfile"),
)
KEPT = (
    "look for what is kept from step to step: losses with their graphs (.item(), .detach()), "
    "lists of outputs, caches",
)
UNNAMED = ("name the loop: ov.step or ov.loader in a voirfile, or injector.region in the program",)
BOOSTING = ("fewer bins, leaves or rounds, more threads, a device, where the library has them",)
UNDIVIDED = (
    "name its parts: ov.region in a voirfile, or injector.region in the program; what compiled code "
    "does inside of one call (a round of boosting, a tree) is not seen",
)
