"""``inject suite VERB``: one module per verb, imported only for that verb."""

from __future__ import annotations

import sys
from importlib import import_module

from ..verbs import SUITE_VERBS, listed, unknown


def main(arguments: list[str]) -> int:
    """Run ``inject suite``; returns the exit code."""
    verb = arguments[0] if arguments else ""
    if verb in ("", "-h", "--help"):
        more = "inject suite VERB --help tells more."
        print(listed("inject suite VERB SUITE.yaml [OPTIONS…]", SUITE_VERBS, more))
        return 0 if verb else 2
    if verb not in SUITE_VERBS:
        print(f"inject suite: {unknown(verb, SUITE_VERBS)}", file=sys.stderr)
        return 2
    code: int = import_module(f"injector.cli.suite.{verb}").main(arguments[1:])
    return code
