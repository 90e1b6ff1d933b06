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
from dataclasses import dataclass, field

from injector import containers
from injector.bus.surroundings import git_commit
from injector.errors import UserError
from injector.launch import supervisor
from injector.launch.command import CONTAINER, FLAGS, SHORT, VALUED, Command
from injector.launch.limits import tag_of
from injector.store.place import Place, create
from injector.store.run_json import NotARunError, read_info

NOT_FOUND = (127, 255)
"""Exit codes of engines that did not find what they were to run in a container."""


@dataclass
class Contained:
    """A command line of ``inject run``, taken apart as far as a container is concerned."""

    image: str | None = None
    engine: str | None = None
    mounts: list[str] = field(default_factory=list)
    pull: bool = False
    runs: str | None = None
    into: str | None = None
    name: str | None = None
    paths: list[str] = field(default_factory=list)
    """Files that are named, and have to be in the container."""
    kept: list[str] = field(default_factory=list)
    """The words that ``inject run`` is given in the container."""
    bare: list[str] = field(default_factory=list)
    """Those that it is given without a container."""

    @property
    def wanted(self) -> bool:
        """Whether something is to run in a container."""
        return self.image is not None and self.engine != containers.NONE


def taken(words: list[str]) -> Contained:
    """Take a command line apart; options of voirfiles, which are not known here, come after ours.

    Raises UserError.
    """
    found = Contained()
    rest = list(words)
    while rest and _take_option(found, rest):
        pass
    found.kept += rest
    found.bare += rest
    if found.image is None and (found.engine or found.mounts or found.pull):
        raise UserError("--container-engine, -mount and -pull are for --container IMAGE: name one")
    command = _program(rest)
    found.name = found.name or (command.name if command.kind else None)
    if command.kind == "script":
        found.paths.append(command.target)
    return found


def _take_option(found: Contained, rest: list[str]) -> bool:
    """Whether the first word was an option of ours, which is taken away with its value."""
    option, equals, value = rest[0].partition("=")
    own = SHORT.get(option, option)
    if own not in (*VALUED, *FLAGS):
        return False
    count = 1 if equals or own in FLAGS else 2
    taken_words = rest[:count]
    del rest[:count]
    value = value if equals else "".join(taken_words[1:])
    if own in VALUED and not value:
        raise UserError(f"{option} needs a value")
    if own == "--container":
        found.image = value
    elif own == "--container-engine":
        found.engine = value
    elif own == "--container-mount":
        found.mounts.append(value)
    elif own == "--container-pull":
        found.pull = True
    if own in CONTAINER:
        return True
    found.bare += taken_words
    if own == "--runs":
        found.runs = value
    elif own == "--into":
        found.into = value
    else:
        found.kept += taken_words
    if own == "--name":
        found.name = value
    elif own in ("--voirfile", "--config") and os.path.exists(value):
        found.paths.append(value)
    return True


def _program(rest: list[str]) -> Command:
    """The program, where its kind is known without the container's files."""
    command = Command()
    words = rest[1:] if rest[:1] == ["--"] else rest
    if words[:1] == ["-m"] and words[1:]:
        command.kind, command.target, command.arguments = "module", words[1], words[2:]
    elif words and not words[0].startswith("-"):
        kind = "script" if os.path.exists(words[0]) else "command"
        command.kind, command.target, command.arguments = kind, words[0], words[1:]
    return command


def run(given: Contained) -> int:
    """Run it in a container; the exit code of ``inject run`` in there, or its death by a signal.

    Raises UserError.
    """
    assert given.image is not None
    tag_of(f"container={given.image}")
    engine = containers.find_engine(given.engine, os.environ)
    image = containers.image_of(engine, given.image, given.pull)
    if given.pull and image == given.image:
        containers.provide(engine, image)
    place = _place(given)
    folder = str(place.path)
    try:
        words, environ, name = _client(given, engine, image, folder)
        code = _supervised(engine, words, environ, name, folder)
    finally:
        if not os.path.isdir(os.path.join(folder, "raw")):
            _remove(place)
    if code in NOT_FOUND and not os.path.exists(folder):
        print(
            f"inject: nothing was recorded: {given.image} needs injector installed in it, so that "
            "`inject run` can be called there",
            file=sys.stderr,
        )
    return code


def _place(given: Contained) -> Place:
    """The run folder, which is made here, so that it is the user's and can be mounted."""
    if given.into is not None:
        if given.runs is not None:
            raise UserError("--into names the run folder, --runs the folder that it is made in")
        path = os.path.abspath(given.into)
        new = not os.path.exists(path)
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise UserError(f"--into {given.into}: {error.strerror}") from None
        return Place(path, (), new)
    place = create(given.name or "run", given.runs)
    if place.path is None:
        raise UserError("; ".join(place.problems))
    os.rmdir(os.path.join(place.path, "raw"))  # what makes it is the inject of the container
    return place


def _remove(place: Place) -> None:
    """Nothing was recorded: what was made for it goes, unless something else lies in it."""
    if place.new and place.path is not None:
        with suppress(OSError):
            os.rmdir(place.path)


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
    process = containers.ContainedProcess(
        inner,
        here,
        containers.mounts_of([root, here, folder, *given.paths], given.mounts),
        environ,
        containers.devices_of(),
        (os.geteuid(), os.getegid(), *os.getgroups()),
        sorted(usable) if len(usable) < (os.cpu_count() or 1) else (),
        terminal,
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
