"""``inject check``: where each probe of a voirfile would land, without running the program."""

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

from ..errors import UserError
from ..launch.command import Command, split
from ..rewrite.locate import NoSource, ProgramSources, display
from ..rewrite.request import Match, Unmatched
from ..rewrite.survey import survey
from .declared import declared_options
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
_WIDEST = 72


class Checked(NamedTuple):
    """One probe and what came of it."""

    probe: PlannedProbe
    landings: list[Match]
    misses: list[Unmatched]


def parser() -> argparse.ArgumentParser:
    """The verb's own options, for showing them: the command line is taken apart as for `run`."""
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
    """Run the verb; returns 0, 1 if a probe finds nothing, 2 on bad input."""
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
        print(json.dumps(_record(checked), indent=2))
    else:
        _print(checked, programs)
    return 1 if any(one.misses for one in checked) else 0


def check(
    programs: list[ProgramSources],
    voirfiles: list[str],
    options: list[list[str]],
    configs: list[str],
) -> list[Checked]:
    """Each probe that the voirfiles set, with where it lands in the first of ``programs`` that has it.

    What lands in none of them is missing from the first. Raises UserError.
    """
    from ..overseer import planning

    with redirect_stdout(sys.stderr):  # what a voirfile prints is no part of the answer
        probes = planning.plan(voirfiles, options, configs)
    wanted = [target for probe in probes for target in probe.targets]
    landings, misses = survey(programs[0], wanted)
    for program in programs[1:]:
        hooks = {miss.request.hook for miss in misses}
        found, _ = survey(program, [one for one in wanted if one[0].hook in hooks])
        landings += found
        met = {landing.request.hook for landing in found}
        misses = [miss for miss in misses if miss.request.hook not in met]
    return [_checked(probe, landings, misses) for probe in probes]


def _checked(probe: PlannedProbe, landings: list[Match], misses: list[Unmatched]) -> Checked:
    hooks = {request.hook for request, _ in probe.targets}
    return Checked(
        probe,
        [landing for landing in landings if landing.request.hook in hooks],
        [miss for miss in misses if miss.request.hook in hooks],
    )


# --- what is checked ------------------------------------------------------------------------------


def _programs(command: Command) -> list[ProgramSources]:
    """Every program that a command line may make `__main__` of some process, likeliest first.

    `torchrun train.py` and `-m pdb train.py` are processes of their own and start what they are
    given, all of it probed; whether `-m lint train.py` does, only running it would tell.
    """
    named = [] if command.kind == "script" else _named(command.arguments)
    try:
        return [*named, _own(command)]
    except UserError:
        if not named:
            raise
        return named  # a launcher that is no Python, such as `env`


def _own(command: Command) -> ProgramSources:
    if command.kind in ("module", "function"):
        return _program(ProgramSources.module, command.target.partition(":")[0])
    if command.kind == "script":
        return _program(ProgramSources.script, command.target)
    if command.kind == "command":  # a package's own command is a script itself
        return _program(ProgramSources.script, str(shutil.which(command.target)))
    raise UserError("name a script or `-m MODULE`: there is nothing else to read")


def _named(words: Sequence[str]) -> list[ProgramSources]:
    """The first script or module that a launcher is given, if it is one that can be read."""
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
    try:
        program = read(target)
        if program.main is not None:
            ast.parse(program.main.data, program.main.file)
    except (OSError, ImportError, NoSource) as error:
        raise UserError(str(error)) from None
    except (SyntaxError, ValueError) as error:
        raise UserError(f"the program does not parse: {error}") from None
    return program


# --- how it is shown ------------------------------------------------------------------------------


def _print(checked: list[Checked], programs: list[ProgramSources]) -> None:
    for one in checked:
        print(f"{display(one.probe.file)}:{one.probe.line}   {one.probe.selector}")
        rows = list(dict.fromkeys(_row(landing, programs) for landing in one.landings))
        widths = [min(max(map(len, column)), _WIDEST) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True) if width]
            print("    " + "   ".join(cells).rstrip())
        for text in dict.fromkeys(_sentence(miss) for miss in one.misses):
            print(text)
        print()
    print(_summary(checked))


def _row(landing: Match, programs: list[ProgramSources]) -> tuple[str, str, str]:
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
    variable = landing.request.variable or ""
    if landing.kind == "loop":
        ends = {"#loop": "begin of each turn", "#endloop": "end of each turn"}
        return ends.get(variable.partition("_")[0], "observed")
    return _HOW.get(landing.kind, landing.kind)


def _note(landing: Match, programs: list[ProgramSources]) -> str:
    for program in programs:
        try:
            source = program.find(landing.module)
        except NoSource:
            continue
        if source is not None and source.file == landing.file:
            return source.note
    return ""


def _sentence(miss: Unmatched) -> str:
    lines = [f"    not found: {miss.reason}"]
    if miss.nearest:
        lines += [
            f"    {'nearest:' if not n else '':<10} {one}" for n, one in enumerate(miss.nearest)
        ]
    return "\n".join(lines)


def _summary(checked: list[Checked]) -> str:
    if not checked:
        return "the voirfile sets no probe before the program runs"
    missing = sum(1 for one in checked if one.misses)
    probes = "1 probe" if len(checked) == 1 else f"{len(checked)} probes"
    return f"{probes}: {missing} cannot be placed" if missing else f"{probes}: all land"


def _record(checked: list[Checked]) -> dict[str, Any]:
    def landing(found: Match) -> dict[str, Any]:
        fields = found._asdict()
        request = fields.pop("request")
        return {"variable": request.variable, "override": request.override, **fields}

    return {
        "probes": [
            {
                "selector": one.probe.selector,
                "file": one.probe.file,
                "line": one.probe.line,
                "landings": [landing(each) for each in one.landings],
                "misses": [
                    {"reason": miss.reason, "nearest": list(miss.nearest)} for miss in one.misses
                ],
            }
            for one in checked
        ],
        "missing": sum(1 for one in checked if one.misses),
    }
