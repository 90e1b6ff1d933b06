"""The templates of a benchmark: found once, resolved for each of its expansions.

Only what has a template is made anew; the rest is shared by all expansions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..words import kind as described
from .expressions import Expression, ExpressionError, Reference, compiled
from .keys import ENTRY
from .kinds import Arguments, Condition, Kind, Mapped
from .scope import Path, Scope
from .templates import Later, Template, template

Note = Callable[[Path, str], None]
"""Takes where something is wrong, and what."""


Wanted = Callable[[Path, Template], bool]


@dataclass
class Tree:
    """Where the templates of a value are."""

    path: Path = ()
    text: Template | None = None
    """The template that stands here."""
    kind: Kind = field(default_factory=Kind)
    below: dict[str | int, Tree] = field(default_factory=dict)
    keys: dict[str, Template] = field(default_factory=dict)
    """Keys of this map that are templates themselves."""

    def __bool__(self) -> bool:
        return bool(self.text or self.below or self.keys)


def planted(value: Any, kind: Kind = ENTRY, path: Path = (), wanted: Wanted | None = None) -> Tree:
    """The templates of ``value``; ``wanted(path, template)`` says which ones count."""
    if isinstance(value, str):
        kind = kind.of_text()
    tree = Tree(path, kind=kind)
    if not kind.templates:
        return tree
    if isinstance(value, str):
        tree.text = _counted(value, path, wanted)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            if below := planted(each, kind.inner(index), (*path, index), wanted):
                tree.below[index] = below
    elif isinstance(value, dict):
        for key, each in value.items():
            if below := planted(each, kind.inner(key), (*path, key), wanted):
                tree.below[key] = below
            if isinstance(kind, Arguments) and (found := _counted(key, path, wanted)):
                tree.keys[key] = found
    return tree


def _counted(text: str, path: Path, wanted: Wanted | None) -> Template | None:
    found = _template(text)
    return found if found and (wanted is None or wanted(path, found)) else None


def _template(text: str) -> Template | None:
    if "{" not in text and "(" not in text:
        return None
    try:
        found = template(text)
    except ExpressionError:  # said where the file was checked
        return None
    constant = found.constant and found.parts == (text,)
    return None if constant else found


def leaves(tree: Tree) -> Iterator[tuple[Path, Template]]:
    """Every template, with where it stands."""
    if tree.text:
        yield tree.path, tree.text
    for key, found in tree.keys.items():
        yield (*tree.path, key), found
    for below in tree.below.values():
        yield from leaves(below)


def conditions(
    value: Any, kind: Kind = ENTRY, path: Path = ()
) -> Iterator[tuple[Path, Expression]]:
    """Every condition of ``value``, with where it stands."""
    if isinstance(kind, Condition) and isinstance(value, str):
        try:
            yield path, compiled(value)
        except ExpressionError:  # said where the file was checked
            return
    elif isinstance(value, (dict, list)):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(kind, Mapped) and isinstance(kind.keys, Condition):
                yield from conditions(key, kind.keys, (*path, key))
            yield from conditions(each, kind.inner(key), (*path, key))


def references(value: Any) -> Iterator[Reference]:
    """Every name that the templates and conditions of ``value`` use."""
    for _, found in leaves(planted(value)):
        yield from found.references
    for _, condition in conditions(value):
        yield from condition.references


def resolved(value: Any, tree: Tree, scope: Scope, note: Note, finally_: bool = False) -> Any:
    """``value`` with its templates resolved, as far as ``scope`` knows what they need.

    ``finally_``: nothing is left to be resolved later, so what is left is a mistake.
    """
    if tree.text:
        return _now(value, tree, scope, note, finally_)
    if isinstance(value, dict):
        return _map(value, tree, scope, note, finally_)
    if isinstance(value, list):
        made = list(value)
        for index, below in tree.below.items():
            if int(index) < len(value):
                made[int(index)] = resolved(value[int(index)], below, scope, note, finally_)
        return [each for each in made if each is not None]
    return value


def _map(value: dict[str, Any], tree: Tree, scope: Scope, note: Note, finally_: bool) -> Any:
    made = dict(value)
    for name, below in tree.below.items():
        key = str(name)
        if key not in value:
            continue  # an earlier value took it away
        found = made[key] = resolved(value[key], below, scope, note, finally_)
        if found is None:
            del made[key]  # null takes a key away
    if not tree.keys:
        return made
    renamed: dict[str, Any] = {}
    for key, each in made.items():
        if found := tree.keys.get(key):
            below = Tree((*tree.path, key), found)
            renamed[str(_leaf(key, below, scope, note, finally_))] = each
        else:
            renamed[key] = each
    return renamed


def _now(value: Any, tree: Tree, scope: Scope, note: Note, finally_: bool) -> Any:
    """What stands where a template stood: the template still, or what it came to before."""
    if isinstance(value, str):
        if tree.text and tree.text.text == value:
            return _leaf(value, tree, scope, note, finally_)
        found = _template(value)
        return (
            _leaf(value, Tree(tree.path, found, tree.kind), scope, note, finally_)
            if found
            else value
        )
    if isinstance(value, (dict, list)) and (below := planted(value, tree.kind, tree.path)):
        return resolved(value, below, scope, note, finally_)
    return value


def _leaf(value: str, tree: Tree, scope: Scope, note: Note, finally_: bool) -> Any:
    assert tree.text is not None
    before, scope.path = scope.path, tree.path
    try:
        found = tree.text.value(scope) if finally_ else tree.text.partly(scope)
    except Later as missing:
        note(tree.path, f"{{{missing.name}}} is not known here")
        return value
    except ExpressionError as error:
        note(tree.path, str(error))
        return value
    finally:
        scope.path = before
    if found is not value and tree.text.whole and type(tree.kind) is not Kind:
        _check(found, tree, note, finally_)
    return found


def _check(found: Any, tree: Tree, note: Note, finally_: bool) -> None:
    """A template may stand for a value of any kind: now it must be the one that belongs here."""
    problems = (
        tree.kind.wrong(found) if finally_ and found is not None else tree.kind.problems(found)
    )
    for path, text in problems:
        whole = tree.text.text if tree.text else ""
        note((*tree.path, *path), f"{whole} is {described(found)}: {text}")
