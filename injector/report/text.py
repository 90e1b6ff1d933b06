"""Lines, columns and tables of a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from unicodedata import east_asian_width

from ..analysis.wording import (
    UNKNOWN,
    amount,
    clean,
    code_line,
    count,
    duration,
    figure,
    line_of,
    percent,
    rank_name,
    short,
)
from .output import piped, prose, room

__all__ = [
    "LIMIT",
    "UNKNOWN",
    "TimeUnit",
    "amount",
    "bar",
    "bullets",
    "clean",
    "code_line",
    "columns",
    "count",
    "crop",
    "duration",
    "escaped",
    "figure",
    "fit",
    "joined",
    "labelled",
    "left",
    "limited",
    "line_of",
    "percent",
    "rank_name",
    "right",
    "short",
    "table",
    "wrap",
    "wrapped",
]

LIMIT = 12
"""Rows of a table or list beyond which only their number is shown."""

_MARKDOWN = frozenset("\\`*_{}[]<>|#~$")
_WIDE = frozenset("WF")
_FULL = "█"
_PARTS = " ▏▎▍▌▋▊▉"


class TimeUnit:
    """One unit and one number of decimals for a column of seconds, so that its sums can be seen."""

    def __init__(self, largest: float) -> None:
        """``largest`` of the column's seconds decides."""
        size = abs(largest) if isfinite(largest) else 1.0
        self.name, self.scale = ("s", 1.0) if size >= 1 else ("ms", 1e3) if size >= 1e-3 else _MICRO
        size *= self.scale
        self.decimals = 0 if size >= 1e4 else 1 if size >= 100 else 2 if size >= 10 else 3

    def __call__(self, seconds: float) -> str:
        """``seconds`` as a number of this unit."""
        value = seconds * self.scale
        if not isfinite(value):
            return UNKNOWN
        return f"{value:.{self.decimals}f}" if abs(value) < 1e9 else f"{value:.2e}"


_MICRO = ("µs", 1e6)


def bar(share: float, width: int) -> str:
    """``share`` (0…1) of ``width`` columns, in eighths of one."""
    if not share > 0:  # NaN is none either
        return ""
    eighths = round(min(share, 1.0) * width * 8)
    return (_FULL * (eighths // 8) + _PARTS[eighths % 8]).rstrip()


# --- lines ----------------------------------------------------------------------------------------


def columns(text: str) -> int:
    """How many columns of a terminal ``text`` takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    # A combining mark takes none; to count one keeps lines short for those who count characters.
    return 2 if east_asian_width(character) in _WIDE else 1


def left(text: str, width: int) -> str:
    """``text`` and blanks to fill ``width`` columns."""
    return text + " " * (width - columns(text))


def right(text: str, width: int) -> str:
    """Blanks and ``text``, ``width`` columns together."""
    return " " * (width - columns(text)) + text


def crop(text: object, width: int) -> str:
    """``text`` in at most ``width`` columns; what is too long loses its end. In a pipe, all of it."""
    line = clean(text)
    if piped():
        width = max(width, room())
    return line if columns(line) <= width else f"{_head(line, width - 1)}…"[: max(width, 0)]


def fit(text: object, width: int) -> str:
    """``text`` in at most ``width`` columns; what is too long loses its middle. In a pipe, all of it."""
    line = clean(text)
    if piped():
        return crop(line, width)
    if columns(line) <= width:
        return line
    head = (width - 1) // 2
    return f"{_head(line, head)}…{_head(line[::-1], width - 1 - head)[::-1]}"


def _head(line: str, width: int) -> str:
    """As much of ``line`` as ``width`` columns hold."""
    for at, character in enumerate(line):
        width -= _columns(character)
        if width < 0:
            return line[:at]
    return line


def wrap(text: object, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` columns, broken between words."""
    lines: list[str] = []
    for word in clean(text).split():
        if lines and columns(lines[-1]) + 1 + columns(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(fit(word, width))
    return lines


def wrapped(text: object, indent: int = 0, hang: int = 4) -> list[str]:
    """``text`` in lines behind ``indent`` blanks, ``hang`` more from the second one on."""
    first, *rest = wrap(text, prose() - indent - hang) or [""]
    return [" " * indent + first, *(" " * (indent + hang) + line for line in rest)]


def joined(label: str, facts: Iterable[object], indent: int = 2) -> list[str]:
    """``label`` and ``facts`` with dots between them, on as many lines as that takes."""
    lines = [label]
    for number, fact in enumerate(crop(fact, room() - indent - 3) for fact in facts):
        dot = " · " if number else ""
        if number and columns(lines[-1]) + 3 + columns(fact) > prose():
            lines.append(" " * indent + fact)
        else:
            lines[-1] += dot + fact
    return lines


def labelled(label: str, texts: Iterable[object], indent: int = 2, width: int = 11) -> list[str]:
    """``texts``, wrapped, beside ``label``, which stands before the first line only."""
    found: list[str] = []
    for text in texts:
        for line in wrap(text, prose() - indent - width):
            found.append(" " * indent + left("" if found else label, width) + line)
    return found


def bullets(texts: Sequence[object]) -> list[str]:
    """Each of ``texts`` behind a dash, its first line wrapped; beyond :data:`LIMIT` only their number."""
    lines: list[str] = []
    for text in texts[:LIMIT]:
        first, *rest = str(text).splitlines() or [""]
        lines += [line.rstrip() for line in wrapped(f"- {first}", 2, 2)]
        lines += [f"      {fit(line, room() - 6)}" for line in rest]
    if len(texts) > LIMIT:
        lines.append(f"  … and {len(texts) - LIMIT} more")
    return lines


def table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    indent: int = 2,
    width: int = 0,
    least: int = 0,
) -> list[str]:
    """Lines of a table: the first column to the left under ``title``, the others to the right.

    None is longer than ``width`` columns (those that there are): notes that find no room beside the
    figures stand below them, and figures that find none go on in a second table of the same rows.

    A last head that is ``""`` or ends in ``":"`` marks a column of notes, to the left, which takes
    what room is left. The first column keeps ``least`` columns if it takes so many. Nothing if there
    are no rows; else an empty line follows.
    """
    if not rows:
        return []
    width = room() if piped() else width or room()
    noted = bool(heads) and (heads[-1] == "" or heads[-1].endswith(":"))
    notes = [heads[-1].rstrip(":"), *(clean(row[-1]) for row in rows)] if noted else []
    count = len(heads) - noted
    cells = [[head, *(row[at + 1] for row in rows)] for at, head in enumerate(heads[:count])]
    widths = [max(map(columns, column)) for column in cells]
    wanted = max(columns(title) - indent, *(columns(clean(row[0])) for row in rows))
    first = min(wanted, max(width * 2 // 5, 8 + indent, least + indent) - indent)
    figures = sum(widths) + 2 * len(widths)
    last = max(map(columns, notes), default=0)
    beside = width - indent - figures - 2
    kept = min(last, max(width // 5, 28))
    if noted and (beside - first) >= kept:
        first = min(wanted, beside - kept)  # notes give way before the first column
        below = False
    else:
        first = max(first, min(wanted, width - indent - figures))
        below = noted
    names = [left(crop(title, first + indent), first + indent)]
    names += [" " * indent + left(fit(row[0], first), first) for row in rows]
    label = f"{heads[-1]} " if notes and notes[0] else ""
    lines: list[str] = []
    for begin, end in _blocks(widths, width - indent - first):
        whole = [*zip(cells[begin:end], widths[begin:end], strict=True)]
        for at, name in enumerate(names):
            figured = [right(column[at], most) for column, most in whole]
            aside = (
                [crop(notes[at], width - columns(name) - figures - 2)]
                if notes and not below
                else []
            )
            lines.append(crop("  ".join([name, *figured, *aside]), width))
            if below and end == len(cells) and at and notes[at]:
                lines.append(crop(f"{_stem(name)}    {label}{notes[at]}", width))
    return [*lines, ""]


def _blocks(widths: Sequence[int], spare: int) -> list[tuple[int, int]]:
    """From which column to which one each of the tables goes whose columns fit ``spare`` together."""
    blocks, begin, used = [], 0, 0
    for at, width in enumerate(widths):
        if at > begin and used + 2 + width > spare:
            blocks.append((begin, at))
            begin, used = at, 0
        used += 2 + width
    return [*blocks, (begin, len(widths))]


def _stem(name: str) -> str:
    """The branches of a tree that go on below the row ``name``."""
    kept = name[: len(name) - len(name.lstrip(" │├└─"))]
    return kept.replace("├─", "│ ").replace("└─", "  ").rstrip() or kept[:2]


def limited(lines: list[str], rows: int) -> list[str]:
    """``lines`` of a table of :data:`LIMIT` rows, saying how many of its ``rows`` are left out."""
    if rows <= LIMIT:
        return lines
    return [*lines[:-1], f"  … and {rows - LIMIT} more", ""]


def escaped(text: str) -> str:
    """``text`` as Markdown shows it, whatever it holds."""
    return "".join(f"\\{sign}" if sign in _MARKDOWN else sign for sign in clean(text))
