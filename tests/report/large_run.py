"""A run of many steps on many ranks, written by hand: with a warm-up, slow steps, a straggler, devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from spans import HEADER, SECOND, payload, site, write_process, write_run

SLOW = ((7, 0.9), (311, 0.42), (640, 0.31))
"""Steps in thousandths of all, and what the fetch of rank 2 took in them, seconds."""
TEXT = {
    31: "for x, y in loader:",
    33: "loss = F.cross_entropy(model(x), y)",
    34: "loss.backward()",
    35: "optimizer.step()",
}
SITES = (
    (1, "io", 31),
    (2, "forward", 33),
    (3, "backward", 34),
    (4, "comm", 34),
    (5, "optimizer", 35),
)


def write_large_run(folder: Path, steps: int, ranks: int, **info: Any) -> float:
    """Write a run of ``steps`` on each of ``ranks``; the seconds that it took."""
    rng = np.random.default_rng(1)
    last = 0
    for rank in range(ranks):
        rows = _rows(rng, steps, slower=1.12 if rank == 2 else 1.0, slow=rank == 2)
        last = max(last, int(rows[:, 1].max()))
        write_process(
            folder, _sites(), (), pid=100 + rank, rank=rank, world=ranks, ended=last + SECOND
        )
        path = folder / "raw" / f"h.{100 + rank}.spans"
        with path.open("r+b") as file:
            file.seek(HEADER)
            file.write(rows.astype("=i8").tobytes())
    seconds = last / SECOND + 1
    _write_monitor(folder, rng, seconds, min(ranks, 8))
    _write_losses(folder, rng, seconds)
    processes = [
        {"log": f"h.{100 + rank}.log", "pid": 100 + rank, "ppid": 1, "host": "h", "rank": rank,
         "world": ranks, "attempt": None, "argv": ["train.py"], "python": "3.11.7", "time": 100.0,
         "monotonic_ns": 0, "ended": True, "exit": {"code": 0, "signal": None}, "gone": None,
         "error": None, "records": 1, "lost": 0, "why": "", "torn": 0}
        for rank in range(ranks)
    ]  # fmt: skip
    facts: dict[str, Any] = {"name": "large", "command": ["inject", "run", "train.py", "--lr", "0.1"],
             "ended": 100 + seconds, "duration": seconds, "host": "h", "python": "3.11.7",
             "platform": "Linux 6.1 x86_64", "cpu": {"count": 64, "usable": 64, "brand": "EPYC"},
             "git": {"root": "/x", "branch": "main", "commit": "0123456789abcdef0123456789abcdef01234567"},
             "packages": {"torch": "2.13.0", "numpy": "2.4.6", "lightning": "2.6.6"},
             "processes": processes}  # fmt: skip
    write_run(folder, {**facts, **info})
    return seconds


def _sites() -> list[dict[str, Any]]:
    made = [site(number, region, line=line, of=1) for number, region, line in SITES]
    for each in made:
        each["place"]["text"] = TEXT[each["place"]["line"]]
        each["payload"] = "items" if each["region"] == "io" else None
        each["what"] = "DataLoader of Shards" if each["region"] == "io" else None
    return made


def _rows(rng: np.random.Generator, steps: int, slower: float, slow: bool) -> np.ndarray:
    """Spans in the order of their ends: fetch, forward, backward with a collective inside, update."""

    def spent(mean: float) -> np.ndarray:
        return mean * rng.lognormal(0, 0.12, steps)

    io, forward, comm, update = spent(0.004), spent(0.006), spent(0.002), spent(0.0015)
    backward = spent(0.011) * slower
    if slow:
        comm *= 0.3
        for at, seconds in SLOW:
            io[at * steps // 1000] += seconds
    forward[0] += 2.5  # it compiles
    drift = 1 + 0.25 * np.clip((np.arange(steps) / steps - 0.6) / 0.1, 0, 1)
    io *= drift
    gap = np.full(steps, 0.0008)
    starts = np.cumsum(
        np.concatenate(([0.5], (io + forward + backward + comm + update + gap)[:-1]))
    )
    bounds = starts + np.cumsum([np.zeros(steps), io, forward, backward + comm, update], axis=0)
    ns = (bounds * SECOND).astype(np.int64)
    inside = ((bounds[3] - comm) * SECOND).astype(np.int64)
    rows = np.zeros((steps, 5, 4), np.int64)
    pairs = ((ns[0], ns[1]), (ns[1], ns[2]), (inside, ns[3]), (ns[2], ns[3]), (ns[3], ns[4]))
    for at, (number, (begin, end)) in enumerate(zip((1, 2, 4, 3, 5), pairs, strict=True)):
        rows[:, at, 0], rows[:, at, 1], rows[:, at, 3] = begin, end, number
    rows[:, 0, 2] = payload(64)
    return rows.reshape(-1, 4)


def _write_monitor(folder: Path, rng: np.random.Generator, seconds: float, devices: int) -> None:
    def line(event: str, data: Any, at: float) -> str:
        return json.dumps({"event": event, "data": data, "t": int(at * SECOND)}) + "\n"

    first = {"schema": 1, "pid": 9, "ppid": 1, "host": "h", "time": 100.0, "monotonic_ns": 0,
             "interval": 1.0, "role": "monitor", "argv": [], "rank": None, "python": "3",
             "path": []}  # fmt: skip
    names = {
        str(n): {"name": "H100", "index": n, "uuid": f"GPU-{n}", "vendor": "nvidia"}
        for n in range(devices)
    }
    lines = [line("process", first, 0), line("device_list", names, 0)]
    busy = np.zeros(4)
    every = max(1.0, seconds / 4000)
    for number, at in enumerate(np.arange(0, seconds, every).tolist()):
        busy += every * np.clip(rng.normal(0.55, 0.1, 4), 0, 1)
        cores = [[float(b), float((number + 1) * every - b)] for b in busy]
        lines.append(
            line(
                "host",
                {"cores": cores, "memory": {"total": 2**38, "used": 2**35, "fraction": 0.125}},
                at,
            )
        )
        tree = [
            {
                "pid": 100,
                "name": "python",
                "started": 100.0,
                "cpu": at,
                "rss": int(2e9 + at * 4e6),
                "threads": 9,
            }
        ]
        lines.append(line("tree", {"processes": tree}, at))
        state = {str(n): {"load": float(np.clip(rng.normal(0.8 - 0.25 * (n == 2), 0.08), 0, 1)),
                          "power": 420.0 + 20 * n + float(rng.normal(0, 15)), "memory_used": 3.1e10 + n * 1e9,
                          "memory_total": 8e10, "temperature": 61.0} for n in range(devices)}  # fmt: skip
        lines.append(line("devices", state, at))
    (folder / "raw" / "h.9.monitor").write_text("".join([*lines, line("end", {}, seconds)]))


def _write_losses(folder: Path, rng: np.random.Generator, seconds: float) -> None:
    lines = []
    for number, at in enumerate(np.linspace(1, seconds, 1000).tolist()):
        loss = 2.3 * np.exp(-number / 300) + 0.2 + rng.normal(0, 0.04)
        data = {"task": "train", "loss": float(loss), "time": 100.0 + at}
        lines.append(json.dumps({"event": "data", "data": data, "pipe": "data"}) + "\n")
    (folder / "large.D0.data").write_text("".join(lines))
