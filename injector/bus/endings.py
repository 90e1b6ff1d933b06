"""How the processes of a run ended, put together from every source that may know it.

The kernel gives an exit status to the parent only, and most parents are processes of the program. The sources
are: what a launcher recorded of its workers (event ``exited``); what the monitor saw of a process that had
ended but whose parent had not waited for it yet (event ``exit``); the supervisor, which waits for the program
and for orphans; and the last records of the process itself. An end that no source reports stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..named_tuple import NamedTuple
from ..store import monitor
from ..store.exceptions import in_a_line
from ..store.logs import UNKNOWN, Clock

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

ERROR = 300
"""Characters kept of the exception that ended a process."""


class Gone(NamedTuple):
    """The end of a process, as one source reports it."""

    host: str
    pid: int
    t: int | None
    """When it had ended, nanoseconds of the monotonic clock of its host; None if unknown."""
    code: int | None
    """Exit code, or minus the deadly signal; None if unknown."""


def error_of(data: Mapping[str, Any]) -> str:
    """The exception in the data of an event ``error``, in one line."""
    return in_a_line(data.get("type"), data.get("message"), data.get("trace"))[:ERROR]


def seen(folder: str) -> Iterator[Gone]:
    """The ends of processes that the monitors of the run in ``folder`` saw. Raises OSError."""
    for log in monitor.monitor_logs(folder):
        for sample in monitor.samples(log):
            if sample.event == "exit":
                yield Gone(str(log.host), sample.data["pid"], sample.t, sample.data["code"])


class Endings:
    """The known ends of processes, by process."""

    def __init__(self, known: Iterable[Gone], clocks: Mapping[object, Clock]) -> None:
        """Of several reports in ``known`` about one process the first counts. ``clocks``: by host."""
        self._clocks = clocks
        self._by_process: dict[tuple[str, int], list[Gone]] = {}
        for gone in known:
            self._by_process.setdefault((gone.host, gone.pid), []).append(gone)

    def of(
        self, process: Mapping[str, Any], pid_reused_at: int | None
    ) -> tuple[int | None, float | None]:
        """Exit code (or minus a signal) and unix seconds of the end of ``process``; None for what is unknown.

        ``process`` is the data of its event ``process``. ``pid_reused_at`` is when the next process with its
        number began, nanoseconds of the monotonic clock; None if there is none.
        """
        host, began = process.get("host"), int(process.get("monotonic_ns") or 0)
        reports = [
            gone
            for gone in self._by_process.get((str(host), process.get("pid") or 0), [])
            if gone.t is None or began <= gone.t < (pid_reused_at or gone.t + 1)
        ]
        codes = [gone.code for gone in reports if gone.code is not None]
        moments = [gone.t for gone in reports if gone.t is not None]
        when = self._clocks.get(host, UNKNOWN).at(moments[0]) if moments else None
        return (codes[0] if codes else None), when
