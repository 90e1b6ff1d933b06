"""``inject suite VERB``: one module per verb, imported only for that verb."""

from __future__ import annotations

import sys
from importlib import import_module

from .. import listed, unknown

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
        more = "inject suite VERB --help tells more."
        print(listed("inject suite VERB SUITE.yaml [OPTIONS…]", VERBS, more))
        return 0 if verb else 2
    if verb not in VERBS:
        print(f"inject suite: {unknown(verb, VERBS)}", file=sys.stderr)
        return 2
    code: int = import_module(f"injector.cli.suite.{verb}").main(arguments[1:])
    return code
