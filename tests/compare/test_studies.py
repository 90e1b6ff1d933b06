"""Hyper-parameter studies beside each other."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from sampled import run, side
from small_run import SEARCH, SEARCH_VOIRFILE, inject, inject_here

from injector.compare.comparison import compare


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """Folders of runs of one program: two times the same rates in another order, and other rates."""
    folder = tmp_path_factory.mktemp("studies")
    (folder / "search.py").write_text(SEARCH)
    (folder / "x.py").write_text(SEARCH_VOIRFILE)
    for name, rates in (
        ("one", "0.25 0.8 3"),
        ("same", "3 0.25 0.8"),
        ("other", "0.4 0.7 0.29 0.9"),
    ):
        words = ("--runs", name, "--quiet", "--voirfile", "x.py", "search.py", *rates.split())
        done = inject(folder, "run", *words)
        assert done.returncode == 0, done.stderr
    return folder


def compared(folder, *sides):
    done = inject_here(folder, "compare", *sides, "--json")
    assert done.returncode == 0, done.stderr
    [found] = json.loads(done.stdout)["comparisons"]
    return found["benchmarks"][0]


def test_best_values_are_compared_and_no_last_ones(studies):
    totals = compared(studies, "one", "other")["totals"]
    best = totals["best"]
    assert (best["before"], best["after"]) == (pytest.approx(0.95), pytest.approx(0.99))
    assert best["verdict"] is None  # more is better here, elsewhere it is not
    assert (
        totals["study"]["unit"] == "s"
        and 0 < totals["study"]["after"] < totals["duration"]["after"]
    )
    assert not {"number", "value", "failed", "pruned"} & set(totals)


def test_what_was_tried_differs_whatever_its_order(studies):
    def differs(*sides):
        found = compared(studies, *sides)["differs"]
        return {each["what"]: (each["before"], each["after"]) for each in found}

    assert not {"study", "trials", "combinations"} & set(differs("one", "same"))
    found = differs("one", "other")
    assert found["trials"] == ("2 complete, 1 failed, 1 worker", "4 complete, 1 worker")
    assert len(set(found["combinations"])) == 2 and "study" not in found


def test_a_slower_study_is_a_threshold(studies):
    done = inject_here(studies, "compare", "one", "other", "--fail-on", "study>5%")
    assert done.returncode == 3 and "study" in done.stdout  # one run of each says nothing for sure


def test_a_further_study_of_a_program_is_seconds_too():
    one, two = (run(totals={"study": n, "study 2": 2 * n, "best 2": n}) for n in (1.0, 2.0))
    [found] = compare(side("a", x=[one]), side("b", x=[two])).benchmarks
    assert [(each.name, each.unit) for each in found.totals] == [
        ("study", "s"),
        ("study 2", "s"),
        ("best 2", ""),
    ]
    assert not found.why_nothing  # a best value of both is something in common
