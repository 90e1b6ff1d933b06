"""From filled settings to a program's command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .problems import Mistake, Path, kind

Note = Callable[[Path, str], None]
"""Is called with the place of a mistake, and what it is."""

PARTS = ("argv", "server", "client")
"""The keys that arguments come from."""


def render_args(settings: Mapping[str, Any], note: Note) -> list[str]:
    """The arguments of filled settings; those of a server and its client with -- between."""
    if settings.get("argv") or not settings.get("client"):
        return _words(settings.get("argv"), ("argv",), note)
    server, client = (
        _words((settings.get(key) or {}).get("argv"), (key, "argv"), note) for key in PARTS[1:]
    )
    return [*server, "--", *client]


def _words(argv: Any, path: Path, note: Note) -> list[str]:
    """A command line of ``argv``, in which nothing is a template any more.

    Of a map: keys that are true and begin with no dash come first, as positional arguments; then
    the others in their order. Null drops a key, true makes it bare, a list is joined by commas,
    and what stands under ``--`` is put in as it is.
    """
    if not isinstance(argv, dict):
        return [_word(each, (*path, index), note) for index, each in enumerate(argv or ())]
    positional: list[str] = []
    options: list[str] = []
    for key, value in argv.items():
        if value is None:
            continue
        if value is True:
            (options if key.startswith("-") else positional).append(key)
        elif key == "--":
            several = value if isinstance(value, list) else [value]
            options += [_word(each, (*path, key, i), note) for i, each in enumerate(several)]
        else:
            options += [key, _word(value, (*path, key), note)]
    return positional + options


def _word(value: Any, path: Path, note: Note) -> str:
    if value is False or isinstance(value, dict):
        note(
            path, f"{kind(value)} is no argument; null drops it, and 'false' in quotes is the word"
        )
        return ""
    try:
        return as_text(value)
    except Mistake as error:
        note(path, str(error))
        return ""


def as_text(value: Any) -> str:
    """A value inside a text; raises Mistake for null and maps, which have no such form."""
    if type(value) is int:
        return str(value)
    if value is None or isinstance(value, dict):
        raise Mistake(f"{'null' if value is None else 'a map'} cannot stand inside a text")
    if isinstance(value, list):
        return ",".join(map(as_text, value))
    return str(value)
