"""What a run ran on: machine, packages, commit. Read after its end, without a subprocess."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any


def machine() -> dict[str, Any]:
    """This host, in the words of milabench's ``meta`` event."""
    system = os.uname()
    return {
        "cpu": {"count": os.cpu_count(), "usable": _usable_cpus(), "brand": _cpu_brand()},
        "os": {
            "sysname": system.sysname,
            "nodename": system.nodename,
            "release": system.release,
            "version": system.version,
            "machine": system.machine,
        },
        "accelerators": {"arch": None, "gpus": {}},
    }


def _usable_cpus() -> int | None:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count()


def _cpu_brand() -> str | None:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return None


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
