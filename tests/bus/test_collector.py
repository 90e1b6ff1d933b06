from __future__ import annotations

import json
import os
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw import SECOND, data_lines, event, gather, landing, process, write_log

from injector.bus import collector
from injector.bus.readable import repair
from injector.bus.writer import Writer
from injector.store.logs import Damage, read_records
from injector.store.run_json import NotARunError


def kinds(info: dict[str, Any]) -> list[str]:
    return [warning["kind"] for warning in info["warnings"]]


def test_files_count_as_changed_when_they_are_collected(tmp_path: Path) -> None:
    """Writes through a mapping change no time, by which rsync finds what to copy."""
    write_log(tmp_path, "h.1", [process(1, 100.0, 5 * SECOND)])
    log = tmp_path / "raw" / "h.1.log"
    os.utime(log, (1, 1))
    gather(tmp_path)
    assert log.stat().st_mtime > 1e9


def test_events_in_milabenchs_form(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        "h.1",
        [
            process(1, 100.0, 5 * SECOND),
            event("phase", {"name": "init"}, 5 * SECOND),
            event("data", {"task": "train", "rate": 2.0, "units": "items/s"}, 6 * SECOND),
            event("value", {"series": "train/loss", "value": 0.5}, 7 * SECOND),
            event("value", {"series": "lr", "value": 0.1}, 8 * SECOND),
            event("data", {"time": 3, "x": 1}, 8 * SECOND),
            event("line", "text", 8 * SECOND),
            event("stop", {}, 8 * SECOND),
            event("error", {"type": "ValueError", "message": "m"}, 9 * SECOND),
            event("fired", {}, 9 * SECOND),
            event("end", {}, 9 * SECOND),
        ],
    )
    info = gather(tmp_path)
    lines = data_lines(tmp_path)
    assert all(list(line) == ["event", "data", "pipe"] for line in lines)
    names = [line["event"] for line in lines]
    middle = ["phase", "data", "data", "data", "data", "line", "stop", "error"]
    assert names == ["config", "meta", "start", *middle, "end"]
    assert [line["data"] for line in lines[4:9]] == [
        {"task": "train", "rate": 2.0, "units": "items/s", "time": 101.0},
        {"task": "train", "loss": 0.5, "time": 102.0},
        {"lr": 0.1, "time": 103.0},
        {"time": 3, "x": 1},
        "text",
    ]
    assert [line["pipe"] for line in lines[3:-1]] == ["data"] * 8
    assert lines[0]["data"]["name"] == "x" and lines[2]["data"]["time"] == 100.0
    assert lines[-1]["data"] == {"command": ["python", "x.py"], "time": 112.5, "return_code": 0}
    assert info["stopped"] and info["duration"] == 12.5
    assert (info["records"], info["lost"], info["torn"]) == (11, 0, 0)


def test_run_json(tmp_path: Path) -> None:
    write_log(tmp_path, "h.1", [process(1, 100.0, 0), event("end", {}, 1)])
    info = gather(tmp_path, program={"script": __file__}, voirfiles=["/v.py"], problems=["no disk"])
    text = (tmp_path / "run.json").read_text()
    written = json.loads(text)
    assert written.pop("checksum") and written == info
    assert text.startswith('{\n "schema": 1,')
    assert info["exit"] == {"code": 0, "signal": None}
    assert info["voirfiles"] == ["/v.py"] and info["program"] == {"script": __file__}
    assert info["cpu"]["count"] == os.cpu_count() and info["host"] == os.uname().nodename
    assert info["python"] == "3.11.7"
    assert kinds(info) == ["problem"]
    assert not list(tmp_path.glob("*.draft"))
    assert gather(tmp_path, exit=-9)["exit"] == {"code": None, "signal": 9}
    assert gather(tmp_path, exit=None)["exit"] == {"code": None, "signal": None}


def test_processes_in_the_order_of_time(tmp_path: Path) -> None:
    # The wall clock jumped back by 50 s before the second began; the monotonic clock did not.
    write_log(
        tmp_path,
        "h.1",
        [process(1, 100.0, 0)] + [event("data", {"n": n}, n * SECOND) for n in (1, 3, 2, 7)],
    )
    write_log(
        tmp_path,
        "h.2",
        [process(2, 54.0, 4 * SECOND)] + [event("data", {"n": n}, n * SECOND) for n in (5, 6)],
    )
    info = gather(tmp_path)
    assert [p["pid"] for p in info["processes"]] == [1, 2]
    found = [line["data"] for line in data_lines(tmp_path) if line["event"] == "data"]
    assert [data["n"] for data in found] == [1, 3, 2, 5, 6, 7]
    assert [data["process"] for data in found] == [0, 0, 0, 1, 1, 0]
    assert found[3]["time"] - found[0]["time"] == 4.0


def test_hosts_have_their_own_clocks(tmp_path: Path) -> None:
    write_log(tmp_path, "h.1", [process(1, 100.0, 0), event("data", {"n": 2}, 2 * SECOND)])
    write_log(
        tmp_path,
        "g.1",
        [process(1, 101.0, 900 * SECOND, host="g"), event("data", {"n": 1}, 900 * SECOND)],
    )
    gather(tmp_path)
    found = [line["data"] for line in data_lines(tmp_path) if line["event"] == "data"]
    assert [(data["n"], data["time"]) for data in found] == [(1, 101.0), (2, 102.0)]


@pytest.mark.parametrize("name", ["request", "asked"])  # as it is written, and in older folders
def test_probes_over_processes(tmp_path: Path, name: str) -> None:
    def log(pid: int, *events: Any, **more: Any) -> None:
        write_log(tmp_path, f"h.{pid}", [process(pid, 100.0 + pid, 0, **more), *events])

    asked = event(name, {"selector": "//f > x", "file": "v.py", "line": 4}, 1)
    probe = event("probe", {"selector": "//f > x", "hook": "i:1", "landing": landing()}, 1)
    other = event("probe", {"selector": "//f > x", "hook": "i:1", "landing": landing(9)}, 1)
    miss = event("miss", {"selector": "//f > x", "reason": "no f", "nearest": ["g"]}, 1)
    log(1, asked, probe, event("fired", {"//f > x": 3}, 2), event("end", {}, 3))
    log(2, asked, probe, other, event("fired", {"//f > x": 4}, 2), event("end", {}, 3))
    log(3, asked, miss, event("fired", {"//f > x": 0}, 2), event("end", {}, 3))
    info = gather(tmp_path)
    [found] = info["probes"]
    assert (found["selector"], found["voirfile"]) == ("//f > x", "v.py:4")
    assert (found["fired"], found["exact"]) == (7, True)
    assert [(p["line"], p["processes"]) for p in found["places"]] == [(3, [0, 1]), (9, [1])]
    assert info["misses"] == [] and info["warnings"] == []

    log(4, asked, probe, event("first", {"selector": "//f > x"}, 2))  # and then it was killed
    [found] = gather(tmp_path)["probes"]
    assert (found["fired"], found["exact"]) == (8, False)


def test_forked_children_count_too(tmp_path: Path) -> None:
    probe = event("probe", {"selector": "s", "landing": landing()}, 1)
    parent = [process(1, 100.0, 0), probe, event("fired", {"s": 3}, 2), event("end", {}, 3)]
    write_log(tmp_path, "h.1", parent)
    child = process(2, 101.0, 0, ppid=1)
    write_log(tmp_path, "h.2", [child, event("data", {}, 1)])
    assert gather(tmp_path)["probes"][0]["exact"] is False
    write_log(tmp_path, "h.2", [child, event("fired", {"s": 2}, 1)])
    [found] = gather(tmp_path)["probes"]
    assert (found["fired"], found["exact"]) == (5, True)


def test_a_probe_in_what_was_compiled(tmp_path: Path) -> None:
    events = [
        event("probe", {"selector": "s", "landing": landing()}, 1),
        event("fired", {"s": 0}, 2),
        event("compiled", {"selectors": ["s"]}, 2),
        event("end", {}, 3),
    ]
    write_log(tmp_path, "h.1", [process(1, 100.0, 0), *events])
    info = gather(tmp_path)
    assert info["probes"][0]["compiled"] is True
    [warning] = info["warnings"]
    assert warning["kind"] == "never-fired"
    assert "its function was compiled (torch.compile, Numba)" in warning["text"]


def test_warnings(tmp_path: Path) -> None:
    def probe(selector: str) -> Any:
        return event("probe", {"selector": selector, "landing": landing()}, 1)

    failure = {"where": "v.py", "type": "ValueError", "message": "bad"}
    trace = (
        'Traceback (most recent call last):\n  File "v.py", line 3, in h\n    boom()\nValueError'
    )
    write_log(
        tmp_path,
        "h.1",
        [
            process(1, 100.0, 0),
            event("lost", {"records": 7, "why": "ENOSPC          "}, 0),
            probe("fires"),
            probe("silent"),
            event("asked", {"selector": "lazy", "file": "v.py", "line": 1}, 1),
            event("miss", {"selector": "wrong", "reason": "no f", "nearest": ["g", "h"]}, 1),
            probe("half"),
            event("miss", {"selector": "half", "reason": "no x in f", "nearest": []}, 1),
            event("failure", {**failure, "trace": trace}, 1),
            event("failure", {**failure, "trace": trace}, 1),
            event("fired", {"fires": 1, "silent": 0, "lazy": 0, "half": 0, "wrong": 0}, 2),
            event("end", {}, 3),
        ],
        tail=b'{"event": "da\0\0\0\0',
    )
    info = gather(tmp_path)
    texts = {(warning["kind"], warning["text"].splitlines()[0]) for warning in info["warnings"]}
    assert texts == {
        ("missed", "wrong: no f"),
        ("missed", "half: no x in f"),
        ("never-fired", "silent: never fired"),
        ("unattached", "lazy: attached nowhere, as the program never loaded the code it names"),
        ("failure", "v.py: ValueError: bad"),
        ("lost", "7 records of process 1 on h were lost (No space left on device)"),
        ("torn", "1 torn record of process 1 on h was left out"),
    }
    [failed] = [w["text"] for w in info["warnings"] if w["kind"] == "failure"]
    assert failed.endswith('File "v.py", line 3, in h')
    [wrong] = [w["text"] for w in info["warnings"] if w["text"].startswith("wrong")]
    assert wrong.endswith("nearest: g, h")
    assert (info["lost"], info["torn"]) == (7, 1)


@pytest.mark.parametrize(
    "tail", [b"", b"\0" * 5000, b'{"event":"data","da', b'"x":1}\n', b"\0\0{}\n"]
)
def test_torn_tails(tmp_path: Path, tail: bytes) -> None:
    write_log(tmp_path, "h.1", [process(1, 1.0, 0), event("data", {"n": 1}, 1)], tail)
    info = gather(tmp_path)
    assert info["torn"] == (1 if tail.strip(b"\0") else 0)
    assert [line["data"]["n"] for line in data_lines(tmp_path) if line["event"] == "data"] == [1]


def test_a_hole_in_the_middle(tmp_path: Path) -> None:
    write_log(
        tmp_path, "h.1", [process(1, 1.0, 0)], b"\0" * 9 + b'{"event":"data","data":1,"t":2}\n'
    )
    assert gather(tmp_path)["records"] == 2


def test_a_run_that_recorded_nothing(tmp_path: Path) -> None:
    info = gather(tmp_path)
    assert info["processes"] == info["probes"] == info["warnings"] == []
    assert [line["event"] for line in data_lines(tmp_path)] == ["config", "meta", "start", "end"]


def test_a_file_without_its_first_record(tmp_path: Path) -> None:
    write_log(tmp_path, "node.7.42", [], b'{"event":"proc')
    [process] = gather(tmp_path)["processes"]
    assert (process["host"], process["pid"], process["torn"]) == ("node.7", 42, 1)


def test_a_later_schema_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path, "h.1", [process(1, 1.0, 0) | {"data": {"schema": 99}}])
    with pytest.raises(NotARunError, match="schema is 99"):
        gather(tmp_path)


def test_no_room_for_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path, "h.1", [process(1, 1.0, 0), event("fired", {"s": 3}, 1)])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(collector, "replace_file", full)
    monkeypatch.setattr(collector, "write_info", full)
    info = gather(tmp_path)
    assert info["probes"][0]["fired"] == 3
    assert len(info["problems"]) == 2 and kinds(info).count("problem") == 2


def test_repair(tmp_path: Path) -> None:
    folder, out = tmp_path / "x.2026-01-01_00-00-00.000000", tmp_path / "out"
    out.mkdir()
    write_log(folder, "h.1", [process(1, 100.0, 0), event("data", {"rate": 1.0}, 5)])
    before = sorted(folder.rglob("*"))
    info = repair(str(folder), str(out))
    assert sorted(folder.rglob("*")) == before
    assert info["command"] == ["python", "x.py"] and info["exit"]["code"] is None
    assert any(line["data"].get("rate") for line in data_lines(out))
    assert info["packages"] == {}, "the process has none: those of its reader are others"


def test_end_to_end(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    writer.emit("data", {"task": "train", "rate": float("nan"), "x": object()})
    writer.emit("end", {})
    writer.close()
    info = gather(tmp_path)
    [data] = [line["data"] for line in data_lines(tmp_path) if line["event"] == "data"]
    assert data["rate"] == "NaN" and "$unserializable" in data["x"]
    assert info["python"] == ".".join(map(str, sys.version_info[:3]))
    assert info["packages"]["pytest"] == pytest.__version__
    assert info["processes"][0]["argv"] == sys.orig_argv


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3)
    ),
    max_leaves=6,
)
KEYS = """
    selector landing nearest reason where type message trace series value rate task records why
    file line time schema pid host region seconds
"""
keys = st.sampled_from(KEYS.split())
EVENTS = """
    process request probe miss fired first failure lost value data end stop phase region error
    start odd
"""
events = st.sampled_from(EVENTS.split())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(events, anything | st.dictionaries(keys, anything), anything)))
def test_records_of_any_shape(tmp_path: Path, records: list[Any]) -> None:
    """Voirfiles may emit events of any name and shape; the collector takes them all."""
    from injector.analysis.summary import summarise
    from injector.report.terminal import render
    from injector.store.folder import open_run

    made = [event(name, data, t) for name, data, t in records]
    write_log(tmp_path, "h.1", [process(1, 100.0, 0), *made])
    gather(tmp_path)
    lines = render(summarise(open_run(str(tmp_path)))).splitlines()
    assert all(len(line) <= 100 for line in lines[:-1])


@pytest.mark.parametrize(
    ("voirfiles", "exit", "kinds"), [(["x.py"], 0, ["unattached"]), (["x.py"], 1, []), ([], 0, [])]
)
def test_a_voirfile_that_no_one_loaded(
    tmp_path: Path, voirfiles: list[str], exit: int, kinds: list[str]
) -> None:
    info = gather(tmp_path, voirfiles=voirfiles, exit=exit)
    assert [warning["kind"] for warning in info["warnings"]] == kinds


MANY = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
from injector.bus.collector import FinishedRun, collect
info = collect(sys.argv[1], FinishedRun(["x.py"], "x", 100.0, 112.5, 0))
print(info["records"], len(info["processes"]), *info["problems"])
"""


def test_a_run_has_more_logs_and_series_than_a_process_may_open(tmp_path: Path) -> None:
    for pid in range(60):
        write_log(
            tmp_path, f"h.{pid}", [process(pid, 100.0, 5 * SECOND), event("end", {}, 6 * SECOND)]
        )
        times = array("d", [5.5, 5.6] + [0.0] * 4030).tobytes()
        title = json.dumps({"event": "series", "data": {"series": "loss"}}).encode()
        (tmp_path / "raw" / f"h.{pid}.0.values").write_bytes(title.ljust(1024, b"\0") + 2 * times)
    words = [sys.executable, "-c", MANY, str(tmp_path)]
    assert subprocess.check_output(words, text=True).split() == ["240", "60"]
    lines = data_lines(tmp_path)
    assert sum(line["event"] == "data" for line in lines) == 120


def test_a_long_log_is_read_in_pieces(tmp_path: Path) -> None:
    records = [process(1, 100.0, 0), *(event("data", {"n": n}, n) for n in range(100))]
    write_log(tmp_path, "h.1", records, b'{"event": "da')
    damage = Damage()
    found = read_records(str(tmp_path / "raw" / "h.1.log"), damage, at_once=100)
    assert [each["data"]["n"] for each in found if each["event"] == "data"] == list(range(100))
    assert damage.torn == 1
