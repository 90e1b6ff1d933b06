"""Exports figures to Prometheus: as text for its node exporter, or to its Pushgateway."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import UserError, reason_of
from ..metrics import UNITS
from ..store.place import replace_file
from .content import Content
from .figures import Figure
from .series import Series
from .tracked import Beginning, Destination, beginning_of, missing_library

COUNTED = ("", "count", "steps", "passes", "steps/s")
"""Units that are in the names of figures already."""
JOB = "injector"


def export(contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Write, send or print the figures of all runs. Yields a sentence on where. Raises UserError, OSError."""
    page = Page(target)
    for content in contents:
        page.add(content)
    page.deliver()
    if target.uri is not None or target.output is not None:
        yield page.sentence()


def begin(target: Destination, run: Beginning) -> PrometheusRun:
    """A run whose latest values are delivered. Raises UserError without an address or a file."""
    if target.uri is None and target.output is None:
        raise UserError(
            "prometheus needs a place while a run goes on: the address of a Pushgateway, or a file"
        )
    return PrometheusRun(target, run)


class PrometheusRun:
    """A run while it goes on, of whose series the latest values are delivered."""

    def __init__(self, target: Destination, run: Beginning) -> None:
        self._target, self._run = target, run
        self._latest: dict[str, Figure] = {}
        Page(target)  # raises an error if the library is missing

    def log(self, series: Iterable[Series]) -> None:
        """Deliver the last value of each series, with those of earlier calls."""
        for one in series:
            if len(one.values):
                self._latest[one.name] = Figure(float(one.values[-1]), one.unit)
        page = Page(self._target)
        page.add_figures(self._run, self._latest)
        page.deliver()

    def end(self, content: Content) -> str:
        """Deliver the figures of the run, in place of the latest values."""
        page = Page(self._target)
        page.add(content)
        page.deliver()
        return page.sentence()


class Page:
    """Metrics of runs, as Prometheus reads them."""

    def __init__(self, target: Destination) -> None:
        """Raises UserError if Prometheus's library is missing."""
        try:
            import prometheus_client
        except ImportError as error:
            raise missing_library(error, "prometheus") from None
        self._library: Any = prometheus_client
        self._target = target
        self._registry: Any = prometheus_client.CollectorRegistry()
        self._gauges: dict[str, Any] = {}
        self._runs: list[tuple[dict[str, str], dict[str, str]]] = []
        """The labels and the tags of each run."""

    def add(self, content: Content) -> None:
        """Add the figures and the tags of a run."""
        tags = {f"tag_{_name(key)}": text for key, text in content.tags.items()}
        self.add_figures(beginning_of(content), content.figures, tags)

    def add_figures(
        self, run: Beginning, figures: Mapping[str, Figure], tags: Mapping[str, str] | None = None
    ) -> None:
        """Add ``figures`` and ``tags`` of a run."""
        labels = {"run": run.folder, "name": run.name}
        self._runs.append((labels, dict(tags or {})))
        for name, figure in figures.items():
            unit = _unit(figure.unit)
            metric = "_".join(filter(None, ("injector", _name(name), unit)))
            if metric not in self._gauges:
                text = f"{name} of a run of inject, in {figure.unit or 'its own unit'}"
                self._gauges[metric] = self._library.Gauge(
                    metric, text, list(labels), registry=self._registry
                )
            self._gauges[metric].labels(**labels).set(figure.value)

    def deliver(self) -> None:
        """Send the page, write it, or print it. Raises UserError, OSError."""
        # All runs need the same labels in one metric. A tag that a run does not have is empty.
        keys = list(dict.fromkeys(key for pair in self._runs for part in pair for key in part))
        info = self._library.Gauge(
            "injector_run_info", "Properties of the run", keys, registry=self._registry
        )
        for labels, tags in self._runs:
            info.labels(**{key: {**labels, **tags}.get(key, "") for key in keys}).set(1)
        target = self._target
        if target.uri is not None:
            group = {"run": target.suite or self._runs[0][0]["run"]}
            try:
                self._library.push_to_gateway(target.uri, JOB, self._registry, group, timeout=20)
            except (OSError, ValueError) as error:
                raise UserError(
                    f"the Pushgateway at {target.uri} did not take it: {reason_of(error)}"
                ) from None
            return
        page = self._library.generate_latest(self._registry)
        if target.output is None:
            sys.stdout.write(page.decode())
        else:
            replace_file(target.output, [page])

    def sentence(self) -> str:
        """A sentence on what was delivered, and where."""
        count = (
            f"{len(self._gauges)} metrics of {len(self._runs)} run{'s' * (len(self._runs) != 1)}"
        )
        return f"{self._target.uri or self._target.output}: {count}"


def _unit(unit: str) -> str:
    """The name of ``unit`` by the conventions of Prometheus, with which the name of a metric ends."""
    if unit in COUNTED:
        return ""
    return "ratio" if unit == "1" else UNITS[unit].name.replace(" ", "_")


def _name(text: str) -> str:
    """``text`` with only those characters that are allowed in the name of a metric."""
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "unnamed"
