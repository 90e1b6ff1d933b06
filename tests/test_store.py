from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from injector import store
from injector.store import Damage, NotARunError


def test_a_folder_for_a_run(tmp_path: Path) -> None:
    place = store.create("train", str(tmp_path / "runs"))
    assert place.path and place.problems == ()
    folder = Path(place.path)
    assert folder.parent == tmp_path / "runs" and (folder / "raw").is_dir()
    assert re.fullmatch(r"train\.\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d\.\d{6}", folder.name)
    stamp = time.strptime(folder.name.split(".")[1], "%Y-%m-%d_%H-%M-%S")
    assert abs(time.mktime(stamp) - time.time()) < 5


@pytest.mark.parametrize(
    ("name", "kept"),
    [("a/b", "a_b"), ("..", "run"), ("", "run"), (".x", "x"), ("a\nb", "a_b"), ("é x", "é x")],
)
def test_names(tmp_path: Path, name: str, kept: str) -> None:
    path = store.create(name, str(tmp_path)).path
    assert path and os.path.basename(path).rsplit(".", 2)[0] == kept
    path = store.create("x" * 1_000, str(tmp_path)).path
    assert path and len(os.path.basename(path)) < 200


def test_never_two_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.time, "time_ns", lambda: 1_700_000_000_999_999_000)
    paths: list[str | None] = []

    def work() -> None:
        paths.extend(store.create("same", str(tmp_path)).path for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert None not in paths and len(set(paths)) == 200
    assert store.newest(str(tmp_path)) == max(str(path) for path in paths)


def test_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INJECT_RUNS", raising=False)
    path = store.create("x").path
    assert path and path.startswith(str(tmp_path / ".inject" / "runs"))
    assert (tmp_path / ".inject" / ".gitignore").read_text() == "*\n"
    monkeypatch.setenv("INJECT_RUNS", "elsewhere")
    path = store.create("x").path
    assert path and path.startswith(str(tmp_path / "elsewhere"))
    path = store.create("x", "asked").path
    assert path and path.startswith(str(tmp_path / "asked"))
    assert not (tmp_path / ".gitignore").exists()
    assert [p.name for p in (tmp_path / "asked").iterdir()] == [os.path.basename(path)]


def test_fallbacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    blocked = str(tmp_path / "file" / "runs")
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    place = store.create("x", blocked, environ)
    assert place.path and place.path.startswith(str(tmp_path / "state" / "injector" / "runs"))
    [problem] = place.problems
    assert problem == f"no run can be recorded in {blocked}: Not a directory"
    place = store.create("x", blocked, {"XDG_STATE_HOME": blocked})
    assert place.path is None and len(place.problems) == 2


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


def test_light() -> None:
    code = "import sys; old = {*sys.modules}; import injector.store; print(*{*sys.modules} - old)"
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"argparse", "ast", "dataclasses", "inspect", "pathlib"} & set(done.stdout.split())
