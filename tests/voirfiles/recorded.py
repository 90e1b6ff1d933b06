"""What a run has recorded, read from its raw files without the rest of the house."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import NamedTuple


class Span(NamedTuple):
    region: str
    what: str | None
    of: int | None
    phase: str | None
    line: int | None
    thread: int
    start: int
    end: int
    items: int
    tokens: int
    payload: int


class Process(NamedTuple):
    pid: int
    rank: int | None
    spans: list[Span]

    def named(self, *regions: str) -> list[Span]:
        return [span for span in self.spans if span.region in regions]

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for span in self.spans:
            found[span.region] = found.get(span.region, 0) + 1
        return found


def processes(folder: Path) -> list[Process]:
    """The processes of a run that recorded a span, by rank and number."""
    found = [_process(path) for path in sorted(folder.glob("raw/*.spans"))]
    return sorted(found, key=lambda one: (one.rank is None, one.rank, one.pid))


def _process(path: Path) -> Process:
    events = [
        json.loads(line)
        for line in path.with_suffix(".log").read_bytes().split(b"\n")
        if line.strip(b"\0 ").startswith(b"{")
    ]
    sites = {e["data"]["site"]: e["data"] for e in events if e["event"] == "site"}
    ranks = [e["data"]["rank"] for e in events if e["event"] == "rank"]
    spans = []
    for start, end, payload, site in struct.iter_unpack("=4q", path.read_bytes()[1024:]):
        if site:
            data = sites[site]
            line = (data["place"] or {}).get("line")
            kind = (data["region"], data["what"], data["of"], data["phase"], line, data["thread"])
            load = (payload & 0xFFFFFF, payload >> 24 & 0xFFFFFFFF, payload)
            spans.append(Span(*kind, start, end, *load))
    pid = int(re.findall(r"\.(\d+)$", path.stem)[0])
    return Process(pid, ranks[-1] if ranks else None, spans)
