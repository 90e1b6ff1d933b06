"""A run for an OpenTelemetry collector, over OTLP and HTTP: its series and figures as metrics, its steps and
their regions as a trace.

Of a loop so many steps are in the trace as there are points of a series, the shortest and the longest among
them, and fewer where their regions would be more than :data:`SPANS` spans of a process.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from ..analysis.arrays import kept_of, owners
from ..analysis.columns import RecordedProcess, read_rows, sources
from ..analysis.profile import SourceLine
from ..analysis.traces import LoopTrace, Thread, threads_of
from ..analysis.wording import rank_name
from ..errors import UserError
from .content import Content, Series
from .tracked import Beginning, Destination, exported, missing_library

SERVICE = "injector"
SPANS = 20_000
"""Of a process, about as many as are exported at most."""
BATCH, POINTS = 2_000, 10_000
"""Spans, and points of metrics, in one request."""
TIMEOUT = 10.0
"""Seconds for one request, with the attempts that follow a refusal."""
COUNTED = re.compile(r"^(items|tokens|steps|passes|batches|count)\b")


def export(contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Send each run; the sentences that say where to. Raises UserError."""
    return exported(begin, contents, target)


def begin(target: Destination, run: Beginning) -> OtelRun:
    """A run whose metrics can be sent. Raises UserError."""
    try:
        return OtelRun(target, run)
    except ImportError as error:
        raise missing_library(error, "otel") from None


class OtelRun:
    """The metrics and the trace of one run."""

    def __init__(self, target: Destination, run: Beginning) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import export as metrics
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        base = None if target.uri is None else target.uri.rstrip("/")
        where = [None if base is None else f"{base}/v1/{kind}" for kind in ("metrics", "traces")]
        self._metrics: Any = metrics
        self._to_metrics: Any = OTLPMetricExporter(endpoint=where[0], timeout=TIMEOUT)
        self._to_traces: Any = OTLPSpanExporter(endpoint=where[1], timeout=TIMEOUT)
        self._uri = base or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "localhost:4318"
        self._resource: Any = Resource.create(
            {
                "service.name": target.project or os.environ.get("OTEL_SERVICE_NAME") or SERVICE,
                "service.instance.id": run.folder,
                "injector.run": run.name,
            }
        )
        self._scope: Any = InstrumentationScope("injector")
        self._run = run
        self._points = 0

    def log(self, series: Iterable[Series]) -> None:
        """Send points."""
        for one in series:
            times, values = (one.times * 1e9).astype(np.int64).tolist(), one.values.tolist()
            for at in range(0, len(times), POINTS):
                some = zip(times[at : at + POINTS], values[at : at + POINTS], strict=True)
                self._send_metrics([self._metric(one.name, one.unit, some)])

    def end(self, content: Content) -> str:
        """Send its figures, and its trace."""
        ended = round((content.summary.ended or content.summary.started or 0.0) * 1e9)
        self._send_metrics(
            [
                self._metric(name, figure.unit, [(ended, figure.value)])
                for name, figure in content.figures.items()
            ]
        )
        spans = RunSpans(content, self._resource, self._scope)
        for at in range(0, len(spans.made), BATCH):
            self._send(self._to_traces, spans.made[at : at + BATCH])
        sent = f"{self._points} points and {len(spans.made)} spans, trace {spans.trace:032x}"
        return f"{self._run.name}: {sent}, to {self._uri}"

    def _metric(self, name: str, unit: str, points: Iterable[tuple[int, float]]) -> Any:
        made = [
            self._metrics.NumberDataPoint(
                attributes={}, start_time_unix_nano=0, time_unix_nano=time, value=value
            )
            for time, value in points
        ]
        self._points += len(made)
        name = "injector." + name.replace("/", ".").replace(" ", "_")
        return self._metrics.Metric(name, None, _ucum(unit), self._metrics.Gauge(made))

    def _send_metrics(self, metrics: Sequence[Any]) -> None:
        of = self._metrics
        scope = of.ScopeMetrics(self._scope, metrics, "")
        data = of.MetricsData([of.ResourceMetrics(self._resource, [scope], "")])
        self._send(self._to_metrics, data)

    def _send(self, exporter: Any, what: Any) -> None:
        """Raises UserError where it is not taken: the exporter only logs why."""
        with _Heard() as heard:
            try:
                taken = exporter.export(what).name == "SUCCESS"
            except Exception as error:  # older ones raise what a later one logs
                heard.first, taken = str(error), False
        if not taken:
            reason = re.search(r"\[Errno -?\d+\] [^\"')]+", heard.first)
            why = reason[0] if reason else heard.first or "without a reason"
            raise UserError(f"the collector at {self._uri} did not take it: {why}")


class _Heard(logging.Handler):
    """What OpenTelemetry logs meanwhile, which goes nowhere else."""

    def __enter__(self) -> _Heard:
        self.first = ""
        self._logger = logging.getLogger("opentelemetry")
        self._logger.addHandler(self)
        self._logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.first = self.first or record.getMessage().strip().partition("\n")[0]


class RunSpans:
    """The trace of a run: the run, its processes, their steps, evaluations, and what steps are made of."""

    def __init__(self, content: Content, resource: Any, scope: Any) -> None:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import ReadableSpan

        self._api: Any = trace
        self._span: Any = ReadableSpan
        self._facts = {"resource": resource, "instrumentation_scope": scope}
        summary, folder = content.summary, content.tags["injector.folder"]
        # The same run is the same trace, however often it is exported.
        seed = sha256(f"{folder} {summary.started}".encode()).digest()
        self.trace = int.from_bytes(seed[:16], "big")
        self._last = int.from_bytes(seed[16:24], "big") >> 1
        self.made: list[Any] = []
        began = round((summary.started or 0.0) * 1e9)
        ended = round((summary.ended or summary.started or 0.0) * 1e9)
        params = {f"injector.param.{key}": text for key, text in content.params.items()}
        good = (summary.exit or {}).get("code") == 0
        root = self.add(
            content.name, None, began, ended, {**content.tags, **params}, None if good else False
        )
        for source in sources(content.run):
            if source.has_spans():
                self._add_process(source, root, content.points or SPANS)

    def add(
        self,
        name: str,
        parent: int | None,
        start: int,
        end: int,
        attributes: dict[str, Any],
        good: bool | None = None,
    ) -> int:
        """One span, in unix nanoseconds; its number."""
        self._last += 1
        status = self._api.StatusCode.ERROR if good is False else self._api.StatusCode.UNSET
        self.made.append(
            self._span(
                name,
                context=self._context(self._last),
                parent=None if parent is None else self._context(parent),
                attributes=attributes,
                kind=self._api.SpanKind.INTERNAL,
                status=self._api.Status(status),
                start_time=start,
                end_time=end,
                **self._facts,
            )
        )
        return self._last

    def _context(self, number: int) -> Any:
        flags = self._api.TraceFlags(self._api.TraceFlags.SAMPLED)
        return self._api.SpanContext(self.trace, number, is_remote=False, trace_flags=flags)

    def _add_process(self, source: RecordedProcess, root: int, points: int) -> None:
        rows = read_rows(source)
        if not len(rows.start):
            return
        name = f"{rank_name(source.rank, source.pid)} on {source.host}"
        facts = {"host.name": source.host, "process.pid": source.pid, "injector.rank": source.rank}
        known = {key: value for key, value in facts.items() if value is not None}
        first, last = int(rows.start.min()), int(rows.end.max())
        process = self.add(name, root, first, last, known)
        threads = threads_of(source, rows)
        steps = sum(len(trace.start) for thread in threads for trace in thread.traces)
        each = 1 + len(rows.start) / max(steps, 1)
        for thread in threads:
            for trace in thread.traces:
                kept = kept_of(trace.table.seconds, max(min(points, int(SPANS / each)), 2))
                self._add_steps(thread, trace, kept.tolist(), process)
            lengths = (thread.passes.end - thread.passes.start).astype(np.float64)
            for at in kept_of(lengths, points).tolist() if len(lengths) else ():
                start, end = int(thread.passes.start[at]), int(thread.passes.end[at])
                self.add("evaluation", process, start, end, {})

    def _add_steps(self, thread: Thread, trace: LoopTrace, kept: list[int], process: int) -> None:
        """The steps ``kept`` of a loop, and the regions in them."""
        starts, ends = trace.start[kept], trace.end[kept]
        steps = [
            self.add(f"{trace.pace.task} step", process, start, end, {"injector.step": step, **at})
            for step, start, end in zip(kept, starts.tolist(), ends.tolist(), strict=True)
            for at in [_place(trace.pace.place)]
        ]
        track = thread.track
        owner = owners(starts, ends, track.start)
        spans: dict[int, int] = {}
        rows = np.flatnonzero((owner >= 0) & (track.end <= ends[owner]))
        begun = np.arange(len(track)) if track.begun is None else track.begun
        for row in rows[begun[rows] == rows].tolist():
            site = track.sites[int(track.site[row])]
            if site.region == "step":
                continue
            start, end = int(track.start[row]), int(track.end[row])
            around = int(track.parent[row])
            while around >= 0 and track.end[around] < end:  # which it outlasts
                around = int(track.parent[around])
            parent = (
                spans.get(int(begun[around]), steps[owner[row]])
                if around >= 0
                else steps[owner[row]]
            )
            spans[row] = self.add(site.region, parent, start, end, _place(site.place))


def _place(place: SourceLine | None) -> dict[str, Any]:
    """By OpenTelemetry's conventions."""
    if place is None:
        return {}
    return {"code.file.path": place.file, "code.line.number": place.line}


def _ucum(unit: str) -> str:
    """As UCUM spells it, which counts nothing: what is counted is an annotation."""
    return "By" if unit == "B" else COUNTED.sub(r"{\1}", unit)
