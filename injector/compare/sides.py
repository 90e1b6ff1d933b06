"""The sides of a comparison: figures of runs by benchmark and loop, from run folders or a baseline's file."""

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
from ..analysis.step_blocks import edges_of, sums_of
from ..analysis.summary import Summary, summarise
from ..analysis.training_loop import Blocks, TrainingLoop
from ..analysis.wording import count
from ..bus.readable import collected
from ..errors import UserError
from ..exit_status import code_of
from ..json_types import plain
from ..store.folder import Run, is_run, open_run
from ..store.place import replace_file
from ..store.run_json import BrokenRunError
from ..value_class import replace, value_class
from .work import work_of

SCHEMA = 1
"""The version of a baseline's format."""


@value_class
class LoopFigures:
    """One training loop in one run."""

    task: str
    function: str
    """Its file and function: ``train.py:main``."""
    line: int
    steps: int
    items_per_step: float | None
    ranks: int
    blocks: tuple[Blocks, ...]
    """The blocks of each job of ranks: of one, unless the run is a study of several."""


@value_class
class RunFigures:
    """The figures by which one run is compared."""

    loops: tuple[LoopFigures, ...]
    """The one that took longest first."""
    totals: Mapping[str, float]
    """Values of the whole run: ``duration`` (seconds), ``memory`` and ``device_memory`` (bytes at most),
    ``energy`` (joules). Of a hyper-parameter study, ``study`` (seconds) and ``best``, the values of its best
    trial. Of each value that a voirfile or the program recorded, by its name, the last one."""
    work: Mapping[str, str]
    """What was run on what, in words; see :func:`.work.work_of`."""
    missing: tuple[str, ...] = ()
    """What is damaged or lost in its record, as sentences."""
    failed: str = ""
    """How it failed, if so."""
    crowded: str = ""
    """Which cores it could have used that other programs had, in words."""
    job: str = ""
    """The job of a suite that it is a process of; processes of one job run side by side."""


@value_class
class Side:
    """One side of a comparison."""

    label: str
    benchmarks: Mapping[str, tuple[RunFigures, ...]]
    """The runs of each benchmark, by its name."""
    problems: tuple[str, ...] = ()
    """What is wrong with the record as a whole, as sentences."""


def of_folder(folder: str) -> Side:
    """All runs in ``folder``; those of one title are repeats of one program.

    Raises UserError if there is none, and OSError.
    """
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    runs = [("", "", path) for path in paths if is_run(path)]
    if not runs:
        raise UserError(f"{folder}: neither a run, a suite nor a folder of runs")
    name = os.path.basename(os.path.abspath(folder))
    return of_runs(f"{name} ({count(len(runs), 'run')})", runs)


def of_runs(label: str, runs: Sequence[tuple[str, str, str]], problems: Sequence[str] = ()) -> Side:
    """The side of ``runs``, each with the name of its benchmark, or "" for the run's title, job and folder.

    Raises UserError, OSError.
    """
    with ThreadPoolExecutor(2) as pool:  # NumPy releases the interpreter's lock
        figures = list(pool.map(lambda run: _named_figures(*run), runs))
    return Side(label, _by_name(figures), tuple(problems))


def _by_name(runs: Iterable[tuple[str, RunFigures]]) -> dict[str, tuple[RunFigures, ...]]:
    benchmarks: dict[str, tuple[RunFigures, ...]] = {}
    for name, figures in runs:
        benchmarks[name] = (*benchmarks.get(name, ()), figures)
    return benchmarks


def of_rates(label: str, runs: Iterable[tuple[str, Sequence[float], RunFigures]]) -> Side:
    """The side of runs whose records have rates and no steps.

    ``runs`` are, for each, its benchmark, its rates in items per second, all over equally long times, and its
    other figures.
    """
    with_loops = []
    for benchmark, rates, figures in runs:
        usable = np.array([rate for rate in rates if isfinite(rate) and rate > 0])
        loops = (_loop_of_rates(usable),) if len(usable) else ()
        with_loops.append((benchmark, replace(figures, loops=loops)))
    return Side(label, _by_name(with_loops))


def _loop_of_rates(rates: Floats) -> LoopFigures:
    """A loop in which each rate stands for one second, and a step for one item, since steps are not known."""
    edges = edges_of(rates)
    items = tuple(sums_of(rates, edges).tolist())
    seconds = tuple(np.diff(edges, append=len(rates)).astype(float).tolist())
    return LoopFigures("train", "", 0, len(rates), 1, 1, (Blocks(items, seconds, items, None, {}),))


def _named_figures(name: str, job: str, path: str) -> tuple[str, RunFigures]:
    """The ``name``, or the run's title, and the figures of the run in the folder ``path``.

    One run of a suite that cannot be read is missing, and the others are compared.
    """
    try:
        with collected(open_run(path)) as run:
            summary = summarise(run)
            return name or summary.title, replace(figures_of(run, summary), job=job)
    except BrokenRunError as error:
        if not job:
            raise
        why = str(error).replace(f"{path}{os.sep}", "")
        return name, RunFigures((), {}, {}, missing=(why,), job=job)


def figures_of(run: Run, summary: Summary) -> RunFigures:
    """The figures of an opened run, given its summary."""
    loops = summary.profile.loops if summary.profile else ()
    return RunFigures(
        loops=_loop_figures(loops),
        totals=_totals(run, summary),
        work=work_of(run, summary),
        missing=summary.missing,
        failed=_failure(summary),
        crowded="; ".join(each.crowded for each in summary.machines if each.crowded),
    )


def _failure(summary: Summary) -> str:
    """How a run failed; "" if it did not."""
    code = code_of(summary.exit)
    if summary.timed_out:
        return "it was ended by its time limit"
    if not code:
        return ""
    return f"it was killed by signal {-code}" if code < 0 else f"it ended with exit code {code}"


def _loop_figures(loops: Sequence[TrainingLoop]) -> tuple[LoopFigures, ...]:
    """The figures of ``loops``: those of several jobs at one line become one, with the blocks of each job."""
    by_place: dict[tuple[str, str, int], list[TrainingLoop]] = {}
    for loop in loops:
        place = loop.place
        where = (
            (f"{os.path.basename(place.file)}:{place.function}", place.line) if place else ("", 0)
        )
        by_place.setdefault((loop.task, *where), []).append(loop)
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
        for (task, function, line), same in by_place.items()
    )


def _totals(run: Run, summary: Summary) -> dict[str, float]:
    """The values of a whole run: see :class:`RunFigures`."""
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
        # The value of a study's last trial does not stand for the study.
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
    """Write ``side`` as a baseline: JSON of some kilobytes a run. Raises UserError if that fails."""
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
    """``value`` with all floats in it rounded to seven digits."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, (list, tuple)) else value


def load(path: str) -> Side:
    """Read the baseline that :func:`save` wrote to ``path``. Raises UserError if it is none."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        data = None
    if not isinstance(data, dict) or "benchmarks" not in data or "schema" not in data:
        raise UserError(
            f"{path}: this file is no baseline of inject compare (`--save-baseline` writes one)"
        )
    if data["schema"] != SCHEMA:
        raise UserError(
            f"{path}: schema {data['schema']}, and this injector reads {SCHEMA}: save it anew, or update"
        )
    try:
        benchmarks = {
            str(name): tuple(_run_from_data(each) for each in runs)
            for name, runs in data["benchmarks"].items()
        }
        return Side(str(data.get("label") or os.path.basename(path)), benchmarks)
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: no baseline of inject compare: {error!r}") from None


def _run_from_data(data: Mapping[str, Any]) -> RunFigures:
    loops = tuple(
        LoopFigures(**{**each, "blocks": tuple(Blocks(**block) for block in each["blocks"])})
        for each in data["loops"]
    )
    return RunFigures(**{**data, "loops": loops, "missing": tuple(data["missing"])})
