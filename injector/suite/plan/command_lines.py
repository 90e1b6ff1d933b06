"""The command line of one process of a plan: ``inject run`` and its options, a launcher, the program.

Every benchmark here has been filled: no placeholder is left in its settings.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ...errors import UserError
from ...limits import LIMITS, limit, phase_of
from ...mpi import is_mpi
from ..config.definitions import DEFINITION_FILES
from ..config.model import Benchmark
from ..config.problems import Problem, SuiteError, meant, nearest
from ..environments.own_package import PACKAGE

VOIRFILE = "voirfile.py"


class ProgramCommand(NamedTuple):
    """What runs, before it is known on how many devices."""

    kind: str
    """``module`` ``script`` ``command``."""
    target: str
    arguments: tuple[str, ...]

    def words(self) -> list[str]:
        """As ``inject run`` and ``python`` take it."""
        before = ["-m"] if self.kind == "module" else []
        return [*before, self.target, *self.arguments]


def program_of(benchmark: Benchmark, python: str, arguments: Sequence[str]) -> ProgramCommand:
    """The program that ``run`` names: ``-m pkg.mod``, ``script.py``, ``command sub``.

    A script lies beside the file that names it, in the folder of the definition, or where the program
    runs; a command in the environment. Without ``run`` it is ``main.py`` of the definition.

    Raises:
        SuiteError: nothing says what to run.
    """
    run = benchmark.settings.get("run") or ""
    words = list(map(str, run)) if isinstance(run, list) else list(_split(str(run)))
    words = words or _default_program(benchmark)
    target, *rest = words or [""]
    if target == "-m" and rest:
        return ProgramCommand("module", rest[0], (*rest[1:], *arguments))
    if target in ("", "-m"):
        text = "nothing to run: `run` is `-m package.module`, `script.py` or a command"
        raise SuiteError([Problem(benchmark.at("run"), text)])
    if target.endswith(".py") or os.path.isabs(target):
        return ProgramCommand("script", _script(benchmark, target), (*rest, *arguments))
    return ProgramCommand("command", _command(python, target), (*rest, *arguments))


def _script(benchmark: Benchmark, target: str) -> str:
    if os.path.isabs(target):
        return target
    found = benchmark.path(target, "run")
    return str(found) if os.path.isfile(found) else target


@lru_cache(256)
def _split(run: str) -> tuple[str, ...]:
    return tuple(shlex.split(run))


def _command(python: str, name: str) -> str:
    """A command of an environment; ``name`` may be a path as well."""
    return os.path.join(os.path.dirname(python), name)


def _default_program(benchmark: Benchmark) -> list[str]:
    return [main] if (main := _beside(benchmark, "main.py")) else []


def _beside(benchmark: Benchmark, name: str) -> str | None:
    """A file of the definition, if it has it."""
    if benchmark.definition is None:
        return None
    path = os.path.join(benchmark.definition, name)
    return path if os.path.isfile(path) else None


class Ranks(NamedTuple):
    """Over what a launcher starts ranks."""

    devices: int
    """Of each machine."""
    machines: int
    arch: str

    def words(self) -> list[str]:
        """As torchrun takes it. Several machines meet where ``PET_RDZV_ENDPOINT`` says, which it reads."""
        each = ["--nproc-per-node", str(self.devices)]
        if self.machines == 1:  # standalone: it takes a free port, so that two suites never meet
            return ["--standalone", *each]
        return ["--nnodes", str(self.machines), *each, "--rdzv-backend", "c10d"]


def launcher_argv(
    benchmark: Benchmark, program_of: ProgramCommand, python: str, ranks: Ranks
) -> list[str]:
    """``program`` as one job over so many devices, started as ``plan.launcher`` says.

    On each of several machines the same words are run.

    That is one of ``torchrun`` (the usual one), ``accelerate``, ``deepspeed``, ``tune``; ``none``, where
    the program starts its ranks itself; ``mpirun`` or ``mpiexec``, of which one starts the ranks of all
    machines; or a command of the environment that the program is added to.

    Raises:
        SuiteError: a word that is nearly a launcher's; tune for a program that is not torchtune's; on
            several machines a launcher that would start a job of its own on each, and MPI in containers.
    """
    words = shlex.split(str(benchmark.plan.get("launcher") or ""))
    words = words or [_default_launcher(benchmark)]
    if words == ["none"]:
        return program_of.words()
    if words == ["tune"] and "run" not in program_of.words():
        text = f"tune starts torchtune's `tune run RECIPE`, and run is {shlex.join(program_of.words())}"
        raise SuiteError([Problem(benchmark.at("plan", "launcher"), text)])
    if len(words) == 1 and (launcher := LAUNCHERS.get(words[0])):
        return launcher(program_of, ranks)
    if is_mpi(words[0]):
        return _mpi(benchmark, program_of, python, words, ranks)
    if ranks.machines > 1 and os.path.basename(words[0]) in WORLDS:
        text = (
            f"plan.launcher: {shlex.join(words)} would start a job of its own on each of {ranks.machines} "
            f"machines, where ranks that meet need one of {', '.join(LAUNCHERS)}, a torchrun with options, "
            f"mpirun or none"
        )
        raise SuiteError([Problem(benchmark.at("plan", "launcher"), text)])
    known = (*LAUNCHERS, "none")
    if len(words) == 1 and nearest(words[0], known):
        text = f"no launcher is called {words[0]!r}{meant(words[0], known)}"
        raise SuiteError([Problem(benchmark.at("plan", "launcher"), text)])
    if words[0] == "-m":
        return [*words, *program_of.words()]
    return [_command(python, words[0]), *words[1:], *program_of.words()]


def _default_launcher(benchmark: Benchmark) -> str:
    """torchrun; milabench's classes say where they want it, and all others start one process."""
    own, milabench = (_beside(benchmark, name) for name in DEFINITION_FILES)
    return "none" if milabench and not own else "torchrun"


def _torchrun(program_of: ProgramCommand, ranks: Ranks) -> list[str]:
    how = {"module": ["-m"], "command": ["--no-python"]}.get(program_of.kind, [])
    words = ["-m", "torch.distributed.run", *ranks.words(), *how]
    return [*words, program_of.target, *program_of.arguments]


def _accelerate(program_of: ProgramCommand, ranks: Ranks) -> list[str]:
    # It reads torchrun's variables; on the cores it starts no more than one process of its own.
    if ranks.arch == "cpu" or ranks.machines > 1:
        return _torchrun(program_of, ranks)
    words = ["-m", "accelerate.commands.launch", "--num_machines", "1"]
    words += ["--num_processes", str(ranks.devices)]
    words += ["--mixed_precision", "no", "--dynamo_backend", "no"]
    words += ["--multi_gpu", "--main_process_port", "0"] if ranks.devices > 1 else []
    how = {"module": ["-m"], "command": ["--no_python"]}.get(program_of.kind, [])
    return [*words, *how, program_of.target, *program_of.arguments]


def _deepspeed(program_of: ProgramCommand, ranks: Ranks) -> list[str]:
    if ranks.machines > 1:  # its own launcher would start the others by ssh, past the engine
        return _torchrun(program_of, ranks)
    words = ["-m", "deepspeed.launcher.runner", "--num_gpus", str(ranks.devices)]
    how = {"module": ["--module"], "command": ["--no_python"]}.get(program_of.kind, [])
    return [*words, *how, program_of.target, *program_of.arguments]


def _tune(program_of: ProgramCommand, ranks: Ranks) -> list[str]:
    """torchtune's ``tune run`` is the program, takes torchrun's options, and the recipe after them."""
    words = program_of.words()
    at = words.index("run") + 1
    return [*words[:at], *ranks.words(), *words[at:]]


LAUNCHERS: dict[str, Callable[[ProgramCommand, Ranks], list[str]]] = {
    "torchrun": _torchrun,
    "accelerate": _accelerate,
    "deepspeed": _deepspeed,
    "tune": _tune,
}


WORLDS = ("horovodrun", "srun", "jsrun", "aprun", "accelerate", "deepspeed")
"""Commands that, with options of one's own, start ranks on all machines by themselves, or of one alone."""

MPI_START = str(PACKAGE / "suite/run/mpi_start.py")
"""What starts such a command over several machines."""


def _mpi(
    benchmark: Benchmark,
    program_of: ProgramCommand,
    python: str,
    words: Sequence[str],
    ranks: Ranks,
) -> list[str]:
    """Without options a rank for each device. The command is the environment's, else the machine's."""
    command, *options = words
    own = _command(python, command)
    if python and "/" not in command and os.path.isfile(own):
        command = own
    options = options or ["-n", str(ranks.devices * ranks.machines)]
    before = [] if program_of.kind == "command" else [python or "python"]
    whole = [command, *options, *before, *program_of.words()]
    if ranks.machines == 1:
        return whole
    if not python:
        text = f"plan.launcher: {words[0]} starts no ranks in containers on several machines: torchrun does"
        raise SuiteError([Problem(benchmark.at("plan", "launcher"), text)])
    # Isolated, so that it is no process of the program.
    return [python, "-I", "-S", MPI_START, str(ranks.devices), str(ranks.machines), *whole]


def inject_argv(
    benchmark: Benchmark,
    python: str,
    run: str,
    program_of: Sequence[str],
    container: Sequence[str] = (),
) -> list[str]:
    """``inject run`` of ``program`` in the environment of ``python``, recorded in ``run``.

    ``container``: the options for the container that all of that runs in.
    """
    words = [python, "-m", "injector", "run", *container, "--into", run, "--name", benchmark.name]
    words += ["--quiet", "--timeout", _number(benchmark.max_duration)]
    for path in voirfiles(benchmark):
        words += ["--voirfile", path]
    words += options(benchmark)
    return [*words, "--", *program_of]


def voirfiles(benchmark: Benchmark) -> list[str]:
    """The voirfiles, absolute: those that ``voirfile`` names, else the one of the definition."""
    named = benchmark.settings.get("voirfile")
    if named is None:
        found = _beside(benchmark, VOIRFILE)
        return [found] if found else []
    listed = named if isinstance(named, list) else [str(named)]
    return [each if each == "auto" else str(benchmark.path(each, "voirfile")) for each in listed]


def options(benchmark: Benchmark) -> list[str]:
    """The words that ``voir.options`` comes to.

    Raises:
        SuiteError: a value that no option takes, or one of ``inject run`` where no voirfile may have its own
            option of that name.
    """
    given = (benchmark.settings.get("voir") or {}).get("options") or {}
    taken: dict[str, Any] = {}
    for name, value in given.items():
        taken["--" + str(name).replace("_", "-")] = value
        if isinstance(value, Mapping):
            text = "an option takes a value, true, false or a list of values, not a mapping"
            raise SuiteError([Problem(benchmark.at("voir", "options", name), text)])
    if {*voirfiles(benchmark)} <= {"auto"}:
        _check(benchmark, given)
    return [word for option, value in taken.items() for word in _option(option, value)]


def _check(benchmark: Benchmark, given: Mapping[str, Any]) -> None:
    """Raise SuiteError for a value that ``inject run`` would not take, before anything is run."""
    for name, value in given.items():
        option = "--" + str(name).replace("_", "-")
        text = value if isinstance(value, str) else f"{value}"
        if value is None or "{" in text:  # what is not known yet
            continue
        try:
            if option == "--phase":
                phase_of(text)
            elif option in LIMITS:
                limit(option, text)
        except UserError as error:
            place = benchmark.at("voir", "options", name)
            raise SuiteError([Problem(place, str(error).replace(option, name, 1))]) from None


def _option(option: str, value: Any) -> Iterator[str]:
    if value is None:
        return
    if value is False:
        yield "--no-" + option[2:]
        return
    yield option
    if isinstance(value, (list, tuple)):
        yield from map(str, value)
    elif value is not True:
        yield _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
