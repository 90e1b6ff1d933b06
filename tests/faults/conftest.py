"""Runs that something happens to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "launch"))

from supervised import belong

from .faulty import PATIENCE, ROOT, STEPS, VOIRFILE, Run, report


class Launched:
    """A run under way: ``next_line()`` is the next line that the program prints, in words."""

    def __init__(self, process, runs, environ):
        self.process = process
        self.runs = runs
        self.environ = environ
        self.lines = []
        self.killed = False

    def next_line(self):
        self.lines.append(self.process.stdout.readline())
        return self.lines[-1].split()

    def left(self):
        """The processes of this run that are there."""
        return belong(f"LAUNCHED_BY_TEST={self.environ['LAUNCHED_BY_TEST']}")

    def over(self):
        """Wait for the end; nothing may be left running, and the record must be readable."""
        out, err = self.process.communicate(timeout=PATIENCE)
        if not self.killed:  # who is killed can see nobody off
            assert self.left() == []
        folders = sorted(self.runs.glob("*"))
        folder = folders[-1] if folders else None
        done = subprocess.CompletedProcess(
            (), self.process.returncode, "".join(self.lines) + out, err
        )
        if folder is not None:
            report(folder, self.environ)
        return Run(done, folder)


@pytest.fixture
def launch(tmp_path):
    """Start the text of a program, after STEPS, under inject."""
    started = []

    def go(
        program,
        *options,
        voirfile=VOIRFILE,
        runs=None,
        before=(),
        process_group_of_its_own=False,
        **settings,
    ):
        if process_group_of_its_own:
            settings["preexec_fn"] = os.setpgrp  # process_group came with Python 3.11
        (tmp_path / "main.py").write_text(STEPS + program)
        (tmp_path / "x.py").write_text(voirfile)
        runs = runs or tmp_path / "runs"
        environ = {"LAUNCHED_BY_TEST": str(uuid.uuid4())}
        words = ["run", "--runs", str(runs), "--voirfile", "x.py", *options, "main.py"]
        process = subprocess.Popen(
            [*before, sys.executable, "-m", "injector", *words],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environ, "PYTHONPATH": str(ROOT)},
            **settings,
        )
        started.append(Launched(process, runs, environ))
        return started[-1]

    yield go
    for launched in started:
        for pid in launched.left():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        launched.process.wait()
        launched.process.stdout.close()
        launched.process.stderr.close()
