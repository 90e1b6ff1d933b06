"""Runs that nodes of one job recorded apart become one, or stay as they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from raw import gather
from spans import SECOND, payload, site, write_process

from injector.analysis.columns import read_rows, sources
from injector.analysis.summary import summarise
from injector.bus import joining
from injector.bus.readable import collected
from injector.errors import UserError
from injector.store.folder import open_run
from injector.store.seal import pack

SITES = [
    site(1, "step", task="train", payload="items", line=3),
    site(2, "comm", what="barrier", line=5),
    site(3, "comm", what="all_reduce", line=6),
]
BEGAN = 1_700_000_000.0
"""Unix time at which every process began, by a right clock."""
STEP = SECOND // 10


def node(
    folder: Path,
    rank: int | None,
    *,
    host: str | None = None,
    wrong: float = 0.0,
    boot: float = 0.0,
    late: float = 0.0,
    waits: int = 2,
    pid: int = 7,
    name: str = "x",
    began: float = BEGAN,
    world: int = 2,
    done: bool = True,
    **options: Any,
) -> Path:
    """A run of 30 steps and two barriers around them, of a host whose wall clock is ``wrong``.

    ``boot`` is when its monotonic clock was 0. Its rank enters barriers ``late``; both leave them 40 ms
    after the first could have entered.
    """
    zero = round((began - BEGAN + 1000 - boot) * SECOND)
    rows = []
    for turn in (SECOND, 5 * SECOND):
        start = zero + turn + round(late * SECOND)
        rows.append((start, zero + turn + 40_000_000, 0, waits))
    for step in range(30):
        start = zero + 2 * SECOND + step * STEP
        rows.append((start, start + STEP, payload(items=4), 1))
    write_process(
        folder,
        SITES,
        rows,
        pid=pid,
        host=host or f"node{rank}",
        time=began + wrong,
        monotonic_ns=zero,
        rank=rank,
        world=world,
        attempt=0,
        ended=zero + 6 * SECOND,
        events=[("data", {"task": "train", "seen": rank}, zero + 3 * SECOND)],
    )
    if done:
        gather(folder, name=name, started=began + wrong, ended=began + wrong + 6, **options)
    return folder


def joined(*folders: Path) -> dict[str, Any]:
    out = folders[0].parent / "whole"
    joining.join([str(folder) for folder in folders], str(out))
    with collected(open_run(str(out))) as run:
        assert not run.damage
        return run.info


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def about_clocks(info: dict[str, Any]) -> str:
    [text] = [text for text in info["remarks"] if "clock" in text]
    return text


def test_two_nodes_become_one_run_with_all_that_both_recorded(tmp_path):
    a, b = node(tmp_path / "a", 0), node(tmp_path / "b", 1, late=0.03)
    before = content(a), content(b)
    infos = [json.loads((each / "run.json").read_text()) for each in (a, b)]
    info = joined(b, a)
    assert (content(a), content(b)) == before
    assert [(each["host"], each["rank"]) for each in info["processes"]] == [
        ("node0", 0),
        ("node1", 1),
    ]
    assert info["records"] == sum(each["records"] for each in infos)
    raw = {name: text for each in before for name, text in each.items() if name.startswith("raw")}
    whole = content(tmp_path / "whole")
    assert {name: text for name, text in whole.items() if name.startswith("raw")} == raw
    seen = [
        event["data"]["seen"]
        for event in map(json.loads, whole["x.D0.data"].splitlines())
        if event["event"] == "data" and "seen" in event["data"]
    ]
    assert sorted(seen) == [0, 1]
    with collected(open_run(str(tmp_path / "whole"))) as run:
        summary = summarise(run)
    assert not summary.problem and summary.profile
    [loop] = summary.profile.loops
    assert [(each.rank, each.host, each.steps) for each in loop.ranks] == [
        (0, "node0", 30),
        (1, "node1", 30),
    ]
    assert loop.throughput.items == pytest.approx(80)


def test_the_drift_of_a_clock_that_is_moved_is_the_same(tmp_path):
    """That of node1, which gains 1 ms in a second on the clock of its own run."""
    a = node(tmp_path / "a", 0)
    b = node(tmp_path / "b", 1, wrong=-300.0, boot=-70.0, done=False)
    began = {
        "schema": 1,
        "pid": 9,
        "host": "node1",
        "time": BEGAN - 300,
        "monotonic_ns": 1070 * SECOND,
    }
    lines = [{"event": "process", "data": began, "t": 0}]
    for second in range(7):
        showed = BEGAN - 300 + second * (1 - 1e-3)
        data = {"at": (1070 + second) * SECOND, "low": showed - 1e-5, "high": showed + 1e-5}
        lines.append({"event": "clock", "data": data, "t": 0})
    lines.append({"event": "clock", "data": {"at": 5}, "t": 0})
    (b / "raw/node1.9.drift").write_text("".join(json.dumps(line) + "\n" for line in lines))
    gather(b, started=BEGAN - 300, ended=BEGAN - 294)
    joined(a, b)
    with collected(open_run(str(tmp_path / "whole"))) as run:
        zero, one = sources(run)
        moved = zero.began / 1e9 - BEGAN
        assert (zero.drift, one.host) == (None, "node1") and abs(moved) < 1e-6
        first, second = (read_rows(each) for each in (zero, one))
    behind = (second.start - first.start) / 1e9
    after = (first.start - first.start[0]) / 1e9
    assert behind - behind[0] == pytest.approx(-1e-3 * after, abs=1e-6)
    assert behind[0] == pytest.approx(-1e-3, abs=0.05)  # as the barriers say, and a second of drift


@pytest.mark.parametrize("wrong", [5.0, -300.0])
def test_a_clock_that_barriers_show_to_be_wrong_is_moved(tmp_path, wrong):
    a = node(tmp_path / "a", 0, late=0.01)
    b = node(tmp_path / "b", 1, wrong=wrong, boot=-70.0, late=0.03)
    info = joined(a, b)
    text = about_clocks(info)
    assert text == (
        f"the clock of node1 is moved by {-wrong - 0.01:+.6g} s to that of node0, by 2 barriers; "
        "the error is at most 20 ms"
    )
    for each in info["processes"]:
        assert each["time"] == pytest.approx(BEGAN, abs=0.021)
    assert info["started"] == pytest.approx(BEGAN, abs=0.021)
    assert info["duration"] == pytest.approx(6, abs=0.042)


def test_a_clock_that_may_be_right_stays_and_its_error_is_named(tmp_path):
    info = joined(node(tmp_path / "a", 0, late=0.01), node(tmp_path / "b", 1, wrong=0.002))
    assert about_clocks(info) == (
        "the clocks of node0 and node1 differ by at most 38 ms, by 2 barriers"
    )
    assert [each["time"] for each in info["processes"]] == [BEGAN, BEGAN + 0.002]


@pytest.mark.parametrize("waits", [1, 3])
def test_what_does_not_wait_for_all_says_nothing_of_clocks(tmp_path, waits):
    """Steps, and collectives whose call may return before they have taken place."""
    a, b = (node(tmp_path / str(rank), rank, wrong=rank, waits=waits) for rank in range(2))
    assert about_clocks(joined(a, b)).startswith("the clock of node1 is taken as it is")


def test_barriers_that_contradict_each_other_say_nothing_of_clocks(tmp_path):
    a, b = node(tmp_path / "a", 0), node(tmp_path / "b", 1, done=False)
    rows = [(SECOND * 1_000 + SECOND, SECOND * 1_001 + 1, 0, 2)]
    rows.append((SECOND * 1_003, SECOND * 1_003 + 1, 0, 2))
    shutil.rmtree(b)
    write_process(
        b, SITES, rows, host="node1", time=BEGAN, monotonic_ns=1_000 * SECOND, rank=1, world=2
    )
    gather(b, started=BEGAN, ended=BEGAN + 6)
    assert about_clocks(joined(a, b)).startswith("the clock of node1 is taken as it is")


def test_two_launchers_on_one_host_have_one_clock(tmp_path):
    a, b = (node(tmp_path / str(rank), rank, host="h", pid=rank + 1) for rank in range(2))
    info = joined(a, b)
    assert {each["host"] for each in info["processes"]} == {"h"} and not info["remarks"]


def test_machines_of_one_name_stay_two(tmp_path):
    a = node(tmp_path / "a", 0, host="localhost")
    b = node(tmp_path / "b", 1, host="localhost", boot=-70.0)
    info = joined(a, b)
    assert {each["host"]: each["rank"] for each in info["processes"]} == {
        "localhost": 0,
        "localhost-2": 1,
    }
    assert "localhost-2 is what another machine named localhost is called here" in info["remarks"]
    assert info["records"] == 2 * json.loads((a / "run.json").read_text())["records"]


def test_what_one_part_says_of_its_end_is_kept(tmp_path):
    b = node(tmp_path / "b", 1, exit=3, problems=["no space"], exits={7: 3}, timed_out=True)
    info = joined(node(tmp_path / "a", 0, tags={"lr": "1"}, price=(2.0, "EUR")), b)
    assert (info["exit"]["code"], info["timed_out"], info["tags"]) == (3, True, {"lr": "1"})
    assert info["problems"] == ["node1: no space"] and "price" not in info


def test_prices_of_all_parts_add_up(tmp_path):
    a, b = (node(tmp_path / str(rank), rank, price=(2.0, "EUR")) for rank in range(2))
    assert joined(a, b)["price"] == {"per_hour": 4.0, "currency": "EUR"}


def test_artifacts_of_one_name_are_both_kept(tmp_path):
    for rank in range(3):
        folder = tmp_path / str(rank) / "artifacts"
        folder.mkdir(parents=True)
        (folder / "note").write_text(f"of {rank}")
    joined(*(node(tmp_path / str(rank), rank, world=3) for rank in range(3)))
    kept = content(tmp_path / "whole" / "artifacts")
    assert kept == {"note": b"of 0", "note.1": b"of 1", "note.2": b"of 2"}


def test_a_packed_part_has_its_steps(tmp_path):
    pytest.importorskip("pyarrow")
    a, b = node(tmp_path / "a", 0), node(tmp_path / "b", 1)
    plain = joined(a, b)
    (tmp_path / "whole").rename(tmp_path / "plain")
    pack(str(b))
    packed = joined(a, b)
    assert packed["records"] == plain["records"]
    data = [(tmp_path / each / "x.D0.data").read_text().splitlines() for each in ("plain", "whole")]
    assert data[0][3:] == data[1][3:]


def test_a_part_whose_inject_died_is_taken_and_named(tmp_path):
    a, b = node(tmp_path / "a", 0), node(tmp_path / "b", 1, done=False)
    info = joined(b, a)
    assert info["name"] == "x" and len(info["processes"]) == 2
    assert any("node1: how the program ended is not known" in text for text in info["problems"])
    assert not (b / "run.json").exists()


def test_what_is_whole_of_a_damaged_part_is_taken_and_the_rest_named(tmp_path):
    a, b = node(tmp_path / "a", 0), node(tmp_path / "b", 1)
    path = next((b / "raw").glob("*.spans"))
    path.write_bytes(path.read_bytes()[:-64])
    info = joined(a, b)
    assert len(info["processes"]) == 2
    assert any("node1: raw/node1.7.spans is cut" in text for text in info["problems"])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"rank": 0}, "rank 0 is in"),
        ({"rank": None}, "no process in it has a rank"),
        ({"rank": 1, "name": "y"}, "is a run of y"),
        ({"rank": 1, "world": 4}, "these are two jobs"),
        ({"rank": 1, "began": BEGAN + 60}, "had ended 54.0 s before"),
    ],
)
def test_what_is_no_part_of_the_job_is_refused_and_nothing_is_made(tmp_path, other, message):
    a, b = node(tmp_path / "a", 0, waits=1), node(tmp_path / "b", **{"waits": 1, **other})
    with pytest.raises(UserError, match=message):
        joined(a, b)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_ranks_of_another_attempt_are_no_conflict(tmp_path):
    """An elastic launcher may give a rank to another node when it starts all anew."""
    a, b = node(tmp_path / "a", 0), node(tmp_path / "b", 1)
    log = next((b / "raw").glob("*.log"))
    log.write_text(
        log.read_text().replace('"rank": 1', '"rank": 0').replace('"attempt": 0', '"attempt": 1')
    )
    for name in ("run.json", "x.D0.data"):
        (b / name).unlink()
    gather(b, started=BEGAN, ended=BEGAN + 6)
    assert [(each["rank"], each["attempt"]) for each in joined(a, b)["processes"]] == [
        (0, 0),
        (0, 1),
    ]


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    a, b = node(tmp_path / "a", 0), node(tmp_path / "b", 1)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("injector.bus.collector.replace_file", full)
    with pytest.raises(UserError, match="No space left"):
        joined(a, b)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_folder_that_exists_is_not_touched(tmp_path):
    a, b = node(tmp_path / "a", 0), node(tmp_path / "b", 1)
    before = content(tmp_path)
    with pytest.raises(UserError, match="exists already"):
        joining.join([str(a), str(b)], str(a))
    assert content(tmp_path) == before
