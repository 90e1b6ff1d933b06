"""The page of a run that goes on: who may see it, and what it is given."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from itertools import pairwise

import pytest

from injector.live.snapshot import DeviceRow, HostRow, RankRow, Snapshot, TaskRow
from injector.report.live_page import KEPT, History, LivePage
from injector.report.web import PageServer


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
    """A page of a suite, with the page of one run."""
    run = LivePage("run", "toy")
    run.show(snapshot(3.0))
    made = PageServer(LivePage("suite"), run_page={"a.R0/D0": run}.get)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def get(address):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(address, timeout=60)


def test_the_page_and_its_state(page):
    page.page.show(snapshot(1.0))
    answer = get(page.address)
    assert b"<!doctype html>" in answer.read()
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    state = json.loads(get(page.address + "state").read())
    assert state["now"]["steps"] == 1
    assert state["now"]["rate"] == "NaN"
    assert state["series"]["loss"] == {"train/loss": [[1.0, 0.5]]}
    assert state["over"] is False


def test_before_the_first_snapshot(page):
    assert json.loads(get(page.address + "state").read()) == {
        "now": {},
        "series": {},
        "over": False,
        "report": 0,
        "trouble": "",
    }


@pytest.mark.parametrize("path", ["", "state", "wrong/state", "wrong/", "%00", "../", "runs/a/"])
def test_without_the_token_there_is_nothing(page, path):
    root = page.address[: page.address.index("/", 8) + 1]
    with pytest.raises(urllib.error.HTTPError) as error:
        get(root + path)
    assert error.value.code == 404


def test_the_runs_of_a_suite_have_pages_of_their_own(page):
    own = f"{page.address}runs/a.R0%2FD0/"
    assert b'<a href="../../">suite toy</a>' in get(own).read()
    assert json.loads(get(own + "state").read())["now"]["steps"] == 3
    for wrong in (page.address + "runs/b/", own + "report", own + "x", page.address + "report"):
        with pytest.raises(urllib.error.HTTPError) as error:
            get(wrong)
        assert error.value.code == 404


def test_it_is_there_on_this_machine_only(page):
    assert page.server_address[0] == "127.0.0.1"
    assert len(page.token) >= 32


def test_two_pages_have_two_addresses(page):
    other = PageServer(LivePage())
    assert other.address != page.address
    other.server_close()


def test_history_is_thinned_out_evenly():
    history = History()
    for at in range(10 * KEPT):
        history.add(snapshot(float(at)))
    points = history.lines()["loss"]["train/loss"]
    assert KEPT // 2 <= len(points) <= KEPT
    gaps = {b[0] - a[0] for a, b in pairwise(points)}
    assert max(gaps) <= 2 * min(gaps)


def test_a_run_that_is_over_has_all_of_its_time_series(page):
    page.page.show(snapshot(1.0))
    page.page.publish(({}, {}), {"rate": {"train": [(0.0, 7.0)]}}, over=True)
    state = json.loads(get(page.address + "state").read())
    assert state["over"] is True
    assert state["series"] == {"rate": {"train": [[0.0, 7.0]]}}


def test_plots_have_what_was_recorded():
    ranks = tuple(RankRow(n, n, "h", None, 5, 4.0, 0.25, None, "training") for n in range(12))
    task = TaskRow("train", 2, 5, "items/s", 8.0, 7.0, 0.25, True)
    other = TaskRow("eval", 2, 5, "steps/s", 3.0, 7.0, 0.25, True)
    rest = TaskRow("gen", 2, 5, "items/s", 3.0, 7.0, 0.25, False)
    history = History()
    for at in range(2):
        history.add(
            snapshot(
                float(at),
                ranks=ranks,
                tasks=(task, other, rest),
                devices=(DeviceRow("0", "A", "h", 0.5, 2e9, 4e9, 60.0, 250.0),),
                hosts=(HostRow("h", 0.75, 0.5, 3e9), HostRow("i", None, None, None)),
            )
        )
    last = {
        kind: {name: points[-1][1] for name, points in lines.items()}
        for kind, lines in history.lines().items()
    }
    assert last["rate"] == {"train": 8.0}, "what is not at work, or counts otherwise, is not"
    assert len(last["step"]) == 12 and last["step"]["rank 0"] == 0.25
    assert (last["load"], last["memory"], last["power"]) == ({"0": 0.5}, {"0": 2e9}, {"0": 250.0})
    assert (last["cpu"], last["rss"]) == ({"h": 0.75}, {"h": 3e9})


def test_devices_of_several_hosts_are_kept_apart():
    history = History()
    rows = (DeviceRow("0", "A", host, 0.5, None, None, None, None) for host in "hi")
    history.add(snapshot(devices=tuple(rows)))
    assert set(history.lines()["load"]) == {"h 0", "i 0"}
