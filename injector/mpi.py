"""What starts ranks: the commands of MPI, and the numbers that launchers give to ranks by variables."""

from __future__ import annotations

import os

MPI = ("mpirun", "mpiexec", "orterun")
"""A distribution may have several of each: ``mpirun.openmpi``, ``mpiexec.hydra``."""


def is_mpi(word: str) -> bool:
    """Whether a word, a name or a path, is such a command."""
    return word.rpartition("/")[2].partition(".")[0] in MPI


def launcher_number(variable: str) -> int | None:
    """The number in the variable of a launcher, such as ``RANK`` or ``WORLD_SIZE``; None if there is none."""
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else None
