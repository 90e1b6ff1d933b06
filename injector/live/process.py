"""What one process of the program has done so far, summed up from its spans as they come."""

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
"""Steps whose median is what a step usually takes."""
MOST_VALUES = 1 << 16
"""Values of a log that are kept for a follower that takes them."""
Row = tuple[int, int, int, int]


class Sums(NamedTuple):
    """What the steps until one moment, in seconds of the monotonic clock, are made of."""

    seconds: float
    total: int
    """Nanoseconds of all steps."""
    regions: dict[str, int]


class RecordedValue(NamedTuple):
    """A number of a series."""

    series: str
    moment: int
    """Nanoseconds of the monotonic clock."""
    value: float
    step: int | None
    """Where the program gave one."""


class LiveProcess:
    """One process: its rank, its tasks, its regions. Moments are nanoseconds of its monotonic clock.

    ``raw``: the folder of its files.
    """

    def __init__(self, name: str, raw: str) -> None:
        self.name = name
        self.raw = raw
        self.facts: dict[str, Any] = {}
        self.rank: int | None = None
        self.world: int | None = None
        self.device: str | None = None
        self.ended = False
        self.code: int | None = None
        """Its exit code, or minus the signal that it died by, as far as it is known."""
        self.gone = False
        """Whether another process saw that it had ended."""
        self.error = ""
        self.stopping = False
        self.losses: dict[str, float] = {}
        self.values: deque[RecordedValue] = deque(maxlen=MOST_VALUES)
        """The latest that its log has."""
        self.latest = self.began = 0
        """When its last span ended, and when that had begun."""
        self.noted = 0
        """When its last record was made."""
        self.clock = HostClock()
        """Of its host."""
        self.last: SiteKind | None = None
        """What that span was."""
        self.tasks: dict[str, TaskProgress] = {}
        self._kinds: dict[int, SiteKind] = {}
        self._by_thread: dict[int, ThreadSteps] = {}
        self._parts: dict[int, Parts] = {}
        self._predicting: dict[int, tuple[ThreadSteps, Parts]] | None = {}
        """By thread, the steps of inference; None once anything is trained: those were an evaluation's."""
        self._trained: set[object] = set()
        """Models that were called in training."""
        self._models: dict[tuple[str, object], list[int]] = {}
        """By task and model: calls, and items that it was called with."""
        self._learning: set[tuple[str, object]] = set()
        """Tasks and probes that have seen a model that is being trained."""
        self._fetched: dict[object, list[int]] = {}
        """By loader, the items of its batches since a model was called last."""
        self._drawn: dict[str, list[int]] = {}
        """By task, items that were drawn for its models: of the last batches before each call, of all;
        and how often."""
        self._explicit: set[str] = set()
        """Tasks whose steps record their number of items."""
        self._marks: deque[Sums] = deque([Sums(0.0, 0, {})])
        self._stepped = 0
        self._lengths: deque[float] = deque(maxlen=LENGTHS)
        self.positions = LoopPositions()
        """Its loaders' passes."""
        self.goal: int | None = None
        """Steps after which its trainer ends, where that says so."""
        self._planned: tuple[int, int] | None = None
        """When a trainer announced how many steps are to come, and how many."""

    # -- what comes

    def record(self, event: str, data: Any, moment: int = 0) -> None:
        """Take a record of its log, written at ``moment``."""
        self.noted = max(self.noted, moment)
        if not isinstance(data, dict):
            return
        if event == "process":
            self.facts = data
            by_task = data.get("rank") is None  # what is no rank makes no steps, and is not shown
            rank, world = ("task", "tasks") if by_task else ("rank", "world")
            self.rank, self.world = data.get(rank), data.get(world)
        elif event == "rank":
            self.rank, self.world = data.get("rank"), data.get("world")
        elif event == "site":
            site = call_site(data)
            if site is not None and not site.is_memory:  # of which the device may be the host
                self.device = site.device or self.device
                if site.clock != "device":
                    self._kinds[site.number] = SiteKind(site)
        elif event == "ahead":
            self.positions.announced(data.get("of"), data.get("batches"))
            self.positions.planned(data.get("epochs"), moment)
            if isinstance(data.get("steps"), int):
                self._planned = moment, data["steps"]
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
            self._keep(name, value, moment, data.get("step"))
        elif event == "data":
            for name in data.keys() - CONTEXT:
                series = "/".join(map(str, filter(None, (data.get("task"), name))))
                self._keep(series, data[name], moment, None)

    def _keep(self, series: str, value: object, moment: int, step: object) -> None:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            whole = step if isinstance(step, int) else None
            self.values.append(RecordedValue(series, moment, float(value), whole))

    def spans(self, rows: Iterable[Row]) -> None:
        """Take rows of its spans, in the order in which they were written."""
        kinds, latest, began = self._kinds, self.latest, self.began
        kind = None
        for start, end, payload, number in rows:
            found = kinds.get(number)
            if found is not None:
                self._span(start, end, payload, found)
                # A rank that hangs may sleep over and over: a wait is no sign that it goes on.
                if end >= latest and found.region != "wait":
                    latest, began, kind = end, start, found
        if kind is not None:
            self.latest, self.began = latest, began
            self.last = kind

    def _span(self, start: int, end: int, payload: int, kind: SiteKind) -> None:
        if kind.region == "step":
            self._explicit_step(start, end, payload & ITEMS, kind.task)
        else:
            progress = self._progress(kind.task)
            progress.went_on(start, end)
            if self._predicting is not None:
                self._predicted(self._predicting, start, end, kind)
            if kind.region == "forward" or (kind.region == "compiled" and kind.paces):
                self._forward(progress, kind, payload & ITEMS)
            elif payload and kind.region == "io":
                self._fetched.setdefault(kind.source, []).append(payload & ITEMS)
        self._part(start, end, kind)
        if kind.region == "io.start":
            self.positions.begin(kind.source)
        if kind.paces:
            self._paced(kind, start, end)

    def _predicted(
        self, threads: dict[int, tuple[ThreadSteps, Parts]], start: int, end: int, kind: SiteKind
    ) -> None:
        """Count the steps of inference, and what they are made of, until anything is trained.

        They are those that ``--stop`` counts: one a fetch, or one a call of a model that no loader feeds.
        """
        if kind.learns or updates(kind.region, kind.site.phase):
            self._predicting = None
            self._marks = deque([Sums(0.0, 0, {})])
            return
        if kind.thread not in threads:
            threads[kind.thread] = ThreadSteps(), Parts()
        steps, parts = threads[kind.thread]
        loads = is_loaders(kind.object_id, kind.site.selector)
        if kind.region == "io.end":
            parts.exhausted(start, kind.source)
            if loads and steps.end(kind.source) and EVALUATION in self.tasks:
                self._count_predicted(self.tasks[EVALUATION])
            return
        parts.span(start, end, kind.region, kind.source, kind.gives)
        if kind.region == "io" and loads:
            if steps.fetch(kind.source):
                parts.fetched(start, kind.source)
        elif kind.region == "forward" and kind.evaluates and steps.update(kind.source):
            parts.updated(end)

    def _count_predicted(self, progress: TaskProgress) -> None:
        if EVALUATION not in self._explicit:
            threads = (self._predicting or {}).values()
            progress.steps = max((steps.steps for steps, _ in threads), default=0)

    def _part(self, start: int, end: int, kind: SiteKind) -> None:
        """Of which region the time of a step is."""
        parts = self._parts.get(kind.thread)
        if parts is None:
            parts = self._parts[kind.thread] = Parts()
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
        progress = self.tasks.get(task)
        if progress is None:
            progress = self.tasks[task] = TaskProgress()
        return progress

    def _explicit_step(self, start: int, end: int, items: int, task: str) -> None:
        progress = self._progress(task)
        progress.went_on(start, end)
        if task not in self._explicit:
            self._explicit.add(task)
            progress.items = 0
            progress.steps = 0 if task != TRAIN else progress.steps
        progress.items += items
        if task != TRAIN:  # these are counted as they pace the loop
            progress.begins.append((start, progress.steps))
            progress.steps += 1

    def _forward(self, progress: TaskProgress, kind: SiteKind, items: int) -> None:
        """Items are those that loaders drew, else of the model that saw most; batches that are only
        evaluated are its calls.

        What is called beside a model that learns (a loss) may count tokens, and is none.
        """
        if self._fetched:
            drawn = self._drawn.setdefault(kind.task, [0, 0, 0])
            drawn[0] += max(batches[-1] for batches in self._fetched.values())
            drawn[1] += sum(sum(batches) for batches in self._fetched.values())
            drawn[2] += 1
            self._fetched.clear()
        probe = kind.task, kind.site.selector
        if kind.learns and probe not in self._learning:
            self._learning.add(probe)
            self._models = {key: seen for key, seen in self._models.items() if key[0] != kind.task}
            if kind.task not in self._explicit:
                progress.items = 0
        if not (kind.learns or kind.evaluates) and probe in self._learning:
            return
        seen = self._models.setdefault((kind.task, kind.object_id), [0, 0])
        seen[0] += 1
        seen[1] += items
        self._count(
            progress, kind, max(each[1] for of, each in self._models.items() if of[0] == kind.task)
        )
        if kind.task not in self._explicit and kind.evaluates:
            if self._predicting is None:
                progress.steps = max(progress.steps, seen[0])
            else:
                self._count_predicted(progress)

    def _count(self, progress: TaskProgress, kind: SiteKind, called: int) -> None:
        """Set the items of a task: those its models were ``called`` with where as many were drawn."""
        if kind.task in self._explicit:
            return
        last, every, calls = self._drawn.get(kind.task, (0, 0, 0))
        size = every // calls if calls else 0
        if not last or (called and min(abs(called - last), abs(called - every)) <= size):
            progress.items = max(progress.items, called)
        elif called and last == calls:  # one draw that is many items, or one of many parts
            progress.items = 0
        else:
            progress.items = last

    def _paced(self, kind: SiteKind, start: int, end: int) -> None:
        """Count training steps as they are kept apart while a program runs."""
        thread = self._by_thread.get(kind.thread)
        if thread is None:
            thread = self._by_thread[kind.thread] = ThreadSteps()
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
                self._parts[kind.thread].fetched(start, kind.source)
        elif thread.update(kind.source):
            self._parts[kind.thread].updated(end)
        steps = max(thread.steps for thread in self._by_thread.values())
        progress = self._progress(TRAIN)
        if self._planned is not None and end > self._planned[0]:
            self.goal, self._planned = progress.steps + self._planned[1], None
        if steps != progress.steps:
            if self._stepped:
                self._lengths.append((end - self._stepped) / 1e9)
            self._stepped = end
            progress.steps = steps
            begin = {"step": (start, steps - 1), "io": (start, steps)}
            progress.begins.append(begin.get(kind.region, (end, steps)))

    def has_gone(self, code: int | None) -> None:
        """Another process saw that it has ended, and perhaps how."""
        self.gone = True
        self.code = code if code is not None else self.code

    def call(self, number: int) -> RegionCall | None:
        """What the site of that number stands for."""
        kind = self._kinds.get(number)
        return None if kind is None else kind.call

    @property
    def settling(self) -> bool:
        """Whether it is not known as yet if its host is silent, or has a clock that is behind."""
        clock = clock_of(self.facts)
        return clock is not None and self.clock.settling(clock.offset)

    @property
    def start(self) -> int | None:
        """When it made its first record, unix nanoseconds by the clock of who watches; None before that."""
        clock = clock_of(self.facts)
        return None if clock is None else clock.monotonic + self.clock.offset(clock.offset)

    def as_rank(self, now: int, over: bool) -> RankProcess:
        """What is known of it as a rank at ``now``, unix nanoseconds; ``over``: the run has ended."""
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

    # -- what it comes to

    @property
    def shown(self) -> dict[str, TaskProgress]:
        """Its tasks. Where a voirfile marks the steps of some, nothing is training but what it marks.

        As long as models only predict, nothing is training either, and what evaluates is inference, as in
        the report.
        """
        marked = self._explicit - {EVALUATION}
        if TRAIN in marked or not (marked or self._predicts):
            return self.tasks
        words = {EVALUATION: INFERENCE} if self._predicts else {}
        return {words.get(n, n): progress for n, progress in self.tasks.items() if n != TRAIN}

    @property
    def doing(self) -> str:
        """``training``, ``evaluating`` or ``inference``: what its latest span was of."""
        if self._predicts:
            return INFERENCE
        return "evaluating" if self.last is not None and self.last.evaluates else "training"

    @property
    def _predicts(self) -> bool:
        """Whether it makes steps of inference."""
        return self._predicting is not None and any(
            steps.steps for steps, _ in self._predicting.values()
        )

    @property
    def main(self) -> TaskProgress:
        """What it is there for: training, else the task with most steps."""
        shown = self.shown
        if TRAIN in shown:
            return shown[TRAIN]
        others = [progress for name, progress in shown.items() if name != EVALUATION]
        return max(others or shown.values(), key=lambda each: each.steps, default=TaskProgress())

    @property
    def steps(self) -> int:
        """Its steps so far."""
        return self.main.steps

    @property
    def usual(self) -> float:
        """Seconds that a training step usually takes; 0 before there are two."""
        return median(self._lengths) if self._lengths else 0.0

    def mark(self) -> None:
        """Remember the sums of this moment, for the rates that follow."""
        moved = {name for name, progress in self.tasks.items() if progress.moved}
        for name, progress in self.tasks.items():
            progress.mark(others=bool(moved - {name}))
        mine = list(self._parts.values())
        if self._predicts and not any(parts.total for parts in mine):
            mine = [parts for _, parts in (self._predicting or {}).values()]
        total = sum(parts.total for parts in mine)
        if total == self._marks[-1].total:
            return
        regions: dict[str, int] = {}
        for parts in mine:
            for name, spent in parts.regions.items():
                regions[name] = regions.get(name, 0) + spent
        now = self.latest / 1e9
        self._marks.append(Sums(now, total, regions))
        while len(self._marks) > 2 and self._marks[1].seconds < now - WINDOW:
            self._marks.popleft()

    def regions(self) -> dict[str, float]:
        """The part of its steps in the window, 0…1, that each region took; empty before the first."""
        first, last = self._marks[0], self._marks[-1]
        total = last.total - first.total
        if total <= 0:
            return {}
        return {
            name: (spent - first.regions.get(name, 0)) / total
            for name, spent in last.regions.items()
            if spent > first.regions.get(name, 0)
        }
