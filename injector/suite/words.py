"""Sentences about words that nobody knows, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MANY = 12
"""More words than this are not worth listing."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that ``word`` was most likely meant to be."""
    words = [each for each in known if isinstance(each, str)]
    lower = {each.lower(): each for each in reversed(words)}
    if near := get_close_matches(word.lower(), lower, 1):
        return lower[near[0]]
    return next((each for each in words if word and word.lower() in each.lower()), None)


def meant(word: str, known: Iterable[str]) -> str:
    """``; did you mean X?``, or what there is, or nothing where there is nothing."""
    words = list(dict.fromkeys(known))
    near = nearest(word, words)
    if near is not None:
        return f"; did you mean {near}?"
    if not words:
        return ""
    shown = ", ".join(words[:MANY]) + (", …" if len(words) > MANY else "")
    return f" (there {'is' if len(words) == 1 else 'are'} {shown})"


def kind(value: object) -> str:
    """What a YAML value is, for somebody who writes YAML."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        shown = value if len(value) <= 40 else value[:37] + "…"
        return f"the text {shown!r}"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a map"
    return f"a {type(value).__name__}"
