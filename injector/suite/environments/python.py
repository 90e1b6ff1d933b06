"""Interpreters and what installs into their environments: uv where it is, else pip."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import os
import re
import shutil
import sys
from pathlib import Path

from . import folders
from .making import CommandFailed, Failed, call, making

INSTALLERS = ("uv", "pip")
_ABLE = (22, 3)
"""The pip from which on it fills environments of others, and reports what it has done."""
_ELSEWHERE = (
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "__PYVENV_LAUNCHER__"),
    *("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV", "PIP_REQUIREMENT"),
)


@functools.lru_cache(folders.MANY)
def of(environment: Path) -> Path:
    """The interpreter of an environment."""
    return environment / "bin" / "python"


@functools.cache
def current() -> Path:
    """The interpreter that runs this."""
    return Path(sys.executable)


def find_uv() -> str | None:
    """The uv of this machine, or the one that was installed beside this package."""
    return shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


def installer(asked: str | None = None) -> str:
    """``uv`` or ``pip``.

    Raises:
        Failed: uv was asked for and is not there.
    """
    if asked == "uv" and find_uv() is None:
        raise Failed("there is no uv on this machine: install it, or leave --installer out")
    return asked or ("uv" if find_uv() else "pip")


def pip(base: Path) -> list[str]:
    """The words that start a pip: that of this interpreter, else one that is made for it.

    Raises:
        Failed: there is none, and none could be made.
    """
    if _version("pip") >= _ABLE:
        return [sys.executable, "-m", "pip"]
    own = folders.cache(base) / "pip"
    if not of(own).exists():
        with making(own) as new:  # commands in it are not used, so that it can be moved
            try:
                call([sys.executable, "-m", "venv", new], environ=environ())
                call([of(new), "-m", "pip", "install", "--upgrade", "pip"], environ=environ())
            except CommandFailed as error:
                raise Failed(f"a newer pip is needed and cannot be had: {error}") from None
    return [str(of(own)), "-m", "pip"]


def _version(name: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, re.findall(r"\d+", importlib.metadata.version(name))[:2]))
    except importlib.metadata.PackageNotFoundError:
        return (0, 0)


def make(environment: Path, how: str) -> None:
    """Make an empty environment, in the place of what is there.

    Raises:
        Failed: that is not possible.
    """
    folders.remove(environment)
    environment.parent.mkdir(parents=True, exist_ok=True)
    try:
        if how == "uv":
            call([str(find_uv()), "venv", "--quiet", "--python", sys.executable, environment])
        else:
            call([sys.executable, "-m", "venv", "--without-pip", environment], environ=environ())
    except CommandFailed as error:
        raise Failed(f"{environment} cannot be made: {error}") from None


@functools.cache
def uv_options() -> tuple[str, ...]:
    """Where uv is to look for packages, so that it finds what pip would.

    uv does not read pip's settings. They are told to it unless it has settings of its own.
    """
    words = ["--index-strategy", "unsafe-best-match"]  # as pip: the best of all indexes
    if any(name in os.environ for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX")):
        return tuple(words)
    try:
        told = call([sys.executable, "-m", "pip", "config", "list"])
    except CommandFailed:
        return tuple(words)
    for name, text in re.findall(r"^(?:global|install|:env:)\.(\S+?)=('.*'|\".*\")$", told, re.M):
        value = str(ast.literal_eval(text))
        if name in ("index-url", "extra-index-url", "find-links"):
            words += [word for each in value.split() for word in ("--" + name, each)]
        elif name == "no-index" and value.lower() in ("1", "true", "yes", "on"):
            words.append("--no-index")
    return tuple(words)


def environ() -> dict[str, str]:
    """The environment for what installs: nothing of it says that packages lie elsewhere."""
    kept = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    return kept | {
        "PYTHONNOUSERSITE": "1",
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
