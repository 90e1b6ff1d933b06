"""The commands of MPI that start ranks."""

from __future__ import annotations

MPI = ("mpirun", "mpiexec", "orterun")
"""A distribution may have several of each: ``mpirun.openmpi``, ``mpiexec.hydra``."""


def is_mpi(word: str) -> bool:
    """Whether a word, a name or a path, is such a command."""
    return word.rpartition("/")[2].partition(".")[0] in MPI
