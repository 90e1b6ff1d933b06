from __future__ import annotations

import json
import math
import statistics as standard
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.analysis import event_samples
from injector.analysis.event_samples import BACKWARD, CONTEXT
from injector.analysis.recorded import Recorded, recorded
from injector.analysis.statistics import Statistics, number, percentile, statistics
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


# --- events are taken many at once ----------------------------------------------------------------

plain = st.sampled_from((0.5, 3, -2, True, None, "x", "NaN", math.inf, 10**400))
parts = st.sampled_from(({}, {"a": 1}, [1], []))
event = st.fixed_dictionaries(
    {},
    optional={
        "loss": st.floats(0, 9) | plain | parts,
        "acc": st.integers(0, 9) | plain,
        "rate": st.floats(1, 9) | plain,
        "units": st.sampled_from(("steps/s", None)),
        "task": st.sampled_from(("train", "eval", "", None)),
        "process": st.sampled_from((0, 1, None, "p")) | parts,
        "time": st.floats(0, 9) | plain,
    },
)
# Many of the same series, with different keys.
dense = st.fixed_dictionaries(
    {"loss": st.floats(0, 9), "time": st.floats(0, 9), "process": st.integers(0, 1)},
    optional={"acc": st.integers(0, 9), "rate": st.floats(1, 9)},
)


def origin(process: int, time: float) -> str:
    return f" at {process}:{round(min(time, 2)) if time == time else time}"


def one_by_one(events: list[dict[str, Any]], lines: bool) -> tuple[Any, ...]:
    """Rates, series and losses of training with all that was kept of each."""
    rates: dict[Any, list[object]] = {}
    series: dict[Any, list[object]] = {}
    losses: dict[Any, list[tuple[float, float]]] = {}
    for data in events:
        task = str(data.get("task") or "")
        process = data["process"] if isinstance(data.get("process"), int) else 0
        time = number(data.get("time"))
        if "rate" in data:
            key = ("", task, str(data.get("units") or "items/s")), process
            rates.setdefault(key, []).append(data["rate"])
        for name, value in data.items():
            if name in CONTEXT or isinstance(value, (dict, list)):
                continue
            full = name + (
                origin(process, time or 0.0) if lines and (task, name) == BACKWARD else ""
            )
            series.setdefault(("", task, full), []).append(value)
            if "loss" in full and task != "eval":
                known = number(value)
                if time is not None and known is not None and math.isfinite(known):
                    losses.setdefault((process, full), []).append((time, known))
    return (
        {key: kept(of) for key, of in rates.items()},
        {k: kept(of) for k, of in series.items()},
        losses,
    )


def kept(values: list[object]) -> tuple[object, ...]:
    numbers = [known for known in map(number, values) if known is not None]
    finite = [known for known in numbers if math.isfinite(known)]
    return (
        len(values),
        repr(values[0]),
        repr(values[-1]),
        sorted(finite),
        len(numbers) - len(finite),
    )


def of_sample(one: Any) -> tuple[object, ...]:
    return one.count, repr(one.first), repr(one.last), sorted(one.values), one.odd


@given(
    st.lists(event, max_size=40) | st.lists(dense, max_size=40),
    st.booleans(),
    st.sampled_from((1, 2, 3, 1024)),
)
def test_events_taken_together_are_those_taken_one_by_one(events, lines, most) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_samples, "_GROUP_SIZE", most)
        reader = event_samples.EventReader(origin if lines else None)
        for each in events:
            reader.add("", "data", each)
        reader.flush()
    rates, series, losses = one_by_one(events, lines)
    found = {(k, p): of_sample(s) for k, of in reader.rates.items() for p, s in of.items()}
    assert found == rates
    assert {key: of_sample(one) for key, one in reader.series.items()} == series
    timed = {
        key: list(zip(one.times, one.values, strict=True)) for key, one in reader.losses.items()
    }
    assert (
        repr(timed) == repr({key: losses[key] for key in timed}) and timed.keys() == losses.keys()
    )
