"""``inject run --engine slurm|ssh|ray …``: the same command elsewhere, its run folder here in the end.

On Slurm it becomes ``srun … inject run …``, whose tasks share the run folder. Over ssh and by Ray the current
folder and the environment of ``inject`` are copied to the machine, and the run folder is copied back, unless
the machine sees that one.
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

from injector.cli.outer_options import (
    OuterCommand,
    discard_unused,
    leading_options,
    program_of,
    reserved,
)
from injector.errors import UserError
from injector.launch import supervisor
from injector.launch.command import ENGINE
from injector.store.run_json import NotARunError, read_info
from injector.suite.run import ray_program, slurm
from injector.suite.run.ssh_nodes import SshNode, call, nodes_of

NAMES = ("local", "slurm", "ssh", "ray")
PID = ".pid"
BROKEN = 255
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Elsewhere(OuterCommand):
    """A command line as far as its engine is concerned."""

    @property
    def engine(self) -> str:
        return self.value("--engine") or "local"

    @property
    def engine_options(self) -> dict[str, str | bool]:
        texts = [each.value for each in self.options if each.name == "--engine-option"]
        pairs = (text.partition("=") for text in texts)
        return {name: text if has_value else True for name, has_value, text in pairs}

    def words(self, *without: str) -> list[str]:
        """What is not about the engine, without some options."""
        return super().words(*ENGINE, *without)


def taken(words: list[str]) -> Elsewhere:
    """Take a command line apart. Raises UserError."""
    found = Elsewhere(*leading_options(words))
    if found.engine not in NAMES:
        raise UserError(f"--engine is {', '.join(NAMES[:-1])} or {NAMES[-1]}, not {found.engine}")
    if found.engine_options and found.engine == "local":
        raise UserError("--engine-option is for --engine slurm, --engine ssh and --engine ray")
    return found


def run(given: Elsewhere) -> int:
    """Run it; the exit code of the ``inject run`` there. Raises UserError."""
    own, options = [sys.executable, "-m", "injector", "run"], given.engine_options
    if given.engine == "slurm":
        words = ["srun", *slurm.option_words(options, own=()), *own, *given.words()]
        if shutil.which("srun") is None:
            raise UserError("there is no command srun: Slurm is not installed here")
        if partition := options.get("partition"):
            slurm.nodes(str(partition))
        os.execvp("srun", words)
    node = _node(options) if given.engine == "ssh" else None
    place = reserved(given.options, program_of(given.rest))
    words = [*own, "--into", str(place.path), *given.words("--runs", "--into")]
    try:
        if node is None:
            return _by_ray(options, str(place.path), words)
        return _run_there(node, str(place.path), words)
    finally:
        discard_unused(place)


def _by_ray(options: Mapping[str, str | bool], folder: str, words: list[str]) -> int:
    here = os.getcwd()
    sources = [here, *_environment()]
    end = ray_program.run(options, words, here, folder, sources, _not_copied(here, folder))
    if isinstance(end, str):
        print(f"inject run: {end}", file=sys.stderr)
        return BROKEN
    return end if end >= 0 else supervisor.die(-end)


def _not_copied(here: str, folder: str) -> list[str]:
    """Of the current folder: where runs are kept, or this run alone where it lies between other files."""
    runs = os.path.dirname(folder)
    kept = folder if os.path.commonpath([here, runs]) == runs else runs
    return [kept, "__pycache__"]


def _environment() -> list[str]:
    """The virtual environment of ``inject``, if it is in one."""
    return [sys.prefix] if sys.prefix != sys.base_prefix else []


def _run_there(node: SshNode, folder: str, words: list[str]) -> int:
    """Run ``words`` there, which record into ``folder``. Raises UserError."""
    here = os.getcwd()
    if not (shared := _sees(node, folder)):
        skipped = [f"--exclude={each}" for each in _not_copied(here, folder)]
        _reached(node, node.copy_argv([here, *_environment()], options=skipped))
    pid = shlex.quote(os.path.join(folder, PID))
    if paths := os.environ.get("PYTHONPATH"):
        words = ["env", f"PYTHONPATH={paths}", *words]
    script = f"mkdir -p {shlex.quote(folder)} && cd {shlex.quote(here)} && echo $$ > {pid}"
    code = _forwarding(node, f"{script} && exec {shlex.join(words)}", pid)
    if not shared:
        _reached(node, node.copy_argv([folder], back=True))
    with suppress(OSError):
        os.unlink(os.path.join(folder, PID))
    return _end(folder) if code == BROKEN else code


def _end(folder: str) -> int:
    """The end of a program whose death by a signal ssh does not tell from a broken connection."""
    with suppress(NotARunError):
        number = (read_info(folder).get("exit") or {}).get("signal")
        if number:
            return supervisor.die(number)
    return BROKEN


def _sees(node: SshNode, folder: str) -> bool:
    """Whether the folder, which was just made, is there as well."""
    with tempfile.NamedTemporaryFile(dir=folder) as mark:
        test = node.argv(f"test -e {shlex.quote(mark.name)}")
        return subprocess.run(test, stdin=subprocess.DEVNULL, check=False).returncode == 0


def _reached(node: SshNode, argv: list[str]) -> None:
    """Raises UserError, with the node's name."""
    try:
        call(argv)
    except UserError as error:
        raise UserError(f"{node.destination}: {error}") from None


def _forwarding(node: SshNode, script: str, pid: str) -> int:
    """Run ``script`` there, whose process is in the file ``pid``; signals to end are passed on to it."""

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
