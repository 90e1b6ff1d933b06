"""The templates in a benchmark's settings: found once, resolved for each of its variants and jobs.

:func:`find_templates` reads all texts of an entry once. :func:`resolve` puts values for templates: for each
variant those of the matrix, for each job what is known of the machine (:class:`Filling`). Only maps and lists
with a template in them are copied; the rest is shared by all variants, of which there may be thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import BaseModel

from .expressions import Expression, NodeCondition, Reference, compiled, is_of_devices
from .fields import Finding, any_templates
from .keys import parse
from .layers import apply_conditions, pruned
from .problems import Mistake, Note, Path, ProblemList, Where
from .scope import PLAIN, Context, Scope
from .templates import ARGUMENT_KEYS, NotKnownYet, Template, render_args, template


class Templates(NamedTuple):
    """The templates of settings, and where they are."""

    values: Mapping[Path, Template]
    """The values that are templates, by the keys that lead there."""
    keys: Mapping[Path, Template]
    """The keys that are templates themselves, each by its path, of which it is the last part."""

    def __bool__(self) -> bool:
        return bool(self.values or self.keys)

    def each(self) -> Iterator[tuple[Path, Template]]:
        """Every template, with its place."""
        yield from self.values.items()
        yield from self.keys.items()

    def only(self, wanted: Callable[[Path, Template], bool]) -> Templates:
        """The templates for which ``wanted`` returns true."""
        values, keys = (
            {path: text for path, text in templates.items() if wanted(path, text)}
            for templates in (self.values, self.keys)
        )
        return Templates(values, keys)


class ParsedSettings(NamedTuple):
    """What settings have that is not plain data."""

    templates: Templates
    conditions: tuple[tuple[Path, Expression], ...]
    problems: tuple[Finding, ...]
    """What is wrong in the settings, of which the other two have nothing."""

    def references(self) -> Iterator[tuple[Path, Reference]]:
        """Every name that templates and conditions use, with their place."""
        for path, text in self.templates.each():
            yield from ((path, reference) for reference in text.references)
        for path, condition in self.conditions:
            yield from ((path, reference) for reference in condition.references)


def find_templates(settings: dict[str, Any]) -> ParsedSettings:
    """Find the templates, the conditions and the mistakes in a benchmark's settings."""
    parsed, wrong = parse(settings)
    result = ParsedSettings(Templates({}, {}), (), tuple(wrong))
    conditions: list[tuple[Path, Expression]] = []
    _collect(parsed, (), result.templates, conditions)
    return result._replace(conditions=tuple(conditions))


def _collect(
    parsed: Any, path: Path, templates: Any, conditions: list[tuple[Path, Expression]]
) -> None:
    """Add what is in ``parsed``, which :func:`.keys.parse` returned for the value at ``path``."""
    if isinstance(parsed, Template):
        templates.values[path] = parsed
    elif isinstance(parsed, Expression):
        conditions.append((path, parsed))
    elif isinstance(parsed, (dict, list, BaseModel)):
        for key, value in _items(parsed):
            below = (*path, key if isinstance(key, (str, int)) else key.text)
            if isinstance(key, Template):
                templates.keys[below] = key
            elif isinstance(key, Expression):
                conditions.append((below, key))
            _collect(value, below, templates, conditions)


def _items(parsed: Any) -> Iterator[tuple[Any, Any]]:
    """Keys and values of a map, a list or a model; of a model only the keys that were written."""
    if isinstance(parsed, BaseModel):
        for name in type(parsed).model_fields:
            if name in parsed.model_fields_set:
                yield name, getattr(parsed, name)
    else:
        yield from parsed.items() if isinstance(parsed, dict) else enumerate(parsed)


def resolve(
    settings: dict[str, Any], templates: Templates, scope: Scope, note: Note, last: bool = False
) -> dict[str, Any]:
    """``settings`` with their ``templates`` resolved, as far as ``scope`` knows what these need.

    Mistakes go to ``note``. With ``last``, nothing will be resolved later, so that what remains is a mistake.
    """
    resolver = _Resolver(scope, note, last)
    resolved: dict[str, Any] = resolver.resolved(settings, templates)
    resolver.check(resolved)
    return resolved


@dataclass
class _Resolver:
    """Resolves the templates of settings with the values that ``scope`` knows."""

    scope: Scope
    note: Note
    last: bool
    whole: dict[Path, str] = field(default_factory=dict)
    """The templates that were a whole value and have been resolved, by their places."""

    def resolved(self, value: dict[Any, Any], templates: Templates, above: Path = ()) -> Any:
        """``value``, which is at ``above``, resolved: what has templates is a copy, the rest is shared."""
        copies: dict[Path, Any] = {(): dict(value)}
        for path, text in templates.values.items():
            parent = _copied(copies, path[:-1])
            if parent is None or not _has(parent, path[-1]):
                continue  # a condition, an override or a value before it took it away
            new = self._leaf(parent[path[-1]], text, (*above, *path))
            if new is None and isinstance(parent, dict):
                del parent[path[-1]]  # null takes a key away
            else:
                parent[path[-1]] = new
        maps = {path[:-1]: _copied(copies, path[:-1]) for path in templates.keys}
        # Null takes an item of a list away too. Not before: paths count the items that were written.
        for copy in copies.values():
            if isinstance(copy, list):
                copy[:] = [item for item in copy if item is not None]
        # Keys come last, since paths have them as they were written.
        for path, copy in maps.items():
            items = list(copy.items()) if isinstance(copy, dict) else ()
            for key, item in items:
                del copy[key]  # and put in again, so that keys keep their order
                name = templates.keys.get((*path, key))
                copy[str(self._text(name, (*above, *path, key))) if name else key] = item
        return copies[()]

    def _leaf(self, value: Any, text: Template, path: Path) -> Any:
        """The resolved value at ``path``, where the template ``text`` was found once.

        ``value`` may be another one by now, which an override or a condition has set.
        """
        if not isinstance(value, str):
            inside = Templates({}, {})
            _collect(any_templates(value), (path[-1],), inside, [])
            return (
                self.resolved({path[-1]: value}, inside, path[:-1])[path[-1]] if inside else value
            )
        if text.text != value:
            try:
                text = template(value)
            except Mistake:
                return value
        new = self._text(text, path)
        # Any single value is right there, so that there is nothing to check.
        free = path[0] in ("argv", "env", "matrix") and isinstance(new, (str, int, float))
        if text.whole and new is not value and new is not False and not free:
            self.whole[path] = value
        return new

    def _text(self, text: Template, path: Path) -> Any:
        """The value of a template at ``path``; the template as it was written if there is a mistake in it."""
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

    def check(self, resolved: Mapping[str, Any]) -> None:
        """Note values of a wrong kind: a template may stand for any kind, and now it is known which."""
        whole = self.whole
        keys = (str(path[0]) for path in whole)
        settings = {key: resolved[key] for key in keys if key in resolved}
        for path, text in parse(settings, resolved=self.last)[1] if settings else ():
            for length in range(len(path) + 1):
                if path[:length] in whole:
                    self.note(path, f"{whole[path[:length]]}: {text}")


def _copied(copies: dict[Path, Any], path: Path) -> Any:
    """The copy of the map or list at ``path``, in the copy of what holds it; None if there is none.

    Copies are made when they are first needed, and kept in ``copies``.
    """
    if path not in copies:
        above = _copied(copies, path[:-1])
        inner = above[path[-1]] if _has(above, path[-1]) else None
        copies[path] = inner.copy() if isinstance(inner, (dict, list)) else None
        if copies[path] is not None:
            above[path[-1]] = copies[path]
    return copies[path]


def _has(value: Any, key: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(key, int) and key < len(value)
    return isinstance(value, dict) and key in value


class Filling:
    """A benchmark's settings for one machine and one job, under the conditions that hold there.

    Its methods are those of :class:`.Benchmark` of the same names.

    ``templates`` are those of the settings, or None if they have to be found first. ``at`` returns where a
    key was written; ``suffix`` is added to what is wrong there. Unless it is ``complete``, conditions about
    the job do not hold yet.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        variables: Mapping[str, Any],
        context: Mapping[str, object],
        templates: Templates | None,
        at: Callable[..., Where],
        suffix: str = "",
        complete: bool = True,
    ) -> None:
        self.problems = ProblemList()
        self.at, self.suffix = at, suffix
        known = Context(context)
        self.settings = dict(settings)
        self.templates = templates
        if self.settings.get("when"):
            applied = apply_conditions(self.settings, variables, known, self.note, complete)
            self.settings, self.templates = pruned(applied), None
        self.scope = Scope(self.settings, variables, known)

    def filled(self) -> dict[str, Any]:
        settings = self._resolved(self.settings, self.templates)
        # The values of a matrix may be lists or maps with templates in them.
        if any(type(value) not in PLAIN for value in (settings.get("matrix") or {}).values()):
            settings = {**settings, **self._resolved({"matrix": settings["matrix"]})}
        self.problems.check()
        return settings

    def argv(self) -> list[str]:
        settings = {key: self.settings[key] for key in ARGUMENT_KEYS if self.settings.get(key)}
        words = render_args(self._resolved(settings, self.templates), self.note)
        self.problems.check()
        return words

    def parameters(self) -> dict[str, Any]:
        parameters = {}
        for name, value in self.scope.variables.items():
            if "." in name and not name.startswith("system."):
                try:
                    parameters[name] = self.scope.resolved((), value)
                except (Mistake, NotKnownYet):
                    continue  # it depends on what only another benchmark has
        return parameters

    def unmet(self, of_devices: bool) -> tuple[str, ...]:
        unmet = [
            text
            for path, text, expression in self._conditions()
            if of_devices or not any(map(is_of_devices, expression.references))
            if not self._holds(expression, path)
        ]
        self.problems.check()
        return tuple(unmet)

    def node_conditions(self) -> tuple[NodeCondition, ...]:
        conditions = []
        for path, text, expression in self._conditions():
            if any(map(is_of_devices, expression.references)):
                others = [ref for ref in expression.references if not is_of_devices(ref)]
                self.scope.path = path
                values = {ref.name: self.scope.find(ref) for ref in others}
                conditions.append(NodeCondition(text, values))
        self.problems.check()
        return tuple(conditions)

    def _conditions(self) -> Iterator[tuple[Path, str, Expression]]:
        """The conditions of ``requires_capabilities`` that can be read, each with its place and its text."""
        for index, condition in enumerate(self.settings.get("requires_capabilities") or ()):
            path: Path = ("requires_capabilities", index)
            try:
                yield path, str(condition), compiled(str(condition))
            except Mistake as error:
                self.note(path, str(error))

    def _holds(self, condition: Expression, path: Path) -> bool:
        """Whether a condition holds. One that cannot be evaluated is noted, and counts as holding."""
        self.scope.path = path
        try:
            return bool(condition.value(self.scope))
        except Mistake as error:
            self.note(path, str(error))
            return True

    def _resolved(
        self, settings: dict[str, Any], templates: Templates | None = None
    ) -> dict[str, Any]:
        templates = find_templates(settings).templates if templates is None else templates
        return resolve(settings, templates, self.scope, self.note, last=True)

    def note(self, path: Path, text: str) -> None:
        self.problems.add(self.at(*path), text + self.suffix)
