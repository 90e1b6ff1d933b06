from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from injector.store import folder as store
from injector.store.folder import Damage, NotARunError


def test_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "runs"
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


def test_run_json(tmp_path: Path) -> None:
    store.write_info(str(tmp_path), {"name": "é", "schema": 1})
    assert store.read_info(str(tmp_path)) == {"schema": 1, "name": "é"}
    assert os.listdir(tmp_path) == ["run.json"]
    (tmp_path / "run.json").write_text('{"schema": 1, "na')
    assert store.read_info(str(tmp_path)) == {}
    (tmp_path / "run.json").write_text("[1]")
    assert store.read_info(str(tmp_path)) == {}
    (tmp_path / "run.json").write_text('{"schema": 7}')
    with pytest.raises(NotARunError, match="later injector"):
        store.open_run(str(tmp_path))


def test_writing_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")

    def pieces() -> object:
        yield b"new"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.replace_file(str(path), pieces())  # type: ignore[arg-type]
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
