"""The kinds of values that keys take: each checks a value and says itself as JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..words import kind as described
from ..words import meant
from .expressions import ExpressionError, compiled, read_number
from .scope import Path
from .templates import template

Finding = tuple[Path, str]
"""Where below the value that was checked, and what is wrong there."""

Schema = dict[str, Any]

TEMPLATE: Schema = {"type": "string", "pattern": r"\{|^(auto|auto_batch|expr)\("}
"""A text that has a placeholder may stand for a value of any kind."""


class Kind:
    """What a key takes."""

    name = "anything"
    templates = True
    """Whether its texts may have placeholders."""

    def problems(self, value: Any) -> Iterator[Finding]:
        """What is wrong with a value; none is wrong with null, which takes a key away."""
        if value is None:
            return
        if isinstance(value, str) and ("{" in value or "(" in value) and self.stands_in():
            try:
                if not template(value).constant:
                    return
            except ExpressionError as error:
                yield (), str(error)
                return
        yield from self.wrong(value)

    def takes(self, value: Any) -> bool:
        """Whether a value has the form that this kind has: one value, a list, or a map."""
        return not isinstance(value, (dict, list))

    def wrong(self, value: Any) -> Iterator[Finding]:
        """What is wrong with a value that is neither null nor has placeholders."""
        yield from ()

    def expected(self, value: Any) -> Finding:
        text = f"{described(value)} stands where {self.name} belongs"
        if isinstance(value, dict) and len(value) == 1 and list(value.values()) == [None]:
            text += f"; a placeholder wants quotes around it: '{{{next(iter(value))}}}'"
        return (), text

    def of_text(self) -> Kind:
        """The kind of a text that stands here."""
        return self

    def stands_in(self) -> bool:
        """Whether a text with placeholders may stand for a value; a map is written out."""
        return self.of_text().templates

    def schema(self) -> Schema:
        """Its JSON Schema; null is always allowed."""
        return {}

    def inner(self, key: str | int) -> Kind:
        """The kind of what stands under ``key`` of such a value."""
        return Kind()


class Ignored(Kind):
    """Nobody acts on it, so it may be anything, and means nothing."""

    templates = False


class Text(Kind):
    name = "a text"

    def wrong(self, value: Any) -> Iterator[Finding]:
        if isinstance(value, (dict, list, bool)):
            yield self.expected(value)

    def schema(self) -> Schema:
        return {"type": ["string", "number", "null"]}


class Prose(Text):
    """For people: braces are braces."""

    templates = False


@dataclass
class File(Text):
    """A path, relative to the file that names it."""

    endings: tuple[str, ...] = ()
    """A relative text with another ending is something else: a name, a command."""
    name = "a path"


class Folder(Text):
    """A definition's."""

    def wrong(self, value: Any) -> Iterator[Finding]:
        if isinstance(value, dict) and "git" in value:  # milabench's way
            text = "a definition is not fetched: clone the repository and name its folder here"
            yield (), text
        else:
            yield from super().wrong(value)


class Condition(Kind):
    """An expression, without braces around it."""

    name = "a condition"
    templates = False

    def wrong(self, value: Any) -> Iterator[Finding]:
        if not isinstance(value, (str, bool)):
            yield self.expected(value)
            return
        try:
            compiled(str(value))
        except ExpressionError as error:
            yield (), str(error)

    def schema(self) -> Schema:
        return {"type": ["string", "boolean"]}


@dataclass
class Number(Kind):
    least: float | None = None
    whole: bool = False
    above: bool = False
    """Whether it must be more than ``least``."""

    @property
    def name(self) -> str:  # type: ignore[override]
        what = "a whole number" if self.whole else "a number"
        if self.least is None:
            return what
        return f"{what} {'above' if self.above else 'of at least'} {self.least:g}"

    def wrong(self, value: Any) -> Iterator[Finding]:
        read = read_number(value) if isinstance(value, str) else value
        if isinstance(read, bool) or not isinstance(read, (int, float)) or not self.fits(read):
            yield self.expected(value)

    def fits(self, value: float) -> bool:
        if self.whole and value != int(value):
            return False
        if self.least is None:
            return True
        return value > self.least if self.above else value >= self.least

    def schema(self) -> Schema:
        made: Schema = {"type": "integer" if self.whole else "number"}
        if self.least is not None:
            made["exclusiveMinimum" if self.above else "minimum"] = self.least
        return {"anyOf": [made, {"type": "null"}, TEMPLATE]}


class Flag(Kind):
    name = "true or false"

    def wrong(self, value: Any) -> Iterator[Finding]:
        if not isinstance(value, bool):
            yield self.expected(value)

    def schema(self) -> Schema:
        return {"anyOf": [{"type": ["boolean", "null"]}, TEMPLATE]}


class Scalar(Kind):
    """A text, a number, true or false."""

    name = "one value"

    def wrong(self, value: Any) -> Iterator[Finding]:
        if isinstance(value, (dict, list)):
            yield self.expected(value)

    def schema(self) -> Schema:
        return {"type": ["string", "number", "boolean", "null"]}


@dataclass
class Choice(Kind):
    words: tuple[str, ...]
    what: str
    also: Mapping[str, str] = field(default_factory=dict)
    """Other spellings."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"one of {', '.join(self.words)}"

    def wrong(self, value: Any) -> Iterator[Finding]:
        if not isinstance(value, str):
            yield self.expected(value)
        elif value not in self.words and value not in self.also:
            yield (), f"{value!r} is no {self.what}{meant(value, self.words)}"

    def schema(self) -> Schema:
        return {"anyOf": [{"enum": [*self.words, *self.also, None]}, TEMPLATE]}


@dataclass
class List(Kind):
    of: Kind
    alone: bool = False
    """Whether one value may stand without a list around it."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.of.name} or a list" if self.alone else "a list"

    def takes(self, value: Any) -> bool:
        return isinstance(value, list) or (self.alone and self.of.takes(value))

    def wrong(self, value: Any) -> Iterator[Finding]:
        if isinstance(value, dict) and list(value) == ["append"]:
            value = value["append"]
        if not isinstance(value, list):
            if self.alone and self.of.takes(value):
                yield from self.of.wrong(value)
            else:
                yield self.expected(value)
            return
        for index, each in enumerate(value):
            if each is None:
                yield (index,), "null is nothing that a list can hold"
            yield from _below(index, self.of.problems(each))

    def schema(self) -> Schema:
        listed = {"type": "array", "items": self.of.schema()}
        appended = {"type": "object", "properties": {"append": listed}, "required": ["append"]}
        kinds = [listed, {**appended, "additionalProperties": False}, {"type": "null"}, TEMPLATE]
        return {"anyOf": [*([self.of.schema()] if self.alone else []), *kinds]}

    def inner(self, key: str | int) -> Kind:
        return self.of if isinstance(key, int) else Kind()

    def of_text(self) -> Kind:
        return self.of if self.alone else self


class _Map(Kind):
    """A map of any kind."""

    def takes(self, value: Any) -> bool:
        return isinstance(value, dict)

    def stands_in(self) -> bool:
        return False


@dataclass
class Mapped(_Map):
    """A map whose keys are the user's own."""

    of: Kind = field(default_factory=Kind)
    keys: Kind = field(default_factory=Kind)
    name = "a map"

    def wrong(self, value: Any) -> Iterator[Finding]:
        if not isinstance(value, dict):
            yield self.expected(value)
            return
        for key, each in value.items():
            yield from _below(key, self.keys.problems(key))
            yield from _below(key, self.of.problems(each))

    def schema(self) -> Schema:
        return {"type": ["object", "null"], "additionalProperties": self.of.schema()}

    def inner(self, key: str | int) -> Kind:
        return self.of


class Key(NamedTuple):
    """A key that is known."""

    name: str
    kind: Kind
    text: str
    """What it says."""
    default: str = ""
    """What holds where it is not said, in words."""


@dataclass
class Struct(_Map):
    """A map with known keys."""

    keys: Sequence[Key]
    called: str = "a map"
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.by_name = {key.name: key for key in self.keys}

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"a map with {', '.join(list(self.by_name)[:8])}"

    def wrong(self, value: Any) -> Iterator[Finding]:
        if not isinstance(value, dict):
            yield self.expected(value)
            return
        for key, each in value.items():
            if known := self.by_name.get(key):
                yield from _below(key, known.kind.problems(each))
            else:
                yield (key,), f"nothing is called {key}{meant(str(key), self.by_name)}"
        for key in self.needs:
            if key not in value:
                yield (), f"{key} is missing: {self.by_name[key].text}"

    def schema(self) -> Schema:
        made: Schema = {
            "type": ["object", "null"],
            "properties": {
                key.name: {"description": key.text, **key.kind.schema()} for key in self.keys
            },
            "additionalProperties": False,
        }
        return {**made, "required": list(self.needs)} if self.needs else made

    def inner(self, key: str | int) -> Kind:
        known = self.by_name.get(key) if isinstance(key, str) else None
        return known.kind if known else Kind()


@dataclass
class Either(Kind):
    """One of several kinds that differ in what a value is."""

    kinds: tuple[Kind, ...]

    @property
    def name(self) -> str:  # type: ignore[override]
        return " or ".join(each.name for each in self.kinds)

    def wrong(self, value: Any) -> Iterator[Finding]:
        for each in self.kinds:
            if each.takes(value):
                yield from each.wrong(value)
                return
        yield self.expected(value)

    def schema(self) -> Schema:
        return {"anyOf": [each.schema() for each in self.kinds]}

    def of_text(self) -> Kind:
        return next((each.of_text() for each in self.kinds if each.takes("")), self)

    def stands_in(self) -> bool:
        return any(each.stands_in() for each in self.kinds)

    def inner(self, key: str | int) -> Kind:
        found = (each.inner(key) for each in self.kinds)
        return next((each for each in found if type(each) is not Kind), Kind())


_OPTION = Either((Scalar(), List(Scalar())))


class Arguments(Kind):
    """A program's arguments: a list, or a map of options."""

    name = "a map of options or a list"

    def stands_in(self) -> bool:
        return False

    def wrong(self, value: Any) -> Iterator[Finding]:
        if isinstance(value, list):
            yield from List(Scalar()).wrong(value)
        elif isinstance(value, dict):
            for key, each in value.items():
                yield from _below(key, self.option(str(key), each))
        else:
            yield self.expected(value)

    def option(self, key: str, value: Any) -> Iterator[Finding]:
        if value is False:
            yield (), "false is no argument: null drops it, 'false' in quotes is the word"
        else:
            yield from _OPTION.problems(value)
        yield from Kind().problems(key)

    def schema(self) -> Schema:
        one: Schema = {"type": ["string", "number", "boolean", "null"], "not": {"const": False}}
        some = {"type": "array", "items": {"type": ["string", "number", "boolean"]}}
        options = {"type": "object", "additionalProperties": {"anyOf": [one, some]}}
        return {"anyOf": [options, some, {"type": "null"}]}


def _below(key: str | int, problems: Iterator[Finding]) -> Iterator[Finding]:
    return (((key, *path), text) for path, text in problems)
