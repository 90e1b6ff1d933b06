"""Texts with placeholders, as ``{name}``, ``${a * 2}``, ``{n:03d}``, ``auto({n}, 8)``; command lines of them.

A brace starts a placeholder where a name, a dot or a bracket follows it; any other brace, as in
JSON, is itself. ``{{`` and its ``}}`` are one brace each. A text that is one placeholder and
nothing else has that placeholder's value, whatever its type.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from .expressions import Expression, Names, Reference, compiled, number
from .problems import Mistake, Note, Path, kind

_STARTS = re.compile(r"\$?\{\s*(?:--)?[A-Za-z_.($]|\$\{")
_BRACE = re.compile(r"\$?\{|\}\}")
_CALL = re.compile(r"(?P<head>[^=]*=)?(?P<call>(?:auto|auto_batch|expr)\(.*\))", re.DOTALL)
_SPEC = re.compile(r"[0<>^]?\d{0,3}(?:\.\d{1,2})?[dfeg%s]?")
_ENVIRONMENT = re.compile(r"(?:oc\.)?env:([A-Za-z_]\w*)(?:,(.*))?", re.DOTALL)


class NotKnownYet(Exception):
    """A value that only a machine or a job can tell."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Part(NamedTuple):
    """One placeholder of a text."""

    source: str
    """As it was written, with its braces."""
    start: int
    """Where in the text."""
    expression: Expression
    spec: str = ""

    def value(self, scope: Names) -> Any:
        alone = self.expression.alone
        value = self.expression.value(scope) if alone is None else scope.find(alone)
        return formatted(value, self.spec) if self.spec else value


class Template(NamedTuple):
    """A text that has been read."""

    text: str
    parts: tuple[str | Part, ...]
    whole: bool
    """Whether it is one placeholder and nothing else."""

    @property
    def placeholders(self) -> Iterator[Part]:
        return (part for part in self.parts if isinstance(part, Part))

    @property
    def references(self) -> Iterator[Reference]:
        """The names that it uses."""
        return (each for part in self.placeholders for each in part.expression.references)

    @property
    def constant(self) -> bool:
        return all(isinstance(part, str) for part in self.parts)

    def value(self, scope: Names) -> Any:
        """Its value in ``scope``.

        Raises:
            Mistake: a placeholder has none.
            NotKnownYet: a placeholder has none yet.
        """
        if self.whole:
            return self.parts[0].value(scope)  # type: ignore[union-attr]
        made = []
        for part in self.parts:
            value = part if type(part) is str else part.value(scope)  # type: ignore[union-attr]
            made.append(value if type(value) is str else as_text(value))
        return "".join(made)

    def partly(self, scope: Names) -> Any:
        """A template for the same, in which what ``scope`` knows already stands as it is.

        Raises:
            Mistake: a placeholder has no value.
        """
        if self.whole or (self.text[-1:] == ")" and _CALL.fullmatch(self.text)):
            try:
                value = self.value(scope)
            except NotKnownYet:
                return self.text
            return self.text if _looks_like_template(value) else value
        made, literal, complete = "", "", True
        at = 0
        for part in self.parts:
            if isinstance(part, str):
                literal += part
                continue
            made += self.text[at : part.start]
            try:
                value = part.value(scope)
                later = _looks_like_template(value)  # which cannot stand inside of one
            except NotKnownYet:
                later = True
            complete = complete and not later
            kept = part.source if later else as_text(value)
            made, literal = made + kept, literal + kept
            at = part.start + len(part.source)
        made += self.text[at:]
        # Braces that were doubled stay so until nothing is left to resolve.
        return literal if complete and not _looks_like_template(literal) else made


def _looks_like_template(value: Any) -> bool:
    if type(value) is not str:
        return False
    return "{" in value or ("(" in value and bool(_CALL.fullmatch(value)))


def formatted(value: Any, spec: str) -> str:
    """``value`` as ``spec`` says: ``03d``, ``.2e``, ``>8s``.

    Raises:
        Mistake: it cannot be written so.
    """
    text = not spec[-1:].isdigit() and spec[-1:] == "s"
    try:
        return format(as_text(value) if text else number(value), spec)
    except (ValueError, OverflowError) as error:
        raise Mistake(f"{value!r} cannot be written as {spec!r}: {error}") from None


@lru_cache(maxsize=65536)
def template(text: str) -> Template:
    """Read a text.

    Raises:
        Mistake: one of its placeholders cannot be read.
    """
    if "{" not in text and "(" not in text:
        return Template(text, (text,), False)
    if called := _CALL.fullmatch(text):
        part = Part(called["call"], called.start("call"), compiled(called["call"].strip()))
        if not called["head"]:
            return Template(text, (part,), True)
        return Template(text, (*template(called["head"]).parts, part), False)
    parts = tuple(_parts(text))
    alone = parts[0] if len(parts) == 1 else ""
    return Template(text, parts, isinstance(alone, Part) and not alone.spec)


def _parts(text: str) -> Iterator[str | Part]:
    literal, at, doubled = "", 0, 0
    while found := _BRACE.search(text, at):
        literal += text[at : found.start()]
        at, token = found.end(), found.group()
        if token == "}}":
            literal += "}" if doubled else "}}"
            doubled -= doubled > 0
        elif text[at : at + 1] == "{":
            literal += token
            at += 1
            doubled += 1
        elif not _STARTS.match(text, found.start()):
            literal += token
        else:
            end = _closing(text, at)
            if literal:
                yield literal
            yield _placeholder(text[found.start() : end + 1], found.start(), text[at:end])
            literal, at = "", end + 1
    literal += text[at:]
    if literal or not text:
        yield literal


def _closing(text: str, at: int) -> int:
    depth, quote, start = 1, "", at
    while at < len(text):
        letter = text[at]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "{}":
            depth += 1 if letter == "{" else -1
            if not depth:
                return at
        at += 1
    raise Mistake(
        f"no }} for the brace before {text[start : start + 20]!r}; a brace itself is {{{{"
    )


def _placeholder(source: str, start: int, inside: str) -> Part:
    if source.startswith("$") and (found := _ENVIRONMENT.fullmatch(inside.strip())):
        return Part(source, start, _environment(*found.groups()))
    text, colon, spec = inside.rpartition(":")
    if not colon or "'" in spec or '"' in spec:
        return Part(source, start, compiled(inside))
    if not _SPEC.fullmatch(spec) or not spec:
        raise Mistake(
            f"{spec!r} in {source} is no format such as 03d or .2e; a brace itself is {{{{"
        )
    return Part(source, start, compiled(text), spec)


def _environment(name: str, otherwise: str | None) -> Expression:
    def value(scope: Names) -> str:
        found = os.environ.get(name, None if otherwise is None else otherwise.strip())
        if found is None:
            raise Mistake(f"the environment has no {name}")
        return found

    return Expression(name, value, ())


# --- command lines ----------------------------------------------------------------------------------

ARGUMENT_KEYS = ("argv", "server", "client")
"""The keys that arguments come from."""


def render_args(settings: Mapping[str, Any], note: Note) -> list[str]:
    """The arguments of filled settings; those of a server and its client with -- between."""
    if settings.get("argv") or not settings.get("client"):
        return _words(settings.get("argv"), ("argv",), note)
    server, client = (
        _words((settings.get(key) or {}).get("argv"), (key, "argv"), note)
        for key in ARGUMENT_KEYS[1:]
    )
    return [*server, "--", *client]


def _words(argv: Any, path: Path, note: Note) -> list[str]:
    """A command line of ``argv``, in which nothing is a template any more.

    Of a map: keys that are true and begin with no dash come first, as positional arguments; then
    the others in their order. Null drops a key, true makes it bare, a list is joined by commas,
    a key that ends with ``=`` makes one word with its value, and what stands under ``--`` is put in
    as it is.
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
        elif key.endswith("="):
            options.append(key + _word(value, (*path, key), note))
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
