"""An installed wheel has the voirfiles, suites and benchmarks of the checkout, and can give itself on."""

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

from injector import voirfiles
from injector.suite.config import definitions

pytestmark = pytest.mark.xdist_group("wheel")  # one wheel for all of these
ROOT = Path(__file__).parents[2]

ASK = """\
import json, sys
from pathlib import Path
from injector import origin, voirfiles
from injector.suite.config import definitions
from injector.suite.environments.own_package import find_own_package
base = Path(sys.argv[1])
own = find_own_package(base)
own.provide()
told = {"checkout": origin.checkout(), "wheel": own.requirement}
told["benchmarks"] = list(definitions.shipped_benchmarks())
told["voirfiles"] = [vars(one) for one in voirfiles.shipped()]
told["suites"] = list(definitions.shipped_suites())
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT]
    subprocess.run(words, check=True, capture_output=True)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", folder, wheel], check=True, capture_output=True)
    return folder


def asked(site, *words):
    """What Python prints, given words, where this package is in ``site`` and nowhere else."""
    libraries = {str(Path(module.__file__).parents[1]) for module in (yaml, numpy)}
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *libraries])},
        cwd=site.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_wheel_has_them_and_gives_the_same_wheel_on(wheel, site, tmp_path):
    done = asked(site, "-S", "-c", ASK, tmp_path / "base")
    listed = json.loads(done)
    assert listed["checkout"] is None
    assert listed["benchmarks"] == list(definitions.shipped_benchmarks())
    assert listed["suites"] == list(definitions.shipped_suites())
    ours = {Path(one.path).name: one for one in voirfiles.shipped()}
    assert len(listed["voirfiles"]) == len(ours)
    for one in listed["voirfiles"]:
        path = Path(one["path"])
        own = ours[path.name]
        assert path.parent == site / "injector" / "shipped" / "voirfiles"
        assert path.read_bytes() == Path(own.path).read_bytes()
        found = one["name"], tuple(one["libraries"]), tuple(one["tested"])
        assert found == (own.name, own.libraries, own.tested)
    # What it gives to an environment holds the same files as the wheel that it was installed from.
    assert names(Path(listed["wheel"])) == names(wheel)
    with zipfile.ZipFile(listed["wheel"]) as packed:
        assert packed.testzip() is None


def test_what_is_shipped_acts_where_it_was_installed(site, tmp_path):
    """A program imports a library (here, nothing but its name), and the voirfile for it is run."""
    (tmp_path / "lightgbm.py").write_text("")
    (tmp_path / "main.py").write_text("import lightgbm")
    words = ["-m", "injector", "run", "--quiet", "--into", tmp_path / "run", tmp_path / "main.py"]
    assert asked(site, *words) == ""
    [acted] = json.loads((tmp_path / "run" / "run.json").read_text())["automatic"]
    assert (acted["name"], acted["library"]) == ("lightgbm", "lightgbm")


def names(file: Path) -> set[str]:
    with zipfile.ZipFile(file) as packed:
        return set(packed.namelist())


def test_a_wheel_has_what_defines_benchmarks_and_nothing_else_of_their_folder(wheel):
    found = names(wheel)
    assert "injector/shipped/benchmarks/trl-sft/voirfile.py" in found
    assert "injector/shipped/benchmarks/constraints/rocm.txt" in found
    assert not any("overhead" in name or "__pycache__" in name for name in found)


def test_a_wheel_has_what_was_compiled_and_not_its_sources(wheel):
    found = names(wheel)
    assert [name for name in found if name.startswith("injector/probe/_native.")]
    sources = {name for name in found if name.endswith((".c", ".h"))}
    # A benchmark may compile a program of its own.
    assert not {name for name in sources if not name.startswith("injector/shipped/benchmarks/")}
    assert "-none-any" not in wheel.name
