"""Programs laid out on a clock of their own, as the raw files that a run of them would leave.

    p = Program(pid=1)
    for _ in range(10):
        p.io(1, items=…)        # a fetch of 1 ms, at line 10 unless said otherwise
        p.forward(2, items=32)
        …
    p.write(folder)

Times are milliseconds and may be fractions; every region has a line of its own, which is how loaders,
models and optimizers are told apart, beside ``of``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from injector.analysis.machines import HostUsage
from injector.analysis.profile import Profile
from injector.analysis.profiling import profile
from injector.analysis.training_loop import Node, TrainingLoop
from injector.store.folder import open_run

MS = 1_000_000
EPOCH = 1_700_000_000
"""Unix seconds at which every program's clock stands at ``origin``."""
LINES = {
    "io": 10, "io.end": 10, "h2d": 11, "forward": 12, "backward": 13, "optimizer": 14, "comm": 15,
    "step": 10, "evaluation": 20,
}  # fmt: skip


class Program:
    """One process; ``now`` is nanoseconds since it began."""

    def __init__(self, pid: int = 1, rank: int | None = None, **process: Any) -> None:
        self.pid, self.rank = pid, rank
        self.process = process
        self.origin = process.pop("origin", 5_000 * MS)
        self.now = 0
        self.thread = 0
        self.rows: list[tuple[int, int, int, int]] = []
        self.sites: dict[tuple[Any, ...], int] = {}
        self.records: list[tuple[str, Any]] = []

    def wait(self, ms: float) -> None:
        """Time in no region."""
        self.now += round(ms * MS)

    def site(self, region: str, line: int | None = None, **more: Any) -> int:
        """The number of a site."""
        line = LINES.get(region, 30) if line is None else line
        more.setdefault("thread", self.thread)
        if "how" in more:  # to be read, a payload
            more["payload"] = more.pop("how")
        key = (region, line, tuple(sorted(more.items())))
        if key not in self.sites:
            number = self.sites[key] = len(self.sites) + 1
            function = more.pop("function", "main")
            place = {"file": "/x/train.py", "line": line, "function": function, "text": "…"}
            data = {"site": number, "region": region, "clock": "host", "place": place, **more}
            self.records.append(("site", data))
        return self.sites[key]

    def span(
        self, region: str, ms: float, items: int = 0, tokens: int = 0, nbytes: int = 0, **site: Any
    ) -> None:
        """A call of ``ms`` milliseconds from now on."""
        start = self.now
        self.wait(ms)
        self.row(region, start, self.now, nbytes or items | tokens << 24, **site)

    def row(self, region: str, start: int, end: int, payload: int = 0, **site: Any) -> None:
        """A span at any time."""
        if region in ("comm", "h2d"):
            site.setdefault("payload", "bytes")
        self.rows.append((start, end, payload, self.site(region, **site)))

    @contextmanager
    def around(self, region: str, items: int = 0, **site: Any) -> Iterator[None]:
        """A call of what happens meanwhile."""
        start = self.now
        yield
        self.row(region, start, self.now, items, **site)

    def io(self, ms: float = 1, **more: Any) -> None:
        self.span("io", ms, **{"of": 1, **more})

    def dry(self, ms: float = 0.1, **more: Any) -> None:
        """The fetch that found nothing more."""
        self.span("io.end", ms, **{"of": 1, **more})

    def forward(self, ms: float = 2, items: int = 8, **more: Any) -> None:
        self.span("forward", ms, items, **{"of": 1, "phase": "train", **more})

    def predict(self, ms: float = 2, items: int = 8, **more: Any) -> None:
        """A forward that only evaluates."""
        self.forward(ms, items, **{"phase": "eval", "line": 22, **more})

    def backward(self, ms: float = 4, **more: Any) -> None:
        self.span("backward", ms, **more)

    def update(self, ms: float = 1, **more: Any) -> None:
        self.span("optimizer", ms, **{"of": 1, **more})

    def train(self, other: float = 0, **lines: Any) -> None:
        """Forward, backward and update: 7 ms."""
        self.forward()
        self.backward()
        self.wait(other)
        self.update(**lines)

    def turn(self, io: float = 1, other: float = 0) -> None:
        """A turn of a loop with a loader: 8 ms."""
        self.io(io)
        self.train(other)

    def validate(self, batches: int = 3, io: float = 1, **loader: Any) -> None:
        """A pass over a loader of its own: 3.2 ms a batch, 0.1 at the end."""
        for _ in range(batches):
            self.io(io, **{"of": 2, "line": 21, **loader})
            self.predict()
            self.wait(0.2)
        self.dry(**{"of": 2, "line": 21, **loader})

    def write(self, folder: Path, tail: bytes = b"", spans: np.ndarray | None = None) -> None:
        raw = folder / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        began = {"schema": 1, "pid": self.pid, "ppid": 1, "host": "h", "rank": self.rank,
                 "time": EPOCH, "monotonic_ns": self.origin, **self.process}  # fmt: skip
        records = [("process", began), *self.records]
        lines = [json.dumps({"event": e, "data": d, "t": self.origin}) + "\n" for e, d in records]
        stem = f"{began['host']}.{self.pid}"
        (raw / f"{stem}.log").write_text("".join(lines))
        if spans is None:
            spans = np.array(self.rows, np.int64).reshape(-1, 4)
        spans = spans + np.array([self.origin, self.origin, 0, 0])
        title = json.dumps({"event": "spans", "data": {"version": 1, "row": 32}, "t": 0}) + "\n"
        header = title.encode().ljust(1024, b"\0")
        (raw / f"{stem}.spans").write_bytes(header + spans.astype(np.int64).tobytes() + tail)


def report(
    folder: Path,
    *programs: Program,
    start: float = 0,
    end: float = 0,
    watched: Sequence[HostUsage] = (),
    **info: Any,
) -> Profile:
    """The profile of a run of ``programs`` that began ``start`` ms before and ended ``end`` after."""
    for program in programs:
        program.write(folder)
    last = max((row[1] for program in programs for row in program.rows), default=0)
    times = {"started": EPOCH - start / 1e3, "ended": EPOCH + last / 1e9 + end / 1e3}
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"schema": 1, **times, **info}))
    found = profile(open_run(str(folder)), watched=watched)
    assert found is not None
    check(found)
    return found


def check(found: Profile) -> None:
    """What holds for every profile: nothing disappears, nothing counts twice."""
    assert abs(sum(each.seconds for each in found.segments) - found.wall) < 1e-6
    assert all(each.seconds >= 0 for each in found.segments)
    for loop in found.loops:
        _check(loop.tree)
        assert loop.tree.host == loop.step
        assert loop.steps >= loop.step.n / max(1, len(loop.ranks))


def _check(node: Node) -> None:
    assert node.host.min >= 0
    if node.children:
        whole = sum(child.host.mean for child in node.children)
        assert abs(whole - node.host.mean) <= 1e-6 + 1e-4 * node.host.mean
        assert abs(sum(child.share for child in node.children) - node.share) < 1e-4
    for child in node.children:
        _check(child)


def only(found: Profile) -> TrainingLoop:
    """The one loop there is."""
    [loop] = found.loops
    return loop


def regions(loop: TrainingLoop) -> dict[str, float]:
    """Median milliseconds of the regions of a step, by name."""
    sums: dict[str, float] = {}
    for node in loop.tree.children:
        sums[node.name] = sums.get(node.name, 0.0) + node.host.median * 1e3
    return {name: round(ms, 3) for name, ms in sums.items()}


def stretch(found: Profile, name: str) -> float:
    """Milliseconds of all time segments of a name."""
    return round(sum(each.seconds for each in found.segments if each.name == name) * 1e3, 3)
