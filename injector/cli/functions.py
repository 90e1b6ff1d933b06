"""``inject functions``: lists what can be named in a program or module, as selectors to paste."""

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
    "Every function also has #enter, #exit, #error and #value: {target} > #enter; "
    "what it returns: {target}() as result"
)
COMMON = ("#enter", "#exit", "#error", "#value")
"""Events of every function, which the note names once."""
_WIDEST = 60
"""The most columns that selectors are padded to."""


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = argparse.ArgumentParser(
        prog="inject functions",
        description="List what can be named in a program or a module, with selectors to paste. "
        "Nothing of it is run or imported.",
    )
    add = result.add_argument
    add("target", nargs="?", help="script, folder, zip file, module or package")
    add("-m", dest="module", help="a module as `python -m` runs it")
    add("--grep", metavar="PATTERN", help="only selectors that match this regex")
    add("--json", action="store_true", help="the same as JSON")
    return result


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Print the list. Returns 0, 1 if nothing was found, 2 for bad input."""
    options = parser().parse_args(argv)
    if bool(options.target) == bool(options.module):
        raise UserError("name one script, module or package (or `-m MODULE`)")
    pattern = _compiled(options.grep)
    functions = [f for s in _sources(options.target, options.module) for f in _functions(s)]
    shown = [f for f in functions if _matches(f, pattern)]
    if options.json:
        print(json.dumps([_as_dict(f, pattern) for f in shown], indent=2))
    else:
        _print(functions, pattern)
    if shown:
        return 0
    what = options.target or options.module
    condition = f" that matches {options.grep!r}" if pattern else ""
    print(f"inject: {what} has nothing to name{condition}", file=sys.stderr)
    return 1


def _compiled(text: str | None) -> re.Pattern[str] | None:
    """The pattern of ``--grep``. Raises UserError."""
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise UserError(f"--grep {text!r} is no regular expression: {error}") from None


# --- which sources --------------------------------------------------------------------------------


def _sources(target: str | None, module: str | None) -> list[Source]:
    """The source of a program, or those of a package's modules. Raises UserError."""
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
    except (ImportError, NoSource) as error:
        raise UserError(str(error)) from None


def _module_sources(name: str, path: list[str]) -> list[Source]:
    """The sources of the modules of a package, or of the one module ``name``. Raises UserError."""
    modules = module_files(name, path)
    if modules:
        return [source for source in (find(one, path) for one in modules) if source is not None]
    source = find(name, path)
    if source is None:
        raise UserError(f"there is no file and no module {name}")
    return [source]


def _functions(source: Source) -> list[Function]:
    """The functions in ``source``. Raises UserError if it does not parse."""
    try:
        return inventory(source.text, source.module, source.file)
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{source.file} does not parse: {error}") from None


# --- how it is shown ------------------------------------------------------------------------------


def _print(functions: list[Function], pattern: re.Pattern[str] | None) -> None:
    blocks = [(function, list(_selectors(function, pattern))) for function in functions]
    blocks = [(f, lines) for f, lines in blocks if _is_shown(f, lines, pattern)]
    width = max((len(text) for _, lines in blocks for text, _ in lines), default=0)
    for number, (function, lines) in enumerate(blocks):
        if number:
            print()
        print(f"{_signature(function)}   {display(function.file)}:{function.line}")
        for text, line in lines:
            place = f"{os.path.basename(function.file)}:{line}"
            print(f"    {text:<{min(width, _WIDEST)}}   {place}")
    # The name of one that was listed: what the note says can be pasted, too.
    target = next((function.target for function, _ in blocks if function.runs), None)
    if target is not None:
        print("\n" + _NOTE.format(target=target))


def _is_shown(
    function: Function, selectors: list[tuple[str, int]], pattern: re.Pattern[str] | None
) -> bool:
    """Whether a function is listed: with ``selectors``, or for itself."""
    if selectors:
        return True
    return bool(pattern.search(function.target)) if pattern is not None else function.runs


def _selectors(function: Function, pattern: re.Pattern[str] | None) -> Iterator[tuple[str, int]]:
    """The selectors of a function's variables and events that match ``pattern``, each with its line.

    Without a pattern definitions, imports and :data:`COMMON` events are left out.
    """
    for name, line in function.offers():
        selector = f"{function.target} > {name}"
        if pattern is not None:
            if pattern.search(selector):
                yield selector, line
        elif function.kinds.get(name) not in ("definition", "import") and name not in COMMON:
            yield selector, line


def _signature(function: Function) -> str:
    if function.kind == "module":
        return (
            "module level" if function.module == "__main__" else f"{function.module}, its own level"
        )
    if function.kind == "class":
        return f"class {function.name}"
    return f"{function.name}({', '.join(function.arguments)})"


def _matches(function: Function, pattern: re.Pattern[str] | None) -> bool:
    return pattern is None or _is_shown(function, list(_selectors(function, pattern)), pattern)


def _as_dict(function: Function, pattern: re.Pattern[str] | None) -> dict[str, Any]:
    """What ``--json`` prints of a function."""
    selectors = _selectors(function, pattern or re.compile(""))
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
            for selector, line in selectors
        ],
    }
