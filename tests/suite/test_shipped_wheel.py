"""An installed wheel has the suites and benchmarks of the checkout, and can give itself on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pytest
import yaml

from injector.suite import shipped

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]

ASK = """\
import json, sys
from pathlib import Path
from injector.suite import shipped
from injector.suite.environments.own_package import find_own_package
base = Path(sys.argv[1])
own = find_own_package(base)
own.provide()
told = {"checkout": shipped.checkout(), "benchmarks": list(shipped.benchmarks()), "wheel": own.requirement}
told["suites"] = list(shipped.suites())
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT]
    subprocess.run(words, check=True, capture_output=True)
    (file,) = folder.glob("*.whl")
    return file


def test_an_installed_wheel_has_them_and_gives_the_same_wheel_on(wheel, tmp_path):
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", site, wheel], check=True, capture_output=True)
    libraries = {str(Path(module.__file__).parents[1]) for module in (yaml, numpy)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", ASK, tmp_path / "base"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *libraries])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["checkout"] is None
    assert told["benchmarks"] == list(shipped.benchmarks())
    assert told["suites"] == list(shipped.suites())
    # What it gives to an environment holds the same files as the wheel that it was installed from.
    assert names(Path(told["wheel"])) == names(wheel)
    with zipfile.ZipFile(told["wheel"]) as packed:
        assert packed.testzip() is None


def names(file: Path) -> set[str]:
    with zipfile.ZipFile(file) as packed:
        return set(packed.namelist())


def test_a_wheel_has_what_defines_benchmarks_and_nothing_else_of_their_folder(wheel):
    found = names(wheel)
    assert "injector/shipped/benchmarks/trl-sft/voirfile.py" in found
    assert not any("overhead" in name or "__pycache__" in name for name in found)


def test_a_wheel_has_what_was_compiled_and_not_its_sources(wheel):
    found = names(wheel)
    assert [name for name in found if name.startswith("injector/probe/_native.")]
    assert not any(name.endswith((".c", ".h")) for name in found)
    assert "-none-any" not in wheel.name
