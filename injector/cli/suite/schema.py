"""``inject suite schema``: prints the JSON Schema of suites."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from ..ending import reports_errors

DESCRIPTION = """\
Print the JSON Schema of a suite's YAML. An editor that is given it completes keys and marks mistakes:
begin a suite with `# yaml-language-server: $schema=FILE`."""


@reports_errors("inject suite")
def main(arguments: Sequence[str]) -> int:
    """Print the schema. Returns 0."""
    parser = argparse.ArgumentParser(
        prog="inject suite schema",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args(arguments)
    from ...suite.config import schema

    print(json.dumps(schema(), indent=2))
    return 0
