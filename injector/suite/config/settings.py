"""The templates in a benchmark's settings: found once, resolved for each of its expansions.

Only what has a template is made anew; the rest is shared by all expansions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import BaseModel

from .arguments import Note
from .expressions import Expression, Reference
from .fields import Finding, any_templates
from .keys import parse, problems
from .problems import Mistake, Path
from .scope import Scope
from .templates import NotKnownYet, Template, template


@dataclass
class TemplateTree:
    """Where the templates of a value are."""

    path: Path = ()
    text: Template | None = None
    """The template that stands here."""
    below: dict[str | int, TemplateTree] = field(default_factory=dict)
    keys: dict[str, Template] = field(default_factory=dict)
    """Keys of this map that are templates themselves."""

    def __bool__(self) -> bool:
        return bool(self.text or self.below or self.keys)

    def leaves(self) -> Iterator[tuple[Path, Template]]:
        """Every template, with its place."""
        if self.text:
            yield self.path, self.text
        for key, found in self.keys.items():
            yield (*self.path, key), found
        for below in self.below.values():
            yield from below.leaves()

    def at(self, path: Path) -> TemplateTree:
        """The part under some keys."""
        found = self
        for key in path:
            found = found.below.get(key, TemplateTree(path))
        return found

    def only(self, wanted: Callable[[Path, Template], bool]) -> TemplateTree:
        """The part of which each template is wanted."""
        text = self.text if self.text and wanted(self.path, self.text) else None
        below = {key: each.only(wanted) for key, each in self.below.items()}
        keys = {key: each for key, each in self.keys.items() if wanted((*self.path, key), each)}
        return TemplateTree(self.path, text, {k: v for k, v in below.items() if v}, keys)


class Found(NamedTuple):
    """What settings have that is not plain data."""

    templates: TemplateTree
    conditions: tuple[tuple[Path, Expression], ...]
    problems: tuple[Finding, ...]
    """What is wrong in them; it is in neither of the others."""

    def references(self) -> Iterator[tuple[Path, Reference]]:
        """Every name that is used, with its place."""
        for path, text in self.templates.leaves():
            yield from ((path, each) for each in text.references)
        for path, condition in self.conditions:
            yield from ((path, each) for each in condition.references)


def find_templates(settings: dict[str, Any]) -> Found:
    """What of a benchmark's keys is a template or a condition."""
    parsed, wrong = parse(settings)
    conditions: list[tuple[Path, Expression]] = []
    return Found(_tree(parsed, (), conditions), tuple(conditions), tuple(wrong))


def _tree(parsed: Any, path: Path, conditions: list[tuple[Path, Expression]]) -> TemplateTree:
    """The tree of what :func:`.keys.parse` returned."""
    tree = TemplateTree(path)
    if isinstance(parsed, Template):
        tree.text = parsed
    elif isinstance(parsed, Expression):
        conditions.append((path, parsed))
    elif isinstance(parsed, (dict, list, BaseModel)):
        for key, each in _items(parsed):
            if isinstance(key, Template):
                tree.keys[key.text] = key
            elif isinstance(key, Expression):
                conditions.append(((*path, key.text), key))
            name = key if isinstance(key, (str, int)) else key.text
            if below := _tree(each, (*path, name), conditions):
                tree.below[name] = below
    return tree


def _items(parsed: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(parsed, BaseModel):
        for name in type(parsed).model_fields:
            if name in parsed.model_fields_set:
                yield name, getattr(parsed, name)
    else:
        yield from parsed.items() if isinstance(parsed, dict) else enumerate(parsed)


def resolve(value: Any, tree: TemplateTree, scope: Scope, note: Note, last: bool = False) -> Any:
    """``value`` with its templates resolved, as far as ``scope`` knows what they need.

    ``value``: settings, or what stands in some at ``tree.path``. ``last``: nothing will be resolved
    later, so what remains is a mistake.
    """
    resolver = _Resolver(scope, note, last)
    made = resolver.value(value, tree)
    resolver.check(made, tree.path)
    return made


class _Resolver:
    def __init__(self, scope: Scope, note: Note, last: bool) -> None:
        self.scope = scope
        self.note = note
        self.last = last
        self.whole: dict[Path, str] = {}
        """The templates that stood for a whole value and have got one, by their places."""

    def value(self, value: Any, tree: TemplateTree) -> Any:
        if tree.text:
            return self.leaf(value, tree.text, tree.path)
        if isinstance(value, dict):
            return self.map(value, tree)
        if isinstance(value, list):
            made = list(value)
            for index, below in tree.below.items():
                if int(index) < len(value):
                    made[int(index)] = self.value(value[int(index)], below)
            return [each for each in made if each is not None]
        return value

    def map(self, value: dict[str, Any], tree: TemplateTree) -> dict[str, Any]:
        made = dict(value)
        for name, below in tree.below.items():
            key = str(name)
            if key not in value:
                continue  # an earlier value took it away
            found = made[key] = self.value(value[key], below)
            if found is None:
                del made[key]  # null takes a key away
        if not tree.keys:
            return made
        renamed: dict[str, Any] = {}
        for key, each in made.items():
            known = tree.keys.get(key)
            renamed[str(self.text(known, (*tree.path, key))) if known else key] = each
        return renamed

    def leaf(self, value: Any, text: Template, path: Path) -> Any:
        """The value of what stands where a template stood: that template, or its value of before."""
        if not isinstance(value, str):
            inside = _tree(any_templates(value), path, [])
            return self.value(value, inside) if inside else value
        if text.text != value:
            try:
                text = template(value)
            except Mistake:
                return value
        found = self.text(text, path)
        free = path[0] in ("argv", "env", "matrix") and isinstance(found, (str, int, float))
        if text.whole and found is not value and found is not False and not free:
            self.whole[path] = value
        return found

    def text(self, text: Template, path: Path) -> Any:
        before, self.scope.path = self.scope.path, path
        try:
            return text.value(self.scope) if self.last else text.partly(self.scope)
        except NotKnownYet as missing:
            self.note(path, f"{{{missing.name}}} is not known here")
        except Mistake as error:
            self.note(path, str(error))
        finally:
            self.scope.path = before
        return text.text

    def check(self, made: Any, above: Path) -> None:
        """Notes values of a wrong kind: a template may stand for any, now it is known which."""
        whole = self.whole
        if not whole:
            return
        for key in reversed(above):
            made = {key: made}
        some = {path[0]: made[path[0]] for path in whole if path[0] in made}
        for path, text in problems(some, resolved=self.last):
            for length in range(len(path) + 1):
                if path[:length] in whole:
                    self.note(path, f"{whole[path[:length]]}: {text}")
