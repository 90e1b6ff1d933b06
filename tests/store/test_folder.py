from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from injector.store import folder as store
from injector.store.logs import Damage
from injector.store.place import replace_file
from injector.store.run_json import BrokenRunError, NotARunError, read_info, write_info


def test_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "runs"
    with pytest.raises(NotARunError, match="there is no such folder"):
        store.find(None, str(runs))
    runs.mkdir()
    with pytest.raises(NotARunError, match="there is no run in"):
        store.find(None, str(runs))
    for name in ("b.2026-01-01_00-00-00.000001", "a.2026-01-02_00-00-00.000000"):
        (runs / name / "raw").mkdir(parents=True)
    (runs / "zzz.2027-01-01_00-00-00.000000").mkdir()  # holds nothing
    (runs / "old.2025-10-07_14:28:36.379558").mkdir()
    (runs / "old.2025-10-07_14:28:36.379558" / "bert.D0.data").write_text("")
    newest = str(runs / "a.2026-01-02_00-00-00.000000")
    assert store.find(None, str(runs)) == newest
    assert store.find("b.2026-01-01_00-00-00.000001", str(runs)).endswith("000001")
    assert store.find("runs/a.2026-01-02_00-00-00.000000", "elsewhere") == newest
    with pytest.raises(NotARunError, match="does not exist"):
        store.find("nope", str(runs))
    with pytest.raises(NotARunError, match="holds no record"):
        store.find(str(tmp_path), str(runs))
    with pytest.raises(NotARunError):
        store.open_run(str(tmp_path))


NAMED = ("foo", "foo", "food", "v1.2", "a_b", "run")


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """Runs of these names, one a minute."""
    for minute, name in enumerate(NAMED):
        (tmp_path / f"{name}.2026-01-01_00-{minute:02}-00.000000" / "raw").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("which", "minute"),
    [
        ("LAST", 5),
        (None, 5),
        ("foo", 1),  # the newest of that name, though another begins so
        ("food", 2),
        ("foo.2026-01-01_00-00", 0),
        ("v1", 3),
        ("v1.2", 3),
        ("v1.2.2026", 3),
        ("a/b", 4),
        ("r", 5),
    ],
)
def test_a_run_by_its_name_or_how_it_begins(named: Path, which: str | None, minute: int) -> None:
    found = store.find(which, str(named))
    assert found.endswith(f"_00-{minute:02}-00.000000") and os.path.isabs(found)


def test_a_folder_that_some_program_calls_data_is_no_record(tmp_path: Path) -> None:
    (tmp_path / ".data").mkdir()
    with pytest.raises(NotARunError, match="this folder holds no record of a run"):
        store.open_run(str(tmp_path))


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("fo", "fo: the names of several runs begin so: foo, food"),
        (
            "foo.2026-01-01",
            "the names of several runs begin so: foo.2026-01-01_00-00-00.000000, foo.2026",
        ),
        (
            "fool",
            "fool: this folder does not exist, .* of that name; the nearest: (food, foo|foo, food)",
        ),
        ("", "the name of a run is empty"),
        (" ", "the name of a run is empty"),
        ("/", "this folder holds no record of a run"),
        ("..", "this folder holds no record of a run"),
        (__file__, "this is a file and no folder of a run"),
    ],
)
def test_what_names_no_run_or_several(
    named: Path, which: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (named / "above" / "here").mkdir(parents=True)
    monkeypatch.chdir(named / "above" / "here")
    with pytest.raises(NotARunError, match=message):
        store.find(which, str(named))


def test_what_bears_the_name_among_the_runs_and_is_none_is_named(named: Path) -> None:
    (named / "a-file").write_text("")
    (named / "empty").mkdir()
    with pytest.raises(
        NotARunError, match=f"{named}/a-file: this is a file and no folder of a run"
    ):
        store.find("a-file", str(named))
    with pytest.raises(NotARunError, match=f"{named}/empty: this folder holds no record of a run"):
        store.find("empty", str(named))


def test_a_folder_of_runs_is_none_but_holds_some(named: Path) -> None:
    (named / "elsewhere").mkdir()
    with pytest.raises(NotARunError, match=f"this is a folder of runs .* --runs {named}"):
        store.find(str(named), str(named / "elsewhere"))


def test_a_folder_that_was_named_is_not_newest_for_ever(named: Path) -> None:
    (named / "zzz" / "raw").mkdir(parents=True)
    os.utime(named / "zzz", (0, 0))
    assert store.find("LAST", str(named)).endswith("_00-05-00.000000")
    assert store.find("zz", str(named)) == str(named / "zzz")


def test_run_json(tmp_path: Path) -> None:
    write_info(str(tmp_path), {"name": "é", "schema": 1})
    assert read_info(str(tmp_path)) == {"schema": 1, "name": "é"}
    assert os.listdir(tmp_path) == ["run.json"]
    for broken in ('{"schema": 1, "na', "[1]", "", '{"schema": 1, "files": {}}'):
        (tmp_path / "run.json").write_text(broken)
        with pytest.raises(BrokenRunError, match=r"run\.json .* Without this file"):
            read_info(str(tmp_path))
    write_info(str(tmp_path), {"name": "é", "files": {}, "odd": [0.1, float("nan"), "\udcff"]})
    assert read_info(str(tmp_path))["name"] == "é"
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(text.replace("0.1", "0.2"))
    with pytest.raises(BrokenRunError, match="its checksum differs"):
        store.open_run(str(tmp_path))
    (tmp_path / "run.json").write_text('{"schema": 7, "files": {}, "checksum": "of another kind"}')
    with pytest.raises(NotARunError, match="later injector"):
        store.open_run(str(tmp_path))


@pytest.mark.parametrize(
    ("edited", "wrong"),
    [
        ({"tags": 3}, "tags is a number and no map"),
        ({"command": "inject run x.py"}, "command is a text and no list"),
        ({"command": ["inject", 3]}, r"command\[1\] is a number and no text"),
        ({"exit": {"code": True}}, "exit.code is a boolean and no number"),
        (
            {"processes": [{"log": "a.1.log", "rank": "one"}]},
            r"processes\[0\].rank is a text and no number",
        ),
        ({"probes": {"//f > x": 3}}, "probes is a map and no list"),
    ],
)
def test_a_run_json_that_was_edited_by_hand(
    tmp_path: Path, edited: dict[str, object], wrong: str
) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"schema": 1, **edited}))
    with pytest.raises(BrokenRunError, match=f"run.json is broken: its key {wrong}"):
        read_info(str(tmp_path))
    # What is not known, and keys of other versions, are as they are.
    for fine in (dict.fromkeys(edited), {"elsewhere": edited}):
        (tmp_path / "run.json").write_text(json.dumps({"schema": 1, **fine}))
        assert read_info(str(tmp_path)) == {"schema": 1, **fine}


def test_writing_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")

    def pieces() -> object:
        yield b"new"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        replace_file(str(path), pieces())  # type: ignore[arg-type]
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["x"]


MILABENCH = [
    {"event": "config", "data": {"name": "bert", "tag": ["bert", "D0"]}, "pipe": None},
    {"event": "start", "data": {"command": ["voir"], "time": 10.0}, "pipe": None},
    {"event": "line", "data": "text\n", "pipe": "stderr"},
    {"event": "data", "data": {"rate": 82.8, "units": "items/s", "task": "train"}, "pipe": "data"},
    {"event": "end", "data": {"time": 12.0, "return_code": 0}, "pipe": None},
]


def test_lines_of_milabench(tmp_path: Path) -> None:
    text = "".join(json.dumps(line) + "\n" for line in MILABENCH)
    half = '{"event": "data", "da{"event": "data", "data": {}, "pipe": "data"}\n[1]\n{"event": 3}\n'
    (tmp_path / "bert.D0.data").write_text(text + half + '{"event": "da')
    run = store.open_run(str(tmp_path))
    damage = Damage()
    events = list(store.read_events(run, damage))
    assert run.info == {}
    assert events == [("bert.D0", line["event"], line["data"]) for line in MILABENCH]
    assert damage.torn == 4


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    replace_file(str(path), [b"one ", b"two"])
    assert os.read(reader, 20) == b"one two"
    os.close(reader)
    assert path.is_fifo()
