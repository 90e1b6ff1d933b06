"""What the command line and the environment of a process say about it."""

from __future__ import annotations

import sys

import pytest

from injector.launch.boot import ProgramProcess
from injector.launch.children import Children
from injector.launch.environment import SIZES, is_one_of_several, module_named


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["-m", "pkg.train", "--lr", "1"], "pkg.train"),
        (["-mpkg.train"], "pkg.train"),
        (["-u", "-W", "error", "-Xdev", "-m", "pkg", "-m", "other"], "pkg"),
        (["-um", "pkg"], "pkg"),
        (["-Wm", "train.py"], ""),
        (["--check-hash-based-pycs", "train.py", "-m", "pkg"], ""),
        (["train.py", "-m", "pkg"], ""),
        (["-c", "import this", "-m", "pkg"], ""),
        (["-", "-m", "pkg"], ""),
        (["-m"], ""),
        ([], ""),
    ],
)
def test_the_module_that_is_run(words, module):
    assert module_named(words) == module


@pytest.mark.parametrize(
    ("environment", "words", "several"),
    [
        ({}, [], False),
        ({"WORLD_SIZE": "2"}, [], True),
        ({"WORLD_SIZE": "1", "SLURM_NTASKS": ""}, [], False),
        ({"PMI_SIZE": "8"}, [], True),
        (
            {},
            ["-c", "from multiprocessing.spawn import spawn_main", "--multiprocessing-fork"],
            True,
        ),
    ],
)
def test_one_of_several(monkeypatch, environment, words, several):
    for name in SIZES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "orig_argv", ["python", *words])
    assert is_one_of_several() is several


@pytest.mark.parametrize(
    ("file", "packages"),
    [
        (f"{sys.prefix}/bin/train", {"trainer", "main"}),
        ("/home/me/train", set()),
    ],
)
def test_the_command_of_a_package_is_a_part_of_it(monkeypatch, file, packages):
    monkeypatch.setattr(sys, "orig_argv", ["python", file])
    process = ProgramProcess(
        {"auto": {"torch": []}, "methods": {"any": ["to"], "ranks": []}}, Children("")
    )
    text = "import re, sys, torch\nfrom trainer.cli import main\nsys.exit(main())"
    process.belongs(compile(text, file, "exec"))
    assert process.method_calls.packages - {"exit"} == packages
    assert process.method_calls.methods == {"to"} and process.config["methods"] == ["to"]


def test_the_package_of_a_module_that_is_run(monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "-u", "-m", "trainer.cli", "-m", "x"])
    assert ProgramProcess({}, Children("")).method_calls.packages == {"trainer"}
