"""YAML with positions: what a file says, and where each of its keys and values stands."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any, NamedTuple

import yaml

from .problems import Path, Problem, SuiteError, Where

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where PyYAML was built with it: ten times as fast."""

MOST_NODES = 1_000_000
"""Aliases of aliases can stand for more than any machine has memory for."""

_TAG = "tag:yaml.org,2002:"
_MERGE = _TAG + "merge"
_AS_WRITTEN = {_TAG + "str", _TAG + "timestamp", _TAG + "value"}
_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_SCALARS = {
    _TAG + "null": lambda node: None,
    _TAG + "bool": _CONSTRUCTOR.construct_yaml_bool,
    _TAG + "int": _CONSTRUCTOR.construct_yaml_int,
    _TAG + "float": _CONSTRUCTOR.construct_yaml_float,
}
_COLLECTIONS = {_TAG + "map", _TAG + "seq"}


class Document(NamedTuple):
    """A YAML file."""

    file: str
    data: dict[str, Any]
    places: dict[Path, Where]
    """Where each key's value stands, by the keys that lead there."""
    problems: tuple[Problem, ...] = ()
    """What is wrong in it, though the rest can be read: a key that stands twice."""


def read(file: FilePath, shown: str = "") -> Document:
    """Read a file that holds a map.

    ``shown``: what messages call it.

    Raises:
        SuiteError: it cannot be read, or is not YAML.
    """
    shown = shown or str(file)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise SuiteError([Problem(Where(shown, 0), f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise SuiteError([Problem(Where(shown, line), f"is not UTF-8: {error.reason}")]) from None
    return parse(text, shown)


def parse(text: str, shown: str) -> Document:
    """Read a text; see :func:`read`."""
    made = _Maker(shown)
    node = _composed(text, shown)
    data = {} if node is None else made.value(node, ())
    if not isinstance(data, dict):
        made.problem(node, (), "a suite is a map of names and what they mean")
    if made.problems:
        found = [*made.problems, *made.twice]
        raise SuiteError(sorted(found, key=lambda each: each.where.line if each.where else 0))
    return Document(shown, data, made.places, tuple(made.twice))


def _composed(text: str, shown: str) -> Any:
    try:
        return yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        message = ", ".join(part for part in (error.context, error.problem) if part)
        if tab := _tab(text, line):
            line, message = (
                tab,
                "a tab stands at the begin of the line; YAML is indented with spaces",
            )
        raise SuiteError([Problem(Where(shown, line), f"is not YAML: {message}")]) from None
    except yaml.YAMLError as error:  # a character that YAML forbids
        line = text[: getattr(error, "position", 0) or 0].count("\n") + 1
        message = str(error).splitlines()[0]
        raise SuiteError([Problem(Where(shown, line), f"is not YAML: {message}")]) from None
    except RecursionError:
        raise SuiteError([Problem(Where(shown, 1), "is nested too deeply")]) from None


def _tab(text: str, line: int) -> int | None:
    """The line that is indented with a tab, of the two that a mistake on ``line`` may come from."""
    lines = text.splitlines()
    for number in (line, line - 1):
        if 0 < number <= len(lines):
            content = lines[number - 1]
            if "\t" in content[: len(content) - len(content.lstrip())]:
                return number
    return None


class _Maker:
    """Turns nodes into values, and notes where they stand and what is wrong with them."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.places: dict[Path, Where] = {}
        self.problems: list[Problem] = []
        self.twice: list[Problem] = []
        self.open: set[int] = set()
        self.nodes = 0

    def where(self, node: Any, path: Path) -> Where:
        line = node.start_mark.line + 1 if node is not None else 1
        return Where(self.file, line, ".".join(map(str, path)))

    def problem(self, node: Any, path: Path, text: str) -> None:
        self.problems.append(Problem(self.where(node, path), text))

    def value(self, node: Any, path: Path) -> Any:
        self.nodes += 1
        if id(node) in self.open or self.nodes > MOST_NODES:
            inside = "contains itself" if id(node) in self.open else "has too many values"
            if self.nodes <= MOST_NODES + 1:
                self.problem(node, path, inside)
            return None
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, path)
        self.open.add(id(node))
        try:
            return self.several(node, path)
        finally:
            self.open.discard(id(node))

    def several(self, node: Any, path: Path) -> Any:
        if node.tag not in _COLLECTIONS:
            self.tagged(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.item(each, (*path, index)) for index, each in enumerate(node.value)]
        made: dict[str, Any] = {}
        merged: list[Any] = []
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged.append(value_node)
                continue
            key = self.key(key_node, path)
            below = (*path, key)
            if key in lines:
                text = f"{key} stands twice: on line {lines[key]} as well"
                self.twice.append(Problem(self.where(key_node, below), text))
            lines[key] = key_node.start_mark.line + 1
            self.places[below] = self.where(key_node, below)
            made[key] = self.value(value_node, below)
        for each in merged:
            for key, value in self.merged(each, path).items():
                made.setdefault(key, value)
        return made

    def item(self, node: Any, path: Path) -> Any:
        self.places[path] = self.where(node, path)
        return self.value(node, path)

    def merged(self, node: Any, path: Path) -> dict[str, Any]:
        """What ``<<: *anchor`` brings."""
        places = dict(self.places)
        value = self.value(node, path)
        self.places.update(places)  # what stands here itself stands here
        if isinstance(value, dict):
            return value
        if isinstance(value, list) and all(isinstance(each, dict) for each in value):
            return {key: each[key] for each in reversed(value) for key in each}
        self.problem(node, path, "<< wants a map")
        return {}

    def key(self, node: Any, path: Path) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self.problem(node, path, "a key is a text, not a list or a map")
            return "?"
        return str(node.value)

    def scalar(self, node: Any, path: Path) -> Any:
        if "\0" in node.value:  # which ends a text for the system: in arguments, variables, paths
            self.problem(node, path, "a text cannot have the character \\0")
        if node.tag in _AS_WRITTEN:
            return node.value
        if node.tag == "!delete":  # milabench's word for null
            return None
        construct = _SCALARS.get(node.tag)
        if construct is None:
            self.tagged(node, path)
            return None
        if ":" in node.value:  # YAML 1.1 counts 1:30 in sixties, which is 90
            return node.value
        try:
            return construct(node)
        except (yaml.YAMLError, ValueError, OverflowError, KeyError):
            kind = node.tag.removeprefix(_TAG)
            self.problem(node, path, f"{node.value!r} is no {kind}; in quotes it is a text")
            return None

    def tagged(self, node: Any, path: Path) -> None:
        tag = node.tag.replace(_TAG, "!!")
        self.problem(node, path, f"the tag {tag} means nothing here; leave it out")
