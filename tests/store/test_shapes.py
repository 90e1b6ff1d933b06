from __future__ import annotations

import pytest

from injector.store.record_shapes import makes_sense
from injector.store.shapes import RUN, misfit


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"tags": 3}, "its key tags is a number and no map"),
        (
            {"flops": {"precisions": {"x": "y"}}},
            "its key flops.precisions.x is a text and no number",
        ),
        (
            {"processes": [{"exit": {"code": "x"}}]},
            "its key processes[0].exit.code is a text and no number",
        ),
        ({"tags": None, "another": 3}, None),
    ],
)
def test_what_run_json_may_hold(value, text):
    assert misfit(value, RUN, sparse=True) == text


@pytest.mark.parametrize(
    ("event", "data", "fits"),
    [
        ("rank", {"rank": None, "world": 3}, True),
        ("rank", {"rank": None}, False),
        ("end", {}, True),
        ("end", {"code": "x"}, False),
        ("fired", {"x": 2}, True),
        ("fired", {"x": True}, False),
        ("devices", {"0": {"load": 0.5, "name": None}}, True),
        ("devices", {"0": {"load": None}}, False),
        ("site", {"site": 1, "region": "io", "place": None}, True),
        ("site", {"site": 0, "region": "io"}, False),
        ("another", 3, True),
    ],
)
def test_what_records_may_hold(event, data, fits):
    assert makes_sense({"event": event, "t": 5, "data": data}) == fits
