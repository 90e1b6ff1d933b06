"""What a benchmark's commands find around them: placeholders for folders, and variables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..config.model import Benchmark
from . import folders, origins
from .environments import python_of
from .preparation import code_of, data_of


def placeholders(benchmark: Benchmark, base: Path) -> dict[str, str]:
    """What stands for folders in a benchmark's texts. Machine and job add theirs.

    Raises:
        SuiteError: ``origin`` or ``prepare`` of the benchmark makes no sense.
    """
    origin = origins.of(benchmark)
    code = str(code_of(benchmark, base))
    return {
        **_shared(base),
        "data": str(data_of(benchmark, base)),
        "source": str(origin.folder(base)) if origin is not None else code,
        "benchmark_folder": code,
        "milabench_code": code,
        "milabench_extra": str(folders.extra(base, benchmark.group)),
        "milabench_venv": str(folders.venv(base, benchmark.install_group)),
    }


@lru_cache(folders.MANY)
def _shared(base: Path) -> Mapping[str, str]:
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
    dirs = {**_dirs(base, python), "extra": str(folders.extra(base, benchmark.group))}
    config = {**settings, "name": benchmark.name, "dirs": dirs, "tag": [benchmark.name]}
    told = {
        **_told(base, python),
        "MILABENCH_DIR_EXTRA": dirs["extra"],
        "MILABENCH_DIR_CODE": str(code_of(benchmark, base)),
        "MILABENCH_CONFIG": json.dumps(config, default=str),
        "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)]),
    }
    if not use_current:
        told["VIRTUAL_ENV"] = dirs["venv"]
    return told


@lru_cache(folders.MANY)
def _dirs(base: Path, python: Path) -> Mapping[str, str]:
    """By milabench's names, the folders that do not depend on the benchmark."""
    return {
        "venv": str(python.parent.parent),
        "data": str(folders.data(base)),
        "runs": str(folders.runs(base)),
        "cache": str(folders.cache(base)),
    }


@lru_cache(folders.MANY)
def _told(base: Path, python: Path) -> Mapping[str, str]:
    """The variables that do not depend on the benchmark."""
    cache, data = str(folders.cache(base)), folders.data(base)
    told = {f"MILABENCH_DIR_{name.upper()}": path for name, path in _dirs(base, python).items()}
    told |= {"MILABENCH_BASE": str(base), "XDG_CACHE_HOME": cache, "TORCH_HOME": cache}
    return told | {"HF_HOME": str(data), "HF_HUB_CACHE": str(data / "hub")}
