"""Scaling tables: the numbers that DLBS prints, and the exact ones."""

from __future__ import annotations

import pytest
from suitefolders import SuiteFolder

from injector.suite import scaling
from injector.suite.outcome import BenchmarkResult, ProcessResult, SuiteResult
from injector.suite.records import Record
from injector.suite.report import render
from injector.suite.scaling import DLBS, STRONG, WEAK, Point, scaled

WEAKLY = [Point(n, ms / 1e3, 16 * n) for n, ms in ((1, 913.44), (2, 1029.24), (4, 1065.12))]
STRONGLY = [Point(n, ms / 1e3, 64) for n, ms in ((1, 800), (2, 430), (4, 250))]


def table(points, kind, rounding):
    return [column[2:] for column in scaled(points, kind, rounding)]


def test_weak_scaling_as_dlbs_prints_it():
    assert table(WEAKLY, WEAK, DLBS) == [(17, 1, 100), (31, 1.82, 88.74), (60, 3.53, 85.75)]


def test_weak_scaling_exactly():
    found = table(WEAKLY, WEAK, scaling.EXACT)
    assert [column[0] for column in found] == pytest.approx([17.516, 31.091, 60.087], abs=6e-4)
    assert [column[1] for column in found] == pytest.approx([1, 1.775, 3.430], abs=6e-4)
    assert [column[2] for column in found] == pytest.approx([100, 88.749, 85.759], abs=6e-4)


def test_strong_scaling_as_dlbs_prints_it():
    assert table(STRONGLY, STRONG, DLBS) == [(80, 1, 100), (148, 1.85, 93.02), (256, 3.2, 80)]


def test_strong_scaling_exactly():
    found = table(STRONGLY, STRONG, scaling.EXACT)
    assert found[1] == pytest.approx((148.837, 1.860, 93.023), abs=6e-4)


def test_what_is_whole_is_not_cut_by_the_last_bit():
    for ms in range(1, 2000):
        [column] = scaled([Point(1, ms / 1e3, 3 * ms)], WEAK, DLBS)
        assert column.throughput == 3000


def test_the_order_of_the_points_does_not_matter():
    assert scaled(reversed(WEAKLY), WEAK) == scaled(WEAKLY, WEAK)
    assert scaled([], WEAK) == ()


def benchmark(devices: int, tag: str, failed: bool = False) -> BenchmarkResult:
    points = WEAKLY if tag == "weak" else STRONGLY
    [point] = [each for each in points if each.devices == devices]
    record = Record(rates=(1.0,), step=point.seconds, items=point.items, code=int(failed))
    names = tuple(f"cuda:{n}" for n in range(devices))
    process = ProcessResult(f"ddp{devices}.R0.D0", f"ddp{devices}", devices=names, record=record)
    return BenchmarkResult(f"ddp{devices}", family="ddp", tags=(tag,), processes=(process,))


def test_benchmarks_of_one_entry_make_a_family():
    found = [benchmark(n, "weak") for n in (1, 2, 4)] + [benchmark(n, "strong") for n in (1, 2)]
    suite = SuiteResult("/x", "s", benchmarks=tuple(found))
    weak, strong = scaling.families(suite, DLBS)
    assert (weak.name, weak.kind, [c.devices for c in weak.columns]) == ("ddp", "weak", [1, 2, 4])
    assert [column.speedup for column in weak.columns] == [1, 1.82, 3.53]
    assert [column.efficiency for column in strong.columns] == [100, 93.02]
    text = render(suite, "terminal", DLBS)
    assert "ddp, weak scaling" in text and "88.74" in text and "3.53" in text


def test_one_point_and_what_is_not_tagged_make_none(tmp_path):
    made = SuiteFolder(tmp_path)
    made.process("a", [1.0] * 5)
    assert scaling.families(made.read()) == []
    alone = SuiteResult("/x", "s", benchmarks=(benchmark(2, "weak"),))
    assert scaling.families(alone) == []
