"""``inject run --container``: with a double of each engine, which records its words and runs what is in them;
and with docker and podman themselves, where they run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from engine_doubles import ENGINES, IMAGE, calls, make_doubles

from injector.errors import UserError
from injector.launch.command import split
from injector.run.contained import parse

PROGRAM = """\
import os, signal, sys, time

known = [os.environ.get(name) for name in ("GIVEN", "HOME", "XDG_RUNTIME_DIR")]
print(os.getcwd(), sys.stdin.read(), *known)
print("ready", flush=True)
if "wait" in sys.argv:
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        sys.exit(9)
if "die" in sys.argv:
    os.kill(os.getpid(), signal.SIGSEGV)
sys.exit(3)
"""


@pytest.fixture
def doubles(tmp_path, environ):
    """A folder to work in, and an environment whose PATH has doubles of all engines and nothing else."""
    bin, work = tmp_path / "bin", tmp_path / "work"
    make_doubles(bin)
    work.mkdir()
    (work / "program.py").write_text(PROGRAM)
    made = {**environ, "PATH": str(bin), "GIVEN": "a,b c", "XDG_RUNTIME_DIR": "y"}
    del made["INJECT_RUNS"]
    return work, made


def ran(inject, work, environ, *words, **more):
    return subprocess.run(
        [*inject, "run", *words],
        cwd=work,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        **{"input": "text", **more},
    )


def record(work):
    [path] = work.glob(".inject/runs/*/run.json")
    return json.loads(path.read_text())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_program_in_a_container(doubles, inject, engine):
    work, environ = doubles
    done = ran(
        inject, work, environ, "--container", IMAGE, "--container-engine", engine, "program.py"
    )
    assert done.stdout == f"{work} text a,b c /tmp None\nready\n"
    assert done.returncode == 3 and "exit 3" in done.stderr
    info = record(work)
    assert info["exit"]["code"] == 3 and info["tags"] == {"container": IMAGE}
    assert info["name"] == "program"
    words = calls(work.parent / "bin", engine)[-1]
    assert f"{work}:{work}" in words
    [folder] = work.glob(".inject/runs/program.*")
    after = words[words.index("inject") :]
    tag = ["--tag", f"container={IMAGE}"]
    assert after == ["inject", "run", "--into", str(folder), *tag, "program.py"]


def test_its_death_by_a_signal_is_ours(doubles, inject):
    work, environ = doubles
    assert ran(inject, work, environ, "--container", IMAGE, "program.py", "die").returncode == -11
    assert record(work)["exit"]["signal"] == 11


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 9), (signal.SIGTERM, -15)])
def test_signals_reach_the_program(doubles, inject, number, code):
    work, environ = doubles
    words = [*inject, "run", "-q", "--container", IMAGE, "program.py", "wait"]
    started = subprocess.Popen(
        words, cwd=work, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert started.stdout.readline() and started.stdout.readline() == b"ready\n"
    started.send_signal(number)
    started.communicate(timeout=60)
    assert started.returncode == code
    assert record(work)["interrupted"]["signal"] == number


def test_without_a_container(doubles, inject):
    work, environ = doubles
    words = ["--container", IMAGE, "--container-engine", "none", "--container-mount", "/data"]
    done = ran(inject, work, environ, *words, "program.py")
    assert done.returncode == 3 and str(environ["HOME"]) in done.stdout
    assert record(work)["tags"] == {} and not list(work.parent.glob("bin/*.jsonl"))


def test_an_image_without_an_engine(doubles, inject):
    work, environ = doubles
    done = ran(inject, work, {**environ, "PATH": "/nowhere"}, "--container", IMAGE, "program.py")
    assert done.returncode == 2 and not (work / ".inject").exists()
    assert "install docker, podman or apptainer, or run without a container" in done.stderr


def test_an_image_without_inject(doubles, inject):
    work, environ = doubles
    double = work.parent / "bin" / "podman"
    double.write_text("#!/bin/sh\necho no inject in PATH >&2\nexit 127\n")
    words = ["--container", IMAGE, "--container-engine", "podman", "program.py"]
    done = ran(inject, work, environ, *words)
    assert done.returncode == 127 and f"{IMAGE} needs injector installed in it" in done.stderr
    assert not list(work.glob(".inject/runs/*"))


def test_an_image_that_is_pulled_first(doubles, inject):
    work, environ = doubles
    words = [f"--container={IMAGE}", "--container-engine=podman", "--container-pull", "program.py"]
    done = ran(inject, work, environ, *words)
    assert (
        f"pulled pull {IMAGE}" in done.stderr
        and "pulled pull" not in done.stdout
        and done.returncode == 3
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--container-engine", "docker", "x.py"], "are for --container IMAGE"),
        (["--container"], "--container needs a value"),
        (["--container=", "x.py"], "--container needs a value"),
    ],
)
def test_what_is_refused(words, problem):
    with pytest.raises(UserError, match=problem):
        parse(words)


def test_words_of_a_program_stay_its_own(tmp_path):
    ours, name = ["-q", "--skip", "2"], "--name=n"
    program = ["x.py", "--container", "j", "--runs", "r"]
    found = parse([*ours, "--container", "i", name, "--into", "f", *program])
    assert found.image == "i" and found.value("--into") == "f"
    assert found.words_inside == [*ours, name, *program]
    assert found.words_outside == [*ours, name, "--into", "f", *program]
    assert not parse(["x.py", "--container", "j"]).is_wanted


def test_after_the_options_of_voirfiles():
    words = ["--theirs", "2", "--container", IMAGE, "x.py"]
    assert not parse(words).is_wanted
    with pytest.raises(UserError, match="--container is to stand before the options of voirfiles"):
        split(words, lambda command: {"--theirs": None})


# --- engines themselves -----------------------------------------------------------------------------


def runs(engine):
    """Whether containers can be run here, be it of an image that is not there."""
    if shutil.which(engine) is None:
        return False
    words = [engine, "info"]
    return subprocess.run(words, capture_output=True, timeout=60).returncode == 0


@pytest.fixture(scope="module", params=["docker", "podman"])
def engine(request, tmp_path_factory):
    """An engine with an image that holds nothing: it is shown this machine's Python."""
    name = request.param
    if not runs(name):
        pytest.skip(f"needs {name} and what it wants to run (a daemon, rights)")
    folder = tmp_path_factory.mktemp("image")
    subprocess.run(["tar", "-cf", folder / "empty.tar", "-T", os.devnull], check=True)
    path = os.pathsep.join([os.path.dirname(sys.executable), "/usr/bin", "/bin"])
    words = [
        name,
        "import",
        "--change",
        f"ENV PATH={path}",
        str(folder / "empty.tar"),
        "inject-test",
    ]
    subprocess.run(words, check=True, capture_output=True)
    yield name
    subprocess.run([name, "rmi", "--force", "inject-test"], capture_output=True)


def in_container(engine):
    """Words that run something in a container of the empty image."""
    import injector

    words = ["--container", "inject-test", "--container-engine", engine]
    home = os.path.dirname(os.path.dirname(injector.__file__))
    shown = {"/usr", "/lib", "/lib64", "/bin", sys.prefix, sys.base_prefix, home}
    for folder in sorted(filter(os.path.exists, shown)):
        words += ["--container-mount", f"{folder}:ro"]
    return words


@pytest.fixture
def work(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path, {**os.environ, "GIVEN": "a,b c", "XDG_RUNTIME_DIR": "y"}


@pytest.mark.release
def test_a_program_in_a_real_container(engine, work, inject):
    folder, environ = work
    done = ran(inject, folder, environ, *in_container(engine), "program.py")
    assert done.stdout == f"{folder} text a,b c /tmp None\nready\n", done.stderr
    assert done.returncode == 3 and "exit 3" in done.stderr
    info = record(folder)
    assert info["exit"]["code"] == 3 and info["tags"] == {"container": "inject-test"}
    assert info["host"] == os.uname().nodename
    assert os.stat(folder / ".inject").st_uid == os.geteuid()


@pytest.mark.release
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 9), (signal.SIGTERM, -15), (signal.SIGKILL, -9)]
)
def test_the_end_of_a_real_container(engine, work, inject, number, code):
    folder, environ = work
    words = [*inject, "run", "-q", "--name", "ended", *in_container(engine), "program.py", "wait"]
    started = subprocess.Popen(
        words, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert started.stdout.readline() and started.stdout.readline() == b"ready\n"
    name = f"inject-{started.pid}-"
    if number == signal.SIGKILL:  # of the engine's client alone: its container is not left behind
        [client] = subprocess.run(
            ["pgrep", "-f", f"^[^ ]*{engine} run .*--name {name}"], capture_output=True, text=True
        ).stdout.split()
        os.kill(int(client), number)
    else:
        started.send_signal(number)
    started.communicate(timeout=60)
    assert started.returncode == code
    until = time.monotonic() + 30
    listed = [engine, "ps", "--all", "--quiet", "--filter", f"name={name}"]
    while subprocess.run(listed, capture_output=True).stdout and time.monotonic() < until:
        time.sleep(0.1)
    assert not subprocess.run(listed, capture_output=True).stdout


@pytest.mark.release
def test_a_real_image_that_is_not_there(engine, work, inject):
    folder, environ = work
    words = ["--container", "localhost:1/no/such", "--container-engine", engine, "program.py"]
    done = ran(inject, folder, environ, *words)
    assert done.returncode == 125 and "localhost:1" in done.stderr
    assert not list(folder.glob(".inject/runs/*"))
