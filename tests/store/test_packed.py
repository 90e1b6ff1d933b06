"""Packed runs: what is read of them is what was read before."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.errors import UserError
from injector.store import packed

numbers = st.integers(-(2**63), 2**63 - 1)


def write(folder, rows, finished=True):
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    content = b"".join(struct.pack("=4q", *row) for row in rows)
    (raw / "h.1.spans").write_bytes(b"{}\n".ljust(1024, b"\0") + content)
    if finished:
        (folder / "run.json").write_text("{}")
    return str(raw / "h.1.spans")


def read(path):
    found = [row for block in packed.blocks(path) for row in block.tolist()]
    return [tuple(row) for row in found if row[3]]


@given(st.lists(st.tuples(numbers, numbers, numbers, numbers), max_size=30))
def test_every_row_that_was_written_is_there(rows):
    with tempfile.TemporaryDirectory() as name:
        path = write(Path(name), rows)
        before = read(path)
        packed.pack(name)
        assert not Path(path).exists()
        assert read(path) == before == [row for row in rows if row[3]]
        assert packed.count(path) == len(before)


def test_it_takes_less_room(tmp_path):
    start = np.arange(20_000) * 1_000_003
    rows = [(at, at + 500_000, 32, 1 + at % 4) for at in start.tolist()]
    write(tmp_path, rows)
    before, after = packed.pack(str(tmp_path))
    assert before == 1024 + 32 * len(rows)
    assert after < before / 3


def test_a_run_that_goes_on_is_left_alone(tmp_path):
    path = write(tmp_path, [(1, 2, 3, 4)], finished=False)
    with pytest.raises(UserError, match="goes on"):
        packed.pack(str(tmp_path))
    assert Path(path).exists()


def test_packing_twice_is_harmless(tmp_path):
    path = write(tmp_path, [(1, 2, 3, 4)])
    packed.pack(str(tmp_path))
    assert packed.pack(str(tmp_path)) == (0, 0)
    assert read(path) == [(1, 2, 3, 4)]


def test_nothing_is_nothing(tmp_path):
    assert packed.count(str(tmp_path / "h.1.spans")) == 0
