"""Puts the shipped suites and benchmarks into a wheel.

An editable install needs no copy: it reads those of the checkout (injector/suite/shipped.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INSIDE = "injector/shipped"


class Shipped(BuildHookInterface):  # type: ignore[type-arg]
    """Of ``benchmarks/`` only what defines a benchmark; the rest there measures this package."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        wanted = [file for file in sorted((root / "suites").rglob("*.yaml")) if file.is_file()]
        for definition in sorted((root / "benchmarks").glob("*/benchmark.yaml")):
            wanted += [file for file in sorted(definition.parent.rglob("*")) if _is_ours(file)]
        for file in wanted:
            build_data["force_include"][str(file)] = f"{INSIDE}/{file.relative_to(root)}"


def _is_ours(file: Path) -> bool:
    return file.is_file() and "__pycache__" not in file.parts
