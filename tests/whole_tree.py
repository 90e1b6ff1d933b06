"""Commands that are ended with all that they have started, where they take too long."""

from __future__ import annotations

import subprocess
from typing import Any

from injector import reaper


def run(words: list[str], *, timeout: float, **options: Any) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run`` with captured text, which would end ``inject`` alone and leave its program.

    Raises subprocess.TimeoutExpired.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, **pipes, text=True, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:  # and if the test itself is interrupted
            left = reaper.descendants(process.pid)
            process.kill()
            reaper.end_by_force(left)
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)
