"""Ending a program from inside a hook, however hard it tries to go on."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PRELUDE = """
import builtins, sys
from injector.probe.points import define
from injector.probe.stop import StopProgram

def handler(value):
    if value == 3:
        raise StopProgram

define("injector:1", handler)
hook = lambda value: vars(builtins)["injector:1"](value)
"""


def run(program, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PRELUDE + textwrap.dedent(program))
    return subprocess.run(  # since Python 3.14 the compiler warns of a return in finally
        [sys.executable, "-W", "ignore::SyntaxWarning", str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(ROOT)},
    )


def test_an_uncaught_stop_is_success_and_runs_finally_and_atexit(tmp_path):
    done = run(
        """
        import atexit
        atexit.register(print, "atexit")
        try:
            for number in range(10):
                hook(number)
                print(number)
        finally:
            print("finally")
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["0", "1", "2", "finally", "atexit"]


SWALLOWING = {
    "bare except in a loop": """
        for number in range(100):
            try:
                hook(number)
            except:
                print("swallowed")
        """,
    "bare except with continue": """
        number = 0
        while True:
            try:
                hook(number)
            except:
                number += 1
                continue
            number += 1
        """,
    "retrying for ever": """
        number = 0
        while True:
            try:
                number += 1
                hook(number)
            except:
                pass
        """,
    "BaseException two frames up": """
        def step(number):
            hook(number)
        def epoch():
            for number in range(10):
                step(number)
        def main():
            for _ in range(100):
                try:
                    epoch()
                except BaseException:
                    pass
        main()
        """,
    "suppress": """
        import contextlib
        for number in range(100):
            with contextlib.suppress(BaseException):
                hook(number)
        """,
    "return in finally": """
        def step(number):
            try:
                hook(number)
            finally:
                return
        for number in range(100):
            step(number)
        """,
    "nested handlers at module level": """
        try:
            try:
                hook(3)
            except BaseException:
                pass
            print("after")
        except BaseException:
            pass
        print("after")
        """,
}


@pytest.mark.parametrize("shape", SWALLOWING)
def test_a_swallowed_stop_is_raised_again(shape, tmp_path):
    done = run(textwrap.dedent(SWALLOWING[shape]) + "print('went on')\n", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "went on" not in done.stdout


def test_cleaning_up_may_itself_catch_errors(tmp_path):
    done = run(
        """
        import contextlib
        def clean():
            try:
                {}["x"]
            except KeyError:
                print("caught")
            with contextlib.suppress(ValueError):
                int("x")
            print("cleaned")
        try:
            hook(3)
        except BaseException:
            clean()
            raise
        finally:
            clean()
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["caught", "cleaned"] * 2


def test_with_blocks_are_left_in_order(tmp_path):
    done = run(
        """
        import contextlib
        @contextlib.contextmanager
        def scope(name):
            try:
                yield
            finally:
                print(name)
        with scope("outer"):
            with scope("inner"):
                hook(3)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["inner", "outer"], "")


def test_a_stop_in_a_thread_ends_the_program(tmp_path):
    done = run(
        """
        import threading, time
        def work():
            for number in range(10):
                hook(number)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        for _ in range(1000):
            time.sleep(0.01)
        print("went on")
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_stop_in_a_forked_process_ends_only_that(tmp_path):
    done = run(
        """
        import multiprocessing
        def work():
            try:
                hook(3)
            finally:
                print("finally", flush=True)
        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        process.join()
        print("child", process.exitcode)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["finally", "child 0"]


ENDED = """
import threading
from injector.probe import stop

if {ended}:
    stop.main_ends()
thread = threading.Thread(target=stop._stop_main_thread)
thread.start()
thread.join()
for _ in range(1000):
    pass
print("reached")
"""


@pytest.mark.parametrize("ended", [True, False])
def test_a_thread_stops_the_main_thread_only_while_that_is_in_the_program(ended):
    """What we do at its end is not the program's to be stopped in."""
    words = [sys.executable, "-c", ENDED.format(ended=ended)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("reached\n" if ended else "")


TRACED = """
import sys, threading
from injector.probe import stop

def last():
    print("called")

try:
    thread = threading.Thread(target=stop._stop_main_thread)
    thread.start()
    while True:
        pass
except SystemExit as error:
    stop.stopped_by = error
sys.{by}(lambda *_: None)
stop.main_ends()
last()
"""


@pytest.mark.parametrize("by", ["settrace", "setprofile"])
def test_a_program_that_is_traced_ends_after_the_stop_of_a_thread(by):
    """As under coverage or cProfile."""
    words = [sys.executable, "-c", TRACED.format(by=by)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "called\n", "")
