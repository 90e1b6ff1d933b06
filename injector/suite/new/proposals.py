"""What a new voirfile will say about a program's loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .loops import Finder, Loop
from .modules import Program
from .naming import loader
from .signs import Sign

MOST = 4
"""A voirfile that names more loops than these would be about none of them."""


@dataclass(frozen=True)
class Line:
    """One call that the voirfile will make."""

    call: str
    """``loader`` or ``value``."""
    selector: str
    name: str = ""
    """What a value is called."""
    place: str = ""
    """``train.py:42  for x, y in loader:``."""

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
    """What is said, and what is only remarked."""

    lines: tuple[Line, ...] = ()
    remarks: tuple[Remark, ...] = ()
    found: tuple[str, ...] = ()
    """Places of the loops that it is about."""
    libraries: tuple[str, ...] = ()
    """Those that the program imports and for which a voirfile is shipped."""

    def keeping(self, selectors: Iterable[str]) -> Proposal:
        """Only the lines whose selectors are among those given."""
        kept = set(selectors)
        lines = tuple(line for line in self.lines if line.selector in kept)
        remarks = self.remarks
        if not lines and not remarks:
            remarks = tuple(Remark(_by_themselves(self.libraries), place) for place in self.found)
        return Proposal(lines, remarks, self.found, self.libraries)


@dataclass(frozen=True)
class Seen:
    """A loop that a run of the program went through."""

    file: str
    line: int
    function: str
    text: str
    fetches: float
    """Batches in a step."""


_ONLY_SOME = "Not every turn of it is a step: gradients are gathered, or turns are skipped."
_LEFT = "It is left in the middle of a turn, which would then be no step."
_NO_VARIABLE = "No variable stands for what drives it, and for nothing else."
_NOT_SEEN_CALLED = "It was not seen what leads there: inject new --try finds out."
_NONE = "No training loop was seen in its own source."


def _by_themselves(libraries: Sequence[str]) -> str:
    """Who finds the steps of a loop that is not named."""
    if libraries:
        return f"Its steps are found by what is shipped for {', '.join(libraries)}."
    return (
        "Nothing is shipped for what it trains with: name the function that makes a step, "
        'as in ov.step("//train_step").'
    )


def known(program: Program, shipped: Mapping[str, str]) -> tuple[str, ...]:
    """The voirfiles that are shipped for what a program imports."""
    return tuple(sorted({shipped[name] for name in program.foreign if name in shipped}))


def propose(
    program: Program, finder: Finder, shipped: Mapping[str, str], seen: Sequence[Seen] = ()
) -> Proposal:
    """What reading the program's source suggests, and what a run of it has shown.

    ``shipped``: the libraries for which voirfiles are shipped, with the voirfile's name. ``seen``: the
    loops that a run went through, the longest first; a run that was ended early went through some.
    """
    libraries = known(program, shipped)
    loops = [loop for loop in finder.loops() if not loop.rank[0]]
    fetches = {loop: one.fetches for one in seen if (loop := _around(finder, one)) is not None}
    meant = list(dict.fromkeys([*fetches, *_led_to(finder, loops)]))
    if meant:
        return _naming(finder, program, meant[:MOST], fetches, libraries)
    by_themselves = _by_themselves(libraries)
    places = [f"{Path(one.file).name}:{one.line}  {one.text}" for one in seen[:MOST]]
    if places:
        remarks = [Remark(by_themselves, place) for place in places]
    elif loops:
        why = f"{_NOT_SEEN_CALLED} {by_themselves}"
        remarks = [Remark(why, _place(loop, program)) for loop in loops[:MOST]]
    else:
        remarks = [Remark(f"{_NONE} {by_themselves}")]
    return Proposal((), tuple(remarks), tuple(places), libraries)


def _led_to(finder: Finder, loops: Sequence[Loop]) -> list[Loop]:
    """Those of ``loops`` that the program's start leads to."""
    reached = finder.reached()
    meant = [loop for loop in loops if loop.scope in reached]
    updating = [loop for loop in meant if loop.does & Sign.UPDATE]
    return updating or meant


def _around(finder: Finder, seen: Seen) -> Loop | None:
    """The innermost loop around a line that a step was seen to begin at."""
    around = [
        loop
        for loop in finder.loops()
        if loop.line <= seen.line <= (loop.node.end_lineno or 0)
        and _same_file(loop.scope.module.file, seen.file)
    ]
    return max(around, key=lambda loop: loop.line, default=None)


def _same_file(file: Path, other: str) -> bool:
    """Whether two files are the same, or one is an installed copy of the other."""
    if str(file) == other or str(file.resolve()) == str(Path(other).resolve()):
        return True
    return file.parts[-3:] == Path(other).parts[-3:]


def _naming(
    finder: Finder,
    program: Program,
    loops: Sequence[Loop],
    fetches: Mapping[Loop, float],
    libraries: tuple[str, ...],
) -> Proposal:
    lines: dict[str, Line] = {}
    remarks = []
    for loop in loops:
        place = _place(loop, program)
        why = _why_not_each_turn(loop, fetches.get(loop, 1.0))
        selector = None if why else loader(finder, loop)
        if selector is not None:
            lines.setdefault(selector, Line("loader", selector, "", place))
        else:
            said = f"{why or _NO_VARIABLE} {_by_themselves(libraries)}"
            remarks.append(Remark(said, place))
    losses = dict.fromkeys(loss for loop in loops for loss in loop.losses)
    for selector in losses:
        lines.setdefault(selector, Line("value", selector, _called(selector, list(losses))))
    found = tuple(_place(loop, program) for loop in loops)
    return Proposal(tuple(lines.values()), tuple(remarks), found, libraries)


def _why_not_each_turn(loop: Loop, fetches: float) -> str:
    """Why turns of a loop and steps are not the same; empty where they are."""
    if not loop.sure or fetches > 1.5:
        return _ONLY_SOME
    return _LEFT if loop.left else ""


def _called(selector: str, all_of_them: Sequence[str]) -> str:
    """What a loss is called: ``loss`` where there is one, else by its variable, if need be its function."""
    if len(all_of_them) == 1:
        return "loss"
    function, _, variable = selector.partition(" > ")
    others = [other for other in all_of_them if other.endswith(f" > {variable}")]
    return variable if len(others) == 1 else f"{function.rpartition('/')[2]}_{variable}"


def _place(loop: Loop, program: Program) -> str:
    file = loop.scope.module.file
    for root in program.roots:
        if file.is_relative_to(root):
            return f"{file.relative_to(root)}:{loop.line}  {loop.text}"
    return f"{file.name}:{loop.line}  {loop.text}"
