"""Where the machines of a job meet: ``meeting.json`` in the folder of machine 0's part.

By process the address where its ranks meet; by process and :data:`LAUNCHER` the one where its machines do,
where ``mpirun`` starts the ranks; and a :data:`SECRET`, by which they know each other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from ..plan.command_lines import MPI_START
from ..plan.jobs import PlannedProcess

MEETING = "meeting.json"
LAUNCHER = " mpirun"
SECRET = "secret"


def meeting_keys(processes: Sequence[PlannedProcess]) -> list[str]:
    """What meets, of the processes of a job."""
    shared = [each for each in processes if len(each.machines) > 1]
    started = [each for each in shared if MPI_START in each.command]
    return [*(each.key for each in shared), *(each.key + LAUNCHER for each in started)]


def write_meeting(path: str, keys: Sequence[str], host: str, ports: Sequence[object]) -> None:
    """Write the file: what ``keys`` name meets at ``ports`` of ``host``. Only its owner may read it."""
    places = {key: f"{host}:{port}" for key, port in zip(keys, ports, strict=True)}
    draft = f"{path}.{os.getpid()}.draft"
    made = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(made, "w", encoding="utf-8") as file:
        json.dump({**places, SECRET: new_secret()}, file)
    os.replace(draft, path)


def new_secret() -> str:
    """What no one can guess."""
    return os.urandom(16).hex()
