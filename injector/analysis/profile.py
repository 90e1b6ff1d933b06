"""What the spans of a run say, as plain values with units: everything that reports are made of.

The whole is a :class:`Profile`. Its parts; loops are in :mod:`.training_loop`, studies in :mod:`.study`::

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

from ..store.call_sites import INFERENCE as INFERENCE
from ..store.call_sites import SourceLine as SourceLine  # of what reports are made of
from ..value_class import value_class

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from .study import Study
    from .training_loop import Node, TrainingLoop

WORTH, MOST_BOUNDS = 1.05, 4
"""The least factor of an upper bound that is shown, and the most bounds that are."""


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
    """Threads, and processes without ranks, are added up."""
    items: float | None
    throughput: float | None
    """Items per second; if several evaluate at once, the mean of one."""
    regions: dict[str, float]
    """Seconds of each region in all passes."""
    data: int | None = None
    """Which data set, from 1, if passes over several begin at one line."""
    warmup: float = 0.0
    """Seconds of a first batch that took far longer than others (it compiles); not in ``throughput``."""
    rank: int | None = None
    """The rank whose passes these are, the first one that evaluates, if several do."""


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
        words = {"waited": "waiting", "hung": "hung", "stuck": "hung", "silent": "silent"}
        return words.get(self.kind, "died")


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
    """The function that most of these samples were in, and its file: ``linear (functional.py:134)``; empty
    where that is the line's own."""
    in_inner: int = 0
    """How many of the samples were in it."""


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
