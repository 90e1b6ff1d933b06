"""The templates in a benchmark's settings: found once, resolved for each of its expansions and jobs.

Only what has a template is made anew; the rest is shared by all expansions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from .capabilities import NodeCondition, is_of_devices
from .expressions import Expression, Reference, compiled
from .fields import Finding, any_templates
from .keys import parse, problems
from .layers import apply_conditions, pruned
from .problems import Mistake, Note, Path, ProblemList, Where
from .scope import PLAIN, Context, Scope
from .templates import ARGUMENT_KEYS, NotKnownYet, Template, render_args, template


class Templates(NamedTuple):
    """Where the templates of settings are."""

    values: Mapping[Path, Template]
    """By the keys that lead there."""
    keys: Mapping[Path, Template]
    """Keys that are templates themselves; the last of their path."""

    def __bool__(self) -> bool:
        return bool(self.values or self.keys)

    def each(self) -> Iterator[tuple[Path, Template]]:
        """Every template, with its place."""
        yield from self.values.items()
        yield from self.keys.items()

    def only(self, wanted: Callable[[Path, Template], bool]) -> Templates:
        """Those that are wanted."""
        values, keys = (
            {path: text for path, text in each.items() if wanted(path, text)}
            for each in (self.values, self.keys)
        )
        return Templates(values, keys)


class ParsedSettings(NamedTuple):
    """What settings have that is not plain data."""

    templates: Templates
    conditions: tuple[tuple[Path, Expression], ...]
    problems: tuple[Finding, ...]
    """What is wrong in them; it is in neither of the others."""

    def references(self) -> Iterator[tuple[Path, Reference]]:
        """Every name that is used, with its place."""
        for path, text in self.templates.each():
            yield from ((path, each) for each in text.references)
        for path, condition in self.conditions:
            yield from ((path, each) for each in condition.references)


def find_templates(settings: dict[str, Any]) -> ParsedSettings:
    """What of a benchmark's keys is a template or a condition."""
    parsed, wrong = parse(settings)
    found = ParsedSettings(Templates({}, {}), (), tuple(wrong))
    conditions: list[tuple[Path, Expression]] = []
    _collect(parsed, (), found.templates, conditions)
    return found._replace(conditions=tuple(conditions))


def _collect(
    parsed: Any, path: Path, found: Any, conditions: list[tuple[Path, Expression]]
) -> None:
    """Add what :func:`.keys.parse` returned for the value at ``path``."""
    if isinstance(parsed, Template):
        found.values[path] = parsed
    elif isinstance(parsed, Expression):
        conditions.append((path, parsed))
    elif isinstance(parsed, (dict, list, BaseModel)):
        for key, each in _items(parsed):
            at = (*path, key if isinstance(key, (str, int)) else key.text)
            if isinstance(key, Template):
                found.keys[at] = key
            elif isinstance(key, Expression):
                conditions.append((at, key))
            _collect(each, at, found, conditions)


def _items(parsed: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(parsed, BaseModel):
        for name in type(parsed).model_fields:
            if name in parsed.model_fields_set:
                yield name, getattr(parsed, name)
    else:
        yield from parsed.items() if isinstance(parsed, dict) else enumerate(parsed)


def resolve(
    settings: dict[str, Any], found: Templates, scope: Scope, note: Note, last: bool = False
) -> dict[str, Any]:
    """``settings`` with their templates resolved, as far as ``scope`` knows what they need.

    ``last``: nothing will be resolved later, so what remains is a mistake.
    """
    resolver = _Resolver(scope, note, last)
    made: dict[str, Any] = resolver.resolved(settings, found)
    resolver.check(made)
    return made


class _Resolver:
    def __init__(self, scope: Scope, note: Note, last: bool) -> None:
        self.scope = scope
        self.note = note
        self.last = last
        self.whole: dict[Path, str] = {}
        """The templates that stood for a whole value and have got one, by their places."""

    def resolved(self, value: dict[Any, Any], found: Templates, above: Path = ()) -> Any:
        """``value``, which stands at ``above``: what has templates is a copy, the rest is shared."""
        copies: dict[Path, Any] = {(): dict(value)}
        for path, text in found.values.items():
            inside = _copied(copies, path[:-1])
            if inside is None or not _has(inside, path[-1]):
                continue  # an earlier value took it away
            made = self.leaf(inside[path[-1]], text, (*above, *path))
            if made is None and isinstance(inside, dict):
                del inside[path[-1]]  # null takes a key away
            else:
                inside[path[-1]] = made
        maps = {path[:-1]: _copied(copies, path[:-1]) for path in found.keys}
        for each in copies.values():
            if isinstance(each, list):
                each[:] = [item for item in each if item is not None]
        for path, each in maps.items():
            if isinstance(each, dict):
                self.rename(each, (*above, *path), path, found.keys)
        return copies[()]

    def rename(
        self, value: dict[str, Any], at: Path, path: Path, keys: Mapping[Path, Template]
    ) -> None:
        """Resolve the keys of a map that are templates; they keep their order."""
        before = list(value.items())
        value.clear()
        for key, each in before:
            known = keys.get((*path, key))
            value[str(self.text(known, (*at, key))) if known else key] = each

    def leaf(self, value: Any, text: Template, path: Path) -> Any:
        """The value of what stands where a template stood: that template, or its value of before."""
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

    def check(self, made: Mapping[str, Any]) -> None:
        """Note values of a wrong kind: a template may stand for any, now it is known which."""
        whole = self.whole
        some = {key: made[key] for key in (str(path[0]) for path in whole) if key in made}
        for path, text in problems(some, resolved=self.last) if some else ():
            for length in range(len(path) + 1):
                if path[:length] in whole:
                    self.note(path, f"{whole[path[:length]]}: {text}")


def _copied(copies: dict[Path, Any], path: Path) -> Any:
    """A copy of the map or list at ``path``, in a copy of what it stands in; None if none is there."""
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

    ``found``: its templates, where they are known. ``at`` says where a key was written; ``of`` is added
    to what is wrong there.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        variables: Mapping[str, Any],
        context: Mapping[str, object],
        found: Templates | None,
        at: Callable[..., Where],
        of: str = "",
    ) -> None:
        self.problems = ProblemList()
        self.at, self.of = at, of
        known = Context(context)
        self.settings = dict(settings)
        self.found = found
        if self.settings.get("when"):
            applied = apply_conditions(self.settings, variables, known, self.note, complete=True)
            self.settings, self.found = pruned(applied), None
        self.scope = Scope(self.settings, variables, known)

    def filled(self) -> dict[str, Any]:
        """See :meth:`.Benchmark.filled`."""
        made = self.resolved(self.settings, self.found)
        if any(type(value) not in PLAIN for value in (made.get("matrix") or {}).values()):
            made = {**made, **self.resolved({"matrix": made["matrix"]})}
        self.problems.check()
        return made

    def argv(self) -> list[str]:
        """See :meth:`.Benchmark.argv`."""
        some = {key: self.settings[key] for key in ARGUMENT_KEYS if self.settings.get(key)}
        made = render_args(self.resolved(some, self.found), self.note)
        self.problems.check()
        return made

    def parameters(self) -> dict[str, Any]:
        """See :meth:`.Benchmark.parameters`."""
        found = {}
        for name, value in self.scope.variables.items():
            if "." in name and not name.startswith("system."):
                try:
                    found[name] = self.scope.resolved((), value)
                except (Mistake, NotKnownYet):
                    continue  # it is about what another benchmark uses
        return found

    def unmet(self, of_devices: bool) -> tuple[str, ...]:
        """See :meth:`.Benchmark.unmet`."""
        found = [
            text
            for path, text, expression in self.conditions()
            if of_devices or not any(map(is_of_devices, expression.references))
            if not self.holds(expression, path)
        ]
        self.problems.check()
        return tuple(found)

    def node_conditions(self) -> tuple[NodeCondition, ...]:
        """See :meth:`.Benchmark.node_conditions`."""
        found = []
        for path, text, expression in self.conditions():
            if any(map(is_of_devices, expression.references)):
                others = [each for each in expression.references if not is_of_devices(each)]
                self.scope.path = path
                found.append(NodeCondition(text, {e.name: self.scope.find(e) for e in others}))
        self.problems.check()
        return tuple(found)

    def conditions(self) -> Iterator[tuple[Path, str, Expression]]:
        """Those of ``requires_capabilities`` that can be read, and where each stands."""
        for index, condition in enumerate(self.settings.get("requires_capabilities") or ()):
            path: Path = ("requires_capabilities", index)
            try:
                yield path, str(condition), compiled(str(condition))
            except Mistake as error:
                self.note(path, str(error))

    def holds(self, condition: Expression, path: Path) -> bool:
        self.scope.path = path
        try:
            return bool(condition.value(self.scope))
        except Mistake as error:
            self.note(path, str(error))
            return True

    def resolved(self, settings: dict[str, Any], found: Templates | None = None) -> dict[str, Any]:
        found = find_templates(settings).templates if found is None else found
        return resolve(settings, found, self.scope, self.note, last=True)

    def note(self, path: Path, text: str) -> None:
        self.problems.add(self.at(*path), text + self.of)
