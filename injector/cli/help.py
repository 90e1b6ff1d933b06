"""What ``inject run --help`` prints."""

from __future__ import annotations

import argparse
from typing import Any

EPILOG = """\
The first word after SCRIPT that is none of these starts the program's arguments; -- does so anyway.
Directly after SCRIPT, --help and options that its own text names are the script's."""


def own_parser() -> argparse.ArgumentParser:
    """Our options, for showing them: :mod:`injector.launch.command` is what reads them."""
    parser = argparse.ArgumentParser(
        prog="inject run",
        usage="inject run [OPTIONS] SCRIPT|-m MODULE|- [ARGUMENTS…]\n"
        "       inject run [OPTIONS] COMMAND [ARGUMENTS…]",
        description="Run a program, unmodified, as python would, with probes in it.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EPILOG,
        add_help=False,
    )
    add = parser.add_argument
    add("--voirfile", metavar="FILE", help="what to probe (repeats; voirfile.py beside the script)")
    add("--config", metavar="FILE", help="YAML that sets options of voirfiles (repeats)")
    add("--runs", metavar="DIR", help="folder for run folders ($INJECT_RUNS, .inject/runs)")
    add("--into", metavar="DIR", help="the run folder itself, which holds no run yet")
    add("--name", metavar="NAME", help="what the run is called")
    add("--skip", metavar="N", help="leave the first N training steps out of the numbers")
    add("--stop", metavar="N", help="end the program after N training steps (after those skipped)")
    add(
        "--max-duration", metavar="T", help="end it at the first step's end after T (90, 5m, 1h30m)"
    )
    add("--timeout", metavar="T", help="end it and all its processes after T, wherever it is")
    add("--grace", metavar="T", help="time to end politely before it is killed (default 5s)")
    add("--interval", metavar="T", help="time between samples of host and devices (default 1s)")
    add("--live", action="store_true", help="show it while it goes on (default on a terminal)")
    add("--no-live", action="store_true", help="show nothing before its end")
    add("--no-auto", action="store_true", help="no voirfile for libraries (see inject voirfiles)")
    add("--workers", action="store_true", help="probe DataLoader workers as well")
    add(
        "--strict",
        action="store_true",
        help="exit with 70 if a probe missed, failed or never fired",
    )
    add("-q", "--quiet", action="store_true", help="print nothing")
    add("-h", "--help", action="store_true", help="print this")
    return parser


def run_help(declared: argparse.ArgumentParser | None) -> str:
    """Our options, then each voirfile's in a group of its own."""
    parser = own_parser()
    for group in declared._action_groups if declared else ():
        if group._group_actions:
            shown: Any = parser.add_argument_group(group.title or "", group.description)
            shown._group_actions.extend(group._group_actions)
    return parser.format_help()
