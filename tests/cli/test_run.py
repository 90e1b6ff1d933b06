"""``inject run`` from a command line, as far as no parity case shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CALLS = {
    "module": ["-m", "injector"],
    "code": ["-c", "import sys\nfrom injector.cli import main\nsys.exit(main())"],
}


@pytest.mark.parametrize("how", CALLS)
def test_however_it_is_called(how, tmp_path):
    (tmp_path / "main.py").write_text("import sys\nprint(sys.argv, sys.orig_argv[1:])\nsys.exit(5)")
    done = subprocess.run(
        [sys.executable, "-X", "dev", *CALLS[how], "run", "--quiet", "main.py", "a"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "INJECT_RUNS": str(tmp_path / "runs")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (5, "")
    assert done.stdout == "['main.py', 'a'] ['-X', 'dev', 'main.py', 'a']\n"


def called(tmp_path, *words):
    return subprocess.run(
        [sys.executable, "-m", "injector", "run", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "INJECT_RUNS": str(tmp_path / "runs")},
        capture_output=True,
        text=True,
    )


def test_into_a_named_folder_and_never_twice(tmp_path):
    (tmp_path / "main.py").write_text("print('ran')")
    done = called(tmp_path, "--quiet", "--into", "here/exactly", "main.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    record = tmp_path / "here" / "exactly" / "run.json"
    before = record.read_bytes()
    assert not (tmp_path / "runs").exists()

    again = called(tmp_path, "--quiet", "--into", "here/exactly", "main.py")
    assert (again.returncode, again.stdout) == (2, "")
    assert "this folder holds a run already" in again.stderr
    assert record.read_bytes() == before


def test_into_and_runs_exclude_each_other(tmp_path):
    (tmp_path / "main.py").write_text("print('ran')")
    done = called(tmp_path, "--into", "a", "--runs", "b", "main.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "not both" in done.stderr
    assert not (tmp_path / "a").exists()


MEMORY = """
import subprocess, sys
if len(sys.argv) > 1:
    held = bytearray(int(sys.argv[1]))
else:
    subprocess.run([sys.executable, __file__, "200000000"], check=True)
"""


def test_the_most_memory_is_known_however_short_it_was_held(tmp_path):
    """Also by a process that the program started itself; samples are a second apart."""
    (tmp_path / "main.py").write_text(MEMORY)
    for words in (["main.py", "200000000"], ["main.py"]):
        into = tmp_path / f"run{len(words)}"
        done = called(tmp_path, "--quiet", "--into", str(into), *words)
        assert done.returncode == 0, done.stderr
        assert 200_000_000 < json.loads((into / "run.json").read_text())["peak_rss"] < 300_000_000
    (tmp_path / "empty.py").write_text("")
    called(tmp_path, "--quiet", "--into", str(tmp_path / "empty"), "empty.py")
    assert json.loads((tmp_path / "empty" / "run.json").read_text())["peak_rss"] < 50_000_000


STARTS = {
    "a script that does not parse": (["broken.py"], 1),
    "a module that is none": (["-m", "nothing.of_that_name"], 1),
    "a folder without a program": (["folder"], 1),
    "a voirfile that raises": (["--voirfile", "raises.py", "main.py"], 2),
    "a voirfile with a selector that is none": (["--voirfile", "selects.py", "main.py"], 2),
    "an option with a value that is none": (["--voirfile", "takes.py", "--n", "x", "main.py"], 2),
    "a command that cannot be executed": (["./text"], None),
    "a word that is nearly a command": (["torchrunn", "main.py"], 2),
    "a folder of runs that is a file": (["--runs", "main.py", "main.py"], 2),
    "an empty name": (["--name", "", "main.py"], 2),
}


@pytest.mark.parametrize("how", STARTS)
def test_a_start_that_failed_before_the_program_began_leaves_no_run_and_no_report(how, tmp_path):
    for name, text in {
        "main.py": "print('ran')",
        "broken.py": "def f() return",
        "raises.py": "1 / 0",
        "selects.py": "def instrument_x(ov):\n    ov.value('f >> > x')",
        "takes.py": "def instrument_x(ov):\n    ov.argparser.add_argument('--n', type=int)",
        "text": "no program",
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").chmod(0o755)
    words, code = STARTS[how]
    for into in ((), ("--into", "new"), ("--into", "kept")):
        if into and "--runs" in words:
            continue
        (tmp_path / "kept").mkdir(exist_ok=True)
        (tmp_path / "kept" / "notes.txt").write_text("mine")
        done = called(tmp_path, *into, *words)
        assert done.returncode == code or (code is None and done.returncode)
        assert done.stderr and "nothing recorded" not in done.stderr
        assert "run: " not in done.stderr
        assert not list((tmp_path / "runs").glob("*")) and not (tmp_path / "new").exists()
        assert [path.name for path in (tmp_path / "kept").iterdir()] == ["notes.txt"]
    if "torchrunn" in words:
        assert "neither a file nor a command; did you mean torchrun?" in done.stderr


@pytest.mark.parametrize("words", [["-m", "pdb", "main.py"], ["ends.py"], ["-m", "ends"]])
def test_a_program_that_fails_or_clears_its_main_has_begun(words, tmp_path):
    (tmp_path / "main.py").write_text("print('ran')")
    (tmp_path / "ends.py").write_text("import __main__, sys\nvars(__main__).clear()\nexit(3)")
    called(tmp_path, "--quiet", "--no-monitor", *words)
    [run] = (tmp_path / "runs").glob("*")
    assert (run / "run.json").exists() and not list(run.glob("raw/*.monitor"))
