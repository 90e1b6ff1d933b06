"""Programs run by a debugger, a profiler or a shell are the program too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
def train(epochs):
    loss = 0
    for _ in range(epochs):
        loss += 1
    return loss

if __name__ == "__main__":
    print(train(3))
"""
VOIRFILE = """\
def instrument_it(ov):
    ov.value("//train > loss")
    ov.value("//nothing > x")
    ov.value("//run > path")
"""
RUNNER = Path(__file__).parents[1] / "programs" / "runner.py"


def recorded(folder: Path, inject: list[str], environ: dict[str, str], *words: str) -> dict:
    (folder / "train.py").write_text(PROGRAM)
    (folder / "x.py").write_text(VOIRFILE)
    command = [*inject, "run", "--quiet", "--runs", "runs", "--voirfile", "x.py", *words]
    done = subprocess.run(
        command, cwd=folder, env=environ, input="c\nq\n", capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    [path] = folder.glob("runs/*/run.json")
    info: dict = json.loads(path.read_text())
    info["fired"] = {probe["selector"]: probe["fired"] for probe in info["probes"]}
    return info


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "pdb", "train.py"],
        ["-m", "cProfile", "-o", "prof", "train.py"],
        [str(RUNNER), "module", "train.py"],
        [str(RUNNER), "dict", "train.py"],
        [str(RUNNER), "here", "train.py"],
    ],
)
def test_probed(tmp_path, inject, environ, words):
    info = recorded(tmp_path, inject, environ, *words)
    assert info["fired"]["//train > loss"] == 4
    assert [miss["selector"] for miss in info["misses"]][:1] == ["//nothing > x"]
    assert "//train > loss" not in [miss["selector"] for miss in info["misses"]]


def test_the_runner_is_probed_as_well(tmp_path, inject, environ):
    info = recorded(tmp_path, inject, environ, str(RUNNER), "module", "train.py")
    assert info["fired"]["//run > path"] == 1
    assert [miss["selector"] for miss in info["misses"]] == ["//nothing > x"]


def test_misses_are_reported_if_nothing_else_came(tmp_path, inject, environ):
    info = recorded(tmp_path, inject, environ, str(RUNNER), "other", "train.py")
    assert info["fired"]["//train > loss"] == 0
    missed = [miss["selector"] for miss in info["misses"]]
    assert missed == ["//train > loss", "//nothing > x"]


def test_a_command_is_found_beside_the_interpreter_without_an_activated_environment(
    inject, environ, tmp_path
):
    own = Path(sys.executable).with_name("pytest")  # a package's command, wherever tests run
    assert own.exists()
    done = subprocess.run(
        [*inject, "run", "--quiet", "--runs", str(tmp_path), "pytest", "--version"],
        env={**environ, "PATH": "/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "pytest" in done.stdout + done.stderr
