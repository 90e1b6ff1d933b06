"""Texts with placeholders, as ``{name}``, ``${a * 2}``, ``{n:03d}``, ``auto({n}, 8)``; command lines of them.

A brace starts a placeholder if a name, a dot or a bracket follows it; any other brace, as in JSON, is itself.
``{{`` and its ``}}`` are one brace each. A text that is one placeholder and nothing else has that
placeholder's value, whatever its type; any other text has the values as text in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from .expressions import Expression, Names, Reference, compiled
from .functions import number
from .problems import Mistake, Note, Path, kind

_STARTS = re.compile(r"\$?\{\s*(?:--)?[A-Za-z_.($]|\$\{")
_BRACE = re.compile(r"\$?\{|\}\}")
_CALL = re.compile(r"(?P<head>[^=]*=)?(?P<call>(?:auto|auto_batch|expr)\(.*\))", re.DOTALL)
_SPEC = re.compile(r"[0<>^]?\d{0,3}(?:\.\d{1,2})?[dfeg%s]?")
_ENVIRONMENT = re.compile(r"(?:oc\.)?env:([A-Za-z_]\w*)(?:,(.*))?", re.DOTALL)


class NotKnownYet(Exception):
    """A value depends on a machine or a job, which is not known yet."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Part(NamedTuple):
    """One placeholder of a text."""

    source: str
    """The placeholder as it was written, with its braces."""
    start: int
    expression: Expression
    spec: str = ""
    """How its value is formatted: ``03d``; empty if as it is."""

    def value(self, scope: Names) -> Any:
        """The value in ``scope``. Raises Mistake, NotKnownYet."""
        # Most placeholders are a name and nothing else, which is looked up directly.
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
        """The names that its placeholders use."""
        return (ref for part in self.placeholders for ref in part.expression.references)

    @property
    def constant(self) -> bool:
        """Whether it has no placeholder."""
        return all(isinstance(part, str) for part in self.parts)

    def value(self, scope: Names) -> Any:
        """The value in ``scope``.

        Raises Mistake if a placeholder has none. Raises NotKnownYet if a placeholder has none yet.
        """
        if self.whole:
            return self.parts[0].value(scope)  # type: ignore[union-attr]
        pieces = []
        for part in self.parts:
            value = part if type(part) is str else part.value(scope)  # type: ignore[union-attr]
            pieces.append(value if type(value) is str else as_text(value))
        return "".join(pieces)

    def partly(self, scope: Names) -> Any:
        """The text of a template for the same, in which placeholders have the values that ``scope`` knows.

        If ``scope`` knows all of them, this is the value itself. Raises Mistake if a placeholder has no
        value.
        """
        if self.whole or (self.text[-1:] == ")" and _CALL.fullmatch(self.text)):
            try:
                value = self.value(scope)
            except NotKnownYet:
                return self.text
            return self.text if looks_like_template(value) else value
        # Doubled braces must stay so until nothing is left to resolve: the text is built twice, as a template
        # from what was written, and as the literal that it is if it turns out complete.
        remaining, literal, complete = "", "", True
        at = 0
        for part in self.parts:
            if isinstance(part, str):
                literal += part
                continue
            remaining += self.text[at : part.start]
            try:
                value = part.value(scope)
                later = looks_like_template(value)  # no template can be inside of another
            except NotKnownYet:
                later = True
            complete = complete and not later
            kept = part.source if later else as_text(value)
            remaining, literal = remaining + kept, literal + kept
            at = part.start + len(part.source)
        remaining += self.text[at:]
        return literal if complete and not looks_like_template(literal) else remaining


def looks_like_template(value: Any) -> bool:
    """Whether ``value`` is a text that may have placeholders in it, or be ``auto(…)`` and its like."""
    if type(value) is not str:
        return False
    return "{" in value or ("(" in value and bool(_CALL.fullmatch(value)))


def formatted(value: Any, spec: str) -> str:
    """``value`` formatted by ``spec``: ``03d``, ``.2e``, ``>8s``.

    Raises Mistake if it cannot be formatted so.
    """
    text = not spec[-1:].isdigit() and spec[-1:] == "s"
    try:
        return format(as_text(value) if text else number(value), spec)
    except (ValueError, OverflowError) as error:
        raise Mistake(f"{value!r} cannot be written as {spec!r}: {error}") from None


@lru_cache(maxsize=65536)
def template(text: str) -> Template:
    """Read a text. Most texts of a suite recur in many benchmarks, and are read once.

    Raises Mistake if one of its placeholders cannot be read.
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
    """The placeholders of ``text``, and the literal text between them."""
    literal, at, doubled = "", 0, 0
    while brace := _BRACE.search(text, at):
        literal += text[at : brace.start()]
        at, token = brace.end(), brace.group()
        if token == "}}":
            # JSON ends with }} as well. Only where a {{ came before does it stand for one brace.
            literal += "}" if doubled else "}}"
            doubled -= doubled > 0
        elif text[at : at + 1] == "{":
            literal += token
            at += 1
            doubled += 1
        elif not _STARTS.match(text, brace.start()):
            literal += token
        else:
            end = _closing(text, at)
            if literal:
                yield literal
            yield _placeholder(text[brace.start() : end + 1], brace.start(), text[at:end])
            literal, at = "", end + 1
    literal += text[at:]
    if literal or not text:
        yield literal


def _closing(text: str, at: int) -> int:
    """Where the brace is closed that was opened before ``at``; quoted braces do not count."""
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
    """The placeholder ``source``, which begins at ``start`` and has ``inside`` in its braces."""
    if source.startswith("$") and (match := _ENVIRONMENT.fullmatch(inside.strip())):
        return Part(source, start, _environment(*match.groups()))
    # A colon in a quoted key is a part of it.
    text, colon, spec = inside.rpartition(":")
    if not colon or "'" in spec or '"' in spec:
        return Part(source, start, compiled(inside))
    if not _SPEC.fullmatch(spec) or not spec:
        raise Mistake(
            f"{spec!r} in {source} is no format such as 03d or .2e; a brace itself is {{{{"
        )
    return Part(source, start, compiled(text), spec)


def _environment(name: str, otherwise: str | None) -> Expression:
    """``${env:NAME,OTHERWISE}``, as OmegaConf has it: an environment variable, and what stands in for it."""

    def value(scope: Names) -> str:
        text = os.environ.get(name, None if otherwise is None else otherwise.strip())
        if text is None:
            raise Mistake(f"the environment has no {name}")
        return text

    return Expression(name, value, ())


# --- command lines ----------------------------------------------------------------------------------

ARGUMENT_KEYS = ("argv", "server", "client")


def render_args(settings: Mapping[str, Any], note: Note) -> list[str]:
    """The arguments of filled settings; those of a server and of its client with -- between them."""
    if settings.get("argv") or not settings.get("client"):
        return _words(settings.get("argv"), ("argv",), note)
    server, client = (
        _words((settings.get(key) or {}).get("argv"), (key, "argv"), note)
        for key in ARGUMENT_KEYS[1:]
    )
    return [*server, "--", *client]


def _words(argv: Any, path: Path, note: Note) -> list[str]:
    """The words of ``argv``, a list or a map in which nothing is a template any more.

    Of a map, keys that are true and begin with no dash come first, as positional arguments; then the others
    in their order. Null drops a key, true makes it bare, a list is joined by commas, a key that ends with
    ``=`` makes one word with its value, and what stands under ``--`` is put in as it is.
    """
    if not isinstance(argv, dict):
        return [_word(value, (*path, index), note) for index, value in enumerate(argv or ())]
    positional: list[str] = []
    options: list[str] = []
    for key, value in argv.items():
        if value is None:
            continue
        if value is True:
            (options if key.startswith("-") else positional).append(key)
        elif key == "--":
            several = value if isinstance(value, list) else [value]
            options += [_word(item, (*path, key, i), note) for i, item in enumerate(several)]
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
    """``value`` as it stands inside a text. Raises Mistake for null and maps, which have no such form."""
    if type(value) is int:  # the most frequent by far
        return str(value)
    if value is None or isinstance(value, dict):
        raise Mistake(f"{'null' if value is None else 'a map'} cannot stand inside a text")
    if isinstance(value, list):
        return ",".join(map(as_text, value))
    return str(value)
