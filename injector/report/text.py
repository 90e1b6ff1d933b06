"""Numbers, durations and columns as text of a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from unicodedata import east_asian_width

WIDTH = 100
"""Columns that no line exceeds."""
LIMIT = 12
"""Rows of a table or list beyond which only their number is said."""
UNKNOWN = "–"

_WIDE = frozenset("WF")
_FULL = "█"
_PARTS = " ▏▎▍▌▋▊▉"


# --- numbers --------------------------------------------------------------------------------------


def figure(value: float) -> str:
    """``value`` with four digits that matter."""
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e7 or size < 1e-4:
        return f"{value:.3e}"
    decimals = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3
    return f"{value:.{decimals}f}" if size >= 0.1 else f"{value:.4g}"


def amount(value: float) -> str:
    """``value`` as :func:`figure`, without decimals where it has none."""
    return f"{value:.0f}" if abs(value) < 1e7 and value == round(value) else figure(value)


def duration(seconds: float) -> str:
    """``seconds`` as ``812 ms``, ``12.3 s``, ``4 min 05 s``, ``2 h 07 min`` or ``5 d 03 h``."""
    if not isfinite(seconds):
        return UNKNOWN
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600:02d} h" if whole < 1e12 else UNKNOWN


def short(seconds: float) -> str:
    """``seconds`` with four digits that matter, below a minute: ``20.31 ms``, ``71.20 µs``."""
    if not isfinite(seconds) or abs(seconds) >= 60:
        return duration(seconds)
    if abs(seconds) >= 1:
        return f"{figure(seconds)} s"
    if abs(seconds) >= 1e-3 or seconds == 0:
        return f"{figure(seconds * 1e3)} ms"
    return f"{figure(seconds * 1e6)} µs"


def percent(share: float) -> str:
    """A fraction as ``64.1 %``."""
    return f"{share * 100:.1f} %" if abs(share) < 1e4 else UNKNOWN


def count(number: int, thing: str) -> str:
    """``1 process``, ``2 processes``, ``3 records``, ``4 batches``."""
    if number == 1:
        return f"1 {thing}"
    return f"{number} {thing}{'es' if thing.endswith(('s', 'ch')) else 's'}"


class Unit:
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


def clean(text: object) -> str:
    """``text`` on one line, without anything that a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in str(text)).rstrip()


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
    """``text`` in at most ``width`` columns; what is too long loses its end."""
    line = clean(text)
    return line if columns(line) <= width else f"{_head(line, width - 1)}…"[: max(width, 0)]


def fit(text: object, width: int) -> str:
    """``text`` in at most ``width`` columns; what is too long loses its middle."""
    line = clean(text)
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


def labelled(label: str, texts: Iterable[object], indent: int = 2, width: int = 11) -> list[str]:
    """``texts``, wrapped, beside ``label``, which stands before the first line only."""
    found: list[str] = []
    for text in texts:
        for line in wrap(text, WIDTH - indent - width):
            found.append(" " * indent + left("" if found else label, width) + line)
    return found


def bullets(texts: Sequence[object]) -> list[str]:
    """Each of ``texts`` wrapped behind a dash; beyond :data:`LIMIT` only their number."""
    lines: list[str] = []
    for text in texts[:LIMIT]:
        first, *rest = wrap(text, WIDTH - 4) or [""]
        lines += [f"  - {first}".rstrip(), *(f"    {line}" for line in rest)]
    if len(texts) > LIMIT:
        lines.append(f"  … and {len(texts) - LIMIT} more")
    return lines


def table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    indent: int = 2,
    width: int = WIDTH,
) -> list[str]:
    """Lines of a table: the first column to the left under ``title``, the others to the right.

    None is longer than ``width`` columns.

    A last head that is ``""`` or ends in ``":"`` marks a column of notes, to the left, which takes
    what room is left. Nothing if there are no rows; else an empty line follows.
    """
    if not rows:
        return []
    notes = bool(heads) and (heads[-1] == "" or heads[-1].endswith(":"))
    shown = [*heads[:-1], heads[-1].rstrip(":")] if notes else list(heads)
    cells = list(zip(shown, *(row[1:] for row in rows), strict=True))
    widths = [max(map(columns, column)) for column in cells]
    last = widths.pop() if notes else 0
    gaps = 2 * (len(widths) + notes)
    wanted = max(columns(title) - indent, *(columns(clean(row[0])) for row in rows))
    # The notes give way first, but keep a fifth of the line; then the first column.
    room = width - indent - sum(widths) - gaps - min(last, width // 5)
    first = min(wanted, max(room, 8))
    spare = max(width - indent - first - sum(widths) - gaps, 0)
    begin = left(crop(title, first + indent), first + indent)
    lines = [_row(begin, shown, widths, notes, spare, width)]
    for row in rows:
        begin = " " * indent + left(fit(row[0], first), first)
        lines.append(_row(begin, row[1:], widths, notes, spare, width))
    return [*lines, ""]


def limited(lines: list[str], rows: int) -> list[str]:
    """``lines`` of a table of :data:`LIMIT` rows, saying how many of its ``rows`` are left out."""
    if rows <= LIMIT:
        return lines
    return [*lines[:-1], f"  … and {rows - LIMIT} more", ""]


def encodable(text: str, encoding: str | None) -> str:
    """``text`` as far as a stream of ``encoding`` can show it, its signs as the nearest in ASCII."""
    try:
        text.encode(encoding or "ascii")
    except UnicodeError:
        text = text.translate(_ASCII).encode("ascii", "backslashreplace").decode()
    except LookupError:
        pass
    return text


_ASCII = str.maketrans(
    {"█": "#", "·": "-", "–": "-", "…": "~", "µ": "u", "├": "|", "└": "`", "│": "|", "─": "-"}
    | dict.fromkeys(_PARTS[1:], " ")
)


def _row(
    begin: str, cells: Sequence[str], widths: Sequence[int], notes: bool, spare: int, width: int
) -> str:
    figures = [right(cell, most) for cell, most in zip(cells, widths, strict=False)]
    if notes:
        figures.append(crop(cells[-1], spare))
    return crop("  ".join([begin, *figures]), width)
