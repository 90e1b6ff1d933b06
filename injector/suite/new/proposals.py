"""The contents of a new voirfile, from the loops that a run of the program went through.

For each loop the voirfile names what drives it (``ov.loader``), if one variable does, and the losses that
gradients are computed of (``ov.value``). A comment explains what is not named.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ...analysis.profile import SourceLine
from ...analysis.training_loop import TrainingLoop, within
from . import reading
from .fetching import Fetched
from .observing import STEPS, ObservedRun
from .reading import SourceFile, scope_nodes

MOST_LOOPS = 4
"""Loops that a voirfile names at most."""
_WRAPPER = re.compile(
    r"enumerate|zip|iter|islice|chain|cycle|track|tqdm|progress|bar$|prefetch|log_every|wrap",
    re.IGNORECASE,
)
"""Names of functions that are put around a loader, and draw from it."""

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
    place: str = ""
    """The loop that a loader drives: ``train.py:42  for x, y in loader:``."""
    steps_at: frozenset[tuple[str, int]] = frozenset()
    """File and number of the lines that make the steps of a loader's loop."""

    def text(self) -> str:
        """The line of Python."""
        name = f', "{self.name}"' if self.name else ""
        return f'ov.{self.call}("{self.selector}"{name}, task="train")'


class Remark(NamedTuple):
    """A comment of the voirfile."""

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
    """The loops that were seen."""
    libraries: tuple[str, ...] = ()
    """Libraries that the program uses and for which a voirfile is shipped."""
    steps: int = STEPS
    """Steps of the program, as in :class:`.ObservedRun`."""


def unobserved(files: Iterable[SourceFile], libraries: tuple[str, ...]) -> Proposal:
    """The proposal for a program that did not run: comments that name loops which compute gradients."""
    places = dict.fromkeys(
        file.show(loop)
        for file in files
        for node in ast.walk(file.tree)
        if reading.is_backward(node) and (loop := file.loop(node.lineno)) is not None
    )
    hint = _hint(libraries)
    remarks = [Remark(f"{_NOT_OBSERVED} {hint}", place) for place in list(places)[:MOST_LOOPS]]
    return Proposal((), tuple(remarks) or (Remark(f"{_NO_LOOP} {hint}"),), (), libraries)


def propose(fetched: Fetched, seen: ObservedRun) -> Proposal:
    """The proposal after a run: for each loop what drives it, and its losses."""
    lines: dict[str, Line] = {}
    remarks: list[Remark] = []
    places: dict[str, None] = {}
    losses: dict[str, None] = {}
    hint = _hint(seen.libraries)
    for loop in seen.loops[:MOST_LOOPS]:
        place, selector, why = _described_loop(fetched, loop)
        if place in places:
            continue
        places[place] = None
        if selector:
            lines.setdefault(selector, Line("loader", selector, "", place, _steps_at(loop)))
        else:
            remarks.append(Remark(f"{why} {hint}", place))
        losses |= dict.fromkeys(_loss_selectors(fetched, loop))
    for selector in losses:
        lines.setdefault(selector, Line("value", selector, _value_name(selector, list(losses))))
    if not places:
        remarks.append(Remark(f"{_NO_LOOP} {hint}"))
    return Proposal(
        tuple(lines.values()), tuple(remarks), tuple(places), seen.libraries, seen.steps
    )


def confirmed(proposal: Proposal, seen: ObservedRun) -> Proposal:
    """The proposal without the lines that did not work in a run with them, which showed ``seen``.

    A probe has to fire, and each iteration of a loader has to be a step with an update.
    """
    lines, remarks = [], list(proposal.remarks)
    for line in proposal.lines:
        loops = [loop for loop in seen.loops if line.steps_at & _steps_at(loop)]
        each_is_a_step = loops and all(loop.updates_per_step > 0.99 for loop in loops)
        if line.selector in seen.fired and (line.call == "value" or each_is_a_step):
            lines.append(line)
        elif line.call == "loader":
            remarks.append(Remark(f"{_ONLY_SOME} {_hint(proposal.libraries)}", line.place))
    return replace(proposal, lines=tuple(lines), remarks=tuple(remarks))


def _steps_at(loop: TrainingLoop) -> frozenset[tuple[str, int]]:
    return frozenset((line.file, line.line) for line in _places(loop, "backward", "optimizer"))


def _places(loop: TrainingLoop, *regions: str) -> list[SourceLine]:
    """The line that paces a loop, then the lines of ``regions`` in its steps."""
    lines = [node.place for node in within(loop.tree) if node.name in regions]
    return [line for line in (loop.place, *lines) if line is not None]


def _hint(libraries: Iterable[str]) -> str:
    """How the steps of a loop that is not named are found, as a sentence."""
    if names := ", ".join(libraries):
        return f"Its steps are found by what is shipped for {names}."
    return (
        "Nothing is shipped for what it trains with: name the function that makes a step, "
        'as in ov.step("//train_step").'
    )


# --- a loop, and what drives it ---------------------------------------------------------------------


def _described_loop(fetched: Fetched, loop: TrainingLoop) -> tuple[str, str, str]:
    """The place of a loop, as text; a selector of what drives it, or ""; why there is none, if so."""
    places = _places(loop, "optimizer", "backward")
    for at in places:
        source = reading.read(Path(at.file), fetched.roots, fetched.main)
        others = [
            other.line for other in places if (other.file, other.function) == (at.file, at.function)
        ]
        node = source.loop(at.line, *others) if source is not None else None
        if source is None or node is None:
            continue  # a line of a library
        scope, _ = source.scope(at.line)
        if any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in scope_nodes(scope)):
            continue  # a line of a generator from which the loop draws
        place = source.show(node)
        if loop.fetches_per_step > 1.01:
            return place, "", _ONLY_SOME
        if isinstance(node, ast.While):
            return place, "", _NO_VARIABLE
        if any(isinstance(inner, ast.Break) for inner in _own_statements(node)):
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
    """The nodes in a loop that are in no loop or function within it: a ``break`` there leaves this loop."""
    waiting: list[ast.AST] = list(loop.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*reading.LOOP, *reading.DEFINITION)):
            waiting += ast.iter_child_nodes(node)


def _driver(source: SourceFile, loop: ast.For | ast.AsyncFor) -> str | None:
    """A selector of the variable over which ``loop`` iterates, or None.

    Each iteration over it will count as a training step, so it may drive no other loop: neither in its scope
    (for an attribute of ``self``, in all methods of the class) nor in a function that it is passed to.
    """
    scope, path = source.scope(loop.lineno)
    name = ast.unparse(_iterated(loop.iter, scope))
    scopes = {path: scope}
    if re.fullmatch(r"self\.\w+", name) and (owner := source.owner(loop.lineno)) is not None:
        methods = [node for node in owner.body if isinstance(node, reading.FUNCTION)]
        scopes = {source.scope(node.body[0].lineno)[1]: node for node in methods}
    elif not name.isidentifier():
        return None
    loops = [
        node
        for inner in scopes.values()
        for node in scope_nodes(inner)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension))
        and ast.unparse(_iterated(node.iter, inner)) == name
    ]
    values = {at: list(_assigned(inner, name)) for at, inner in scopes.items()}
    assigned_in = [at for at, assigned in values.items() if assigned]
    if len(loops) != 1 or any(_is_passed_on(inner, name) for inner in scopes.values()):
        return None
    if any(_callee(value) == "range" for assigned in values.values() for value in assigned):
        return None  # numbers are no batches
    if name.startswith("self."):
        return f"{assigned_in[0]} > {name}" if len(assigned_in) == 1 else None
    if isinstance(scope, ast.Module) and not assigned_in:
        return None
    return f"{path} > {name}"


def _iterated(node: ast.expr, scope: ast.AST) -> ast.expr:
    """What an expression iterates over, without counters and progress bars around it.

    A variable that is assigned such a wrapper stands for that: ``bar = tqdm(loader)``.
    """
    for _ in range(8):
        if isinstance(node, ast.Call) and node.args and _WRAPPER.search(_callee(node)):
            node = node.args[0]
        elif isinstance(node, ast.Name):
            values = list(_assigned(scope, node.id))
            if len(values) != 1 or not _WRAPPER.search(_callee(values[0])):
                break
            node = values[0]
        else:
            break
    return node


def _callee(node: ast.expr) -> str:
    """The last name of the function that is called with arguments; "" for any other expression."""
    if not isinstance(node, ast.Call) or not node.args:
        return ""
    return ast.unparse(node.func).rpartition(".")[2]


def _assigned(scope: ast.AST, name: str) -> Iterator[ast.expr]:
    """The values that are assigned to a variable or an attribute in a scope."""
    for node in scope_nodes(scope):
        if isinstance(node, ast.Assign) and any(
            _is_named(part, name) for target in node.targets for part in ast.walk(target)
        ):
            yield node.value


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) == name


def _is_passed_on(scope: ast.AST, name: str) -> bool:
    """Whether the variable is passed to a function that may draw from it as well."""
    values = list(_assigned(scope, name))  # loader = accelerator.prepare(loader)
    for node in scope_nodes(scope):
        if not isinstance(node, ast.Call) or node in values:
            continue
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        function = ast.unparse(node.func).rpartition(".")[2]
        is_harmless = hasattr(builtins, function) or _WRAPPER.search(function)
        if not is_harmless and any(_is_named(argument, name) for argument in arguments):
            return True
    return False


# --- losses -----------------------------------------------------------------------------------------


def _loss_selectors(fetched: Fetched, loop: TrainingLoop) -> Iterator[str]:
    """Selectors of the losses of a loop: variables, each assigned once, that ``backward`` is called of."""
    for at in _places(loop, "backward"):
        source = reading.read(Path(at.file), fetched.roots, fetched.main)
        if source is None:
            continue
        scope, path = source.scope(at.line)
        for call in scope_nodes(scope):
            if not reading.is_backward(call) or call.lineno != at.line:
                continue
            name = _loss_variable(call)
            stores = [
                node
                for node in scope_nodes(scope)
                if isinstance(node, ast.Name)
                and node.id == name
                and isinstance(node.ctx, ast.Store)
            ]
            if len(stores) == 1:
                yield f"{path} > {name}"


def _loss_variable(call: ast.Call) -> str:
    """The variable of ``loss.backward()`` or ``accelerator.backward(loss)``; "" for other expressions."""
    assert isinstance(call.func, ast.Attribute)
    loss = call.func.value
    if isinstance(loss, ast.Call) and loss.args:  # scaler.scale(loss).backward()
        loss = loss.args[0]
    if call.args and isinstance(call.args[0], ast.Name):
        loss = call.args[0]
    return loss.id if isinstance(loss, ast.Name) else ""


def _value_name(selector: str, losses: list[str]) -> str:
    """``loss`` if there is one; of several the variable, with its function if others have the same."""
    if len(losses) == 1:
        return "loss"
    function, _, variable = selector.partition(" > ")
    same = [other for other in losses if other.endswith(f" > {variable}")]
    return variable if len(same) == 1 else f"{function.rpartition('/')[2]}_{variable}"
