"""The spans of each process of a run as columns, on unix time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..blas import WithoutThreads
from ..store import spans
from ..store.call_sites import EVALUATING, INFERENCE, CallSite, call_site, integer, text
from ..store.event import LOG
from ..store.folder import Run
from ..store.logs import Log, logs_of, ranks_by_task
from ..value_class import field, state_class
from .attempts import count_attempts
from .outcomes import SECOND as SECOND
from .outcomes import RankProcess, gone_of
from .profile import Layer, MemoryUse, Model

with WithoutThreads():  # a report loads NumPy here, before any other module does
    import numpy as np
    import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

TRYING = ("eval", "predict")
"""Phases of a model that is not trained: all that tells it to evaluate does so, or only one thing."""
PREDICT = "predict"
"""The region of calls by which libraries predict."""
_TRAINING = frozenset({"optimizer", "backward", "fit", "boost", "grow"})
COMPILED = "compiled"
"""The region of what is compiled as a whole: nothing is seen inside, and unless it is known, it may train."""


def evaluates(site: CallSite) -> bool:
    """Whether a site says of itself that nothing is trained there."""
    return site.phase == "eval" or (site.task or "").lower() in EVALUATING


def only_infers(sites: Iterable[CallSite], declared: bool = False) -> bool:
    """Whether the call sites of all processes of a run say that models predict, and none is trained.

    A model that is called in training mode with gradients may be trained in a way that is not seen, unless
    the run was ``declared`` to be inference.
    """
    found = False
    for site in sites:
        infers = evaluates(site) or site.task == INFERENCE
        tries = site.phase in TRYING or (declared and not spans.updates(site.region, site.phase))
        if (site.region == "step" and not infers) or site.region in _TRAINING:
            return False
        if site.region == COMPILED and not tries:
            return False
        if site.phase == "train" and not declared:
            return False
        found |= infers or site.phase in TRYING or site.region == PREDICT
    return found or declared


@state_class
class RecordedProcess:
    """One process that recorded; its spans are read on demand."""

    index: int
    """Of ``processes`` in run.json."""
    path: str
    """Of its log."""
    host: str
    pid: int | None
    ppid: int | None
    rank: int | None
    world: int | None
    attempt: int | None
    """How often its job had been started before; None where no launcher recorded it."""
    shift: int
    """Nanoseconds to add to its monotonic clock for unix time."""
    began: int
    """Unix nanoseconds; 0 of a process that ended before its first record."""
    ended: int | None
    """When it recorded its own end; None if it never did."""
    sites: dict[int, CallSite] = field(default_factory=dict)
    memory_sites: dict[int, CallSite] = field(default_factory=dict)
    """Those whose rows are no spans, but say what memory there was."""
    lost: int = 0
    stop: dict[str, Any] | None = None
    infers: bool = False
    """Whether nothing is trained in the whole run, and models predict."""
    models: list[Model] = field(default_factory=list)
    layers: tuple[Layer, ...] = ()
    memory: tuple[MemoryUse, ...] = ()
    study_events: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """What it recorded of hyper-parameter studies, and when, in unix nanoseconds."""
    studies: Any = None
    """The same, read together with its spans."""

    @property
    def is_rank(self) -> bool:
        """Whether a launcher, or its own group of ranks, says that it is one of several of a job."""
        return self.rank is not None and self.world != 1

    @property
    def spans_path(self) -> str:
        return self.path[: -len(LOG)] + spans.SUFFIX

    def has_spans(self) -> bool:
        """Whether at least one row may have been written."""
        return spans.count(self.spans_path) > 0


@state_class
class SpanColumns:
    """The spans of one process in the order in which they were written."""

    start: Ints
    """Unix nanoseconds."""
    end: Ints
    payload: Ints
    site: Ints
    """As wide as an index: to look something up by a narrower one takes three times as long."""
    unknown: int = 0
    """Rows left out because nothing says what they are."""


def sources(run: Run) -> list[RecordedProcess]:
    """The processes of ``run`` in the order of run.json. Raises OSError, NotARunError."""
    logs = logs_of(run.content, run.info.get("processes") or ())
    found = [_read_log(index, log) for index, log in enumerate(logs)]
    ranked = {each.index for each in found if each.rank is not None}
    for index, (rank, world) in ranks_by_task(logs, ranked).items():
        found[index].rank, found[index].world = rank, world
    _count_attempts(found, logs, run.info.get("processes"))
    declared = (run.info.get("limits") or {}).get("phase") == INFERENCE
    if only_infers((site for each in found for site in each.sites.values()), declared):
        for each in found:
            each.infers = True
    return found


def _count_attempts(found: Sequence[RecordedProcess], logs: Sequence[Log], facts: Any) -> None:
    whole = isinstance(facts, list) and len(facts) == len(found)
    ranks = [
        RankProcess(
            rank=each.rank,
            host=each.host,
            pid=each.pid,
            ppid=each.ppid,
            attempt=each.attempt,
            slot=integer(log.process.get("slot")),
            world=integer(log.process.get("world")),
            master=text(log.process.get("master")),
            began=each.began,
            own_end=each.ended,
            gone=gone_of(facts[each.index]) if whole else None,
        )
        for each, log in zip(found, logs, strict=True)
    ]
    count_attempts(ranks)
    for each, rank in zip(found, ranks, strict=True):
        each.attempt = rank.attempt


def _read_log(index: int, log: Log) -> RecordedProcess:
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
        began=0 if log.began is None else log.began + shift,
        ended=None,
    )
    try:
        for record in log.records():
            data = record.get("data")
            if isinstance(data, dict):
                _take(source, record["event"], data, record.get("t"))
    except FileNotFoundError:
        pass  # it was removed, as the report says
    source.lost = log.lost
    return source


def _take(source: RecordedProcess, event: str, data: dict[str, Any], t: object) -> None:
    if event == "rank":
        source.rank, source.world = integer(data.get("rank")), integer(data.get("world"))
    elif event == "site":
        site = call_site(data)
        if site is not None:
            (source.memory_sites if site.is_memory else source.sites)[site.number] = site
    elif event == "model":
        numbers = [integer(data.get(key)) for key in ("parameters", "trainable")]
        if (total := numbers[0]) is not None and (part := numbers[1]) is not None:
            source.models.append(Model(text(data.get("name")) or "", total, part))
    elif event == "stop":
        source.stop = data
    elif event == "study" and isinstance(data.get("framework"), str):
        source.study_events.append(((integer(t) or 0) + source.shift, data))
    elif event == "end":
        when = integer(t)
        source.ended = None if when is None else when + source.shift


def read_rows(source: RecordedProcess, memory: bool = False) -> SpanColumns:
    """The spans of ``source``, without gaps, truncated ends and damaged rows. Raises OSError.

    With ``memory``, not the spans, but the rows that say what memory there was.
    """
    room = spans.count(source.spans_path)
    start, end, payload, site = (np.empty(room, np.int64) for _ in range(4))
    every = [*source.sites, *source.memory_sites]
    known = np.zeros(1 + max(every, default=0), np.bool_)
    known[every] = True
    of_memory = np.zeros(len(known), np.bool_)
    of_memory[list(source.memory_sites)] = True
    count = unknown = 0
    for block in spans.arrays(source.spans_path):
        block = block[: room - count]  # it may grow meanwhile
        here = slice(count, count + len(block))
        start[here], end[here], payload[here], site[here] = block.T
        number = site[here]
        if number.min(initial=0) < 0 or number.max(initial=0) >= len(known):
            number = np.where((number > 0) & (number < len(known)), number, 0)
        fine = known[number] & (end[here] >= start[here]) & (start[here] > -(2**62))
        if not (whole := bool(fine.all())):
            unknown += int(np.count_nonzero((site[here] != 0) & ~fine))
        if source.memory_sites or memory:
            fine &= of_memory[number] == memory
            whole = bool(fine.all())
        if not whole:
            block = block[fine]
            here = slice(count, count + len(block))
            start[here], end[here], payload[here], site[here] = block.T
        count += len(block)
    start, end = start[:count], end[:count]
    start += source.shift
    end += source.shift
    payload, site = payload[:count], site[:count]
    times = np.zeros(len(known), np.bool_)
    times[[each.number for each in source.sites.values() if each.payload == spans.START]] = True
    if times.any():
        payload += source.shift * times[site]
    return SpanColumns(start, end, payload, site, unknown)
