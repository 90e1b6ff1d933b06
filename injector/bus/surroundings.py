"""What a run ran on: machine, packages, and the git work tree around the program as it was when it began."""

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
"""Bytes of the changes that are kept."""
PATIENCE = 0.3
"""Seconds that git is given once the program has ended."""

# Blocks of 512 or 1024 bytes: of larger changes nothing is known but that they are there.
_PROGRAM = 'ulimit -f 32768; git "$@" > "$0.part" && mv "$0.part" "$0"'
_OPTIONS = ("--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--binary")


def machine() -> dict[str, Any]:
    """This host, in the words of milabench's ``meta`` event."""
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
    """How many processors this process may use; None where nothing tells."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count()


def _cpu_description() -> dict[str, str | int | None]:
    """``brand``, and ``frequency``: the mean over processors in MHz, at this moment."""
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
    """Bits and format of the interpreter's file, as ``"-".join(platform.architecture())`` of most hosts."""
    bits = f"{(sys.maxsize.bit_length() + 1)}bit"
    try:
        with open(sys.executable, "rb") as file:
            return f"{bits}-ELF" if file.read(4) == b"\x7fELF" else bits
    except OSError:
        return bits


def packages(path: Iterable[str] | None = None) -> dict[str, str]:
    """Name → version of the distributions on ``path`` (a ``sys.path``; ours if None).

    Read from the names of their metadata folders: a large environment takes a few milliseconds
    so, and most of a second when every metadata file is parsed.
    """
    found: dict[str, str] = {}
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
                found.setdefault(package.replace("_", "-").lower(), version.partition("-")[0])
    return dict(sorted(found.items()))


class WorkTree:
    """Starts git beside the program, which waits for nothing.

    ``info`` is ``{"root", "branch", "commit", "dirty", "sha256"}``, None outside of a work tree; the last
    two are None for what could not be found out in time.
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
        # What names another work tree, to git hooks for one, is not about this one.
        environ = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
        environ |= {"GIT_OPTIONAL_LOCKS": "0"}
        words = ["sh", "-c", _PROGRAM, self._path, "-C", root, "-c", "core.fsmonitor=false"]
        quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        return os.posix_spawn(
            "/bin/sh",
            [*words, "diff", *_OPTIONS, "HEAD"],
            environ,
            file_actions=quiet,
            setpgroup=0,
            setsigmask=KEYED_STOPS,  # the supervisor has blocked what it waits for
            setsigdef=(_signal.SIGXFSZ, _signal.SIGPIPE),
        )

    def end(self, running: bool) -> None:
        """Complete ``info``, and keep the beginning of the changes. ``running``: git was not seen to end.

        Raises OSError.
        """
        if self.info is None or self.pid is None:
            return
        if running:
            self._wait(self.pid)
        partial = f"{self._path}.part"
        if os.path.exists(self._path):
            from hashlib import sha256  # only now, when the program needs nothing any more

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
        due = time.monotonic() + PATIENCE
        try:
            while time.monotonic() < due:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    return
                time.sleep(0.002)
            os.killpg(pid, _signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ChildProcessError, ProcessLookupError):
            pass  # other code has waited for it


def git_commit(folder: str) -> dict[str, str | None] | None:
    """Commit and branch of the git work tree around ``folder``, None outside of one."""
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
    if os.path.isdir(path):
        return path
    # A worktree or a submodule: a file says where its folder is.
    return os.path.join(os.path.dirname(path), _read(path).removeprefix("gitdir: "))


def _resolve(git: str, ref: str) -> str | None:
    folders = [git]
    try:
        folders.append(os.path.join(git, _read(os.path.join(git, "commondir"))))
    except OSError:
        pass  # no worktree
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
