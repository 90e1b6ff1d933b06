"""Programs under the supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid

import pytest

from .supervised import belong


@pytest.fixture
def start(tmp_path, inject, environ):
    """Start a program under inject, in a process group of its own; wait until it is ready.

    Nothing of what was started is left when the test is over.
    """
    started = []
    mark = f"STARTED_BY_TEST={uuid.uuid4()}"

    def begin(text, *arguments, options=(), before=(), **settings):
        (tmp_path / "main.py").write_text(text)
        process = subprocess.Popen(
            [*before, *inject, "run", "--quiet", *options, "main.py", *arguments],
            cwd=tmp_path,
            env={**environ, **dict([mark.split("=")])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=os.setpgrp,  # process_group came with Python 3.11
            **settings,
        )
        started.append(process)
        process.mark = mark
        message = process.stdout.readline().split()
        process.program = int(message[1]) if message else None
        return process

    yield begin
    for pid in belong(mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    for process in started:
        process.wait()
        process.stdout.close()
        process.stderr.close()


@pytest.fixture
def start_in_time(start):
    """Start a program that is ready before its time is up, however slow the machine is."""

    def begin(text, *arguments, options=(), first=1):
        for seconds in (first, 4 * first, 16 * first, 64 * first):
            process = start(text, *arguments, options=("--timeout", str(seconds), *options))
            if process.program is not None:
                return process
            process.wait()
        raise AssertionError("it never got ready")

    return begin
