"""What ``inject run --help`` prints."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..launch.limits import TRACKERS

if TYPE_CHECKING:
    from ..overseer.options import Options

EPILOG = """\
These stand before SCRIPT, MODULE or COMMAND; every word after it is the program's. Only --voirfile FILE
may stand there too, where the program's own text does not spell it."""


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
    add(
        "--voirfile",
        metavar="FILE",
        help="what to probe (repeats; $VOIRFILE, voirfile.py beside the script)",
    )
    add("--config", metavar="FILE", help="YAML that sets options of voirfiles (repeats)")
    add("--runs", metavar="DIR", help="folder for run folders ($INJECT_RUNS, .inject/runs)")
    add("--into", metavar="DIR", help="the run folder itself, which holds no run yet")
    add("--name", metavar="NAME", help="what the run is called")
    add(
        "--tag", metavar="KEY=VALUE", help="a property of the run, to find and tell it by (repeats)"
    )
    add("--price", metavar="P", help="what an hour costs (2.5, '2.5 EUR'): epochs have a cost")
    add(
        "--track",
        metavar="TRACKER[=PLACE]",
        help=f"send it there while it goes on: {', '.join(TRACKERS)} (repeats)",
    )
    add("--engine", metavar="E", help="where it runs: local (here, the default), slurm or ssh")
    add(
        "--engine-option",
        metavar="NAME=VALUE",
        help="of the engine: an option of srun; of ssh host, port, sshkey (repeats)",
    )
    add("--container", metavar="IMAGE", help="run the whole command in a container of this image")
    add(
        "--container-engine",
        metavar="E",
        help="docker, podman, apptainer or none (the first found)",
    )
    add(
        "--container-mount",
        metavar="DIR[:TARGET][:ro]",
        help="a further folder that the container is to see (repeats)",
    )
    add("--container-pull", action="store_true", help="pull the newest image of that name first")
    add("--layers", metavar="DEPTH", help="time the layers of models, so many levels deep")
    add(
        "--flops",
        action="store_true",
        help="count the FLOPs of a step with PyTorch: runs the program once more afterwards, for 4 steps; "
        "what it writes or sends in them, it does again",
    )
    add("--peak-flops", metavar="N", help="FLOP/s of one device at best (312e12), for MFU")
    add("--memory", action="store_true", help="record the memory of each region of a step")
    add("--skip", metavar="N", help="leave the first N steps out of the numbers")
    add("--stop", metavar="N", help="end the program after N steps (after those skipped)")
    add(
        "--phase",
        metavar="PHASE",
        help="training or inference: what the steps of --stop are, where the program's text leaves it open",
    )
    add(
        "--max-duration", metavar="T", help="end it at the first step's end after T (90, 5m, 1h30m)"
    )
    add("--timeout", metavar="T", help="end it and all its processes after T, wherever it is")
    add("--grace", metavar="T", help="time to end politely before it is killed (default 5s)")
    add("--interval", metavar="T", help="time between samples of host and devices (default 1s)")
    add("--gpu-poll", metavar="T", help="the same, as milabench's suites call it")
    add("--live", action="store_true", help="show it while it goes on (default on a terminal)")
    add("--no-live", action="store_true", help="show nothing before its end")
    add("--no-voirfile", action="store_true", help="do not look for a voirfile beside the script")
    add("--no-monitor", action="store_true", help="sample neither host nor devices")
    add("--sample", action="store_true", help="sample stacks of the program, from outside")
    add(
        "--sample-native",
        action="store_true",
        help="sample them with the functions of compiled code, too",
    )
    add(
        "--torch-profile",
        metavar="FIRST:LAST",
        help="record training steps FIRST (from 0) to before LAST with torch.profiler",
    )
    add("--no-auto", action="store_true", help="no voirfile for libraries (see inject voirfiles)")
    add("--workers", action="store_true", help="probe DataLoader workers as well")
    add(
        "--strict",
        action="store_true",
        help="exit with 70 if a probe missed, failed or never fired",
    )
    add(
        "--verbose",
        action="store_true",
        help="print what acted in each process and where each probe landed, too",
    )
    add("-q", "--quiet", action="store_true", help="print nothing")
    add("-h", "--help", action="store_true", help="print this")
    return parser


def run_help(declared: Options | None) -> str:
    """Our options, then each voirfile's in a group of its own."""
    parser = own_parser()
    for layer in declared.layers.values() if declared else ():
        if layer.actions:
            shown: Any = parser.add_argument_group(f"options of {layer.shown()}")
            shown._group_actions.extend(layer.actions)
    return parser.format_help()
