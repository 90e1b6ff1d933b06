"""Which children boot, and what they and all others see."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from injector.launch import environment
from injector.launch.environment import SITE, pythonpath, starts_python


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    texts = {
        "entry": f"#!{sys.executable}\n",
        "shell": "#!/bin/bash -e\n",
        "perl": "#!/usr/bin/perl\n",
        "data": "python",
        "empty": "",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return str(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ["python"],
        ["/usr/bin/python3.12", "x"],
        ["pypy3"],
        ["python3.13t", "-X", "dev", "x.py"],
        [sys.executable, "-c", "1"],
        [b"python3", b"x"],
        ["python", "-m", "x", "-I"],
        ["python", "-c", "import S"],
        ["python", "-W", "I", "x.py"],
        ["python", "-WI", "x.py"],
        ["python", "x.py", "-I"],
        ["env", "A=1", "python", "x.py"],
        ["nice", "-n", "5", "python"],
        ["/bin/sh", "-c", "cd x && python train.py > log"],
        ["sh", "-c", "FOO='a b' python3 -u x"],
        ["sh", "-c", "(python)"],
        ["entry"],
        ["entry", "a"],
        ["./entry"],
        ["shell"],
        ["mpirun", "-n", "2", "./entry"],
        ["bash", "run.sh"],
        ["anything", "x.py"],
    ],
)
def test_these_start_python(scripts, words):
    assert starts_python(words, scripts)


@pytest.mark.parametrize(
    "words",
    [
        [],
        [""],
        ["env"],
        ["ls", "-l"],
        ["pythonic"],
        ["python-config"],
        ["grep", "-r", "pythonic"],
        ["sh", "-c", "env | sort"],
        ["python", "-I", "x.py"],
        ["python", "-sE", "x.py"],
        ["python", "-X", "dev", "-S", "x.py"],
        ["python", "-c", "from multiprocessing.resource_tracker import main;main(5)"],
        ["perl"],
        ["cat", "data"],
        ["empty"],
        ["./missing"],
        [None, 3],
        ["a\0b"],
        ["x" * 10_000],
    ],
)
def test_these_do_not(scripts, words):
    assert not starts_python(words, scripts)


def test_a_fifo_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert not starts_python(["cat", str(tmp_path / "fifo")])


@pytest.mark.parametrize("original", [None, "", "a", ":a", "a::b"])
def test_pythonpath_comes_back(original, environ):
    """Whatever it was, a child that has booted finds it as it was."""
    given = {**environ, "INJECT_BOOT": SETTINGS, "PYTHONPATH": pythonpath(original)}
    code = "import os, sys; print(repr(os.environ.get('PYTHONPATH')), 'INJECT_BOOT' in os.environ)"
    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{original!r} False\n", "")


SETTINGS = '{"home": "", "run": null, "voirfiles": [], "configs": [], "options": []}'


def booted(environ, code, **more):
    given = {**environ, "INJECT_BOOT": SETTINGS, "PYTHONPATH": SITE, **more}
    return subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True)


PROBE = "import sys; print('injector.launch.boot' in sys.modules)"

STARTS = {
    "run": "subprocess.run([sys.executable, '-c', probe])",
    "env": "subprocess.run([sys.executable, '-c', probe], env={'PATH': '/bin'})",
    "empty env": "subprocess.run([sys.executable, '-c', probe], env={})",
    "executable": "subprocess.run(['x', '-c', probe], executable=sys.executable)",
    "posix_spawn": "subprocess.run([sys.executable, '-c', probe], close_fds=False)",
    "shell": "subprocess.run(f'{sys.executable} -c \"{probe}\"', shell=True)",
    "system": "os.system(f'{sys.executable} -c \"{probe}\"')",
    "popen": "print(os.popen(f'{sys.executable} -c \"{probe}\"').read(), end='')",
    "execv": "os.execv(sys.executable, ['python', '-c', probe])",
    "execve": "os.execve(sys.executable, ['x', '-c', probe], {b'A': b'1'})",
    "execlp": "os.execlp(sys.executable, sys.executable, '-c', probe)",
    "spawnve": "os.spawnve(os.P_WAIT, sys.executable, ['p', '-c', probe], dict(os.environ))",
    "spawn": "os.waitpid(os.posix_spawn(sys.executable, ['p', '-c', probe], os.environ), 0)",
    "grandchild": "subprocess.run([sys.executable, '-c', 'import subprocess, sys; "
    'subprocess.run([sys.executable, "-c", sys.argv[1]])\', probe])',
    "fork": "os.fork() or os.execv(sys.executable, ['p', '-c', probe]); os.wait()",
}


@pytest.mark.parametrize("how", STARTS)
def test_python_children_boot(how, environ):
    code = f"import os, subprocess, sys\nprobe = {PROBE!r}\nsys.stdout.flush()\n{STARTS[how]}"
    done = booted(environ, code)
    assert (done.stdout, done.stderr) == ("True\n", "")


CLEAN = {
    "run": "subprocess.run(['env'])",
    "after failing": "\ntry: os.execv('/none/python', ['python'])\nexcept OSError: os.system('env')",
    "after system": "os.system('true python'); os.system('env')",
    "after inheriting": "subprocess.run([sys.executable, '-c', '']); os.system('env')",
    "execve": "os.execve('/usr/bin/env', ['env'], os.environ)",
    "isolated": "subprocess.run([sys.executable, '-I', '-c', 'import os; print(os.environ)'])",
    "c": "import ctypes; print(ctypes.CDLL(None).getenv(b'INJECT_BOOT'))",
}


@pytest.mark.parametrize("how", CLEAN)
def test_others_see_nothing(how, environ):
    done = booted(environ, f"import os, subprocess, sys\n{CLEAN[how]}")
    assert done.stdout and not done.stderr and not done.returncode
    assert "INJECT_BOOT" not in done.stdout and SITE not in done.stdout


def test_an_inject_below_goes_first(environ):
    """A child that is given a boot of its own keeps it."""
    mine = SETTINGS.replace('"home": ""', '"home": "mine"')
    show = "import os; print(open('/proc/self/environ').read().count('mine'))"
    code = (
        "import os, subprocess, sys\n"
        f"env = {{**os.environ, 'INJECT_BOOT': {mine!r}, 'PYTHONPATH': {SITE!r}}}\n"
        f"subprocess.run([sys.executable, '-c', {show!r}], env=env)"
    )
    assert booted(environ, code).stdout == "1\n"


def test_replaced_functions_look_like_themselves(environ):
    code = """
import copy, inspect, os, pickle, posix
for name in ("system", "execv", "execve", "posix_spawn"):
    function = getattr(os, name)
    assert function is getattr(posix, name)
    assert pickle.loads(pickle.dumps(function)) is function and copy.copy(function) is function
    assert repr(function) == f"<built-in function {name}>" and function.__name__ == name
    assert function.__doc__ and callable(function)
assert str(inspect.signature(os.execve)) == "(path, argv, env)"
print("fine")
"""
    done = booted(environ, code)
    assert (done.stdout, done.stderr) == ("fine\n", "")


def test_threads_start_children_at_once(environ):
    code = f"""
import os, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
def start(number):
    command = [sys.executable, "-c", {PROBE!r}] if number % 2 else ["env"]
    return subprocess.run(command, capture_output=True, text=True, env=dict(os.environ)).stdout
with ThreadPoolExecutor(4) as pool:
    for number, text in enumerate(pool.map(start, range(12))):
        assert text == "True\\n" if number % 2 else "INJECT_BOOT" not in text, text
"""
    done = booted(environ, code)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interpreter_that_we_cannot_run_in_is_left_alone(environ, tmp_path):
    """sitecustomize is imported by old Pythons as well: they must be able to read it."""
    text = (Path(SITE) / "sitecustomize.py").read_text()
    for newer in ('f"', ":=", "->", "nonlocal", "match "):
        assert newer not in text


@pytest.mark.parametrize("locks", [True, False])
def test_an_interpreter_that_runs_without_its_lock_is_left_alone(environ, tmp_path, locks):
    (tmp_path / "sitecustomize.py").write_text("")
    code = f"import sys; sys.abiflags = 't'; sys._is_gil_enabled = lambda: {locks}; import sitecustomize"
    given = environment.variables(SETTINGS, str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"{code}\nprint('injector' in sys.modules)"],
        env={**environ, **given},
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{locks}\n", done.stderr


def test_the_users_own_sitecustomize_runs(environ, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import os; print('mine', len(os.environ) > 0)")
    given = environment.variables(SETTINGS, str(tmp_path))
    code = "import sitecustomize; print(sitecustomize.__file__)"
    done = booted(environ, code, **given)
    assert done.stdout == f"mine True\n{tmp_path}/sitecustomize.py\n"
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('theirs')")
    failing = booted(environ, "print(1)", **given)
    plain = subprocess.run(
        [sys.executable, "-c", "print(1)"],
        env={**environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (failing.stdout, failing.stderr) == (plain.stdout, plain.stderr)
