"""What the program raises while a hook runs is the program's."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PRELUDE = """
import builtins, functools, os, signal, sys
from injector.probe.points import define

def handler(value):
    if value == 3:
        os.kill(os.getpid(), signal.SIGUSR1)
        for _ in range(10**9):  # the signal comes at one of the next lines
            pass

define("injector:1", handler)
hook = lambda value: vars(builtins)["injector:1"](value)
"""


def run(program, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PRELUDE + textwrap.dedent(program))
    return subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        env={"PYTHONPATH": str(ROOT)},
    )


HANDLERS = {
    "a lambda": "told = lambda *_: sys.exit(5)",
    "a function": """
        def told(number, frame):
            leave()
        def leave():
            sys.exit(5)
        """,
    "a method": """
        class Killer:
            def told(self, number, frame):
                sys.exit(5)
        told = Killer().told
        """,
    "a callable": """
        class Killer:
            def __call__(self, number, frame):
                sys.exit(5)
        told = Killer()
        """,
    "a partial": """
        def leave(code, number, frame):
            sys.exit(code)
        told = functools.partial(leave, 5)
        """,
    "one that resets itself": """
        def told(number, frame):
            signal.signal(number, signal.SIG_DFL)
            sys.exit(5)
        """,
}


@pytest.mark.parametrize("kind", HANDLERS)
def test_a_signal_handler_may_end_the_program(kind, tmp_path):
    program = textwrap.dedent(HANDLERS[kind]) + textwrap.dedent(
        """
        signal.signal(signal.SIGUSR1, told)
        try:
            for number in range(10):
                hook(number)
                print(number)
        finally:
            print("finally")
        """
    )
    done = run(program, tmp_path)
    assert (done.returncode, done.stderr) == (5, "")
    assert done.stdout.split() == ["0", "1", "2", "finally"]


def test_an_alarm_may_be_caught(tmp_path):
    done = run(
        """
        def told(number, frame):
            raise TimeoutError("too long")
        signal.signal(signal.SIGUSR1, told)
        try:
            hook(3)
        except TimeoutError as error:
            print("caught", error)
        hook(4)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "caught too long\n"


def test_mistakes_of_handlers_stay_ours(tmp_path):
    done = run(
        """
        def wrong(value):
            raise ValueError
        define("injector:1", wrong)
        print(hook(3))
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
