"""Run folders with spans, written by hand: for tests of what reads them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HEADER = 1024
SECOND = 1_000_000_000

Row = tuple[int, int, int, int]
"""Start and end (nanoseconds of the monotonic clock), payload, site."""


def site(number: int, region: str, **more: Any) -> dict[str, Any]:
    """The data of a ``site`` event; ``line=`` is short for a place in ``/x/train.py``."""
    line = more.pop("line", None)
    place = None
    if line is not None:
        place = {"file": "/x/train.py", "line": line, "function": "main", "text": f"line {line}"}
    data = {
        "site": number,
        "region": region,
        "clock": "host",
        "thread": 0,
        "place": place,
        "of": None,
        "what": None,
        "phase": None,
        "task": None,
        "payload": None,
        "selector": region,
        "device": None,
    }
    return {**data, **more}


def read_sites(log: str | Path) -> dict[int, dict[str, Any]]:
    """The data of the ``site`` events of a log, as they were written, by their numbers."""
    lines = (line.strip(b"\0\n") for line in Path(log).read_bytes().splitlines())
    records = [json.loads(line) for line in lines if line.startswith(b'{"event":"site"')]
    return {record["data"]["site"]: record["data"] for record in records}


def payload(items: int = 0, tokens: int = 0) -> int:
    """Items and tokens as they stand in a row."""
    return items | tokens << 24


def write_spans(path: Path, rows: Iterable[Row]) -> None:
    """A file of spans; a row of zeros is one that was never written."""
    title = json.dumps({"event": "spans", "data": {"version": 1, "row": 32}, "t": 0})
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write((title + "\n").encode().ljust(HEADER, b"\0"))
        for row in rows:
            file.write(struct.pack("=4q", *row))


def write_process(
    folder: Path,
    sites: Sequence[dict[str, Any]],
    rows: Iterable[Row],
    *,
    pid: int = 1,
    host: str = "h",
    time: float = 100.0,
    monotonic_ns: int = 0,
    rank: int | None = None,
    events: Iterable[tuple[str, Any, int]] = (),
    ended: int | None = None,
    **more: Any,
) -> None:
    """One process: its log with ``sites``, and its spans.

    ``time`` (unix seconds) and ``monotonic_ns`` are the same moment; ``events`` are further records
    ``(event, data, t)``; ``ended`` is when it said goodbye, None for one that was killed.
    """
    process = {"schema": 1, "pid": pid, "ppid": 1, "host": host, "rank": rank, "argv": ["x.py"]}
    process.update(time=time, monotonic_ns=monotonic_ns, python="3.11.7", path=[], **more)
    records: list[tuple[str, Any, int]] = [("process", process, monotonic_ns)]
    records += [("site", one, monotonic_ns) for one in sites]
    records += list(events)
    if ended is not None:
        records.append(("end", {}, ended))
    raw = folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"event": e, "data": data, "t": t}) + "\n" for e, data, t in records]
    (raw / f"{host}.{pid}.log").write_text("".join(lines))
    write_spans(raw / f"{host}.{pid}.spans", rows)


def loop(
    steps: int,
    parts: Sequence[tuple[int, int]],
    *,
    start: int = 0,
    pay: dict[int, int] | None = None,
) -> list[Row]:
    """Rows of a loop whose every turn is ``parts`` one after another.

    A part is ``(site, nanoseconds)``; site 0 is time without a span.
    """
    rows: list[Row] = []
    now = start
    for _ in range(steps):
        for number, length in parts:
            if number:
                rows.append((now, now + length, (pay or {}).get(number, 0), number))
            now += length
    return rows


def write_run(folder: Path, info: dict[str, Any] | None = None, **more: Any) -> None:
    """``run.json`` of a finished run, whole enough to be read."""
    data = {
        "schema": 1,
        "name": "x",
        "command": ["python", "x.py"],
        "program": {"script": "/x/train.py"},
        "voirfiles": [],
        "started": 100.0,
        "ended": 200.0,
        "duration": 100.0,
        "exit": {"code": 0, "signal": None},
        "problems": [],
        "processes": [],
        "probes": [],
        "misses": [],
        "failures": [],
        "records": 0,
        "lost": 0,
        "torn": 0,
        "warnings": [],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({**data, **(info or {}), **more}))
