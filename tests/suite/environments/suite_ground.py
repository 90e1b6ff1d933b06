"""What suites stand on, in little: wheels of a few lines, repositories, benchmarks."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from injector.suite.config.model import Benchmark
from injector.suite.config.problems import Where
from injector.suite.environments.own_package import OwnPackage

OWN_MAIN = "import sys; print('0.0.1')"


def wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str] | None = None,
    requires: tuple[str, ...] = (),
) -> Path:
    """A wheel with one module, or with ``files``."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {each}\n" for each in requires)
    wheel_file = (
        "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    content = dict(files or {f"{module}.py": f"version = {version!r}\n"})
    content |= {f"{info}/METADATA": metadata, f"{info}/WHEEL": wheel_file}
    record = [f"{path},{_hash(text)},{len(text.encode())}" for path, text in content.items()]
    content[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"]) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as packed:
        for path, text in content.items():
            packed.writestr(path, text)
    return file


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def own(folder: Path, text: str = OWN_MAIN) -> OwnPackage:
    """Stands for this package: installing it takes no time."""
    files = {"injector/__init__.py": "", "injector/__main__.py": text}
    file = wheel(
        folder / hashlib.sha256(text.encode()).hexdigest()[:8], "overlay-injector", "0.0.1", files
    )
    return OwnPackage(str(file), text, "", "0.0.1")


def benchmark(place: Path, name: str = "bench", /, **settings: Any) -> Benchmark:
    """A benchmark of a suite that lies in the folder ``place``."""
    return Benchmark(name, Where(str(place / "suite.yaml"), 3, name), settings, name)


def definition(folder: Path, **files: str) -> Path:
    """A folder that defines a benchmark; ``prepare_py`` is its ``prepare.py``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"benchmark_yaml": "run: main.py\n", **files}.items():
        stem, _, ending = name.rpartition("_")
        (folder / f"{stem}.{ending}").write_text(text)
    return folder


class Repository:
    """A git repository in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch", "main")

    def git(self, *words: str) -> str:
        who = {
            f"GIT_{role}_{what}": "x@y.z"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        done = subprocess.run(
            ["git", *words],
            cwd=self.folder,
            env={**os.environ, **who},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def commit(self, **files: str) -> str:
        """Write files (``train_py``), commit them; gives the commit."""
        for name, text in files.items():
            stem, _, ending = name.rpartition("_")
            (self.folder / f"{stem}.{ending}").write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", "more")
        return self.git("rev-parse", "HEAD")
