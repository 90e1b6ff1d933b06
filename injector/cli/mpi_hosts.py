"""``inject run mpirun --host a,b python train.py`` is ``mpirun --host a,b inject run python train.py``.

Open MPI gives ranks on other hosts nothing of our environment, so one ``inject run`` around it would record
those of this host alone. Hydra (MPICH) does, on a file system that the hosts share.
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
FILE = "OMPI_MCA_orte_default_hostfile"
NODES = "SLURM_JOB_NUM_NODES"
"""Says how many hosts Open MPI has in a job of Slurm, unless it is given some."""
NEXT = ":"
"""Between two programs of one call."""


def over_hosts(
    command: Command, words: Sequence[str], environ: Mapping[str, str]
) -> list[str] | None:
    """The words of an ``mpirun`` whose processes are ``inject run``; None where it has this host alone.

    ``words`` are those of ``inject run``. None too for what is not Open MPI, and where no word shows where
    its Python program begins.
    """
    at = words.index(command.target)
    own, its = words[:at], words[at + 1 :]
    search = environ.get("PATH")
    programs = [n for n, word in enumerate(its) if _is_program(word, search)]
    if not programs or not _has_others(its[: programs[0]], environ):
        return None
    if not _is_open_mpi(command.target):
        return None
    paths = environ.get("PYTHONPATH")
    before = ["env", f"PYTHONPATH={paths}"] if paths else []
    inner = [*before, sys.executable, "-m", "injector", "run", *own]
    made, begun = [command.target], False
    for number, word in enumerate(its):
        if not begun and number in programs:
            made += inner
            begun = True
        begun = begun and word != NEXT
        made.append(word)
    return made


def _is_program(word: str, search: str | None) -> bool:
    """Whether a word is Python, or a script of Python's."""
    if environment.is_interpreter(word):
        return True
    path = environment.find(word, search) if word[:1] not in ("", "-") else None
    return path is not None and environment.interpreter_line(path)


def _has_others(words: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether it is to start something on another host than this one."""
    named: set[str] = set()
    for at, option in enumerate(words[:-1]):
        if option in HOSTS:
            named |= set(_names(words[at + 1].split(",")))
        if option in FILES:
            named |= set(_listed(words[at + 1]))
    if not named and environ.get(FILE):
        named = set(_listed(environ[FILE]))
    if not named:
        number = environ.get(NODES, "")
        return number.isdecimal() and int(number) > 1
    here = os.uname().nodename
    return bool(named - {"localhost", "127.0.0.1", here, here.partition(".")[0]})


def _listed(path: str) -> Iterable[str]:
    """The hosts of a file of such."""
    try:
        with open(path, encoding="utf-8") as file:
            return _names(line.partition("#")[0].partition(" ")[0] for line in file)
    except (OSError, ValueError):
        return []  # mpirun says best what it makes of that


def _names(hosts: Iterable[str]) -> list[str]:
    return [name for host in hosts if (name := host.strip().partition(":")[0])]


def _is_open_mpi(command: str) -> bool:
    path = environment.find_command(command) or command
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"Open MPI" in done.stdout or b"OpenRTE" in done.stdout
