"""What is made of counted FLOPs, with and without all that it takes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from injector.analysis.flops import COMPILED, NO_PEAK, flops_of
from injector.report import extras


def _profile(*rates, line=3):
    ranks = [
        SimpleNamespace(rank=at, throughput=SimpleNamespace(steps=rate))
        for at, rate in enumerate(rates)
    ]
    place = SimpleNamespace(file="a.py", line=line)
    return SimpleNamespace(loops=[SimpleNamespace(task="train", place=place, ranks=ranks)])


def _info(**more):
    ranks = [{"rank": 0, "flops": 10**9}, {"rank": 1, "flops": 3 * 10**9}]
    where = {"task": "train", "place": ["a.py", 3], "compiled": False, "peak": None}
    return {"flops": {"ranks": ranks, **where, **more}}


def test_the_sum_over_ranks_by_one_device_each():
    found = flops_of(_info(peak=1e11), _profile(10.0, 5.0))
    assert found.step == 4 * 10**9 and found.rate == 25e9
    assert [each.rate for each in found.ranks] == [10e9, 15e9]
    assert found.mfu == pytest.approx(0.125)
    assert "MFU 12.5 % of 2 × 100 GFLOP/s" in extras.flops_texts(found)[0].replace("100.0", "100")
    assert [row[0] for row in extras.flops_rows(found)] == ["rank 0", "rank 1"]


def test_ranks_of_one_host_share_its_processors():
    found = flops_of(_info(peak=1e11, device="cpu", peak_from="a run"), _profile(10.0, 5.0))
    assert found.devices == 1 and found.mfu == pytest.approx(0.25)
    assert "of 100 GFLOP/s, a run" in extras.flops_texts(found)[0].replace("100.0", "100")


def test_without_a_peak_and_with_graphs():
    found = flops_of(_info(compiled=True), _profile(10.0, 5.0))
    assert found.mfu is None and found.notes[1:] == (COMPILED, f"no MFU: {NO_PEAK}")


@pytest.mark.parametrize("profile", [None, _profile(1.0, 1.0, line=9), _profile(1.0)])
def test_a_step_of_another_loop(profile):
    found = flops_of(_info(peak=1e11), profile)
    assert found.rate is None and found.mfu is None and found.notes[-1].startswith("no FLOP/s")


def test_a_run_without():
    assert flops_of({}, None) is None
