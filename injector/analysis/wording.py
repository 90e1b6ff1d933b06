"""Numbers, durations and lines of the program in words, for sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import isfinite

from .profile import SourceLine

UNKNOWN = "–"
"""Stands for a number that is infinite or not known."""
_PACKAGES = ("/site-packages/", "/dist-packages/")
"""Folders of installed libraries."""


def figure(value: float) -> str:
    """``value`` with four significant digits."""
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e7 or size < 1e-4:
        return f"{value:.3e}"
    decimals = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3
    return f"{value:.{decimals}f}" if size >= 0.1 else f"{value:.4g}"


def amount(value: float) -> str:
    """``value`` as :func:`figure`, without decimals if it is whole."""
    return f"{value:.0f}" if abs(value) < 1e7 and value == round(value) else figure(value)


def duration(seconds: float) -> str:
    """``seconds`` as ``71 µs``, ``812 ms``, ``12.3 s``, ``4 min 05 s``, ``2 h 07 min`` or ``5 d 03 h``."""
    if not isfinite(seconds):
        return UNKNOWN
    if 0 < seconds < 0.9995e-3:
        return f"{seconds * 1e6:.0f} µs"
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
    """``seconds`` with four significant digits, below a minute: ``20.31 ms``, ``71.20 µs``."""
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


def whole_percent(share: float) -> str:
    """A fraction as ``64 %``."""
    return f"{100 * share:.0f} %"


def rough(seconds: float) -> str:
    """``seconds`` with three significant digits: ``312 s``, ``8.1 s``, ``20.3 ms``, ``71.2 µs``."""
    if seconds >= 1:
        return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.1f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds * 1e3 >= 1 else f"{seconds * 1e6:.3g} µs"


def count(number: int, thing: str) -> str:
    """The number with its noun: ``1 process``, ``2 processes``, ``3 records``, ``5 studies``."""
    if number == 1:
        return f"1 {thing}"
    if thing.endswith("y"):
        return f"{number} {thing[:-1]}ies"
    return f"{number} {thing}{'es' if thing.endswith(('s', 'tch')) else 's'}"


def leading(texts: Sequence[object], most: int) -> str:
    """``a, b, …`` of three, where ``most`` is 2."""
    return ", ".join(map(str, texts[:most])) + (", …" if len(texts) > most else "")


def some(texts: Sequence[str], most: int, between: str = ", ") -> str:
    """``a, b and 3 more`` of five, where ``most`` is 2."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return between.join(texts[:most]) + more


def rank_name(rank: object, process: object) -> str:
    """``rank 3``; ``process 4711`` if it has no rank."""
    return f"process {process}" if rank is None else f"rank {rank}"


def device_name(host: str, number: str, hosts: Set[str]) -> str:
    """The device ``number`` of ``host``: ``3``, or ``node7 3`` if there are several ``hosts``."""
    return f"{host} {number}" if len(hosts) > 1 else number


def signal_name(number: int) -> str:
    """``SIGKILL``; ``signal 99`` if it has no name."""
    try:
        from signal import Signals  # with enum, which few reports need

        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def clean(text: object) -> str:
    r"""``text`` on one line, without control characters that a terminal would act on.

    Bytes of a file name that are no text are shown as ``\xe9``.
    """
    return "".join(c if c.isprintable() else _hidden(ord(c)) for c in str(text)).rstrip()


def _hidden(code: int) -> str:
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else " "


def line_of(place: SourceLine | None, unknown: str = "") -> str:
    """``train.py:31``, or of a library the path from the package on; ``unknown`` without a place."""
    if place is None:
        return unknown
    path = place.file.replace("\\", "/")
    for folder in _PACKAGES:
        _, found, rest = path.rpartition(folder)
        if found:
            return f"{clean(rest)}:{place.line}"
    return f"{clean(path.rpartition('/')[2])}:{place.line}"


def code_line(place: SourceLine | None) -> str:
    """``train.py:31  for x, y in loader:``."""
    if place is None:
        return ""
    text = clean(place.text).strip()
    if text.endswith((",", "(", "[", "{")):
        text += " …"  # the statement goes on
    return f"{line_of(place)}  {text}" if text else line_of(place)
