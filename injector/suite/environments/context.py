"""What the commands of a benchmark get: folders, placeholders for them, and variables.

What a benchmark's ``prepare`` means (:class:`Preparation`) is here too: ``{data}`` is the folder it fills.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...store.place import clean_name
from ..config.model import Benchmark
from ..config.problems import Problem, SuiteError
from . import folders, origins
from .install_groups import python_of

OWN_ARGUMENT = "{data}"
"""The only argument of a prepare step whose arguments are not given."""


@dataclass(frozen=True)
class Preparation:
    """A prepare step as a benchmark declares it, with its paths."""

    script: Path
    arguments: Any
    """As they were written: a mapping or a list, or None for :data:`OWN_ARGUMENT`."""
    data: Path
    """The folder that it fills."""
    shared: bool
    """Whether other steps fill that folder as well, so that none of them may remove it."""
    in_place: bool
    """Whether the folder must not be moved once it is filled."""
    own_arguments: bool
    """Whether the arguments of the benchmark's program follow."""
    env: Mapping[str, Any]
    code: Path
    """The folder in which it runs."""


def preparation_of(benchmark: Benchmark, base: Path) -> Preparation | None:
    """The prepare step of a benchmark; None if it has none.

    Raises SuiteError if its script does not exist, or it names a folder outside of ``BASE/data``.
    """
    settings = benchmark.settings.get("prepare")
    if not settings:
        return None
    if isinstance(settings, list):
        settings = {"script": settings[0], "argv": settings[1:]}
    elif not isinstance(settings, Mapping):
        settings = {"script": settings}
    name = str(settings.get("script") or "prepare.py")
    code = code_of(benchmark, base)
    script = benchmark.path(name, "prepare", "script")
    origin = origins.origin_of(benchmark)
    if not script.is_file() and origin is not None:
        script = code / name  # it comes with the program's source, which may not be fetched yet
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
    """The folder that a prepare step fills, and whether other steps fill it too. Raises SuiteError."""
    all_data = folders.data(base)
    named = settings.get("data")
    if named is None:
        name = benchmark.definition.name if benchmark.definition else benchmark.family
        name = clean_name(name or benchmark.name)
        if arguments:  # the same script may make data of several sizes
            text = json.dumps(arguments, default=str)
            name += "-" + hashlib.sha256(text.encode()).hexdigest()[:8]
        return all_data / name, False
    if str(named) == ".":
        return all_data, True
    if not all(folders.is_name(part) for part in str(named).split("/")):
        text = f"{named!r} is no folder below {all_data}: write a name, or . for {all_data} itself"
        raise SuiteError([Problem(benchmark.at("prepare", "data"), text)])
    return all_data / str(named), False


def data_of(benchmark: Benchmark, base: Path) -> Path:
    """The folder that ``{data}`` stands for: the one that the prepare step fills, else ``BASE/data``.

    Raises SuiteError as :func:`preparation_of` does.
    """
    step = preparation_of(benchmark, base)
    return step.data if step is not None else folders.data(base)


def code_of(benchmark: Benchmark, base: Path) -> Path:
    """The folder of the benchmark's own files: its definition, or its suite's folder if it has none.

    With ``origin.into`` it is a copy of the definition that has the source in it.
    """
    origin = origins.origin_of(benchmark)
    if origin is not None and origin.into:
        return origin.home(base)
    return benchmark.definition or Path(benchmark.where.file).absolute().parent


def placeholders(benchmark: Benchmark, base: Path) -> dict[str, str]:
    """The placeholders for folders in a benchmark's texts, but for those that follow from ``base`` alone.

    Raises SuiteError if there are mistakes in ``origin`` or ``prepare`` of the benchmark.
    """
    origin = origins.origin_of(benchmark)
    code = str(code_of(benchmark, base))
    return {
        "base": str(base),
        "data": str(data_of(benchmark, base)),
        "source": str(origin.folder(base)) if origin is not None else code,
        "benchmark_folder": code,
        "milabench_code": code,
        "milabench_extra": str(folders.extra(base, benchmark.group)),
        "milabench_venv": str(folders.venv(base, benchmark.install_group)),
    }


def variables(
    benchmark: Benchmark, base: Path, settings: Mapping[str, Any], use_current: bool = False
) -> dict[str, str]:
    """The variables for a benchmark's program and its prepare step, which their own ``env`` may override.

    The commands of its environment come first in ``PATH``, caches are below the base, and scripts written for
    milabench find its variables. ``settings`` are the benchmark's, with placeholders filled.
    """
    python = python_of(benchmark, base, use_current)
    data, cache = folders.data(base), str(folders.cache(base))
    dirs = {
        "venv": str(python.parent.parent),
        "data": str(data),
        "runs": str(folders.runs(base)),
        "cache": cache,
        "extra": str(folders.extra(base, benchmark.group)),
    }
    config = {**settings, "name": benchmark.name, "dirs": dirs, "tag": [benchmark.name]}
    result = {
        **{f"MILABENCH_DIR_{name.upper()}": path for name, path in dirs.items()},
        "MILABENCH_DIR_CODE": str(code_of(benchmark, base)),
        "MILABENCH_CONFIG": json.dumps(config, default=str),
        "MILABENCH_BASE": str(base),
        **dict.fromkeys(("XDG_CACHE_HOME", "TORCH_HOME"), cache),
        "HF_HOME": str(data),
        "HF_HUB_CACHE": str(data / "hub"),
        "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)]),
    }
    if not use_current:
        result["VIRTUAL_ENV"] = dirs["venv"]
    return result
