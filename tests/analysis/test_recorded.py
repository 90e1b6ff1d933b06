from __future__ import annotations

import json
import math
import statistics as standard
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.analysis.profile import Statistics
from injector.analysis.recorded import Recorded, number, percentile, recorded, statistics
from injector.store.folder import open_run

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


def write(folder: Path, name: str, *events: tuple[str, Any]) -> None:
    lines = [json.dumps({"event": event, "data": data, "pipe": "data"}) for event, data in events]
    (folder / f"{name}.data").write_text("\n".join(lines) + "\n")


def read(folder: Path) -> Recorded:
    return recorded(open_run(str(folder)))


@given(st.lists(finite, min_size=1), st.floats(0, 1))
def test_percentiles_are_numpys(values: list[float], fraction: float) -> None:
    np = pytest.importorskip("numpy")
    expected = float(np.percentile(np.array(values, dtype=float), fraction * 100))
    scale = max(map(abs, values)) or 1.0
    assert percentile(sorted(values), fraction) == pytest.approx(expected, abs=1e-9 * scale)


@given(st.lists(finite, min_size=2))
def test_statistics_are_the_standard_librarys(values: list[float]) -> None:
    found = statistics(values)
    assert found
    scale = max(map(abs, values)) or 1.0
    assert found.n == len(values)
    assert (found.min, found.max) == (min(values), max(values))
    assert found.mean == pytest.approx(standard.fmean(values), abs=1e-9 * scale)
    assert found.median == pytest.approx(standard.median(values), abs=1e-9 * scale)
    assert found.std == pytest.approx(standard.stdev(values), rel=1e-6, abs=1e-9 * scale)


def test_small_samples() -> None:
    assert statistics([]) is None
    assert statistics([3.0]) == Statistics(1, 3.0, 3.0, 3.0, 0.0, 3.0, 3.0)
    # The timer of Deep500: durations 1, 2, 3.
    assert statistics([3, 1, 2]) == Statistics(3, 2.0, 2, pytest.approx(2.9), 1.0, 1, 3)
    with pytest.raises(ValueError):
        percentile([], 0.5)


def test_latencies() -> None:
    batches = sorted([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 5.0])
    found = [percentile(batches, p) for p in (0.50, 0.75, 0.90, 0.95, 0.99)]
    assert found == pytest.approx([0.45, 0.625, 1.99, 3.495, 4.699])


def test_extremes() -> None:
    found = statistics([1e308, -1e308, 1e308])
    assert found and math.isfinite(found.mean) and math.isfinite(found.std)


@pytest.mark.parametrize(
    ("value", "found"),
    [(1, 1.0), (2.5, 2.5), ("Infinity", math.inf), ("-Infinity", -math.inf), (10**400, math.inf)],
)
def test_numbers(value: object, found: float) -> None:
    assert number(value) == found


def test_no_numbers() -> None:
    assert math.isnan(number("NaN") or 0.0)
    assert [number(value) for value in (None, True, "1", [1], {})] == [None] * 5


def test_rates(tmp_path: Path) -> None:
    def rate(value: Any, **more: Any) -> tuple[str, Any]:
        return "data", {"task": "train", "rate": value, "units": "items/s", **more}

    write(
        tmp_path,
        "x.D0",
        *(rate(value, process=0) for value in (1.0, 2.0, "NaN", "Infinity")),
        *(rate(value, process=1) for value in (3.0, 4.0)),
        ("data", {"rate": 5}),
        ("data", {"task": "eval", "rate": "NaN"}),
        ("data", {"task": "train", "rate": 9, "units": "steps/s"}),
    )
    train, bare, steps = read(tmp_path).rates
    assert (train.bench, train.task, train.unit, train.odd) == ("", "train", "items/s", 2)
    assert (train.overall.n, train.overall.mean) == (4, 2.5)
    assert {index: each.mean for index, each in train.by_process.items()} == {0: 1.5, 1: 3.5}
    assert (bare.task, bare.unit, bare.overall.mean, bare.by_process) == ("", "items/s", 5.0, {})
    assert (steps.unit, steps.overall.n) == ("steps/s", 1)


def test_values_and_losses(tmp_path: Path) -> None:
    values: list[dict[str, Any]] = [
        {"task": "train", "loss": 3.0, "time": 1.0},
        {"task": "train", "loss": "NaN", "lr": 0.1},
        {"task": "train", "loss": 1.0, "note": "text"},
        {"task": "main", "gpudata": {"0": {}}, "progress": [1, 2]},
    ]
    write(tmp_path, "x.D0", *(("data", value) for value in values))
    loss, lr, note = read(tmp_path).series
    assert loss.is_loss and not lr.is_loss
    assert (loss.name, loss.task, loss.n, loss.first, loss.last) == ("loss", "train", 3, 3.0, 1.0)
    assert loss.statistics and loss.statistics.min == 1.0 and loss.odd == 1
    assert (lr.n, lr.last) == (1, 0.1)
    assert (note.name, note.last, note.statistics) == ("note", "text", None)


def test_regions(tmp_path: Path) -> None:
    regions = [{"region": "forward", "seconds": s} for s in (0.5, 1.5)]
    write(tmp_path, "x.D0", *(("region", region) for region in regions), ("region", {}))
    [region] = read(tmp_path).regions
    assert (region.name, region.total, region.statistics.mean) == ("forward", 2.0, 1.0)


def test_several_benches(tmp_path: Path) -> None:
    for name in ("a.D0", "b.D0"):
        write(tmp_path, name, ("data", {"task": "train", "rate": 1.0}), ("end", {"return_code": 0}))
    summary = read(tmp_path)
    assert [(rate.bench, rate.overall.n) for rate in summary.rates] == [("a.D0", 1), ("b.D0", 1)]
    assert summary.benches == {name: {"end": {"return_code": 0}} for name in ("a.D0", "b.D0")}
    assert summary.events == {"data": 2, "end": 2}


def test_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.data").write_text("")
    assert read(tmp_path) == Recorded([], [], [], {}, {}, 0)


def test_a_loss_that_a_voirfile_gives_as_well_is_one(tmp_path: Path) -> None:
    backward = [("data", {"task": "train", "loss": value}) for value in (3.0, 2.0, 1.5)]
    for name, times, both in (("a", 1.0, False), ("b", 2.0, True)):
        own = [("data", {"loss": times * data["loss"]}) for _, data in backward]
        folder = tmp_path / name
        folder.mkdir()
        write(folder, "x", *backward, *own)
        found = [(one.task, one.name) for one in read(folder).series]
        assert found == ([("train", "loss"), ("", "loss")] if both else [("", "loss")])
