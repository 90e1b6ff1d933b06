"""The image of the container that a benchmark runs in, where it has no environment of its own.

``docker_image`` and ``container_engine`` of a benchmark say which; those of ``system`` are for all without.
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


class ContainerImage(NamedTuple):
    """An image, and what runs its containers."""

    name: str
    """Of the image, or the path of the Dockerfile that it is built from."""
    engine: str | None
    """None: the first that is installed."""


@lru_cache(8)
def _engine(name: str | None) -> containers.ContainerEngine:
    """One for all benchmarks: to find it, its daemon is called. Raises UserError where it cannot be used."""
    return containers.find_engine(name, os.environ, "-P system.container_engine=none")


def image_in(benchmark: Benchmark, settings: Mapping[str, Any]) -> ContainerImage | None:
    """What ``settings``, the benchmark's own that are filled, say; None for an environment."""
    name, engine = (settings.get(key) for key in KEYS)
    if not name or engine == containers.NONE:
        return None
    file = benchmark.path(str(name), KEYS[0])
    return ContainerImage(str(file) if file.is_file() else str(name), engine)


def image_of(benchmark: Benchmark, facts: Facts, base: Path) -> ContainerImage | None:
    """The same, of settings that are not filled. ``facts``: what is known of the machine."""
    own = {key: benchmark.settings[key] for key in KEYS if benchmark.settings.get(key)}
    if KEYS[0] not in own:
        return None
    context = {**facts, "base": str(base)}
    return image_in(benchmark, replace(benchmark, settings=own).filled(context))


def why_missing(image: ContainerImage) -> str | None:
    """Why a container cannot be started; None if it can, or if only trying will tell."""
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
    """Pull or build it; with ``update`` a build has the newest base image. Raises Failed."""
    try:
        containers.provide(_engine(image.engine), image.name, update)
    except UserError as error:
        raise Failed(str(error)) from None


def options(image: ContainerImage, base: Path, code: Sequence[str]) -> list[str]:
    """The options of ``inject run`` for it. ``code``: folders of the benchmark's own files."""
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
    made = containers.client_environment(engine, environ)
    mounts = containers.mounts_of(_mounted(base, [str(folder)]))
    process = containers.process_of(words, str(folder), mounts, made)
    name = f"inject-prepare-{os.getpid()}-{time.time_ns()}"
    return containers.command(engine, containers.image_of(engine, image.name), process, name), made


def _mounted(base: Path, code: Sequence[str]) -> list[str]:
    """The base folder, those of files, and where links in the folder of data lead."""
    data = folders.data(base)
    links = [data, *(data.iterdir() if data.is_dir() else ())]
    targets = [os.path.realpath(each) for each in links if each.is_symlink()]
    found = [str(base), *code, *filter(os.path.exists, targets)]
    return list(dict.fromkeys(found))
