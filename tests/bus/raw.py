"""Raw files made by hand, and run folders made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from injector.bus.collector import FinishedRun, collect

SECOND = 1_000_000_000


def process(pid: int, time: float, monotonic_ns: int, **more: Any) -> dict[str, Any]:
    data = {"schema": 1, "pid": pid, "ppid": 1, "host": "h", "rank": None, "python": "3.11.7"}
    data.update(time=time, monotonic_ns=monotonic_ns, argv=["python", "x.py"], path=[], **more)
    return {"event": "process", "data": data, "t": monotonic_ns}


def event(name: str, data: Any, t: int) -> dict[str, Any]:
    return {"event": name, "data": data, "t": t}


def write_log(folder: Path, name: str, records: list[Any], tail: bytes = b"") -> None:
    raw = folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(record).encode() + b"\n" for record in records]
    (raw / f"{name}.log").write_bytes(b"".join(lines) + tail)


def landing(line: int = 3, **more: Any) -> dict[str, Any]:
    place = {"module": "__main__", "function": "f", "file": "/x/a.py", "line": line}
    return {**place, "source": "x = g()", "kind": "assignment", **more}


def gather(folder: Path, **options: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {"exit": 0, "command": ["python", "x.py"], "name": "x"}
    run = FinishedRun(**{**defaults, "started": 100.0, "ended": 112.5, **options})
    return collect(str(folder), run)


def data_lines(folder: Path, name: str = "x") -> list[dict[str, Any]]:
    text = (folder / f"{name}.D0.data").read_text()
    return [json.loads(line) for line in text.splitlines()]
