"""What the spans of a run say, as plain values with units: everything that reports are made of.

The whole is a :class:`Profile`. Its parts, from the inside out::

    Profile
      loops: TrainingLoop            a loop over all of its ranks
        tree: Node                   a step, its regions, the regions inside these
        ranks: LoopRank              the figures of single ranks
        epochs: Epoch
      evaluations: Evaluation        passes in which nothing is trained
      segments: TimeSegment          the wall time, divided
      verdict: Verdict               what limits the program
      outcomes: RankOutcome          ranks that died or hung
      studies: Study, Trial          of hyper-parameters
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..store.call_sites import INFERENCE as INFERENCE
from ..store.call_sites import SourceLine as SourceLine  # of what reports are made of
from ..value_class import field, value_class

WORTH, MOST_BOUNDS = 1.05, 4
"""The least factor of an upper bound that is shown, and the most bounds that are."""
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
class Statistics:
    """Statistics of one sample, in its own unit."""

    n: int
    mean: float
    median: float
    p95: float
    std: float
    """The sample standard deviation (divided by n - 1); 0 for n < 2."""
    min: float
    max: float


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


@value_class
class Blocks:
    """The measured steps of one job, as sums over blocks of consecutive steps: one value per block.

    A comparison of runs resamples them; see :func:`.loops.blocks_of`.
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
    """``"loader"``, ``"optimizer"``, ``"call"`` (of a model that predicts) or ``"step"`` (as a voirfile
    declares it)."""
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


@value_class
class Model:
    """A model that was trained: called in training mode, with gradients. Shared weights count once."""

    name: str
    """Its class, with what wraps it if it is compiled or distributed."""
    parameters: int
    trainable: int
    """Parameters that require a gradient."""


@value_class
class Layer:
    """A module of a model, in the mean measured step of the first rank. Seconds of the host."""

    path: str
    """Its name in the model (``blocks.0.attn``); for the model itself, its class."""
    kind: str
    """Its class."""
    depth: int
    """0 for the model itself."""
    place: SourceLine | None
    """The line of the program that leads to its call."""
    calls: float
    forward: float
    """Seconds per step, the layers within included, as are those of ``backward``."""
    backward: float | None
    """None if no gradient reached it, or a layer within it."""
    share: float
    """The fraction of the step that both take together, 0…1."""
    device: float | None
    """Seconds of the device in forward; None without a device clock."""


@value_class
class MemoryUse:
    """Memory of a region, or of the whole step, in the measured steps of the first rank. Bytes.

    It is read where regions begin and end: what is allocated and freed within one does not show.
    """

    region: str
    """``step`` is from the begin of a step's first region to the end of its last one."""
    where: str
    """``host``: resident memory of the process. ``cuda:0``: memory that torch's allocator has handed out."""
    calls: float
    """Calls per step."""
    change: float
    """Median change from begin to end. On the host, it includes that of other threads."""
    largest: int
    """The largest value at an end."""


@value_class
class Evaluation:
    """Passes over one data set, at one line, in which nothing was trained."""

    place: SourceLine | None
    passes: int
    batches: int
    seconds: float
    """Seconds of the first rank that evaluates. Threads, and processes without ranks, are added up."""
    items: float | None
    throughput: float | None
    """Items per second; if several evaluate at once, the mean of one."""
    regions: dict[str, float]
    """Seconds of each region in all passes."""
    data: int | None = None
    """Which data set, from 1, if passes over several begin at one line."""
    warmup: float = 0.0
    """Seconds of a first batch that took far longer than others (it compiles); not in ``throughput``."""


@value_class
class Percentiles:
    """Percentiles in seconds, by linear interpolation."""

    p50: float
    p75: float
    p90: float
    p95: float
    p99: float


@value_class
class Histogram:
    """How many values lie between neighbouring edges."""

    edges: list[float]
    """Seconds; one more than there are counts."""
    counts: list[float]


@value_class
class Latency:
    """How long batches took in passes that only predict. Seconds; :mod:`.latencies` has the definitions."""

    what: str
    """``evaluation``, ``inference`` (in a run that trains nothing), or ``predict``."""
    place: SourceLine | None
    data: int | None
    """As in :class:`Evaluation`."""
    batches: int
    queries: float | None
    """Items of all batches; None if they are not known, as is then all else of queries."""
    mean: float | None
    """Mean seconds of a query: those of all batches divided by all items."""
    batch: Percentiles
    query: Percentiles | None
    """Percentiles of the seconds of a batch divided by its items."""
    batch_histogram: Histogram
    query_histogram: Histogram | None
    """Each batch counts as often as it has items."""


@value_class
class WorkerRun:
    """A trial, or a part of one such as a fold, as one worker ran it. Seconds since the study began."""

    worker: int
    process: int
    """Its index in ``processes`` of run.json."""
    began: float
    seconds: float


@value_class
class Trial:
    """One combination of hyper-parameters that was tried. Seconds, added up over parts that ran side by
    side.
    """

    number: int
    """From 0: the framework's own number, or one in the order of time."""
    id: str
    """The framework's name for it; empty if it has only a number."""
    params: Mapping[str, object]
    values: Mapping[str, float]
    """Its results by name, means over folds. A single one may have an empty name."""
    state: str
    """``complete``, ``pruned`` or ``failed``."""
    error: str
    """Why it failed, as far as is known."""
    began: float = 0.0
    """Seconds since the study began."""
    seconds: float = 0.0
    """From its first line to its last."""
    setup: float = 0.0
    """Seconds before it in which its worker was free, while the study went on."""
    load: float | None = None
    """Seconds before it first trained or evaluated; None, as are the next two, if it did neither."""
    train: float | None = None
    validate: float | None = None
    framework: float = 0.0
    """Seconds in functions of the framework that it called."""
    other: float = 0.0
    store: float = 0.0
    """Seconds after it, until its result was stored."""
    steps: int = 0
    """Training steps."""
    reports: int = 0
    """Intermediate values that it reported."""
    last: bool = False
    """Whether it was the last one to end."""
    runs: tuple[WorkerRun, ...] = ()


METRICS = "metric collection"
"""The phase of a study that comes after its program has ended."""


@value_class
class StudyPhase:
    """A part of the life of a study. Unix seconds; figures of use are None if they are not known."""

    name: str
    """``deploy setup load train validate other framework store``, ``result collection``, ``refit``, ``test``,
    ``un-deploy``, ``metric collection``; ``framework`` is what its functions take inside of trials."""
    began: float
    ended: float
    seconds: float
    """The sum over all workers."""
    calls: int
    """The number of trials, or of spans."""
    cpu: float | None
    """Seconds of processor time."""
    peak_rss: int | None
    """Resident bytes of the program's processes together, at the peak."""
    energy: float | None
    """Joules that the devices used."""


@value_class
class Study:
    """A hyper-parameter study; :mod:`.studies`. Seconds."""

    framework: str
    name: str
    goals: tuple[str, ...]
    """``minimize`` or ``maximize`` for each value; empty if not known."""
    metric: str
    """The name of the first value; may be empty."""
    sampler: str
    pruner: str
    place: SourceLine | None
    started: float
    """Unix seconds."""
    seconds: float
    """Seconds until the best trial was known."""
    workers: int
    trials: tuple[Trial, ...]
    best: tuple[int, ...]
    """Numbers of the best trials: one, or with several goals all that no other trial dominates."""
    aborted: bool
    """Whether the program ended with an error, and its last trial failed."""
    in_trials: float
    """Seconds of all workers in trials, without the framework's functions there."""
    in_framework: float
    """Seconds of all workers in the framework: setup, its functions, storing."""
    idle: float
    """Seconds of workers that had no more trials to run."""
    phases: tuple[StudyPhase, ...]

    @property
    def best_trial(self) -> Trial | None:
        """The best trial; None if none is known, or several are."""
        best = [trial for trial in self.trials if trial.number in self.best]
        return best[0] if len(best) == 1 else None

    def counts(self) -> dict[str, int]:
        """The number of trials in each state."""
        states = [trial.state for trial in self.trials]
        return {word: states.count(word) for word in ("complete", "pruned", "failed")}


@value_class
class TimeSegment:
    """A part of the run's wall time."""

    name: str
    """``start-up``, ``training``, ``inference``, ``evaluation``, ``warm-up``, ``checkpoint``,
    ``logging``, ``gap``, ``shutdown``; ``the program`` where there is neither a step nor an evaluation."""
    seconds: float
    note: str = ""
    place: SourceLine | None = None


@value_class
class RankOutcome:
    """What became of a rank that did not end in order, or in a run that goes on does not go on."""

    rank: int
    attempt: int
    """How many times a launcher had started its job before."""
    process: int
    """Its index in ``processes`` of run.json."""
    kind: str
    """``died``, ``followed``, ``hung``, ``waited``, ``stuck``, ``silent``; see :mod:`.outcomes`."""
    how: str
    """How it ended: ``"killed by SIGKILL"``, ``"exit code 3"``, the exception, ``"exit not known"``."""
    steps: int
    """Steps that it made in its last loop."""
    usual: float
    """Its median seconds per step."""
    last: str
    """The last region that it left; empty if there was none. ``place`` is its line."""
    place: SourceLine | None
    inside: tuple[tuple[str, SourceLine | None], ...]
    """The regions that it never left, as far as recorded: ``"comm (all_reduce)"``, and its line."""
    seconds: float
    """How long it had been silent, or had waited, when it ended."""
    ended: float | None
    """Unix seconds; None if no process saw it."""
    restarted: int | None
    """The attempt at which the rank was started again; None if it was not."""

    @property
    def state(self) -> str:
        """``died``, ``hung``, ``silent`` or ``waiting``: the word of a live view."""
        return {"waited": "waiting", "hung": "hung", "stuck": "hung", "silent": "silent"}.get(
            self.kind, "died"
        )


@value_class
class UpperBound:
    """How many times as fast a step, or the run, would be if one thing took no time; see :mod:`.bounds`."""

    kind: str
    """A region, ``straggler``, or the name of time segments."""
    of: str
    """``step`` or ``run``."""
    seconds: float
    """Seconds of a mean step, or of the run."""
    remaining: float
    """The least that would be left of them."""
    factor: float
    """How many times as fast: ``seconds / remaining``."""
    text: str


@value_class
class Verdict:
    """What limits the program, if anything does."""

    kind: str
    """``input-bound transfer-bound compute-bound communication-bound wait-bound overhead-bound
    launch-bound straggler memory-growth balanced none``; of a region that a voirfile invented,
    its name and ``-bound``."""
    severity: str
    """``"critical"``, ``"warning"`` or ``"info"``."""
    sentence: str
    """One sentence with the number and the line: "input-bound: 64 % of a step waits at train.py:112"."""
    evidence: tuple[str, ...]
    threshold: str
    advice: tuple[str, ...]
    confidence: str = ""
    """``high``, ``medium`` (on a busy host) or ``low``, a colon and why; empty if nothing is judged."""
    besides: tuple[str, ...] = ()
    """What takes longer than the steps, then what else could be saved."""
    bounds: tuple[UpperBound, ...] = ()
    """Upper bounds: that of the verdict first, then the largest."""

    def tries(self) -> tuple[str, ...]:
        """The advice, and the upper bounds that are worth mentioning."""
        worth = [each.text for each in self.bounds if each.factor >= WORTH]
        return (*self.advice, *worth[:MOST_BOUNDS])


@value_class
class SampledLine:
    """A line of the program, and what it called."""

    place: SourceLine
    samples: int
    inner: str
    """The innermost function in most of these samples, and its file: ``linear (functional.py:134)``; empty
    where that is the line's own."""


@value_class
class RegionSamples:
    """The samples in one region of a loop."""

    region: str
    share: float
    """The fraction of a step, as it was timed, 0…1: samples depend on what else wants the core."""
    samples: int
    lines: tuple[SampledLine, ...]
    """Lines with most samples first."""


@value_class
class StackNode:
    """A function and those that it called: a box of a flame graph."""

    name: str
    samples: int
    children: tuple[StackNode, ...] = ()


@value_class
class LoopSamples:
    """The samples in the steps of one loop, over all of its ranks."""

    task: str
    place: SourceLine | None
    samples: int
    processes: int
    regions: tuple[RegionSamples, ...]
    tree: StackNode


@value_class
class Profile:
    """Everything that a report says about the spans of a run."""

    loops: tuple[TrainingLoop, ...]
    """The longest one first."""
    evaluations: tuple[Evaluation, ...]
    segments: tuple[TimeSegment, ...]
    """In the order of time; they add up to ``wall``."""
    wall: float
    """Seconds of the run."""
    verdict: Verdict
    others: tuple[Node, ...] = ()
    """Regions outside of any step, such as ``fit`` of a library, over the whole run."""
    unmeasured: tuple[str, ...] = ()
    """What could not be measured, and why, as sentences."""
    layers: tuple[Layer, ...] = ()
    """Layers in the longest loop, in the order of their first calls; empty without ``--layers``."""
    memory: tuple[MemoryUse, ...] = ()
    """Memory in the longest loop, place by place, the step before its regions; empty without ``--memory``."""
    models: tuple[Model, ...] = ()
    """Models that were trained, in the order of their first calls; each once for all ranks."""
    outcomes: tuple[RankOutcome, ...] = ()
    """Ranks that died, hung or waited for these; attempt by attempt, the cause first."""
    latencies: tuple[Latency, ...] = ()
    """Latencies of evaluations and predictions; the line with most batches first."""
    studies: tuple[Study, ...] = ()
    """Studies of hyper-parameters, in the order in which they began."""
