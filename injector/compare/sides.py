"""What is compared: the figures of runs by benchmark and loop, of run folders or of a baseline's file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import isfinite
from typing import Any

import numpy as np

from ..analysis.columns import Floats
from ..analysis.loops import edges_of, sums_of
from ..analysis.profile import Blocks, TrainingLoop
from ..analysis.summary import Summary, plain, summarise
from ..analysis.wording import count
from ..bus.readable import collected
from ..errors import UserError
from ..store.folder import Run, is_run, open_run
from ..store.place import replace_file
from ..value_class import replace, value_class
from .work import work_of

SCHEMA = 1
"""Of a baseline's file. 1: the first."""


@value_class
class LoopFigures:
    """One training loop in one run."""

    task: str
    function: str
    """``train.py:main``: the file and the function that it is in."""
    line: int
    steps: int
    items_per_step: float | None
    ranks: int
    blocks: tuple[Blocks, ...]
    """Of each job of ranks: one, unless the run is a study of several."""


@value_class
class RunFigures:
    """What one run is compared by."""

    loops: tuple[LoopFigures, ...]
    """The one that took longest first."""
    totals: Mapping[str, float]
    """One value a run: ``duration`` (seconds), ``memory`` and ``device_memory`` (bytes at most),
    ``energy`` (joules); of a hyper-parameter study ``study`` (seconds) and ``best``, the values of its best
    trial; and by its name the last of each value that a voirfile or the program recorded."""
    work: Mapping[str, str]
    """What was run on what, in words; see :func:`.work.work_of`."""
    missing: tuple[str, ...] = ()
    """What of its record is damaged or lost, as sentences."""
    failed: str = ""
    """How it ended, where it did not end well."""
    crowded: str = ""
    """Which cores other programs had that it could have used, in words."""


@value_class
class Side:
    """One of the things compared."""

    label: str
    benchmarks: Mapping[str, tuple[RunFigures, ...]]
    """By name, its runs."""
    problems: tuple[str, ...] = ()


def of_folder(folder: str) -> Side:
    """Every run in ``folder``: those of one name are repeats of one program.

    Raises UserError where there is none, OSError.
    """
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    found = [("", path) for path in paths if is_run(path)]
    if not found:
        raise UserError(f"{folder}: neither a run, a suite nor a folder of runs")
    name = os.path.basename(os.path.abspath(folder))
    return of_runs(f"{name} ({count(len(found), 'run')})", found)


def of_runs(label: str, found: Sequence[tuple[str, str]], problems: Sequence[str] = ()) -> Side:
    """``found``: the name of each benchmark, where it has one, and the folder of a run of it.

    Raises UserError, OSError.
    """
    with ThreadPoolExecutor(2) as pool:  # columns are worked on without the interpreter's lock
        read = list(pool.map(lambda each: _named_figures(*each), found))
    return Side(label, _by_name(read), tuple(problems))


def _by_name(found: Iterable[tuple[str, RunFigures]]) -> dict[str, tuple[RunFigures, ...]]:
    benchmarks: dict[str, tuple[RunFigures, ...]] = {}
    for name, figures in found:
        benchmarks[name] = (*benchmarks.get(name, ()), figures)
    return benchmarks


def of_rates(label: str, found: Iterable[tuple[str, Sequence[float], RunFigures]]) -> Side:
    """Records that have rates and no steps. A step is one item: more rates do not tell of times.

    ``found``: of each run its benchmark, its items per second, each over as long a time, and all else.
    """
    runs = []
    for benchmark, rates, figures in found:
        kept = np.array([rate for rate in rates if isfinite(rate) and rate > 0])
        loops = (_loop_of_rates(kept),) if len(kept) else ()
        runs.append((benchmark, replace(figures, loops=loops)))
    return Side(label, _by_name(runs))


def _loop_of_rates(rates: Floats) -> LoopFigures:
    edges = edges_of(rates)
    items = tuple(sums_of(rates, edges).tolist())
    seconds = tuple(np.diff(edges, append=len(rates)).astype(float).tolist())
    return LoopFigures("train", "", 0, len(rates), 1, 1, (Blocks(items, seconds, items, None, {}),))


def _named_figures(name: str, path: str) -> tuple[str, RunFigures]:
    with collected(open_run(path)) as run:
        summary = summarise(run)
        return name or summary.title, figures_of(run, summary)


def figures_of(run: Run, summary: Summary) -> RunFigures:
    """Of a run that was opened, and of its summary."""
    loops = summary.profile.loops if summary.profile else ()
    return RunFigures(
        loops=_loops(loops),
        totals=_totals(run, summary),
        work=work_of(run, summary),
        missing=summary.missing,
        failed=_failed(summary),
        crowded="; ".join(each.crowded for each in summary.machines if each.crowded),
    )


def _failed(summary: Summary) -> str:
    ended = summary.exit or {}
    if summary.timed_out:
        return "it was ended by its time limit"
    if ended.get("signal"):
        return f"it was killed by signal {ended['signal']}"
    return f"it ended with exit code {ended['code']}" if ended.get("code") else ""


def _loops(loops: Sequence[TrainingLoop]) -> tuple[LoopFigures, ...]:
    """The loops of several jobs at one line are one, with the blocks of each."""
    found: dict[tuple[str, str, int], list[TrainingLoop]] = {}
    for loop in loops:
        at = loop.place
        where = (f"{os.path.basename(at.file)}:{at.function}", at.line) if at else ("", 0)
        found.setdefault((loop.task, *where), []).append(loop)
    return tuple(
        LoopFigures(
            task=task,
            function=function,
            line=line,
            steps=max(loop.steps for loop in same),
            items_per_step=same[0].items_per_step,
            ranks=len(same[0].ranks),
            blocks=tuple(loop.blocks for loop in same if loop.blocks),
        )
        for (task, function, line), same in found.items()
    )


def _totals(run: Run, summary: Summary) -> dict[str, float]:
    devices = [device for machine in summary.machines for device in machine.devices]
    known = {
        "duration": summary.duration,
        "memory": sum(m.peak_rss for m in summary.machines) or run.info.get("peak_rss"),
        "device_memory": max((d.peak_memory for d in devices if d.peak_memory), default=None),
        "energy": sum(m.energy for m in summary.machines if m.energy is not None) or None,
    }
    studies = summary.profile.studies if summary.profile else ()
    recorded = {
        each.name: float(each.last)
        for each in summary.summary.series
        if isinstance(each.last, (int, float))
        and each.name not in known
        # What the last trial came to says nothing of its study.
        and not (studies and each.task == "trial")
    }
    for at, study in enumerate(studies):
        again = f" {at + 1}" if at else ""
        known[f"study{again}"] = study.seconds
        best = study.best_trial
        for name, value in best.values.items() if best else ():
            if isfinite(value):
                recorded[" ".join(filter(None, (f"best{again}", name)))] = value
    return {**recorded, **{name: float(value) for name, value in known.items() if value}}


# --- a file to keep in a repository -----------------------------------------------------------------


def save(path: str, side: Side) -> None:
    """Write ``side`` as a baseline: JSON of some kilobytes a run. Raises UserError."""
    benchmarks = {
        name: [plain(run) for run in runs] for name, runs in sorted(side.benchmarks.items())
    }
    data = {
        "schema": SCHEMA,
        "what": "a baseline of inject compare",
        "saved": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "label": side.label,
        "benchmarks": _rounded(benchmarks),
    }
    try:
        replace_file(os.path.realpath(path), [json.dumps(data, indent=1).encode() + b"\n"])
    except OSError as error:
        raise UserError(f"--save-baseline {path}: {error.strerror or error}") from None


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, (list, tuple)) else value


def load(path: str) -> Side:
    """The baseline that :func:`save` wrote. Raises UserError where the file is none."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UserError(f"{path}: no baseline of inject compare: {error}") from None
    if not isinstance(data, dict) or "benchmarks" not in data or "schema" not in data:
        raise UserError(f"{path}: no baseline of inject compare (`--save-baseline` writes one)")
    if data["schema"] != SCHEMA:
        raise UserError(
            f"{path}: schema {data['schema']}, and this injector reads {SCHEMA}: save it anew, or update"
        )
    try:
        benchmarks = {
            str(name): tuple(_run(each) for each in runs)
            for name, runs in data["benchmarks"].items()
        }
        return Side(str(data.get("label") or os.path.basename(path)), benchmarks)
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: no baseline of inject compare: {error!r}") from None


def _run(data: Mapping[str, Any]) -> RunFigures:
    loops = tuple(
        LoopFigures(**{**each, "blocks": tuple(Blocks(**block) for block in each["blocks"])})
        for each in data["loops"]
    )
    return RunFigures(**{**data, "loops": loops, "missing": tuple(data["missing"])})
