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
from injector.store import spans
from injector.store.seal import pack

numbers = st.integers(-(2**63), 2**63 - 1)


def write(folder, rows, finished=True):
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    content = b"".join(struct.pack("=4q", *row) for row in rows)
    (raw / "h.1.spans").write_bytes(b"{}\n".ljust(1024, b"\0") + content)
    if finished:
        (folder / "run.json").write_text('{"schema": 1}')
    return str(raw / "h.1.spans")


def read(path):
    found = [row for block in spans.arrays(path) for row in block.tolist()]
    return [tuple(row) for row in found if row[3]]


@given(st.lists(st.tuples(numbers, numbers, numbers, numbers), max_size=30))
def test_every_row_that_was_written_is_there(rows):
    with tempfile.TemporaryDirectory() as name:
        path = write(Path(name), rows)
        before = read(path)
        pack(name)
        assert not Path(path).exists()
        assert read(path) == before == [row for row in rows if row[3]]
        assert spans.count(path) == len(before)


def test_it_takes_less_room(tmp_path):
    start = np.arange(20_000) * 1_000_003
    rows = [(at, at + 500_000, 32, 1 + at % 4) for at in start.tolist()]
    write(tmp_path, rows)
    before, after = pack(str(tmp_path))
    assert before == 1024 + 32 * len(rows)
    assert after < before / 3


def test_a_run_that_goes_on_is_left_alone(tmp_path):
    path = write(tmp_path, [(1, 2, 3, 4)], finished=False)
    with pytest.raises(UserError, match="goes on"):
        pack(str(tmp_path))
    assert Path(path).exists()


def test_packing_twice_is_harmless(tmp_path):
    path = write(tmp_path, [(1, 2, 3, 4)])
    pack(str(tmp_path))
    assert pack(str(tmp_path)) == (0, 0)
    assert read(path) == [(1, 2, 3, 4)]


def test_a_packed_file_that_cannot_be_written_is_named(tmp_path):
    """By its name, for which pyarrow's error has a sentence of its own."""
    path = tmp_path / f"{'x' * (255 - len('.spans'))}.spans"
    path.write_bytes(b"")
    with pytest.raises(OSError, match="File name too long") as raised:
        spans.pack_file(str(path))
    assert raised.value.filename == spans.packed_path(str(path))


def test_nothing_is_nothing(tmp_path):
    assert spans.count(str(tmp_path / "h.1.spans")) == 0


def test_what_was_open_at_the_end_is_kept(tmp_path):
    path = write(tmp_path, [(1, 2, 3, 4)])
    content = bytearray(Path(path).read_bytes())
    content[512:544] = struct.pack("=4q", 3, 0, 7, 2)  # the first place is everybody's
    Path(path).write_bytes(content)
    assert spans.opened(path) == [7, 2]
    pack(str(tmp_path))
    assert spans.opened(path) == [7, 2]
    assert spans.opened(str(tmp_path / "none.spans")) == []


def test_runs_of_before_had_nothing_open(tmp_path):
    path = write(tmp_path, [(1, 2, 3, 4)])
    assert spans.opened(path) == []


@pytest.mark.parametrize(
    ("text", "message"), [('{"schema": 99}', "later injector"), ('{"sch', "broken")]
)
def test_what_cannot_be_read_is_not_packed(tmp_path, text, message):
    path = write(tmp_path, [(1, 2, 3, 4)])
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UserError, match=message):
        pack(str(tmp_path))
    assert Path(path).exists()
