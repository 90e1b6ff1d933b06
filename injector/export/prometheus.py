"""The figures of runs for Prometheus: as a text for its node exporter, or sent to its Pushgateway."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import UserError
from ..metrics import UNITS
from ..store.place import replace_file
from .content import Content, Destination, missing_library

COUNTED = ("", "count", "steps", "passes", "steps/s")
"""Units that the name of a metric says already."""
JOB = "injector"


def export(contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Write or send the figures of all runs; the sentence that says where. Raises UserError, OSError."""
    try:
        from prometheus_client import CollectorRegistry, Gauge, generate_latest, push_to_gateway
    except ImportError as error:
        raise missing_library(error, "prometheus") from None
    registry, gauges = CollectorRegistry(), dict[str, Any]()
    runs: list[tuple[dict[str, str], dict[str, str]]] = []
    for content in contents:
        labels = {"run": content.tags["injector.folder"], "name": content.name}
        runs.append((labels, {f"tag_{_name(key)}": text for key, text in content.tags.items()}))
        for name, figure in content.figures.items():
            unit = _unit(figure.unit)
            whole = "_".join(filter(None, ("injector", _name(name), unit)))
            if whole not in gauges:
                text = f"{name} of a run of inject, in {figure.unit or 'its own unit'}"
                gauges[whole] = Gauge(whole, text, list(labels), registry=registry)
            gauges[whole].labels(**labels).set(figure.value)
    # A metric has the same labels wherever it is: what a run is without is empty.
    known = list(dict.fromkeys(key for labels, facts in runs for key in (*labels, *facts)))
    info = Gauge("injector_run_info", "Properties of the run", known, registry=registry)
    for labels, facts in runs:
        info.labels(**{key: {**labels, **facts}.get(key, "") for key in known}).set(1)
    count = f"{len(gauges)} metrics of {len(runs)} run{'s' * (len(runs) != 1)}"
    if target.uri is not None:
        try:
            push_to_gateway(
                target.uri, JOB, registry, {"run": target.suite or runs[0][0]["run"]}, timeout=20
            )
        except (OSError, ValueError) as error:
            raise UserError(f"the Pushgateway at {target.uri} did not take it: {error}") from None
        yield f"{target.uri}: {count}"
        return
    page = generate_latest(registry)
    if target.output is None:
        sys.stdout.write(page.decode())
        return
    replace_file(target.output, [page])
    yield f"{target.output}: {count}"


def _unit(unit: str) -> str:
    """Prometheus's own name of ``unit``, which ends the name of a metric."""
    if unit in COUNTED:
        return ""
    return "ratio" if unit == "1" else UNITS[unit].name.replace(" ", "_")


def _name(text: str) -> str:
    """``text`` with the letters that the name of a metric may have."""
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "unnamed"
