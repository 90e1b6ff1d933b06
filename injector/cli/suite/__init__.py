"""``inject suite VERB``: one module per verb, imported only for that verb."""

from __future__ import annotations

import sys
from importlib import import_module

VERBS: dict[str, str] = {
    "install": "check out sources, make environments",
    "prepare": "make the data",
    "plan": "show every process that a run would start, and start none",
    "run": "run a suite, or go on with one that was interrupted",
    "report": "print the results of a suite: scores, failures, machines",
    "size": "measure which batch sizes fit the devices of this machine",
    "schema": "print the JSON Schema of a suite, for editors",
}
"""What each verb does, in the order in which they are used."""


def main(arguments: list[str]) -> int:
    """Run ``inject suite``; returns the exit code."""
    verb = arguments[0] if arguments else ""
    if verb in ("", "-h", "--help"):
        print(usage())
        return 0 if verb else 2
    if verb not in VERBS:
        print(f"inject suite: {_unknown(verb)}", file=sys.stderr)
        return 2
    code: int = import_module(f"injector.cli.suite.{verb}").main(arguments[1:])
    return code


def usage() -> str:
    """What ``inject suite --help`` prints."""
    lines = ["usage: inject suite VERB SUITE.yaml [OPTIONS…]", ""]
    lines += [f"  {verb:<10} {text}" for verb, text in VERBS.items()]
    return "\n".join([*lines, "", "inject suite VERB --help tells more."])


def _unknown(verb: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(verb, VERBS, 1)
    hint = f"; did you mean {near[0]}?" if near else f" (there are {', '.join(VERBS)})"
    return f"unknown verb {verb}{hint}"
