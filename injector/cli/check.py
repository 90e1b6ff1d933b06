"""``inject check``: where each probe of a voirfile would land, without running the program."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import UserError
from ..rewrite.locate import NoSource, Program, display
from ..rewrite.request import Landing, Miss
from ..rewrite.survey import survey

if TYPE_CHECKING:
    from ..overseer.dry import PlannedProbe

HELP = "show where a voirfile's probes land, without running the program"

_HOW = {
    "assignment": "observed",
    "return": "return value",
    "enter": "on entry",
    "exit": "on exit",
    "error": "when it raises",
    "scope": "outer function",
    "loop": "loop",
    "binding": "attached when the name is bound",
    "wrapped": "wrapped",
}
_WIDEST = 72


class Checked(NamedTuple):
    """One probe and what came of it."""

    probe: PlannedProbe
    landings: list[Landing]
    misses: list[Miss]


def parser() -> argparse.ArgumentParser:
    """The verb's own options; what they leave over goes to the voirfiles."""
    result = argparse.ArgumentParser(
        prog="inject check",
        usage="inject check (SCRIPT | -m MODULE) --voirfile FILE [voirfile options]",
        description="Print each probe that a voirfile sets and where it lands. "
        "Nothing of the program is run or imported. Exit code 1 if a probe finds nothing.",
        allow_abbrev=False,
    )
    result.add_argument("target", nargs="?", help="script, folder or zip file")
    result.add_argument("-m", dest="module", help="a module as `python -m` runs it")
    result.add_argument("--voirfile", action="append", default=[], metavar="FILE")
    result.add_argument("--config", action="append", default=[], metavar="FILE")
    result.add_argument("--json", action="store_true", help="the same as JSON")
    return result


def main(argv: Sequence[str]) -> int:
    """Run the verb; returns 0, 1 if a probe finds nothing, 2 on bad input."""
    given, options = parser().parse_known_args(argv)
    try:
        program = _program(given.target, given.module)
        checked = check(program, _voirfiles(given), options, given.config)
    except UserError as error:
        print(f"inject check: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps(_record(checked), indent=2))
    else:
        _print(checked, program)
    return 1 if any(one.misses for one in checked) else 0


def check(
    program: Program, voirfiles: list[str], options: list[str], configs: list[str]
) -> list[Checked]:
    """Each probe that the voirfiles set, with where it lands. Raises UserError."""
    from .. import overseer

    with redirect_stdout(sys.stderr):  # what a voirfile prints is no part of the answer
        probes = overseer.plan(voirfiles, options, configs)
    landings, misses = survey(program, [target for probe in probes for target in probe.targets])
    result = []
    for probe in probes:
        hooks = {request.hook for request, _ in probe.targets}
        result.append(
            Checked(
                probe,
                [landing for landing in landings if landing.request.hook in hooks],
                [miss for miss in misses if miss.request.hook in hooks],
            )
        )
    return result


def _program(target: str | None, module: str | None) -> Program:
    if (target is None) == (module is None):
        raise UserError("name one script (or `-m MODULE`)")
    try:
        program = Program.module(module) if module is not None else Program.script(str(target))
        if program.main is not None:
            compile(program.main.data, program.main.file, "exec", dont_inherit=True, flags=_PARSE)
    except (OSError, ImportError, NoSource) as error:
        raise UserError(str(error)) from None
    except (SyntaxError, ValueError) as error:
        raise UserError(f"the program does not parse: {error}") from None
    return program


_PARSE = 0x400  # ast.PyCF_ONLY_AST


def _voirfiles(given: argparse.Namespace) -> list[str]:
    found = [os.path.abspath(file) for file in given.voirfile]
    if not found and given.target is not None:
        beside = os.path.join(os.path.dirname(os.path.abspath(given.target)), "voirfile.py")
        found = [beside] if os.path.isfile(beside) else []
    if not found:
        raise UserError("name a voirfile: --voirfile FILE")
    return found


# --- how it is shown ------------------------------------------------------------------------------


def _print(checked: list[Checked], program: Program) -> None:
    for one in checked:
        print(f"{display(one.probe.file)}:{one.probe.line}   {one.probe.selector}")
        _print_rows(list(dict.fromkeys(_row(landing, program) for landing in one.landings)))
        for text in dict.fromkeys(_sentence(miss) for miss in one.misses):
            print(text)
        print()
    print(_summary(checked))


def _print_rows(rows: list[tuple[str, str, str]]) -> None:
    widths = [min(max(map(len, column)), _WIDEST) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True) if width]
        print("    " + "   ".join(cells).rstrip())


def _row(landing: Landing, program: Program) -> tuple[str, str, str]:
    if landing.kind == "wrapped":
        return f"{landing.module}.{landing.function}", "", "wrapped"
    how = _HOW.get(landing.kind, landing.kind)
    if landing.request.override and landing.request.variable != "#scope":
        how = "overridden" if landing.kind == "assignment" else f"{how}, overridden"
    note = _note(landing, program)
    return (
        f"{display(landing.file)}:{landing.line}",
        landing.source,
        f"{how} ({note})" if note else how,
    )


def _note(landing: Landing, program: Program) -> str:
    try:
        source = program.find(landing.module)
    except NoSource:
        return ""
    return source.note if source is not None and source.file == landing.file else ""


def _sentence(miss: Miss) -> str:
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
    probes = f"{len(checked)} probe{'s' if len(checked) > 1 else ''}"
    return f"{probes}: {f'{missing} cannot be placed' if missing else 'all land'}"


def _record(checked: list[Checked]) -> dict[str, Any]:
    return {
        "probes": [
            {
                "selector": one.probe.selector,
                "file": one.probe.file,
                "line": one.probe.line,
                "landings": [_landing(landing) for landing in one.landings],
                "misses": [
                    {"reason": miss.reason, "nearest": list(miss.nearest)} for miss in one.misses
                ],
            }
            for one in checked
        ],
        "missing": sum(1 for one in checked if one.misses),
    }


def _landing(landing: Landing) -> dict[str, Any]:
    fields = landing._asdict()
    request = fields.pop("request")
    return {"variable": request.variable, "override": request.override, **fields}
