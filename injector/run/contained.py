"""``inject run --container IMAGE …``: an ``inject`` that is installed in the image runs the command there.

It records into a run folder of this machine, which is mounted. Left to do here are the container's command
line, signals, its removal, and the exit code.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress

from injector import containers
from injector.bus.surroundings import git_commit
from injector.errors import UserError
from injector.launch import supervisor
from injector.limits import CONTAINER, tag_of
from injector.run.outer_options import (
    OuterCommand,
    discard_unused,
    leading_options,
    program_of,
    reserve,
)
from injector.store.run_json import NotARunError, read_info

NOT_FOUND = (127, 255)
"""Exit codes of engines if the command is not in the image."""


class ContainerCommand(OuterCommand):
    """A command line with options of containers."""

    @property
    def image(self) -> str | None:
        return self.value("--container")

    @property
    def is_wanted(self) -> bool:
        """Whether the command is to run in a container."""
        return self.image is not None and self.value("--container-engine") != containers.NONE

    @property
    def words_outside(self) -> list[str]:
        """The words of the same ``inject run`` without a container."""
        return self.words(*CONTAINER)

    @property
    def words_inside(self) -> list[str]:
        """The words of the ``inject run`` in the container, but for its run folder."""
        return self.words(*CONTAINER, "--runs", "--into")

    @property
    def paths(self) -> list[str]:
        """The files that are named in the command line, which the container needs to see."""
        named = [each.value for each in self.options if each.name in ("--voirfile", "--config")]
        program = program_of(self.rest)
        return [
            *filter(os.path.exists, named),
            *([program.target] if program.kind == "script" else []),
        ]


def parse(words: list[str]) -> ContainerCommand:
    """Divide a command line. Raises UserError for options of containers without ``--container``."""
    command = ContainerCommand(*leading_options(words))
    if command.image is None and any(each.name in CONTAINER for each in command.options):
        raise UserError("--container-engine, -mount and -pull are for --container IMAGE: name one")
    return command


def run(command: ContainerCommand) -> int:
    """Run the command in a container and return the exit code of the ``inject run`` in there.

    If a signal ended the program, this process ends by the same signal. Raises UserError.
    """
    assert command.image is not None
    tag_of(f"container={command.image}")  # raises UserError for an image's name that is no tag
    engine = containers.find_engine(command.value("--container-engine"), os.environ)
    pull = command.value("--container-pull") is not None
    image = containers.image_of(engine, command.image, pull)
    if pull and image == command.image:
        containers.provide(engine, image)
    place = reserve(command.options, program_of(command.rest))
    folder = str(place.path)
    try:
        words, environ, name = _client(command, engine, image, folder)
        code = _run_client(engine, words, environ, name, folder)
    finally:
        if not os.path.isdir(os.path.join(folder, "raw")):
            discard_unused(place)
    if code in NOT_FOUND and not os.path.exists(folder):
        print(
            f"inject: nothing was recorded: {command.image} needs injector installed in it, so that "
            "`inject run` can be called there",
            file=sys.stderr,
        )
    return code


def _client(
    command: ContainerCommand, engine: containers.ContainerEngine, image: str, folder: str
) -> tuple[list[str], dict[str, str], str]:
    """The words and the environment of the engine's client, and the name of the container."""
    here = os.getcwd()
    tree = git_commit(here)
    root = str(tree["root"]) if tree and tree["root"] != "/" else here
    environ = containers.client_environment(engine, os.environ)
    cores, terminal = os.sched_getaffinity(0), all(map(os.isatty, (0, 1, 2)))
    tag = f"container={command.image}"
    inner = ["inject", "run", "--into", folder, "--tag", tag, *command.words_inside]
    mounts = [each.value for each in command.options if each.name == "--container-mount"]
    process = containers.process_of(
        inner,
        here,
        containers.mounts_of([root, here, folder, *command.paths], mounts),
        environ,
        cores=sorted(cores) if len(cores) < (os.cpu_count() or 1) else (),
        terminal=terminal,
    )
    name = f"inject-{os.getpid()}-{time.time_ns()}"
    return containers.command(engine, image, process, name), environ, name


def _run_client(
    engine: containers.ContainerEngine,
    words: list[str],
    environ: dict[str, str],
    name: str,
    folder: str,
) -> int:
    """Run the engine's client. Returns the exit code, or ends by the signal that ended the program."""
    ended = supervisor.run(words[0], words, environ, lambda pid: None)
    try:
        info = read_info(folder)
    except NotARunError:
        info = {}
    if not info:
        with suppress(subprocess.TimeoutExpired):
            containers.end(engine, name)  # the client may have been killed, and the container go on
    number = (info.get("exit") or {}).get("signal")
    if ended.code < 0:
        return supervisor.die(-ended.code)
    if isinstance(number, int) and ended.code == 128 + number:
        return supervisor.die(number)
    return ended.code
