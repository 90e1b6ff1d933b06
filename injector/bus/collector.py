"""After a program ended: its processes' raw files become one stream of events and ``run.json``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from ..named_tuple import NamedTuple
from ..schema import SCHEMA
from ..store.event import line_of
from ..store.place import clean_name, replace_file
from ..store.run_json import write_info
from ..store.seal import seal
from . import surroundings
from .endings import Endings, Gone, seen
from .merge import Merged, in_stream
from .tally import Tally, warnings

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any


class FinishedRun(NamedTuple):
    """What is known of a run from outside of its processes."""

    command: Sequence[str]
    name: str
    started: float
    """Unix seconds, as ``ended``."""
    ended: float
    exit: int | None
    """The program's exit code, negative for the signal it died by; None if unknown."""
    program: dict[str, Any] | None = None
    """``{"script": path}``, ``{"module": name}`` or ``{"command": name}``."""
    voirfiles: Iterable[str] = ()
    problems: Iterable[str] = ()
    """Sentences that the report repeats."""
    remarks: Iterable[str] = ()
    """Those that are no failure."""
    limits: Mapping[str, float | str] = MappingProxyType({})
    """Steps and seconds after which it was to end."""
    sampling: int = 0
    """How often a second its stacks were read; 0: never."""
    tags: Mapping[str, str] = MappingProxyType({})
    """Properties that it was given, which count before those of voirfiles."""
    price: tuple[float, str] | None = None
    """What an hour costs, and the currency."""
    profiled: tuple[int, int] | None = None
    """The steps that torch.profiler was to record."""
    git: Mapping[str, Any] | None = None
    """The work tree that it was in."""
    timed_out: bool = False
    stopped: bool = False
    """Whether one of its processes had all end."""
    outlived: Iterable[str] = ()
    """Commands of processes that outlived it."""
    peak_rss: int = 0
    """Bytes that the largest of its processes held; 0 if that is not known."""
    exits: Mapping[int, int] = MappingProxyType({})
    """How processes of this host ended, by their numbers."""
    gone: Iterable[Gone] = ()
    """How processes of any host ended, where that was found out before."""
    machine: Mapping[str, Any] | None = None
    """What it ran on, in the words of milabench's ``meta`` event; None: on this host."""
    packages: Mapping[str, str] | None = None
    """What it could import; None: what its first process can on this host."""
    interrupted: tuple[int, float] | None = None
    """The first signal that was to end it, and when."""
    collected: bool = True
    """False for a run that goes on, or whose end was not seen."""

    def info(self) -> dict[str, Any]:
        """What ``run.json`` has of it."""
        code = self.exit
        program = {"command": self.command[0] if self.command else self.name}
        return {
            "schema": SCHEMA,
            "name": self.name,
            "command": list(self.command),
            "program": self.program or program,
            "voirfiles": list(self.voirfiles),
            "started": self.started,
            "ended": self.ended,
            "duration": self.ended - self.started,
            "exit": {
                "code": code if code is not None and code >= 0 else None,
                "signal": -code if code is not None and code < 0 else None,
            },
            "tags": dict(self.tags),
            "git": self.git and dict(self.git),
            "limits": dict(self.limits),
            **self._optional(),
            "timed_out": self.timed_out,
            "interrupted": self.interrupted
            and dict(zip(("signal", "time"), self.interrupted, strict=True)),
            "outlived": list(self.outlived),
            "peak_rss": self.peak_rss or None,
            "stopped": self.stopped,
            "problems": list(self.problems),
            "remarks": list(self.remarks),
        }

    def _optional(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.price:
            found["price"] = {"per_hour": self.price[0], "currency": self.price[1]}
        if self.sampling:
            found["sampling"] = {"rate": self.sampling}
        if not self.collected:
            found["collected"] = False
        return found


def collect(folder: str, run: FinishedRun, out: str | None = None) -> dict[str, Any]:
    """Write ``NAME.D0.data`` and ``run.json`` into ``folder`` and return what ``run.json`` says.

    ``out`` is another folder to write to. What cannot be written is one more problem: this raises nothing
    for want of space.
    """
    merged, info = Merged(folder), run.info()
    tally = Tally(merged.logs)
    lines = _stream(merged, tally, info, os.path.basename(folder), run.exit, run.machine)
    out = out or folder
    path = os.path.join(out, f"{clean_name(run.name)}.D0.data")
    _attempt(info, path, lambda: replace_file(path, lines))
    for _ in lines:
        pass  # if it could not be written, what it says is still wanted
    if run.profiled:
        info["problems"] += tally.about_profiles(run.profiled)
    _summarise(info, tally, _endings(merged, tally, run), run)
    if run.collected:
        info["files"] = seal(folder)
        info["collected_at"] = time.time()
    _attempt(info, os.path.join(out, "run.json"), lambda: write_info(out, info))
    return info


def retell(folder: str, info: dict[str, Any]) -> None:
    """Write the ``.data`` file of a run that has lost it; ``info`` is its run.json. Raises OSError."""
    merged = Merged(folder, info.get("processes") or ())
    ended = info["exit"]
    code = ended.get("code") if ended.get("signal") is None else -ended["signal"]
    path = os.path.join(folder, f"{clean_name(info['name'])}.D0.data")
    replace_file(path, _stream(merged, Tally(merged.logs), info, os.path.basename(folder), code))


def _attempt(info: dict[str, Any], path: str, write: Any) -> None:
    try:
        write()
    except OSError as error:
        info["problems"].append(f"{path} could not be written: {error.strerror or error}")
        if "warnings" in info:
            info["warnings"] = warnings(info)


def _endings(merged: Merged, tally: Tally, run: FinishedRun) -> Endings:
    """What is known of the ends of processes; who waited for one knows best."""
    host = os.uname().nodename
    clocks = {log.host: log.clock for log in merged.logs}
    waited = [Gone(host, pid, None, code) for pid, code in run.exits.items()]
    return Endings([*waited, *run.gone, *tally.exited, *seen(merged.folder)], clocks)


def _summarise(info: dict[str, Any], tally: Tally, endings: Endings, run: FinishedRun) -> None:
    main: dict[str, Any] = tally.logs[0].process if tally.logs else {}
    machine = run.machine or surroundings.machine()
    system = machine["os"]
    asker = tally.stopped_by()
    if asker is not None:
        info["exit"]["stopped_by"] = asker
    info.update(
        tags={**tally.tags, **info["tags"]},
        params=tally.params,
        artifacts=list(tally.artifacts.values()),
        stopped=info["stopped"] or bool(tally.stops),
        host=system["nodename"],
        python=main.get("python") or sys.version.split()[0],
        platform=" ".join(system[key] for key in ("sysname", "release", "machine")),
        cpu=machine["cpu"],
        packages=run.packages or surroundings.packages(main.get("path")),
        processes=tally.processes(endings),
        probes=tally.probes(),
        misses=tally.misses(),
        failures=list(tally.failures.values()),
        automatic=tally.automatic(),
    )
    info["records"] = sum(process["records"] for process in info["processes"])
    info["lost"] = sum(process["lost"] for process in info["processes"])
    info["torn"] = sum(process["torn"] for process in info["processes"])
    info["warnings"] = warnings(info)


def _stream(
    merged: Merged,
    tally: Tally,
    info: dict[str, Any],
    run_name: str,
    exit: int | None,
    machine: Mapping[str, Any] | None = None,
) -> Iterator[bytes]:
    """The events of the run in milabench's form and order."""
    name, command = info["name"], info["command"]
    yield _line(
        "config",
        {
            "name": name,
            "run_name": run_name,
            "tag": [name, "D0"],
            "argv": command[1:],
            "enabled": True,
            "injector": SCHEMA,
            "weight": 1.0,
            "device": None,
        },
    )
    yield _line("meta", {**(machine or surroundings.machine()), "date": info["started"]})
    yield _line("start", {"command": command, "time": info["started"]})
    several = len(merged.logs) > 1
    last = info["ended"]
    for when, _, _, _, entry in merged.entries():
        last = when
        if isinstance(entry, bytes):
            yield entry
        elif entry.process is None or not tally.take(entry.process, entry):
            yield line_of(in_stream(entry, several))
    if info.get("collected") is False:
        # Its end was not seen: it ended no earlier than its last record.
        last = max([info["ended"], last, *(log.last for log in merged.logs)])
        info.update(ended=last, duration=last - info["started"])
    end = {"command": command, "time": info["ended"], "return_code": exit}
    yield _line("end", end)


def _line(event: str, data: Any) -> bytes:
    return line_of({"event": event, "data": data, "pipe": None})
