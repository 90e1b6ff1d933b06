"""``inject run --flops``: runs the program once more for a few steps, in which PyTorch counts operations."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from injector.analysis.flops import counted
from injector.launch.command import Command
from injector.store.folder import is_run, open_run
from injector.suite.environments.commands import CommandFailed, call, tail
from injector.suite.environments.folders import base_of
from injector.suite.results.peaks import peak_of
from injector.voirfiles import _flops

LONGER, MORE = 2.0, 120.0
"""The second run, which counting slows, may take so many times as long as the first, and seconds on top."""


def count_flops(
    command: Command, python: Sequence[str], seconds: float, info: Mapping[str, Any]
) -> dict[str, Any]:
    """Return ``flops`` of run.json: the counts of each rank and their loop, or ``why`` there are none, and a
    device's peak FLOP/s.

    ``python`` holds the interpreter's own options. ``seconds`` is how long the measured run took, ``info``
    what its run.json holds.
    """
    flops = _counted(command, python, seconds)
    if command.peak is not None:
        return {**flops, "peak": command.peak}
    return (
        {**flops, **peak_of(str(base_of(None)), info, flops)} if flops.get("precisions") else flops
    )


def _counted(command: Command, python: Sequence[str], seconds: float) -> dict[str, Any]:
    """Run the program again, into a temporary folder, and read the counts from that run."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = str(Path(scratch) / "run")
        limit = command.limits.get("--timeout", LONGER * seconds + MORE)
        options = ["--stop", str(_flops.STEPS), "--timeout", f"{limit:.3f}", "--into", folder]
        again = command.again([*options, "--voirfile", _flops.__file__])
        failure = ""
        try:
            call([sys.executable, *python, "-m", "injector", "run", *again])
        except CommandFailed as error:
            last = tail(error.tail, 1).strip()
            failure = f"its second run failed with exit code {error.code}" + (last and f": {last}")
        except KeyboardInterrupt:
            failure = "its second run was interrupted"
        if not is_run(folder):
            return {"why": failure or "its second run left no record"}
        return counted(open_run(folder), _flops.TAG, failure)
