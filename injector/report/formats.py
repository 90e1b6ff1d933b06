"""Data for other programs: a summary as JSON or CSV; any table as text, CSV, JSON or Parquet; lists of runs.

A table is a mapping of names to columns of equal length. Files are written in one step, so that a reader
never sees half of one.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ..analysis.profile import Percentiles, Profile, SourceLine
from ..analysis.runs import Listed
from ..analysis.summary import Summary
from ..analysis.training_loop import Node
from ..analysis.wording import signal_name
from ..errors import UserError
from ..json_types import plain
from ..store.place import replace_file
from ..value_class import fields
from . import studies
from .output import ENDLESS, laid_out, room, show
from .text import clean, columns, crop, duration, table

FORMATS = ("table", "csv", "json", "parquet")
GZIP = ".gz"
WIDEST = 80
"""The most columns of a cell in a table as text."""


def write(columns: Mapping[str, Sequence[Any]], form: str, output: str | None = None) -> None:
    """Write ``columns`` of equal length in the form ``form`` to the file ``output``, or to stdout.

    Raises UserError if the file cannot be written, and of Parquet without a file, or without pyarrow.
    """
    if form == "parquet":
        _write_parquet(columns, output)
        return
    make = {"table": as_table, "csv": as_csv, "json": as_json}[form]
    if output is None:
        show(lambda: make(columns), sys.stdout, colors=False)
        return
    with laid_out(ENDLESS):
        write_file(output, make(columns).encode("utf-8", "surrogateescape"))


def as_table(columns: Mapping[str, Sequence[Any]]) -> str:
    """``columns`` as aligned text with a line of names. Columns of numbers are aligned to the right."""
    names = list(columns)
    rows = list(zip(*columns.values(), strict=True))
    numeric = [
        all(_is_number(row[at]) or row[at] is None for row in rows) for at in range(len(names))
    ]
    cells = [names, *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(names))]
    return "".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        + "\n"
        for row in cells
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    """A value as text for a reader; empty for None."""
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) and abs(value) < 1e9 else str(value)
    return crop(text, WIDEST)


def as_csv(columns: Mapping[str, Sequence[Any]]) -> str:
    """``columns`` as CSV (RFC 4180) with a line of names. None is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue()


def as_json(columns: Mapping[str, Sequence[Any]]) -> str:
    """``columns`` as a JSON list with an object for each row, each on a line."""
    rows = (
        dict(zip(columns, map(plain, row), strict=True))
        for row in zip(*columns.values(), strict=True)
    )
    lines = [json.dumps(row, default=str) for row in rows]
    return "[" + ",\n ".join(lines) + "]\n"


def _write_parquet(columns: Mapping[str, Sequence[Any]], output: str | None) -> None:
    if output is None:
        raise UserError("--format parquet needs a file to write: --output FILE")
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError("Parquet needs pyarrow: pip install 'overlay-injector[query]'") from None
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(dict(columns)), sink)
    write_file(output, sink.getvalue())


def write_file(path: str, content: bytes) -> None:
    """Write the file ``path`` in one step, compressed if its name ends in ``.gz``. Raises UserError."""
    if path.lower().endswith(GZIP):
        # Without the time, equal content gives equal files.
        content = gzip.compress(content, mtime=0)
    try:
        # A device or a pipe, such as /dev/stdout, cannot be replaced by a file.
        if not path or (os.path.exists(path) and not os.path.isfile(path)):
            with open(path, "wb") as file:
                file.write(content)
        else:
            replace_file(os.path.realpath(path), [content])
    except OSError as error:
        raise UserError(f"--output {path or repr(path)}: {error.strerror or error}") from None


def summary_as_json(summary: Summary) -> str:
    """``summary`` as JSON, in seconds, bytes, fractions and rates per second.

    Floats that JSON does not have are ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, as in ``.data`` files.
    """
    return json.dumps(plain(summary), indent=1) + "\n"


def summary_as_csv(summary: Summary) -> str:
    """All tables of ``summary`` as one CSV, whose column ``table`` names the table of each row.

    Units are seconds, bytes and fractions. The columns of the table ``steps`` are always there, those of
    other tables if these have rows.
    """
    names = ("table", "task", "job", "attempt", "depth", "region", "file", "line", "what", "median", "mean",
             "p95", "std", "min", "max", "share", "calls", "device", "bytes")  # fmt: skip
    rows = list(_csv_rows(summary.profile)) if summary.profile else []
    every = dict.fromkeys(chain(names, *rows))
    return as_csv({name: [row.get(name) for row in rows] for name in every})


def _csv_rows(profile: Profile) -> Iterator[dict[str, Any]]:
    """The rows of all tables, each as its filled columns."""
    for loop in profile.loops:
        identity = {"task": loop.task, "job": loop.job, "attempt": loop.attempt}
        for row in _nodes(loop.tree, 0):
            yield {"table": "steps", **identity, **row}
        for epoch in loop.epochs:
            yield {"table": "epochs", **identity, **_flat(epoch)}
            for loss in epoch.losses:
                yield {"table": "losses", **identity, "number": epoch.number, **_flat(loss)}
    tables: dict[str, Sequence[Any]] = {
        "evaluations": profile.evaluations,
        "latencies": profile.latencies,
        "layers": profile.layers,
        "memory": profile.memory,
        "models": profile.models,
    }
    for name, entries in tables.items():
        for entry in entries:
            yield {"table": name, **_flat(entry)}
    yield from studies.csv_rows(profile.studies)


def _flat(entry: Any) -> dict[str, Any]:
    """The fields of an object of the analysis as columns. Percentiles have one each (``batch.p50``), a place
    two; lists are left out.
    """
    row: dict[str, Any] = {}
    for name in fields(entry):
        value = getattr(entry, name)
        if isinstance(value, SourceLine):
            row.update(file=value.file, line=value.line)
        elif isinstance(value, Percentiles):
            row.update({f"{name}.{key}": part for key, part in _flat(value).items()})
        elif value is None or isinstance(value, (int, float, str)):
            row[name] = value
    return row


def _nodes(node: Node, depth: int) -> Iterator[dict[str, Any]]:
    """The rows of a step or a region and of all regions within it."""
    place, host = node.place, node.host
    yield {
        "depth": depth,
        "region": node.name,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "what": node.what,
        "median": host.median,
        "mean": host.mean,
        "p95": host.p95,
        "std": host.std,
        "min": host.min,
        "max": host.max,
        "share": node.share,
        "calls": node.calls,
        "device": node.device.median if node.device else None,
        "bytes": node.nbytes,
    }
    for child in node.children:
        yield from _nodes(child, depth + 1)


_FIGURES = 16
"""The columns of a list of runs that are left for figures beside the longest name."""
_TAGS = 40
"""The most columns of the tags of a run in a list."""
HEADS = ("run", "started", "took", "exit", "processes", "lost", "verdict")


def runs(runs: Sequence[Listed], now: float | None = None) -> list[str]:
    """A table of ``runs``, at ``now`` in unix seconds. The last column has the verdict, or what broke."""
    now = time.time() if now is None else now
    rows = [_row(run, now) for run in runs]
    # Names are cut last of all, so that they can be pasted.
    least = min(max((columns(row[0]) for row in rows), default=0), room() - _FIGURES)
    title, *heads = HEADS
    if any(run.tags for run in runs):
        heads.insert(-1, "tags")
        rows = [(*row[:-1], _tags(run), row[-1]) for run, row in zip(runs, rows, strict=True)]
    lines = table(title, [*heads[:-1], f"{heads[-1]}:"], rows, indent=0, least=least)
    return lines[:-1] or ["  ".join(HEADS)]


def _row(run: Listed, now: float) -> tuple[str, ...]:
    return (
        clean(run.run),
        ago(now - run.started) if run.started is not None else "",
        duration(run.duration) if run.duration is not None else "",
        _exit_of(run),
        "" if run.processes is None else str(run.processes),
        str(run.lost) if run.lost else "",
        clean(run.problem or ", ".join(filter(None, (run.broken, run.verdict)))),
    )


def _tags(run: Listed) -> str:
    tags = json.loads(run.tags or "{}")
    return crop(clean(" ".join(f"{key}={value}" for key, value in tags.items())), _TAGS)


def _exit_of(run: Listed) -> str:
    """How a run ended: its exit code, a signal, ``stopped``, or ``?`` if unknown."""
    if run.exit is None:
        return "?"
    if run.exit < 0:
        return signal_name(-run.exit)
    return "stopped" if run.stopped and run.exit == 0 else str(run.exit)


def ago(seconds: float) -> str:
    """A duration as the words for a moment in the past, such as ``3 min ago`` or ``5 days ago``."""
    if seconds < 60:
        return "just now"
    for limit, size, unit in ((3600, 60, "min"), (86_400, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds // size)} {unit} ago"
    days = int(seconds // 86_400)
    return f"{days} day{'s' * (days != 1)} ago"
