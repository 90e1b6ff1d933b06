"""Lines of the program, as the report names them."""

from __future__ import annotations

from ..analysis.profile import Place
from .text import clean

_PACKAGES = ("/site-packages/", "/dist-packages/")


def at(place: Place | None) -> str:
    """``train.py:31``; of a library, its path within the installed packages."""
    if place is None:
        return ""
    return f"{file_name(place.file)}:{place.line}"


def file_name(path: str) -> str:
    """The last part of ``path``; from the package on for a file that is installed."""
    path = path.replace("\\", "/")
    for folder in _PACKAGES:
        _, found, rest = path.rpartition(folder)
        if found:
            return clean(rest)
    return clean(path.rpartition("/")[2])


def line(place: Place | None) -> str:
    """``train.py:31  for x, y in loader:``."""
    if place is None:
        return ""
    text = clean(place.text).strip()
    if text.endswith((",", "(", "[", "{")):
        text += " …"  # the statement goes on
    return f"{at(place)}  {text}" if text else at(place)
