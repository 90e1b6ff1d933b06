"""How the processes of a run ended, from all who may know: themselves, their parents, the monitor.

Only a parent learns an exit status, and most parents are the program's own. So whatever is known is put
together: what a launcher recorded of its workers (event ``exited``), what the monitor saw of a process that
was gone but not yet waited for (event ``exit``), what was left to the supervisor, and the last words of
the process itself. What none of them knows stays unknown.
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
"""Characters kept of what ended a process."""
Exit = dict[str, "Any"]
"""``{"code": …, "signal": …}``, one of both None."""


class Gone(NamedTuple):
    """A process that a launcher or the monitor reports as ended."""

    host: str
    pid: int
    t: int | None
    """Nanoseconds of the monotonic clock of its host; None where only the end itself is known."""
    code: int | None
    """Exit code, or minus the deadly signal; None if unknown."""


def exit_of(code: int | None) -> Exit | None:
    """An exit code, or minus a signal, as run.json has it."""
    if code is None:
        return None
    return {"code": code if code >= 0 else None, "signal": -code if code < 0 else None}


def error_of(data: Mapping[str, Any]) -> str:
    """The exception that an event ``error`` tells of, in one line."""
    return in_a_line(data.get("type"), data.get("message"), data.get("trace"))[:ERROR]


def seen(folder: str) -> Iterator[Gone]:
    """What the monitors of the run in ``folder`` saw end. Raises OSError."""
    for log in monitor.monitor_logs(folder):
        for sample in monitor.samples(log):
            if sample.event == "exit":
                yield Gone(str(log.host), sample.data["pid"], sample.t, sample.data["code"])


class Endings:
    """Finds, for a process, what is known of its end."""

    def __init__(self, known: Iterable[Gone], clocks: Mapping[object, Clock]) -> None:
        """``clocks`` are those of the hosts, by name."""
        self._clocks = clocks
        self._by_process: dict[tuple[str, int], list[Gone]] = {}
        for gone in known:
            self._by_process.setdefault((gone.host, gone.pid), []).append(gone)

    def of(self, process: Mapping[str, Any], again: int | None) -> tuple[int | None, float | None]:
        """Exit code (or minus a signal) and unix time of the end of a process, as far as known.

        ``again`` is when the next process of the same number began, if there is one: nanoseconds of the
        monotonic clock.
        """
        host, began = process.get("host"), int(process.get("monotonic_ns") or 0)
        mine = [
            gone
            for gone in self._by_process.get((str(host), process.get("pid") or 0), [])
            if gone.t is None or began <= gone.t < (again or gone.t + 1)
        ]
        codes = [gone.code for gone in mine if gone.code is not None]
        moments = [gone.t for gone in mine if gone.t is not None]
        when = self._clocks.get(host, UNKNOWN).at(moments[0]) if moments else None
        return (codes[0] if codes else None), when
