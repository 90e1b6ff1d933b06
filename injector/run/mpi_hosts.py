"""``inject run mpirun --host a,b python train.py`` is ``mpirun --host a,b inject run python train.py``.

Open MPI passes nothing of our environment to ranks on other hosts, so that one ``inject run`` around it would
record those of this host alone. Hydra (MPICH) passes it on, and the hosts share a file system.
"""

from __future__ import annotations

import os
import subprocess
import sys

from injector.launch import environment

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from injector.launch.command import Command

HOSTS = ("--host", "-host", "-H")
FILES = ("--hostfile", "-hostfile", "--machinefile", "-machinefile", "--default-hostfile")
"""Options that are followed by hosts, and by a file with hosts."""
FILE_VARIABLE = "OMPI_MCA_orte_default_hostfile"
NODES_VARIABLE = "SLURM_JOB_NUM_NODES"
"""The variable with the number of hosts that Open MPI uses in a job of Slurm if it is given none."""
NEXT = ":"
"""The word between two programs of one call."""


def over_hosts(
    command: Command, words: Sequence[str], environ: Mapping[str, str]
) -> list[str] | None:
    """The words of an ``mpirun`` whose processes are ``inject run``; None if there is no need of that.

    ``words`` are those after ``inject run``. The result is None if ``mpirun`` has this host alone or is not
    Open MPI, and if no word of it begins a Python program.
    """
    at = _place_of_target(command, words)
    own, its = words[:at], words[at + 1 :]
    search = environ.get("PATH")
    programs = [n for n, word in enumerate(its) if _is_program(word, search)]
    if not programs or not _has_other_hosts(its[: programs[0]], environ):
        return None
    if not _is_open_mpi(command.target):
        return None
    paths = environ.get("PYTHONPATH")
    before = ["env", f"PYTHONPATH={paths}"] if paths else []
    inner = [*before, sys.executable, "-m", "injector", "run", *own]
    argv, in_program = [command.target], False
    for number, word in enumerate(its):
        if not in_program and number in programs:
            argv += inner
            in_program = True
        in_program = in_program and word != NEXT
        argv.append(word)
    return argv


def _place_of_target(command: Command, words: Sequence[str]) -> int:
    """The index of ``mpirun`` in ``words``. Before it the same word may be the value of an option."""
    places = [n for n, word in enumerate(words) if word == command.target]
    if len(places) == 1:
        return places[0]
    from injector.launch.command import split
    from injector.run.declared import declared_options

    return next(n for n in places if split([*words[: n + 1]], declared_options).kind)


def _is_program(word: str, search: str | None) -> bool:
    """Whether a word names the Python interpreter, or a command that is a Python script."""
    if environment.is_interpreter(word):
        return True
    path = environment.find(word, search) if word[:1] not in ("", "-") else None
    return path is not None and environment.interpreter_line(path)


def _has_other_hosts(words: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether an ``mpirun`` with the options ``words`` starts processes on other hosts than this one."""
    hosts: set[str] = set()
    for at, option in enumerate(words[:-1]):
        if option in HOSTS:
            hosts |= set(_names(words[at + 1].split(",")))
        if option in FILES:
            hosts |= set(_names_in_file(words[at + 1]))
    if not hosts and environ.get(FILE_VARIABLE):
        hosts = set(_names_in_file(environ[FILE_VARIABLE]))
    if not hosts:
        number = environ.get(NODES_VARIABLE, "")
        return number.isdecimal() and int(number) > 1
    here = os.uname().nodename
    return bool(hosts - {"localhost", "127.0.0.1", here, here.partition(".")[0]})


def _names_in_file(path: str) -> Iterable[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return _names(line.partition("#")[0].partition(" ")[0] for line in file)
    except (OSError, ValueError):
        return []  # mpirun reports it


def _names(hosts: Iterable[str]) -> list[str]:
    """The names of hosts that may have a number of slots behind a colon."""
    return [name for host in hosts if (name := host.strip().partition(":")[0])]


def _is_open_mpi(command: str) -> bool:
    path = environment.find_command(command) or command
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"Open MPI" in done.stdout or b"OpenRTE" in done.stdout
