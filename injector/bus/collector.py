"""After a program ended: its processes' raw files become one stream of events and ``run.json``."""

from __future__ import annotations

import heapq
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..schema import SCHEMA
from ..store.event import SENT, line_of
from ..store.folder import Run, open_run, read_events
from ..store.logs import Damage, files
from ..store.monitor import monitor_logs
from ..store.place import clean_name, replace_file
from ..store.run_json import write_info
from ..store.seal import flaws, names, salvage, seal
from . import surroundings
from .endings import Endings, Gone, seen
from .merge import Merged, Record, StreamEvent, monitor_events, sent
from .tally import Tally, warnings


def collect(
    folder: str,
    *,
    exit: int | None,
    command: Sequence[str],
    started: float,
    ended: float,
    name: str,
    program: dict[str, Any] | None = None,
    voirfiles: Iterable[str] = (),
    problems: Iterable[str] = (),
    remarks: Iterable[str] = (),
    limits: dict[str, float] | None = None,
    sampling: int = 0,
    tags: Mapping[str, str] | None = None,
    price: tuple[float, str] | None = None,
    profiled: tuple[int, int] | None = None,
    git: Mapping[str, Any] | None = None,
    timed_out: bool = False,
    stopped: bool = False,
    outlived: Iterable[str] = (),
    peak_rss: int = 0,
    exits: Mapping[int, int] | None = None,
    interrupted: tuple[int, float] | None = None,
    out: str | None = None,
    collected: bool = True,
) -> dict[str, Any]:
    """Write ``NAME.D0.data`` and ``run.json`` into ``folder`` and return what ``run.json`` says.

    ``exit`` is the program's exit code, negative for the signal it died by, None if unknown; ``started``
    and ``ended`` are unix seconds; ``program`` is ``{"script": path}`` or ``{"module": name}`` or
    ``{"command": name}``; ``problems`` are sentences that the report should repeat, ``remarks`` those that
    are no failure; ``tags`` are the properties that it was given, which count before those of voirfiles;
    ``price`` is what an hour costs, and the currency; ``profiled`` are the steps that
    torch.profiler was to record; ``git`` is the work tree that it was in; ``limits``
    are the steps and seconds after which it was to end, ``sampling`` how often a second its stacks were
    read (0: never), ``timed_out`` whether its time was up, ``stopped`` whether one of its processes had all
    end, ``outlived`` the commands of processes that outlived it, ``peak_rss`` the bytes that the largest of
    its processes held, 0 if that is not known, ``exits`` how processes of this host ended, by their
    numbers, ``interrupted`` the first signal that was to end it, and when. What cannot be written is one
    more problem: this raises nothing for want of space. ``out`` is another folder to write to;
    ``collected`` is False for a run that goes on, or whose end was not seen.
    """
    merged = Merged(folder)
    tally = Tally(merged.logs)
    program = program or {"command": command[0] if command else name}
    info: dict[str, Any] = {
        "schema": SCHEMA,
        "name": name,
        "command": list(command),
        "program": program,
        "voirfiles": list(voirfiles),
        "started": started,
        "ended": ended,
        "duration": ended - started,
        "exit": {
            "code": exit if exit is not None and exit >= 0 else None,
            "signal": -exit if exit is not None and exit < 0 else None,
        },
        "tags": dict(tags or {}),
        "git": git and dict(git),
        "limits": dict(limits or {}),
        **({"price": {"per_hour": price[0], "currency": price[1]}} if price else {}),
        **({"sampling": {"rate": sampling}} if sampling else {}),
        "timed_out": timed_out,
        "interrupted": interrupted and {"signal": interrupted[0], "time": interrupted[1]},
        "outlived": list(outlived),
        "peak_rss": peak_rss or None,
        "stopped": stopped,
        "problems": list(problems),
        "remarks": list(remarks),
    }
    if not collected:
        info["collected"] = False
    events = _stream(merged, tally, info, os.path.basename(folder), exit)
    out = out or folder
    path = os.path.join(out, f"{clean_name(name)}.D0.data")
    _attempt(info, path, lambda: replace_file(path, (line_of(event) for event in events)))
    for _ in events:
        pass  # if it could not be written, what it says is still wanted
    if profiled:
        info["problems"] += tally.about_profiles(profiled)
    _summarise(info, tally, _endings(merged, tally, exits or {}))
    if collected:
        info["files"] = seal(folder)
    _attempt(info, os.path.join(out, "run.json"), lambda: write_info(out, info))
    return info


def retell(folder: str, info: dict[str, Any]) -> None:
    """Write the ``.data`` file of a run that has lost it; ``info`` is its run.json. Raises OSError."""
    merged = Merged(folder, info.get("processes") or ())
    ended = info["exit"]
    code = ended.get("code") if ended.get("signal") is None else -ended["signal"]
    events = _stream(merged, Tally(merged.logs), info, os.path.basename(folder), code)
    path = os.path.join(folder, f"{clean_name(info['name'])}.D0.data")
    replace_file(path, (line_of(event) for event in events))


def repair(folder: str, out: str, name: str | None = None) -> dict[str, Any]:
    """Collect into the folder ``out`` a run that was not collected, whose ``inject`` died first.

    Command and times are those of the processes; ``name`` is the folder's, where ``folder`` is a copy of
    it. The run may still be going on.
    """
    logs = Merged(folder).logs
    main: dict[str, Any] = logs[0].process if logs else {}
    started = float(main.get("time") or os.path.getmtime(folder))
    return collect(
        folder,
        exit=None,
        command=[str(word) for word in main.get("argv") or ()],
        started=started,
        ended=started,
        name=(name or os.path.basename(os.path.abspath(folder))).rsplit(".", 2)[0],
        out=out,
        collected=False,
    )


def _attempt(info: dict[str, Any], path: str, write: Any) -> None:
    try:
        write()
    except OSError as error:
        info["problems"].append(f"{path} could not be written: {error.strerror or error}")
        if "warnings" in info:
            info["warnings"] = warnings(info)


def _endings(merged: Merged, tally: Tally, exits: Mapping[int, int]) -> Endings:
    """What is known of the ends of processes; who waited for one knows best."""
    host = os.uname().nodename
    clocks = {log.host: log.clock for log in merged.logs}
    waited = [Gone(host, pid, None, code) for pid, code in exits.items()]
    return Endings([*waited, *tally.exited, *seen(merged.folder)], clocks)


def _summarise(info: dict[str, Any], tally: Tally, endings: Endings) -> None:
    main: dict[str, Any] = tally.logs[0].process if tally.logs else {}
    machine = surroundings.machine()
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
        packages=surroundings.packages(main.get("path")),
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
    merged: Merged, tally: Tally, info: dict[str, Any], run_name: str, exit: int | None
) -> Iterator[dict[str, Any]]:
    """The events of the run in milabench's form and order."""
    name, command = info["name"], info["command"]
    yield _event(
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
    yield _event("meta", {**surroundings.machine(), "date": info["started"]})
    yield _event("start", {"command": command, "time": info["started"]})
    several = len(merged.logs) > 1
    folder = merged.folder
    streams = [_recorded(merged, tally, several), *map(monitor_events, monitor_logs(folder))]
    streams += map(sent, files(folder, SENT))
    last = info["ended"]
    for timed in heapq.merge(*streams, key=lambda timed: timed.time):
        last = max(last, timed.time)
        yield _event(timed.event, timed.data, "data")
    if info.get("collected") is False:
        # Its end was not seen: it ended no earlier than its last record.
        last = max([last, *(log.last for log in merged.logs)])
        info.update(ended=last, duration=last - info["started"])
    end = {"command": command, "time": info["ended"], "return_code": exit}
    yield _event("end", end)


def _recorded(merged: Merged, tally: Tally, several: bool) -> Iterator[StreamEvent]:
    """What the program's processes recorded and the stream has a use for."""
    latest = float("-inf")
    for record in merged.records():
        if not tally.take(record):
            event = "data" if record.event == "value" else record.event
            latest = max(latest, record.time)  # threads may overtake each other
            yield StreamEvent(latest, event, _public(record, several))


def _event(event: str, data: Any, pipe: str | None = None) -> dict[str, Any]:
    return {"event": event, "data": data, "pipe": pipe}


def _public(record: Record, several: bool) -> Any:
    """What ``record`` says, with its time and, where there are several, its process."""
    data = record.data
    if record.event == "value" and isinstance(data, dict):
        task, _, key = str(data.get("series")).rpartition("/")
        step = {} if data.get("step") is None else {"batch_id": data["step"]}
        data = {**({"task": task} if task else {}), **step, key: data.get("value")}
    if not isinstance(data, dict):
        return data
    origin = {"process": record.process} if several else {}
    return {**data, "time": data.get("time", record.time), **origin}


# --- runs as their readers want them: collected, without what is no longer what was recorded --------


def is_foreign(run: Run) -> bool:
    """Whether another tool wrote it, without raw files; or nothing else is left of one of ours."""
    if run.info or not run.data_files:
        return False
    return all(name.endswith(".data") for name in names(run.path))


@contextmanager
def collected(run: Run, check: bool = True) -> Iterator[Run]:
    """``run`` as it can be read: what its seal does not vouch for is left out, and named.

    A run that was not collected is collected into a temporary folder; its own stays as it is. Without
    ``check`` its seal, which has just been made, is taken at its word. Raises OSError, NotARunError.
    """
    if is_foreign(run):
        yield run._replace(damage=_foreign(run))
        return
    if run.info and "files" not in run.info:
        yield run  # of an older injector
        return
    found = flaws(run.path, run.info["files"]) if run.info and check else []
    if run.info and run.data_files and not found:
        yield run
        return
    from tempfile import TemporaryDirectory  # 3 ms, as the next, which nearly no run needs

    from ..store.unsealed import salvage_unsealed

    with TemporaryDirectory() as copy:
        if run.info:
            salvage(run.path, run.info["files"], found, copy)
            problems = [flaw.sentence for flaw in found]
            if not any(name.endswith(".data") for name in os.listdir(copy)):
                retell(copy, run.info)
        else:
            problems = salvage_unsealed(run.path, copy)
            repair(copy, copy, os.path.basename(os.path.abspath(run.path)))
        made = open_run(copy)
        info = run.info or made.info
        yield made._replace(path=run.path, info=info, copy=copy, damage=tuple(problems))


def _foreign(run: Run) -> tuple[str, ...]:
    """What is wrong with files that only their own lines can vouch for."""
    damage, ended = Damage(), set()
    ours = os.path.isdir(os.path.join(run.path, "raw"))
    for bench, event, data in read_events(run, damage):
        if event == "end":
            ended.add(bench)
        ours = ours or (event == "config" and isinstance(data, dict) and "injector" in data)
    benches = [os.path.basename(path)[: -len(".data")] for path in run.data_files]
    problems = [f"{bench}.data has no end" for bench in benches if bench not in ended]
    if damage.torn:
        problems.append(f"{damage.torn} lines of .data files are no records and are left out")
    if ours:
        problems.append("there is no run.json, and nothing in raw/: only events are left")
    return tuple(problems)
