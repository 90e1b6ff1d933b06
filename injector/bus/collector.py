"""Collecting a run: from the raw files of its processes, one stream of events and ``run.json``.

:func:`collect` runs in the supervisor after the program has ended, or in a reader for a run whose supervisor
died. In one pass over all records in the order of time (:mod:`.merge`) it writes ``NAME.D0.data`` and sums up
what the records say (:mod:`.tally`); then it joins that with what is known from outside of the processes
(:class:`FinishedRun`), takes the seal and writes ``run.json``, which is last: a run folder without it is one
that was not collected.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from ..exit_status import code_of, exit_of
from ..named_tuple import NamedTuple
from ..schema import SCHEMA
from ..store.event import line_of
from ..store.place import clean_name, replace_file
from ..store.run_json import write_info
from ..store.seal import mark_changed, seal
from . import surroundings
from .endings import Endings, Gone, seen
from .merge import Merged, in_stream
from .run_warnings import warnings
from .tally import Tally

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any


class FinishedRun(NamedTuple):
    """What the supervisor knows of a run, which no process of it records."""

    command: Sequence[str]
    name: str
    started: float
    """Unix seconds, as :attr:`ended`."""
    ended: float
    exit: int | None
    """The program's exit code, negative for the signal it died by; None if unknown."""
    program: dict[str, Any] | None = None
    """``{"script": path}``, ``{"module": name}`` or ``{"command": name}``."""
    voirfiles: Iterable[str] = ()
    problems: Iterable[str] = ()
    """Sentences that the report repeats."""
    remarks: Iterable[str] = ()
    """Sentences of the same kind about what is no failure."""
    limits: Mapping[str, float | str] = MappingProxyType({})
    """Options of the command line that end it early, such as ``--stop``, with their steps or seconds."""
    sampling: int = 0
    """How often a second its stacks were read; 0: never."""
    tags: Mapping[str, str] = MappingProxyType({})
    """Properties given on the command line, which count before those of voirfiles."""
    price: tuple[float, str] | None = None
    """What an hour costs, and the currency."""
    profiled: tuple[int, int] | None = None
    """The first and the last step that torch.profiler was to record."""
    git: Mapping[str, Any] | None = None
    """The work tree around the program (:class:`.surroundings.WorkTree`)."""
    timed_out: bool = False
    stopped: bool = False
    """Whether one of its processes ended the whole job."""
    outlived: Iterable[str] = ()
    """Commands of processes that outlived it."""
    peak_rss: int = 0
    """Bytes of memory that the largest of its processes held; 0 if that is not known."""
    exits: Mapping[int, int] = MappingProxyType({})
    """Exit codes, or minus the deadly signals, of the processes that the supervisor waited for, by number."""
    gone: Iterable[Gone] = ()
    """Ends of processes of any host that are known from an earlier collection."""
    machine: Mapping[str, Any] | None = None
    """What it ran on, in the words of milabench's ``meta`` event; None: on this host."""
    packages: Mapping[str, str] | None = None
    """Versions of the packages that it could import; None: those that its first process could here."""
    interrupted: tuple[int, float] | None = None
    """The first signal that was to end it, and when, unix seconds."""
    collected: bool = True
    """False for a run that still goes on, or whose supervisor died before its end."""

    def info(self) -> dict[str, Any]:
        """The keys of ``run.json`` that follow from it."""
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
            "exit": exit_of(self.exit) or {"code": None, "signal": None},
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
        """The keys that only some runs have."""
        found: dict[str, Any] = {}
        if self.price:
            found["price"] = {"per_hour": self.price[0], "currency": self.price[1]}
        if self.sampling:
            found["sampling"] = {"rate": self.sampling}
        if self.profiled:
            found["profiled"] = dict(zip(("first", "until"), self.profiled, strict=True))
        if not self.collected:
            found["collected"] = False
        return found


def collect(folder: str, run: FinishedRun, out: str | None = None) -> dict[str, Any]:
    """Write ``NAME.D0.data`` and ``run.json`` into ``folder``, or into ``out``. Returns what ``run.json``
    says.

    A file that cannot be written, for want of space, becomes one of the run's problems: on a full disk the
    report is still made from what is returned. Raises OSError if raw files cannot be read.
    """
    merged, info = Merged(folder), run.info()
    tally = Tally(merged.logs)
    lines = _stream(merged, tally, info, os.path.basename(folder), run.exit, run.machine)
    into = out or folder
    path = os.path.join(into, f"{clean_name(run.name)}.D0.data")
    _attempt(info, path, lambda: replace_file(path, lines))
    for _ in lines:
        pass  # the tally is filled by this pass: if the disk was full, what is left is read without writing
    if run.profiled:
        info["problems"] += tally.about_profiles(run.profiled)
    _summarise(info, tally, _endings(merged, tally, run), run)
    if out is None:
        mark_changed(folder)
    if run.collected:
        # Not for a run that may go on: its files would differ from their seal at once.
        info["files"] = seal(folder)
        info["collected_at"] = time.time()
    _attempt(info, os.path.join(into, "run.json"), lambda: write_info(into, info))
    return info


def retell(folder: str, info: dict[str, Any]) -> None:
    """Write the ``.data`` file of a run that has lost it; ``info`` is its ``run.json``. Raises OSError."""
    merged = Merged(folder, info.get("processes") or ())
    path = os.path.join(folder, f"{clean_name(info['name'])}.D0.data")
    code = code_of(info["exit"])
    replace_file(path, _stream(merged, Tally(merged.logs), info, os.path.basename(folder), code))


def _attempt(info: dict[str, Any], path: str, write: Any) -> None:
    """Call ``write``, which writes ``path``; if that fails, add a problem to ``info``."""
    try:
        write()
    except OSError as error:
        info["problems"].append(f"{path} could not be written: {error.strerror or error}")
        if "warnings" in info:
            info["warnings"] = warnings(info)


def _endings(merged: Merged, tally: Tally, run: FinishedRun) -> Endings:
    """Every known end of a process. The most certain come first, since of several codes the first counts."""
    host = os.uname().nodename
    clocks = {log.host: log.clock for log in merged.logs}
    waited = [Gone(host, pid, None, code) for pid, code in run.exits.items()]
    # A status that was waited for is certain; what launchers and monitors record is their reading of it.
    return Endings([*waited, *run.gone, *tally.exited, *seen(merged.folder)], clocks)


def _summarise(info: dict[str, Any], tally: Tally, endings: Endings, run: FinishedRun) -> None:
    """Add to ``info`` what the records say, and the warnings that follow."""
    main: dict[str, Any] = tally.logs[0].process if tally.logs else {}
    machine = run.machine or surroundings.machine()
    system = machine["os"]
    stopped_by = tally.stopped_by()
    if stopped_by is not None:
        info["exit"]["stopped_by"] = stopped_by
    info.update(
        tags={**tally.tags, **info["tags"]},
        params=tally.params,
        artifacts=list(tally.artifacts.values()),
        stopped=info["stopped"] or bool(tally.stops),
        host=system["nodename"],
        python=main.get("python") or sys.version.split()[0],
        platform=" ".join(system[key] for key in ("sysname", "release", "machine")),
        cpu=machine["cpu"],
        # Without the record of a process it is not known what it could import: not what its reader can.
        packages=run.packages or surroundings.packages(main.get("path") or ()),
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
    """The lines of the run's ``.data`` file, in milabench's form and order. Fills ``tally`` on the way."""
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
        if isinstance(entry, bytes):  # a value of a series, a line already
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
