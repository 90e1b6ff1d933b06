"""``python -m injector.monitor RUN --pid PID``: sample until the program has ended."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .loop import Monitor


def main(argv: Sequence[str] | None = None) -> int:
    """Sample into the run folder until the program's main process has ended, or SIGTERM comes."""
    parser = argparse.ArgumentParser(prog="python -m injector.monitor")
    parser.add_argument("run", help="the run folder")
    parser.add_argument("--pid", type=int, required=True, help="the program's main process")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between samples")
    options = parser.parse_args(argv)
    Monitor(options.run, options.pid, options.interval).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
