"""The rows of the tables: what is measured, its unit, the goal, and which columns must meet it."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A row of a table."""

    key: str
    """Its key in :data:`.measures.Table`."""
    title: str
    unit: str
    goal: float | None = None
    ours: tuple[str, ...] = ()
    """The columns that have to meet the goal."""


class Sheet(NamedTuple):
    """A table with all columns that it may have; those that were not measured are not printed."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


HOOK = ("hook",)
AUTO = ("auto",)
LOOP = ("io + step",)
REGIONS = ("regions",)

PROBES = Sheet(
    "over the plain program",
    ("python", "floor", "hook", "ov.value", "ov.probe", "inject", "ptera", "voir"),
    (
        Row("observe", "observe a variable", "µs", 0.10, (*HOOK, "ov.value")),
        Row("count", "the same, an integer", "µs", 0.10, HOOK),
        Row("override", "override a return value", "µs", 0.10, HOOK),
        Row("loop", "loop begin and end", "µs", 0.20, HOOK),
        Row("nested", "nested selector f > g > x", "µs", 0.60, ("ov.value",)),
        Row("entered", "the same, entering f each time", "µs", None, ("ov.value",)),
        Row("unprobed", "a function no probe names", "µs", 0.0, ("ov.value",)),
        Row("start-up", "start-up, empty script", "ms", 30.0, ("inject",)),
        Row("start-up (CPU)", "  of it CPU", "ms", None, ("inject",)),
        Row("start-up, torch", "start-up, imports torch", "ms", 30.0, ("inject",)),
        Row("start-up, torch (CPU)", "  of it CPU", "ms", None, ("inject",)),
        Row("500 imports", "500 unprobed imports", "%", 2.0, ("inject",)),
    ),
)


def _length(length: str, title: str, slower: float | None) -> tuple[Row, ...]:
    """The rows for one length of step; ``slower`` is by how many percent a step may take longer."""
    return (
        Row(f"steps {length} CPU", f"a step of {title}, CPU", "µs", 5.0, AUTO),
        Row(f"steps {length} twins", f"{title}, beside its twin", "µs", 0.5, LOOP),
        Row(f"steps {length} wall", f"{title}, wall", "µs", None, AUTO),
        Row(f"steps {length} slower", f"{title}, longer by", "%", slower, AUTO),
    )


STEPS = Sheet(
    "a training loop, over python",
    (
        "python",
        "by hand",
        "io + step",
        "auto",
        "traceml",
        "voir",
        "profiler",
        "pyinstrument",
        "viztracer",
        "py-spy",
    ),
    (
        *_length("70", "70 µs", None),
        *_length("500", "0.5 ms", None),
        *_length("5000", "5 ms", 1.0),
        *_length("30000", "30 ms", 1.0),
        Row("every", "of 60 000 steps not kept", "", 0.0, (*LOOP, *AUTO)),
        Row("starts", "start-up, imports torch", "ms", 50.0, AUTO),
        Row("starts (CPU)", "  of it CPU", "ms", None, AUTO),
    ),
)
CALLS = Sheet(
    "calls that do nothing, recorded",
    ("python", "by hand", "regions", "devices", "auto"),
    (
        Row("regions step", "ov.loader: io + step", "µs", 0.5, REGIONS),
        Row("regions io", "io", "µs", None, REGIONS),
        Row("regions model", "forward with items", "µs", None, REGIONS),
        Row("regions gradients", "backward with its loss", "µs", None, REGIONS),
        Row("regions optimizer", "optimizer", "µs", None, REGIONS),
        Row("regions every", "all four: a step", "µs", 5.0, REGIONS),
        Row("regions every, device", "a step with device events", "µs", 40.0, ("devices",)),
        Row("submodules", "a submodule, one of 300", "ns", 0.0, AUTO),
        Row("methods stays", ".to of a tensor that stays", "µs", None, AUTO),
        Row("methods elsewhere", ".to of a tensor on a device", "µs", None, AUTO),
        Row("methods other", ".to of something else", "µs", None, AUTO),
        Row("methods moves", ".to that moves to a device", "µs", None, AUTO),
        Row("methods module", "1 000 lines with such calls", "ms", None, AUTO),
    ),
)
SMALL = Sheet(
    "a small loop (16, 16, 10), with and without hooks in one process",
    ("python", "io + step", "ov.value", "auto"),
    (
        Row("small every", "all of it", "µs", 5.0, AUTO),
        Row("small forward", "  of it forward, items, phase", "µs", None, AUTO),
        Row("small loss", "  the loss, a function", "µs", None, AUTO),
        Row("small gradients", "  backward with its loss", "µs", None, AUTO),
        Row("small optimizer", "  optimizer, zero_grad", "µs", None, AUTO),
        Row("small loop", "ov.loader, beside the loop's twin", "µs", 1.0, LOOP),
        Row("small value", "ov.value, beside the loop's twin", "µs", 0.5, ("ov.value",)),
        Row("small, processes", "a step, over that of python", "µs", None, AUTO),
    ),
)
BOOSTING = Sheet(
    "boosting of 28 features on one thread, a metric in each round",
    ("python", "auto"),
    (
        Row("boosting lightgbm", "LightGBM: a round of 200 rows", "µs", None, AUTO),
        Row("boosting lightgbm slower", "  of 100 000 rows, longer by", "%", 1.0, AUTO),
        Row("boosting xgboost", "XGBoost: a round of 200 rows", "µs", None, AUTO),
        Row("boosting xgboost slower", "  of 100 000 rows, longer by", "%", 1.0, AUTO),
    ),
)
STUDIES = Sheet(
    "trials of hyper-parameter studies, that compute nothing",
    ("python", "auto"),
    (
        # A hundredth of a trial of 1 s.
        Row("trial optuna", "Optuna: 5 parameters, 10 reports", "ms", 10.0, AUTO),
        Row("trial sklearn", "scikit-learn: a candidate, 3 folds", "ms", 10.0, AUTO),
    ),
)
SUITES = Sheet(
    "suites, over their commands by hand",
    ("python", "suite"),
    (
        Row("suite", "each of 8 empty benchmarks", "ms", 500.0, ("suite",)),
        Row("planning", "a plan of 10 000 jobs, whole", "ms", 2_000.0, ("suite",)),
    ),
)
SHEETS = (PROBES, STEPS, SMALL, CALLS, BOOSTING, STUDIES, SUITES)
