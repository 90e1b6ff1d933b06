"""``inject run --container IMAGE …``: the command runs in a container, by an ``inject`` that is in there.

That one does all that it does elsewhere, and records into a run folder of this machine. What is left to do
here: the container's command line, its signals, its end, and the exit code.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress

from injector import containers
from injector.bus.surroundings import git_commit
from injector.cli.outer_options import (
    OuterCommand,
    discard_unused,
    leading_options,
    program_of,
    reserved,
)
from injector.errors import UserError
from injector.launch import supervisor
from injector.launch.command import CONTAINER
from injector.limits import tag_of
from injector.store.run_json import NotARunError, read_info

NOT_FOUND = (127, 255)
"""Exit codes of engines that did not find what they were to run in a container."""


class Contained(OuterCommand):
    """A command line as far as a container is concerned."""

    @property
    def image(self) -> str | None:
        return self.value("--container")

    @property
    def wanted(self) -> bool:
        """Whether something is to run in a container."""
        return self.image is not None and self.value("--container-engine") != containers.NONE

    @property
    def bare(self) -> list[str]:
        """The words that ``inject run`` is given without a container."""
        return self.words(*CONTAINER)

    @property
    def kept(self) -> list[str]:
        """Those that it is given in one."""
        return self.words(*CONTAINER, "--runs", "--into")

    @property
    def paths(self) -> list[str]:
        """Files that are named, and have to be in the container."""
        named = [each.value for each in self.options if each.name in ("--voirfile", "--config")]
        program = program_of(self.rest)
        return [
            *filter(os.path.exists, named),
            *([program.target] if program.kind == "script" else []),
        ]


def taken(words: list[str]) -> Contained:
    """Take a command line apart. Raises UserError."""
    found = Contained(*leading_options(words))
    if found.image is None and any(each.name in CONTAINER for each in found.options):
        raise UserError("--container-engine, -mount and -pull are for --container IMAGE: name one")
    return found


def run(given: Contained) -> int:
    """Run it in a container; the exit code of ``inject run`` in there, or its death by a signal.

    Raises UserError.
    """
    assert given.image is not None
    tag_of(f"container={given.image}")
    engine = containers.find_engine(given.value("--container-engine"), os.environ)
    pull = given.value("--container-pull") is not None
    image = containers.image_of(engine, given.image, pull)
    if pull and image == given.image:
        containers.provide(engine, image)
    place = reserved(given.options, program_of(given.rest))
    folder = str(place.path)
    try:
        words, environ, name = _client(given, engine, image, folder)
        code = _supervised(engine, words, environ, name, folder)
    finally:
        if not os.path.isdir(os.path.join(folder, "raw")):
            discard_unused(place)
    if code in NOT_FOUND and not os.path.exists(folder):
        print(
            f"inject: nothing was recorded: {given.image} needs injector installed in it, so that "
            "`inject run` can be called there",
            file=sys.stderr,
        )
    return code


def _client(
    given: Contained, engine: containers.ContainerEngine, image: str, folder: str
) -> tuple[list[str], dict[str, str], str]:
    """Words and environment of the engine's command, and what the container is called."""
    here = os.getcwd()
    tree = git_commit(here)
    root = str(tree["root"]) if tree and tree["root"] != "/" else here
    environ = containers.client_environment(engine, os.environ)
    usable, terminal = os.sched_getaffinity(0), all(map(os.isatty, (0, 1, 2)))
    inner = ["inject", "run", "--into", folder, "--tag", f"container={given.image}", *given.kept]
    mounts = [each.value for each in given.options if each.name == "--container-mount"]
    process = containers.process_of(
        inner,
        here,
        containers.mounts_of([root, here, folder, *given.paths], mounts),
        environ,
        cores=sorted(usable) if len(usable) < (os.cpu_count() or 1) else (),
        terminal=terminal,
    )
    name = f"inject-{os.getpid()}-{time.time_ns()}"
    return containers.command(engine, image, process, name), environ, name


def _supervised(
    engine: containers.ContainerEngine,
    words: list[str],
    environ: dict[str, str],
    name: str,
    folder: str,
) -> int:
    """Run the engine's command; returns the exit code, or dies as the program did."""
    ended = supervisor.run(words[0], words, environ, lambda pid: None)
    try:
        info = read_info(folder)
    except NotARunError:
        info = {}
    if not info:
        with suppress(subprocess.TimeoutExpired):
            containers.end(engine, name)  # its client may be gone, and it not
    died = (info.get("exit") or {}).get("signal")
    if ended.code < 0:
        return supervisor.die(-ended.code)
    if isinstance(died, int) and ended.code == 128 + died:
        return supervisor.die(died)
    return ended.code
