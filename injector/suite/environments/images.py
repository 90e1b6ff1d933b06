"""Images of containers: a benchmark with ``docker_image`` runs in a container, and needs no environment.

``docker_image`` and ``container_engine`` of ``system`` are the defaults for all benchmarks.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ... import containers
from ...errors import UserError
from ..config.model import Benchmark, Facts
from . import folders
from .commands import Failed

KEYS = ("docker_image", "container_engine")
"""The keys of a benchmark's settings."""


class ContainerImage(NamedTuple):
    """An image, and what runs its containers."""

    name: str
    """The name of the image, or the path of the Dockerfile that it is built from."""
    engine: str | None
    """The name of a container engine; None for the first that is installed."""


# Kept, since finding an engine calls its daemon.
@lru_cache(8)
def _engine(name: str | None) -> containers.ContainerEngine:
    """The container engine ``name``. Raises UserError if it cannot be used."""
    return containers.find_engine(name, os.environ, "-P system.container_engine=none")


def image_in(benchmark: Benchmark, settings: Mapping[str, Any]) -> ContainerImage | None:
    """The image in ``settings``, the benchmark's with placeholders filled; None if it runs in none."""
    name, engine = (settings.get(key) for key in KEYS)
    if not name or engine == containers.NONE:
        return None
    file = benchmark.path(str(name), KEYS[0])
    return ContainerImage(str(file) if file.is_file() else str(name), engine)


def image_of(benchmark: Benchmark, facts: Facts, base: Path) -> ContainerImage | None:
    """The image of a benchmark whose settings are not filled; ``facts`` are placeholders of the machine."""
    own = {key: benchmark.settings[key] for key in KEYS if benchmark.settings.get(key)}
    if KEYS[0] not in own:
        return None
    context = {**facts, "base": str(base)}
    return image_in(benchmark, replace(benchmark, settings=own).filled(context))


def why_missing(image: ContainerImage) -> str | None:
    """Why no container of the image can be started; None if it can, or if that is not known before."""
    try:
        engine = _engine(image.engine)
    except UserError as error:
        return str(error)
    if engine.kind == "apptainer" or containers.is_recipe(image.name):
        return None
    words = [engine.path, "image", "inspect", image.name]
    there = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0
    return None if there else f"the image {image.name} is not on this machine"


def provide(image: ContainerImage, update: bool) -> None:
    """Pull or build the image; with ``update``, a build pulls its base image again. Raises Failed."""
    try:
        containers.provide(_engine(image.engine), image.name, update)
    except UserError as error:
        raise Failed(str(error)) from None


def options(image: ContainerImage, base: Path, code: Sequence[str]) -> list[str]:
    """The options of ``inject run`` for a container; ``code`` are folders with the benchmark's own files."""
    words = ["--container", image.name]
    words += ["--container-engine", image.engine] if image.engine else []
    for folder in _mounted(base, code):
        words += ["--container-mount", folder]
    return words


def command(
    image: ContainerImage,
    words: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    base: Path,
) -> tuple[list[str], dict[str, str]]:
    """The command that runs ``words`` in ``folder`` in a container, and its environment. Raises UserError."""
    engine = _engine(image.engine)
    variables = containers.client_environment(engine, environ)
    mounts = containers.mounts_of(_mounted(base, [str(folder)]))
    process = containers.process_of(words, str(folder), mounts, variables)
    name = f"inject-prepare-{os.getpid()}-{time.time_ns()}"
    container_image = containers.image_of(engine, image.name)
    return containers.command(engine, container_image, process, name), variables


def _mounted(base: Path, code: Sequence[str]) -> list[str]:
    """The folders that a container sees: the base, ``code``, and the targets of links to and in ``data``."""
    data = folders.data(base)
    paths = [data, *(data.iterdir() if data.is_dir() else ())]
    targets = [os.path.realpath(path) for path in paths if path.is_symlink()]
    return list(dict.fromkeys([str(base), *code, *filter(os.path.exists, targets)]))
