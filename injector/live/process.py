"""The progress of one process of the program, summed up from its records and spans as they come.

:class:`LiveProcess` is fed by :class:`.state.State` with what is new in the process's files. It takes each
span once and keeps sums only, so that a run of any length can be followed. The steps are counted by the same
code as in the program (:class:`..measure.pace.ThreadSteps`), so that a view agrees with ``--stop``; the
report, which sees the whole run at once, decides some cases differently (:mod:`..analysis`).

What a span contributes to depends on its call site (:class:`.parts.SiteKind`):

- the progress of its task: steps and items (:class:`.tasks.TaskProgress`);
- the parts that the steps of its thread are made of (:class:`.parts.Parts`);
- the position in the loop, of fetches (:class:`.position.LoopPositions`).

Until anything is trained, what models predict counts as inference (:class:`.parts.Inference`).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from statistics import median
from typing import Any, NamedTuple

from ..analysis.event_samples import CONTEXT
from ..analysis.outcomes import LastSpan, RankProcess, RegionCall
from ..bus.endings import error_of
from ..measure.pace import ThreadSteps
from ..store.call_sites import INFERENCE, call_site
from ..store.logs import clock_of
from ..store.spans import ITEMS
from .host_clocks import HostClock
from .parts import EVALUATION, TRAIN, Inference, Parts, SiteKind, WindowShares
from .position import LoopPositions
from .tasks import TaskProgress

LENGTHS = 64
"""The number of latest steps whose median is the usual duration of a step."""
MOST_VALUES = 1 << 16
"""Values of a log that are kept until a follower takes them; of more, the latest."""
Row = tuple[int, int, int, int]
"""Start, end, payload and site of a span."""


class RecordedValue(NamedTuple):
    """A number of a series."""

    series: str
    moment: int
    """Nanoseconds of the monotonic clock."""
    value: float
    step: int | None
    """The step that the program recorded it for, if it named one."""


class LiveProcess:
    """One process: its rank, its tasks, its regions. Moments are nanoseconds of its monotonic clock."""

    rank: int | None = None
    world: int | None = None
    device: str | None = None
    """The device that it uses, as its call sites name it."""
    ended = False
    """Whether it recorded its end, or has become another program."""
    code: int | None = None
    """Its exit code, or minus the signal that it died by; None if unknown."""
    gone = False
    """Whether another process saw that it had ended."""
    error = ""
    """The exception that it recorded, in one line."""
    stopping = False
    """Whether a stop of it was recorded."""
    _shares_batches = False
    latest = began = 0
    """When its last span ended, and when that had begun."""
    last: SiteKind | None = None
    """The call site of that span."""
    noted = 0
    """When its last record was made."""
    goal: int | None = None
    """The number of steps after which its trainer ends, if that announced it."""

    def __init__(self, name: str, raw: str) -> None:
        """A process whose files ``NAME.*`` are in the folder ``raw``."""
        self.name = name
        self.raw = raw
        self.facts: dict[str, Any] = {}
        """The data of its event ``process``."""
        self.losses: dict[str, float] = {}
        """The last value of each series."""
        self.values: deque[RecordedValue] = deque(maxlen=MOST_VALUES)
        """The values in its log, the latest last."""
        self.clock = HostClock()
        """The clock of its host."""
        self.tasks: dict[str, TaskProgress] = defaultdict(TaskProgress)
        """The progress of each task, which begins with its first span."""
        self.positions = LoopPositions()
        """The passes over its loaders."""
        self._kinds: dict[int, SiteKind] = {}
        """By number, the call sites that are measured by the host's clock."""
        self._steps_of_thread: dict[int, ThreadSteps] = defaultdict(ThreadSteps)
        self._parts_of_thread: dict[int, Parts] = defaultdict(Parts)
        self._inference: Inference | None = Inference()
        """None once anything was trained, as what was predicted before was an evaluation's."""
        self._trained: set[object] = set()
        """The models that were called in training, by ``object_id``."""
        self._fetched_items: dict[object, list[int]] = defaultdict(list)
        """By loader, the items of each batch since a model was called last."""
        self._shares = WindowShares()
        self._step_ended = 0
        """When the last training step ended."""
        self._step_seconds: deque[float] = deque(maxlen=LENGTHS)
        self._planned_steps: tuple[int, int] | None = None
        """When a trainer announced that steps are to come, and how many; None once they have begun."""

    # -- what is new in its files

    def record(self, event: str, data: Any, moment: int = 0) -> None:
        """Take the next record of its log, written at ``moment``."""
        self.noted = max(self.noted, moment)
        if not isinstance(data, dict):
            return
        if event == "process":
            self.facts = data
            # Without a rank, the number of a task of mpirun or Slurm is taken for it. A launcher in that task
            # is not a rank, but makes no steps either and is not shown.
            by_task = data.get("rank") is None
            rank, world = ("task", "tasks") if by_task else ("rank", "world")
            self.rank, self.world = data.get(rank), data.get(world)
        elif event == "rank":
            self.rank, self.world = data.get("rank"), data.get("world")
            self._shares_batches |= data.get("shares_batches") is True
        elif event == "site":
            site = call_site(data)
            if site is not None and not site.is_memory:  # the device of such a site may be the host
                self.device = site.device or self.device
                if site.clock != "device":
                    self._kinds[site.number] = SiteKind(site)
        elif event == "ahead":
            self.positions.announced(data.get("of"), data.get("batches"))
            self.positions.planned(data.get("epochs"), moment)
            if isinstance(data.get("steps"), int):
                self._planned_steps = moment, data["steps"]
        elif event == "error":
            self.error = error_of(data)
        elif event == "end":
            self.ended = True
            self.code = data.get("code", 1 if self.error else None)
        elif event == "stop":
            self.stopping = True
        elif event == "value":
            name, value = str(data.get("series")), data.get("value")
            if isinstance(value, (int, float)):
                self.losses[name] = float(value)
            self._keep_value(name, value, moment, data.get("step"))
        elif event == "data":
            for name in data.keys() - CONTEXT:
                series = "/".join(map(str, filter(None, (data.get("task"), name))))
                self._keep_value(series, data[name], moment, None)

    def _keep_value(self, series: str, value: object, moment: int, step: object) -> None:
        """Keep ``value`` for followers if it is a number."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            whole = step if isinstance(step, int) else None
            self.values.append(RecordedValue(series, moment, float(value), whole))

    def spans(self, rows: Iterable[Row]) -> None:
        """Take the next rows of its spans, in the order in which they were written."""
        kinds, latest, began = self._kinds, self.latest, self.began
        last = None
        for start, end, payload, number in rows:
            kind = kinds.get(number)
            if kind is not None:
                self._span(start, end, payload, kind)
                # A rank that hangs may poll and sleep over and over: a wait is no sign that it goes on.
                if end >= latest and kind.region != "wait":
                    latest, began, last = end, start, kind
        if last is not None:
            self.latest, self.began = latest, began
            self.last = last

    def _span(self, start: int, end: int, payload: int, kind: SiteKind) -> None:
        """Take one span."""
        progress = self.tasks[kind.task]
        if kind.region == "step":
            progress.step(start, end, payload & ITEMS, counted=kind.task == TRAIN)
        else:
            progress.went_on(start, end)
            if self._inference is not None:
                self._count_inference(self._inference, start, end, kind)
            if self._shares_batches:
                payload = 0  # each of the ranks would count the items
            if kind.region == "forward" or (kind.region == "compiled" and kind.paces):
                self._forward(progress, kind, payload & ITEMS)
            elif payload and kind.region == "io":
                self._fetched_items[kind.source].append(payload & ITEMS)
        self._add_to_parts(start, end, kind)
        if kind.region == "io.start":
            self.positions.begin(kind.source)
        if kind.paces:
            self._count_training(kind, start, end)

    def _count_inference(self, inference: Inference, start: int, end: int, kind: SiteKind) -> None:
        """Count a span for the steps of inference, until anything is trained."""
        if kind.trains:
            self._inference, self._shares = None, WindowShares()
        elif inference.span(start, end, kind) and EVALUATION in self.tasks:
            self._set_evaluation_steps(self.tasks[EVALUATION], inference.steps)

    def _set_evaluation_steps(self, progress: TaskProgress, steps: int) -> None:
        """Set the steps of what evaluates, unless a voirfile marks them."""
        if not progress.marked:
            progress.steps = steps

    def _add_to_parts(self, start: int, end: int, kind: SiteKind) -> None:
        """Add a span to the parts of the training steps of its thread."""
        parts = self._parts_of_thread[kind.thread]
        if kind.learns:
            self._trained.add(kind.object_id)
        if kind.region == "step":
            if not kind.evaluates:
                parts.stepped(start, end)
        elif kind.region == "io.end":
            parts.exhausted(start, kind.source)
        elif kind.evaluates and kind.object_id in self._trained:
            parts.evaluated(start, end)
        else:
            parts.span(start, end, kind.region, kind.source, kind.gives)

    def _forward(self, progress: TaskProgress, kind: SiteKind, items: int) -> None:
        """Count the items of a model's call, and the steps of an evaluation, which are its calls."""
        calls = progress.called(kind, items, self._fetched_items.values())
        self._fetched_items.clear()
        if calls and kind.evaluates:
            inference = self._inference
            steps = inference.steps if inference else max(progress.steps, calls)
            self._set_evaluation_steps(progress, steps)

    def _count_training(self, kind: SiteKind, start: int, end: int) -> None:
        """Count the training steps of a thread, as the program itself does, by a span that paces them."""
        thread = self._steps_of_thread[kind.thread]
        if kind.region == "step":
            thread.step(start, (kind.source, kind.site.place))
        elif kind.region == "io.end":
            ended = thread.end(kind.source)
            self.positions.end(kind.source, start)
            if ended:
                self.positions.trains(kind.source)
        elif kind.region == "io":
            self.positions.fetch(kind.source, kind.site.place, start, end)
            if thread.fetch(kind.source):
                self.positions.trains(kind.source)
                self._parts_of_thread[kind.thread].fetched(start, kind.source)
        elif thread.update(kind.source):
            self._parts_of_thread[kind.thread].updated(end)
        steps = max(thread.steps for thread in self._steps_of_thread.values())
        progress = self.tasks[TRAIN]
        if self._planned_steps is not None and end > self._planned_steps[0]:
            # The announcement was made before this span: it counts from here.
            self.goal, self._planned_steps = progress.steps + self._planned_steps[1], None
        if steps != progress.steps:
            if self._step_ended:
                self._step_seconds.append((end - self._step_ended) / 1e9)
            self._step_ended = end
            progress.steps = steps
            # A step that a voirfile marks has ended now, one that a fetch begins has only begun, and after an
            # update the next one begins.
            begin = {"step": (start, steps - 1), "io": (start, steps)}
            progress.begins.append(begin.get(kind.region, (end, steps)))

    def has_gone(self, code: int | None) -> None:
        """Another process saw its end; ``code`` is its exit code or minus a signal, None if unknown."""
        self.gone = True
        self.code = code if code is not None else self.code

    def call(self, number: int) -> RegionCall | None:
        """The call that the call site with that number stands for; None if there is no such site."""
        kind = self._kinds.get(number)
        return None if kind is None else kind.call

    @property
    def settling(self) -> bool:
        """Whether it is not clear yet if its host is silent or its host's clock is behind."""
        clock = clock_of(self.facts)
        return clock is not None and self.clock.settling(clock.offset)

    @property
    def start(self) -> int | None:
        """When it made its first record, unix nanoseconds by the follower's clock; None before that."""
        clock = clock_of(self.facts)
        return None if clock is None else clock.monotonic + self.clock.offset(clock.offset)

    def as_rank(self, now: int, over: bool) -> RankProcess:
        """The process as one that may be a rank, at ``now`` in unix nanoseconds, as
        :mod:`..analysis.outcomes` takes it.

        ``over``: whether the run has ended.
        """
        facts, began, last = self.facts, now, None
        clock = clock_of(facts)
        if clock is not None:
            shift = self.clock.offset(clock.offset)
            began = clock.monotonic + shift
            if self.last is not None:
                last = LastSpan(self.began + shift, self.latest + shift, self.last.call)
        attempt, gone = facts.get("attempt"), self.ended or self.gone
        return RankProcess(
            rank=self.rank,
            host=str(facts.get("host") or ""),
            pid=facts.get("pid"),
            ppid=facts.get("ppid"),
            attempt=attempt if isinstance(attempt, int) else None,
            slot=facts.get("slot"),
            world=facts.get("world"),
            master=facts.get("master"),
            began=began,
            alive=not (over or gone),
            code=self.code,
            error=self.error,
            in_order=self.ended or not self.gone,
            last=last,
            steps=self.steps,
            usual=self.usual,
            until=now,
        )

    # -- what a view shows

    @property
    def shown(self) -> dict[str, TaskProgress]:
        """The progress of its tasks, by the names that a view shows.

        If a voirfile marks the steps of other tasks only, there is no training. As long as models only
        predict, there is none either, and what evaluates is inference, as in the report.
        """
        marked = {n for n, progress in self.tasks.items() if progress.marked and n != EVALUATION}
        if TRAIN in marked or not (marked or self._predicts):
            return self.tasks
        renamed = {EVALUATION: INFERENCE} if self._predicts else {}
        return {renamed.get(n, n): progress for n, progress in self.tasks.items() if n != TRAIN}

    @property
    def doing(self) -> str:
        """What its latest span belonged to: ``training``, ``evaluating`` or ``inference``."""
        if self._predicts:
            return INFERENCE
        return "evaluating" if self.last is not None and self.last.evaluates else "training"

    @property
    def _predicts(self) -> bool:
        """Whether it makes steps of inference."""
        return self._inference is not None and self._inference.steps > 0

    @property
    def main(self) -> TaskProgress:
        """The progress of its main task: training, or else the one with most steps."""
        shown = self.shown
        if TRAIN in shown:
            return shown[TRAIN]
        others = [progress for name, progress in shown.items() if name != EVALUATION]
        return max(
            others or shown.values(), key=lambda progress: progress.steps, default=TaskProgress()
        )

    @property
    def steps(self) -> int:
        """The steps of its main task so far."""
        return self.main.steps

    @property
    def usual(self) -> float:
        """The median of the seconds of its latest training steps; 0 before there are two."""
        return median(self._step_seconds) if self._step_seconds else 0.0

    def mark(self) -> None:
        """Keep the sums of this moment, from which the rates and shares of the window follow."""
        moved = {name for name, progress in self.tasks.items() if progress.moved}
        for name, progress in self.tasks.items():
            progress.mark(others=bool(moved - {name}))
        all_parts = list(self._parts_of_thread.values())
        if self._inference and self._predicts and not any(parts.total for parts in all_parts):
            all_parts = self._inference.parts
        self._shares.mark(self.latest / 1e9, all_parts)

    def regions(self) -> dict[str, float]:
        """The share, 0…1, of each region in its steps of the window; empty before the first step."""
        return self._shares.shares()
