"""Where the chunks of a mapped file end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.store.mapped import FIRST, ends, extent


@given(st.integers(0, 1 << 24), st.sampled_from([FIRST, 4 * FIRST, 64 * FIRST]))
def test_ends_are_where_the_extents_end(size, largest):
    found = ends(size, largest)
    assert found == [sum(extent(chunk, largest)) for chunk in range(len(found))]
    assert all(end <= size for end in found) and sum(extent(len(found), largest)) > size


@pytest.mark.parametrize("size", [10**10])
def test_a_file_with_a_hole_is_no_reason_to_count_from_its_start_for_each_chunk(size):
    """Reading one of 10 GB took two minutes that way."""
    found = ends(size, 1 << 16)
    assert len(found) == pytest.approx(size / (1 << 16), rel=0.01)
