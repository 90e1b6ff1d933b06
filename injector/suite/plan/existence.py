"""Whether what the settings of a process name exists: its program, its launcher, its folder, its voirfiles.

Found now, a slip costs seconds; found when the job's turn comes, it may cost a night. What an image contains
cannot be looked up from here, nor the modules of an environment that may not be installed yet: those are not
checked.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..config.model import Benchmark
from ..config.problems import Problem
from ..environments.setup import Resources
from . import command_lines


class ProgramStart(NamedTuple):
    """How the program of one process starts."""

    benchmark: Benchmark
    """With the placeholders of its settings filled."""
    program: command_lines.ProgramCommand
    first: str
    """The first word of the command line, which may be that of a launcher."""
    current: str
    """The folder that the settings, or the definition, name for it to run in; empty if they name none."""
    folder: str
    """The folder that it runs in."""
    in_container: bool


def missing(
    start: ProgramStart, resources: Resources, base: str, remote: bool
) -> Iterator[Problem]:
    """The mistakes in what the settings name, beginning with voirfiles that are not there.

    ``base`` is the folder of environments and data; ``remote`` whether other machines run the job.
    """
    at, program, folder = start.benchmark.at, start.program, start.folder
    for path in command_lines.voirfiles(start.benchmark):
        if path != "auto" and not resources.has(path):
            yield Problem(at("voirfile"), f"there is no file {path}")
    of_image = program.kind == "command" or os.path.isabs(program.target)
    if not (start.in_container and of_image) and (text := _missing_program(start, resources)):
        yield Problem(at("run"), text)
    if start.in_container:
        return
    first = start.first
    # A bare name is looked up in the PATH of the machine that runs the job, which may be another one.
    exists = resources.has(first) if "/" in first else remote or shutil.which(first)
    if first not in ("-m", program.target) and not exists:
        yield Problem(at("plan", "launcher"), _missing_command(first))
    if not _has_voirfile(start, resources):
        yield from command_lines.unknown_options(start.benchmark)
    # Below the base, a prepare step or the job itself may still create it.
    if not (Path(folder).is_relative_to(base) or resources.has(os.path.join(folder, ""))):
        yield Problem(at("folder"), f"there is no folder {folder}")


def _has_voirfile(start: ProgramStart, resources: Resources) -> bool:
    """Whether ``inject run`` may find a voirfile, whose options nothing knows before it is loaded."""
    names = command_lines.voirfiles(start.benchmark)
    if names:
        return {*names} != {"auto"}
    if "VOIRFILE" in {**os.environ, **(start.benchmark.settings.get("env") or {})}:
        return True
    return any(
        resources.has(os.path.join(start.folder, os.path.dirname(word), command_lines.VOIRFILE))
        for word in (start.program.target, *start.program.arguments)
        if word.endswith(".py")
    )


def _missing_program(start: ProgramStart, resources: Resources) -> str:
    """Which file or command of the program does not exist, as a sentence; empty if all do."""
    target, arguments, kind = start.program.target, start.program.arguments, start.program.kind
    if kind == "module":
        return ""
    if kind == "command":
        if not resources.has(target):
            return _missing_command(target)
        # In `python train.py`, the script is what is likely to be misspelt.
        script = arguments[0] if arguments else ""
        if not (os.path.basename(target).startswith("python") and script.endswith(".py")):
            return ""
        target = script
    exists = resources.has(os.path.join(start.folder, target))
    return "" if exists else _missing_file(target, start)


def _missing_file(target: str, start: ProgramStart) -> str:
    """That there is no file ``target``, as a sentence that names the folders where it could be."""
    text = f"there is no file {target}"
    if os.path.isabs(target):
        return text
    beside_suite = os.path.dirname(os.path.abspath(start.benchmark.at("run").file))
    folders = (beside_suite, start.benchmark.definition, start.current)
    searched = dict.fromkeys(str(folder) for folder in folders if folder)
    return f"{text}: not in {', nor in '.join(searched)}"


def _missing_command(path: str) -> str:
    """That there is no command ``path``, and where another one of its name is, as a sentence."""
    folder, name = os.path.split(path)
    text = f"there is no command {name} in {folder or 'the environment, nor on the PATH'}"
    other = shutil.which(name)
    return f"{text}; there is {other}, if its whole path is given" if other else text
