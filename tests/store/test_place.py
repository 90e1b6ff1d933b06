from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from injector.errors import UserError
from injector.store import place as module
from injector.store.folder import newest
from injector.store.place import create, create_into


def test_a_folder_for_a_run(tmp_path: Path) -> None:
    before = int(time.time())
    place = create("train", str(tmp_path / "runs"))
    assert place.path and place.problems == ()
    folder = Path(place.path)
    assert folder.parent == tmp_path / "runs" and (folder / "raw").is_dir()
    assert re.fullmatch(r"train\.\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d\.\d{6}", folder.name)
    stamp = time.strptime(folder.name.split(".")[1], "%Y-%m-%d_%H-%M-%S")
    assert before <= time.mktime(stamp) <= time.time()


@pytest.mark.parametrize(
    ("name", "kept"),
    [("a/b", "a_b"), ("..", "run"), ("", "run"), (".x", "x"), ("a\nb", "a_b"), ("é x", "é x")],
)
def test_names(tmp_path: Path, name: str, kept: str) -> None:
    path = create(name, str(tmp_path)).path
    assert path and os.path.basename(path).rsplit(".", 2)[0] == kept
    path = create("x" * 1_000, str(tmp_path)).path
    assert path and len(os.path.basename(path)) < 200


def test_never_two_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "time_ns", lambda: 1_700_000_000_999_999_000)
    paths: list[str | None] = []

    def work() -> None:
        paths.extend(create("same", str(tmp_path)).path for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert None not in paths and len(set(paths)) == 200
    assert newest(str(tmp_path)) == max(str(path) for path in paths)


def test_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INJECT_RUNS", raising=False)
    path = create("x").path
    assert path and path.startswith(str(tmp_path / ".inject" / "runs"))
    assert (tmp_path / ".inject" / ".gitignore").read_text() == "*\n"
    monkeypatch.setenv("INJECT_RUNS", "elsewhere")
    path = create("x").path
    assert path and path.startswith(str(tmp_path / "elsewhere"))
    path = create("x", "asked").path
    assert path and path.startswith(str(tmp_path / "asked"))
    assert not (tmp_path / ".gitignore").exists()
    assert [p.name for p in (tmp_path / "asked").iterdir()] == [os.path.basename(path)]


def test_fallbacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    blocked = str(tmp_path / "file" / "runs")
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    place = create("x", blocked, environ)
    assert place.path and place.path.startswith(str(tmp_path / "state" / "injector" / "runs"))
    [problem] = place.problems
    assert problem == f"no run can be recorded in {blocked}: Not a directory"
    place = create("x", blocked, {"XDG_STATE_HOME": blocked})
    assert place.path is None and len(place.problems) == 2


def test_light() -> None:
    code = "import sys; old = {*sys.modules}; import injector.store.place; print(*{*sys.modules} - old)"
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"argparse", "json", "re", "typing", "pathlib"} & set(done.stdout.split())


def test_into_a_folder_that_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert create_into(str(folder)).path == str(folder)
    assert [path.name for path in folder.iterdir()] == ["raw"]


def test_what_else_lies_in_the_named_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_text("earlier")
    create_into(str(tmp_path))
    assert (tmp_path / "stdout").read_text() == "earlier"


@pytest.mark.parametrize("name", ["run.json", "raw", "train.D0.data"])
def test_a_named_folder_that_holds_a_run_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "raw").mkdir() if name == "raw" else (tmp_path / name).write_text("")
    with pytest.raises(UserError, match="holds a run already"):
        create_into(str(tmp_path))


def test_a_named_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="this is no folder"):
        create_into(str(tmp_path / "file"))
    with pytest.raises(UserError, match="no run can be recorded there: Not a directory"):
        create_into(str(tmp_path / "file" / "below"))


def test_of_many_that_want_one_folder_one_gets_it(tmp_path: Path) -> None:
    got: list[str | None] = []

    def work() -> None:
        try:
            got.append(create_into(str(tmp_path / "run")).path)
        except UserError:
            pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [str(tmp_path / "run")]
