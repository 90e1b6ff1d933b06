"""``inject suite VERB``: one module per verb, imported only for that verb."""

from __future__ import annotations

import sys
from importlib import import_module

from ..verbs import SUITE_VERBS, unknown_verb, usage_of


def main(arguments: list[str]) -> int:
    """Run the verb of ``inject suite`` that ``arguments`` name, and return the exit code."""
    verb = arguments[0] if arguments else ""
    if verb in ("", "-h", "--help"):
        more = "inject suite VERB --help tells more."
        print(usage_of("inject suite VERB SUITE.yaml [OPTIONS…]", SUITE_VERBS, more))
        return 0 if verb else 2
    if verb not in SUITE_VERBS:
        print(f"inject suite: {unknown_verb(verb, SUITE_VERBS)}", file=sys.stderr)
        return 2
    code: int = import_module(f"injector.cli.suite.{verb}").main(arguments[1:])
    return code
