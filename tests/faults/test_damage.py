"""Run folders that are damaged in every way: each report says so before it says anything else."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from injector.cli import compare, pack, query, report, runs, watch
from injector.cli.suite import report as suite_report
from injector.store.folder import open_run
from injector.store.seal import pack as pack_run
from injector.suite.plan.jobs import Job, Plan, PlannedProcess
from injector.suite.results.live_view import snapshot
from injector.suite.results.suite_reader import SuiteReader
from injector.suite.results.suite_reader import summarise as read_suite
from injector.suite.results.suite_report import render
from injector.suite.run.journal import FINISHED, Journal
from injector.suite.run.suite_folder import write_plan

from .faulty import ROOT

pytestmark = pytest.mark.xdist_group("damage")  # the same runs are damaged by all of these
PROGRAM = """
import os, signal, sys, time
def main(batches):
    for batch in batches:
        step(batch)
def step(batch):
    loss = float(batch)
    forward(batch)
    note = str(batch)
def forward(batch):
    time.sleep(0.0002)
if os.fork() == 0:
    main(range(50))
    sys.exit(0)
os.wait()
main(range(200))
if sys.argv[1:] == ["killed"]:
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
"""
VOIRFILE = """
def instrument_steps(ov):
    ov.loader("//main > batches")
    ov.region("//forward", "forward")
    ov.value("//step > loss")
    ov.probe("//step > note").subscribe(lambda data: ov.log({"note": data["note"]}))
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two runs, the first of them packed as well, and one that was killed with its supervisor."""
    home = tmp_path_factory.mktemp("whole")
    (home / "main.py").write_text(PROGRAM)
    (home / "x.py").write_text(VOIRFILE)
    for name, *words in (("one",), ("two",), ("killed", "killed")):
        command = ["run", "--quiet", "--into", name, "--voirfile", "x.py", "main.py", *words]
        done = subprocess.run(
            [sys.executable, "-m", "injector", *command],
            cwd=home,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == (-signal.SIGKILL if words else 0)
    shutil.copytree(home / "one", home / "packed")
    pack_run(str(home / "packed"))
    return {name: home / name for name in ("one", "two", "packed", "killed")}


def flip(path: Path, other: Path, at: float, size: int) -> None:
    content = bytearray(path.read_bytes())
    for number in range(size if content else 0):
        content[(int(at * len(content)) + number * 97) % len(content)] ^= 1 << (number + size) % 8
    path.write_bytes(content)


def cut(path: Path, other: Path, at: float, size: int) -> None:
    os.truncate(path, int(at * path.stat().st_size))


def empty(path: Path, other: Path, at: float, size: int) -> None:
    path.write_bytes(b"")


def delete(path: Path, other: Path, at: float, size: int) -> None:
    path.unlink()


def zero(path: Path, other: Path, at: float, size: int) -> None:
    content = bytearray(path.read_bytes())
    start = int(at * len(content))
    content[start : start + 40 * size] = bytes(len(content[start : start + 40 * size]))
    path.write_bytes(content)


def append(path: Path, other: Path, at: float, size: int) -> None:
    with path.open("ab") as file:
        file.write(other.read_bytes()[: 1 + 5 * size] if at < 0.5 else bytes(range(1, 256)) * size)


def double(path: Path, other: Path, at: float, size: int) -> None:
    path.write_bytes(path.read_bytes() * 2)


def swap(path: Path, other: Path, at: float, size: int) -> None:
    path.write_bytes(other.read_bytes())


def duplicate(path: Path, other: Path, at: float, size: int) -> None:
    name = path.name.replace(".", f".{size}", 1) if path.parent.name == "raw" else f"x{path.name}"
    if path.name not in ("run.json", "plan.json", "journal.jsonl"):  # a second one is not read
        shutil.copy(path, path.with_name(name))


def grow(path: Path, other: Path, at: float, size: int) -> None:
    os.truncate(path, 10_000_000_000)  # a hole, which takes no room


WAYS = (flip, flip, flip, cut, cut, empty, delete, zero, append, double, swap, duplicate, grow)
Damage = tuple[Callable[[Path, Path, float, int], None], int, int, float, int]
damages = st.lists(
    st.tuples(
        st.sampled_from(WAYS),
        st.integers(0, 30),
        st.integers(0, 30),
        st.floats(0, 1, exclude_max=True),
        st.integers(1, 20),
    ),
    min_size=1,
    max_size=3,
)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def contents(folder: Path) -> dict[str, object]:
    """What a reader can tell apart: of run.json what it means, not how it is spaced."""
    found: dict[str, object] = {}
    for path in files(folder):
        size = path.stat().st_size
        name = str(path.relative_to(folder))
        found[name] = path.read_bytes() if size < 1 << 30 else size
        if path.name == "run.json" and size < 1 << 30:
            try:
                found[name] = json.loads(path.read_bytes())
            except ValueError:
                pass
    return found


def inflict(folder: Path, second: Path, found: list[Damage]) -> None:
    for way, which, other, at, size in found:
        mine, others = files(folder), files(second)
        path = mine[which % len(mine)] if mine else None
        if path is not None and path.stat().st_size < 1 << 30:
            same = [each for each in others if each.suffix == path.suffix] or others
            way(path, same[other % len(same)], at, size)


def check(capsys: pytest.CaptureFixture[str], folder: Path, verb: str) -> None:
    """One reader of a folder that is not what was recorded."""
    if not [*folder.glob("raw/*")] and not [*folder.glob("*.data"), *folder.glob("*.json")]:
        return
    message = {
        "report": lambda: report.main([str(folder)]),
        "json": lambda: report.main(["--json", str(folder)]),
        "query": lambda: query.main([str(folder), "select count(*) from steps, regions, values"]),
        "events": lambda: query.main([str(folder), "select * from events, host, devices limit 1"]),
        "watch": lambda: watch.main(["--once", str(folder)]),
        "runs": lambda: runs.main(["--runs", str(folder.parent)]),
        "pack": lambda: pack.main([str(folder)]),
    }
    capsys.readouterr()
    code = message[verb]()
    out, err = capsys.readouterr()
    over = (folder / "run.json").exists()
    if verb == "runs" or (verb == "watch" and not over):
        assert code in (0, 1, 2)
        return
    if code == 2:
        assert err.startswith("inject: ") and not out, (out, err)
        return
    assert over is False or code == 1, (verb, out, err)
    if verb == "report" or verb == "watch":
        assert out.startswith("missing"), out
        assert "no training was" not in out and "no profile" not in out, out
    elif verb == "json":
        data = json.loads(out)
        assert next(iter(data)) == "missing" and data["missing"]
    else:
        assert err.startswith("inject: "), (out, err)


VERBS = ("report", "report", "json", "query", "events", "watch", "runs", "pack")


def examples(count: int) -> settings:
    """So many examples; a few are the same ones every time."""
    return settings(
        max_examples=count,
        deadline=20_000,
        derandomize=count < 1000,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )


def campaign(
    folders: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    count: int,
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wholes = {name: contents(folder) for name, folder in folders.items()}

    @examples(count)
    @given(st.sampled_from(("one", "one", "packed", "killed")), damages, st.sampled_from(VERBS))
    def is_said(name: str, found: list[Damage], verb: str) -> None:
        home = tmp_path_factory.mktemp("damaged")
        folder = home / "run"
        shutil.copytree(folders[name], folder)
        inflict(folder, folders["two"], found)
        if contents(folder) != wholes[name]:
            check(capsys, folder, verb)
        shutil.rmtree(home)

    is_said()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB


def test_damage_is_reported_first(folders, tmp_path_factory, capsys):
    campaign(folders, tmp_path_factory, capsys, 60)


@pytest.mark.release
def test_damage_is_reported_first_thousands_of_times(folders, tmp_path_factory, capsys):
    campaign(folders, tmp_path_factory, capsys, 5_000)


def test_a_changed_page_of_packed_spans_is_noticed_without_a_run_json(folders, tmp_path, capsys):
    """By the checksum of the page, wherever the byte is."""
    for at in (0.2, 0.4, 0.6, 0.8):
        folder = tmp_path / f"run{at}"
        shutil.copytree(folders["packed"], folder)
        (folder / "run.json").unlink()
        for path in folder.glob("raw/*.parquet"):
            pages = path.read_bytes()[: -int.from_bytes(path.read_bytes()[-8:-4], "little") - 8]
            changed = bytearray(path.read_bytes())
            changed[int(at * len(pages))] ^= 1
            path.write_bytes(changed)
        assert report.main([str(folder)]) == 1
        out = capsys.readouterr().out
        assert "no profile" not in out and ".parquet: " in out, out


def test_a_suite_without_its_lock_does_not_run(suite, tmp_path, capsys):
    """What is damaged of its own files is said: nothing will be written any more."""
    folder = tmp_path / "suite"
    shutil.copytree(suite, folder)
    path = folder / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b"finished", b"finiched"))
    assert watch.main(["--once", str(folder)]) == 1
    assert capsys.readouterr().out.startswith("missing: journal.jsonl: no lines of one.R0, two.R0")


def test_the_exit_code_of_a_comparison_with_a_damaged_journal(suite, tmp_path, capsys):
    folder = tmp_path / "suite"
    shutil.copytree(suite, folder)
    assert compare.main([str(suite), str(folder)]) == 0
    path = folder / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"begin"', b'"began"'))
    capsys.readouterr()
    assert compare.main([str(suite), str(folder)]) == 1
    assert "journal.jsonl: 1 line not as written" in capsys.readouterr().out
    path.unlink()
    assert compare.main([str(suite), str(folder)]) == 2
    sentence = "journal.jsonl: no lines of one.R0, two.R0, which have run"
    assert sentence in capsys.readouterr().err, "and not that nothing has run yet"


@pytest.mark.parametrize("way", ["no-parquet", "cut", "impossible-times"])
def test_packed_spans_that_nothing_vouches_for(folders, tmp_path, capsys, way):
    """Without run.json there is no checksum: what cannot be read, or cannot be, is named and left out."""
    folder = tmp_path / "run"
    shutil.copytree(folders["packed"], folder)
    (folder / "run.json").unlink()
    path = next(folder.glob("raw/*.parquet"))
    content = path.read_bytes()
    if way == "impossible-times":
        table = parquet.read_table(path)
        late = table.column("end").to_pylist()
        columns = [table.column(name) for name in table.column_names]
        columns[table.column_names.index("end")] = pyarrow.array([late[0] + (1 << 61), *late[1:]])
        parquet.write_table(pyarrow.table(columns, schema=table.schema), path)
    else:
        path.write_bytes(b"no spans" * 100 if way == "no-parquet" else content[: len(content) // 2])
    check(capsys, folder, "report")
    assert report.main([str(folder)]) == 1
    assert f"raw/{path.name}: " in capsys.readouterr().out


def test_a_whole_run_misses_nothing(folders, capsys):
    for name in ("one", "two", "packed"):
        assert report.main([str(folders[name])]) == 0
        assert capsys.readouterr().out.startswith("inject")
    assert report.main([str(folders["killed"])]) == 1
    out = capsys.readouterr().out
    assert out.startswith("missing  there is no run.json") and "is about the rest" not in out


def test_what_is_left_is_still_reported(folders, tmp_path, capsys):
    """A piece that was changed takes no more with it than itself."""
    folder = tmp_path / "run"
    shutil.copytree(folders["one"], folder)
    [path, *_] = sorted(folder.glob("raw/*.spans"), key=lambda path: -open_spans(path))
    flip(path, path, 0.05, 1)
    assert report.main(["--json", str(folder)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert "1 of its 64 pieces of 1024 bytes is left out" in found["missing"][0]
    assert 160 < max(loop["steps"] for loop in found["profile"]["loops"]) < 200


def open_spans(path: Path) -> int:
    return path.read_bytes().rstrip(b"\0").__len__()


@pytest.mark.parametrize("gone", [("raw",), ("raw", "run.json"), ("raw", "*.data"), ("*.data",)])
def test_most_is_gone(folders, tmp_path, capsys, gone):
    folder = tmp_path / "run"
    shutil.copytree(folders["one"], folder)
    for path in [path for pattern in gone for path in folder.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for verb in ("report", "json", "watch", "query"):
        check(capsys, folder, verb)
    assert report.main([str(folder)]) == 1


def test_what_was_lost_of_one_process_is_not_another_s(folders, tmp_path, capsys):
    """A log that is gone leaves the others where they were: run.json numbers the processes."""
    folder = tmp_path / "run"
    shutil.copytree(folders["one"], folder)
    first = open_run(str(folder)).info["processes"][0]
    for path in folder.glob(f"raw/{first['log'][:-4]}*"):
        path.unlink()
    assert report.main(["--json", str(folder)]) == 1
    found = json.loads(capsys.readouterr().out)
    tracks = [track for loop in found["profile"]["loops"] for track in loop["ranks"]]
    assert [track["process"] for track in tracks] == [1]
    assert (
        abs(
            sum(each["seconds"] for each in found["profile"]["segments"]) - found["profile"]["wall"]
        )
        < 1e-3
    )


@pytest.fixture(scope="module")
def suite(folders: dict[str, Path]) -> Path:
    """A suite of two benchmarks, whose runs are those of ``folders``."""
    home = folders["one"].parent / "suite"
    jobs = []
    for name in ("one", "two"):
        key, run = f"{name}.R0.D0", f"jobs/{name}.R0.D0"
        shutil.copytree(folders[name], home / run)
        process = PlannedProcess(key, ("cpu:0",), ("python",), {}, "/x", run, 60, 1.0)
        jobs.append(Job(f"{name}.R0", name, 0, (process,)))
    told = {"group": "x", "tags": [], "weight": 1.0, "settings": {}}
    machine = {"host": "node7", "arch": "cpu", "devices": []}
    plan = Plan(
        {"name": "toy", "file": "/x/toy.yaml"}, "/x", machine, {"one": told, "two": told}, (*jobs,)
    )
    write_plan(str(home), plan)
    journal = Journal(str(home))
    journal.write("begin")
    for job in jobs:
        [process] = job.processes
        ended = {process.key: {"code": 0, "signal": None, "timed_out": False, "run": process.run}}
        journal.job(job.key, FINISHED, 1, ok=True, seconds=1.0, processes=ended)
    journal.write("end", code=0, passed=2, failed=0)
    journal.close()
    return home


def of_runs(suite: Path) -> dict[str, object]:
    """What was recorded in ``suite``: not what is kept of it for the next reader."""
    return {
        name: content
        for name, content in contents(suite).items()
        if not name.endswith("result.json")
    }


def is_cut_at_its_end(folder: Path, suite: Path) -> bool:
    """Whether the journal lacks its last line and no more: so does that of a suite that was killed, or whose
    machine lost power before the last block was written.
    """
    path, whole = folder / "journal.jsonl", (suite / "journal.jsonl").read_bytes()
    left = path.read_bytes() if path.exists() and path.stat().st_size < 1 << 20 else b""
    left = left.rstrip(b"\0")
    last = whole.splitlines(keepends=True)[-1]
    return left != whole and whole.startswith(left) and len(whole) - len(left) <= len(last)


def check_suite(
    capsys: pytest.CaptureFixture[str], folder: Path, form: str, cut: bool = False
) -> None:
    """One reader of a suite of which something is not what was recorded."""
    capsys.readouterr()
    if form == "query":
        code = query.main([str(folder), "select count(*) from steps, regions, values"])
    elif form == "watch":
        code = watch.main(["--once", str(folder)])
    else:
        code = suite_report.main(["--format", form, str(folder)])
    out, err = capsys.readouterr()
    if code == 2:
        assert err.startswith("inject: ") and not out, (out, err)
        return
    if cut:
        return
    assert code == 1, (form, out, err)
    if form == "json":
        data = json.loads(out)
        assert next(iter(data)) == "missing" and data["missing"]
        assert data["fail"] or data["missing"][0].startswith(("plan.json", "journal.jsonl"))
    elif form in ("csv", "query"):
        assert err.startswith("inject: "), (out, err)
    else:
        assert out.startswith(("missing", "> missing")), out


def campaign_of_suites(
    suite: Path,
    folders: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    count: int,
) -> None:
    whole = of_runs(suite)

    @examples(count)
    @given(
        damages, st.sampled_from(("terminal", "json", "csv", "md", "query", "watch")), st.booleans()
    )
    def is_said(found: list[Damage], form: str, known: bool) -> None:
        folder = tmp_path_factory.mktemp("damaged") / "suite"
        shutil.copytree(suite, folder)
        if known:  # what was read of the whole runs is kept beside them
            render(read_suite(str(folder)))
        inflict(folder, folders["two"], found)
        if of_runs(folder) != whole:
            check_suite(capsys, folder, form, is_cut_at_its_end(folder, suite))
        shutil.rmtree(folder.parent)

    is_said()


def test_damage_of_a_suite_is_reported_first(suite, folders, tmp_path_factory, capsys):
    campaign_of_suites(suite, folders, tmp_path_factory, capsys, 12)


@pytest.mark.release
def test_damage_of_a_suite_is_reported_first_thousands_of_times(
    suite, folders, tmp_path_factory, capsys
):
    campaign_of_suites(suite, folders, tmp_path_factory, capsys, 1_000)


def test_a_damaged_run_of_a_suite_counts_as_failed(suite, tmp_path, capsys):
    assert suite_report.main([str(suite)]) == 0
    assert capsys.readouterr().out.startswith("suite toy")
    folder = tmp_path / "suite"
    shutil.copytree(suite, folder)
    read_suite(str(folder))
    for path in (folder / "jobs" / "two.R0.D0" / "raw").glob("*.spans"):
        cut(path, path, 0.5, 1)
    assert suite_report.main([str(folder), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [each["fail"] for each in found["benchmarks"]] == [0, 1]
    assert found["benchmarks"][1]["score"] == 0 < found["benchmarks"][0]["score"]
    assert "two.R0.D0: raw/" in found["missing"][0] and " is cut: " in found["missing"][0]
    [row] = [
        row
        for row in snapshot(SuiteReader(str(folder), follow=True).read(), 0.0).benchmarks
        if row.name == "two"
    ]
    assert row.state == "failed" and "its record is damaged: raw/" in row.reason


def test_a_run_of_a_suite_that_is_gone_is_missing_of_its_query(suite, tmp_path, capsys):
    folder = tmp_path / "suite"
    shutil.copytree(suite, folder)
    shutil.rmtree(folder / "jobs" / "two.R0.D0")
    assert query.main([str(folder), "select distinct run from steps"]) == 1
    out, err = capsys.readouterr()
    assert "one.R0.D0" in out and "two" not in out
    assert err == "inject: two.R0.D0: it has no run folder\n"


def test_a_run_json_of_a_suite_that_is_gone_is_missing_of_its_query(suite, tmp_path, capsys):
    """Alone, a run without one may go on; that of a job that has finished does not."""
    folder = tmp_path / "suite"
    shutil.copytree(suite, folder)
    (folder / "jobs" / "two.R0.D0" / "run.json").unlink()
    assert query.main([str(folder), "select distinct run from steps"]) == 1
    out, err = capsys.readouterr()
    assert "one.R0.D0" in out and "two.R0.D0" in out
    assert err.startswith("inject: two.R0.D0: run.json is missing, and its job has finished\n")
