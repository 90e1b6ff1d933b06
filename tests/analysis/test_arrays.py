"""Columns: where values lie, medians, merging; against NumPy's own functions."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.analysis import arrays
from injector.analysis.arrays import distinct, median_of, merged, places, statistics_of

SIDES = ("left", "right")
gaps = st.lists(st.integers(0, 3), max_size=60)


@pytest.fixture(autouse=True, scope="module")
def few():
    """Columns of some values take the same ways as those of many."""
    before = arrays._SEARCHED, arrays._UNIQUE_FROM
    arrays._SEARCHED = arrays._UNIQUE_FROM = 3
    yield
    arrays._SEARCHED, arrays._UNIQUE_FROM = before


@given(gaps, gaps, st.integers(-5, 40), st.sampled_from(SIDES))
def test_values_in_order_are_found_where_numpy_finds_them(ordered, values, begin, side):
    many, few = np.cumsum(ordered), begin + np.cumsum(values, dtype=np.int64)
    assert places(many, few, side).tolist() == np.searchsorted(many, few, side).tolist()


@given(st.lists(st.integers(0, 20)), st.lists(st.integers(-3, 23)), st.sampled_from(SIDES))
def test_values_in_no_order_are_found_too(ordered, values, side):
    many, few = np.sort(np.array(ordered, np.int64)), np.array(values, np.int64)
    assert places(many, few, side).tolist() == np.searchsorted(many, few, side).tolist()


@given(st.integers(1, 6), st.integers(2, 50), st.integers(-2, 2), st.data(), st.sampled_from(SIDES))
def test_the_loop_that_is_guessed_and_its_exceptions(stride, steps, shift, data, side):
    many = 10 * np.arange(stride * steps)
    few = many[::stride] + shift
    odd = data.draw(st.lists(st.integers(0, len(many) - 1), max_size=3))
    many = np.delete(many, odd)
    assert places(many, few, side).tolist() == np.searchsorted(many, few, side).tolist()


@given(st.lists(st.integers(-4, 4), max_size=30), st.sampled_from([3, 1 << 16]))
def test_distinct_values_are_those_of_numpy(values, many):
    arrays._UNIQUE_FROM, before = many, arrays._UNIQUE_FROM
    found = distinct(np.array(values, np.int64))
    arrays._UNIQUE_FROM = before
    assert found.dtype == np.int64 and found.tolist() == sorted(set(values))


def test_distinct_values_are_found_without_masked_arrays():
    words = (
        "from injector.analysis.arrays import distinct, np; print(distinct(np.array([2, 1, 2])))"
    )
    words += "; import sys; print('numpy.ma' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[1 2]", "False"]


@given(st.lists(st.floats(0, 1e6, width=32), min_size=1))
def test_statistics_are_those_of_numpy(values):
    column = np.array(values, np.float32)
    found = statistics_of(column)
    exact = column.astype(np.float64)
    assert median_of(column) == found.median
    assert found.median == pytest.approx(np.quantile(exact, 0.5), rel=1e-9)
    assert found.p95 == pytest.approx(np.quantile(exact, 0.95), rel=1e-9)
    assert (found.min, found.max) == (exact.min(), exact.max())


@given(st.lists(gaps, min_size=1, max_size=4))
def test_columns_in_order_are_merged(columns):
    made = [np.cumsum(each, dtype=np.int64) for each in columns]
    assert merged(*made).tolist() == sorted(np.concatenate(made).tolist())


@given(
    st.integers(1, 9),
    st.integers(2, 9),
    st.integers(1, 40),
    st.sampled_from([np.float32, np.float64]),
)
def test_medians_and_means_over_ranks_are_those_of_numpy(ranks, steps, cells, kind):
    columns = [np.sin(np.arange(steps) * (rank + 2.0)).astype(kind) for rank in range(ranks)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "_CELLS", cells)  # some steps at a time
        middle = arrays.median_across(columns)
    assert middle.dtype == kind and middle.tolist() == np.median(columns, axis=0).tolist()
    assert arrays.mean_across(columns).tolist() == np.mean(columns, axis=0).tolist()
