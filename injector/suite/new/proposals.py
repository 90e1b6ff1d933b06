"""What a new voirfile says of the loops that a run of the program went through."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ...analysis.profile import SourceLine, TrainingLoop, within
from . import reading
from .fetching import Fetched
from .observing import STEPS, ObservedRun
from .reading import SourceFile, scope_nodes

MOST = 4
"""A voirfile that names more loops than these would be about none of them."""
_AROUND = re.compile(
    r"enumerate|zip|iter|islice|chain|cycle|track|tqdm|progress|bar$|prefetch|log_every|wrap",
    re.IGNORECASE,
)
"""What is put around a loader, and draws from it."""

_ONLY_SOME = "Not every iteration of it is a step: gradients are accumulated, or batches skipped."
_LEFT = "A `break` may leave it in the middle of an iteration, which would then be no step."
_NO_VARIABLE = "No variable stands for what drives it, and for nothing else."
_NO_OWN_LOOP = "No loop of the program's own stands around this line."
_NOT_OBSERVED = "It was not seen in a run: `inject new`, where the program can run, names it."
_NO_LOOP = "No training loop was found."


@dataclass(frozen=True)
class Line:
    """One call that the voirfile makes."""

    call: str
    """``loader`` or ``value``."""
    selector: str
    name: str = ""
    """What a value is called."""
    place: str = ""
    """``train.py:42  for x, y in loader:``."""
    steps_at: frozenset[tuple[str, int]] = frozenset()
    """Of a loader: the lines that make its steps."""

    def text(self) -> str:
        """As Python."""
        name = f', "{self.name}"' if self.name else ""
        return f'ov.{self.call}("{self.selector}"{name}, task="train")'


class Remark(NamedTuple):
    """What a voirfile says in a comment."""

    text: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.place}\n{self.text}" if self.place else self.text


@dataclass(frozen=True)
class Proposal:
    """The lines of a voirfile, and its comments."""

    lines: tuple[Line, ...] = ()
    remarks: tuple[Remark, ...] = ()
    places: tuple[str, ...] = ()
    """Where the loops are that it is about."""
    libraries: tuple[str, ...] = ()
    """Those that the program uses and for which a voirfile is shipped."""
    steps: int = STEPS
    """That the program makes, as :class:`.ObservedRun` has them."""


def unobserved(files: Iterable[SourceFile], libraries: tuple[str, ...]) -> Proposal:
    """For a program that did not run: its voirfile leaves all to the shipped ones.

    Comments name the loops in which gradients are computed.
    """
    places = dict.fromkeys(
        file.show(loop)
        for file in files
        for node in ast.walk(file.tree)
        if reading.is_backward(node) and (loop := file.loop(node.lineno)) is not None
    )
    who = _found_by(libraries)
    remarks = [Remark(f"{_NOT_OBSERVED} {who}", place) for place in list(places)[:MOST]]
    return Proposal((), tuple(remarks) or (Remark(f"{_NO_LOOP} {who}"),), (), libraries)


def propose(fetched: Fetched, seen: ObservedRun) -> Proposal:
    """What a run has shown: for each loop what drives it, and its losses."""
    lines: dict[str, Line] = {}
    remarks: list[Remark] = []
    places: dict[str, None] = {}
    losses: dict[str, None] = {}
    who = _found_by(seen.libraries)
    for loop in seen.loops[:MOST]:
        place, selector, why = _loop(fetched, loop)
        if place in places:
            continue
        places[place] = None
        if selector:
            lines.setdefault(selector, Line("loader", selector, "", place, _steps_at(loop)))
        else:
            remarks.append(Remark(f"{why} {who}", place))
        losses |= dict.fromkeys(_losses(fetched, loop))
    for selector in losses:
        lines.setdefault(selector, Line("value", selector, _value_name(selector, list(losses))))
    if not places:
        remarks.append(Remark(f"{_NO_LOOP} {who}"))
    return Proposal(
        tuple(lines.values()), tuple(remarks), tuple(places), seen.libraries, seen.steps
    )


def confirmed(proposal: Proposal, seen: ObservedRun) -> Proposal:
    """The lines that did in a run with them (``seen``) what the run without them has shown."""
    lines, remarks = [], list(proposal.remarks)
    for line in proposal.lines:
        same = [loop for loop in seen.loops if line.steps_at & _steps_at(loop)]
        each_is_a_step = same and all(loop.updates_per_step > 0.99 for loop in same)
        if line.selector in seen.fired and (line.call == "value" or each_is_a_step):
            lines.append(line)
        elif line.call == "loader":
            remarks.append(Remark(f"{_ONLY_SOME} {_found_by(proposal.libraries)}", line.place))
    return replace(proposal, lines=tuple(lines), remarks=tuple(remarks))


def _steps_at(loop: TrainingLoop) -> frozenset[tuple[str, int]]:
    return frozenset((at.file, at.line) for at in _places(loop, "backward", "optimizer"))


def _places(loop: TrainingLoop, *names: str) -> list[SourceLine]:
    """The line that paces a loop, then those of regions of its steps."""
    made = [node.place for node in within(loop.tree) if node.name in names]
    return [at for at in (loop.place, *made) if at is not None]


def _found_by(libraries: Iterable[str]) -> str:
    """Who finds the steps of a loop that is not named."""
    if names := ", ".join(libraries):
        return f"Its steps are found by what is shipped for {names}."
    return (
        "Nothing is shipped for what it trains with: name the function that makes a step, "
        'as in ov.step("//train_step").'
    )


# --- a loop, and what drives it ---------------------------------------------------------------------


def _loop(fetched: Fetched, loop: TrainingLoop) -> tuple[str, str, str]:
    """Where a loop is; a selector of what drives it, or why there is none."""
    places = _places(loop, "optimizer", "backward")
    for at in places:
        source = reading.read(Path(at.file), fetched.roots, fetched.main)
        others = [o.line for o in places if (o.file, o.function) == (at.file, at.function)]
        node = source.loop(at.line, *others) if source is not None else None
        if source is None or node is None:
            continue  # a library paces it
        if any(
            isinstance(n, (ast.Yield, ast.YieldFrom)) for n in scope_nodes(source.scope(at.line)[0])
        ):
            continue  # or a generator that the loop draws from
        place = source.show(node)
        if loop.fetches_per_step > 1.01:
            return place, "", _ONLY_SOME
        if isinstance(node, ast.While):
            return place, "", _NO_VARIABLE
        if any(isinstance(each, ast.Break) for each in _own_statements(node)):
            return place, "", _LEFT
        return place, _driver(source, node) or "", _NO_VARIABLE
    if loop.place is None:
        return "", "", _NO_OWN_LOOP
    at = loop.place
    source = reading.read(Path(at.file), fetched.roots, fetched.main)
    shown = (
        source.show(at.line) if source is not None else f"{Path(at.file).name}:{at.line}  {at.text}"
    )
    return shown, "", _NO_OWN_LOOP


def _own_statements(loop: ast.For | ast.AsyncFor) -> Iterator[ast.AST]:
    """What is in a loop and in no loop or function inside it: a `break` there leaves it."""
    waiting: list[ast.AST] = list(loop.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*reading.LOOP, *reading.DEFINITION)):
            waiting += ast.iter_child_nodes(node)


def _driver(source: SourceFile, loop: ast.For | ast.AsyncFor) -> str | None:
    """A selector of the variable that drives ``loop``, if it drives nothing else.

    Each iteration of whatever loop it drives will count as a training step.
    """
    scope, path = source.scope(loop.lineno)
    name = ast.unparse(_inside(loop.iter, scope))
    scopes = {path: scope}
    if re.fullmatch(r"self\.\w+", name) and (owner := source.owner(loop.lineno)) is not None:
        methods = [node for node in owner.body if isinstance(node, reading.FUNCTION)]
        scopes = {source.scope(node.body[0].lineno)[1]: node for node in methods}
    elif not name.isidentifier():
        return None
    drawn = [
        node
        for each in scopes.values()
        for node in scope_nodes(each)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension))
        and ast.unparse(_inside(node.iter, each)) == name
    ]
    made = {at: found for at, each in scopes.items() if (found := list(_values(each, name)))}
    if len(drawn) != 1 or any(_handed_on(each, name) for each in scopes.values()):
        return None
    if any(_callee(value) == "range" for found in made.values() for value in found):
        return None  # numbers are no batches
    if name.startswith("self."):
        return f"{next(iter(made))} > {name}" if len(made) == 1 else None
    if isinstance(scope, ast.Module) and not made:
        return None
    return f"{path} > {name}"


def _inside(node: ast.expr, scope: ast.AST) -> ast.expr:
    """What an expression iterates over, without counters and progress bars around it."""
    for _ in range(8):
        if isinstance(node, ast.Call) and node.args and _AROUND.search(_callee(node)):
            node = node.args[0]
        elif isinstance(node, ast.Name):
            made = list(_values(scope, node.id))
            if len(made) != 1 or not _AROUND.search(_callee(made[0])):
                break
            node = made[0]
        else:
            break
    return node


def _callee(node: ast.expr) -> str:
    """The last name of what is called; empty for what is no call with arguments."""
    called = isinstance(node, ast.Call) and node.args
    return ast.unparse(node.func).rpartition(".")[2] if called else ""  # type: ignore[attr-defined]


def _values(scope: ast.AST, name: str) -> Iterator[ast.expr]:
    """What a variable or an attribute is set to in a scope."""
    for node in scope_nodes(scope):
        if isinstance(node, ast.Assign) and any(
            _is_named(each, name) for target in node.targets for each in ast.walk(target)
        ):
            yield node.value


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) == name


def _handed_on(scope: ast.AST, name: str) -> bool:
    """Whether a function is given the variable, and may draw from it as well."""
    remade = list(_values(scope, name))  # loader = accelerator.prepare(loader)
    for node in scope_nodes(scope):
        if not isinstance(node, ast.Call) or node in remade:
            continue
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        function = ast.unparse(node.func).rpartition(".")[2]
        harmless = hasattr(builtins, function) or _AROUND.search(function)
        if not harmless and any(_is_named(each, name) for each in given):
            return True
    return False


# --- losses -----------------------------------------------------------------------------------------


def _losses(fetched: Fetched, loop: TrainingLoop) -> Iterator[str]:
    """Selectors of the variables that a step computed gradients of."""
    for at in _places(loop, "backward"):
        source = reading.read(Path(at.file), fetched.roots, fetched.main)
        if source is None:
            continue
        scope, path = source.scope(at.line)
        for call in scope_nodes(scope):
            if not reading.is_backward(call) or call.lineno != at.line:
                continue
            name = _loss(call)
            stored = [
                node
                for node in scope_nodes(scope)
                if isinstance(node, ast.Name)
                and node.id == name
                and isinstance(node.ctx, ast.Store)
            ]
            if len(stored) == 1:
                yield f"{path} > {name}"


def _loss(call: ast.Call) -> str:
    """The variable that ``loss.backward()`` or ``accelerator.backward(loss)`` is about."""
    assert isinstance(call.func, ast.Attribute)
    of = call.func.value
    if isinstance(of, ast.Call) and of.args:  # scaler.scale(loss).backward()
        of = of.args[0]
    if call.args and isinstance(call.args[0], ast.Name):
        of = call.args[0]
    return of.id if isinstance(of, ast.Name) else ""


def _value_name(selector: str, losses: list[str]) -> str:
    """``loss`` where there is one; else its variable, if need be with its function."""
    if len(losses) == 1:
        return "loss"
    function, _, variable = selector.partition(" > ")
    same = [other for other in losses if other.endswith(f" > {variable}")]
    return variable if len(same) == 1 else f"{function.rpartition('/')[2]}_{variable}"
