"""``inject check``: shows where each probe of a voirfile would land, without running the program."""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, NamedTuple

from ..analysis.wording import count
from ..errors import UserError
from ..launch.command import Command, split
from ..rewrite.locate import NoSource, ProgramSources, display
from ..rewrite.request import Match, Unmatched
from ..rewrite.survey import survey
from ..run.declared import declared_options
from .ending import reports_errors

if TYPE_CHECKING:
    from ..overseer.planning import PlannedProbe

_HOW = {
    "assignment": "observed",
    "return": "return value",
    "enter": "on entry",
    "exit": "on exit",
    "error": "when it raises",
    "scope": "outer function",
    "binding": "attached when the name is bound",
    "wrapped": "wrapped",
    "call": "the call",
}
"""What a probe does, by the kind of place where it lands."""
_TURN_BEGINS, _TURN_ENDS = "begin of each turn", "end of each turn"
_PAIRS = (
    ("on entry", "on exit", "on entry and exit"),
    (_TURN_BEGINS, _TURN_ENDS, "begin and end of each turn"),
)
"""The words for a begin, for its end, and for both."""
_WIDEST = 72
"""The most columns that a column of the output is padded to."""


class CheckedProbe(NamedTuple):
    """One probe, where it lands, and what of it has no place."""

    probe: PlannedProbe
    landings: list[Match]
    misses: list[Unmatched]


def parser() -> argparse.ArgumentParser:
    """The options of the verb, for its help alone: the command line is parsed as that of ``inject run``."""
    result = argparse.ArgumentParser(
        prog="inject check",
        usage="inject check [OPTIONS] SCRIPT|-m MODULE [ARGUMENTS…]",
        description="Print each probe that a voirfile sets and where it lands. Nothing of the "
        "program is run or imported. Exit code 1 if a probe finds nothing. The command line is "
        "that of `inject run`; the program's arguments are not looked at.",
    )
    add = result.add_argument
    add("--voirfile", metavar="FILE", help="what to probe (repeats; voirfile.py beside the script)")
    add("--config", metavar="FILE", help="YAML that sets options of voirfiles (repeats)")
    add("--json", action="store_true", help="the same as JSON")
    return result


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Print the probes. Returns 0, 1 if a probe finds nothing, 2 for bad input."""
    words = list(argv)
    as_json = "--json" in words
    if as_json:
        words.remove("--json")
    command = split(words, declared_options)
    if "--help" in command.flags:
        parser().print_help()
        return 0
    programs = _programs(command)
    voirfiles = command.all_voirfiles()
    if not voirfiles:
        raise UserError("there is no voirfile to check: name one with --voirfile FILE")
    checked = check(programs, voirfiles, command.options, command.configs)
    if as_json:
        print(json.dumps(_as_dict(checked), indent=2))
    else:
        _print(checked, programs)
    return 1 if any(one.misses for one in checked) else 0


def check(
    programs: list[ProgramSources],
    voirfiles: list[str],
    options: list[list[str]],
    configs: list[str],
) -> list[CheckedProbe]:
    """Each probe that the voirfiles set, with its places in the first of ``programs`` where it finds any.

    The misses of the others are those in the first of ``programs``. Raises UserError.
    """
    from ..overseer import planning

    with redirect_stdout(sys.stderr):  # what voirfiles print is no part of the result
        probes = planning.plan(voirfiles, options, configs)
    wanted = [target for probe in probes for target in probe.targets]
    landings, misses = survey(programs[0], wanted)
    for program in programs[1:]:
        missing = {miss.request.hook for miss in misses}
        found, _ = survey(program, [target for target in wanted if target[0].hook in missing])
        landings += found
        placed = {landing.request.hook for landing in found}
        misses = [miss for miss in misses if miss.request.hook not in placed]
    return [_checked(probe, landings, misses) for probe in probes]


def _checked(probe: PlannedProbe, landings: list[Match], misses: list[Unmatched]) -> CheckedProbe:
    """``probe`` with those of the ``landings`` and ``misses`` that are its own."""
    hooks = {request.hook for request, _ in probe.targets}
    return CheckedProbe(
        probe,
        [landing for landing in landings if landing.request.hook in hooks],
        [miss for miss in misses if miss.request.hook in hooks],
    )


# --- what is checked ------------------------------------------------------------------------------


def _programs(command: Command) -> list[ProgramSources]:
    """Every program that may be ``__main__`` of a process of the command, the likeliest first.

    ``torchrun train.py`` and ``-m pdb train.py`` run two, themselves and the script that they start, and
    both are probed. Whether ``-m lint train.py`` does so cannot be known without running it.

    Raises UserError.
    """
    launched = [] if command.kind == "script" else _launched(command.arguments)
    try:
        return [*launched, _launcher(command)]
    except UserError:
        if not launched:
            raise
        return launched  # the launcher is no Python program: `env`, for example


def _launcher(command: Command) -> ProgramSources:
    """The program that the command itself names. Raises UserError."""
    if command.kind in ("module", "function"):
        return _program(ProgramSources.module, command.target.partition(":")[0])
    if command.kind == "script":
        return _program(ProgramSources.script, command.target)
    if command.kind == "command":  # the command of a package is a Python script
        return _program(ProgramSources.script, str(shutil.which(command.target)))
    raise UserError("name a script or `-m MODULE`: there is nothing else to read")


def _launched(words: Sequence[str]) -> list[ProgramSources]:
    """The first script or module among a launcher's arguments that can be read, if any."""
    for before, word in zip(["", *words], words, strict=False):
        try:
            if before in ("-m", "--module"):
                return [_program(ProgramSources.module, word)]
            if word.endswith(".py") and os.path.isfile(word):
                return [_program(ProgramSources.script, word)]
        except UserError:
            continue
    return []


def _program(read: Callable[[str], ProgramSources], target: str) -> ProgramSources:
    """``read(target)``. Raises UserError if it cannot be read, or its main file does not parse."""
    try:
        program = read(target)
        if program.main is not None:
            ast.parse(program.main.data, program.main.file)
    except (ImportError, NoSource) as error:
        raise UserError(str(error)) from None
    except (SyntaxError, ValueError) as error:
        raise UserError(f"the program does not parse: {error}") from None
    return program


# --- how it is shown ------------------------------------------------------------------------------


def _print(checked: list[CheckedProbe], programs: list[ProgramSources]) -> None:
    for one in checked:
        print(f"{display(one.probe.file)}:{one.probe.line}   {one.probe.selector}")
        rows = _joined([_row(landing, programs) for landing in one.landings])
        widths = [min(max(map(len, column)), _WIDEST) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True) if width]
            print("    " + "   ".join(cells).rstrip())
        events = "#" in one.probe.selector
        for text in dict.fromkeys(_sentence(miss, events) for miss in one.misses):
            print(text)
        print()
    print(_summary(checked))


def _joined(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """``rows``, each once; those of a begin and its end, of which a region or a step has both, as one."""
    joined: dict[tuple[str, str, str], None] = {}
    for place, text, how in rows:
        shown = how
        for begin, end, both in _PAIRS:
            for one, other in ((begin, end), (end, begin)):
                if how.startswith(one) and (place, text, how.replace(one, other, 1)) in rows:
                    shown = how.replace(one, both, 1)
        joined[place, text, shown] = None
    return list(joined)


def _row(landing: Match, programs: list[ProgramSources]) -> tuple[str, str, str]:
    """Of one landing: its place, the text of its line, and what the probe does there."""
    if landing.kind == "wrapped":
        return f"{landing.module}.{landing.function}", "", "wrapped"
    how = _how(landing)
    if landing.request.override and landing.request.variable != "#scope":
        how = "overridden" if landing.kind == "assignment" else f"{how}, overridden"
    note = _note(landing, programs)
    return (
        f"{display(landing.file)}:{landing.line}",
        landing.source,
        f"{how} ({note})" if note else how,
    )


def _how(landing: Match) -> str:
    """What the probe does at a place, in words."""
    variable = landing.request.variable or ""
    if landing.kind == "loop":
        ends = {"#loop": _TURN_BEGINS, "#endloop": _TURN_ENDS}
        return ends.get(variable.partition("_")[0], "observed")
    return _HOW.get(landing.kind, landing.kind)


def _note(landing: Match, programs: list[ProgramSources]) -> str:
    """The note on the source that has the landing; "" without one."""
    for program in programs:
        try:
            source = program.find(landing.module)
        except NoSource:
            continue
        if source is not None and source.file == landing.file:
            return source.note
    return ""


def _sentence(miss: Unmatched, events: bool) -> str:
    """Why nothing was found; functions are named without ``> #enter`` unless the selector has ``events``."""
    lines = [f"    not found: {miss.reason}"]
    for n, near in enumerate(miss.nearest):
        name = near if events else near.replace(" > #enter", "").replace(" > #exit", "")
        lines.append(f"    {'' if n else 'nearest:':<10} {name}")
    return "\n".join(lines)


def _summary(checked: list[CheckedProbe]) -> str:
    if not checked:
        return "the voirfile sets no probe before the program runs"
    missing = sum(1 for one in checked if one.misses)
    probes = count(len(checked), "probe")
    return f"{probes}: {missing} cannot be placed" if missing else f"{probes}: all land"


def _as_dict(checked: list[CheckedProbe]) -> dict[str, Any]:
    """What ``--json`` prints."""

    def landing_as_dict(landing: Match) -> dict[str, Any]:
        fields = landing._asdict()
        request = fields.pop("request")
        return {"variable": request.variable, "override": request.override, **fields}

    return {
        "probes": [
            {
                "selector": one.probe.selector,
                "file": one.probe.file,
                "line": one.probe.line,
                "landings": [landing_as_dict(landing) for landing in one.landings],
                "misses": [
                    {"reason": miss.reason, "nearest": list(miss.nearest)} for miss in one.misses
                ],
            }
            for one in checked
        ],
        "missing": sum(1 for one in checked if one.misses),
    }
