"""``inject run``: the command line is checked, the run folder made, and the program started.

``--engine`` and ``--container`` run the same command elsewhere, and an ``mpirun`` over several hosts runs it
on each of them.
"""

from __future__ import annotations

import os
import sys

from injector.errors import UserError
from injector.launch import environment
from injector.launch.command import Command, split
from injector.mpi import is_mpi
from injector.run.declared import declared_options, options_of, usable_voirfiles
from injector.run.program import path_and_argv
from injector.run.supervised import SupervisedRun
from injector.store.place import new_place

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from injector.run.step_tasks import StepTask


def main(words: list[str]) -> int:
    """Run a program and return its exit code. If a signal ended it, this process ends by the same signal."""
    try:
        if any(word.startswith("--engine") for word in words):
            from injector.run import elsewhere

            by_engine = elsewhere.parse(words)
            if by_engine.engine != "local":
                return elsewhere.run(by_engine)
            words = by_engine.words()
        if any(word.startswith("--container") for word in words):
            from injector.run import contained

            in_container = contained.parse(words)
            if in_container.is_wanted:
                return contained.run(in_container)
            words = in_container.words_outside
        command = split(words, declared_options)
        if "--help" in command.flags:
            from injector.cli.help import run_help

            print(run_help(options_of(command)), end="")
            return 0
        _check(command)
        if command.kind == "command" and is_mpi(command.target):
            _exec_mpirun(command, words)
        if "--sample" in command.flags:
            from injector.monitor.sampler import check as check_sampler

            check_sampler(native="--sample-native" in command.flags)
        voirfiles, problems = usable_voirfiles(command)
        if command.kind == "script" and not os.path.exists(command.target):
            _check_missing_file(command.target)
            path, argv = path_and_argv(command)
            os.execv(path, argv)  # the error is to be Python's own
        task = _task_of(command)
        where = command.name, command.runs, command.into
        place = new_place(*where) if task is None else task.place(lambda: new_place(*where))
    except UserError as error:
        print(f"inject: {error}", file=sys.stderr)
        return 2
    return SupervisedRun(command, voirfiles, place, problems, task).exit_code()


def _check(command: Command) -> None:
    """Raise UserError if there is no program, or options contradict each other."""
    if not command.kind:
        raise UserError("nothing to run: name a script, `-m MODULE` or a command")
    if command.layers and not command.automatic:
        raise UserError(
            "--layers needs the shipped voirfiles, which --no-auto leaves out: not both"
        )
    if {"--quiet", "--verbose"} <= command.flags:
        raise UserError("--quiet prints nothing, --verbose more than usual: not both")
    _check_flops(command)
    _check_gil(command)
    if command.kind == "script" and command.target.endswith(".ipynb"):
        raise UserError(
            f"{command.target} is a notebook, which Python itself cannot run: name what runs it, as in "
            f"`inject run jupyter nbconvert --to notebook --execute {command.target}`"
        )


def _task_of(command: Command) -> StepTask | None:
    """This process as a task of a Slurm step or of ``mpirun``; None if it is none. Raises UserError."""
    environ = os.environ
    if "OMPI_COMM_WORLD_SIZE" in environ or "PMI_SIZE" in environ:
        from injector.run.own_task import mpi_task

        if task := mpi_task(command, environ):
            return task
    if "SLURM_STEP_NUM_TASKS" not in environ:
        return None
    from injector.run.own_task import step_task

    return step_task(command, environ)


def _exec_mpirun(command: Command, words: list[str]) -> None:
    """Replace this process by ``mpirun inject run …`` if the ``mpirun`` of the command has several hosts."""
    from injector.run.mpi_hosts import over_hosts

    if argv := over_hosts(command, words, os.environ):
        path = environment.find_command(command.target) or command.target
        os.execv(path, argv)


def _check_flops(command: Command) -> None:
    """Raise UserError if FLOPs cannot be counted, or ``--peak-flops`` has no use."""
    if "--flops" not in command.flags:
        if command.peak is not None:
            raise UserError("--peak-flops is for the MFU that --flops finds: add --flops")
    elif command.kind == "stdin":
        raise UserError(
            "--flops runs the program once more: it has to be a file, not standard input"
        )


def _check_gil(command: Command) -> None:
    """Raise UserError if the program would run without the global interpreter lock.

    ``sys._is_gil_enabled()`` does not tell: an extension that was imported here may have enabled it.
    """
    if "t" not in sys.abiflags or command.kind == "command":
        return
    if sys._xoptions.get("gil", os.environ.get("PYTHON_GIL")) != "1":
        raise UserError(
            f"{sys.executable} is a free-threaded Python, and a program cannot be probed without the "
            "global interpreter lock, which guards what probes share between threads: set PYTHON_GIL=1 "
            "for the run, or use the ordinary build of Python"
        )


def _check_missing_file(word: str) -> None:
    """Raise UserError if ``word``, which is no file, looks like a command that was misspelt."""
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
