"""Latencies per batch and per query: lightgbm-benchmark's reference values, and what counts as a batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from layouts import Program, report

from injector.analysis.latencies import latencies_of, latency
from injector.store.folder import open_run

SECONDS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 5.0])
ITEMS = np.array([1.0] * 7 + [5.0])
BATCH = [450_000, 625_000, 1_990_000, 3_495_000, 4_699_000]
QUERY = [450_000, 625_000, 790_000, 895_000, 979_000]


def micros(found) -> list[float]:
    return [round(getattr(found, f"p{n}") * 1e6, 3) for n in (50, 75, 90, 95, 99)]


def test_the_reference_values_of_the_seed():
    found = latency(SECONDS, ITEMS)
    assert (found.batches, found.queries) == (8, 12)
    assert found.mean == pytest.approx(0.65)
    assert micros(found.batch) == BATCH and micros(found.query) == QUERY


def test_histograms_count_batches_and_queries():
    found = latency(SECONDS, ITEMS)
    for histogram, n in ((found.batch_histogram, 8), (found.query_histogram, 12)):
        assert sum(histogram.counts) == n
        assert len(histogram.edges) == len(histogram.counts) + 1
    assert found.query_histogram.counts[-1] == 5, "the slowest batch is five queries"
    assert (found.batch_histogram.edges[0], found.batch_histogram.edges[-1]) == (0.1, 5.0)
    assert latency(SECONDS[:1], None).batch_histogram.counts == [1.0]
    with pytest.raises(ValueError, match="nothing"):
        latency(SECONDS[:0], None)


def test_batches_of_a_loader_without_the_wait_for_data(tmp_path: Path) -> None:
    """Of calls of 100 to 5000 ms: the fetch of 50 ms before each is no part of it."""
    p = Program()
    for seconds, items in zip(SECONDS, ITEMS, strict=True):
        p.io(50, of=2, line=21)
        p.predict(seconds * 1e3 - 1, int(items))
        p.wait(1)
    p.dry(of=2, line=21)
    [found] = report(tmp_path / "r", p).latencies
    assert (found.what, found.place.line, found.batches, found.queries) == ("inference", 21, 8, 12)
    assert micros(found.batch) == BATCH and micros(found.query) == QUERY
    # A suite reads the same without the rest of the profile.
    assert latencies_of(open_run(str(tmp_path / "r"))) == (found,)


@pytest.mark.parametrize("fed", [True, False])
def test_steps_that_skip_names_are_left_out(tmp_path: Path, fed: bool) -> None:
    """Of eight batches the first three, as they are of the rates; of a training's evaluation none."""
    p = Program()
    for seconds, items in zip(SECONDS, ITEMS, strict=True):
        if fed:
            p.io(50, of=2, line=21)
        p.predict(seconds * 1e3, int(items))
    if fed:
        p.dry(of=2, line=21)
    [found] = report(tmp_path / "r", p, limits={"skip": 3}).latencies
    assert (found.batches, found.queries) == (5, 9)
    assert found.batch.p50 == pytest.approx(0.6)
    assert latencies_of(open_run(str(tmp_path / "r"))) == (found,)
    for _ in range(8):
        p.turn()
    [whole] = report(tmp_path / "trained", p, limits={"skip": 3}).latencies
    assert whole.batches == 8


def test_without_a_loader_a_batch_is_a_call(tmp_path: Path) -> None:
    p = Program()
    for _ in range(20):
        p.turn()
    p.wait(5)
    for ms in (10, 20, 30):
        p.predict(ms, 4)
        p.wait(50)
    [found] = report(tmp_path / "r", p).latencies
    assert (found.batches, found.queries) == (3, 12)
    assert found.batch.p50 == pytest.approx(0.02) and found.query.p50 == pytest.approx(0.005)


def test_calls_of_predict_and_unknown_items(tmp_path: Path) -> None:
    p = Program()
    for ms, items in ((10, 2), (30, 3)):
        p.span("predict", ms, items, how="items", line=40)
    p.span("predict", 7, 0, how="items", line=41)
    one, other = report(tmp_path / "r", p).latencies
    assert (one.what, one.place.line, one.queries) == ("predict", 40, 5)
    assert one.mean == pytest.approx(0.008)
    assert (other.queries, other.query, other.mean) == (None, None, None)
    assert other.batch.p99 == pytest.approx(0.007)


def test_training_alone_has_none(tmp_path: Path) -> None:
    p = Program()
    for _ in range(20):
        p.turn()
    assert report(tmp_path / "r", p).latencies == ()
    assert latencies_of(open_run(str(tmp_path / "r"))) == ()
