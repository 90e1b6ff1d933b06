"""``inject help --params REGEX --text REGEX --frameworks REGEX``: explains options, keys and figures, and
lists known frameworks.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import UserError
from ..report.output import room
from ..report.text import wrap
from .ending import reports_errors
from .forms import add_format, form_of, print_or_write
from .help import own_parser
from .verbs import SUITE_VERBS, VERBS


class Parameter(NamedTuple):
    """What has a name and a value: an option, a key of suites, a figure. A framework or benchmark, too."""

    name: str
    kind: str
    """``option of inject run``, ``key of suites``, ``variable``, ``metric``, …"""
    text: str
    """Its explanation."""


def parameters() -> Iterator[Parameter]:
    """All parameters. Keys of suites are among them only if the extra that reads suites is installed."""
    from importlib import import_module

    from ..compat import dlbs
    from ..metrics import METRICS, UNITS

    yield from _options(own_parser(), "inject run")
    for verb in [*VERBS, *(f"suite {each}" for each in SUITE_VERBS)]:
        try:
            module = import_module(f".{verb.replace(' ', '.')}", __package__)
        except ImportError:
            continue  # an extra is not installed
        if hasattr(module, "parser"):
            yield from _options(module.parser(), f"inject {verb}")
    try:
        from ..suite.config.keys import schema
        from ..suite.config.scope import TABLE
    except ImportError:
        pass
    else:
        definitions = schema()["$defs"]
        yield from _keys(definitions, "EntryKeys", "", ())
        for each in TABLE:
            yield Parameter(f"{{{each.name}}}", "placeholder of suites", each.text)
    for name, text in dlbs.PARAMETERS.items():
        yield Parameter(name, "variable", text)
    for metric in METRICS.values():
        text = f"{UNITS[metric.unit].name}: {metric.definition}"
        yield Parameter(metric.name, "metric", text)


def frameworks(patterns: Sequence[re.Pattern[str]]) -> Iterator[Parameter]:
    """The frameworks of shipped voirfiles whose names match one of ``patterns``, or all of them.

    With patterns, also the parameters that name these frameworks, and the benchmarks that require them.
    """
    from ..voirfiles import shipped

    known = [one for one in shipped() if _matches(" ".join((one.name, *one.libraries)), patterns)]
    for one in known:
        tested = " to ".join(dict.fromkeys(one.tested))
        text = f"{one.about} Imported as {', '.join(one.libraries)}; tested with {tested}."
        yield Parameter(one.name, "framework", text)
    if not (patterns and known):
        return
    words = "|".join(re.escape(name) for one in known for name in (one.name, *one.libraries))
    named = re.compile(rf"\b({words})\b", re.IGNORECASE)
    yield from (each for each in parameters() if named.search(f"{each.name} {each.text}"))
    yield from _benchmarks(re.compile(rf"^({words})\b", re.MULTILINE))


def _benchmarks(requirement: re.Pattern[str]) -> Iterator[Parameter]:
    """The shipped benchmarks with a requirement that matches."""
    try:
        from ..suite.config.definitions import shipped_benchmarks
    except ImportError:
        return  # an extra is not installed
    for name, folder in shipped_benchmarks().items():
        if requirement.search((folder / "requirements.txt").read_text()):
            about = _DESCRIPTION.search((folder / "benchmark.yaml").read_text())
            yield Parameter(name, "benchmark", about[1] if about else "")


def _options(parser: argparse.ArgumentParser, command: str) -> Iterator[Parameter]:
    """The options of ``parser``, which reads the command line of ``command``."""
    for action in parser._actions:
        if action.option_strings and action.dest != "help" and action.help != argparse.SUPPRESS:
            text = str(action.help or "") % {**vars(action), "prog": parser.prog}
            yield Parameter(", ".join(action.option_strings), f"option of {command}", text)


def _keys(
    definitions: Mapping[str, Any], name: str, above: str, seen: tuple[str, ...]
) -> Iterator[Parameter]:
    """The keys of a map of a suite, and of the maps in it.

    ``name`` is its definition in the schema's ``definitions``, ``above`` what its keys are prefixed with
    (``plan.``), ``seen`` the definitions around it.
    """
    for key, about in definitions[name].get("properties", {}).items():
        if text := about.get("description"):
            yield Parameter(above + key, "key of suites", text)
        for inner in dict.fromkeys(_DEFINITION.findall(str(about))):
            # `job` and `when` hold the same keys as the map that they are in.
            if (
                key not in ("job", "when")
                and inner.endswith("Keys")
                and inner in definitions
                and inner not in (*seen, name)
            ):
                yield from _keys(definitions, inner, f"{above}{key}.", (*seen, name))


_DESCRIPTION = re.compile(r"^description: *(.+)$", re.MULTILINE)
_DEFINITION = re.compile(r"#/\$defs/(\w+)")


def help_parser() -> argparse.ArgumentParser:
    """The parser of the options of ``inject help``."""
    result = argparse.ArgumentParser(
        prog="inject help",
        usage="inject help VERB | inject help [--params [REGEX…]] [--text [REGEX…]] | "
        "inject help --frameworks [REGEX…]",
        description="Explain parameters: options of all verbs, keys, placeholders and variables of suites, "
        "metrics.",
    )
    add = result.add_argument
    add(
        "--params",
        nargs="*",
        metavar="REGEX",
        help="those in whose names one occurs; all without one",
    )
    add("--text", nargs="*", metavar="REGEX", help="those in whose explanations one occurs")
    add(
        "--frameworks",
        nargs="*",
        metavar="REGEX",
        help="the frameworks that are known; of one that is named, the parameters that are about it",
    )
    add_format(result, ("terminal", "json"))
    return result


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Print the parameters that match. Returns 0, or 2 if none does."""
    options = help_parser().parse_args(argv)
    form = form_of(options)
    names, texts = _patterns("--params", options.params), _patterns("--text", options.text)
    about = _patterns("--frameworks", options.frameworks)
    known = parameters() if options.frameworks is None else frameworks(about)
    found = [
        each
        for each in dict.fromkeys(known)
        if _matches(each.name, names) and _matches(each.text, texts)
    ]
    if not found:
        raise UserError(_no_match(options))
    print_or_write(lambda: _render(found, form), form, options.output)
    return 0


def _no_match(options: argparse.Namespace) -> str:
    """The message if nothing matches."""
    if options.frameworks:
        return (
            f"no framework matches {' '.join(options.frameworks)}; inject help --frameworks lists those "
            "that are known, and a voirfile names the steps of any other"
        )
    given = (("--params", options.params), ("--text", options.text))
    words = " ".join(f"{option} {' '.join(each)}" for option, each in given if each)
    return f"no parameter matches {words}; inject help --params lists all"


def _patterns(option: str, texts: Sequence[str] | None) -> list[re.Pattern[str]]:
    """The patterns of an option. Raises UserError."""
    try:
        return [re.compile(text, re.IGNORECASE) for text in texts or ()]
    except re.error as error:
        raise UserError(f"{option}: {error.pattern!r} is no regular expression: {error}") from None


def _matches(text: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    """Whether one of ``patterns`` occurs in ``text``, or there are none."""
    return not patterns or any(each.search(text) for each in patterns)


def _render(found: Sequence[Parameter], form: str) -> str:
    if form == "json":
        return json.dumps([each._asdict() for each in found], indent=1) + "\n"
    lines: list[str] = []
    for each in found:
        lines.append(f"{each.name}  ({each.kind})")
        lines += [f"  {line}" for line in wrap(each.text, min(room(), 100) - 2)]
    return "\n".join(lines) + "\n"
