"""``inject run --flops``: runs the program once more for a few steps, in which PyTorch counts operations."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from injector.analysis.flops import counted
from injector.launch.command import Command
from injector.launch.supervisor import Ended
from injector.run.program import python_flags
from injector.store.folder import is_run, open_run
from injector.store.run_json import write_info
from injector.voirfiles import _flops as counting

LONGER, MORE = 2.0, 120.0
"""The second run, which counting slows, may take so many times as long as the first, and seconds on top."""


def add_flops(folder: str, info: dict[str, Any], command: Command, ended: Ended) -> list[str]:
    """Count FLOPs in a second run, and add ``flops`` to ``info``, which is what run.json holds, and to that.

    The measured run is all on disk by then. A program that failed gets no second run. Returns sentences on
    what went wrong with the file.
    """
    if ended.code or ended.timed_out or ended.interrupted:
        info["flops"] = {"why": "the program did not end in order, and was not run once more"}
    else:
        try:
            info["flops"] = _flops(command, ended.ended - ended.started, info)
        except Exception as error:
            info["flops"] = {"why": f"{type(error).__name__}: {error}"}
    try:
        write_info(folder, {key: value for key, value in info.items() if key != "schema"})
    except OSError as error:
        return [f"no FLOPs: {error.strerror}"]
    return []


def _flops(command: Command, seconds: float, info: Mapping[str, Any]) -> dict[str, Any]:
    """The counts of each rank and their loop, or ``why`` there are none, and a device's peak FLOP/s.

    ``seconds`` is how long the measured run took.
    """
    # Here, so that an error of an import is one of the count.
    from injector.suite.environments.folders import base_of
    from injector.suite.results.peaks import peak_of

    flops = _counted(command, python_flags(), seconds)
    if command.peak is not None:
        return {**flops, "peak": command.peak}
    return (
        {**flops, **peak_of(str(base_of(None)), info, flops)} if flops.get("precisions") else flops
    )


def _counted(command: Command, python: Sequence[str], seconds: float) -> dict[str, Any]:
    """Run the program again, into a temporary folder, and read the counts from that run."""
    from injector.suite.environments.commands import CommandFailed, call, tail

    with tempfile.TemporaryDirectory() as scratch:
        folder = str(Path(scratch) / "run")
        limit = command.limits.get("--timeout", LONGER * seconds + MORE)
        options = ["--stop", str(counting.STEPS), "--timeout", f"{limit:.3f}", "--into", folder]
        again = command.again([*options, "--voirfile", counting.__file__])
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
        return counted(open_run(folder), counting.TAG, failure)
