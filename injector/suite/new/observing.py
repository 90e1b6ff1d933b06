"""Brief runs of a program, which show the loops that it trains in."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ...analysis.profiling import profile
from ...analysis.training_loop import TrainingLoop
from ...store.folder import is_run, open_run
from ..environments.commands import CommandFailed, Failed, call, tail
from .fetching import Fetched

SKIP, STOP = 5, 60
"""Steps that a benchmark leaves out first, and steps that it measures, if the program makes as many."""
STEPS = SKIP + STOP
"""Training steps after which the program is ended."""


@dataclass(frozen=True)
class ObservedRun:
    """What a run of the program showed."""

    loops: tuple[TrainingLoop, ...] = ()
    """The loops that it trained in, the one of most steps first."""
    libraries: tuple[str, ...] = ()
    """Libraries that it imported and for which a voirfile is shipped."""
    fired: frozenset[str] = frozenset()
    """The selectors of probes that fired."""
    steps: int = STEPS
    """The steps of its longest loop, if it ended by itself before it made more."""


def observe(fetched: Fetched, seconds: int, voirfile: str | None = None) -> ObservedRun:
    """Run the program for a few steps and at most ``seconds``, with the text of a ``voirfile``, if given.

    Neither its processes nor its record remain. Raises Failed if it failed before a training loop was seen.
    """
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        words = ["--quiet", "--no-monitor", "--into", str(run)]
        if voirfile is None:
            words += ["--no-voirfile"]
        else:
            (Path(scratch) / "voirfile.py").write_text(voirfile, encoding="utf-8")
            words += ["--voirfile", str(Path(scratch) / "voirfile.py")]
        words += ["--stop", str(STEPS), "--timeout", str(seconds), "--grace", "3"]
        failure: CommandFailed | None = None
        try:
            inject(["run", *words, *fetched.target.command()], fetched)
        except CommandFailed as error:
            failure = error
        recorded = open_run(str(run)) if is_run(str(run)) else None
        profiled = profile(recorded) if recorded is not None and recorded.info else None
    info = recorded.info if recorded is not None else {}
    loops = profiled.loops if profiled is not None else ()
    if failure is not None and not loops:
        raise Failed(_failure(failure, seconds, bool(info.get("timed_out"))))
    most = max((loop.steps for loop in loops), default=0)
    return ObservedRun(
        tuple(sorted(loops, key=lambda loop: -loop.steps)),
        tuple(sorted({each["library"] for each in info.get("automatic") or ()})),
        frozenset(probe["selector"] for probe in info.get("probes") or () if probe["fired"]),
        min(most, STEPS) if most and failure is None else STEPS,
    )


def _failure(failure: CommandFailed, seconds: int, timed_out: bool) -> str:
    """Why no training loop was seen, with the last lines that the program printed."""
    if timed_out:
        return f"no training step was seen within {seconds} s (--try-for allows more)"
    printed = tail(failure.tail, 12)
    return f"the program ended with exit code {failure.code}" + (f"\n{printed}" if printed else "")


def inject(words: list[str], fetched: Fetched | None = None) -> str:
    """Run the command ``inject WORDS``, in the folder and with the modules of ``fetched``; what it prints.

    Raises CommandFailed if its exit code is not 0.
    """
    environ = {name: value for name, value in os.environ.items() if name != "VOIRFILE"}
    environ["PYTHONDONTWRITEBYTECODE"] = "1"
    if fetched is not None:
        for name, folders in (("PYTHONPATH", fetched.roots), ("PATH", fetched.commands)):
            kept = [environ[name]] if environ.get(name) else []
            environ[name] = os.pathsep.join([*map(str, folders), *kept])
    folder = fetched.working_folder if fetched is not None else None
    return call([sys.executable, "-m", "injector", *words], folder=folder, environ=environ)


def shipped_libraries() -> set[str]:
    """The libraries for which a voirfile is shipped."""
    listed = json.loads(inject(["voirfiles", "--json"]))
    return {library for each in listed for library in each["libraries"]}
