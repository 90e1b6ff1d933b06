"""``inject run --engine``: what becomes of its words, with doubles of srun and ssh that run them here."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from injector.errors import UserError
from injector.run.elsewhere import parse
from injector.run.outer_options import discard_unused, leading_options, program_of, reserve

ROOT = Path(__file__).parents[2]

PROGRAM = """\
import os, sys, time
print("in", os.environ["THERE"], *sys.argv[1:], flush=True)
time.sleep(float(os.environ.get("SECONDS", 0)))
sys.exit(3)
"""
SRUN = """#!/bin/sh
echo "$@" >> srun.words
while [ "${1#--}" != "$1" ]; do shift; done
THERE=slurm exec "$@"
"""
SSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift 2; done
echo "$1" >> ssh.hosts
[ "$1" = gone ] && { echo "ssh: connect to host gone: No route to host" >&2; exit 255; }
shift
THERE=ssh sh -c "$*"
code=$?
[ $code -gt 128 ] && exit 255
exit $code
"""


@pytest.fixture
def there(tmp_path, environ):
    """The environment in which the doubles are found."""
    for name, text in (("srun", SRUN), ("ssh", SSH)):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / "program.py").write_text(PROGRAM)
    return {**environ, "PATH": f"{path.parent}:{environ['PATH']}", "PYTHONPATH": str(ROOT)}


def ran(inject, folder, environ, *words):
    return subprocess.run(
        [*inject, "run", "--no-monitor", *words],
        cwd=folder, env=environ, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_words_are_taken_apart():
    program = ["x.py", "--engine", "y"]
    found = parse(["--engine=ssh", "-q", "--engine-option", "host=me@a", "--runs", "r", *program])
    assert (found.engine, found.engine_options) == ("ssh", {"host": "me@a"})
    assert found.words() == ["-q", "--runs", "r", *program]
    assert found.words("--runs") == ["-q", *program]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--stop", "5", "program.py", "a"], "program"),
        (["--skip=2", "-m", "package.module"], "package.module"),
        (["--name", "mine", "program.py"], "mine"),
        (["--theirs", "7", "program.py"], "run"),
    ],
)
def test_the_run_folder_has_the_programs_name(tmp_path, monkeypatch, words, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").touch()
    options, rest = leading_options(words)
    place = reserve(options, program_of(rest))
    assert Path(place.path).name.startswith(f"{name}.2")
    discard_unused(place)
    assert not Path(place.path).exists()


def test_a_run_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    options, rest = leading_options(["--into", str(tmp_path / "file/run"), "program.py"])
    with pytest.raises(
        UserError, match=r"--into .*file/run: no run can be recorded there: Not a directory"
    ):
        reserve(options, program_of(rest))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engine", "slrm"], "--engine is local, slurm, ssh or ray, not slrm"),
        (["--engine"], "--engine needs a value"),
        (
            ["--engine-option", "a=b"],
            "--engine-option is for --engine slurm, --engine ssh and --engine ray",
        ),
    ],
)
def test_mistakes(words, message):
    with pytest.raises(UserError, match=message):
        parse(words)


def test_on_slurm_it_is_srun_of_the_same(tmp_path, inject, there):
    options = ["--engine", "slurm", "--engine-option", "nodes=1", "--engine-option", "exclusive"]
    done = ran(inject, tmp_path, there, *options, "--runs", "runs", "program.py", "a b")
    assert (done.returncode, done.stdout) == (3, "in slurm a b\n")
    words = (tmp_path / "srun.words").read_text()
    assert words.startswith("--nodes=1 --exclusive ")
    assert "-m injector run --no-monitor --runs runs program.py a b" in words
    assert len(list(tmp_path.glob("runs/program.*/run.json"))) == 1


def test_over_ssh_a_missing_rsync_is_named(tmp_path, inject, there):
    environ = {**there, "PATH": str(tmp_path / "bin")}
    options = ["--engine", "ssh", "--engine-option", "host=gone"]
    done = ran(inject, tmp_path, environ, *options, "program.py")
    assert done.returncode == 2 and "gone: there is no command rsync here" in done.stderr


def test_over_ssh_output_exit_code_and_record_are_as_here(tmp_path, inject, there):
    options = ["--engine", "ssh", "--engine-option", "host=me@a", "--engine-option", "port=23"]
    done = ran(inject, tmp_path, there, *options, "--runs", "runs", "program.py", "a b")
    assert (done.returncode, done.stdout) == (3, "in ssh a b\n"), done.stderr
    assert set((tmp_path / "ssh.hosts").read_text().split()) == {"me@a"}
    [run] = tmp_path.glob("runs/program.*")
    assert (run / "run.json").exists() and not (run / ".pid").exists()


def test_over_ssh_a_signal_reaches_the_program(tmp_path, inject, there):
    words = [*inject, "run", "-q", "--no-monitor", "--engine", "ssh", "--engine-option", "host=a"]
    process = subprocess.Popen(
        [*words, "--into", "r", "program.py"],
        cwd=tmp_path, env={**there, "SECONDS": "600"}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "in ssh\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM
    assert (tmp_path / "r/run.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--engine ssh needs --engine-option host=[USER@]HOST"),
        (["host=a", "prot=1"], "--engine-option prot: over ssh there are host, port and sshkey"),
        (["host=a", "port=x"], "port: a number between 1 and 65535, not 'x'"),
        pytest.param(
            ["host=gone"],
            "gone: ssh: connect to host gone: No route to host",
            marks=pytest.mark.skipif(shutil.which("rsync") is None, reason="needs rsync"),
        ),
    ],
)
def test_over_ssh_what_is_wrong_is_named(tmp_path, inject, there, options, message):
    words = [word for option in options for word in ("--engine-option", option)]
    done = ran(inject, tmp_path, there, "--engine", "ssh", *words, "program.py")
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert not list(tmp_path.glob(".inject/runs/*"))
