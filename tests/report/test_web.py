"""The page of a run that goes on: who may see it, and what it is given."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from itertools import pairwise

import pytest

from injector.live.snapshot import Snapshot
from injector.report.web import KEPT, History, Page


def snapshot(at=0.0, **more):
    given = {
        "name": "<b>train</b>",
        "elapsed": at,
        "state": "training",
        "steps": int(at),
        "goal": 100,
        "left": 1.0,
        "unit": "items/s",
        "rate": float("nan"),
        "overall": 5.0,
        "step": 0.1,
        "regions": {"io": 0.25},
        "values": {"train/loss": 0.5},
        "ranks": (),
        "devices": (),
        "hosts": (),
    }
    return Snapshot(**{**given, **more})


@pytest.fixture
def page():
    made = Page()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def get(address):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(address, timeout=60)


def test_the_page_and_its_state(page):
    page.show(snapshot(1.0))
    answer = get(page.address)
    assert b"<!doctype html>" in answer.read()
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    state = json.loads(get(page.address + "state").read())
    assert state["now"]["steps"] == 1
    assert state["now"]["rate"] == "nan"
    assert state["history"][0]["loss"] == 0.5


def test_before_the_first_snapshot(page):
    assert json.loads(get(page.address + "state").read()) == {"now": {}, "history": []}


@pytest.mark.parametrize("path", ["", "state", "wrong/state", "wrong/", "%00", "../"])
def test_without_the_token_there_is_nothing(page, path):
    root = page.address[: page.address.index("/", 8) + 1]
    with pytest.raises(urllib.error.HTTPError) as error:
        get(root + path)
    assert error.value.code == 404


def test_it_is_there_on_this_machine_only(page):
    assert page.server_address[0] == "127.0.0.1"
    assert len(page.token) >= 32


def test_two_pages_have_two_addresses(page):
    other = Page()
    assert other.address != page.address
    other.server_close()


def test_history_is_thinned_out_evenly():
    history = History()
    for at in range(10 * KEPT):
        history.add(snapshot(float(at)))
    points = history.points()
    assert KEPT // 2 <= len(points) <= KEPT
    gaps = {b["time"] - a["time"] for a, b in pairwise(points)}
    assert max(gaps) <= 2 * min(gaps)
