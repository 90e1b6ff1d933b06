"""The ranks of a recorded run, and what is known of each: its last span, its steps, how it ended.

:mod:`.outcomes` tells from it what became of each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..exit_status import code_of
from ..store import spans
from ..store.call_sites import CallSite
from ..store.folder import Run
from .arrays import among, median_of
from .attempts import number_attempts, ranks_among
from .columns import RecordedProcess, SpanColumns, sources
from .outcomes import LastSpan, RankProcess, RegionCall, outcomes_of
from .profile import RankOutcome
from .traces import LoopTrace


def outcomes_without_spans(run: Run) -> tuple[RankOutcome, ...]:
    """What became of the ranks of a ``run`` without spans. Raises OSError, NotARunError."""
    return outcomes_of(run.info, ranks_of(run.info, sources(run), {}, []))


def last_span(source: RecordedProcess, rows: SpanColumns) -> LastSpan | None:
    """The span that ended last.

    A wait is only taken if there is nothing else: it is rather the effect of a hang.
    """
    waits = [number for number, site in source.sites.items() if site.region == "wait"]
    end = rows.end
    if waits:
        is_work = ~among(rows.site, waits)
        end = np.where(is_work, end, np.iinfo(np.int64).min) if is_work.any() else end[:0]
    if not len(end):
        return None
    last = int(end.argmax())
    call = _call(source.sites[int(rows.site[last])])
    return LastSpan(int(rows.start[last]), int(rows.end[last]), call)


def _call(site: CallSite) -> RegionCall:
    return RegionCall(site.region, site.label, site.place)


def ranks_of(
    info: Mapping[str, Any],
    sources: Sequence[RecordedProcess],
    ends: Mapping[int, LastSpan],
    traces: Sequence[LoopTrace],
) -> list[RankProcess]:
    """The ranks of a run in the order in which they began; none for a run that was not collected.

    ``ends`` has the last span of each process by its index, ``traces`` the loops of all processes.
    """
    facts = info.get("processes") or ()
    if len(facts) != len(sources):
        return []
    candidates = [source.as_rank(fact) for source, fact in zip(sources, facts, strict=True)]
    ranks = [candidates[at] for at in ranks_among(candidates, [s.index in ends for s in sources])]
    replaced = _replaced(sources)
    loops_of: dict[int, list[LoopTrace]] = {}
    for trace in traces:
        loops_of.setdefault(trace.source.index, []).append(trace)
    for rank in ranks:
        source, fact = sources[rank.process], facts[rank.process]
        rank.code, rank.error = code_of(fact.get("exit")), str(fact.get("error") or "")
        rank.in_order = source.ended is not None or source.index in replaced
        rank.last = ends.get(source.index)
        # What it was in when it ended is only kept by a process that recorded spans.
        if rank.last is not None:
            opened = (source.sites.get(number) for number in spans.opened(source.spans_path))
            rank.opened = tuple(_call(site) for site in opened if site is not None)
        if own_loops := loops_of.get(source.index):
            last_loop = max(own_loops, key=lambda trace: trace.thirds[-1])
            rank.steps, rank.usual = len(last_loop), median_of(last_loop.table.seconds)
    number_attempts(ranks)
    return ranks


def _replaced(sources: Sequence[RecordedProcess]) -> set[int]:
    """Processes whose number was recorded again without an end in between: they became another program."""
    latest: dict[tuple[str, int | None], int] = {}
    replaced = set()
    for index, source in enumerate(sources):
        earlier = latest.get((source.host, source.pid))
        if earlier is not None and sources[earlier].ended is None:
            replaced.add(earlier)
        latest[source.host, source.pid] = index
    return replaced
