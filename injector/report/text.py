"""Lines, columns and tables of a terminal.

A width is a number of columns, which differs from the number of characters where they are wide. Functions
that cut text (:func:`crop`, :func:`fit`) first make it one clean line (:func:`~..analysis.wording.clean`), as
names and messages come from programs and may hold anything.
"""

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
    "command_line",
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
    "scaled",
    "short",
    "size",
    "table",
    "wrap",
    "wrapped",
]

LIMIT = 12
"""The most rows of a table or list. Of more, their number is given."""

_MARKDOWN = frozenset("\\`*_{}[]<>|#~$")
"""Characters with a meaning in Markdown."""
_WIDE = frozenset("WF")
"""Classes of characters that take two columns."""
_FULL = "█"
_PARTS = " ▏▎▍▌▋▊▉"
"""A full column of a bar, and its eighths."""


class TimeUnit:
    """One unit and one number of decimals for a column of seconds, so that a reader can add them up."""

    def __init__(self, largest: float) -> None:
        """The unit for a column whose largest value is ``largest`` seconds."""
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


def size(count: float) -> str:
    """A number of bytes, such as ``812 kB`` or ``1.23 GB``."""
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return UNKNOWN


def scaled(value: float) -> str:
    """A number before a unit such as FLOP/s: ``1.2 T``."""
    for factor, sign in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{figure(value / factor)} {sign}"
    return f"{figure(value)} "


def bar(share: float, width: int) -> str:
    """A bar for ``share`` (0…1) of ``width`` columns, in steps of an eighth of a column."""
    if not share > 0:  # or NaN
        return ""
    eighths = round(min(share, 1.0) * width * 8)
    return (_FULL * (eighths // 8) + _PARTS[eighths % 8]).rstrip()


# --- lines ----------------------------------------------------------------------------------------


def columns(text: str) -> int:
    """The number of columns that ``text`` takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    """The number of columns that a character takes.

    A combining mark takes none, but counts as one: lines are then no longer where a program counts
    characters.
    """
    return 2 if east_asian_width(character) in _WIDE else 1


def left(text: str, width: int) -> str:
    """``text``, filled with blanks up to ``width`` columns."""
    return text + " " * (width - columns(text))


def right(text: str, width: int) -> str:
    """``text`` at the right end of ``width`` columns."""
    return " " * (width - columns(text)) + text


def command_line(words: Iterable[object]) -> str:
    """``words`` as one line that a shell divides into the same words; each is made one clean line."""
    return " ".join(map(_quoted, map(clean, map(str, words))))


def _quoted(word: str) -> str:
    # shlex does this too, but would import `re` in runs without steps. A backslash stands for a byte of a
    # name that is no text.
    if word and not any(letter.isspace() or letter in "'\"$`;&|<>()*?#!" for letter in word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def crop(text: object, width: int) -> str:
    """``text`` in at most ``width`` columns, cut at its end if it is too long. In a pipe it is not cut."""
    line = clean(text)
    if piped():
        width = max(width, room())
    return line if columns(line) <= width else f"{_head(line, width - 1)}…"[: max(width, 0)]


def fit(text: object, width: int) -> str:
    """``text`` in at most ``width`` columns, cut in its middle if it is too long. In a pipe it is not cut."""
    line = clean(text)
    if piped():
        return crop(line, width)
    if columns(line) <= width:
        return line
    head = (width - 1) // 2
    return f"{_head(line, head)}…{_head(line[::-1], width - 1 - head)[::-1]}"


def _head(line: str, width: int) -> str:
    """The beginning of ``line`` that fits ``width`` columns."""
    for at, character in enumerate(line):
        width -= _columns(character)
        if width < 0:
            return line[:at]
    return line


def wrap(text: object, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` columns, broken between words; longer words are cut."""
    lines: list[str] = []
    for word in clean(text).split():
        if lines and columns(lines[-1]) + 1 + columns(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(fit(word, width))
    return lines


def wrapped(text: object, indent: int = 0, hang: int = 4) -> list[str]:
    """``text`` in lines indented by ``indent`` columns, and by ``hang`` more from the second line on."""
    first, *rest = wrap(text, prose() - indent - hang) or [""]
    return [" " * indent + first, *(" " * (indent + hang) + line for line in rest)]


def joined(label: str, facts: Iterable[object], indent: int = 2) -> list[str]:
    """``label`` and then ``facts`` with dots between them, on as many lines as they take.

    From the second line on, they are indented by ``indent`` columns.
    """
    lines = [label]
    for number, fact in enumerate(crop(fact, room() - indent - 3) for fact in facts):
        dot = " · " if number else ""
        if number and columns(lines[-1]) + 3 + columns(fact) > prose():
            lines.append(" " * indent + fact)
        else:
            lines[-1] += dot + fact
    return lines


def labelled(label: str, texts: Iterable[object], indent: int = 2, width: int = 11) -> list[str]:
    """``texts``, wrapped, to the right of ``label``, which has ``width`` columns and is on the first line."""
    lines: list[str] = []
    for text in texts:
        for line in wrap(text, prose() - indent - width):
            lines.append(" " * indent + left("" if lines else label, width) + line)
    return lines


def bullets(texts: Sequence[object]) -> list[str]:
    """A list of ``texts`` with a dash each. The first line of a text is wrapped, further ones are cut. Beyond
    :data:`LIMIT` texts, their number is given.
    """
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
    """The lines of a table, with an empty line at the end; nothing if there are no rows.

    The first column, under ``title``, is aligned to the left, the others to the right. If the last of
    ``heads`` is ``""`` or ends in ``":"``, its column has notes: they are aligned to the left and take the
    room that is left.

    No line is longer than ``width`` columns (those of :func:`room` if 0). If there is no room for the notes,
    each stands below its row; if there is none for all figures, the rest of them follow in a second table of
    the same rows. The first column is cut to fit, but keeps ``least`` columns if it has so many.
    """
    if not rows:
        return []
    width = room() if piped() else width or room()
    has_notes = bool(heads) and (heads[-1] == "" or heads[-1].endswith(":"))
    notes = [heads[-1].rstrip(":"), *(clean(row[-1]) for row in rows)] if has_notes else []
    count = len(heads) - has_notes
    cells = [[head, *(row[at + 1] for row in rows)] for at, head in enumerate(heads[:count])]
    widths = [max(map(columns, column)) for column in cells]
    longest_name = max(columns(title) - indent, *(columns(clean(row[0])) for row in rows))
    figures = sum(widths) + 2 * len(widths)
    first, notes_below = _first_width(
        longest_name,
        max(width * 2 // 5, 8 + indent, least + indent) - indent,
        width - indent - figures,
        # Below a fifth, notes would be cut to a few words, and are better read below their rows.
        min(max(map(columns, notes)), max(width // 5, 28)) if notes else None,
    )
    names = [left(crop(title, first + indent), first + indent)]
    names += [" " * indent + left(fit(row[0], first), first) for row in rows]
    label = f"{heads[-1]} " if notes and notes[0] else ""
    lines: list[str] = []
    for begin, end in _blocks(widths, width - indent - first):
        block = [*zip(cells[begin:end], widths[begin:end], strict=True)]
        for at, name in enumerate(names):
            figures_of_row = [right(column[at], most) for column, most in block]
            if notes and not notes_below:
                figures_of_row.append(crop(notes[at], width - columns(name) - figures - 2))
            lines.append(crop("  ".join([name, *figures_of_row]), width))
            if notes_below and end == len(cells) and at and notes[at]:
                lines.append(crop(f"{_stem(name)}    {label}{notes[at]}", width))
    return [*lines, ""]


def _first_width(name: int, usual: int, spare: int, note: int | None) -> tuple[int, bool]:
    """How wide the first column of a table is, and whether notes stand below their rows.

    ``name`` is the longest of its cells, ``usual`` what it gets at most if others need room, ``spare`` what
    the figures leave, ``note`` the least room of notes; None without any.
    """
    first = min(name, usual)
    if note is not None and spare - 2 - first >= note:
        # Notes are cut before names: a name that is cut is not found any more.
        return min(name, spare - 2 - note), False
    return max(first, min(name, spare)), note is not None


def _blocks(widths: Sequence[int], spare: int) -> list[tuple[int, int]]:
    """The ranges of columns that fit into ``spare`` columns of the terminal together, one for each table."""
    blocks, begin, used = [], 0, 0
    for at, width in enumerate(widths):
        if at > begin and used + 2 + width > spare:
            blocks.append((begin, at))
            begin, used = at, 0
        used += 2 + width
    return [*blocks, (begin, len(widths))]


def _stem(name: str) -> str:
    """The branches of a tree that go on below the row ``name``, for the note below it."""
    kept = name[: len(name) - len(name.lstrip(" │├└─"))]
    return kept.replace("├─", "│ ").replace("└─", "  ").rstrip() or kept[:2]


def limited(lines: list[str], rows: int) -> list[str]:
    """``lines`` of a table that shows :data:`LIMIT` of ``rows`` rows, and how many are left out."""
    if rows <= LIMIT:
        return lines
    return [*lines[:-1], f"  … and {rows - LIMIT} more", ""]


def escaped(text: str) -> str:
    """``text`` in Markdown, shown as it is, whatever it holds."""
    return "".join(f"\\{sign}" if sign in _MARKDOWN else sign for sign in clean(text))
