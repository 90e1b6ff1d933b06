"""What a benchmark's commands are given: its folders, placeholders for them, variables."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..config.model import Benchmark
from ..config.problems import Problem, SuiteError
from . import folders, origins
from .install_groups import python_of

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
    """Whether other steps fill that folder too: then the first of them makes it, and it stays."""
    in_place: bool
    """Whether the folder must not be moved once it is filled."""
    own_arguments: bool
    """Whether the program's own arguments follow."""
    env: Mapping[str, Any]
    code: Path
    """The folder that it runs in."""


def preparation_of(benchmark: Benchmark, base: Path) -> Preparation | None:
    """The prepare step of a benchmark; None if it has none.

    Raises:
        SuiteError: it names a script that is not there, or a folder outside of ``BASE/data``.
    """
    settings = benchmark.settings.get("prepare")
    if not settings:
        return None
    if isinstance(settings, str):
        settings = {"script": settings}
    elif isinstance(settings, list):
        settings = {"script": settings[0], "argv": settings[1:]}
    name = str(settings.get("script") or "prepare.py")
    code = code_of(benchmark, base)
    script = benchmark.path(name, "prepare", "script")
    origin = origins.origin_of(benchmark)
    if not script.is_file() and origin is not None:
        script = code / name  # it comes with the program, which may not be there yet
    elif not script.is_file():
        text = f"there is no file {script}"
        raise SuiteError([Problem(benchmark.at("prepare", "script"), text)])
    arguments = settings.get("argv")
    data, shared = _data_folder(benchmark, settings, base, arguments)
    return Preparation(
        script,
        arguments,
        data,
        shared,
        bool(settings.get("in_place")) or shared,
        bool(settings.get("with_argv")),
        settings.get("env") or {},
        code if origin is not None and origin.into else script.parent,
    )


def _data_folder(
    benchmark: Benchmark, settings: Mapping[str, Any], base: Path, arguments: Any
) -> tuple[Path, bool]:
    """The folder that is filled, and whether all steps share it."""
    all_data = folders.data(base)
    named = settings.get("data")
    if named is None:
        name = benchmark.definition.name if benchmark.definition else benchmark.family
        if arguments:  # the same program may want data of several sizes
            text = json.dumps(arguments, default=str)
            name += "-" + hashlib.sha256(text.encode()).hexdigest()[:8]
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
    step = preparation_of(benchmark, base)
    return step.data if step is not None else folders.data(base)


def code_of(benchmark: Benchmark, base: Path) -> Path:
    """The folder of the definition; with ``origin.into``, the copy of it that has the source in it."""
    origin = origins.origin_of(benchmark)
    if origin is not None and origin.into:
        return origin.home(base)
    return benchmark.definition or _folder_of(benchmark.where.file)


@lru_cache(folders.MANY)
def _folder_of(file: str) -> Path:
    return Path(file).absolute().parent


def placeholders(benchmark: Benchmark, base: Path) -> dict[str, str]:
    """What stands for folders in a benchmark's texts. Machine and job add theirs.

    Raises:
        SuiteError: ``origin`` or ``prepare`` of the benchmark makes no sense.
    """
    origin = origins.origin_of(benchmark)
    code = str(code_of(benchmark, base))
    return {
        **_shared_folders(base),
        "data": str(data_of(benchmark, base)),
        "source": str(origin.folder(base)) if origin is not None else code,
        "benchmark_folder": code,
        "milabench_code": code,
        "milabench_extra": str(folders.extra(base, benchmark.group)),
        "milabench_venv": str(folders.venv(base, benchmark.install_group)),
    }


@lru_cache(folders.MANY)
def _shared_folders(base: Path) -> Mapping[str, str]:
    """The folders that all benchmarks share."""
    data = str(folders.data(base))
    return {"base": str(base), "cache": str(folders.cache(base)), "milabench_data": data}


def variables(
    benchmark: Benchmark, base: Path, settings: Mapping[str, Any], use_current: bool = False
) -> dict[str, str]:
    """The variables that a prepare step and the program itself are given, before their own ``env``.

    Its environment's commands come first, caches lie below the base, and where scripts written for
    milabench look for their folders they find them. ``settings``: those of the benchmark, filled.
    """
    python = python_of(benchmark, base, use_current)
    dirs = {**_milabench_folders(base, python), "extra": str(folders.extra(base, benchmark.group))}
    config = {**settings, "name": benchmark.name, "dirs": dirs, "tag": [benchmark.name]}
    found = {
        **_shared_variables(base, python),
        "MILABENCH_DIR_EXTRA": dirs["extra"],
        "MILABENCH_DIR_CODE": str(code_of(benchmark, base)),
        "MILABENCH_CONFIG": json.dumps(config, default=str),
        "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)]),
    }
    if not use_current:
        found["VIRTUAL_ENV"] = dirs["venv"]
    return found


@lru_cache(folders.MANY)
def _milabench_folders(base: Path, python: Path) -> Mapping[str, str]:
    """By milabench's names, the folders that do not depend on the benchmark."""
    return {
        "venv": str(python.parent.parent),
        "data": str(folders.data(base)),
        "runs": str(folders.runs(base)),
        "cache": str(folders.cache(base)),
    }


@lru_cache(folders.MANY)
def _shared_variables(base: Path, python: Path) -> Mapping[str, str]:
    """The variables that do not depend on the benchmark."""
    cache, data = str(folders.cache(base)), folders.data(base)
    found = {
        f"MILABENCH_DIR_{name.upper()}": path
        for name, path in _milabench_folders(base, python).items()
    }
    found |= {"MILABENCH_BASE": str(base), "XDG_CACHE_HOME": cache, "TORCH_HOME": cache}
    return found | {"HF_HOME": str(data), "HF_HUB_CACHE": str(data / "hub")}
