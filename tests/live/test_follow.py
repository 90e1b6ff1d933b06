"""Raw files as they grow."""

from __future__ import annotations

import json
import struct

from hypothesis import given
from hypothesis import strategies as st

from injector.live.raw_files import Follower, NewRecord, NewSample, NewSpans
from injector.store.monitor import Sample

HEADER = b'{"event":"spans"}\n'.ljust(1024, b"\0")


def record(event, data=None, t=0):
    return json.dumps({"event": event, "data": data, "t": t}).encode() + b"\n"


def taken(follower):
    return list(follower.poll())


def raw(tmp_path):
    (tmp_path / "raw").mkdir()
    return tmp_path / "raw"


def test_nothing_yet(tmp_path):
    assert taken(Follower(str(tmp_path / "none"))) == []


def test_records_come_once_and_whole(tmp_path):
    log = raw(tmp_path) / "h.1.log"
    follower = Follower(str(tmp_path))
    log.write_bytes(record("process", {"pid": 1}) + b'{"event":"half' + bytes(100))
    assert taken(follower) == [NewRecord("h.1", "process", {"pid": 1}, 0)]
    assert taken(follower) == []
    log.write_bytes(record("process", {"pid": 1}) + record("half", 2, 7) + bytes(80))
    assert taken(follower) == [NewRecord("h.1", "half", 2, 7)]


def test_torn_records_and_foreign_lines_are_left_out(tmp_path):
    log = raw(tmp_path) / "h.1.log"
    log.write_bytes(b'{"event": 7}\n[1]\nnull\n{"eve\n' + record("fine"))
    assert [found.event for found in taken(Follower(str(tmp_path)))] == ["fine"]


def test_a_monitors_records_are_kept_apart(tmp_path):
    (raw(tmp_path) / "h.2.monitor").write_bytes(record("host", {"cores": []}))
    assert taken(Follower(str(tmp_path))) == [
        NewSample("h.2", Sample("host", 0.0, {"cores": []}, 0))
    ]


def row(*numbers):
    return struct.pack("=4q", *numbers)


def test_rows_come_after_the_records_that_explain_them(tmp_path):
    folder = raw(tmp_path)
    (folder / "h.1.spans").write_bytes(HEADER + row(1, 2, 0, 5) + bytes(64))
    (folder / "h.1.log").write_bytes(record("site", {"site": 5}))
    first, second = taken(Follower(str(tmp_path)))
    assert first.event == "site"
    assert second == NewSpans("h.1", [(1, 2, 0, 5)])


def test_a_row_that_is_being_written_is_waited_for_once(tmp_path):
    spans = raw(tmp_path) / "h.1.spans"
    follower = Follower(str(tmp_path))
    spans.write_bytes(HEADER + row(1, 2, 0, 1) + row(0, 0, 0, 0) + row(3, 4, 0, 1))
    assert taken(follower) == [NewSpans("h.1", [(1, 2, 0, 1)])]
    spans.write_bytes(HEADER + row(1, 2, 0, 1) + row(2, 3, 0, 1) + row(3, 4, 0, 1))
    assert taken(follower) == [NewSpans("h.1", [(2, 3, 0, 1), (3, 4, 0, 1)])]


def test_a_row_that_never_comes_is_given_up(tmp_path):
    spans = raw(tmp_path) / "h.1.spans"
    follower = Follower(str(tmp_path))
    spans.write_bytes(HEADER + row(0, 0, 0, 0) + row(3, 4, 0, 1))
    rows = [found.rows for _ in range(3) for found in taken(follower)]
    assert rows == [[(3, 4, 0, 1)]]


@given(st.data())
def test_whatever_the_cuts_every_row_comes_once(data):
    import tempfile
    from pathlib import Path

    count = data.draw(st.integers(0, 20))
    rows = [(at + 1, at + 2, 0, 1) for at in range(count)]
    content = HEADER + b"".join(row(*each) for each in rows)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=5)))
    with tempfile.TemporaryDirectory() as folder:
        spans = Path(folder) / "raw" / "h.1.spans"
        spans.parent.mkdir()
        follower = Follower(folder)
        found = []
        for cut in [*cuts, len(content)]:
            spans.write_bytes(content[:cut].ljust(len(content), b"\0") + bytes(32))
            found += [each for new in follower.poll() for each in new.rows]
    # A row that was cut inside its last number may have been read as whole with half a site: such a
    # cut is none that a writer makes, which stores the site in one piece.
    if all((cut - 1024) % 32 <= 24 for cut in cuts):
        assert found == rows
