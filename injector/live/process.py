"""The progress of one process of the program, summed up from its records and spans as they come.

:class:`LiveProcess` is fed by :class:`.state.State` with what is new in the process's files. It takes each
span once and keeps sums only, so that a run of any length can be followed. The steps are counted by the same
code as in the program (:class:`..measure.pace.ThreadSteps`), so that a view agrees with ``--stop``; the
report, which sees the whole run at once, decides some cases differently (:mod:`..analysis`).

What a span contributes to depends on its call site (:class:`.parts.SiteKind`):

- the progress of its task: steps and items (:class:`.parts.TaskProgress`);
- the parts that the steps of its thread are made of (:class:`.parts.Parts`);
- the position in the loop, of fetches (:class:`.position.LoopPositions`).

Whether a run trains is known only when anything is trained. Until then, what models predict counts as
inference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median
from typing import Any, NamedTuple

from ..analysis.outcomes import LastSpan, RankProcess, RegionCall
from ..analysis.recorded import CONTEXT
from ..bus.endings import error_of
from ..measure.pace import ThreadSteps
from ..store.call_sites import INFERENCE, call_site
from ..store.logs import clock_of
from ..store.spans import ITEMS, is_loaders, updates
from .host_clocks import HostClock
from .parts import EVALUATION, TRAIN, WINDOW, Parts, SiteKind, TaskProgress
from .position import LoopPositions

LENGTHS = 64
"""The number of latest steps whose median is the usual duration of a step."""
MOST_VALUES = 1 << 16
"""Values of a log that are kept until a follower takes them; of more, the latest."""
Row = tuple[int, int, int, int]
"""Start, end, payload and site of a span."""


class Sums(NamedTuple):
    """What the steps until one moment are made of."""

    seconds: float
    """The moment, seconds of the monotonic clock."""
    total: int
    """Nanoseconds of all steps."""
    regions: dict[str, int]
    """Nanoseconds of each region in them."""


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

    def __init__(self, name: str, raw: str) -> None:
        """A process whose files ``NAME.*`` are in the folder ``raw``."""
        self.name = name
        self.raw = raw
        self.facts: dict[str, Any] = {}
        """The data of its event ``process``."""
        self.rank: int | None = None
        self.world: int | None = None
        self.device: str | None = None
        """The device that it uses, as its call sites name it."""
        self.ended = False
        """Whether it recorded its end, or has become another program."""
        self.code: int | None = None
        """Its exit code, or minus the signal that it died by; None if unknown."""
        self.gone = False
        """Whether another process saw that it had ended."""
        self.error = ""
        """The exception that it recorded, in one line."""
        self.stopping = False
        """Whether a stop of it was recorded."""
        self.losses: dict[str, float] = {}
        """The last value of each series."""
        self.values: deque[RecordedValue] = deque(maxlen=MOST_VALUES)
        """The values in its log, the latest last."""
        self.latest = self.began = 0
        """When its last span ended, and when that had begun."""
        self.last: SiteKind | None = None
        """The call site of that span."""
        self.noted = 0
        """When its last record was made."""
        self.clock = HostClock()
        """The clock of its host."""
        self.tasks: dict[str, TaskProgress] = {}
        self._kinds: dict[int, SiteKind] = {}
        """By number, the call sites that are measured by the host's clock."""
        self._steps_of_thread: dict[int, ThreadSteps] = {}
        self._parts_of_thread: dict[int, Parts] = {}
        self._inference: dict[int, tuple[ThreadSteps, Parts]] | None = {}
        """By thread, the steps of inference; None once anything was trained, as they were an evaluation's."""
        self._trained: set[object] = set()
        """The models that were called in training, by ``object_id``."""
        self._model_calls: dict[tuple[str, object], list[int]] = {}
        """By task and model: the number of calls, and of items that it was called with."""
        self._learning: set[tuple[str, object]] = set()
        """Tasks and selectors of which a call site saw a model in training."""
        self._fetched_items: dict[object, list[int]] = {}
        """By loader, the items of each batch since a model was called last."""
        self._drawn_items: dict[str, list[int]] = {}
        """By task, the items drawn for its models: in the last batch before each call, in all batches; and
        the number of such calls.
        """
        self._explicit_tasks: set[str] = set()
        """Tasks whose steps a voirfile marks. These record their items themselves."""
        self._sums: deque[Sums] = deque([Sums(0.0, 0, {})])
        """The sums at the moments of the window."""
        self._step_ended = 0
        """When the last training step ended."""
        self._step_seconds: deque[float] = deque(maxlen=LENGTHS)
        self.positions = LoopPositions()
        """The passes over its loaders."""
        self.goal: int | None = None
        """The number of steps after which its trainer ends, if that announced it."""
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
        if kind.region == "step":
            self._explicit_step(start, end, payload & ITEMS, kind.task)
        else:
            progress = self._progress(kind.task)
            progress.went_on(start, end)
            if self._inference is not None:
                self._count_inference(self._inference, start, end, kind)
            if kind.region == "forward" or (kind.region == "compiled" and kind.paces):
                self._forward(progress, kind, payload & ITEMS)
            elif payload and kind.region == "io":
                self._fetched_items.setdefault(kind.source, []).append(payload & ITEMS)
        self._add_to_parts(start, end, kind)
        if kind.region == "io.start":
            self.positions.begin(kind.source)
        if kind.paces:
            self._count_training(kind, start, end)

    def _count_inference(
        self, threads: dict[int, tuple[ThreadSteps, Parts]], start: int, end: int, kind: SiteKind
    ) -> None:
        """Count a span for the steps of inference of its thread in ``threads``, until anything is trained.

        These are the steps that ``--stop`` counts: one for each fetch, or for each call of a model without a
        loader.
        """
        if kind.learns or updates(kind.region, kind.site.phase):
            # It trains, and what was predicted so far was an evaluation before the training.
            self._inference = None
            self._sums = deque([Sums(0.0, 0, {})])
            return
        if kind.thread not in threads:
            threads[kind.thread] = ThreadSteps(), Parts()
        steps, parts = threads[kind.thread]
        loads = is_loaders(kind.object_id, kind.site.selector)
        if kind.region == "io.end":
            parts.exhausted(start, kind.source)
            if loads and steps.end(kind.source) and EVALUATION in self.tasks:
                self._set_inference_steps(self.tasks[EVALUATION])
            return
        parts.span(start, end, kind.region, kind.source, kind.gives)
        if kind.region == "io" and loads:
            if steps.fetch(kind.source):
                parts.fetched(start, kind.source)
        elif kind.region == "forward" and kind.evaluates and steps.update(kind.source):
            parts.updated(end)

    def _set_inference_steps(self, progress: TaskProgress) -> None:
        """Set the steps of inference: those of the thread that made most of them."""
        if EVALUATION not in self._explicit_tasks:
            threads = (self._inference or {}).values()
            progress.steps = max((steps.steps for steps, _ in threads), default=0)

    def _add_to_parts(self, start: int, end: int, kind: SiteKind) -> None:
        """Add a span to the parts of the training steps of its thread."""
        parts = self._parts_of_thread.get(kind.thread)
        if parts is None:
            parts = self._parts_of_thread[kind.thread] = Parts()
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

    def _progress(self, task: str) -> TaskProgress:
        """The progress of a task, which begins with its first span."""
        progress = self.tasks.get(task)
        if progress is None:
            progress = self.tasks[task] = TaskProgress()
        return progress

    def _explicit_step(self, start: int, end: int, items: int, task: str) -> None:
        """Count a step that a voirfile marks."""
        progress = self._progress(task)
        progress.went_on(start, end)
        if task not in self._explicit_tasks:
            # What was counted before its first step ended is part of that step.
            self._explicit_tasks.add(task)
            progress.items = 0
            progress.steps = 0 if task != TRAIN else progress.steps
        progress.items += items
        if task != TRAIN:  # those are counted by _count_training
            progress.begins.append((start, progress.steps))
            progress.steps += 1

    def _forward(self, progress: TaskProgress, kind: SiteKind, items: int) -> None:
        """Count the items of a model's call, and the steps of an evaluation, which are its calls.

        The items of a task are those that its loaders drew, or else those of the model that was called with
        most.
        """
        if self._fetched_items:
            drawn = self._drawn_items.setdefault(kind.task, [0, 0, 0])
            drawn[0] += max(batches[-1] for batches in self._fetched_items.values())
            drawn[1] += sum(sum(batches) for batches in self._fetched_items.values())
            drawn[2] += 1
            self._fetched_items.clear()
        probe = kind.task, kind.site.selector
        if kind.learns and probe not in self._learning:
            # The first call in training: modules without a mode that were counted before were not the model.
            self._learning.add(probe)
            self._model_calls = {
                key: calls for key, calls in self._model_calls.items() if key[0] != kind.task
            }
            if kind.task not in self._explicit_tasks:
                progress.items = 0
        if not (kind.learns or kind.evaluates) and probe in self._learning:
            # A module without parameters beside the model, such as a loss, whose batch dimension may be
            # tokens.
            return
        calls = self._model_calls.setdefault((kind.task, kind.object_id), [0, 0])
        calls[0] += 1
        calls[1] += items
        self._set_items(
            progress,
            kind,
            max(seen[1] for key, seen in self._model_calls.items() if key[0] == kind.task),
        )
        if kind.task not in self._explicit_tasks and kind.evaluates:
            if self._inference is None:
                progress.steps = max(progress.steps, calls[0])
            else:
                self._set_inference_steps(progress)

    def _set_items(self, progress: TaskProgress, kind: SiteKind, called: int) -> None:
        """Set the items of a task, where its models were ``called`` with so many."""
        if kind.task in self._explicit_tasks:
            return
        last, every, calls = self._drawn_items.get(kind.task, (0, 0, 0))
        size = every // calls if calls else 0  # of a batch
        # Loaders and models agree, up to the batch that is being worked on.
        if not last or (called and min(abs(called - last), abs(called - every)) <= size):
            progress.items = max(progress.items, called)
        elif called and last == calls:
            # Each draw gave one object, which may stand for many items or be a part of one: none are claimed.
            progress.items = 0
        else:
            progress.items = last

    def _count_training(self, kind: SiteKind, start: int, end: int) -> None:
        """Count the training steps of a thread by a span that paces them, as the program itself
        counts them.
        """
        thread = self._steps_of_thread.get(kind.thread)
        if thread is None:
            thread = self._steps_of_thread[kind.thread] = ThreadSteps()
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
        progress = self._progress(TRAIN)
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
        """Another process saw that it has ended; ``code`` is its exit code or minus a signal, None if
        unknown.
        """
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
        marked = self._explicit_tasks - {EVALUATION}
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
        return self._inference is not None and any(
            steps.steps for steps, _ in self._inference.values()
        )

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
        if self._predicts and not any(parts.total for parts in all_parts):
            all_parts = [parts for _, parts in (self._inference or {}).values()]
        total = sum(parts.total for parts in all_parts)
        if total == self._sums[-1].total:
            return
        regions: dict[str, int] = {}
        for parts in all_parts:
            for name, spent in parts.regions.items():
                regions[name] = regions.get(name, 0) + spent
        now = self.latest / 1e9
        self._sums.append(Sums(now, total, regions))
        # The first of them may lie before the window, so that there are always two to subtract.
        while len(self._sums) > 2 and self._sums[1].seconds < now - WINDOW:
            self._sums.popleft()

    def regions(self) -> dict[str, float]:
        """The share, 0…1, of each region in its steps of the window; empty before the first step."""
        first, last = self._sums[0], self._sums[-1]
        total = last.total - first.total
        if total <= 0:
            return {}
        return {
            name: (spent - first.regions.get(name, 0)) / total
            for name, spent in last.regions.items()
            if spent > first.regions.get(name, 0)
        }
