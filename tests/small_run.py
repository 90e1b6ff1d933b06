"""A program of ten steps, and a voirfile that records them: for tests of what reads runs."""

from __future__ import annotations

import os
import subprocess
import sys

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


def inject(folder, *words, **environment):
    """``inject`` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "injector", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **environment},
    )
