"""A training loop as plain values with units: its steps, regions, ranks and epochs."""

from __future__ import annotations

from collections.abc import Iterator

from ..store.call_sites import SourceLine
from ..value_class import field, value_class
from .statistics import Statistics

READING = ("io", "io.start")
"""The regions in which a program waits for batches."""
OTHER_THREAD = "another thread"
"""The label of a region outside of steps during which the loop goes on in another thread."""
TRANSFER = "h2d"
"""The region of copying batches to a device. Not every way of doing so is recorded."""
SYNC = "sync"
"""The region in which the host waits until a device has done its work."""
BOOSTING = ("boost", "grow", "leaves")
"""The regions of what LightGBM, XGBoost and scikit-learn compute in compiled code."""
UNSEEN_CALLS = ("fit", "predict")
"""The regions of a library's calls that compute. What is recorded inside of them has regions of its own."""
COMPUTING = (
    "forward", "backward", "gradients", "optimizer", "zero_grad", "clip_grad", "unscale", "compiled",
    *BOOSTING, *UNSEEN_CALLS, SYNC,
)  # fmt: skip
"""The regions in which a program computes, rather than waits."""


@value_class
class Node:
    """A region of a step, or the step itself.

    The children of a node add up to it: the last one, ``other``, is what no other child covers. A region that
    is called at several lines is several nodes.
    """

    name: str
    place: SourceLine | None
    host: Statistics
    """Seconds of the host per step, over the measured steps; 0 in a step without the region."""
    share: float
    """The fraction of the step's time, 0…1, over the measured steps but :class:`Exceptional` ones."""
    calls: float
    """Calls per step, on average."""
    device: Statistics | None = None
    """Seconds of the device per step; None without a device clock."""
    nbytes: float | None = None
    """Bytes moved per step, on average."""
    children: tuple[Node, ...] = ()
    what: str | None = None
    """What it works on (``"DataLoader of MNIST"``); for ``other``, between which lines most of it lies."""
    together: tuple[Node, ...] = ()
    """The children of the same name as one node, without children or place, for names that several have."""

    def shares(self) -> dict[str, float]:
        """The fraction of a step that each region takes, ``other`` included, as in its table: 0…1.

        What is done while a batch is waited for is part of that wait.
        """
        shares: dict[str, float] = {}

        def add(node: Node, name: str) -> None:
            inside = [child for child in node.children if child.name != "other"]
            own = node.share - sum(child.share for child in inside)
            shares[name] = shares.get(name, 0.0) + max(own, 0.0)
            for child in inside:
                add(child, "io" if name == "io" or child.name in READING else child.name)

        add(self, "other")
        return shares


def within(node: Node) -> Iterator[Node]:
    """``node``, and all regions within it."""
    yield node
    for child in node.children:
        yield from within(child)


@value_class
class Overlap:
    """Two regions of a step, of which one begins in the other and outlasts it. Both are whole here.

    In the tree, the time that they share belongs to the earlier one, with the later one inside it.
    """

    later: Node
    """Without children. Its seconds are those in which it is open, within other regions too."""
    earlier: Node
    shared: Statistics
    """Seconds per step in which both are open."""


@value_class
class Throughput:
    """Sums of the measured steps, divided by the sum of their seconds."""

    steps: float
    """Steps per second."""
    items: float | None
    """Items per second; None if they are not known."""
    tokens: float | None
    rate: Statistics | None
    """Statistics of the rate of each step: items per second, or steps if items are not known."""
    why_no_items: str | None = None

    @property
    def unit(self) -> str:
        """That of :attr:`speed` and :attr:`rate`."""
        return "steps/s" if self.items is None else "items/s"

    @property
    def speed(self) -> float:
        """Items per second, or steps if items are not known."""
        return self.steps if self.items is None else self.items


@value_class
class Blocks:
    """The measured steps of one job, as sums over blocks of consecutive steps: one value per block.

    A comparison of runs resamples them; see :func:`.step_blocks.blocks_of`.
    """

    steps: tuple[int, ...]
    seconds: tuple[float, ...]
    """Seconds of the host, the mean over ranks."""
    items: tuple[float, ...] | None
    """The sum over all ranks; None if one of them does not know its items."""
    tokens: tuple[float, ...] | None
    regions: dict[str, tuple[float, ...]]
    """Seconds of each region without the regions inside it. With ``other`` they add up to ``seconds``."""


@value_class
class LoopRank:
    """The figures of one rank in one loop."""

    process: int
    """Its index in ``processes`` of run.json."""
    rank: int | None
    host: str
    device: str | None
    steps: int
    step: Statistics
    throughput: Throughput
    waits: float
    """Median seconds per step of waiting for other ranks."""
    regions: dict[str, float]
    """Median seconds per step of each region without the regions inside it, ``other`` included."""

    @property
    def order(self) -> tuple[bool, int, int]:
        """The key to sort by: rank after rank, then processes without one."""
        return self.rank is None, self.rank or 0, self.process


@value_class
class Straggler:
    """The rank that the others wait for."""

    rank: int
    score: float
    """How much less than the others it waits, as a fraction of the median step."""
    slow_at: str | None
    """The region that explains at least 80 % of the others' wait; None if none does."""
    excess: float
    """Seconds by which that region exceeds the other ranks' median."""


@value_class
class Warmup:
    """The first steps of a loop, which are in no statistics."""

    steps: int
    seconds: float
    slowest: float
    skipped: int = 0
    """How many of them ``--skip`` named."""


@value_class
class Exceptional:
    """One or two measured steps that took so long that they would decide all shares. No share counts them."""

    steps: int
    seconds: float
    part: float
    """The fraction of the time of all measured steps, 0…1."""
    mostly: str
    """The region that took most of their time."""


@value_class
class EpochLoss:
    """One loss in one epoch of the first rank."""

    name: str
    n: int
    first: float
    last: float
    mean: float


@value_class
class Epoch:
    """One pass of a loop over its data, as its first rank made it; see :mod:`.epochs`."""

    number: int
    """From 0."""
    steps: int
    seconds: float
    """From its begin to the end of its last step, with the evaluations in between."""
    after: float
    """Seconds from there to the begin of the next epoch, or to the end of the last step or evaluation."""
    items: float | None
    """The sum over all ranks; None if they are not known."""
    throughput: float | None
    """Items per second of ``seconds``."""
    losses: tuple[EpochLoss, ...] = ()
    """The most often recorded one first."""
    cost: float | None = None
    """Cost of ``seconds`` and ``after``, in the currency of the price that was given."""


@value_class
class TrainingLoop:
    """A training loop over all of its ranks; in a run that trains nothing, a loop that predicts."""

    task: str
    paced_by: str
    """``"loader"``, ``"optimizer"``, ``"call"`` (of a model that predicts) or ``"step"`` (by a voirfile)."""
    place: SourceLine | None
    """The line that paces it."""
    steps: int
    """Steps of the rank that made most, warm-up included."""
    warmup: Warmup
    step: Statistics
    """Seconds of a step, over the measured steps of all ranks."""
    tree: Node
    throughput: Throughput
    """The sum over all ranks."""
    items_per_step: float | None
    tokens_per_step: float | None
    fetches_per_step: float
    updates_per_step: float
    ranks: tuple[LoopRank, ...]
    straggler: Straggler | None = None
    exceptional: Exceptional | None = None
    attempt: int | None = None
    """The attempt that made it; None if its job was started once."""
    job: str | None = None
    """``process 3`` (an index) if several processes train that are not ranks of one job."""
    epochs: tuple[Epoch, ...] = ()
    """Empty if the loop was not seen to begin anew."""
    overlaps: tuple[Overlap, ...] = ()
    """Pairs of regions that overlap, those that share most time first."""
    blocks: Blocks | None = field(default=None, repr=False, internal=True)
    """What a comparison with other runs resamples."""
    of_line: tuple[int, int] | None = field(default=None, repr=False, internal=True)
    """Its number, in the order of time, among the loops of its name at its line, and how many these are."""
