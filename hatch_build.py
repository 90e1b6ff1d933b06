"""What a wheel has that the package's folder has not: compiled code, voirfiles, suites, benchmarks.

An editable install compiles in place, and reads the others where they are (injector/origin.py). Where
nothing can be compiled, the package works without: slower (injector/probe/compiled.py).
"""

from __future__ import annotations

import os
import shutil
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # no build: what is here is called by itself, to compile a checkout in place
    BuildHookInterface = object

INSIDE = "injector/shipped"
NATIVE = "injector/probe/native"
MODULE = "injector.probe._native"


class Shipped(BuildHookInterface):  # type: ignore[type-arg,misc]
    """Of ``benchmarks/`` only what defines a benchmark; the rest there measures this package."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        self._compile(root, version == "editable", build_data)
        if version == "editable":
            return
        wanted = [file for file in sorted((root / "suites").rglob("*.yaml")) if file.is_file()]
        wanted += sorted((root / "voirfiles").glob("*.py"))
        wanted += sorted((root / "benchmarks" / "constraints").glob("*.txt"))
        for definition in sorted((root / "benchmarks").glob("*/benchmark.yaml")):
            wanted += [file for file in sorted(definition.parent.rglob("*")) if _is_ours(file)]
        for file in wanted:
            build_data["force_include"][str(file)] = f"{INSIDE}/{file.relative_to(root)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.target_name == "wheel":
            shutil.rmtree(self._place, ignore_errors=True)

    def _compile(self, root: Path, editable: bool, build_data: dict[str, Any]) -> None:
        place = self._place = Path(tempfile.mkdtemp(prefix="injector-native-"))
        try:
            if not (editable and is_compiled(root)):
                built = compiled(root, place)
                if editable:
                    replace(built, root / NATIVE / os.pardir / built.name)
        except (Exception, SystemExit) as error:  # setuptools ends so where a compiler is not there
            self.app.display_warning(f"not compiled, so probes will be slower: {error}")
            return
        finally:
            if editable:  # no wheel packs what is in it
                shutil.rmtree(place, ignore_errors=True)
        if not editable:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"][str(built)] = f"injector/probe/{built.name}"


def is_compiled(root: Path) -> bool:
    """Whether what lies in the checkout was compiled for this Python, from its present sources."""
    module = root / NATIVE / os.pardir / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
    sources = [file.stat().st_mtime_ns for file in (root / NATIVE).iterdir()]
    return module.exists() and module.stat().st_mtime_ns > max(sources)


def compiled(root: Path, place: Path) -> Path:
    """Compile ``NATIVE`` below ``place``; the file. Raises whatever setuptools does."""
    from setuptools import Distribution, Extension

    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise RuntimeError("what is compiled relies on the global interpreter lock")
    sources = [str(file.relative_to(root)) for file in sorted((root / NATIVE).glob("*.c"))]
    extension = Extension(MODULE, sources, extra_compile_args=["-O2", "-fvisibility=hidden"])
    command: Any = Distribution({"ext_modules": [extension]}).get_command_obj("build_ext")
    with tempfile.TemporaryDirectory(prefix="injector-build-") as objects:
        command.build_lib, command.build_temp = str(place), objects
        command.ensure_finalized()
        command.run()
    return Path(command.get_ext_fullpath(MODULE))


def replace(built: Path, place: Path) -> None:
    """Put the file at ``place`` at once: programs may be running that have the old one mapped."""
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    shutil.copy2(built, beside)
    os.replace(beside, place)


def _is_ours(file: Path) -> bool:
    return file.is_file() and "__pycache__" not in file.parts
