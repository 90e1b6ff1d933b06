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
from injector.suite.results.peaks import newest_peak
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
    return {**found, **_peak(found, info)} if found.get("precisions") else found


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


def _peak(found: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
    """Of the precision in which most of the operations were."""
    precisions: dict[str, int] = found["precisions"]
    precision = max(precisions, key=lambda name: precisions[name])
    base = str(base_of(None))
    peak = newest_peak(base, info, found["device"], precision)
    if peak is None:
        return {
            "no_peak": f"no suite below {base} has multiplied matrices in {precision} on this machine: "
            f"`inject suite run synthetic --select {precision} --use-current-env` does, or --peak-flops "
            "names the FLOP/s of one device at best"
        }
    part = precisions[precision] / sum(precisions.values())
    note = f", in which {part:.0%} of the FLOPs are" if part < 0.995 else ""
    return {"peak": peak.flops, "peak_from": peak.source + note}
