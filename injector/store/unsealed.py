"""The parts of a run without a seal that make sense. Such a run was not collected, as its supervisor died.

Nothing says what its files were, so they are judged by themselves and by each other. Lines that are no
records, spans that end before they begin or whose call site no log describes, and values at impossible times
are left out and named. A file must end where its writer can have ended it: mapped files are allocated in
chunks of known sizes, and only the last line of a log can be torn by the death of its process.
"""

from __future__ import annotations

import errno
import os
from typing import Any

from ..errors import UserError
from . import series, spans
from .event import LOG
from .logs import LONGEST, parse
from .mapped import HEADER, TITLE, ends
from .record_shapes import HIGHEST, makes_sense
from .seal import LINES, names, stem_of

_FARTHEST = 1_000 * 86_400 * 10**9
"""The most nanoseconds between a record or a span and the beginning of its process: a thousand days."""
_AHEAD = 1 << 24
"""The most bytes that a log is longer than its content: more than a writer's largest window."""
_AT_ONCE = 1 << 20
"""Bytes of spans that are read at once, a multiple of a row."""


def salvage_unsealed(folder: str, into: str) -> list[str]:
    """Put into the folder ``into`` what makes sense of ``raw/`` of the run in ``folder``.

    Files without problems are links; of others there are copies of what makes sense, or nothing. Returns the
    problems as sentences. Raises OSError.
    """
    os.mkdir(os.path.join(into, "raw"))
    logs: dict[str, _LogFacts] = {}
    problems: list[str] = []
    raw = [name for name in names(folder) if name.startswith("raw")]
    # Logs first: the other files of a process are judged by its log.
    for name in sorted(raw, key=lambda name: not name.endswith(LOG)):
        path, target = os.path.join(folder, name), os.path.join(into, name)
        stem = stem_of(name)
        try:
            if name.endswith(LINES):
                logs[name] = _LogFacts()
                flaw = _salvage_lines(path, target, logs[name])
            elif stem + LOG not in logs:
                flaw = f"the log of its process, {stem}.log, is missing"
            elif name.endswith(spans.SUFFIX):
                flaw = _salvage_spans(path, target, logs[stem + LOG])
            elif name.endswith(spans.PACKED):
                flaw = _flaw_of_packed(path, logs[stem + LOG])
            elif name.endswith(series.SUFFIX):
                flaw = _salvage_values(path, target)
            else:
                flaw = ""
        except OSError as error:
            flaw = f"cannot be read: {error.strerror or error}"
        if flaw:
            problems.append(f"{name}: {flaw}")
        elif not os.path.exists(target):
            os.symlink(os.path.abspath(path), target)
    return problems + [
        f"{stem_of(name)}{spans.SUFFIX} is missing"
        for name, log in logs.items()
        if log.sites and not any(other.startswith(stem_of(name) + spans.SUFFIX) for other in raw)
    ]


class _LogFacts:
    """The facts in the log of a process by which its other files are judged."""

    def __init__(self) -> None:
        self.began = 0
        """When it began, nanoseconds of the monotonic clock; 0 before its event ``process`` was read."""
        self.sites: set[int] = set()
        """The numbers of its call sites."""

    def impossible(self, rows: Any) -> Any:
        """Which ``rows`` of spans, (n, 4), have impossible times or unknown call sites, as (n,) bool."""
        import numpy as np

        low, high = max(0, self.began - _FARTHEST), min(HIGHEST, self.began + _FARTHEST)
        known = np.zeros(2 + max(self.sites, default=0), np.bool_)
        known[[0, *self.sites]] = True
        start, end, payload, site = rows.T
        fine = (low <= start) & (start <= end) & (end < high) & (payload >= 0)
        # A number beyond the table is clipped to the last entry, which stands for no call site.
        fine &= known[np.clip(site, 0, len(known) - 1)] & (site >= 0)
        return (site != 0) & ~fine  # a row of site 0 was never written


def _salvage_lines(path: str, target: str, log: _LogFacts) -> str:
    """Copy the lines of ``path`` that are records to ``target``, and fill ``log``.

    Returns what is wrong with the file, or nothing; without problems there is no copy. Raises OSError.
    """
    kept, torn, odd, ended, used = 0, 0, 0, False, _used(path)
    with open(path, "rb") as file, open(target, "wb") as out:
        while file.tell() < used and (line := file.readline(LONGEST)):
            text = line.strip(b"\0 \t\r\n")
            if not text:
                continue
            record = parse(text)
            if record is None:
                torn += 1
                continue
            # A killed process tears its last line only, so torn lines before this record are damage.
            odd, torn = odd + torn, 0
            if not makes_sense(record) or not _note(record, log):
                odd += 1
                continue
            ended = record["event"] == "end"
            out.write(text + b"\n")
            kept += 1
        if torn and ended:  # it was not killed: it wrote its last record
            odd += torn
    from shutil import copystat  # 2 ms, which hardly any run needs

    # The copy stands in the place of the file, and has its times as well.
    copystat(path, target)
    if odd:
        lines = "1 line is no record" if odd == 1 else f"{odd} lines are no records"
        return f"{lines} and left out" + ("" if kept else "; nothing is left")
    if os.path.getsize(path) - used > _AHEAD:
        return "it is longer than its process can have made it"
    # A file that its process has not closed ends with a page.
    if torn and os.path.getsize(path) % 4096:
        return "its end is missing, in the middle of a record"
    os.unlink(target)
    return ""


def _note(record: dict[str, Any], log: _LogFacts) -> bool:
    """Note in ``log`` what ``record`` says of its process.

    Returns whether the record can stand where it does: after the event ``process``, and near it in time.
    """
    if record["event"] == "process":
        log.began = record["data"]["monotonic_ns"]
    elif not log.began or abs(record["t"] - log.began) > _FARTHEST:
        return False
    elif record["event"] == "site":
        log.sites.add(record["data"]["site"])
    return True


def _salvage_spans(path: str, target: str, log: _LogFacts) -> str:
    """Copy the spans of ``path`` that are possible by ``log`` to ``target``. As :func:`_salvage_lines`."""
    import numpy as np

    size, odd = os.path.getsize(path), 0
    if not size:
        return "it is empty"
    used = _used(path)
    with open(path, "rb") as file:
        header = file.read(HEADER)
    with open(target, "wb") as out:
        out.write(header.ljust(HEADER, b"\0"))
        for content in spans.blocks(path, _AT_ONCE, used):
            rows = np.frombuffer(content, np.int64).reshape(-1, len(spans.COLUMNS)).copy()
            impossible = log.impossible(rows)
            rows[impossible] = 0  # as if they had never been written
            odd += int(impossible.sum())
            out.write(rows.tobytes())
    problems = _problems_of_mapped(header, "spans", spans.LARGEST, size)
    if odd:
        problems.append(f"{odd} of its spans make no sense and are left out")
    return _joined(problems, target)


def _flaw_of_packed(path: str, log: _LogFacts) -> str:
    """What is wrong with a packed file of spans, or nothing. It cannot be kept in part. Raises OSError."""
    try:
        odd = sum(
            int(log.impossible(block).sum()) for block in spans.arrays(stem_of(path) + spans.SUFFIX)
        )
    except UserError:  # pyarrow is not installed, so that no reader will read the file either
        return ""
    except ValueError:  # the errors of pyarrow are subclasses
        return "it is no Parquet file of spans"
    return f"{odd} of its spans make no sense, and all are left out" if odd else ""


def _salvage_values(path: str, target: str) -> str:
    """Copy the values of ``path`` with possible times to ``target``. As :func:`_salvage_lines`."""
    import numpy as np

    size, odd, before, used = os.path.getsize(path), 0, HEADER, _used(path)
    if not size:
        return "it is empty"
    with open(path, "rb") as file, open(target, "wb") as out:
        header = file.read(HEADER)
        out.write(header)
        for end in ends(size, series.LARGEST):
            if before >= used:
                break
            # Each chunk holds all its times, then all its values. A time of 0 says that there is no value.
            content = file.read(end - before)
            half = len(content) // 16 * 8
            times = np.frombuffer(content[:half], np.float64).copy()
            impossible = ~((times >= 0) & (times < HIGHEST / 1e9))
            times[impossible] = 0.0
            odd += int(impossible.sum())
            out.write(times.tobytes() + content[half:])
            before = end
    problems = _problems_of_mapped(header, "series", series.LARGEST, size)
    if odd:
        problems.append(f"{odd} of its values have times that cannot be and are left out")
    return _joined(problems, target)


def _used(path: str) -> int:
    """The offset after the last data of a file. What follows was allocated and never written: a hole, which
    need not be read. Raises OSError.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = 0
        while True:
            end = os.lseek(fd, os.lseek(fd, end, os.SEEK_DATA), os.SEEK_HOLE)
    except OSError as error:
        # ENXIO: there are no more data. Otherwise the file system cannot seek for them.
        return end if error.errno == errno.ENXIO else os.fstat(fd).st_size
    finally:
        os.close(fd)


def _problems_of_mapped(header: bytes, event: str, largest: int, size: int) -> list[str]:
    """What is wrong with the title and the size of a mapped file. ``largest``: bytes of its largest chunk."""
    record = parse(header[:TITLE].rstrip(b"\0 \n"))
    problems = []
    if record is None or record["event"] != event:
        problems.append("its first line does not say what it is")
    if size not in ends(size, largest):
        problems.append(
            "it does not end where such a file ends: it was cut, or something was added"
        )
    return problems


def _joined(problems: list[str], target: str) -> str:
    """``problems`` in one line. Without any, the copy ``target`` is removed, as a link will do."""
    if not problems:
        os.unlink(target)
    return "; ".join(problems)
