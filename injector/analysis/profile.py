"""What the spans of a run say, as every report is made of it: plain values with their units."""

from __future__ import annotations

from collections.abc import Mapping

from ..store.call_sites import INFERENCE as INFERENCE
from ..store.call_sites import SourceLine as SourceLine  # of what reports are made of
from ..value_class import field, value_class

WORTH, MOST_BOUNDS = 1.05, 4
"""From which factor on an upper bound is shown, and how many of them at most."""
READING = ("io", "io.start")
"""The regions in which batches are made."""
OTHER_THREAD = "another thread"
"""What a region outside of steps is of where the loop goes on beside it."""
TRANSFER = "h2d"
"""The region of moving batches to a device; not every way of doing so is seen."""
SYNC = "sync"
"""The region in which the host waits until a device has computed what it was handed."""
BOOSTING = ("boost", "grow", "leaves")
"""What LightGBM, XGBoost and scikit-learn compute in compiled code."""
UNSEEN_CALLS = ("fit", "predict")
"""Calls of a library that compute: where it shows what is inside of one, that is no part of these."""
COMPUTING = (
    "forward", "backward", "gradients", "optimizer", "zero_grad", "clip_grad", "unscale", "compiled",
    *BOOSTING, *UNSEEN_CALLS, SYNC,
)  # fmt: skip


@value_class
class Statistics:
    """Of one sample, in its own unit."""

    n: int
    mean: float
    median: float
    p95: float
    std: float
    """Of a sample (divided by n - 1); 0 for n < 2."""
    min: float
    max: float


@value_class
class Node:
    """A region of a step, or the step itself.

    Where a node has children, they add up to it: what none of them covers is the last child, of the
    name ``other``. The same region at several lines is several nodes.
    """

    name: str
    place: SourceLine | None
    host: Statistics
    """Seconds of the host in a step, over the measured steps; a step without the region counts 0."""
    share: float
    """Its part of the step's time, 0…1: seconds over seconds of the measured steps, without
    those that are :class:`Exceptional`."""
    calls: float
    """Calls in a step, on average."""
    device: Statistics | None = None
    """Seconds of the device in a step; None where there is no device clock."""
    nbytes: float | None = None
    """Bytes moved in a step, on average."""
    children: tuple[Node, ...] = ()
    what: str | None = None
    """What it works on (``"DataLoader of MNIST"``); of ``other``, between which lines most of it lies."""
    together: tuple[Node, ...] = ()
    """For each name that several of the children have, these as one, without children or place."""

    def shares(self) -> dict[str, float]:
        """A step divided among regions of different names, as the rows of its table have it: 0…1.

        What is done inside of a wait for a batch is a part of that wait.
        """
        found: dict[str, float] = {}

        def add(node: Node, name: str) -> None:
            inside = [child for child in node.children if child.name != "other"]
            own = node.share - sum(child.share for child in inside)
            found[name] = found.get(name, 0.0) + max(own, 0.0)
            for child in inside:
                add(child, "io" if name == "io" or child.name in READING else child.name)

        add(self, "other")
        return found


@value_class
class Overlap:
    """Two regions of a step, one of which begins in the other and outlasts it. Both are whole here.

    In the tree, what they have in common is a part of the earlier one, in which the later one lies.
    """

    later: Node
    """Without children; seconds of a step in which it is open, those within other regions included."""
    earlier: Node
    shared: Statistics
    """Seconds of a step in which both are open."""


@value_class
class Throughput:
    """Sums over sums, of the measured steps."""

    steps: float
    """Steps per second."""
    items: float | None
    """Items per second; None when they are not known."""
    tokens: float | None
    rate: Statistics | None
    """One value a step: items (else steps) per second."""
    why_no_items: str | None = None


@value_class
class Blocks:
    """The measured steps of a job of ranks, as sums over blocks of consecutive steps; see :mod:`.blocks`.

    Each tuple has one value a block.
    """

    steps: tuple[int, ...]
    seconds: tuple[float, ...]
    """Of the host, the mean of the ranks."""
    items: tuple[float, ...] | None
    """Of all ranks together; None where they are not known of each of them."""
    tokens: tuple[float, ...] | None
    regions: dict[str, tuple[float, ...]]
    """Seconds of each region without those inside it, ``other`` included: they add up to ``seconds``."""


@value_class
class LoopRank:
    """One rank in one loop."""

    process: int
    """Index of ``processes`` in run.json."""
    rank: int | None
    host: str
    device: str | None
    steps: int
    step: Statistics
    throughput: Throughput
    waits: float
    """Median seconds of a step spent waiting for other ranks."""
    regions: dict[str, float]
    """Median seconds of each region of a step without the regions inside it, ``other`` included."""

    @property
    def order(self) -> tuple[bool, int, int]:
        """For sorting: by rank, what has none last."""
        return self.rank is None, self.rank or 0, self.process


@value_class
class Straggler:
    """The rank that the others wait for."""

    rank: int
    score: float
    """Its lack of waiting, as a part of the median step."""
    slow_at: str | None
    """The region that explains at least 80 % of what the others wait."""
    excess: float
    """Seconds by which that region exceeds the other ranks' median."""


@value_class
class Warmup:
    """The first steps, kept out of the statistics."""

    steps: int
    seconds: float
    slowest: float
    skipped: int = 0
    """How many of them ``--skip`` named."""


@value_class
class Exceptional:
    """One or two measured steps that took so long that shares would be theirs; no share counts them."""

    steps: int
    seconds: float
    part: float
    """Of the time of all measured steps, 0…1."""
    mostly: str
    """The region that took most of them."""


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
    """From its beginning to the end of its last step, with the evaluations in between."""
    after: float
    """Seconds from there until the next one begins, or until the last step or evaluation of all ends."""
    items: float | None
    """Of all ranks together; None where they are not known."""
    throughput: float | None
    """Items per second of ``seconds``."""
    losses: tuple[EpochLoss, ...] = ()
    """That recorded most often first."""
    cost: float | None = None
    """Of ``seconds`` and ``after``, in the currency of the price that was given."""


@value_class
class TrainingLoop:
    """A training loop over all its ranks, or in a run that trains nothing a loop that predicts."""

    task: str
    paced_by: str
    """``"loader"``, ``"optimizer"``, ``"call"`` (of a model that predicts) or ``"step"`` (as a voirfile
    declares it)."""
    place: SourceLine | None
    """The line that paces it."""
    steps: int
    """Steps recorded on each rank (the most of any), warm-up included."""
    warmup: Warmup
    step: Statistics
    """Seconds of a step, all ranks' measured steps."""
    tree: Node
    throughput: Throughput
    """Of all ranks together."""
    items_per_step: float | None
    tokens_per_step: float | None
    fetches_per_step: float
    updates_per_step: float
    ranks: tuple[LoopRank, ...]
    straggler: Straggler | None = None
    exceptional: Exceptional | None = None
    attempt: int | None = None
    """Where a launcher has started the job several times: at which attempt."""
    job: str | None = None
    """Where several processes train that are no ranks of one job: ``process 3``, by its index."""
    epochs: tuple[Epoch, ...] = ()
    """Empty where the loop was not seen to begin anew."""
    overlaps: tuple[Overlap, ...] = ()
    """Regions that overlap, those that share most first."""
    blocks: Blocks | None = field(default=None, repr=False, internal=True)
    """What a comparison with other runs resamples."""


@value_class
class Model:
    """A model that was called to be trained: in training mode, with gradients. Shared weights count once."""

    name: str
    """Its class; of what is compiled or distributed, with that around it."""
    parameters: int
    trainable: int
    """Those that require a gradient."""


@value_class
class Layer:
    """A module of a model, in the mean measured step of the first rank. Seconds of the host."""

    path: str
    """In its model (``blocks.0.attn``); of the model itself its class."""
    kind: str
    """Its class."""
    depth: int
    """0 of the model itself."""
    place: SourceLine | None
    """The line of the program that leads to its call."""
    calls: float
    forward: float
    """The layers within included."""
    backward: float | None
    """None where no gradient came to it, or to one within it."""
    share: float
    """Of the step: both together, 0…1."""
    device: float | None
    """Seconds of the device in forward; None where there is no device clock."""


@value_class
class MemoryUse:
    """Memory of a region, or of the whole step, in the measured steps of the first rank. Bytes.

    It is read where regions begin and end: what is allocated and freed within one does not show.
    """

    region: str
    """``step`` is from the begin of a step's first region to the end of its last."""
    where: str
    """``host``: what is resident of the process. ``cuda:0``: what torch's allocator has given out."""
    calls: float
    """In a step."""
    change: float
    """The median from begin to end; of the process, other threads' memory counts as well."""
    largest: int
    """At an end."""


@value_class
class Evaluation:
    """The passes in which nothing was trained."""

    place: SourceLine | None
    passes: int
    batches: int
    seconds: float
    """Of the first rank that evaluates; of threads and of processes that are no ranks, of all together."""
    items: float | None
    throughput: float | None
    """Items per second; of several that evaluate at once, of each on average."""
    regions: dict[str, float]
    """Seconds of each region in all passes."""
    data: int | None = None
    """Where passes over several data sets begin at one line: which of them, from 1."""
    warmup: float = 0.0
    """Seconds of a first batch that took far longer than others (it compiles): not in ``throughput``."""


@value_class
class Percentiles:
    """Seconds that so many percent do not exceed, linear between neighbours."""

    p50: float
    p75: float
    p90: float
    p95: float
    p99: float


@value_class
class Histogram:
    """How often values lie between neighbouring edges."""

    edges: list[float]
    """Seconds; one more than there are counts."""
    counts: list[float]


@value_class
class Latency:
    """How long batches took where a model only predicts; :mod:`.latencies` has the definitions. Seconds."""

    what: str
    """``evaluation``, in a run that trains nothing ``inference``, or ``predict``."""
    place: SourceLine | None
    data: int | None
    """As that of an :class:`Evaluation`."""
    batches: int
    queries: float | None
    """Items of all batches; None where they are not known, and then nothing is known of queries."""
    mean: float | None
    """Of a query: all seconds by all items."""
    batch: Percentiles
    query: Percentiles | None
    """Of the seconds of each batch by its items."""
    batch_histogram: Histogram
    query_histogram: Histogram | None
    """Each batch counts as often as it has items."""


@value_class
class WorkerRun:
    """A trial, or a part of one (a fold), as one worker ran it. Seconds since the study began."""

    worker: int
    process: int
    """Index of ``processes`` in run.json."""
    began: float
    seconds: float


@value_class
class Trial:
    """One combination of hyper-parameters, tried. Seconds; of parts that ran side by side, of all."""

    number: int
    """From 0, as the framework counts, or in the order of time."""
    id: str
    """The framework's own name of it; empty where it has but a number."""
    params: Mapping[str, object]
    values: Mapping[str, float]
    """What it came to, by name; the mean of its folds. The only one may have an empty name."""
    state: str
    """``complete``, ``pruned`` or ``failed``."""
    error: str
    """Why it failed, as far as that is known."""
    began: float = 0.0
    """Since the study began."""
    seconds: float = 0.0
    """From its first line to its last."""
    setup: float = 0.0
    """For which its worker was free before it, while the study went on."""
    load: float | None = None
    """Before it first trained or evaluated; None, as the next two, of a trial that did neither."""
    train: float | None = None
    validate: float | None = None
    framework: float = 0.0
    """In functions of the framework that it called."""
    other: float = 0.0
    store: float = 0.0
    """After it, until its result was stored."""
    steps: int = 0
    """Of training."""
    reports: int = 0
    """Intermediate values that it gave."""
    last: bool = False
    """Whether none ended after it."""
    runs: tuple[WorkerRun, ...] = ()


METRICS = "metric collection"
"""The phase of a study that comes after its program has ended."""


@value_class
class StudyPhase:
    """A part of the life of a study. Unix seconds; what was used is None where it is not known."""

    name: str
    """``deploy setup load train validate other framework store``, ``result collection``, ``refit``, ``test``,
    ``un-deploy``, ``metric collection``; ``framework`` is what its functions take inside of trials."""
    began: float
    ended: float
    seconds: float
    """Of all workers together."""
    calls: int
    """Trials, or spans."""
    cpu: float | None
    """Seconds of processors."""
    peak_rss: int | None
    """Bytes that the program's processes held together."""
    energy: float | None
    """Joules of the devices."""


@value_class
class Study:
    """A hyper-parameter study; :mod:`.studies`. Seconds."""

    framework: str
    name: str
    goals: tuple[str, ...]
    """``minimize`` or ``maximize``, for each value; empty where it is not known."""
    metric: str
    """What the first value is called; may be empty."""
    sampler: str
    pruner: str
    place: SourceLine | None
    started: float
    """Unix seconds."""
    seconds: float
    """Until the best trial was known."""
    workers: int
    trials: tuple[Trial, ...]
    best: tuple[int, ...]
    """Numbers of the best trials: one, or with several goals those that no other one is better than."""
    aborted: bool
    """Whether the program ended with an error, and its last trial failed."""
    in_trials: float
    """Of all workers together, without what the framework's functions take inside of trials."""
    in_framework: float
    """The same of the framework: setup, its functions, storing."""
    idle: float
    """The same of workers that had no more trials to run."""
    phases: tuple[StudyPhase, ...]

    @property
    def best_trial(self) -> Trial | None:
        """The best one; None where none is known, or several are."""
        found = [trial for trial in self.trials if trial.number in self.best]
        return found[0] if len(found) == 1 else None

    def counts(self) -> dict[str, int]:
        """How many trials there are of each state."""
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
    """What became of a rank that did not end in order; of a run that goes on, that does not go on."""

    rank: int
    attempt: int
    """How often a launcher had started its job before."""
    process: int
    """Index of ``processes`` in run.json."""
    kind: str
    """``died``, ``followed``, ``hung``, ``waited``, ``stuck``, ``silent``; see :mod:`.outcomes`."""
    how: str
    """How it ended: ``"killed by SIGKILL"``, ``"exit code 3"``, the exception, ``"exit not known"``."""
    steps: int
    """Steps that it made, of its last loop."""
    usual: float
    """Seconds of its median step."""
    last: str
    """The last region that it came out of, empty if there was none; and where."""
    place: SourceLine | None
    inside: tuple[tuple[str, SourceLine | None], ...]
    """What it never came out of, as far as that is seen: ``"comm (all_reduce)"``, and where."""
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
    """How much faster a step, or the run, would be at most if one thing took no time; see :mod:`.bounds`."""

    kind: str
    """A region, ``straggler``, or the name of time segments."""
    of: str
    """``step`` or ``run``."""
    seconds: float
    """Of a mean step, or of the run."""
    remaining: float
    """What would be left of them, at least."""
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
    """``high``, ``medium`` (on a busy host) or ``low``, a colon and why; empty where nothing is judged."""
    besides: tuple[str, ...] = ()
    """What is larger than all that the sentence is about, then what else could be saved."""
    bounds: tuple[UpperBound, ...] = ()
    """What hiding one thing would bring at most: that of the verdict first, then by how much."""

    def tries(self) -> tuple[str, ...]:
        """Advice, and what it could bring at most where that is worth a word."""
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
    """Of a step, as it was timed, 0…1: how often a process is sampled depends on who else wants its core."""
    samples: int
    lines: tuple[SampledLine, ...]
    """Those with most samples first."""


@value_class
class StackNode:
    """A function, and those that it called: a flame graph's box."""

    name: str
    samples: int
    children: tuple[StackNode, ...] = ()


@value_class
class LoopSamples:
    """The samples in the steps of one loop, of all its ranks."""

    task: str
    place: SourceLine | None
    samples: int
    processes: int
    regions: tuple[RegionSamples, ...]
    tree: StackNode


@value_class
class Profile:
    """Everything that a report says of the spans of a run."""

    loops: tuple[TrainingLoop, ...]
    """The one that took longest first."""
    evaluations: tuple[Evaluation, ...]
    segments: tuple[TimeSegment, ...]
    """In order; they add up to ``wall``."""
    wall: float
    """Seconds of the run."""
    verdict: Verdict
    others: tuple[Node, ...] = ()
    """Regions outside of any step (``fit`` of a library, …), by name, over the whole run."""
    unmeasured: tuple[str, ...] = ()
    """What could not be measured, and why, as sentences."""
    layers: tuple[Layer, ...] = ()
    """Of the longest loop, in the order of their first calls; empty without ``--layers``."""
    memory: tuple[MemoryUse, ...] = ()
    """Of the longest loop, by where it is: a step, then its regions; empty without ``--memory``."""
    models: tuple[Model, ...] = ()
    """That were trained, in the order of their first calls; each once for all ranks."""
    outcomes: tuple[RankOutcome, ...] = ()
    """Of ranks that died, hung or waited for those; attempt by attempt, the cause first."""
    latencies: tuple[Latency, ...] = ()
    """Of evaluations and predictions; the place with most batches first."""
    studies: tuple[Study, ...] = ()
    """Of hyper-parameters, in the order in which they began."""
