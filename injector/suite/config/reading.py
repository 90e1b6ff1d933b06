"""YAML with positions: what a file says, and where each of its keys and values stands.

PyYAML composes nodes, which know their lines; what becomes of them is decided here, and stricter than in YAML
1.1: no tags, no repeated keys, no numbers in sixties, and keys and dates stay texts.
"""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any, NamedTuple

import yaml

from .problems import Path, Problem, SuiteError, Where

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader of libyaml, if PyYAML was built with it: it is ten times as fast."""

MOST_NODES = 1_000_000
"""How many values a file may have. Aliases of aliases can stand for more than a machine has memory for."""

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
    """Where each key stands, by the keys that lead there."""
    problems: tuple[Problem, ...] = ()
    """What is wrong in it though all of it can be read: keys that stand twice."""


def read(file: FilePath, shown: str = "") -> Document:
    """Read a file that holds a map; messages call it ``shown``.

    Raises SuiteError if it cannot be read, is not YAML, or holds no map.
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
    builder = _Builder(shown)
    node = _composed(text, shown)
    data = {} if node is None else builder.value(node, ())
    if not isinstance(data, dict):
        builder.add_problem(node, (), "a suite is a map of names and what they mean")
    if builder.problems:
        problems = [*builder.problems, *builder.repeated_keys]
        raise SuiteError(sorted(problems, key=lambda one: one.where.line if one.where else 0))
    return Document(shown, data, builder.places, tuple(builder.repeated_keys))


def _composed(text: str, shown: str) -> Any:
    """The root node of a text; None if it is empty. Raises SuiteError if it is not YAML."""
    try:
        return yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        message = ", ".join(part for part in (error.context, error.problem) if part)
        if tab_line := _line_with_tab(text, line):
            line = tab_line
            message = "a tab stands at the begin of the line; YAML is indented with spaces"
        raise SuiteError([Problem(Where(shown, line), f"is not YAML: {message}")]) from None
    except yaml.YAMLError as error:  # a character that YAML forbids
        line = text[: getattr(error, "position", 0) or 0].count("\n") + 1
        message = str(error).splitlines()[0]
        raise SuiteError([Problem(Where(shown, line), f"is not YAML: {message}")]) from None
    except RecursionError:
        raise SuiteError([Problem(Where(shown, 1), "is nested too deeply")]) from None


def _line_with_tab(text: str, line: int) -> int | None:
    """The line that is indented with a tab: ``line``, or the one before, which libyaml may mean."""
    lines = text.splitlines()
    for number in (line, line - 1):
        if 0 < number <= len(lines):
            content = lines[number - 1]
            if "\t" in content[: len(content) - len(content.lstrip())]:
                return number
    return None


class _Builder:
    """Builds values from nodes, and keeps where they stand and what is wrong with them."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.places: dict[Path, Where] = {}
        self.problems: list[Problem] = []
        self.repeated_keys: list[Problem] = []
        self._ancestors: set[int] = set()
        """The ids of the lists and maps around the value that is being built: an alias may be one of them."""
        self._nodes = 0

    def add_problem(self, node: Any, path: Path, text: str) -> None:
        """Add a problem at the place of ``node``, to which the keys ``path`` lead."""
        self.problems.append(Problem(self._where(node, path), text))

    def _where(self, node: Any, path: Path) -> Where:
        line = node.start_mark.line + 1 if node is not None else 1
        return Where(self.file, line, ".".join(map(str, path)))

    def value(self, node: Any, path: Path) -> Any:
        """The value of ``node``; None for what has a problem."""
        self._nodes += 1
        if id(node) in self._ancestors or self._nodes > MOST_NODES:
            text = "contains itself" if id(node) in self._ancestors else "has too many values"
            if self._nodes <= MOST_NODES + 1:
                self.add_problem(node, path, text)
            return None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        self._ancestors.add(id(node))
        try:
            return self._collection(node, path)
        finally:
            self._ancestors.discard(id(node))

    def _collection(self, node: Any, path: Path) -> Any:
        if node.tag not in _COLLECTIONS:
            self._refuse_tag(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._item(item, (*path, index)) for index, item in enumerate(node.value)]
        values: dict[str, Any] = {}
        merged: list[Any] = []
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged.append(value_node)
                continue
            key = self._key(key_node, path)
            below = (*path, key)
            if key in lines:
                text = f"{key} stands twice: on line {lines[key]} as well"
                self.repeated_keys.append(Problem(self._where(key_node, below), text))
            lines[key] = key_node.start_mark.line + 1
            self.places[below] = self._where(key_node, below)
            values[key] = self.value(value_node, below)
        for value_node in merged:
            for key, value in self._merged(value_node, path).items():
                values.setdefault(key, value)
        return values

    def _item(self, node: Any, path: Path) -> Any:
        self.places[path] = self._where(node, path)
        return self.value(node, path)

    def _merged(self, node: Any, path: Path) -> dict[str, Any]:
        """The keys that ``<<: *anchor`` adds to the map at ``path``; of several maps the first wins."""
        places = dict(self.places)
        value = self.value(node, path)
        self.places.update(places)  # a key of the map itself keeps its place
        if isinstance(value, dict):
            return value
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return {key: item[key] for item in reversed(value) for key in item}
        self.add_problem(node, path, "<< wants a map")
        return {}

    def _key(self, node: Any, path: Path) -> str:
        """A key, as it was written: ``yes``, ``1`` and ``1.0`` are texts."""
        if not isinstance(node, yaml.ScalarNode):
            self.add_problem(node, path, "a key is a text, not a list or a map")
            return "?"
        return str(node.value)

    def _scalar(self, node: Any, path: Path) -> Any:
        # It would end an argument, a variable or a path.
        if "\0" in node.value:
            self.add_problem(node, path, "a text cannot have the character \\0")
        if node.tag in _AS_WRITTEN:
            return node.value
        if node.tag == "!delete":  # milabench's word for null
            return None
        construct = _SCALARS.get(node.tag)
        if construct is None:
            self._refuse_tag(node, path)
            return None
        if ":" in node.value:  # YAML 1.1 counts 1:30 in sixties, which is 90
            return node.value
        try:
            return construct(node)
        except (yaml.YAMLError, ValueError, OverflowError, KeyError):
            kind = node.tag.removeprefix(_TAG)
            self.add_problem(node, path, f"{node.value!r} is no {kind}; in quotes it is a text")
            return None

    def _refuse_tag(self, node: Any, path: Path) -> None:
        tag = node.tag.replace(_TAG, "!!")
        self.add_problem(node, path, f"the tag {tag} means nothing here; leave it out")
