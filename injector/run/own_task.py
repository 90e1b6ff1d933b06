"""Whether this process is a task of a Slurm step, or of ``mpirun``, by the variables that launchers set."""

from __future__ import annotations

import os

from injector.errors import UserError
from injector.run.step_tasks import StepTask
from injector.store.place import RUNS_VARIABLE, default_runs

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.launch.command import Command

MPI = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
)
"""Variables of Open MPI and of MPICH: a task's rank, how many tasks there are, and how many on its node."""
LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
"""Variables with a task's rank among the tasks of its node."""
DAEMONS = ("orte", "prte", "mpirun", "mpiexec", "hydra")
"""How the names of the processes begin that start tasks of MPI."""


def step_task(command: Command, environ: Mapping[str, str]) -> StepTask | None:
    """This process as a task of a Slurm step; None if it is none, or the only one.

    It is one if Slurm started it or its parent, a script. Deeper in a task, ``inject run`` makes a run of its
    own. Raises UserError for ``--flops``.
    """
    numbers = [
        environ.get(name, "")
        for name in ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_TASK_PID", "SLURM_STEP_ID")
    ]
    if not all(number.isdecimal() for number in numbers):
        return None
    rank, world, pid = map(int, numbers[:3])
    if world < 2 or pid not in (os.getpid(), os.getppid()):
        return None
    _check_flops(command, "a Slurm step")
    job = environ.get("SLURM_JOB_ID", "")
    key = f"{job}.{numbers[3]}.{environ.get('SLURM_RESTART_COUNT', '0')}"
    number = environ.get("SLURM_STEP_NUM_NODES", "")
    nodes = int(number) if number.isdecimal() else 1
    is_first = environ.get("SLURM_LOCALID", "0") == "0"
    return StepTask(rank, world, *_key_and_folder(command, key, environ), nodes, is_first)


def mpi_task(command: Command, environ: Mapping[str, str]) -> StepTask | None:
    """This process as a task of ``mpirun``; None if it is none, the only one, or deeper in one.

    MPICH has no name for one call of ``mpirun``, so its tasks share a run folder only if ``--into`` names it.
    Raises UserError for ``--flops``.
    """
    for names in MPI:
        numbers = [environ.get(name, "") for name in names]
        if all(number.isdecimal() for number in numbers) and int(numbers[1]) > 1:
            break
    else:
        return None
    rank, world, here = map(int, numbers)
    job = environ.get("PMIX_NAMESPACE", "").replace("/", "_")
    if not (job or command.into) or not _is_started_by_mpi():
        return None
    _check_flops(command, "mpirun")
    is_first = all(environ.get(name, "0") == "0" for name in LOCAL_RANKS)
    nodes = 1 if here == world else 2  # how many more than one is not known, and does not matter
    return StepTask(rank, world, *_key_and_folder(command, f"mpi.{job}", environ), nodes, is_first)


def _check_flops(command: Command, job: str) -> None:
    """Raise UserError for ``--flops``."""
    if "--flops" in command.flags:
        raise UserError(
            f"--flops runs the program once more, which one task of {job} cannot do without the "
            "others: leave it out, or run one task"
        )


def _key_and_folder(command: Command, key: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """``key`` and ``beside`` of a :class:`StepTask`. Runs that ``--into`` names may share one folder."""
    if command.into is not None:
        folder, name = os.path.split(os.path.abspath(command.into))
        return f"{key}.{name}", folder
    return key, default_runs(command.runs, {RUNS_VARIABLE: environ.get(RUNS_VARIABLE, "")})


def _is_started_by_mpi() -> bool:
    """Whether a daemon of MPI started this process, or the shell that is its parent."""
    name, parent = _name_and_parent(os.getppid())
    if name.endswith("sh"):
        name, _ = _name_and_parent(parent)
    return name.startswith(DAEMONS)


def _name_and_parent(pid: int) -> tuple[str, int]:
    """The name of a process and the id of its parent; "" and 0 if they cannot be read."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            name, _, rest = file.read().partition("(")[2].rpartition(")")
        return name, int(rest.split()[1])
    except (OSError, ValueError, IndexError):
        return "", 0
