"""The help of ``inject run``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..limits import TRACKERS

if TYPE_CHECKING:
    from ..overseer.options import Options

EPILOG = """\
These stand before SCRIPT, MODULE or COMMAND; every word after it is the program's. Only --voirfile FILE
may stand there too, where the program's own text does not spell it."""


OPTIONS: tuple[tuple[str, str | None, str], ...] = (
    ("--voirfile", "FILE", "what to probe (repeats; $VOIRFILE, voirfile.py beside the script)"),
    ("--config", "FILE", "YAML that sets options of voirfiles (repeats)"),
    ("--runs", "DIR", "folder for run folders ($INJECT_RUNS, .inject/runs)"),
    ("--into", "DIR", "the run folder itself, which holds no run yet"),
    ("--name", "NAME", "what the run is called"),
    ("--tag", "KEY=VALUE", "a property of the run, to find and tell it by (repeats)"),
    ("--price", "P", "what an hour costs (2.5, '2.5 EUR'): epochs have a cost"),
    (
        "--track",
        "TRACKER[=PLACE]",
        f"send it there while it goes on: {', '.join(TRACKERS)} (repeats)",
    ),
    ("--engine", "E", "where it runs: local (here, the default), slurm, ssh or ray"),
    (
        "--engine-option",
        "NAME=VALUE",
        "of the engine: an option of srun; of ssh host, port, sshkey; of ray address, cpus, gpus (repeats)",
    ),
    ("--container", "IMAGE", "run the whole command in a container of this image"),
    ("--container-engine", "E", "docker, podman, apptainer or none (the first found)"),
    (
        "--container-mount",
        "DIR[:TARGET][:ro]",
        "a further folder that the container is to see (repeats)",
    ),
    ("--container-pull", None, "pull the newest image of that name first"),
    ("--layers", "DEPTH", "time the layers of models, so many levels deep"),
    (
        "--flops",
        None,
        "count the FLOPs of a step with PyTorch: runs the program once more afterwards, for 4 "
        "steps; what it writes or sends in them, it does again",
    ),
    ("--peak-flops", "N", "FLOP/s of one device at best (312e12), for MFU"),
    ("--memory", None, "record the memory of each region of a step"),
    ("--skip", "N", "leave the first N steps out of the numbers"),
    ("--stop", "N", "end the program after N steps (after those skipped)"),
    (
        "--phase",
        "PHASE",
        "training or inference: what the steps of --stop are, where the program's text leaves "
        "it open",
    ),
    ("--max-duration", "T", "end it at the first step's end after T (90, 5m, 1h30m)"),
    ("--timeout", "T", "end it and all its processes after T, wherever it is"),
    ("--grace", "T", "time to end politely before it is killed (default 5s)"),
    ("--interval", "T", "time between samples of host and devices (default 1s)"),
    ("--gpu-poll", "T", "the same, as milabench's suites call it"),
    ("--live", None, "show it while it goes on (default on a terminal)"),
    ("--no-live", None, "show nothing before its end"),
    ("--no-voirfile", None, "do not look for a voirfile beside the script"),
    ("--no-monitor", None, "sample neither host nor devices"),
    ("--sample", None, "sample stacks of the program, from outside"),
    ("--sample-native", None, "sample them with the functions of compiled code, too"),
    (
        "--torch-profile",
        "FIRST:LAST",
        "record training steps FIRST (from 0) to before LAST with torch.profiler",
    ),
    ("--no-auto", None, "no voirfile for libraries (see inject voirfiles)"),
    ("--workers", None, "probe DataLoader workers as well"),
    ("--strict", None, "exit with 70 if a probe missed, failed or never fired"),
    ("--verbose", None, "print what acted in each process and where each probe landed, too"),
    ("-q --quiet", None, "print nothing"),
    ("-h --help", None, "print this"),
)
"""Each option with the name of its value, None for a flag, and what it does."""


def own_parser() -> argparse.ArgumentParser:
    """Our options of ``inject run``, for its help alone: :mod:`injector.launch.command` parses them."""
    parser = argparse.ArgumentParser(
        prog="inject run",
        usage="inject run [OPTIONS] SCRIPT|-m MODULE|- [ARGUMENTS…]\n"
        "       inject run [OPTIONS] COMMAND [ARGUMENTS…]",
        description="Run a program, unmodified, as python would, with probes in it.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EPILOG,
        add_help=False,
    )
    for names, metavar, text in OPTIONS:
        if metavar is None:
            parser.add_argument(*names.split(), action="store_true", help=text)
        else:
            parser.add_argument(*names.split(), metavar=metavar, help=text)
    return parser


def run_help(declared: Options | None) -> str:
    """The help: our options, then each voirfile's ``declared`` ones in a group of their own."""
    parser = own_parser()
    for layer in declared.layers.values() if declared else ():
        if layer.actions:
            group: Any = parser.add_argument_group(f"options of {layer.shown()}")
            group._group_actions.extend(layer.actions)
    return parser.format_help()
