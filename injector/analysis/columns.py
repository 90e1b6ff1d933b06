"""The processes of a run as they are recorded: what their logs say, and their spans as columns on unix time.

:func:`sources` reads the logs once. The spans of a process are read by :func:`read_rows` when they are
needed, and dropped again: those of all processes do not fit into memory together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..blas import WithoutThreads
from ..exit_status import code_of
from ..store import spans
from ..store.call_sites import EVALUATING, INFERENCE, CallSite, call_site, integer, text
from ..store.drift import Drift
from ..store.event import LOG
from ..store.folder import Run
from ..store.logs import Log, logs_of, ranks_by_task
from ..value_class import field, state_class
from .attempts import count_attempts
from .outcomes import SECOND as SECOND
from .outcomes import RankProcess
from .profile import Layer, MemoryUse, Model
from .wording import rank_name

# This is the first import of NumPy in a report, so that what it starts is decided here.
with WithoutThreads():
    import numpy as np
    import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

UNTRAINED = ("eval", "predict")
"""Phases of a model that is not trained: in evaluation mode without gradients, or only one of these."""
PREDICT = "predict"
"""The region of calls by which libraries predict."""
_TRAINING = frozenset({"optimizer", "fit", "boost", "grow"})
"""Regions that show that something is trained."""
COMPILED = "compiled"
"""The region of code that is compiled as a whole. What is inside of it is not seen, and may train."""


def evaluates(site: CallSite) -> bool:
    """Whether a call site says by its phase or its task that nothing is trained there."""
    return site.phase == "eval" or (site.task or "").lower() in EVALUATING


def only_infers(sites: Iterable[CallSite], declared: bool) -> bool:
    """Whether a run only predicts, judged by the call sites of all of its processes.

    A run with a model that is called in training mode with gradients does not, unless it was ``declared`` to
    be inference: it may train in a way that is not seen. Where models are called in evaluation mode alone and
    no optimizer is there, gradients are those of data: forces on atoms, or what a picture is made clearer by.
    """
    predicts = derives = predicts_with_models = False
    for site in sites:
        says_so = evaluates(site) or site.task == INFERENCE
        is_untrained = site.phase in UNTRAINED or (
            declared and not spans.updates(site.region, site.phase)
        )
        if (site.region == "step" and not says_so) or site.region in _TRAINING:
            return False
        derives |= site.region == "backward"
        predicts_with_models |= site.region == "forward" and site.phase == "predict"
        # Compiled code may train inside, unseen.
        if site.region == COMPILED and not is_untrained:
            return False
        if site.phase == "train" and not declared:
            return False
        predicts |= says_so or site.phase in UNTRAINED or site.region == PREDICT
    if derives and not predicts_with_models:
        return False
    return predicts or declared


@state_class
class RecordedProcess:
    """One process that recorded; its spans are read on demand."""

    index: int
    """Its index in ``processes`` of run.json."""
    path: str
    """The path of its log."""
    host: str
    pid: int | None
    ppid: int | None
    rank: int | None
    world: int | None
    attempt: int | None
    """How many times its job had been started before; None if no launcher recorded that."""
    shift: int
    """Nanoseconds to add to its monotonic clock for unix time, but for its drift."""
    began: int
    """Unix nanoseconds; 0 if it ended before its first record."""
    ended: int | None
    """When it recorded its own end, unix nanoseconds; None if it never did."""
    sites: dict[int, CallSite] = field(default_factory=dict)
    memory_sites: dict[int, CallSite] = field(default_factory=dict)
    """Call sites whose rows are no spans, but say how much memory was in use."""
    drift: Drift | None = None
    """How its host's clock drifts from the run's, where that was measured."""
    lost: int = 0
    """Records that could not be read."""
    stop: dict[str, Any] | None = None
    shares_batches: bool = False
    """Whether other ranks work on the same batches, each with a part of the model."""
    infers: bool = False
    """Whether the whole run only predicts."""
    failed: bool = False
    """Whether such a run ended with an error, and was not declared to be inference."""
    models: list[Model] = field(default_factory=list)
    layers: tuple[Layer, ...] = ()
    memory: tuple[MemoryUse, ...] = ()
    study_events: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """Its records of hyper-parameter studies, each after its time in unix nanoseconds."""
    studies: Any = None
    """What they and its spans say of trials (:class:`.trials.ProcessStudies`); None until they are read."""

    @property
    def name(self) -> str:
        """``rank 3``, or ``process 4711`` if it is no rank."""
        return rank_name(self.rank, self.pid)

    @property
    def is_rank(self) -> bool:
        """Whether it is one of several ranks of a job, by a launcher's word or its own process group's."""
        return self.rank is not None and self.world != 1

    @property
    def spans_path(self) -> str:
        return self.path[: -len(LOG)] + spans.SUFFIX

    def has_spans(self) -> bool:
        """Whether at least one span may have been written."""
        return spans.count(self.spans_path) > 0

    def as_rank(self, fact: Mapping[str, Any]) -> RankProcess:
        """The process as one that may be a rank; ``fact`` is what run.json says of it."""
        return RankProcess(
            rank=self.rank,
            process=self.index,
            host=self.host,
            pid=self.pid,
            ppid=self.ppid,
            attempt=self.attempt,
            began=self.began,
            own_end=self.ended,
            gone=_gone_of(fact),
        )


def _gone_of(fact: Mapping[str, Any]) -> int | None:
    """When another process noticed that one of run.json had ended, in unix nanoseconds; None if none did."""
    gone = fact.get("gone")
    return round(gone * SECOND) if isinstance(gone, (int, float)) else None


@state_class
class SpanColumns:
    """The spans of one process in the order in which they were written."""

    start: Ints
    """Unix nanoseconds."""
    end: Ints
    payload: Ints
    """Items and tokens, bytes, or a moment: the call site says which."""
    site: Ints
    """Numbers of call sites, as wide as an index: a narrower one takes three times as long to look up by."""
    unknown: int = 0
    """How many rows were left out because their call site was not recorded."""


def sources(run: Run) -> list[RecordedProcess]:
    """The processes of ``run``, in the order of run.json. Raises OSError, NotARunError."""
    logs = logs_of(run.content, run.info.get("processes") or ())
    processes = [_read_log(index, log) for index, log in enumerate(logs)]
    with_rank = {process.index for process in processes if process.rank is not None}
    # Tasks of a scheduler are ranks even if the program itself recorded none.
    for index, (rank, world) in ranks_by_task(logs, with_rank).items():
        processes[index].rank, processes[index].world = rank, world
    _count_attempts(processes, logs, run.info.get("processes") or ())
    # Judged for the run as a whole: a process that only loads data shows no training.
    declared = (run.info.get("limits") or {}).get("phase") == INFERENCE
    if only_infers((site for process in processes for site in process.sites.values()), declared):
        for process in processes:
            process.infers = True
            process.failed = bool(code_of(run.info.get("exit"))) and not declared
    return processes


def _count_attempts(
    processes: Sequence[RecordedProcess], logs: Sequence[Log], facts: Sequence[Mapping[str, Any]]
) -> None:
    """Correct the attempts of ``processes`` (:mod:`.attempts`). ``facts`` is what run.json says of each."""
    has_facts = len(facts) == len(processes)
    ranks = []
    for process, log in zip(processes, logs, strict=True):
        rank = process.as_rank(facts[process.index] if has_facts else {})
        rank.slot, rank.world = (integer(log.process.get(key)) for key in ("slot", "world"))
        rank.master = text(log.process.get("master"))
        ranks.append(rank)
    count_attempts(ranks)
    for process, rank in zip(processes, ranks, strict=True):
        process.attempt = rank.attempt


def _read_log(index: int, log: Log) -> RecordedProcess:
    """The process that wrote a log, with the call sites and models that it recorded."""
    facts, shift = log.process, log.clock.offset
    source = RecordedProcess(
        index,
        log.path,
        host=str(log.host or ""),
        pid=integer(facts.get("pid")),
        ppid=integer(facts.get("ppid")),
        rank=integer(facts.get("rank")),
        world=integer(facts.get("world")),
        attempt=integer(facts.get("attempt")),
        shift=shift,
        drift=log.clock.drift,
        began=0,
        ended=None,
    )
    if log.began is not None:
        source.began = _unix(source, log.began)
    try:
        for record in log.records():
            data = record.get("data")
            if isinstance(data, dict):
                _add_record(source, record["event"], data, record.get("t"))
    except FileNotFoundError:
        pass  # the log was removed; the report says so
    source.lost = log.lost
    return source


def _add_record(source: RecordedProcess, event: str, data: dict[str, Any], t: object) -> None:
    """Put what a record of the log says into ``source``; ``t`` is its time on the process's own clock."""
    # A process may join a group after its first records: the last word counts.
    if event == "rank":
        source.rank, source.world = integer(data.get("rank")), integer(data.get("world"))
        source.shares_batches |= data.get("shares_batches") is True
    elif event == "site":
        site = call_site(data)
        if site is not None:
            (source.memory_sites if site.is_memory else source.sites)[site.number] = site
    elif event == "model":
        counts = [integer(data.get(key)) for key in ("parameters", "trainable")]
        if (total := counts[0]) is not None and (trainable := counts[1]) is not None:
            source.models.append(Model(text(data.get("name")) or "", total, trainable))
    elif event == "stop":
        source.stop = data
    elif event == "study" and isinstance(data.get("framework"), str):
        source.study_events.append((_unix(source, integer(t) or 0), data))
    elif event == "end":
        end = integer(t)
        source.ended = None if end is None else _unix(source, end)


def _unix(source: RecordedProcess, t: int) -> int:
    """Unix nanoseconds at ``t`` of its monotonic clock."""
    more = 0.0 if source.drift is None else source.drift.at(t)
    return t + source.shift + round(more * 1e9)


def _put_on_unix_time(times: Ints, source: RecordedProcess) -> Ints:
    """Turn ``times``, nanoseconds of its monotonic clock, into unix nanoseconds, in place."""
    if source.drift is not None:
        seconds = np.interp(times, source.drift.moments, source.drift.seconds)
        times += np.round(seconds * 1e9).astype(np.int64)
    times += source.shift
    return times


def read_rows(source: RecordedProcess, memory: bool = False) -> SpanColumns:
    """The spans of ``source``, without unwritten, torn and damaged rows. Raises OSError.

    With ``memory``, its rows that say how much memory was in use, and no spans.
    """
    room = spans.count(source.spans_path)
    start, end, payload, site = (np.empty(room, np.int64) for _ in range(4))
    numbers = [*source.sites, *source.memory_sites]
    known = np.zeros(1 + max(numbers, default=0), np.bool_)
    known[numbers] = True
    is_memory = np.zeros(len(known), np.bool_)
    is_memory[list(source.memory_sites)] = True
    count = unknown = 0
    # Each block goes into the columns at once, and is packed there if rows are left out: nothing is kept
    # twice.
    for block in spans.arrays(source.spans_path):
        block = block[: room - count]  # the file of a run that goes on grows while it is read
        part = slice(count, count + len(block))
        start[part], end[part], payload[part], site[part] = block.T
        number = site[part]
        if number.min(initial=0) < 0 or number.max(initial=0) >= len(known):
            # A damaged site must not index beyond the tables.
            number = np.where((number > 0) & (number < len(known)), number, 0)
        is_good = known[number] & (end[part] >= start[part]) & (start[part] > -(2**62))
        if not (all_good := bool(is_good.all())):
            unknown += int(np.count_nonzero((site[part] != 0) & ~is_good))
        if source.memory_sites or memory:
            is_good &= is_memory[number] == memory
            all_good = bool(is_good.all())
        if not all_good:
            block = block[is_good]
            part = slice(count, count + len(block))
            start[part], end[part], payload[part], site[part] = block.T
        count += len(block)
    start, end = start[:count], end[:count]
    _put_on_unix_time(start, source)
    _put_on_unix_time(end, source)
    payload, site = payload[:count], site[:count]
    # Some payloads are times of the host, which have to be on unix time too.
    is_time = np.zeros(len(known), np.bool_)
    is_time[[each.number for each in source.sites.values() if each.payload == spans.START]] = True
    if is_time.any():
        times = is_time[site]
        payload[times] = _put_on_unix_time(payload[times], source)
    return SpanColumns(start, end, payload, site, unknown)
