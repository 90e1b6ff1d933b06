"""A program of ten steps, and one that searches, with voirfiles: for tests of what reads runs."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

from search_path import search_path

PROGRAM = """
def train(at):
    return inner(at)

def inner(at):
    return at

for at in range(10):
    loss = 10.0 - train(at)
"""
VOIRFILE = """
def instrument_all(ov):
    ov.step("//train", items=4)
    ov.region("//inner", "forward")
    ov.value("// > loss")
"""
# Each argument is a rate that it tries; the one nearest to 0.3 is the best, and above 1 a trial fails.
SEARCH = """
import sys

def train(rate, api_token):
    assert rate <= 1
    return 1 - abs(rate - 0.3)

for word in sys.argv[1:]:
    try:
        train(float(word), "hidden")
    except AssertionError:
        pass
"""
SEARCH_VOIRFILE = """
def instrument_search(ov):
    ov.trial(
        "//train",
        lambda rate, api_token, result: {"rate": rate, "api_token": api_token, "value": result},
        study="grid",
        goal="maximize",
    )
"""


def inject(folder, *words, **environment):
    """``inject`` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "injector", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": search_path(os.environ.get("PYTHONPATH")), **environment},
    )


def inject_here(folder, *words):
    """``inject`` in this process, for what runs no program: what it reads with takes long to import."""
    from injector.cli import main

    out, err, before = io.StringIO(), io.StringIO(), os.getcwd()
    os.chdir(folder)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = main([*words])
            except SystemExit as error:  # argparse
                code = error.code
    finally:
        os.chdir(before)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
