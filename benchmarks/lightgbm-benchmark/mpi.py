#!/usr/bin/env python3
"""mpi.py [--processes N] PROGRAM [ARGUMENTS…]

A launcher for LightGBM over MPI: N processes of PROGRAM, by `mpirun`. In ARGUMENTS and variables, `@rank@`
stands for the rank of a process.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys

RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""Variables of Open MPI, and of MPICH and Intel MPI."""
ALLOWED = {
    # As root, which the user of a container is, Open MPI starts nothing unless these say so.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # It counts cores, which may be fewer than processors.
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}


def start_ranks(processes: int, words: list[str]) -> None:
    """Become `mpirun`. Ends the program where there is none."""
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        print("mpi.py: mpirun was not found (Debian: openmpi-bin)", file=sys.stderr)
        sys.exit(2)
    each = [sys.executable, os.path.abspath(__file__), "--rank", *words]
    os.execve(mpirun, [mpirun, "-n", str(processes), *each], {**ALLOWED, **os.environ})


def become_rank(words: list[str]) -> None:
    """Become the program, in a process of `mpirun`."""
    rank = next(os.environ[name] for name in RANKS if name in os.environ)
    environment = {name: text.replace("@rank@", rank) for name, text in os.environ.items()}
    filled = [word.replace("@rank@", rank) for word in words]
    os.execve(sys.executable, [sys.executable, *filled], environment)


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if not args.program:
        parser.error("no program to start")
    if args.processes < 1:
        parser.error(f"--processes {args.processes}: at least 1")
    if args.rank:
        become_rank(args.program)
    start_ranks(args.processes, args.program)


if __name__ == "__main__":
    main()
