"""``inject run --engine slurm|ssh|ray …``: runs the same command elsewhere, and has its run folder here.

With Slurm it becomes ``srun … inject run …``, whose tasks share the run folder. With ssh and Ray the current
folder and the environment of ``inject`` are copied to the machine, and the run folder is copied back, unless
both machines see that folder.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from types import FrameType

from injector.errors import UserError
from injector.launch import supervisor
from injector.limits import ENGINE
from injector.run.outer_options import (
    OuterCommand,
    discard_unused,
    leading_options,
    program_of,
    reserve,
)
from injector.store.run_json import NotARunError, read_info
from injector.suite.run import ray_program, slurm
from injector.suite.run.ssh_nodes import SshNode, call, nodes_of

NAMES = ("local", "slurm", "ssh", "ray")
PID = ".pid"
"""The file in the run folder with the id of the process over ssh."""
BROKEN = 255
"""The exit code of ssh if the connection broke, or a signal ended the command."""
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EngineCommand(OuterCommand):
    """A command line with options of an engine."""

    @property
    def engine(self) -> str:
        return self.value("--engine") or "local"

    @property
    def engine_options(self) -> dict[str, str | bool]:
        texts = [each.value for each in self.options if each.name == "--engine-option"]
        pairs = (text.partition("=") for text in texts)
        return {name: text if has_value else True for name, has_value, text in pairs}

    def words(self, *without: str) -> list[str]:
        """The command line without the options of the engine and those named ``without``."""
        return super().words(*ENGINE, *without)


def parse(words: list[str]) -> EngineCommand:
    """Divide a command line. Raises UserError for an unknown engine, and options without one."""
    command = EngineCommand(*leading_options(words))
    if command.engine not in NAMES:
        raise UserError(f"--engine is {', '.join(NAMES[:-1])} or {NAMES[-1]}, not {command.engine}")
    if command.engine_options and command.engine == "local":
        raise UserError("--engine-option is for --engine slurm, --engine ssh and --engine ray")
    return command


def run(command: EngineCommand) -> int:
    """Run the command by its engine. Returns the exit code of the ``inject run`` there. Raises UserError."""
    own, options = [sys.executable, "-m", "injector", "run"], command.engine_options
    if command.engine == "slurm":
        words = ["srun", *slurm.option_words(options, own=()), *own, *command.words()]
        if shutil.which("srun") is None:
            raise UserError("there is no command srun: Slurm is not installed here")
        if partition := options.get("partition"):
            slurm.nodes(str(partition))  # raises UserError if there is no such partition
        os.execvp("srun", words)
    node = _node(options) if command.engine == "ssh" else None
    place = reserve(command.options, program_of(command.rest))
    words = [*own, "--into", str(place.path), *command.words("--runs", "--into")]
    try:
        if node is None:
            return _run_by_ray(options, str(place.path), words)
        return _run_by_ssh(node, str(place.path), words)
    finally:
        discard_unused(place)


def _run_by_ray(options: Mapping[str, str | bool], folder: str, words: list[str]) -> int:
    """Run ``words``, which record into ``folder``, as a task of Ray."""
    here = os.getcwd()
    sources = [here, *_environment()]
    end = ray_program.run(options, words, here, folder, sources, _not_copied(here, folder))
    if isinstance(end, str):
        print(f"inject run: {end}", file=sys.stderr)
        return BROKEN
    return end if end >= 0 else supervisor.die(-end)


def _not_copied(here: str, folder: str) -> list[str]:
    """What of the current folder is not copied: all runs, or this one if their folder holds ``here``, too."""
    runs = os.path.dirname(folder)
    left_out = folder if os.path.commonpath([here, runs]) == runs else runs
    return [left_out, "__pycache__"]


def _environment() -> list[str]:
    """The folder of the virtual environment of ``inject``, if it is in one."""
    return [sys.prefix] if sys.prefix != sys.base_prefix else []


def _run_by_ssh(node: SshNode, folder: str, words: list[str]) -> int:
    """Run ``words``, which record into ``folder``, on ``node``. Raises UserError."""
    here = os.getcwd()
    if not (shared := _sees(node, folder)):
        exclusions = [f"--exclude={each}" for each in _not_copied(here, folder)]
        _call(node, node.copy_argv([here, *_environment()], options=exclusions))
    pid = shlex.quote(os.path.join(folder, PID))
    if paths := os.environ.get("PYTHONPATH"):
        words = ["env", f"PYTHONPATH={paths}", *words]
    script = f"mkdir -p {shlex.quote(folder)} && cd {shlex.quote(here)} && echo $$ > {pid}"
    code = _run_script(node, f"{script} && exec {shlex.join(words)}", pid)
    if not shared:
        _call(node, node.copy_argv([folder], back=True))
    with suppress(OSError):
        os.unlink(os.path.join(folder, PID))
    return _recorded_end(folder) if code == BROKEN else code


def _recorded_end(folder: str) -> int:
    """End by the signal that ended the program, or return :data:`BROKEN` if its run folder names none.

    The exit code of ssh is the same for a death by a signal and for a broken connection.
    """
    with suppress(NotARunError):
        number = (read_info(folder).get("exit") or {}).get("signal")
        if number:
            return supervisor.die(number)
    return BROKEN


def _sees(node: SshNode, folder: str) -> bool:
    """Whether ``node`` sees ``folder``: on a file system that both share."""
    with tempfile.NamedTemporaryFile(dir=folder) as mark:
        test = node.argv(f"test -e {shlex.quote(mark.name)}")
        return subprocess.run(test, stdin=subprocess.DEVNULL, check=False).returncode == 0


def _call(node: SshNode, argv: list[str]) -> None:
    """Run a command of this machine that reaches ``node``. Raises UserError, with the node's name."""
    try:
        call(argv)
    except UserError as error:
        raise UserError(f"{node.destination}: {error}") from None


def _run_script(node: SshNode, script: str, pid: str) -> int:
    """Run ``script`` on ``node`` and pass signals on to it. Its process writes its id to the file ``pid``."""

    def forward(number: int, frame: FrameType | None) -> None:
        subprocess.Popen(node.argv(f"kill -{number} $(cat {pid})"), stdin=subprocess.DEVNULL)

    # In a session of its own: a Ctrl-C of the terminal would end the connection, and not the program.
    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        return subprocess.Popen(node.argv(script), start_new_session=True).wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _node(options: Mapping[str, str | bool]) -> SshNode:
    """The machine that ``host=[USER@]HOST``, ``port`` and ``sshkey`` name. Raises UserError."""
    host = options.get("host")
    if not isinstance(host, str) or not host:
        raise UserError("--engine ssh needs --engine-option host=[USER@]HOST")
    if unknown := [name for name in options if name not in ("host", "port", "sshkey")]:
        raise UserError(f"--engine-option {unknown[0]}: over ssh there are host, port and sshkey")
    user, _, address = host.rpartition("@")
    port = options.get("port")
    given: dict[str, object] = {"name": address, "user": user, "sshkey": options.get("sshkey")}
    if port is not None:
        given["port"] = int(port) if str(port).isdecimal() else port
    return nodes_of({"nodes": [given]})[0]
