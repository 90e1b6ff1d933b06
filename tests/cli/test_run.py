"""``inject run`` from a command line, as far as no parity case shows it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from injector.run import supervised
from injector.store.folder import open_run
from injector.store.seal import flaws

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


@pytest.mark.parametrize(
    ("option", "variable", "word", "runs"),
    [
        ({}, {}, "main.py", False),
        ({}, {"PYTHON_GIL": "0"}, "main.py", False),
        ({}, {}, "-mmain", False),
        ({"gil": "0"}, {"PYTHON_GIL": "1"}, "main.py", False),
        ({"gil": "1"}, {}, "main.py", True),
        ({}, {"PYTHON_GIL": "1"}, "main.py", True),
        ({}, {}, "uname", True),  # a Python that a command starts looks for itself
    ],
)
def test_a_free_threaded_python_is_refused_without_its_lock(option, variable, word, runs, tmp_path):
    (tmp_path / "main.py").write_text("print('ran')")
    # An ordinary build does not start without its lock: it is told so when it has started.
    code = f"""if True:
        import os, sys
        sys.abiflags = "t"
        sys._xoptions.update({option!r})
        os.environ.update({variable!r})
        from injector.cli import main
        sys.exit(main())
    """
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "INJECT_RUNS": str(tmp_path / "runs")}
    environ.pop("PYTHON_GIL", None)
    words = [sys.executable, "-c", code, "run", "--quiet", word]
    done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True)
    if runs:
        assert (done.returncode, done.stderr) == (0, "") and done.stdout
        return
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"inject: {sys.executable} is a free-threaded Python, and ")
    assert "set PYTHON_GIL=1 for the run, or use the ordinary build" in done.stderr
    assert not (tmp_path / "runs").exists()


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


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_into_a_folder_where_a_program_has_data_of_its_own(tmp_path, kind):
    there = tmp_path / "home" / ".data"
    there.parent.mkdir()
    there.mkdir() if kind == "folder" else there.write_text("mine")
    (tmp_path / "main.py").write_text("print('ran')")
    done = called(tmp_path, "--into", "home", "main.py")
    assert done.returncode == 0 and "damage" not in done.stderr, done.stderr
    run = open_run(str(there.parent))
    assert [os.path.basename(path) for path in run.data_files] == ["main.D0.data"]
    assert flaws(run.path, run.info["files"]) == []


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


@pytest.mark.parametrize(
    "words", [["-m", "pdb", "main.py"], ["ends.py"], ["-m", "ends"], ["-m", "resets"]]
)
def test_a_program_that_fails_or_clears_its_main_has_begun(words, tmp_path):
    (tmp_path / "main.py").write_text("print('ran')")
    # So does pdb from Python 3.13.
    resets = "lambda space: (space.clear(), space.update(__spec__=None))"
    (tmp_path / "resets.py").write_text(f"import __main__\n({resets})(vars(__main__))")
    (tmp_path / "ends.py").write_text("import __main__, sys\nvars(__main__).clear()\nexit(3)")
    called(tmp_path, "--quiet", "--no-monitor", *words)
    [run] = (tmp_path / "runs").glob("*")
    assert (run / "run.json").exists() and not list(run.glob("raw/*.monitor"))


def test_an_option_of_ours_that_went_to_a_program_that_does_not_know_it(tmp_path):
    (tmp_path / "main.py").write_text("import argparse\nargparse.ArgumentParser().parse_args()")
    done = called(tmp_path, "main.py", "--stop", "3")
    assert done.returncode == 2
    assert "--stop went to main.py, which ended with exit code 2: options of inject" in done.stderr
    assert "went to" not in called(tmp_path, "main.py", "--steps", "3").stderr


@pytest.mark.parametrize("end", ["\\r 50%|####    |", "epoch 3\\r", "no newline", ""])
def test_the_report_begins_on_a_line_of_its_own(end, tmp_path):
    (tmp_path / "main.py").write_text(f"import sys\nsys.stderr.write('{end}')")
    done = subprocess.run(
        [sys.executable, "-m", "injector", "run", "--no-monitor", "main.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
    )
    before, _, after = done.stderr.decode().partition("inject run")
    assert before == end.replace("\\r", "\r") + "\n" and after


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed, tmp_path):
    (tmp_path / "main.py").write_text("print('ran')\nif 1 is 1:\n    raise SystemExit(5)\n")
    words = [sys.executable, "-m", "injector", "run", "--into", "run", "main.py"]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert (done.returncode, done.stdout) == (5, "" if " >&-" in f" {closed}" else "ran\n")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["exit"]["code"] == 5


@pytest.mark.parametrize("settings", [{}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_names_of_files_that_are_no_text(settings, tmp_path):
    """Under every locale: they are found, run, and shown."""
    folder = os.fsencode(tmp_path)
    for name, text in {
        b"tr\xe9.py": "import sys\nx = 1\nprint(sys.argv)\n",
        b"x\xe9.py": "def instrument_x(ov):\n    ov.value('// > x')\n",
        b"broken\xe9.py": "def f() return",
        b"c\xe9.yaml": "nothing: 1\n",
    }.items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C", **settings}

    def ran(*words):
        command = [sys.executable, "-m", "injector", "run", "--no-monitor", *words]
        return subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True)

    plain = subprocess.run(
        [sys.executable, b"tr\xe9.py", b"\xe9"], cwd=tmp_path, env=environ, capture_output=True
    )
    done = ran("--voirfile", b"x\xe9.py", b"tr\xe9.py", b"\xe9")
    assert (done.returncode, done.stdout) == (0, plain.stdout)
    assert b"tr\\xe9.py \\xe9" in done.stderr and b"fired 1" in done.stderr
    for words in (
        ["--voirfile", b"broken\xe9.py"],
        ["--config", b"c\xe9.yaml"],
        ["--stop", b"\xe9"],
    ):
        done = ran(*words, b"tr\xe9.py")
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.startswith(b"inject: ") and b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("value(42)", "a place is a selector such as '//train > loss', or a function, not 42"),
        ("region(None, 'x')", "a place is a selector such as '//train > loss', or a function, not"),
        ("loader([1])", "a place is a selector such as '//train > loss', or a function, not [1]"),
        ("probe({})", "a place is a selector such as '//train > loss', or a function, not {}"),
        ("value('')", "expected a function or a variable, not the end"),
        ("override('//f > x', 3)", "what replaces a value is a function, not 3"),
        ("values('//f > x')", "ov has no attribute 'values'; did you mean ov.value?"),
        ("loder('//f > x')", "ov has no attribute 'loder'; did you mean ov.loader?"),
    ],
)
def test_mistakes_of_a_voirfile_that_are_seen_before_the_program_runs(
    call, message, tmp_path, monkeypatch, capsys
):
    from injector.cli import check

    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.py").write_text("print('ran')")
    text = f"def instrument_x(ov):\n    assert not hasattr(ov, 'nothing')\n    ov.{call}\n"
    (tmp_path / "x.py").write_text(text)
    assert check.main(["--voirfile", "x.py", "main.py"]) == 2
    sentence = capsys.readouterr().err
    assert message in sentence
    assert "x.py:3: " in sentence or "override" in call
    if call == "values('//f > x')":
        done = called(tmp_path, "--voirfile", "x.py", "main.py")
        assert (done.returncode, done.stdout) == (2, "") and message in done.stderr


def test_a_remark_is_no_failure(tmp_path):
    (tmp_path / "main.py").write_text("parser = '--voirfile'")
    done = called(tmp_path, "--strict", "main.py", "--voirfile", "x")
    assert done.returncode == 0
    assert "--voirfile was left to main.py, which names it" in done.stderr
    (tmp_path / "voirfile.py").write_text("1 / 0")
    assert called(tmp_path, "main.py").returncode == 0
    assert called(tmp_path, "--strict", "main.py").returncode == 70


def test_a_loop_that_no_library_has_is_named_and_can_be_measured_so(tmp_path):
    (tmp_path / "train.py").write_text(
        "import numpy as np\n"
        "def update(w, x):\n"
        "    w -= 0.1 * x\n"
        "w = np.zeros(4)\n"
        "for turn in range(30):\n"
        "    update(w, np.ones(4))\n"
    )
    first = called(tmp_path, "train.py")
    sentence = " ".join(first.stderr.split())
    found = re.search(
        r"the loop at train.py:5, save a voirfile FILE with `(.*?)` and run it", sentence
    )
    assert found and first.returncode == 0, first.stderr
    (tmp_path / "named.py").write_text(found[1])
    again = called(tmp_path, "--voirfile", "named.py", "train.py")
    assert "train: 30 steps" in again.stderr, again.stderr
    assert "save a voirfile" not in again.stderr


def test_verbose_says_of_each_process_what_acted_and_where(tmp_path):
    (tmp_path / "main.py").write_text(
        "import subprocess, sys\n\n\ndef found():\n    value = 1\n    return value\n\n\n"
        "if len(sys.argv) == 1:\n    subprocess.run([sys.executable, sys.argv[0], 'child'], check=True)\n"
        "else:\n    found()\n"
    )
    (tmp_path / "x.py").write_text(
        "def instrument_x(ov):\n    yield ov.phases.init\n"
        "    ov.value('//found > value')\n    ov.value('//found > absent')\n"
    )
    plain = called(tmp_path, "--no-monitor", "--voirfile", "x.py", "main.py").stderr
    assert "in each process" not in plain and f"{tmp_path}/main.py" not in plain
    shown = called(tmp_path, "--verbose", "--no-monitor", "--voirfile", "x.py", "main.py").stderr
    _, _, details = shown.partition("in each process\n")
    parent, child = details.split("  process ")[1:3]
    assert "main.py child" in child.splitlines()[0] and "child" not in parent
    for process in (parent, child):
        assert f"//found > value  set at {tmp_path}/x.py:3" in process
        assert f"{tmp_path}/main.py:5 (found)  value = 1" in process
        assert "//found > absent  set at" in process and "nowhere: absent in found" in process
    both = called(tmp_path, "--verbose", "--quiet", "main.py")
    assert both.returncode == 2 and "--quiet" in both.stderr and not both.stdout


def test_verbose_names_the_signal_that_a_process_died_by(tmp_path):
    (tmp_path / "main.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGABRT)\n")
    (tmp_path / "x.py").write_text("def instrument_x(ov):\n    ov.value('// > absent')\n")
    done = called(tmp_path, "--verbose", "--no-monitor", "--voirfile", "x.py", "main.py")
    assert done.returncode == -signal.SIGABRT
    _, _, details = done.stderr.partition("in each process\n")
    assert details.splitlines()[1].startswith("    killed by SIGABRT · "), done.stderr


@pytest.mark.parametrize(("cores", "soon"), [({0, 1}, 0.0), ({3}, supervised.SOON)])
def test_imports_beside_a_program_wait_where_it_has_one_core(monkeypatch, cores, soon):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cores, raising=False)
    assert supervised._import_delay() == soon


def test_a_notebook_is_no_program_of_python(tmp_path):
    """As Python, its JSON would be a NameError of ``null``, or nothing at all."""
    (tmp_path / "train.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4}')
    done = called(tmp_path, "train.ipynb")
    assert done.returncode == 2 and not (tmp_path / "runs").exists()
    assert "inject run jupyter nbconvert --to notebook --execute train.ipynb" in done.stderr


@pytest.mark.parametrize("text", ["", "print(1)\nfor i in 'ab': print(i)\n"])
def test_a_quiet_run_without_steps_imports_nothing_for_a_report(tmp_path, text):
    script = tmp_path / "main.py"
    script.write_text(text)
    words = [sys.executable, "-X", "importtime", "-m", "injector", "run", "-q", "--no-monitor"]
    done = subprocess.run(
        [*words, "--runs", str(tmp_path / "runs"), str(script)], capture_output=True, text=True
    )
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "injector.bus.tally" in imported  # what the collector imports
    assert not {name for name in imported if name.startswith("injector.analysis")}
    assert not imported & {"ast", "injector.report.terminal"}
