"""Loops over all their ranks, as the report wants them; their measured steps as sums over blocks.

Steps follow one another, so their times depend on each other: a slow disk makes many steps slow. Blocks of
consecutive steps are made so long that one says next to nothing of the next (:func:`correlation_time`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ..store.folder import Run
from ..value_class import replace
from .arrays import chained, exceptional, mean_across, statistics_of
from .columns import Floats, Ints
from .profile import Blocks, Exceptional, Node, Overlap, Statistics, TrainingLoop, Warmup
from .ranks import loop_rank_of, straggler_of, throughput_of
from .tables import Name, Path, Seconds
from .traces import LoopTrace

MOST = 64
"""Blocks of a process at most."""
LONG = 5
"""Correlation times that a block lasts at least."""
OVERLAPS = 12
"""Pairs of regions that overlap, at most: those that share most."""
_POINTS = 4096
"""Of a longer series, means of so many equal parts are correlated."""


def grouped(all_traces: list[LoopTrace], jobs: bool = True) -> list[list[LoopTrace]]:
    """The traces of each loop in the order of ranks; the loop that took longest first.

    What a launcher starts again is another loop: its steps did not come after those of the first attempt.
    Processes that are no ranks of one job (the trials of a study) have a loop each, unless ``jobs`` is
    False.
    """
    job = _jobs(all_traces) if jobs else {}
    found: dict[object, list[LoopTrace]] = {}
    for trace in all_traces:
        which = job.get(trace.source.index)
        found.setdefault((trace.key, trace.source.attempt, which), []).append(trace)
    for traces in found.values():
        traces.sort(key=lambda trace: (trace.source.rank is None, trace.source.rank or 0,
                                     trace.source.index))  # fmt: skip
    return sorted(found.values(), key=lambda traces: -max(trace.total for trace in traces))


def _jobs(traces: list[LoopTrace]) -> dict[int, str]:
    """By process, which of several jobs it works on: one where every rank comes again is the next one."""
    sources = {trace.source.index: trace.source for trace in traces}
    found = {index: f"process {index}" for index, each in sources.items() if not each.is_rank}
    ranks: dict[object, dict[int | None, list[int]]] = {}
    for index in sorted(sources.keys() - found.keys()):
        attempt, rank = sources[index].attempt, sources[index].rank
        ranks.setdefault(attempt, {}).setdefault(rank, []).append(index)
    for of_rank in ranks.values():
        times = {len(processes) for processes in of_rank.values()}
        several = len(of_rank) > 1 and len(times) == 1 and times != {1}
        for processes in of_rank.values():
            for number, index in enumerate(processes):
                found[index] = f"job {number}" if several else "job"
    return found


def labels(loops: list[list[LoopTrace]]) -> list[str | None]:
    """Of each loop in which of several jobs it is; None for all where there is one job."""
    job = _jobs([trace for traces in loops for trace in traces])
    found = [job[traces[0].source.index] for traces in loops]
    return [*found] if len(set(found)) > 1 else [None] * len(found)


def skipped_steps(run: Run) -> int:
    """How many steps ``--skip`` named; 0 without it."""
    limits = run.info.get("limits")
    skip = limits.get("skip") if isinstance(limits, dict) else None
    return int(skip) if isinstance(skip, (int, float)) and skip > 0 else 0


def warmup_steps(traces: list[LoopTrace], skip: int) -> int:
    """The steps at the begin of a loop that no rank counts."""
    return max(skip, *(trace.warmup for trace in traces))


def loop_of(traces: list[LoopTrace], skip: int, where: str | None) -> TrainingLoop:
    """A loop over all its ranks."""
    steps = warmup_steps(traces, skip)
    longest = max(traces, key=len)
    kept = longest.measured_from(steps)
    first = longest.table.seconds[:kept]
    made = _Tree(traces, steps)
    tree = made.node((), where)
    together = len({trace.source.rank for trace in traces} - {None}) > 1
    items, tokens = (_per_step(traces, steps, name) for name in ("items", "tokens"))
    return TrainingLoop(
        task=longest.pace.task,
        paced_by=longest.pace.paced_by,
        place=longest.pace.place,
        steps=len(longest),
        warmup=Warmup(kept, float(first.sum(dtype=np.float64)),
                      float(first.max()) if kept else 0.0, min(skip, kept)),
        step=tree.host,
        tree=tree,
        throughput=throughput_of(traces, steps, together),
        items_per_step=items,
        tokens_per_step=tokens,
        fetches_per_step=longest.fetches,
        updates_per_step=longest.updates,
        ranks=tuple(loop_rank_of(trace, steps) for trace in traces),
        straggler=straggler_of(traces, steps),
        exceptional=exceptional_of(longest, steps),
        overlaps=made.overlaps(),
        blocks=blocks_of(traces, steps),
    )  # fmt: skip


def numbered(found: list[TrainingLoop], loops: list[list[LoopTrace]]) -> list[TrainingLoop]:
    """The loops ``found`` of ``loops``, each with its job and its attempt where there are several."""
    named = zip(found, labels(loops), strict=True)
    found = [replace(loop, job=job) for loop, job in named]
    attempts = [traces[0].source.attempt for traces in loops]
    if len(set(attempts)) < 2:
        return found
    return [replace(loop, attempt=at) for loop, at in zip(found, attempts, strict=True)]


def _per_step(traces: list[LoopTrace], warmup: int, name: str) -> float | None:
    """On average, of one rank."""
    total = steps = 0.0
    for trace in traces:
        column = trace.items if name == "items" else trace.tokens
        if column is not None:
            first = trace.measured_from(warmup)
            total += float(column[first:].sum(dtype=np.float64))
            steps += len(column) - first
    return total / steps if steps and total else None


def exceptional_of(trace: LoopTrace, warmup: int) -> Exceptional | None:
    """The measured steps of ``trace`` that no share counts."""
    first = trace.measured_from(warmup)
    seconds = trace.table.seconds[first:]
    which = exceptional(seconds)
    if not which.any():
        return None
    spent = {name: float(each[first:][which].sum()) for name, each in trace.table.regions().items()}
    total = float(seconds[which].sum(dtype=np.float64))
    part = total / float(seconds.sum(dtype=np.float64))
    return Exceptional(int(which.sum()), total, part, max(spent, key=lambda name: spent[name]))


class _Tree:
    def __init__(self, traces: list[LoopTrace], warmup: int) -> None:
        self.traces = traces
        self.first = [trace.measured_from(warmup) for trace in traces]
        self.paths = list(dict.fromkeys(path for trace in traces for path in trace.table.columns))
        apart = np.concatenate([exceptional(each) for each in self.each(())])
        self.steps = len(apart)
        self.usual = ~apart if apart.any() else None
        """Which of all steps shares count; None for all of them."""
        self.total = self._counted(self.all(()))

    def all(self, path: Path, own: bool = False) -> Seconds:
        """The seconds of all measured steps, trace after trace, without the regions inside if ``own``."""
        return chained(self.each(path, own), self.steps)

    def each(self, path: Path, own: bool = False) -> Iterator[Seconds]:
        """The same of each trace."""
        for trace, first in zip(self.traces, self.first, strict=True):
            table = trace.table
            if path and path not in table.columns:
                seconds = np.zeros(len(table.seconds), np.float32)
            elif own:
                seconds = table.own(path)
            else:
                seconds = table.columns[path].seconds if path else table.seconds
            yield seconds[first:]

    def _measured(self, seconds: Seconds) -> tuple[Statistics, float]:
        return statistics_of(seconds), self.share(seconds)

    def share(self, seconds: Seconds) -> float:
        if not self.total:
            return 0.0
        return self._counted(seconds) / self.total

    def _counted(self, seconds: Seconds) -> float:
        counted = seconds if self.usual is None else seconds[self.usual]
        return float(counted.sum(dtype=np.float64))

    def node(self, path: Path, where: str | None = None) -> Node:
        # Before its parts: one column of all ranks' steps at a time.
        host, share = self._measured(self.all(path))
        inner = [p for p in self.paths if len(p) == len(path) + 1 and p[: len(path)] == path]
        children = [self.node(each) for each in inner]
        if children:
            children.append(self._rest(path, where))
        columns = [
            trace.table.columns[path] for trace in self.traces if path in trace.table.columns
        ]
        what = sorted(frozenset().union(*(column.what for column in columns)))
        known = [column.nbytes for column in columns if column.nbytes is not None]
        return Node(
            name=path[-1][0] if path else "step",
            place=path[-1][1] if path else self.traces[0].pace.place,
            host=host,
            share=share,
            calls=float(np.mean([column.calls for column in columns])) if path else 1.0,
            device=self._device(path),
            nbytes=sum(known) / len(known) if known else None,
            children=tuple(children),
            what=", ".join(what[:3]) or None,
            together=self._together(inner, children),
        )

    def _together(self, inner: list[Path], children: list[Node]) -> tuple[Node, ...]:
        """The regions that have several lines, each as one."""
        found = []
        for name in dict.fromkeys(path[-1][0] for path in inner):
            paths = [path for path in inner if path[-1][0] == name]
            nodes = [node for node in children if node.name == name]
            if len(paths) > 1:
                found.append(
                    Node(
                        name,
                        None,
                        *self._measured(self._sum(paths)),
                        sum(node.calls for node in nodes),
                        self._device(*paths),
                        sum(node.nbytes or 0.0 for node in nodes) or None,
                    )
                )
        return tuple(found)

    def overlaps(self) -> tuple[Overlap, ...]:
        """The regions that overlap, whole."""
        pairs = dict.fromkeys(
            frozenset(pair)
            for trace in self.traces
            for pair in sorted(trace.table.crossed, key=str)
        )
        found = []
        for one, other in map(tuple, pairs):
            paths = [p for p in self.paths if {one, other} <= {*p} and p[-1] in (one, other)]
            outer = [p for p in paths if p[-1] not in p[:-1]]
            if not outer:
                continue
            later = max((one, other), key=lambda name: sum(p[-1] == name for p in outer))
            earlier = one if later == other else other
            shared = statistics_of(self._sum(outer))
            found.append(Overlap(self._whole(later), self._whole(earlier), shared))
        found = [each for each in found if each.shared.max > 0]
        found.sort(key=lambda each: -each.shared.mean)
        return tuple(found[:OVERLAPS])

    def _whole(self, name: Name) -> Node:
        """A region at one line wherever in the step it is."""
        paths = [path for path in self.paths if path[-1] == name and name not in path[:-1]]
        tables = [trace.table.columns for trace in self.traces]
        calls = np.mean([sum(table[p].calls for p in paths if p in table) for table in tables])
        measured = self._measured(self._sum(paths))
        return Node(*name, *measured, float(calls), self._device(*paths))

    def _sum(self, paths: list[Path]) -> Seconds:
        traces = zip(*map(self.each, paths), strict=True)
        return chained((np.sum(each, axis=0) for each in traces), self.steps)

    def _rest(self, path: Path, where: str | None) -> Node:
        return Node("other", None, *self._measured(self.all(path, own=True)), 0.0, what=where)

    def _device(self, *paths: Path) -> Statistics | None:
        """Of several paths, their sums, in the steps in which all are known."""
        found = []
        for trace, first in zip(self.traces, self.first, strict=True):
            table = trace.table
            columns = [c for p in paths if (c := table.columns.get(p)) and c.device is not None]
            known = [column.device for column in columns if column.device is not None]
            flags = [column.timed for column in columns]
            if paths == ((),):
                whole = table.busy() if table.device is None else table.device
                known = [] if whole is None else [whole]
                flags = [table.timed if table.device is None else None]
            if known:
                timed = np.ones(len(trace), np.bool_)
                for flag in flags:
                    timed = timed if flag is None else timed & flag
                found.append(np.sum(known, axis=0)[first:][timed[first:]])
        every = [seconds for seconds in found if len(seconds)]
        return statistics_of(np.concatenate(every)) if every else None


# --- sums over blocks of steps: what a comparison resamples ----------------------------------------


def blocks_of(traces: Sequence[LoopTrace], warmup: int) -> Blocks | None:
    """Of the ranks of one job: the steps that all of them made; None where there are none."""
    first = [trace.measured_from(warmup) for trace in traces]
    number = min(len(trace) - at for trace, at in zip(traces, first, strict=True))
    if number < 1:
        return None
    kept = [slice(at, at + number) for at in first]
    whole = [trace.table.seconds[part] for trace, part in zip(traces, kept, strict=True)]
    edges = edges_of(mean_across(whole))
    regions: dict[str, Floats] = {}
    for trace, part in zip(traces, kept, strict=True):
        for name, each in trace.table.regions().items():
            regions[name] = regions.get(name, 0.0) + sums_of(each[part], edges) / len(traces)

    def total(columns: Sequence[npt.NDArray[np.floating] | None]) -> tuple[float, ...] | None:
        known = [each[part] for each, part in zip(columns, kept, strict=True) if each is not None]
        if len(known) < len(columns):
            return None
        return tuple(np.sum([sums_of(each, edges) for each in known], axis=0).tolist())

    return Blocks(
        steps=tuple(np.diff(edges, append=number).tolist()),
        seconds=tuple(np.mean([sums_of(each, edges) for each in whole], axis=0).tolist()),
        items=total([trace.items for trace in traces]),
        tokens=total([trace.tokens for trace in traces]),
        regions={name: tuple(each.tolist()) for name, each in regions.items()},
    )


def sums_of(values: npt.NDArray[np.floating], edges: Ints) -> Floats:
    """Of ``values``, one a step, the sum of each block that begins at one of ``edges``."""
    return np.add.reduceat(values, edges, dtype=np.float64)


def edges_of(seconds: npt.NDArray[np.floating]) -> Ints:
    """Where each block of steps of so many ``seconds`` begins; their lengths differ by one step at most."""
    number = len(seconds)
    blocks = min(MOST, int(number / (LONG * correlation_time(seconds))))
    return np.arange(max(blocks, 1)) * number // max(blocks, 1)


def correlation_time(values: npt.NDArray[np.floating]) -> float:
    """Over how many values they depend on each other: 1 + 2 Σ ρ(k), at least 1.

    The sum ends before the first pair of neighbouring correlations that is not positive: Geyer's initial
    positive sequence ("Practical Markov chain Monte Carlo", 1992).
    """
    number = len(values)
    merged = -(-number // _POINTS)
    if merged > 1:
        values = values[: number // merged * merged].reshape(-1, merged).mean(axis=1)
    centred = values.astype(np.float64) - values.mean(dtype=np.float64)
    size = len(centred)
    spread = float(centred @ centred)
    if size < 4 or spread == 0:
        return 1.0
    spectrum = np.fft.rfft(centred, 2 * size)
    correlation = np.fft.irfft(np.abs(spectrum) ** 2)[:size] / spread
    pairs = correlation[: size // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    total = 2 * float(pairs[: ends[0] if len(ends) else len(pairs)].sum()) - 1
    return max(total, 1.0) * merged
