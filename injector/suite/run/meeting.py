"""Where the machines of a job meet: ``meeting.json`` in the folder of machine 0's part.

For each process of several machines it has the address, ``HOST:PORT``, where its ranks meet. If ``mpirun``
starts the ranks, it also has the address where the machines meet, and a secret that only they know::

    {"gpt.R0.D0": "node1:40001", "gpt.R0.D0 mpirun": "node1:40002", "secret": "9f..."}
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from ..plan.command_lines import MPI_START
from ..plan.jobs import PlannedProcess

MEETING = "meeting.json"
LAUNCHER = " mpirun"
"""What follows a process's key where the address is that of its machines."""
SECRET = "secret"


def meeting_keys(processes: Sequence[PlannedProcess]) -> list[str]:
    """The keys in ``meeting.json`` for which the ``processes`` of a job need an address."""
    shared = [process for process in processes if len(process.machines) > 1]
    by_mpirun = [process for process in shared if MPI_START in process.command]
    return [
        *(process.key for process in shared),
        *(process.key + LAUNCHER for process in by_mpirun),
    ]


def write_meeting(path: str, keys: Sequence[str], host: str, ports: Sequence[object]) -> None:
    """Write the file, whole: one of the ``ports`` of ``host`` for each key. Only its owner may read it."""
    places = {key: f"{host}:{port}" for key, port in zip(keys, ports, strict=True)}
    draft = f"{path}.{os.getpid()}.draft"
    made = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(made, "w", encoding="utf-8") as file:
        json.dump({**places, SECRET: new_secret()}, file)
    os.replace(draft, path)


def new_secret() -> str:
    """128 random bits, in hexadecimal."""
    return os.urandom(16).hex()
