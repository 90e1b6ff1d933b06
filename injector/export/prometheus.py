"""The figures of runs for Prometheus: as a text for its node exporter, or sent to its Pushgateway."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import UserError
from ..metrics import UNITS
from ..store.place import replace_file
from .content import Content, Figure, Series
from .tracked import Beginning, Destination, beginning_of, missing_library

COUNTED = ("", "count", "steps", "passes", "steps/s")
"""Units that the name of a metric says already."""
JOB = "injector"


def export(contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Write or send the figures of all runs; the sentence that says where. Raises UserError, OSError."""
    page = Page(target)
    for content in contents:
        page.add(content)
    page.deliver()
    if target.uri is not None or target.output is not None:
        yield page.sentence()


def begin(target: Destination, run: Beginning) -> PrometheusRun:
    """A run whose latest values are delivered. Raises UserError."""
    if target.uri is None and target.output is None:
        raise UserError(
            "prometheus needs a place while a run goes on: the address of a Pushgateway, or a file"
        )
    return PrometheusRun(target, run)


class PrometheusRun:
    """A run while it goes on: what is there to be read are the latest values."""

    def __init__(self, target: Destination, run: Beginning) -> None:
        self._target, self._run = target, run
        self._latest: dict[str, Figure] = {}
        Page(target)  # whether there is what it needs

    def log(self, series: Iterable[Series]) -> None:
        """Deliver the last value of each."""
        for one in series:
            if len(one.values):
                self._latest[one.name] = Figure(float(one.values[-1]), one.unit)
        page = Page(self._target)
        page.add_figures(self._run, self._latest)
        page.deliver()

    def end(self, content: Content) -> str:
        """Deliver its figures, and nothing else any more."""
        page = Page(self._target)
        page.add(content)
        page.deliver()
        return page.sentence()


class Page:
    """Metrics of runs, as Prometheus reads them. Raises UserError without its library."""

    def __init__(self, target: Destination) -> None:
        try:
            import prometheus_client
        except ImportError as error:
            raise missing_library(error, "prometheus") from None
        self._library: Any = prometheus_client
        self._target = target
        self._registry: Any = prometheus_client.CollectorRegistry()
        self._gauges: dict[str, Any] = {}
        self._runs: list[tuple[dict[str, str], dict[str, str]]] = []

    def add(self, content: Content) -> None:
        """The figures and the tags of a run."""
        tags = {f"tag_{_name(key)}": text for key, text in content.tags.items()}
        self.add_figures(beginning_of(content), content.figures, tags)

    def add_figures(
        self,
        run: Beginning,
        figures: Mapping[str, Figure],
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Some figures of a run."""
        labels = {"run": run.folder, "name": run.name}
        self._runs.append((labels, dict(tags or {})))
        for name, figure in figures.items():
            unit = _unit(figure.unit)
            whole = "_".join(filter(None, ("injector", _name(name), unit)))
            if whole not in self._gauges:
                text = f"{name} of a run of inject, in {figure.unit or 'its own unit'}"
                self._gauges[whole] = self._library.Gauge(
                    whole, text, list(labels), registry=self._registry
                )
            self._gauges[whole].labels(**labels).set(figure.value)

    def deliver(self) -> None:
        """Send it, write it, or print it. Raises UserError, OSError."""
        # A metric has the same labels wherever it is: what a run is without is empty.
        known = list(dict.fromkeys(key for both in self._runs for facts in both for key in facts))
        info = self._library.Gauge(
            "injector_run_info", "Properties of the run", known, registry=self._registry
        )
        for labels, facts in self._runs:
            info.labels(**{key: {**labels, **facts}.get(key, "") for key in known}).set(1)
        target = self._target
        if target.uri is not None:
            group = {"run": target.suite or self._runs[0][0]["run"]}
            try:
                self._library.push_to_gateway(target.uri, JOB, self._registry, group, timeout=20)
            except (OSError, ValueError) as error:
                raise UserError(
                    f"the Pushgateway at {target.uri} did not take it: {error}"
                ) from None
            return
        page = self._library.generate_latest(self._registry)
        if target.output is None:
            sys.stdout.write(page.decode())
        else:
            replace_file(target.output, [page])

    def sentence(self) -> str:
        """Where it went."""
        count = (
            f"{len(self._gauges)} metrics of {len(self._runs)} run{'s' * (len(self._runs) != 1)}"
        )
        return f"{self._target.uri or self._target.output}: {count}"


def _unit(unit: str) -> str:
    """Prometheus's own name of ``unit``, which ends the name of a metric."""
    if unit in COUNTED:
        return ""
    return "ratio" if unit == "1" else UNITS[unit].name.replace(" ", "_")


def _name(text: str) -> str:
    """``text`` with the letters that the name of a metric may have."""
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "unnamed"
