"""``inject suite size``: measures which batch sizes fit the devices of this machine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ...errors import UserError
from ...suite.environments.folders import base_of
from ..ending import reports_errors
from . import options as common


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = common.parser("size", "Measure which batch sizes fit the devices of this machine.")
    common.add_resources(result)
    add = result.add_argument
    add("--steps", type=int, default=10, metavar="N", help="steps of a probe (default 10)")
    add("--probes", type=int, default=10, metavar="N", help="of a benchmark, at most (default 10)")
    add("--timeout", metavar="T", help="how long a probe may take (default: as the benchmark)")
    return result


@reports_errors("inject suite")
def main(argv: Sequence[str]) -> int:
    """Try batch sizes, and write down which fit. Returns 0, 1 if a benchmark failed, 2 for bad input."""
    given = parser().parse_args(argv)
    from ...limits import duration
    from ...suite.environments.setup import resources_below
    from ...suite.plan import batch_sizes, machine
    from ...suite.sizing import search

    for name in ("steps", "probes"):
        if vars(given)[name] < 1:
            raise UserError(f"--{name} is a number, at least 1, not {vars(given)[name]}")
    base, devices = base_of(given.base), machine.find_machine(given.devices)
    suite = common.suite_of(given, devices.facts())
    measure_options = search.MeasureOptions(
        given.steps,
        given.probes,
        duration("--timeout", given.timeout) if given.timeout else None,
        given.use_current_env,
        lambda text: print(f"inject suite: {text}", file=sys.stderr, flush=True),
    )
    resources = resources_below(Path(base), given.use_current_env)
    folder = given.sizing or batch_sizes.folder_of(suite)
    return search.measure(suite, devices, str(base), resources, folder, measure_options)
