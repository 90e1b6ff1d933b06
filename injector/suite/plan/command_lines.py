"""The command line of one process of a plan: ``inject run`` and its options, a launcher, the program.

::

    PYTHON -m injector run --into FOLDER --voirfile FILE -- -m torch.distributed.run ... train.py --lr 0.1
    `----------------- inject_argv --------------------' `---- launcher_argv -----' `-- program_of --'

The benchmarks that come in here are filled: no placeholder is left in their settings.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import UserError
from ...limits import CONTAINER, ENGINE, FLAGS, LIMITS, READERS, TEXTS, limit
from ...mpi import is_mpi
from ..config.definitions import DEFINITION_FILES
from ..config.model import Benchmark
from ..config.problems import Problem, SuiteError, kind, meant, nearest
from ..environments.own_package import PACKAGE

VOIRFILE = "voirfile.py"
"""The name of the voirfile that a definition may have."""
OPTIONS = [
    option
    for option in (*LIMITS, *READERS, *TEXTS, *FLAGS)
    if option not in ("--into", "--runs", "--name", "--help", *CONTAINER, *ENGINE)
]
"""The options of ``inject run`` that ``voir.options`` may set: not those that say where a process of a suite
runs and records."""


class ProgramCommand(NamedTuple):
    """The program of a benchmark, without a launcher."""

    kind: str
    """``module``, ``script`` or ``command``."""
    target: str
    """The module's name, or the path of the script or command."""
    arguments: tuple[str, ...]

    def words(self, module: str = "-m", command: str = "") -> list[str]:
        """The words that ``inject run``, ``python`` or a launcher start it by.

        A launcher has options of its own that go before a ``module`` and before a ``command``.
        """
        option = {"module": module, "command": command}.get(self.kind)
        return [*([option] if option else []), self.target, *self.arguments]


def program_of(benchmark: Benchmark, python: str, arguments: Sequence[str]) -> ProgramCommand:
    """The program that the setting ``run`` names: ``-m pkg.mod``, ``script.py`` or ``command sub``.

    A script is looked for beside the file that names it, then in the folder of the definition; otherwise its
    path is relative to where the program runs. A command is one of the environment that ``python`` belongs
    to. Without ``run`` the program is the definition's ``main.py``. Raises SuiteError if the settings do not
    say what to run.
    """
    run = benchmark.settings.get("run") or ""
    words = list(map(str, run)) if isinstance(run, list) else shlex.split(str(run))
    if not words and (main := _definition_file(benchmark, "main.py")):
        words = [main]
    target, *rest = words or [""]
    if target == "-m" and rest:
        return ProgramCommand("module", rest[0], (*rest[1:], *arguments))
    if target in ("", "-m"):
        text = "nothing to run: `run` is `-m package.module`, `script.py` or a command"
        raise SuiteError([Problem(benchmark.at("run"), text)])
    if target.endswith(".py") or os.path.isabs(target):
        path = str(benchmark.path(target, "run"))
        return ProgramCommand(
            "script", path if os.path.isfile(path) else target, (*rest, *arguments)
        )
    return ProgramCommand("command", _command_path(python, target), (*rest, *arguments))


def _command_path(python: str, name: str) -> str:
    """The path of a command of the environment of ``python``; an absolute ``name`` stays as it is."""
    return os.path.join(os.path.dirname(python), name)


def _definition_file(benchmark: Benchmark, name: str) -> str | None:
    """The path of the file ``name`` of the benchmark's definition; None if it has no such file."""
    if benchmark.definition is None:
        return None
    path = os.path.join(benchmark.definition, name)
    return path if os.path.isfile(path) else None


class Ranks(NamedTuple):
    """The devices that a launcher starts ranks for, one rank each."""

    devices: int
    """How many on each machine."""
    machines: int
    arch: str
    """The kind of the devices."""

    def words(self) -> list[str]:
        """The options of torchrun.

        On several machines torchrun also reads the variable ``PET_RDZV_ENDPOINT``: the address where its
        processes meet is not known before the job has its machines.
        """
        per_machine = ["--nproc-per-node", str(self.devices)]
        if self.machines == 1:
            # Standalone takes a free port: two suites on one machine would meet at torchrun's usual one.
            return ["--standalone", *per_machine]
        return ["--nnodes", str(self.machines), *per_machine, "--rdzv-backend", "c10d"]


def launcher_argv(
    benchmark: Benchmark, program: ProgramCommand, python: str, ranks: Ranks
) -> list[str]:
    """The command line that starts ``program`` on all devices of ``ranks`` with the launcher of the plan.

    ``plan.launcher`` is ``torchrun`` (the default), ``accelerate``, ``deepspeed`` or ``tune``; ``none`` for
    a program that starts its ranks itself; ``mpirun`` or ``mpiexec``, which starts the ranks of all machines
    from the first one; or any command of the environment, to which the program is appended.

    The same command line is run on each machine of a job. Raises SuiteError if the launcher is a misspelt
    name, ``tune`` for a program that is not torchtune's, one that would start separate jobs on several
    machines, or MPI for containers on several machines.
    """
    words = shlex.split(str(benchmark.plan.get("launcher") or ""))
    if not words:
        # milabench's own class for a definition may start a single process.
        own, milabench = (_definition_file(benchmark, name) for name in DEFINITION_FILES)
        words = ["none" if milabench and not own else "torchrun"]
    if words == ["none"]:
        return program.words()
    if words == ["tune"] and "run" not in program.words():
        text = (
            f"tune starts torchtune's `tune run RECIPE`, and run is {shlex.join(program.words())}"
        )
        raise SuiteError([Problem(benchmark.at("plan", "launcher"), text)])
    if len(words) == 1 and (launcher := LAUNCHERS.get(words[0])):
        return launcher(program, ranks)
    if is_mpi(words[0]):
        return _mpi(benchmark, program, python, words, ranks)
    # Run on every machine, each of these would start ranks of its own, which never meet the others.
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
        return [*words, *program.words()]
    return [_command_path(python, words[0]), *words[1:], *program.words()]


def _torchrun(program: ProgramCommand, ranks: Ranks) -> list[str]:
    words = ["-m", "torch.distributed.run", *ranks.words()]
    return [*words, *program.words(command="--no-python")]


def _accelerate(program: ProgramCommand, ranks: Ranks) -> list[str]:
    # accelerate's launcher starts one process on the cores, however many are wanted. A program that uses
    # accelerate reads torchrun's variables just as well.
    if ranks.arch == "cpu" or ranks.machines > 1:
        return _torchrun(program, ranks)
    words = ["-m", "accelerate.commands.launch", "--num_machines", "1"]
    words += ["--num_processes", str(ranks.devices)]
    # Without these it takes what `accelerate config` once left in the user's home, and two machines differ.
    words += ["--mixed_precision", "no", "--dynamo_backend", "no"]
    words += ["--multi_gpu", "--main_process_port", "0"] if ranks.devices > 1 else []
    return [*words, *program.words(command="--no_python")]


def _deepspeed(program: ProgramCommand, ranks: Ranks) -> list[str]:
    # deepspeed's launcher starts ranks on other machines by ssh, where the engine could not end them.
    if ranks.machines > 1:
        return _torchrun(program, ranks)
    words = ["-m", "deepspeed.launcher.runner", "--num_gpus", str(ranks.devices)]
    return [*words, *program.words("--module", "--no_python")]


def _tune(program: ProgramCommand, ranks: Ranks) -> list[str]:
    """torchtune's ``tune run``, which takes torchrun's options before the recipe."""
    words = program.words()
    after_run = words.index("run") + 1
    return [*words[:after_run], *ranks.words(), *words[after_run:]]


LAUNCHERS: dict[str, Callable[[ProgramCommand, Ranks], list[str]]] = {
    "torchrun": _torchrun,
    "accelerate": _accelerate,
    "deepspeed": _deepspeed,
    "tune": _tune,
}


WORLDS = ("horovodrun", "srun", "jsrun", "aprun", "accelerate", "deepspeed")
"""Commands that, with options of the user's, start ranks on all machines by themselves or on one alone."""

MPI_START = str(PACKAGE / "suite/run/mpi_start.py")
"""The script that starts mpirun or mpiexec over the several machines of a job."""


def _mpi(
    benchmark: Benchmark, program: ProgramCommand, python: str, words: Sequence[str], ranks: Ranks
) -> list[str]:
    """The command line for mpirun or mpiexec; unless ``words`` has options, it starts a rank per device.

    The environment's own command comes before that of the machine.
    """
    command, *options = words
    in_environment = _command_path(python, command)
    if python and "/" not in command and os.path.isfile(in_environment):
        command = in_environment
    options = options or ["-n", str(ranks.devices * ranks.machines)]
    interpreter = [] if program.kind == "command" else [python or "python"]
    mpi_words = [command, *options, *interpreter, *program.words()]
    if ranks.machines == 1:
        return mpi_words
    if not python:
        text = f"plan.launcher: {words[0]} starts no ranks in containers on several machines: torchrun does"
        raise SuiteError([Problem(benchmark.at("plan", "launcher"), text)])
    # Without site packages (-I -S) the start script loads no probes: it is not a process of the program.
    return [python, "-I", "-S", MPI_START, str(ranks.devices), str(ranks.machines), *mpi_words]


def inject_argv(
    benchmark: Benchmark, python: str, run: str, program: Sequence[str], container: Sequence[str]
) -> list[str]:
    """The ``inject run`` that runs ``program`` in the environment of ``python`` and records it in ``run``.

    ``container`` has the options that name a container, which the whole command then runs in.
    """
    words = [python, "-m", "injector", "run", *container, "--into", run, "--name", benchmark.name]
    words += ["--quiet", "--timeout", _decimal(benchmark.max_duration)]
    for path in voirfiles(benchmark):
        words += ["--voirfile", path]
    words += options(benchmark)
    return [*words, "--", *program]


def voirfiles(benchmark: Benchmark) -> list[str]:
    """The absolute paths of the benchmark's voirfiles: those of the setting, else the definition's own.

    ``auto``, which stands for the shipped voirfiles, is kept as it is.
    """
    setting = benchmark.settings.get("voirfile")
    if setting is None:
        path = _definition_file(benchmark, VOIRFILE)
        return [path] if path else []
    names = setting if isinstance(setting, list) else [str(setting)]
    return [name if name == "auto" else str(benchmark.path(name, "voirfile")) for name in names]


def options(benchmark: Benchmark) -> list[str]:
    """The options of ``inject run`` that the setting ``voir.options`` stands for.

    Raises SuiteError if a value is a mapping, or one that ``inject run`` refuses. The latter is checked only
    without voirfiles of the benchmark's own, which may define an option of the same name.
    """
    settings = _settings(benchmark)
    for name, _, value in settings:
        if isinstance(value, Mapping):
            text = "an option takes a value, true, false or a list of values, not a mapping"
            raise SuiteError([Problem(benchmark.at("voir", "options", name), text)])
    if {*voirfiles(benchmark)} <= {"auto"}:
        _check_values(benchmark)
    values = {option: value for _, option, value in settings}
    return [word for option, value in values.items() for word in _option_words(option, value)]


def _settings(benchmark: Benchmark) -> list[tuple[str, str, Any]]:
    """By setting in ``voir.options`` its name, the option that it stands for, and its value."""
    settings = (benchmark.settings.get("voir") or {}).get("options") or {}
    return [(name, "--" + str(name).replace("_", "-"), each) for name, each in settings.items()]


def _check_values(benchmark: Benchmark) -> None:
    """Raise SuiteError for a value that ``inject run`` would refuse, while nothing has run yet."""
    for name, option, value in _settings(benchmark):
        text = value if isinstance(value, str) else f"{value}"
        if value is None:
            continue
        try:
            if option in FLAGS and value is not True:
                raise UserError(f"{option} is true, or is left out; it takes no value")
            if option in (*TEXTS, *READERS) and isinstance(value, (bool, list)):
                raise UserError(f"{option} takes one value, not {kind(value)}")
            if option in READERS:
                READERS[option](text)
            elif option in LIMITS:
                limit(option, text)
        except UserError as error:
            place = benchmark.at("voir", "options", name)
            raise SuiteError([Problem(place, str(error).replace(option, name, 1))]) from None


def unknown_options(benchmark: Benchmark) -> list[Problem]:
    """The settings in ``voir.options`` that no option of ``inject run`` is meant by, if no voirfile acts."""
    names = {option[2:].replace("-", "_"): option for option in OPTIONS}
    return [
        Problem(
            benchmark.at("voir", "options", name),
            f"inject run has no option {words[0]}, and no voirfile declares one{meant(name, names)}",
        )
        for name, option, value in _settings(benchmark)
        if (words := [*_option_words(option, value)]) and words[0] not in OPTIONS
    ]


def _option_words(option: str, value: Any) -> Iterator[str]:
    """``option`` with its value; bare for true, with ``--no-`` for false, left out for None."""
    if value is None:
        return
    if value is False:
        yield "--no-" + option[2:]
        return
    yield option
    if isinstance(value, (list, tuple)):
        yield from map(str, value)
    elif value is not True:
        yield _decimal(value) if isinstance(value, float) else str(value)


def _decimal(value: float) -> str:
    """``value`` with at most six decimals, and never with an exponent, which a parser may not take."""
    return f"{value:.6f}".rstrip("0").rstrip(".")
