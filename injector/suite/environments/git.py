"""Commands of git, with the same settings on every machine."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from . import commands
from .commands import CommandFailed, Failed, call

_SETTINGS = {
    "advice.detachedHead": "false",
    "core.autocrlf": "false",  # files as they were committed
    "core.hooksPath": os.devnull,
    "gc.auto": "0",  # no process that goes on in the background
    "maintenance.auto": "false",
    "safe.directory": "*",  # a base folder may be shared between users
}
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")
"""Variables that make git use another repository than that of its folder, as in a hook."""
COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
"""A whole commit id, SHA-1 or SHA-256."""


def git(tree: Path, *words: str | Path) -> str:
    """What ``git WORDS`` prints in ``tree``. It prompts for no password, and uses no repository above that.

    Raises CommandFailed as :func:`injector.suite.environments.commands.call` does.
    """
    settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
    # A server that sends less than a byte a second for a minute counts as unreachable.
    environ = {"GIT_HTTP_LOW_SPEED_LIMIT": "1", "GIT_HTTP_LOW_SPEED_TIME": "60"}
    environ |= {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    environ |= {"GIT_TERMINAL_PROMPT": "0", "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    environ["LC_ALL"] = "C"
    return call(["git", *settings, *words], folder=tree, environ=environ)


class Unreachable(Failed):
    """A repository cannot be reached, or git is not installed."""


def check_out(url: str, commit: str, tree: Path, submodules: bool, only: Sequence[str]) -> None:
    """Create the folder ``tree`` with the files of ``commit`` of the repository at ``url``.

    With ``only``, these folders of the repository are fetched, with the files beside them and above them.
    Raises Unreachable if the repository cannot be reached. Raises Failed if it does not have the commit, or
    the files are not those of the commit.
    """
    tree.mkdir(parents=True)
    try:
        git(tree, "init", "--quiet")
        git(tree, "remote", "add", "origin", url)
        if only:
            git(tree, "sparse-checkout", "init", "--cone")
            git(tree, "sparse-checkout", "set", *only)
        _fetch(url, commit, tree, ["--filter=blob:none"] if only else [])
        git(tree, "checkout", "--quiet", "--detach", commit)
        if submodules:
            git(tree, "submodule", "--quiet", "update", "--init", "--recursive")
    except CommandFailed as error:
        raise _explained(url, error) from None
    head = git(tree, "rev-parse", "HEAD").strip()
    if head != commit:
        raise Failed(f"{url}: {head} was checked out instead of {commit}")
    changed = git(tree, "status", "--porcelain")
    if changed.strip():
        files = ", ".join(line[3:] for line in changed.splitlines()[:5])
        raise Failed(f"{url}: what was checked out is not {commit}: {files} differ from it")


def _fetch(url: str, commit: str, tree: Path, options: Sequence[str]) -> None:
    """Fetch one commit; from a server that gives no single commits, all of them. Raises Failed."""
    try:
        git(tree, "fetch", "--quiet", "--no-tags", "--depth=1", *options, "origin", commit)
        return
    except CommandFailed as error:
        if commands.network_missing(error.tail) or "not found" in error.tail.lower():
            raise _explained(url, error) from None
    try:
        branches = "+refs/heads/*:refs/remotes/origin/*"
        git(tree, "fetch", "--quiet", "--tags", *options, "origin", branches)
        git(tree, "cat-file", "-e", commit + "^{commit}")
    except CommandFailed as error:
        if "cat-file" in str(error):
            now = f" (its HEAD is {where_is(url, 'HEAD')} today)"
            text = f"{url} has no commit {commit} in any branch or tag{now}: mend origin.commit"
            raise Failed(text) from None
        raise _explained(url, error) from None


def _explained(url: str, error: CommandFailed) -> Failed:
    """What a failed command of git means, and what to do."""
    if "does not appear to be a git repository" in error.tail:
        return Failed(f"{url} is no git repository")
    if error.code == 127:
        return Unreachable(f"{url} cannot be had without git: {error.tail}")
    if commands.network_missing(error.tail):
        lines = error.tail.splitlines()
        message = next((line for line in lines if commands.network_missing(line)), lines[-1])
        return Unreachable(
            f"{url} cannot be reached: {message}\n"
            "Where there is a network, `git clone --mirror` it; then have git take that copy:\n"
            f"    git config --global url./path/of/the/copy.insteadOf {url}"
        )
    return Failed(f"{url}: {error}")


def apply(patch: Path, tree: Path) -> None:
    """Apply a patch to a working tree or any other folder: all of it or nothing.

    Raises Failed if it does not apply.
    """
    index = ["--index"] if (tree / ".git").exists() else []
    try:
        git(tree, "apply", "--whitespace=nowarn", *index, patch)
    except CommandFailed as error:
        message = error.tail or str(error)
        raise Failed(f"{patch}: the patch does not apply\n{message}") from None


def state(tree: Path) -> str:
    """A digest of the commit that is checked out and of how tracked files differ from it.

    Raises CommandFailed, as does :func:`changed_files`.
    """
    text = git(tree, "rev-parse", "HEAD")
    options = ("--no-ext-diff", "--no-textconv", "--binary", "--ignore-submodules=untracked")
    text += git(tree, "--no-optional-locks", "diff", *options, "HEAD")
    return hashlib.sha256(text.encode()).hexdigest()


def changed_files(tree: Path) -> list[str]:
    """The tracked files that differ from the commit, those that a patch has changed among them."""
    options = ("--name-only", "--ignore-submodules=untracked")
    return git(tree, "--no-optional-locks", "diff", *options, "HEAD").splitlines()


def where_is(url: str, name: str) -> str | None:
    """The commit of the branch or tag ``name`` at ``url``; None if there is no such one.

    Raises Failed if the repository cannot be reached, or is none.
    """
    try:
        # NAME^{} is the commit of an annotated tag, listed after the tag's own id.
        listed = git(Path.cwd(), "ls-remote", url, name, name + "^{}")
    except CommandFailed as error:
        raise _explained(url, error) from None
    ids = [line.split()[0] for line in listed.splitlines() if COMMIT.match(line)]
    return ids[-1] if ids else None
