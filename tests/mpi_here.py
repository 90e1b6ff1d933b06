"""MPI as it is installed here, and a double of its command."""

from __future__ import annotations

import shutil

import pytest


def mpi_launcher(which):
    """The command of ``Open MPI`` or ``MPICH``, which may both be here."""
    command = {"Open MPI": "mpirun.openmpi", "MPICH": "mpirun.mpich"}[which]
    if shutil.which(command) is None:
        pytest.skip(f"needs {which}: {command} not installed (apt-get install openmpi-bin mpich)")
    return command


MPIRUN = """\
#!/bin/sh
shift 2
while read -r host slots; do
    "$OMPI_MCA_plm_rsh_agent" -x "$host" " FOR=$host" "$@" "$slots" &
    others="$others $!"
done < "$OMPI_MCA_orte_default_hostfile"
code=0
for each in $others; do wait $each || code=$?; done
exit $code
"""
"""Starts a daemon for each host as Open MPI does, and ends as the last that failed."""


OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PMIX_MCA_gds": "hash",  # nodes that are one machine would share a folder of PMIx
}
"""What tests of Open MPI need in their environment."""
