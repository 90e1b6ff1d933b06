"""Exports to an OpenTelemetry collector, by OTLP over HTTP: series and figures as metrics, steps and their
regions as a trace.

The trace has as many steps of a loop as a series has points, with the shortest and the longest ones. It has
fewer if a process would have more than about :data:`SPANS` spans.
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
from ..errors import UserError
from .content import Content
from .series import Series
from .tracked import Beginning, Destination, exported, missing_library

SERVICE = "injector"
SPANS = 20_000
"""About the most spans of a process that are exported."""
SPANS_AT_ONCE, POINTS_AT_ONCE = 2_000, 10_000
"""Spans, and points of a metric, in one request."""
TIMEOUT = 10.0
"""Seconds for one request and its repetitions."""
COUNTED = re.compile(r"^(items|tokens|steps|passes|batches|count)\b")
"""Units that are numbers of things."""


def export(contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Send each run. Yields sentences on where. Raises UserError."""
    return exported(begin, contents, target)


def begin(target: Destination, run: Beginning) -> OtelRun:
    """A run whose points can be sent. Raises UserError."""
    try:
        return OtelRun(target, run)
    except ImportError as error:
        raise missing_library(error, "otel") from None


class OtelRun:
    """The metrics and the trace of one run."""

    def __init__(self, target: Destination, run: Beginning) -> None:
        """Raises ImportError if a library is missing."""
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import export as metrics
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        base = None if target.uri is None else target.uri.rstrip("/")
        urls = [None if base is None else f"{base}/v1/{kind}" for kind in ("metrics", "traces")]
        self._metrics: Any = metrics
        self._metric_exporter: Any = OTLPMetricExporter(endpoint=urls[0], timeout=TIMEOUT)
        self._span_exporter: Any = OTLPSpanExporter(endpoint=urls[1], timeout=TIMEOUT)
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
        """The number of points that were sent."""

    def log(self, series: Iterable[Series]) -> None:
        """Send points."""
        for one in series:
            times, values = (one.times * 1e9).astype(np.int64).tolist(), one.values.tolist()
            for at in range(0, len(times), POINTS_AT_ONCE):
                part = slice(at, at + POINTS_AT_ONCE)
                points = zip(times[part], values[part], strict=True)
                self._send_metrics([self._metric(one.name, one.unit, points)])

    def end(self, content: Content) -> str:
        """Send the figures and the trace of the run."""
        ended = round((content.summary.ended or content.summary.started or 0.0) * 1e9)
        self._send_metrics(
            [
                self._metric(name, figure.unit, [(ended, figure.value)])
                for name, figure in content.figures.items()
            ]
        )
        spans = RunSpans(content, self._resource, self._scope)
        for at in range(0, len(spans.spans), SPANS_AT_ONCE):
            self._send(self._span_exporter, spans.spans[at : at + SPANS_AT_ONCE])
        sent = f"{self._points} points and {len(spans.spans)} spans, trace {spans.trace:032x}"
        return f"{self._run.name}: {sent}, to {self._uri}"

    def _metric(self, name: str, unit: str, points: Iterable[tuple[int, float]]) -> Any:
        """A gauge of the SDK with ``points``: unix nanoseconds and values."""
        data = [
            self._metrics.NumberDataPoint(
                attributes={}, start_time_unix_nano=0, time_unix_nano=time, value=value
            )
            for time, value in points
        ]
        self._points += len(data)
        name = "injector." + name.replace("/", ".").replace(" ", "_")
        return self._metrics.Metric(name, None, _ucum(unit), self._metrics.Gauge(data))

    def _send_metrics(self, metrics: Sequence[Any]) -> None:
        sdk = self._metrics
        scope = sdk.ScopeMetrics(self._scope, metrics, "")
        data = sdk.MetricsData([sdk.ResourceMetrics(self._resource, [scope], "")])
        self._send(self._metric_exporter, data)

    def _send(self, exporter: Any, data: Any) -> None:
        """Send ``data``. Raises UserError if it is refused, with the reason, which the exporter only logs."""
        with _CapturedLog() as log:
            try:
                accepted = exporter.export(data).name == "SUCCESS"
            except Exception as error:  # older exporters raise it instead
                log.first, accepted = str(error), False
        if not accepted:
            reason = re.search(r"\[Errno -?\d+\] ([^\"')]+)", log.first)
            why = reason[1] if reason else log.first or "without a reason"
            raise UserError(f"the collector at {self._uri} did not take it: {why}")


class _CapturedLog(logging.Handler):
    """A context in which what OpenTelemetry logs is not printed. The first line is kept in ``first``."""

    def __enter__(self) -> _CapturedLog:
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
    """The trace of a run: spans of the run, its processes, their steps, evaluations, and regions in steps."""

    def __init__(self, content: Content, resource: Any, scope: Any) -> None:
        """Make the spans. Raises OSError."""
        from opentelemetry import trace
        from opentelemetry.sdk.trace import ReadableSpan

        self._api: Any = trace
        self._span: Any = ReadableSpan
        self._facts = {"resource": resource, "instrumentation_scope": scope}
        summary, folder = content.summary, content.tags["injector.folder"]
        # A run that is exported again has the same trace again.
        digest = sha256(f"{folder} {summary.started}".encode()).digest()
        self.trace = int.from_bytes(digest[:16], "big")
        """The id of the trace."""
        self._last = int.from_bytes(digest[16:24], "big") >> 1
        """The id of the last span."""
        self.spans: list[Any] = []
        began = round((summary.started or 0.0) * 1e9)
        ended = round((summary.ended or summary.started or 0.0) * 1e9)
        params = {f"injector.param.{key}": text for key, text in content.params.items()}
        failed = (summary.exit or {}).get("code") != 0
        root = self.add(content.name, None, began, ended, {**content.tags, **params}, failed)
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
        failed: bool = False,
    ) -> int:
        """Add a span from ``start`` to ``end`` (unix nanoseconds), and return its id."""
        self._last += 1
        status = self._api.StatusCode.ERROR if failed else self._api.StatusCode.UNSET
        self.spans.append(
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
        """Add a process, with at most ``points`` steps of each loop, and as many evaluations of a thread."""
        rows = read_rows(source)
        if not len(rows.start):
            return
        name = f"{source.name} on {source.host}"
        about = {"host.name": source.host, "process.pid": source.pid, "injector.rank": source.rank}
        attributes = {key: value for key, value in about.items() if value is not None}
        first, last = int(rows.start.min()), int(rows.end.max())
        process = self.add(name, root, first, last, attributes)
        threads = threads_of(source, rows)
        steps = sum(len(trace.start) for thread in threads for trace in thread.traces)
        spans_per_step = 1 + len(rows.start) / max(steps, 1)
        most = max(min(points, int(SPANS / spans_per_step)), 2)
        for thread in threads:
            for trace in thread.traces:
                kept = kept_of(trace.table.seconds, most)
                self._add_steps(thread, trace, kept.tolist(), process)
            lengths = (thread.passes.end - thread.passes.start).astype(np.float64)
            for at in kept_of(lengths, points).tolist() if len(lengths) else ():
                start, end = int(thread.passes.start[at]), int(thread.passes.end[at])
                self.add("evaluation", process, start, end, {})

    def _add_steps(self, thread: Thread, trace: LoopTrace, kept: list[int], process: int) -> None:
        """Add the steps ``kept`` of a loop, and the regions that lie in them as a whole."""
        starts, ends = trace.start[kept], trace.end[kept]
        place = _place(trace.pace.place)
        steps = [
            self.add(
                f"{trace.pace.task} step", process, start, end, {"injector.step": step, **place}
            )
            for step, start, end in zip(kept, starts.tolist(), ends.tolist(), strict=True)
        ]
        track = thread.track
        owner = owners(starts, ends, track.start)
        span_of: dict[int, int] = {}  # by the first row of a region's call in the track
        rows = np.flatnonzero((owner >= 0) & (track.end <= ends[owner]))
        begun = np.arange(len(track)) if track.begun is None else track.begun
        for row in rows[begun[rows] == rows].tolist():
            site = track.sites[int(track.site[row])]
            if site.region == "step":
                continue
            start, end = int(track.start[row]), int(track.end[row])
            around = int(track.parent[row])
            while around >= 0 and track.end[around] < end:  # a span that this one outlasts
                around = int(track.parent[around])
            step = steps[owner[row]]
            parent = span_of.get(int(begun[around]), step) if around >= 0 else step
            span_of[row] = self.add(site.region, parent, start, end, _place(site.place))


def _place(place: SourceLine | None) -> dict[str, Any]:
    """The attributes of a line of the program, by OpenTelemetry's conventions."""
    if place is None:
        return {}
    return {"code.file.path": place.file, "code.line.number": place.line}


def _ucum(unit: str) -> str:
    """``unit`` in the spelling of UCUM, which has no units for numbers of things: these are annotations."""
    return "By" if unit == "B" else COUNTED.sub(r"{\1}", unit)
