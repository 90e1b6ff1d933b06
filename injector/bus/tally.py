"""The totals of a run: its probes, misses, failures, ranks and processes, summed up over all their records.

:class:`Tally` takes each record once, in the order in which the collector writes the stream of events, and
then answers the parts of ``run.json`` (docs/run-folder.md has their keys).
"""

from __future__ import annotations

import os

from ..exit_status import exit_of
from ..store.logs import Log, ranks_by_task
from .endings import Endings, Gone, error_of
from .merge import Record

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

PLACE = ("module", "function", "file", "line", "source", "kind")
"""The keys of a place at which a probe was attached."""


class ProbeTally:
    """The records of all processes about the probe with one selector."""

    def __init__(self) -> None:
        self.voirfile: str | None = None
        """The file and line that requested it, as ``file:line``."""
        self.owners: set[int] = set()
        """The processes that requested it, by index."""
        self.began: set[int] = set()
        """The processes in which it fired at least once."""
        self.fired: dict[int, int] = {}
        """How often it fired, by process; only of those that lived to count."""
        self.places: dict[tuple[Any, ...], set[int]] = {}
        """The values of :data:`PLACE`, and the processes in which it was attached there."""

    @property
    def times_fired(self) -> int:
        """How often it fired in all processes, at least."""
        # A process that was killed before it could count has at least recorded that it began.
        return sum(self.fired.values()) + len(self.began - self.fired.keys())


class Tally:
    """Sums up the records of all processes. A process is given by the index of its log in ``logs``."""

    def __init__(self, logs: list[Log]) -> None:
        self.logs = logs
        self.ended: dict[int, int | None] = {}
        """Processes that recorded their end, and the exit code that they recorded."""
        self.errors: dict[int, str] = {}
        """The first exception that a process recorded, in one line."""
        self.exited: list[Gone] = []
        """The workers whose ends a launcher recorded."""
        self.counted: set[int] = set()
        """Processes that recorded how often their probes fired."""
        self.by_selector: dict[str, ProbeTally] = {}
        self.tags: dict[str, str] = {}
        self.params: dict[str, Any] = {}
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.unprofiled: dict[str, None] = {}
        """The reasons why steps were not profiled, without repetition, in their order."""
        self.stops: dict[int, dict[str, Any]] = {}
        """The data of the event ``stop``, by process."""
        self.compiled: set[str] = set()
        """Selectors of functions that a compiler was given without their hooks."""
        self.missed: dict[str, dict[int, dict[str, Any]]] = {}
        """The data of events ``miss``, by selector and process."""
        self.ranks: dict[int, dict[str, Any]] = {}
        """The rank that a process learned after its start, such as from ``torch.distributed``."""
        self.failures: dict[tuple[str, str, str], dict[str, Any]] = {}
        """By place, type and message: one failure of many processes is listed once."""
        self.voirfiles: dict[tuple[Any, ...], dict[str, Any]] = {}
        """The shipped voirfiles that acted, by name and version of the library."""
        self.auto_missed: dict[tuple[str, str], dict[str, Any]] = {}
        """What shipped voirfiles looked for in vain, by voirfile and name."""

    def take(self, process: int, record: Record) -> bool:
        """Count ``record`` of ``process``.

        Returns whether it is left out of the run's stream of events, as it tells about the run itself.
        """
        if record.event in ("value", "data"):  # nearly all
            return False
        what = process, record.event, record.data if isinstance(record.data, dict) else {}
        return self._take_of_probe(*what) or self._take_of_process(*what)

    def _take_of_probe(self, process: int, event: str, data: dict[str, Any]) -> bool:
        """Count a record of ``process`` if it is about a probe; returns whether it is."""
        selector = data.get("selector")
        match event:
            case "request" | "asked":  # its name in older folders
                probe = self._probe(selector, process)
                probe.voirfile = probe.voirfile or f"{data.get('file')}:{data.get('line')}"
            case "first":
                self._probe(selector, process).began.add(process)
            case "probe":
                landing = data.get("landing")
                place = _place(landing if isinstance(landing, dict) else {})
                self._probe(selector, process).places.setdefault(place, set()).add(process)
            case "miss":
                self.missed.setdefault(str(selector), {}).setdefault(process, data)
            case "fired":
                self.counted.add(process)
                for name, count in data.items():
                    if isinstance(count, int):
                        self._probe(name, process).fired[process] = count
            case "compiled":
                selectors = data.get("selectors")
                self.compiled.update(map(str, selectors if isinstance(selectors, list) else ()))
            case _:
                return False
        return True

    def _take_of_process(self, process: int, event: str, data: dict[str, Any]) -> bool:
        """Count any other record; returns whether it is left out of the stream."""
        match event:
            case "tagged":
                self.tags.update((key, str(value)) for key, value in data.items())
            case "param":
                self.params.update(data)
            case "artifact":
                self.artifacts[str(data.get("name"))] = data
            case "unprofiled":
                self.unprofiled[str(data.get("why"))] = None
            case "rank":
                self.ranks[process] = data
            case "failure":
                self._fail(process, data)
            case "voirfile":
                key = data.get("name"), data.get("version")
                known = self.voirfiles.setdefault(key, {**data, "processes": []})
                known["processes"].append(process)
            case "auto-missed":
                missed = str(data.get("voirfile")), str(data.get("what"))
                self.auto_missed.setdefault(missed, data)
            case "end":
                code = data.get("code")
                self.ended[process] = code if isinstance(code, int) else None
            case "exited":
                self._exit(process, data)
            case "stop":
                self.stops[process] = data
            case "error":
                self.errors.setdefault(process, error_of(data))
            case _:  # only the analysis needs these, which reads the raw files
                return event in ("ahead", "model", "site", "spans")
        return event not in ("stop", "error")

    def _probe(self, selector: object, process: int) -> ProbeTally:
        """The tally of the probe with this selector, which ``process`` has."""
        probe = self.by_selector.setdefault(str(selector), ProbeTally())
        probe.owners.add(process)
        return probe

    def _exit(self, process: int, data: dict[str, Any]) -> None:
        """Note the end of a worker that the launcher ``process`` waited for."""
        pid, code = data.get("pid"), data.get("code")
        if isinstance(pid, int) and isinstance(code, int):
            host = str(self.logs[process].process.get("host"))
            self.exited.append(Gone(host, pid, None, code))

    def _fail(self, process: int, data: dict[str, Any]) -> None:
        key = (str(data.get("where")), str(data.get("type")), str(data.get("message")))
        failure = self.failures.setdefault(key, {**data, "processes": []})
        if process not in failure["processes"]:
            failure["processes"].append(process)

    def about_profiles(self, steps: tuple[int, int]) -> list[str]:
        """Sentences on what ``--torch-profile`` did not record, or could not.

        ``steps`` are the first and the last step that it was to record.
        """
        has_profiles = any(name.startswith("profiles/") for name in self.artifacts)
        if (
            self.unprofiled
            or has_profiles
            or any(where == "--torch-profile" for where, *_ in self.failures)
        ):
            # If profiling failed, its failure is a warning already.
            return list(self.unprofiled)
        return [
            f"--torch-profile {steps[0]}:{steps[1]} recorded nothing: no process with PyTorch in it got to "
            f"training step {steps[0]}, counted from 0"
        ]

    def automatic(self) -> list[dict[str, Any]]:
        """The shipped voirfiles that acted: ``name library version tested processes missed``."""
        return [
            {
                **voirfile,
                "missed": [d for (n, _), d in self.auto_missed.items() if n == voirfile["name"]],
            }
            for voirfile in self.voirfiles.values()
        ]

    def processes(self, endings: Endings) -> list[dict[str, Any]]:
        """One entry for each process, in the order in which they began."""
        kept = ("attempt", "argv", "python", "time", "monotonic_ns")
        pid_reused_at = self._pid_reused_at()
        return [
            {
                "log": os.path.basename(log.path),
                **{key: log.process.get(key) for key in ("pid", "ppid", "host")},
                **dict(zip(("rank", "world"), rank, strict=True)),
                **{key: log.process.get(key) for key in kept},
                "ended": index in self.ended,
                **self._ending(index, endings, pid_reused_at[index]),
                "records": log.count,
                "lost": log.lost,
                "why": log.why,
                "torn": log.damage.torn,
            }
            for index, (log, rank) in enumerate(zip(self.logs, self._ranks(), strict=True))
        ]

    def stopped_by(self) -> dict[str, int | None] | None:
        """The ``rank`` whose voirfile stopped the job, and in which ``step`` of its (None if unknown).

        Returns None if the job was stopped by a time limit, a number of steps or all ranks at once.
        """
        # Ranks that agree on a stop record who requested it.
        for data in self.stops.values():
            if isinstance(data.get("rank"), int):
                return {"rank": data["rank"], "step": data.get("step")}
        ranks = [rank if isinstance(rank, int) else None for rank, _ in self._ranks()]
        known = {rank for rank in ranks if rank is not None}
        # A stop with a reason came from a limit or from another rank.
        own = [ranks[index] for index, data in self.stops.items() if data.get("why") is None]
        if len(known) > 1 and len(own) == 1 and own[0] is not None:
            return {"rank": own[0], "step": None}
        return None

    def _ranks(self) -> list[tuple[Any, Any]]:
        """Rank and number of ranks of each process; what it learned itself counts before its environment."""
        ranks = []
        for index, log in enumerate(self.logs):
            learned = self.ranks.get(index, {})
            known = {**log.process, **{k: v for k, v in learned.items() if isinstance(v, int)}}
            ranks.append((known.get("rank"), known.get("world")))
        ranked = {index for index, (rank, _) in enumerate(ranks) if isinstance(rank, int)}
        by_task = ranks_by_task(self.logs, ranked)
        return [by_task.get(index, rank) for index, rank in enumerate(ranks)]

    def _ending(self, index: int, endings: Endings, pid_reused_at: int | None) -> dict[str, Any]:
        """How (``exit``, ``error``) and when (``gone``, unix seconds) a process ended; None if unknown."""
        code, gone = endings.of(self.logs[index].process, pid_reused_at)
        error = self.errors.get(index)
        if code is None:
            code = self.ended.get(index)
        if code is None and error is not None and index in self.ended:
            code = 1  # as the interpreter leaves an uncaught exception
        return {"exit": exit_of(code), "gone": gone, "error": error}

    def _pid_reused_at(self) -> list[int | None]:
        """For each process when the next one with its number began, nanoseconds of the monotonic clock.

        The kernel gives a number out again. What the monitor or a launcher reports of the later process
        must not count as the end of the earlier one.
        """
        next_began: dict[tuple[Any, Any], int | None] = {}
        result: list[int | None] = []
        for index in reversed(range(len(self.logs))):
            identity = self._identity(index)
            result.append(next_began.get(identity))
            next_began[identity] = self.logs[index].began
        return result[::-1]

    def probes(self) -> list[dict[str, Any]]:
        """Each selector with its places, and how often it fired in all processes together.

        ``compiled``: a compiler was given the function without its hooks. ``exact`` is False if a
        process that had the probe was killed before it could record the count.
        """
        return [
            {
                "selector": selector,
                "voirfile": probe.voirfile,
                "fired": probe.times_fired,
                "exact": self._holders(probe) <= self.counted,
                "compiled": selector in self.compiled,
                "places": [
                    {**dict(zip(PLACE, place, strict=True)), "processes": sorted(processes)}
                    for place, processes in probe.places.items()
                ],
            }
            for selector, probe in self.by_selector.items()
        ]

    def _holders(self, probe: ProbeTally) -> set[int]:
        """The processes whose counts are needed to know exactly how often ``probe`` fired."""
        holders = set(probe.owners)
        # A forked child inherits its parent's probes without recording that it has them. Parents come
        # first in the order of beginning, so one pass finds grandchildren, too.
        identities = {self._identity(index) for index in holders}
        for index, log in enumerate(self.logs):
            if (log.process.get("host"), log.process.get("ppid")) in identities:
                holders.add(index)
                identities.add(self._identity(index))
        return holders

    def _identity(self, index: int) -> tuple[Any, Any]:
        """Host and number of a process."""
        process = self.logs[index].process
        return process.get("host"), process.get("pid")

    def misses(self) -> list[dict[str, Any]]:
        """Selectors that some process looked for in vain, and that no process found whole."""
        result = []
        for selector, by_process in self.missed.items():
            attached = set().union(*self.by_selector.get(selector, ProbeTally()).places.values())
            # A selector may be found in part, and then has both places and a miss in one process.
            if attached - set(by_process):
                continue
            first = next(iter(by_process.values()))
            nearest = first.get("nearest")
            result.append(
                {
                    "selector": selector,
                    "reason": first.get("reason"),
                    "nearest": nearest if isinstance(nearest, list) else [],
                    "processes": sorted(by_process),
                }
            )
        return result


def _place(landing: dict[str, Any]) -> tuple[str | int | None, ...]:
    """The values of :data:`PLACE`; a value of another type is damage, and could not be a key."""
    values = (landing.get(key) for key in PLACE)
    return tuple(value if isinstance(value, (str, int)) else None for value in values)
