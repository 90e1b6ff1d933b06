"""Asking the command line: where selectors land, what a run goes through, which voirfiles there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...analysis.profiling import profile
from ...store.folder import open_run
from ..environments.commands import Failed, tail
from .proposals import Seen
from .target import Target

STEPS = 4
"""Steps after which a program that is tried is stopped."""


@dataclass(frozen=True)
class Around:
    """What a program is started in."""

    folder: Path
    """The current folder."""
    roots: tuple[Path, ...]
    """Where its modules are looked for before those that are installed."""
    commands: Path | None = None
    """A folder with its commands, where they are not installed."""

    def environ(self) -> dict[str, str]:
        """The variables that say so."""
        path = [*map(str, self.roots), os.environ.get("PYTHONPATH", "")]
        commands = [str(self.commands)] if self.commands is not None else []
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "PATH": os.pathsep.join([*commands, os.environ.get("PATH", os.defpath)]),
        }


def _inject(words: Sequence[str], around: Around | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "injector", *words],
        cwd=around.folder if around else None,
        env=around.environ() if around else None,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )


def shipped() -> dict[str, str]:
    """The libraries for which voirfiles are shipped, with the name of each one's first voirfile."""
    listed = json.loads(_inject(["voirfiles", "--json"]).stdout or "[]")
    return {library: each["name"] for each in reversed(listed) for library in each["libraries"]}


def landing(selectors: Iterable[str], target: Target, around: Around) -> set[str]:
    """Those of ``selectors`` that ``inject check`` finds in the program."""
    wanted = list(selectors)
    with tempfile.TemporaryDirectory() as folder:
        voirfile = Path(folder) / "voirfile.py"
        lines = [f"    ov.probe({selector!r})" for selector in wanted] or ["    pass"]
        voirfile.write_text("\n".join(["def instrument_training(ov):", *lines, ""]))
        words = ["check", "--json", "--voirfile", str(voirfile), *target.command()]
        done = _inject(words, around)
    try:
        probes = json.loads(done.stdout)["probes"]
    except ValueError:
        raise Failed(f"what {target.run} starts cannot be read: {tail(done.stderr)}") from None
    return {wanted[n] for n, probe in enumerate(probes) if not probe["misses"]}


def tried(target: Target, around: Around, seconds: int) -> list[Seen]:
    """Run the program for a few steps; gives the loops that it went through, longest first.

    Raises:
        Failed: it ended badly.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = ["run", "--quiet", "--runs", folder, "--stop", str(STEPS)]
        done = _inject([*words, "--timeout", str(seconds), *target.command()], around)
        runs = sorted(Path(folder).iterdir())
        found = profile(open_run(str(runs[0]))) if runs else None
        loops = found.loops if found is not None else ()
        if done.returncode and not loops:
            told = tail(done.stderr + done.stdout, 12)
            raise Failed(f"tried, it ended with exit code {done.returncode}\n{told}")
        return [
            Seen(
                loop.place.file,
                loop.place.line,
                loop.place.function,
                loop.place.text,
                loop.fetches_per_step,
            )
            for loop in sorted(loops, key=lambda loop: -loop.steps)
            if loop.place is not None
        ]
