"""``inject functions``: what can be named in a program or module, ready to paste."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import UserError
from ..rewrite.inventory import Function, inventory
from ..rewrite.locate import (
    NoSource,
    ProgramSources,
    Source,
    display,
    find,
    inherited_path,
    module_files,
)
from .ending import reports_errors

_NOTE = (
    "Every function also has #enter, #exit, #error and #value: //f > #enter; "
    "what it returns: //f() as result"
)
_WIDEST = 60


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    result = argparse.ArgumentParser(
        prog="inject functions",
        description="List what can be named in a program or a module, with selectors to paste. "
        "Nothing of it is run or imported.",
    )
    result.add_argument("target", nargs="?", help="script, folder, zip file, module or package")
    result.add_argument("-m", dest="module", help="a module as `python -m` runs it")
    result.add_argument("--grep", metavar="PATTERN", help="only selectors that match this regex")
    result.add_argument("--json", action="store_true", help="the same as JSON")
    return result


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Run the verb; returns 0, 1 if nothing was found, 2 on bad input."""
    given = parser().parse_args(argv)
    if bool(given.target) == bool(given.module):
        raise UserError("name one script, module or package (or `-m MODULE`)")
    wanted = _pattern(given.grep)
    found = [f for source in _sources(given.target, given.module) for f in _listed(source)]
    if given.json:
        print(json.dumps([_record(f, wanted) for f in found if _matches(f, wanted)], indent=2))
    else:
        _print(found, wanted)
    if any(_matches(f, wanted) for f in found):
        return 0
    what = given.target or given.module
    pattern = f" that matches {given.grep!r}" if wanted else ""
    print(f"inject: {what} has nothing to name{pattern}", file=sys.stderr)
    return 1


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise UserError(f"--grep {text!r} is no regular expression: {error}") from None


# --- which sources --------------------------------------------------------------------------------


def _sources(target: str | None, module: str | None) -> list[Source]:
    try:
        if module is not None:
            main = ProgramSources.module(module).main
            return [main] if main is not None else []
        assert target is not None
        is_main = not os.path.isdir(target) or os.path.isfile(os.path.join(target, "__main__.py"))
        if os.path.exists(target) and is_main:
            main = ProgramSources.script(target).main
            return [main] if main is not None else []
        if os.path.isfile(os.path.join(target, "__init__.py")):
            above, name = os.path.split(os.path.realpath(target))
            return _module_sources(name, [above, *inherited_path()])
        name = target.strip("/").replace("/", ".")
        if not all(part.isidentifier() for part in name.split(".")):
            there = "there is no __main__.py in" if os.path.isdir(target) else "there is no file"
            raise UserError(f"{there} {target}")
        return _module_sources(name, [os.getcwd(), *inherited_path()])
    except (OSError, ImportError, NoSource) as error:
        raise UserError(str(error)) from None


def _module_sources(name: str, path: list[str]) -> list[Source]:
    listed = module_files(name, path)
    if listed:
        return [source for source in (find(one, path) for one in listed) if source is not None]
    source = find(name, path)
    if source is None:
        raise UserError(f"there is no file and no module {name}")
    return [source]


def _listed(source: Source) -> list[Function]:
    try:
        return inventory(source.text, source.module, source.file)
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{source.file} does not parse: {error}") from None


# --- how it is shown ------------------------------------------------------------------------------


def _print(found: list[Function], wanted: re.Pattern[str] | None) -> None:
    blocks = [(function, list(_lines(function, wanted))) for function in found]
    blocks = [(f, lines) for f, lines in blocks if _worth(f, lines, wanted)]
    width = max((len(text) for _, lines in blocks for text, _ in lines), default=0)
    for number, (function, lines) in enumerate(blocks):
        if number:
            print()
        print(f"{_signature(function)}   {display(function.file)}:{function.line}")
        for text, line in lines:
            place = f"{os.path.basename(function.file)}:{line}"
            print(f"    {text:<{min(width, _WIDEST)}}   {place}")
    if any(function.runs for function, _ in blocks):
        print(f"\n{_NOTE}")


def _worth(
    function: Function, lines: list[tuple[str, int]], wanted: re.Pattern[str] | None
) -> bool:
    if lines:
        return True
    return bool(wanted.search(function.target)) if wanted is not None else function.runs


def _lines(function: Function, wanted: re.Pattern[str] | None) -> Iterator[tuple[str, int]]:
    """What can be had of a function. Definitions and imports only show when they are looked for."""
    for name, line in function.offers():
        text = f"{function.target} > {name}"
        if wanted is not None:
            if wanted.search(text):
                yield text, line
        elif function.kinds.get(name) not in ("definition", "import") and name not in _COMMON:
            yield text, line


_COMMON = ("#enter", "#exit", "#error", "#value")


def _signature(function: Function) -> str:
    if function.kind == "module":
        return (
            "module level" if function.module == "__main__" else f"{function.module}, its own level"
        )
    if function.kind == "class":
        return f"class {function.name}"
    return f"{function.name}({', '.join(function.arguments)})"


def _matches(function: Function, wanted: re.Pattern[str] | None) -> bool:
    return wanted is None or _worth(function, list(_lines(function, wanted)), wanted)


def _record(function: Function, wanted: re.Pattern[str] | None) -> dict[str, Any]:
    offers = _lines(function, wanted or re.compile(""))
    return {
        "module": function.module,
        "function": function.name,
        "kind": function.kind,
        "selector": function.target,
        "file": function.file,
        "line": function.line,
        "arguments": function.arguments,
        "variables": [
            {
                "name": (name := selector.rpartition(" > ")[2]),
                "selector": selector,
                "line": line,
                "kind": function.kinds.get(name, "event"),
                "tags": function.tags.get(name),
            }
            for selector, line in offers
        ],
    }
