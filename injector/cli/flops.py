"""``inject run --flops``: the program once more, for a few steps, in which PyTorch counts operations."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from injector.analysis.flops import counted
from injector.cli.suite.options import base_of
from injector.launch.command import Command
from injector.store.folder import is_run, open_run
from injector.suite.environments.commands import CommandFailed, call, tail
from injector.suite.results.peaks import peak_of
from injector.voirfiles import _flops

LONGER, MORE = 2.0, 120.0
"""It may take so many times as long as the measured run, and seconds on top: counting is slow."""


def flops(
    command: Command, python: Sequence[str], seconds: float, info: Mapping[str, Any]
) -> dict[str, Any]:
    """``flops`` of run.json: the count by rank and the loop it is of, or ``why`` there is none; the peak.

    ``python`` holds the interpreter's own options, ``seconds`` is how long the measured run took,
    ``info`` its run.json.
    """
    found = _counted(command, python, seconds)
    if command.peak is not None:
        return {**found, "peak": command.peak}
    return (
        {**found, **peak_of(str(base_of(None)), info, found)} if found.get("precisions") else found
    )


def _counted(command: Command, python: Sequence[str], seconds: float) -> dict[str, Any]:
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
