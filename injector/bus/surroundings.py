"""What a run ran on: the machine, the packages, and the git work tree around the program at the start.

All of this is read by the supervisor. The start of a program must not wait for git, which takes long in a
large work tree: git runs beside the program, and what it has not found out by the program's end stays
unknown.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum
import os
import sys
import time

from ..reaper import KEYED_STOPS
from ..store.place import UNCOMMITTED

TYPE_CHECKING = False  # importing typing would cost 5 ms, before the program starts
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

KEPT = 1 << 20
"""Bytes of the uncommitted changes that are kept."""
PATIENCE = 0.3
"""Seconds that git is given once the program has ended."""

# The limit, 32768 blocks of 512 or 1024 bytes, ends git when the changes are larger: then only is known that
# there are some. The file gets its name when git has succeeded, so that what is there is all of the changes.
_PROGRAM = 'ulimit -f 32768; git "$@" > "$0.part" && mv "$0.part" "$0"'
# Nothing that the user's configuration could add may run another program or change the text.
_OPTIONS = ("--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--binary")


def machine() -> dict[str, Any]:
    """This host, with the keys of milabench's event ``meta``."""
    system = os.uname()
    return {
        "cpu": {
            "count": os.cpu_count(),
            "usable": usable_cpus(),
            **_cpu_description(),
            "architecture": _architecture(),
        },
        "os": {
            "sysname": system.sysname,
            "nodename": system.nodename,
            "release": system.release,
            "version": system.version,
            "machine": system.machine,
        },
        "accelerators": {"arch": None, "gpus": {}},
    }


def usable_cpus() -> int | None:
    """How many processors this process may use; None if that is not known."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count()


def _cpu_description() -> dict[str, str | int | None]:
    """``brand``, and ``frequency``: MHz now, the mean over the processors. None for what is unknown."""
    brand, clocks = None, []
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, text = line.partition(":")
                if name.startswith("model name") and brand is None:
                    brand = text.strip()
                elif name.startswith("cpu MHz"):
                    clocks.append(float(text))
    except (OSError, ValueError):
        pass
    return {"brand": brand, "frequency": round(sum(clocks) / len(clocks)) if clocks else None}


def _architecture() -> str:
    """Bits and format of the interpreter's file: what ``"-".join(platform.architecture())`` gives on most
    hosts, without starting the program ``file`` as that does.
    """
    bits = f"{(sys.maxsize.bit_length() + 1)}bit"
    try:
        with open(sys.executable, "rb") as file:
            return f"{bits}-ELF" if file.read(4) == b"\x7fELF" else bits
    except OSError:
        return bits


def packages(path: Iterable[str] | None = None) -> dict[str, str]:
    """The versions of the distributions on ``path`` (a ``sys.path``; this process's if None), by name.

    They are read from the names of the metadata folders. This takes a few milliseconds in a large
    environment, where parsing every metadata file takes most of a second.
    """
    versions: dict[str, str] = {}
    for folder in sys.path if path is None else path:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:
            continue
        for name in names:
            if not name.endswith((".dist-info", ".egg-info")):
                continue
            package, dash, version = name[: name.rindex(".")].partition("-")
            if dash:
                # The first on the path is the one that is imported.
                versions.setdefault(package.replace("_", "-").lower(), version.partition("-")[0])
    return dict(sorted(versions.items()))


class WorkTree:
    """The git work tree around the program. Making one starts git; :meth:`end` takes what git has written.

    ``info`` is ``{"root", "branch", "commit", "dirty", "sha256"}``, or None outside of a work tree. ``dirty``
    and ``sha256`` (of the uncommitted changes) are None until then, and if git did not find them out in time.
    """

    def __init__(self, program: str, folder: str) -> None:
        """``program`` is the folder of the program, ``folder`` that of the run. Raises OSError."""
        self._path = os.path.join(folder, UNCOMMITTED)
        self.pid: int | None = None
        commit = git_commit(program)
        self.info: dict[str, Any] | None = commit and {**commit, "dirty": None, "sha256": None}
        if commit is not None and commit["commit"]:
            self.pid = self._start(str(commit["root"]))

    def _start(self, root: str) -> int:
        """Start ``git diff`` in the work tree ``root``. Returns the number of its process. Raises OSError."""
        # In a git hook, for instance, these variables name the work tree that the hook runs for.
        environ = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
        environ |= {"GIT_OPTIONAL_LOCKS": "0"}
        words = ["sh", "-c", _PROGRAM, self._path, "-C", root, "-c", "core.fsmonitor=false"]
        quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        return os.posix_spawn(
            "/bin/sh",
            [*words, "diff", *_OPTIONS, "HEAD"],
            environ,
            file_actions=quiet,
            setpgroup=0,  # so that sh and git can be ended together, and Ctrl-C is not for them
            setsigmask=KEYED_STOPS,  # the supervisor has blocked what it waits for
            setsigdef=(_signal.SIGXFSZ, _signal.SIGPIPE),
        )

    def end(self, running: bool) -> None:
        """Complete ``info``, and cut the file of the changes to :data:`KEPT` bytes. Raises OSError.

        ``running``: the supervisor has not waited for git yet.
        """
        if self.info is None or self.pid is None:
            return
        if running:
            self._wait(self.pid)
        partial = f"{self._path}.part"
        if os.path.exists(self._path):
            from hashlib import sha256  # here, as its import would delay the program's start

            with open(self._path, "rb+") as file:
                digest = sha256(file.read())
                size = file.tell()
                file.truncate(min(size, KEPT))
            self.info.update(dirty=size > 0, sha256=digest.hexdigest() if size else None)
            if not size:
                os.unlink(self._path)
        elif os.path.exists(partial):
            if os.path.getsize(partial):
                self.info["dirty"] = True
            os.unlink(partial)

    def _wait(self, pid: int) -> None:
        """Wait for git for :data:`PATIENCE` seconds, then kill it."""
        due = time.monotonic() + PATIENCE
        try:
            while time.monotonic() < due:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    return
                time.sleep(0.002)
            os.killpg(pid, _signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ChildProcessError, ProcessLookupError):
            pass  # the supervisor has waited for it meanwhile, as for any child


def git_commit(folder: str) -> dict[str, str | None] | None:
    """``root``, ``branch`` and ``commit`` of the git work tree around ``folder``; None outside of one.

    They are read from git's files, since git would take milliseconds before the program starts.
    """
    root = os.path.abspath(folder)
    while not os.path.exists(os.path.join(root, ".git")):
        root, below = os.path.dirname(root), root
        if root == below:
            return None
    try:
        git = _git_folder(os.path.join(root, ".git"))
        head = _read(os.path.join(git, "HEAD"))
    except OSError:
        return None
    if not head.startswith("ref: "):
        return {"root": root, "branch": None, "commit": head or None}
    ref = head[len("ref: ") :]
    return {"root": root, "branch": ref.removeprefix("refs/heads/"), "commit": _resolve(git, ref)}


def _git_folder(path: str) -> str:
    """The folder of git's files for the work tree whose ``.git`` is ``path``. Raises OSError."""
    if os.path.isdir(path):
        return path
    # In an additional worktree or a submodule, .git is a file that says where the folder is.
    return os.path.join(os.path.dirname(path), _read(path).removeprefix("gitdir: "))


def _resolve(git: str, ref: str) -> str | None:
    """The commit that ``ref`` names in the folder ``git``; None if there is none yet."""
    folders = [git]
    try:
        # An additional worktree has a HEAD of its own, but shares the branches of the main one.
        folders.append(os.path.join(git, _read(os.path.join(git, "commondir"))))
    except OSError:
        pass  # this is the main work tree
    for folder in folders:
        try:
            return _read(os.path.join(folder, ref))
        except OSError:
            pass
        try:
            for line in _read(os.path.join(folder, "packed-refs")).splitlines():
                commit, _, name = line.partition(" ")
                if name == ref:
                    return commit
        except OSError:
            pass
    return None


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()
