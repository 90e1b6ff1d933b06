"""The state of a run that goes on: as a panel of a few lines for a terminal, as one line, and as JSON."""

from __future__ import annotations

import json
import re

from ..json_types import plain
from ..live.snapshot import DeviceRow, HostRow, RankRow, Snapshot, TaskRow
from .output import prose, room
from .text import clean, columns, duration, figure, fit, rank_name, wrap

TROUBLE = ("died", "hung", "silent", "waiting", "restarted")
"""States of ranks that are shown before all others, as a reader may have to act."""
RANKS = 8
"""The most rows of ranks, and of devices. Of more, their number is given."""


def has_begun(snapshot: Snapshot) -> bool:
    """Whether there is anything to show. Without that, the whole terminal stays the program's."""
    return bool(snapshot.ranks)


def lines(snapshot: Snapshot, width: int = 0) -> list[str]:
    """The panel: progress and rates, the parts of a step, a row for each rank and device.

    Lines have at most ``width`` columns, by default those of :func:`.room`.
    """
    width = width or room()
    result = [line for text in snapshot.missing for line in wrap(f"missing: {text}", width)]
    # A single task is what the lines about the whole run show.
    tasks = [_task(row) for row in snapshot.tasks] if len(snapshot.tasks) > 1 else []
    result += [_progress(snapshot), _rates(snapshot), *tasks, _regions(snapshot.regions)]
    result += [
        f"  {line}" for note in snapshot.notes for line in wrap(note, min(width, prose()) - 2)
    ]
    shown = _shown_ranks(snapshot.ranks)
    result += _few([_rank(row, snapshot.unit) for row in shown], len(snapshot.ranks))
    notes = [f"{who(row)}: {note}" for row in shown for note in row.notes][:RANKS]
    result += [f"  {line}" for note in notes for line in wrap(note, min(width, prose()) - 2)]
    result += machines(snapshot)
    return [part for line in result if line for part in _wrapped(line, width)]


def machines(snapshot: Snapshot) -> list[str]:
    """A row for each device and each host."""
    devices = _few([_device(row) for row in snapshot.devices[:RANKS]], len(snapshot.devices))
    return [*devices, *(_host(row) for row in snapshot.hosts[:4])]


def _wrapped(line: str, width: int) -> list[str]:
    """``line`` in lines of at most ``width`` columns, broken between its facts."""
    lines = [""]
    for part in re.split(r"(?<=\S)(?= · |  )", line):
        if lines[-1] and columns(lines[-1]) + columns(part) > width:
            lines.append("    " + part.removeprefix(" · ").lstrip())
        else:
            lines[-1] += part
    return [fit(text, width) for text in lines]


def _shown_ranks(rows: tuple[RankRow, ...]) -> list[RankRow]:
    """The ranks that have a row: those in trouble, then the first others; in the order of ranks."""
    order = sorted(range(len(rows)), key=lambda at: rows[at].state not in TROUBLE)[:RANKS]
    return [rows[at] for at in sorted(order)]


def _few(rows: list[str], count: int) -> list[str]:
    """``rows``, and how many of ``count`` are left out."""
    return rows if count <= len(rows) else [*rows, f"  … and {count - len(rows)} more"]


def one_line(snapshot: Snapshot) -> str:
    """The state as a single line, for output that is no terminal."""
    parts = [_progress(snapshot), _rates(snapshot).strip(), _regions(snapshot.regions).strip()]
    troubled = [row for row in snapshot.ranks if row.state in TROUBLE]
    parts += [f"{who(row)} {row.state}: {clean(row.notes[0])}" for row in troubled[:2] if row.notes]
    parts += [f"{len(troubled) - 2} more in trouble"] if len(troubled) > 2 else []
    return " · ".join(part for part in parts if part)


def as_json(snapshot: Snapshot) -> str:
    """The snapshot as JSON on one line, for other programs."""
    return json.dumps(plain(snapshot), allow_nan=False)


def _progress(snapshot: Snapshot) -> str:
    """The line of the run: name, state, steps, position, time left, time so far."""
    steps = f"step {snapshot.steps}"
    if snapshot.goal is not None:
        steps += f" of {snapshot.goal}"
    parts = [clean(snapshot.name), snapshot.state, *([steps] if snapshot.ranks else [])]
    if snapshot.position:
        parts.append(clean(snapshot.position))
    if snapshot.left is not None and snapshot.state != "ended":
        about = "" if snapshot.goal is not None else "about "
        of = {"epoch": "left of the epoch", "training": "of training left"}
        parts.append(f"{about}{duration(snapshot.left)} {of.get(snapshot.left_of, 'left')}")
    return " · ".join([*parts, duration(snapshot.elapsed)])


def _rates(snapshot: Snapshot) -> str:
    """The line of rates, the time of a step, and the first values."""
    parts = []
    if snapshot.rate is not None:
        parts.append(f"{figure(snapshot.rate)} {snapshot.unit}")
    if snapshot.overall is not None:
        unit = f" {snapshot.unit}" if snapshot.rate is None else ""
        parts.append(f"overall {figure(snapshot.overall)}{unit}")
    if snapshot.step is not None:
        parts.append(f"{figure(snapshot.step * 1e3)} ms a step")
    parts += [f"{clean(name)} {figure(value)}" for name, value in list(snapshot.values.items())[:4]]
    return "  " + " · ".join(parts) if parts else ""


def _regions(regions: dict[str, float]) -> str:
    """The line of the parts of a step, the largest first."""
    ordered = sorted(regions.items(), key=lambda item: -item[1])
    parts = [f"{clean(name)} {100 * share:.0f} %" for name, share in ordered[:7]]
    rest = 1 - sum(regions.values())
    if parts and rest > 0.005:
        parts.append(f"other {100 * rest:.0f} %")
    return "  " + " · ".join(parts) if parts else ""


def _task(row: TaskRow) -> str:
    parts = [f"{fit(row.task, 24):<24}", f"{row.steps:>9} steps"]
    parts.append(f"{figure(row.rate):>8} {row.unit}" if row.rate is not None else "")
    if row.overall is not None:
        parts.append(f"overall {figure(row.overall)}")
    if row.ranks > 1:
        parts.append(f"{row.ranks} ranks")
    parts.append("now" if row.active else "")
    return "  " + "  ".join(part for part in parts if part)


def who(row: RankRow) -> str:
    """The name of a row: ``rank 3``, or ``process 4711`` without a rank."""
    return rank_name(row.rank, row.pid)


def _rank(row: RankRow, unit: str) -> str:
    parts = [f"{who(row):<12}", f"{row.steps:>9} steps"]
    parts.append(f"{figure(row.rate):>8} {unit}" if row.rate is not None else " " * (9 + len(unit)))
    if row.step is not None:
        parts.append(f"{figure(row.step * 1e3):>7} ms")
    if row.loss is not None:
        parts.append(f"loss {figure(row.loss)}")
    state = row.state
    if row.attempt and state not in TROUBLE:
        state += f", restarted (attempt {row.attempt})"
    parts += [part for part in (row.device, clean(row.host), state) if part]
    return "  " + "  ".join(parts)


def _device(row: DeviceRow) -> str:
    parts = [f"device {row.number:<5}", clean(row.name)]
    if row.load is not None:
        parts.append(f"load {100 * row.load:.0f} %")
    if row.memory is not None and row.memory_total:
        parts.append(f"memory {row.memory / 1e9:.1f} of {row.memory_total / 1e9:.1f} GB")
    if row.temperature is not None:
        parts.append(f"{row.temperature:.0f} °C")
    if row.power is not None:
        parts.append(f"{row.power:.0f} W")
    if row.rate is not None:
        parts.append(f"{figure(row.rate)} {row.unit}")
    return "  " + "  ".join(parts)


def _host(row: HostRow) -> str:
    parts = [f"host {clean(row.host)}"]
    if row.cpu is not None:
        parts.append(f"cpu {100 * row.cpu:.0f} %")
    if row.memory is not None:
        parts.append(f"memory {100 * row.memory:.0f} %")
    if row.rss is not None:
        parts.append(f"the program {row.rss / 1e9:.2f} GB")
    return "  " + "  ".join(parts)
