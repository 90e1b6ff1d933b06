"""The reader of call sites, and the process that writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.measure import sites
from injector.store.call_sites import MOST, CallSite, SourceLine, call_site, read_call_sites
from injector.value_class import fields

KEYS = {"number": "site", "object_id": "of", "label": "what"}
"""Of the event, where a field has another name."""
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


def written(**about: object) -> dict[str, object]:
    """What a process writes of a site of its own."""
    events: list[object] = []
    made = sites.Sites(lambda event, data: events.append(data), lambda: None)
    made.number(place=None, of=None, **about)
    [data] = events
    return json.loads(json.dumps(data))


def test_every_field_is_written_under_its_key():
    data = written(region="io")
    assert set(data) == {KEYS.get(name, name) for name in fields(CallSite)}
    assert call_site(data) == CallSite(1, "io", selector="")


@pytest.mark.parametrize("key", ["selector", "asked"])  # as it is written, and in older folders
def test_a_place_is_read(tmp_path: Path, key: str):
    place = {"file": "/x/train.py", "line": 3, "function": "main", "text": "  for x in loader:"}
    data = {**written(region="io"), "place": place, "of": 2, "what": "DataLoader"}
    del data["selector"]
    data[key] = "//f"
    found = call_site(data)
    assert found is not None
    assert found.place == SourceLine("/x/train.py", 3, "main", "for x in loader:")
    assert (found.object_id, found.label, found.selector) == (2, "DataLoader", "//f")
    lines = [{"event": "site", "data": data, "t": 1}, {"event": "end", "data": {}, "t": 2}]
    log = tmp_path / "host.1.log"
    log.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    assert read_call_sites(str(log)) == {1: found}


@given(st.dictionaries(st.sampled_from(sorted(written(region="io"))), ANYTHING))
def test_damage_leaves_a_site_that_can_be_used_or_none(data: dict[str, object]):
    found = call_site(data)
    assert (found is None) == (
        type(data.get("site")) is not int
        or not 0 < data["site"] <= MOST
        or not isinstance(data.get("region"), str)
    )
    if found is not None:
        assert isinstance(found.thread, int) and isinstance(found.place, (SourceLine, type(None)))


@pytest.mark.parametrize("data", [None, [], "site", 3])
def test_what_is_no_map_is_no_site(data: object):
    assert call_site(data) is None
