"""Folders of a suite's runs, written by hand.

made = SuiteFolder(tmp_path)
made.benchmark("resnet", weight=2)
made.process("resnet", rates=[10.0] * 6)                # resnet.R0.D0
made.process("resnet", slot=1, rates=[], code=1)        # resnet.R0.D1
suite = made.read()
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from injector.suite.results import live_view, suite_reader
from injector.suite.results.suite_summary import BenchmarkSummary, SuiteSummary
from injector.suite.run import journal

UNIX = 1_800_000_000.0
GB = 1_000_000_000


class SuiteFolder:
    """What `inject suite run` leaves: plan.json, journal.jsonl, jobs/."""

    def __init__(self, path: Path, name: str = "toy") -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.plan: dict[str, Any] = {
            "schema": 1,
            "suite": {"name": name, "file": f"/x/{name}.yaml"},
            "base": str(path.parent),
            "machine": {"host": "node7", "arch": "cpu", "cpu_count": 2, "memory": 16 * GB,
                        "devices": [{"key": "cpu:0", "name": "", "uuid": "", "memory": None}]},
            "options": {},
            "benchmarks": {},
            "jobs": [],
            "left_out": [],
        }  # fmt: skip
        self.journal: list[dict[str, Any]] = [{"event": "begin", "time": UNIX}]
        self.closed = True

    def benchmark(self, name: str, tags: Sequence[str] = (), weight: float = 1.0,
                  family: str = "", **settings: Any) -> None:  # fmt: skip
        """One of the suite's; ``settings`` are those of its YAML."""
        entry = {"group": name, "tags": list(tags), "weight": weight, "settings": settings}
        self.plan["benchmarks"][name] = {**entry, **({"family": family} if family else {})}

    def process(
        self,
        benchmark: str,
        rates: Iterable[float] = (),
        *,
        repeat: int = 0,
        slot: int = 0,
        devices: Sequence[str] = ("cpu:0",),
        state: str = "finished",
        code: int | None = 0,
        signal: int | None = None,
        timed_out: bool = False,
        reason: str = "",
        devices_seen: Sequence[Sequence[Mapping[str, Any]]] = (),
        **run: Any,
    ) -> str:
        """One process of a job, what the journal says of it, and its run folder; its key.

        ``state`` may be "planned": the journal says nothing of it.
        """
        if benchmark not in self.plan["benchmarks"]:
            self.benchmark(benchmark)
        job, key = f"{benchmark}.R{repeat}", f"{benchmark}.R{repeat}.D{slot}"
        found = next((each for each in self.plan["jobs"] if each["key"] == job), None)
        if found is None:
            found = {"key": job, "benchmark": benchmark, "repeat": repeat, "processes": []}
            self.plan["jobs"].append(found)
        found["processes"].append(
            {
                "key": key,
                "devices": list(devices),
                "command": ["python"],
                "environment": {},
                "folder": "/x",
                "run": f"jobs/{key}",
                "timeout": 600,
                "expected": 60.0,
                "cores": [],
            }
        )
        if state == "planned":
            return key
        last = self.journal[-1]
        if last.get("key") != job:
            last = {
                "event": "job",
                "key": job,
                "state": state,
                "attempt": 1,
                "time": UNIX,
                "processes": {},
            }
            self.journal.append(last)
        last.update(state=state, time=UNIX + len(self.journal), reason=reason)
        if state == "finished":
            last["processes"][key] = {
                "code": code, "signal": signal, "timed_out": timed_out, "run": f"jobs/{key}"
            }  # fmt: skip
        if state != "failed-to-start":
            write_run(self.path / "jobs" / key, rates, code=code, signal=signal,
                      timed_out=timed_out, devices=devices_seen, **run)  # fmt: skip
        return key

    def leave_out(
        self, benchmark: str, reason: str, failure: bool = False, weight: float = 0.0
    ) -> None:
        entry = {"benchmark": benchmark, "reason": reason, "failure": failure, "weight": weight}
        self.plan["left_out"].append(entry)

    def lines(self) -> list[str]:
        """The journal."""
        end = [{"event": "end", "time": UNIX + 100}] if self.closed else []
        return [journal.numbered(each, n) for n, each in enumerate([*self.journal, *end])]

    def write(self) -> Path:
        (self.path / "plan.json").write_text(json.dumps(self.plan))
        (self.path / "journal.jsonl").write_text("".join(self.lines()))
        return self.path

    def read(self) -> SuiteSummary:
        return suite_reader.summarise(str(self.write()))


class Watched:
    """The suite in ``folder`` as `inject watch` shows it."""

    def __init__(self, folder: Path | str) -> None:
        self.reader = suite_reader.SuiteReader(str(folder), follow=True)

    def tick(self, now: float | None = None) -> live_view.SuiteSnapshot:
        now = time.time() if now is None else now
        return live_view.snapshot(self.reader.read(now), now)


def watched(folder: Path | str, now: float | None = None) -> live_view.SuiteSnapshot:
    return Watched(folder).tick(now)


def write_run(
    folder: Path,
    rates: Iterable[float] = (),
    *,
    code: int | None = 0,
    signal: int | None = None,
    timed_out: bool = False,
    losses: Iterable[Any] = (),
    values: Mapping[str, float] | None = None,
    error: Mapping[str, str] | None = None,
    devices: Sequence[Sequence[Mapping[str, Any]]] = (),
    stderr: str = "",
    collected: bool = True,
    **info: Any,
) -> None:
    """What `inject run --into` leaves. ``devices``: for each of them its states, one a second."""
    folder.mkdir(parents=True, exist_ok=True)
    events: list[tuple[str, Any]] = [("start", {"command": ["x"], "time": UNIX})]
    events += [("data", {"task": "train", "rate": rate, "units": "items/s"}) for rate in rates]
    events += [("data", {"task": "train", "loss": loss}) for loss in losses]
    events += [("data", dict(values))] if values else []
    events += [("error", error)] if error else []
    events += [("end", {"command": ["x"], "time": UNIX + 9, "return_code": code})]
    lines = [json.dumps({"event": e, "data": d, "pipe": "data"}) + "\n" for e, d in events]
    (folder / "x.D0.data").write_text("".join(lines))
    entry = {
        "schema": 1, "name": "x", "command": ["x"], "started": UNIX, "ended": UNIX + 9,
        "duration": 9.0, "exit": {"code": code, "signal": signal}, "timed_out": timed_out,
        "host": "node7", "python": "3.11.7", "platform": "Linux 6.1 x86_64",
        "cpu": {"count": 2, "brand": "AMD EPYC"}, "packages": {"numpy": "2.4.6"}, "limits": {},
    }  # fmt: skip
    if collected:
        (folder / "run.json").write_text(json.dumps({**entry, **info}))
    if stderr:
        (folder / "stderr").write_text(stderr)
    if devices:
        write_monitor(folder, devices)


def write_monitor(folder: Path, devices: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """The samples of devices, one a second."""
    began = {"schema": 1, "host": "node7", "time": UNIX, "monotonic_ns": 0, "interval": 1.0}
    named = {
        str(n): {"index": n, "uuid": f"GPU-{n}", "name": "H1", "vendor": "x", "driver": "575.51"}
        for n in range(len(devices))
    }
    records: list[tuple[str, Any, int]] = [("process", began, 0), ("device_list", named, 0)]
    for second in range(max(map(len, devices))):
        states = {str(n): each[second] for n, each in enumerate(devices) if second < len(each)}
        records.append(("devices", states, second * 1_000_000_000))
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    lines = [json.dumps({"event": e, "data": d, "t": t}) + "\n" for e, d, t in records]
    (raw / "node7.9.monitor").write_text("".join(lines))


def state(
    load: float = 1.0, used: float = 40 * GB, total: float = 80 * GB, power: float = 300.0
) -> dict[str, Any]:
    """One sample of a device."""
    return {"load": load, "memory_used": used, "memory_total": total, "power": power}


def only(suite: SuiteSummary) -> BenchmarkSummary:
    """The one benchmark that there is."""
    [benchmark] = suite.benchmarks
    return benchmark


def failures(benchmark: BenchmarkSummary) -> list[str]:
    """Everything that makes it a failure, as ``layer: sentence``."""
    found = [finding for process in benchmark.processes for finding in process.findings]
    return [f"{f.layer}: {f.sentence}" for f in [*found, *benchmark.findings] if f.fails]
