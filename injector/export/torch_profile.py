"""What torch.profiler recorded of a run (``--torch-profile``), with times of the run's clock.

A trace has microseconds from a unix time that it names, and both clocks as read when the profiler began.
If unix time was set between the begin of the process and that moment, unix time less the monotonic clock is
not the same for both, and the trace is shifted by the difference.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..analysis.arrays import nesting
from ..analysis.columns import Ints
from ..errors import UserError

ENDING = ".pt.trace.json.gz"
OURS = "injector"
"""The category of our own regions in a trace, which are left out, and the key of facts on the process."""

Lane = tuple[list[str], Ints, Ints]
"""Names, begins and ends (unix nanoseconds) of slices that nest, in the order of their begins."""


class TorchTrace:
    """The trace of one process."""

    def __init__(self, trace: Mapping[str, Any]) -> None:
        """Raises KeyError, TypeError, ValueError for what ``--torch-profile`` did not write."""
        about = trace[OURS]
        self.host, self.pid = str(about["host"]), int(about["pid"])
        self._shift = int(about["unix_ns"]) - int(about["monotonic_ns"])
        self._base = int(trace.get("baseTimeNanoseconds", 0))
        self._events = trace["traceEvents"]

    def tracks(self, shift: int) -> dict[str, list[Lane]]:
        """The slices of each thread and stream by its title, in as few lanes as it takes for them to nest.

        ``shift`` is the process's unix time less its monotonic clock, in nanoseconds.
        """
        offset = self._base + shift - self._shift
        slices: dict[tuple[str, str], list[tuple[int, int, str]]] = {}
        names: dict[tuple[str, str], str] = {}
        for event in self._events:
            key = str(event.get("pid")), str(event.get("tid"))
            if event.get("ph") == "M" and event.get("name") == "thread_name":
                names[key] = str(event["args"]["name"])
            if event.get("ph") == "X" and event.get("cat") not in (OURS, "Trace"):
                start = round(float(event["ts"]) * 1000) + offset
                length = max(round(float(event.get("dur", 0)) * 1000), 0)
                slices.setdefault(key, []).append((start, start + length, str(event["name"])))
        lanes: dict[str, list[Lane]] = {}
        for key in sorted(slices):
            title = f"torch.profiler: {names.get(key) or f'thread {key[1]}'}"
            lanes.setdefault(title, []).extend(_lanes(slices[key]))
        return lanes


def profiles_of(files: Mapping[str, str]) -> Iterator[TorchTrace]:
    """The traces among the files of a run (paths by names). Raises UserError for one that cannot be read."""
    for name, path in files.items():
        if not (name.startswith("profiles/") and name.endswith(ENDING)):
            continue
        try:
            with gzip.open(path, "rt", encoding="utf-8") as file:
                yield TorchTrace(json.load(file))
        except (OSError, EOFError, KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{path} is no trace of --torch-profile that can be read: {error}"
            ) from None


def _lanes(slices: list[tuple[int, int, str]]) -> Iterator[Lane]:
    """``slices`` (start, end, name) in as few lanes as it takes for those of each lane to nest."""
    ordered = sorted(slices, key=lambda one: (one[0], -one[1]))
    start = np.array([start for start, *_ in ordered], np.int64)
    end = np.array([end for _, end, _ in ordered], np.int64)
    for lane in nesting(start, end):
        yield [ordered[at][2] for at in lane.tolist()], start[lane], end[lane]
