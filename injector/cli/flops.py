"""``inject run --flops``: the program once more, for a few steps, in which PyTorch counts operations."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from injector.analysis.profiling import profile
from injector.launch.command import FLAGS, SHORT, VALUED, Command
from injector.store.folder import Run, is_run, open_run
from injector.suite.environments.commands import CommandFailed, call, tail
from injector.voirfiles import _flops

LONGER, MORE = 2.0, 120.0
"""It may take so many times as long as the measured run, and seconds on top: counting is slow."""


def counted(command: Command, python: Sequence[str], seconds: float) -> dict[str, Any]:
    """``flops`` of run.json: the count by rank and the loop it is of, or ``why`` there is none.

    ``python`` holds the interpreter's own options, ``seconds`` is how long the measured run took.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = str(Path(scratch) / "run")
        words = [sys.executable, *python, "-m", "injector", "run", *_options(command, seconds)]
        words += ["--into", folder, "--", *_program(command)]
        failure = ""
        try:
            call(words)
        except CommandFailed as error:
            last = tail(error.tail, 1).strip()
            failure = f"its second run failed with exit code {error.code}" + (last and f": {last}")
        except KeyboardInterrupt:
            failure = "its second run was interrupted"
        if not is_run(folder):
            return {"why": failure or "its second run left no record"}
        return _result(open_run(folder), failure)


def _options(command: Command, seconds: float) -> list[str]:
    """Its voirfiles and what they were given; nothing of ours that is about the measured run."""
    limit = command.limits.get("--timeout", LONGER * seconds + MORE)
    words = ["--quiet", "--no-monitor", "--stop", str(_flops.STEPS), "--timeout", f"{limit:.3f}"]
    for path in (*command.all_voirfiles(), _flops.__file__):
        words += ["--voirfile", path]
    for path in command.configs:
        words += ["--config", path]
    words += [] if command.automatic else ["--no-auto"]
    words += ["--workers"] if "--workers" in command.flags else []
    for option in command.options:
        name = option[0].partition("=")[0]
        if SHORT.get(name, name) not in (*VALUED, *FLAGS):
            words += option
    return words


def _program(command: Command) -> list[str]:
    before = ["-m"] if command.kind in ("module", "function") else []
    return [*before, command.target, *command.arguments]


def _result(run: Run, failure: str) -> dict[str, Any]:
    tags: Mapping[str, str] = run.info.get("tags") or {}
    found = [json.loads(text) for key, text in tags.items() if key.split()[0] == _flops.TAG]
    failed = [each["why"] for each in found if "why" in each]
    if failed:
        return {"why": f"PyTorch's counter failed: {failed[0]}"}
    if not found:
        return {
            "why": failure or f"no {_flops.BEFORE + 1} steps of PyTorch were seen in its second run"
        }
    known = profile(run)
    loop = known.loops[0] if known is not None and len(known.loops) == 1 else None
    return {
        "ranks": [
            {key: each[key] for key in ("rank", "flops")} for each in sorted(found, key=_rank)
        ],
        "compiled": any(each["compiled"] for each in found),
        "task": loop and loop.task,
        "place": loop and loop.place and [loop.place.file, loop.place.line],
    }


def _rank(one: Mapping[str, Any]) -> int:
    return -1 if one["rank"] is None else int(one["rank"])
