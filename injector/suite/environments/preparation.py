"""A benchmark's prepare step as its settings say it, and the folder that it fills."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..config.model import Benchmark, Problem, SuiteError
from ..definitions import path_of
from . import folders, origins

OWN_ARGUMENT = "{data}"
"""What a step is given unless it says its arguments."""


@dataclass(frozen=True)
class Preparation:
    """One step; equal ones are run once."""

    script: Path
    arguments: Any
    """As they were written: a mapping, a list, or None for the folder alone."""
    data: Path
    """The folder that it fills."""
    shared: bool
    """Whether others fill that folder too: then it is made by whoever comes first, and stays."""
    in_place: bool
    """Whether the folder must not be moved once it is filled."""
    own_arguments: bool
    """Whether the program's own arguments follow."""
    env: Mapping[str, Any]
    code: Path
    """The folder that it runs in."""


def of(benchmark: Benchmark, base: Path) -> Preparation | None:
    """The prepare step of a benchmark; None if it has none.

    Raises:
        SuiteError: it names a script that is not there, or a folder outside of ``BASE/data``.
    """
    told = benchmark.settings.get("prepare")
    if not told:
        return None
    if isinstance(told, str):
        told = {"script": told}
    elif isinstance(told, list):
        told = {"script": told[0], "argv": told[1:]}
    name = str(told.get("script") or "prepare.py")
    code = code_of(benchmark, base)
    script = path_of(benchmark, name, "prepare", "script")
    origin = origins.of(benchmark)
    if not script.is_file() and origin is not None:
        script = code / name  # it comes with the program, which may not be there yet
    elif not script.is_file():
        text = f"there is no file {script}"
        raise SuiteError([Problem(benchmark.at("prepare", "script"), text)])
    arguments = told.get("argv")
    data, shared = _folder(benchmark, told, base, arguments)
    return Preparation(
        script,
        arguments,
        data,
        shared,
        bool(told.get("in_place")) or shared,
        bool(told.get("with_argv")),
        told.get("env") or {},
        code if origin is not None and origin.into else script.parent,
    )


def _folder(
    benchmark: Benchmark, told: Mapping[str, Any], base: Path, arguments: Any
) -> tuple[Path, bool]:
    """The folder that is filled, and whether it is everybody's."""
    all_data = folders.data(base)
    named = told.get("data")
    if named is None:
        name = benchmark.definition.name if benchmark.definition else benchmark.family
        if arguments:  # the same program may want data of several sizes
            name += "-" + _digest(json.dumps(arguments, default=str))[:8]
        return all_data / folders.checked(name or benchmark.name, "data folder"), False
    if str(named) == ".":
        return all_data, True
    if not all(folders.is_name(part) for part in str(named).split("/")):
        text = f"{named!r} is no folder below {all_data}: write a name, or . for {all_data} itself"
        raise SuiteError([Problem(benchmark.at("prepare", "data"), text)])
    return all_data / str(named), False


def data_of(benchmark: Benchmark, base: Path) -> Path:
    """What ``{data}`` stands for: the folder that is prepared, else that of all.

    Raises:
        SuiteError: see :func:`of`.
    """
    step = of(benchmark, base)
    return step.data if step is not None else folders.data(base)


def code_of(benchmark: Benchmark, base: Path) -> Path:
    """The folder of the definition; with ``origin.into``, the copy of it that has the source in it."""
    origin = origins.of(benchmark)
    if origin is not None and origin.into:
        return origin.home(base)
    return benchmark.definition or _beside(benchmark.where.file)


@lru_cache(folders.MANY)
def _beside(file: str) -> Path:
    return Path(file).absolute().parent


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
