"""Loops over all their ranks: the tree of regions, shares and overlaps.

:func:`grouped` puts the traces of one loop together, one per rank (:mod:`.traces`); :func:`loop_of` makes of
them the :class:`.profile.TrainingLoop` that reports show. What it says of a step is over the measured steps
of all ranks: without the warm-up, and shares also without exceptional steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..store.folder import Run
from ..value_class import replace
from .arrays import chained, exceptional, statistics_of
from .pieces import Name, Path, Seconds
from .ranks import loop_rank_of, straggler_of, throughput_of
from .statistics import Statistics
from .step_blocks import blocks_of
from .traces import LoopTrace
from .training_loop import Exceptional, Node, Overlap, TrainingLoop, Warmup

OVERLAPS = 12
"""The most pairs of overlapping regions that are kept: those with the most time in common."""


def grouped(all_traces: list[LoopTrace], jobs: bool = True) -> list[list[LoopTrace]]:
    """The traces of each loop, ordered by rank; the loop that took longest comes first.

    What a launcher starts again is another loop: its steps did not follow those of the first attempt.
    Processes that are no ranks of one job (the trials of a study) have a loop each, unless ``jobs`` is False.
    """
    job = _jobs(all_traces) if jobs else {}
    groups: dict[object, list[LoopTrace]] = {}
    for trace in all_traces:
        trace_job = job.get(trace.source.index)
        groups.setdefault((trace.key, trace.source.attempt, trace_job), []).append(trace)
    # Processes without a rank come last.
    for traces in groups.values():
        traces.sort(key=lambda trace: (trace.source.rank is None, trace.source.rank or 0,
                                     trace.source.index))  # fmt: skip
    return sorted(groups.values(), key=lambda traces: -max(trace.total for trace in traces))


def _jobs(traces: list[LoopTrace]) -> dict[int, str]:
    """The name of the job of each process, by the process's index.

    If every rank comes several times, the program starts one job after the other: the second process of each
    rank belongs to the second job.
    """
    sources = {trace.source.index: trace.source for trace in traces}
    job_of = {index: f"process {index}" for index, source in sources.items() if not source.is_rank}
    ranks: dict[object, dict[int | None, list[int]]] = {}
    for index in sorted(sources.keys() - job_of.keys()):
        attempt, rank = sources[index].attempt, sources[index].rank
        ranks.setdefault(attempt, {}).setdefault(rank, []).append(index)
    for of_rank in ranks.values():
        starts = {len(processes) for processes in of_rank.values()}
        several = len(of_rank) > 1 and len(starts) == 1 and starts != {1}
        for processes in of_rank.values():
            for number, index in enumerate(processes):
                job_of[index] = f"job {number}" if several else "job"
    return job_of


def labels(loops: list[list[LoopTrace]]) -> list[str | None]:
    """The name of each loop's job; None for all loops of a run with one job."""
    job = _jobs([trace for traces in loops for trace in traces])
    names = [job[traces[0].source.index] for traces in loops]
    return [*names] if len(set(names)) > 1 else [None] * len(names)


def skipped_steps(run: Run) -> int:
    """The number of steps that ``--skip`` named; 0 without it."""
    limits = run.info.get("limits") or {}
    return max(int(limits.get("skip") or 0), 0)


def warmup_steps(traces: list[LoopTrace], skip: int) -> int:
    """How many steps at the begin of a loop are in no rank's statistics."""
    return max(skip, *(trace.warmup for trace in traces))


def work_together(traces: Sequence[LoopTrace]) -> bool:
    """Whether the traces are of several ranks of one job, which make each step together."""
    return len({trace.source.rank for trace in traces} - {None}) > 1


def loop_of(traces: list[LoopTrace], skip: int) -> TrainingLoop:
    """A loop over all its ranks; of the first one it says between which lines most of ``other`` lies."""
    steps = warmup_steps(traces, skip)
    # Ranks may have recorded different numbers of steps: figures of one rank are those of the longest.
    longest = max(traces, key=len)
    counted_from = longest.measured_from(steps)
    warmup_seconds = longest.table.seconds[:counted_from]
    builder = _TreeBuilder(traces, steps)
    gap = traces[0].gap
    tree = builder.node((), gap.text if gap and gap.is_most else None)
    # Per rank, whereas throughput is that of all ranks.
    items, tokens = (_per_step(traces, steps, name) for name in ("items", "tokens"))
    return TrainingLoop(
        task=longest.pace.task,
        paced_by=longest.pace.paced_by,
        place=longest.pace.place,
        steps=len(longest),
        warmup=Warmup(counted_from, float(warmup_seconds.sum(dtype=np.float64)),
                      float(warmup_seconds.max()) if counted_from else 0.0, min(skip, counted_from)),
        step=tree.host,
        tree=tree,
        throughput=throughput_of(traces, steps, work_together(traces)),
        items_per_step=items,
        tokens_per_step=tokens,
        fetches_per_step=longest.fetches,
        updates_per_step=longest.updates,
        ranks=tuple(loop_rank_of(trace, steps) for trace in traces),
        straggler=straggler_of(traces, steps),
        exceptional=exceptional_of(longest, steps),
        overlaps=builder.overlaps(),
        blocks=blocks_of(traces, steps),
    )  # fmt: skip


def numbered(training: list[TrainingLoop], loops: list[list[LoopTrace]]) -> list[TrainingLoop]:
    """``training``, made of the traces in ``loops``, with jobs, attempts and numbers if there are several."""
    with_jobs = zip(training, labels(loops), strict=True)
    training = [replace(loop, job=job) for loop, job in with_jobs]
    alike: dict[object, list[int]] = {}
    for at in sorted(range(len(loops)), key=lambda at: loops[at][0].start[0]):
        loop = training[at]
        key = loop.task, loop.paced_by, loop.place, loop.job, loops[at][0].source.attempt
        alike.setdefault(key, []).append(at)
    for at_line in alike.values():
        for number, at in enumerate(at_line, 1):
            if len(at_line) > 1:
                training[at] = replace(training[at], of_line=(number, len(at_line)))
    attempts = [traces[0].source.attempt for traces in loops]
    if len(set(attempts)) < 2:
        return training
    return [
        replace(loop, attempt=attempt) for loop, attempt in zip(training, attempts, strict=True)
    ]


def _per_step(traces: list[LoopTrace], warmup: int, name: str) -> float | None:
    """The mean of ``items`` or ``tokens``, whichever ``name`` is, over the measured steps of all ranks."""
    total = steps = 0.0
    for trace in traces:
        column = trace.items if name == "items" else trace.tokens
        if column is not None:
            first = trace.measured_from(warmup)
            total += float(column[first:].sum(dtype=np.float64))
            steps += len(column) - first
    return total / steps if steps and total else None


def exceptional_of(trace: LoopTrace, warmup: int) -> Exceptional | None:
    """The measured steps of ``trace`` that stand for nothing but themselves; None if there are none."""
    first = trace.measured_from(warmup)
    seconds = trace.table.seconds[first:]
    is_exceptional = exceptional(seconds)
    if not is_exceptional.any():
        return None
    spent = {
        name: float(column[first:][is_exceptional].sum())
        for name, column in trace.table.regions().items()
    }
    total = float(seconds[is_exceptional].sum(dtype=np.float64))
    share = total / float(seconds.sum(dtype=np.float64))
    return Exceptional(
        int(is_exceptional.sum()), total, share, max(spent, key=lambda name: spent[name])
    )


class _TreeBuilder:
    """The tree of a loop's regions over all ranks.

    Each node's statistics are over the steps of all ranks, in one column that is dropped before the next is
    made: kept for all regions, they would be gigabytes.
    """

    def __init__(self, traces: list[LoopTrace], warmup: int) -> None:
        self.traces = traces
        self.first = [trace.measured_from(warmup) for trace in traces]
        self.paths = list(dict.fromkeys(path for trace in traces for path in trace.table.columns))
        is_exceptional = np.concatenate([exceptional(seconds) for seconds in self.by_trace(())])
        self.steps = len(is_exceptional)
        self.usual = ~is_exceptional if is_exceptional.any() else None
        """Which steps count for shares: all but the exceptional ones; None for all."""
        self.total = self._counted(self.joined(()))

    def joined(self, path: Path, own: bool = False) -> Seconds:
        """Seconds of ``path`` in all measured steps, trace after trace.

        With ``own``, without the regions inside it.
        """
        return chained(self.by_trace(path, own), self.steps)

    def by_trace(self, path: Path, own: bool = False) -> Iterator[Seconds]:
        """The same, one trace at a time."""
        for trace, first in zip(self.traces, self.first, strict=True):
            table = trace.table
            if path and path not in table.columns:
                # A rank that never was in this region spent no time there.
                seconds = np.zeros(len(table.seconds), np.float32)
            elif own:
                seconds = table.own(path)
            else:
                seconds = table.columns[path].seconds if path else table.seconds
            yield seconds[first:]

    def _measured(self, seconds: Seconds) -> tuple[Statistics, float]:
        return statistics_of(seconds), self.share(seconds)

    def share(self, seconds: Seconds) -> float:
        """The fraction of all steps' time that ``seconds`` are."""
        if not self.total:
            return 0.0
        return self._counted(seconds) / self.total

    def _counted(self, seconds: Seconds) -> float:
        counted = seconds if self.usual is None else seconds[self.usual]
        return float(counted.sum(dtype=np.float64))

    def node(self, path: Path, where: str | None = None) -> Node:
        """The region of ``path`` with those inside it. ``where`` is the ``what`` of its ``other``."""
        # Before the regions inside: so only one column of all ranks' steps is in memory at a time.
        host, share = self._measured(self.joined(path))
        inner_paths = [p for p in self.paths if len(p) == len(path) + 1 and p[: len(path)] == path]
        children = [self.node(inner_path) for inner_path in inner_paths]
        if children:
            rest = self._measured(self.joined(path, own=True))
            children.append(Node("other", None, *rest, 0.0, what=where))
        columns = [
            trace.table.columns[path] for trace in self.traces if path in trace.table.columns
        ]
        labels = sorted(frozenset().union(*(column.what for column in columns)))
        nbytes = [column.nbytes for column in columns if column.nbytes is not None]
        return Node(
            name=path[-1][0] if path else "step",
            place=path[-1][1] if path else self.traces[0].pace.place,
            host=host,
            share=share,
            calls=float(np.mean([column.calls for column in columns])) if path else 1.0,
            device=self._device(path),
            nbytes=sum(nbytes) / len(nbytes) if nbytes else None,
            children=tuple(children),
            what=", ".join(labels[:3]) or None,
            together=self._together(inner_paths, children),
        )

    def _together(self, inner: list[Path], children: list[Node]) -> tuple[Node, ...]:
        """A node for each region that is called at several lines, all of them as one."""
        merged = []
        for name in dict.fromkeys(path[-1][0] for path in inner):
            paths = [path for path in inner if path[-1][0] == name]
            nodes = [node for node in children if node.name == name]
            # Not the sum of medians: a step may pass through one line or the other.
            if len(paths) > 1:
                merged.append(
                    Node(
                        name,
                        None,
                        *self._measured(self._sum(paths)),
                        sum(node.calls for node in nodes),
                        self._device(*paths),
                        sum(node.nbytes or 0.0 for node in nodes) or None,
                    )
                )
        return tuple(merged)

    def overlaps(self) -> tuple[Overlap, ...]:
        """Pairs of regions that overlap without nesting, both as a whole, with the time that they share."""
        pairs = dict.fromkeys(
            frozenset(pair)
            for trace in self.traces
            for pair in sorted(trace.table.crossed, key=str)
        )
        overlaps = []
        for one, other in map(tuple, pairs):
            paths = [p for p in self.paths if {one, other} <= {*p} and p[-1] in (one, other)]
            # Without paths in which a region contains itself: they would count twice.
            outermost = [p for p in paths if p[-1] not in p[:-1]]
            if not outermost:
                continue
            # On other ranks the order may be the other way round: what lies inside more often begins later.
            later = max((one, other), key=lambda name: sum(p[-1] == name for p in outermost))
            earlier = one if later == other else other
            shared = statistics_of(self._sum(outermost))
            overlaps.append(Overlap(self._whole(later), self._whole(earlier), shared))
        overlaps = [overlap for overlap in overlaps if overlap.shared.max > 0]
        overlaps.sort(key=lambda overlap: -overlap.shared.mean)
        return tuple(overlaps[:OVERLAPS])

    def _whole(self, name: Name) -> Node:
        """A region at one line, wherever in the step it is."""
        paths = [path for path in self.paths if path[-1] == name and name not in path[:-1]]
        tables = [trace.table.columns for trace in self.traces]
        calls = np.mean([sum(table[p].calls for p in paths if p in table) for table in tables])
        measured = self._measured(self._sum(paths))
        return Node(*name, *measured, float(calls), self._device(*paths))

    def _sum(self, paths: list[Path]) -> Seconds:
        """Seconds of all ``paths`` together, in all measured steps."""
        by_trace = zip(*map(self.by_trace, paths), strict=True)
        return chained((np.sum(columns, axis=0) for columns in by_trace), self.steps)

    def _device(self, *paths: Path) -> Statistics | None:
        """Statistics of the device's seconds for ``paths``, summed, in the steps in which all are known.

        The path ``()`` is the step: as a voirfile had it timed, else the sum of its regions.
        """
        by_trace = []
        for trace, first in zip(self.traces, self.first, strict=True):
            table = trace.table
            columns = [c for p in paths if (c := table.columns.get(p)) and c.device is not None]
            known = [column.device for column in columns if column.device is not None]
            timed_flags = [column.timed for column in columns]
            # The step itself has no column.
            if paths == ((),):
                step_seconds = table.busy() if table.device is None else table.device
                known = [] if step_seconds is None else [step_seconds]
                timed_flags = [table.timed if table.device is None else None]
            if known:
                timed = np.ones(len(trace), np.bool_)
                for flag in timed_flags:
                    timed = timed if flag is None else timed & flag
                by_trace.append(np.sum(known, axis=0)[first:][timed[first:]])
        filled = [seconds for seconds in by_trace if len(seconds)]
        return statistics_of(np.concatenate(filled)) if filled else None
