"""``inject run``: from a command line to an exit code."""

from __future__ import annotations

import os
import sys

from injector.cli.declared import declared, options_of, usable
from injector.cli.supervised import SupervisedRun, program_of
from injector.errors import UserError
from injector.launch import environment
from injector.launch.command import Command, split
from injector.mpi import is_mpi
from injector.store.place import Place, create, create_into

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from injector.cli.step_tasks import StepTask


def main(words: list[str]) -> int:
    """Run a program; returns its exit code, or dies by the signal it died by."""
    try:
        if any(word.startswith("--engine") for word in words):
            from injector.cli import elsewhere

            there = elsewhere.taken(words)
            if there.engine != "local":
                return elsewhere.run(there)
            words = there.words()
        if any(word.startswith("--container") for word in words):
            from injector.cli import contained

            given = contained.taken(words)
            if given.wanted:
                return contained.run(given)
            words = given.bare
        command = split(words, declared)
        if "--help" in command.flags:
            from injector.cli.help import run_help

            print(run_help(options_of(command)), end="")
            return 0
        if not command.kind:
            raise UserError("nothing to run: name a script, `-m MODULE` or a command")
        if command.layers and not command.automatic:
            raise UserError(
                "--layers needs the shipped voirfiles, which --no-auto leaves out: not both"
            )
        if {"--quiet", "--verbose"} <= command.flags:
            raise UserError("--quiet prints nothing, --verbose more than else: not both")
        _check_flops(command)
        _check_lock(command)
        if command.kind == "script" and command.target.endswith(".ipynb"):
            raise UserError(
                f"{command.target} is a notebook, which Python itself cannot run: name what runs it, as in "
                f"`inject run jupyter nbconvert --to notebook --execute {command.target}`"
            )
        if command.kind == "command" and is_mpi(command.target):
            _leave_to_mpi(command, words)
        if "--sample" in command.flags:
            from injector.monitor.sampler import check as check_sampler

            check_sampler(native="--sample-native" in command.flags)
        voirfiles, problems = usable(command)
        if command.kind == "script" and not os.path.exists(command.target):
            _check_command(command.target)
            path, argv = program_of(command)
            os.execv(path, argv)  # python says best what it makes of that
        task = _task(command)
        place = _place(command) if task is None else task.place(lambda: _place(command))
    except UserError as error:
        print(f"inject: {error}", file=sys.stderr)
        return 2
    return SupervisedRun(command, voirfiles, place, problems, task).code()


def _task(command: Command) -> StepTask | None:
    """The task of a Slurm step or of ``mpirun`` that this process is, if it is one. Raises UserError."""
    environ = os.environ
    if "OMPI_COMM_WORLD_SIZE" in environ or "PMI_SIZE" in environ:
        from injector.cli.step_tasks import mpi_task

        if task := mpi_task(command, environ):
            return task
    if "SLURM_STEP_NUM_TASKS" not in environ:
        return None
    from injector.cli.step_tasks import step_task

    return step_task(command, environ)


def _leave_to_mpi(command: Command, words: list[str]) -> None:
    """Become an ``mpirun`` each of whose processes is an ``inject run``, where it has several hosts."""
    from injector.cli.mpi_hosts import over_hosts

    if argv := over_hosts(command, words, os.environ):
        path = environment.find_command(command.target) or command.target
        os.execv(path, argv)


def _check_flops(command: Command) -> None:
    """Raise UserError where FLOPs cannot be counted, or would be of no use."""
    if "--flops" not in command.flags:
        if command.peak is not None:
            raise UserError("--peak-flops is for the MFU that --flops finds: add --flops")
    elif command.kind == "stdin":
        raise UserError(
            "--flops runs the program once more: it has to be a file, not standard input"
        )


def _check_lock(command: Command) -> None:
    """Raise UserError where the program would run without the global interpreter lock.

    It is the program's that counts: in our own process, importing an extension may have put it on.
    """
    if "t" not in sys.abiflags or command.kind == "command":
        return
    if sys._xoptions.get("gil", os.environ.get("PYTHON_GIL")) != "1":
        raise UserError(
            f"{sys.executable} is a free-threaded Python, and a program cannot be probed without the "
            "global interpreter lock, which guards what probes share between threads: set PYTHON_GIL=1 "
            "for the run, or use the ordinary build of Python"
        )


def _check_command(word: str) -> None:
    """Raise UserError for what is no file, and by its look was meant to be a command."""
    if "/" in word or word.endswith((".py", ".pyc", ".zip")):
        return
    from difflib import get_close_matches

    names: set[str] = set()
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for folder in (*folders, os.path.dirname(sys.executable)):
        try:
            names.update(os.listdir(folder))
        except OSError:
            continue
    near = get_close_matches(word, sorted(names), 1, 0.75)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UserError(f"{word} is neither a file nor a command{hint}")


def _place(command: Command) -> Place:
    """The run folder. Raises UserError when the one that was named is no place for a run."""
    if command.into is None:
        place = os.path.abspath(command.runs or "")
        while not os.path.lexists(place):
            place = os.path.dirname(place)
        if not os.path.isdir(place):
            raise UserError(f"--runs {command.runs}: {place} is a file, and no folder for runs")
        return create(command.name, command.runs)
    if command.runs is not None:
        raise UserError(
            "--into names the run folder, --runs the folder that it is made in: not both"
        )
    return create_into(command.into)
