"""What to try against each kind of bottleneck, by what is known of the loader, the model and the host."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ..rewrite.batches import BatchCode
from ..store.spans import gives
from .evidence import Host
from .profile import SourceLine
from .training_loop import BOOSTING, SYNC, UNSEEN_CALLS, Node, TrainingLoop, within

LOADER = re.compile(r"(DataLoader of [^,]+)(?:, (\d+) workers?)?")
"""How torch's voirfile labels a loader: without workers, it does not mention them."""
IN_MEMORY = re.compile(r"DataLoader of (TensorDataset|ndarray|Tensor)\b")
EXAMPLES = re.compile(r"DataLoader of (list|tuple)\b")
"""Loaders whose examples are in memory too, but one by one: tensors, texts or graphs."""
ONE_INDEX = (
    "its examples are in memory: take a batch out of the tensors with one index, instead of "
    "collating single examples (or a BatchSampler as sampler, with batch_size=None)"
)
STACKED = (
    "its examples are in memory: where they can be stacked, make one tensor of them in advance, and "
    "take each batch out of it with one index",
    "else collate in worker processes (num_workers), with persistent_workers=True",
)
CHEAPER = "reduce the work per example"
ONCE = "decode or transform once in advance, and store the result"
LOCAL = "read from local storage, in fewer and larger files"
COMPILED = ("OptimizedModule", "compiled ")
"""Parts of the labels of compiled models."""


def nodes(node: Node, name: str) -> list[Node]:
    """The regions with this ``name`` in the tree below ``node``, itself included."""
    return [each for each in within(node) if each.name == name]


def heaviest(loop: TrainingLoop, *names: str) -> Node | None:
    """The region with one of these names that takes most of a step; None if there is none."""
    named = [node for name in names for node in nodes(loop.tree, name)]
    return max(named, key=lambda node: node.share, default=None)


def is_compiled(loop: TrainingLoop) -> bool:
    """Whether the model that takes most of a step is compiled, or in compiled code, as far as is known."""
    node = heaviest(loop, "forward")
    label = (node.what if node else None) or ""
    return heaviest(loop, "compiled") is not None or any(mark in label for mark in COMPILED)


def reading(loop: TrainingLoop, host: Host) -> tuple[str, ...]:
    """What to try against waiting for batches."""
    node = heaviest(loop, "io", "io.start")
    if node and node.what is None:  # a function makes the batch, and no loader
        return (AHEAD,)
    loader = node.what if node and node.what else "the loader"
    if IN_MEMORY.match(loader):
        return (ONE_INDEX,)
    if EXAMPLES.match(loader):
        return STACKED[:1] if host.full else STACKED
    # More workers help only while cores are free, and fewer than cores are at work.
    if host.full:
        free = ("free the cores that other programs use",) if host.crowded else ()
        return (*free, f"all cores are in use: {CHEAPER}: faster decoding, fewer copies", ONCE)
    return (_more_workers(loader, host.cores), ONCE, LOCAL)


def _more_workers(loader: str, cores: int | None) -> str:
    """How to have the batches of ``loader`` made by more of the ``cores``."""
    parsed = LOADER.fullmatch(loader)
    if parsed is None and gives(loader):
        # The region is a wait for a queue or a future, and the label is the function that waits.
        return f"prepare batches in more threads or processes: training waits for them in {loader}"
    if parsed is None:
        return f"prepare the batches of {loader} in advance, in processes or threads"
    loader, workers = parsed[1], int(parsed[2] or 0)
    if not workers:
        return f"give {loader} worker processes (num_workers), with persistent_workers=True"
    if cores is not None and workers >= cores:
        return f"its {workers} workers have a core each: {CHEAPER}"
    return (
        f"give {loader} more worker processes (num_workers is {workers}), or prefetch further ahead"
    )


def making_batches(
    batch: BatchCode, place: SourceLine | None, command: Sequence[str]
) -> tuple[str, ...]:
    """What to try against a batch that is made within the step, by no loader.

    ``place`` is a line of the file that makes it, ``command`` the one that started the program.
    """
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
    """The module of ``file`` as a selector names it.

    ``/`` is the program itself, ``/package.module`` a module that it imports.
    """
    folder, name = os.path.split(file)
    if any(os.path.basename(word) == name for word in command):
        return "/"
    parts = [name.rpartition(".")[0]]
    # The packages that it lies in, as far as folders are packages.
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    module = ".".join(parts)
    return "/" if module in command or module.removesuffix(".__main__") in command else f"/{module}"


def moving(loop: TrainingLoop) -> tuple[str, ...]:
    """What to try against copies to the device."""
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
    """What to try against computing, most of it in the region ``part``."""
    if part in BOOSTING:
        return ("fewer bins, leaves or rounds, more threads, a device, where the library has them",)
    if part in UNSEEN_CALLS:
        return (
            "more rows a call, a smaller model, more threads, a device, where the library has them",
        )
    largest = "what the device computes" if part == SYNC else part
    compiled = "" if part == SYNC or is_compiled(loop) else " a compiled model,"
    return (f"{largest} is the largest part: lower precision,{compiled} a faster device",)


def launching(loop: TrainingLoop) -> tuple[str, ...]:
    """What to try if the device waits for the host to launch its work."""
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
PARTS = (
    "divide the model among fewer ranks, and among those with the fastest links between them",
    "larger batches; of a pipeline more microbatches a step, and stages that take equally long",
)
"""Against what ranks exchange that have a part of the model each: activations, in forward and backward."""
BESIDE = (
    "check what these lines do: logging, metrics, .item() and printing each step, "
    "transforms on the host",
    'name it with injector.region("…") to measure it by itself',
)
FORWARD = (
    'name the forward with injector.region("forward"), or call the model itself instead of its methods',
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
