"""A suite that is watched while it runs: put together from the files of its processes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
import urllib.request
from dataclasses import replace
from math import isclose

import pytest
from spans import SECOND, loop, payload, site, write_process
from suitefolders import UNIX, SuiteFolder, Watched, state, watched, write_run

from injector.analysis.query import run_query
from injector.analysis.views import VIEWS, views_of_all
from injector.cli import query
from injector.cli.runs import _runs_and_suites, parser
from injector.cli.suite.watched import SuitePage, time_series
from injector.report.live_page import LivePage
from injector.report.panel import as_json
from injector.report.web import PageServer
from injector.store.folder import is_run, open_run
from injector.suite.results import status
from injector.suite.results.live_view import done, lines, one_line
from injector.suite.results.scores import rows
from injector.suite.results.suite_reader import SuiteReader, summarise
from injector.suite.results.timelines import combined, of_run

STEPS, ITEMS = 40, 8
NOW = UNIX + 4.0


def runs_of(made: SuiteFolder) -> list:
    """The runs of a suite that there are, as a query opens them."""
    there = [each for each in status.runs_of(str(made.path)) if is_run(each[1])]
    return [(labels, open_run(path)) for labels, path in there]


def run_of(made: SuiteFolder, key: str, step: float, rank: int | None = None, **more) -> None:
    """What a process that runs has written: 40 steps of 8 items, each ``step`` seconds long."""
    length = round(step * SECOND)
    write_process(
        made.path / "jobs" / key, [site(1, "step", task="train")],
        loop(STEPS, [(1, length)], pay={1: payload(items=ITEMS)}),
        pid=10 + (rank or 0), time=UNIX, rank=rank, **more,
    )  # fmt: skip


def monitor(made: SuiteFolder, key: str, index: int, load: float, rss: float) -> None:
    """Each process sees one device, which it counts from 0."""
    records = [
        ("process", {"host": "h", "schema": 1, "time": UNIX, "monotonic_ns": 0}),
        ("device_list", {"0": {"name": "H1", "index": index, "uuid": f"GPU-{index}"}}),
        ("devices", {"0": {"load": load, "memory_used": 4e9, "memory_total": 8e9, "processes": {}}}),
        ("tree", {"processes": [{"pid": 1, "cpu": 0.5, "rss": rss}]}),
    ]  # fmt: skip
    text = [json.dumps({"event": e, "data": d, "t": 0}) + "\n" for e, d in records]
    (made.path / "jobs" / key / "raw" / "h.9.monitor").write_text("".join(text))


def started(made: SuiteFolder, benchmark: str, slots: int = 1, **more) -> list[str]:
    """A job that runs, and has recorded nothing yet."""
    return [
        made.process(benchmark, slot=slot, devices=[f"cuda:{slot}"], state="started",
                     collected=False, **more)
        for slot in range(slots)
    ]  # fmt: skip


@pytest.fixture
def made(tmp_path):
    """One that has ended, one that has failed, one that runs on two devices, one that waits."""
    made = SuiteFolder(tmp_path / "toy.2026-01-01_00-00-00.000000")
    made.closed = False
    made.process("ended", [10.0, 20.0, 30.0])
    made.journal[-1].update(ok=True, seconds=3.0)
    made.process(
        "broken", [], code=1, stderr="ValueError: no luck\n", reason="exit code 1 (no luck)"
    )
    made.benchmark("runs", voir={"options": {"stop": 100, "skip": 20}})
    for slot, key in enumerate(started(made, "runs", 2)):
        run_of(made, key, 0.1 * (slot + 1))
        monitor(made, key, slot, 0.5 + slot / 4, 1e9)
    made.process("waits", state="planned")
    made.process("waits", repeat=1, state="planned")
    made.leave_out("big", "needs 2 machines; this is one")
    made.write()
    return made


@pytest.fixture
def held(made):
    """Somebody runs it."""
    with (made.path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_a_job_that_waits_for_its_machines_is_queued(made, held):
    made.process("submitted", state="queued", collected=False)
    made.write()
    shown = watched(str(made.path), NOW)
    assert {row.name: row.state for row in shown.benchmarks}["submitted"] == "queued"
    [row] = status.listed(str(made.path.parent))
    assert row.verdict == "suite running: 1 of 6 jobs passed, 1 failed, 1 running, 3 queued"
    assert status.damage_of(str(made.path)) == []


def test_each_benchmark_and_process_has_its_state_and_rates_add_up(made, held):
    shown = watched(str(made.path), NOW)
    rows = {row.name: row for row in shown.benchmarks}
    states = {name: row.state for name, row in rows.items()}
    assert states == {"ended": "ended", "broken": "failed", "runs": "running", "waits": "queued"}
    assert (shown.state, shown.steps, shown.goal, shown.failed) == ("running", 2, 5, 1)
    assert (rows["ended"].rate, rows["broken"].reason) == (20.0, "exit code 1 (no luck)")
    first, second = rows["runs"].processes
    assert [each.state for each in (first, second)] == ["training", "training"]
    assert first.rate == pytest.approx(ITEMS / 0.1, rel=0.03)
    assert second.rate == pytest.approx(ITEMS / 0.2, rel=0.03)
    assert isclose(rows["runs"].rate, first.rate + second.rate) and rows["runs"].unit == "items/s"
    assert (first.steps, first.goal, first.devices, first.rss) == (STEPS, 120, ("cuda:0",), 1e9)
    assert (rows["waits"].jobs, rows["waits"].done, rows["waits"].rate) == (2, 0, None)


def test_ranks_that_record_apart_show_before_their_records_are_merged(made, held):
    [key] = started(made, "far")
    made.plan["jobs"][-1]["processes"][-1]["machines"] = [0, 1]
    shutil.rmtree(made.path / "jobs" / key)
    made.write()
    [row] = watched(str(made.path), NOW).benchmarks[-1].processes
    assert (row.state, row.ranks) == ("starting", 0)
    for rank in (0, 1):
        run_of(made, f"../machines/far.R0.1.m{rank}/D0", 0.1, rank=rank, world=2)
    reader = Watched(str(made.path))
    [row] = reader.tick(NOW).benchmarks[-1].processes
    assert (row.state, row.ranks, row.steps) == ("training", 2, STEPS)
    assert row.rate == pytest.approx(2 * ITEMS / 0.1, rel=0.03)
    for rank in (0, 1):  # merged, a moment before the journal says that it has ended
        run_of(made, key, 0.1, rank=rank, world=2)
    [row] = reader.tick(NOW).benchmarks[-1].processes
    assert (row.ranks, row.steps) == (2, STEPS)


def test_devices_and_hosts_stand_once(made, held):
    shown = watched(str(made.path), NOW)
    assert [(each.number, each.load) for each in shown.devices] == [("0", 0.5), ("1", 0.75)]
    [host] = shown.hosts
    assert host.rss == 2e9, "of both processes"


def test_what_is_left_is_what_is_expected_and_what_steps_say(made, held):
    """Two jobs wait, of 60 s each; the one that runs makes 80 steps more of 0.2 s."""
    assert watched(str(made.path), NOW).left == pytest.approx(120 + 16, rel=0.01)
    made.benchmark("runs")  # nothing says how many steps there are: it may take 60 s as well
    made.write()
    began = made.journal[-1]["time"]
    assert watched(str(made.path), NOW).left == pytest.approx(120 + 60 - (NOW - began))
    made.journal[-1]["time"] = UNIX - 1000
    made.write()
    assert watched(str(made.path), NOW).left == 120, "longer than was expected"


def test_an_epoch_that_goes_on_is_the_least_that_is_left(made, held, monkeypatch):
    read = SuiteReader._live

    def live(*words):
        found = read(*words)
        return found and replace(found, left=47.0, left_of="epoch")

    monkeypatch.setattr(SuiteReader, "_live", live)
    made.benchmark("runs")
    made.journal[-1]["time"] = UNIX - 1000
    made.write()
    assert watched(str(made.path), NOW).left == 120 + 47
    made.journal[-1]["time"] = NOW - 3
    made.write()
    assert watched(str(made.path), NOW).left == 120 + 57


def test_what_a_benchmark_took_is_what_it_takes_again(made, held):
    made.process("ended", repeat=1, state="planned")
    made.write()
    shown = watched(str(made.path), NOW)
    assert 120 + 3 < shown.left <= 180 + 3


@pytest.mark.parametrize(
    ("events", "locked", "state"),
    [
        ([], True, "running"),
        ([], False, "stopped"),
        (["interrupted"], False, "interrupted"),
        (["interrupted", "resume"], True, "running"),
        (["end"], False, "ended"),
    ],
)
def test_the_state_of_the_suite(made, request, events, locked, state):
    (made.path / "lock").touch()
    if locked:
        request.getfixturevalue("held")
    made.journal += [{"event": event, "time": UNIX + 9} for event in events]
    made.write()
    shown = watched(str(made.path), NOW + 10)
    assert shown.state == state
    assert any("--resume goes on" in note for note in shown.notes) == (
        state in ("stopped", "interrupted")
    )


def test_what_happens_meanwhile_is_seen(made, held):
    state = Watched(str(made.path))
    assert state.tick(NOW).steps == 2
    made.journal[-1].update(state="finished", ok=False, reason="D1: killed by SIGKILL", processes={
        "runs.R0.D0": {"code": 0, "signal": None, "run": "jobs/runs.R0.D0"},
        "runs.R0.D1": {"code": None, "signal": 9, "run": "jobs/runs.R0.D1"},
    })  # fmt: skip
    shutil.rmtree(made.path / "jobs" / "runs.R0.D0")
    write_run(made.path / "jobs" / "runs.R0.D0", [1.0] * 100)
    started(made, "waits")
    made.write()
    shown = state.tick(NOW + 1)
    rows = {row.name: row for row in shown.benchmarks}
    assert (rows["runs"].state, rows["waits"].state, shown.steps) == ("failed", "running", 3)
    assert [each.state for each in rows["runs"].processes] == ["ended", "failed"]
    assert rows["runs"].processes[1].reason == "killed by SIGKILL"
    assert rows["waits"].processes[0].state == "starting"


def test_a_suite_that_is_followed_and_its_report_have_one_summary(made, tmp_path):
    """Of a suite that is over; what has finished is read once, however often the suite is."""
    over = SuiteFolder(tmp_path / "over.2026-01-01_00-00-00.000000")
    over.process("good", [10.0, 20.0, 30.0])
    over.process("linked", [10.0, 20.0, 30.0], reason="no link to its data")
    over.process("few", [10.0], slot=0)
    over.benchmark("few", voir={"options": {"stop": 50}})
    over.write()
    (over.path / "lock").touch()
    state = Watched(over.path)
    followed = state.reader.read(NOW)
    assert followed == summarise(str(over.path)) and followed.state == "ended"
    shown = {row.name: row for row in state.tick(NOW).benchmarks}
    assert (shown["good"].state, shown["few"].state) == ("ended", "failed")
    few = "1 rate came, at least 50 were expected (voir.options.stop)"
    assert shown["few"].reason == few
    assert (shown["linked"].state, shown["linked"].reason) == ("failed", "no link to its data")
    row = next(each for each in rows(followed) if each.benchmark == "linked")
    assert row.fail == 1, "what fails beside its processes cannot hide in the report"
    assert state.tick(NOW).failed == sum(each.failures > 0 for each in followed.benchmarks) == 2
    shutil.rmtree(over.path / "jobs")
    assert state.reader.read(NOW).benchmarks == followed.benchmarks


def test_any_beginning_of_a_journal_can_be_watched(made):
    whole = "".join(made.lines()).encode()
    for cut in range(0, len(whole), 37):
        (made.path / "journal.jsonl").write_bytes(whole[:cut])
        shown = watched(str(made.path), NOW)
        assert lines(shown, 60) and one_line(shown) and as_json(shown)


def test_the_panel(made, held):
    shown = watched(str(made.path), NOW)
    text = "\n".join(lines(shown, 120))
    assert text.startswith("suite toy · running · 2 of 5 jobs · 1 failed")
    assert "left" in text.splitlines()[0] and "%" in text.splitlines()[1]
    words = " ".join(text.split())
    assert "runs running 123.1 items/s" in words
    assert "D1 cuda:1 training step 40 of 120 41.03 items/s 1.00 GB" in words
    assert "broken failed exit code 1 (no luck)" in words
    assert "queued: waits" in text and "device 1" in text and "load 75 %" in text
    assert "left out: big: needs 2 machines" in text
    assert text.index("runs ") < text.index("broken") < text.index("ended ") < text.index("queued")
    assert all(len(line) <= 60 for line in lines(shown, 60))
    assert one_line(shown).endswith("left · runs 123.1 items/s")
    assert 0 < done(shown) < 0.2


def test_a_benchmark_that_waits_for_its_next_repeat_keeps_its_figures(made, held):
    made.process("ended", state="planned", repeat=1)
    text = "\n".join(lines(watched(str(made.write()), NOW), 120))
    [line] = [line for line in text.splitlines() if line.startswith("  ended ")]
    assert line.split()[1] == "queued" and line.endswith("1 of 2 jobs") and "items/s" in line
    assert "queued: waits" in text


def test_the_page_and_its_plots(made, held):
    page = PageServer(LivePage("suite"))
    threading.Thread(target=page.serve_forever, daemon=True).start()
    state = Watched(str(made.path))
    try:
        for at in range(2):
            page.page.show(state.tick(NOW + at))
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        answer = json.loads(opener.open(page.address + "state", timeout=60).read())
    finally:
        page.shutdown()
        page.server_close()
    assert [row["name"] for row in answer["now"]["benchmarks"]] == [
        "ended",
        "broken",
        "runs",
        "waits",
    ]
    assert {name: len(line) for name, line in answer["series"]["rate"].items()} == {"runs": 2}
    assert answer["series"]["load"]


def test_each_run_that_has_begun_has_a_page_of_its_own(made, held):
    """Live while it runs, its report afterwards; the page of a suite that is over links to them."""
    page = SuitePage(str(made.path))
    assert page.follow() is False and page.run_page("waits.R0.D0") is page.run_page("no") is None
    running = page.run_page("runs.R0.D0")
    assert running is page.run_page("runs.R0.D0") and running.follow() is False
    assert running.latest["steps"] == STEPS and b">suite toy</a>" in running.markup
    over = page.run_page("ended.R0.D0")
    assert over.follow() is True and json.loads(over.report())["parts"]["lead"]
    made.journal += [{"event": "end", "time": UNIX + 9}]
    made.write()
    assert page.follow() is True
    assert 'href="runs/ended.R0.D0/"' in json.loads(page.report())["parts"]["report"]


def test_runs_of_processes_have_labels_and_the_folder_of_their_latest_attempt(made):
    made.journal[-1]["processes"] = {"runs.R0.D0": {"run": "jobs/runs.R0.D0.a2"}}
    made.write()
    found = status.runs_of(str(made.path))
    assert [labels["benchmark"] for labels, _ in found] == ["ended", "broken", "runs", "runs"]
    assert found[2] == (
        {"benchmark": "runs", "run": "runs.R0.D0"}, str(made.path / "jobs" / "runs.R0.D0.a2"),
    )  # fmt: skip


def test_a_list_of_runs_has_suites(made, tmp_path, monkeypatch, held):
    monkeypatch.chdir(tmp_path)
    os.makedirs("base/runs")
    os.rename(made.path, f"base/runs/{made.path.name}")
    for words in (["--base", "base"], ["--runs", "base/runs"]):
        [row] = _runs_and_suites(parser().parse_args(words))
        assert (row.run, row.name, row.exit, row.processes) == (made.path.name, "toy", None, 6)
        assert row.verdict == "suite running: 1 of 5 jobs passed, 1 failed, 1 running, 2 queued"
    inside = _runs_and_suites(parser().parse_args(["--runs", f"base/runs/{made.path.name}"]))
    assert {"ended.R0.D0", "broken.R0.D0"} <= {row.run for row in inside}


def test_a_query_has_the_rows_of_all_runs(made):
    """Each with the benchmark and the run that it is of; what has not begun has none."""
    sees = views_of_all(runs_of(made))
    sql = """select benchmark, run, count(*) n, sum(items)::int items, round(median(seconds), 3) s
             from steps group by all order by run"""
    assert run_query(sql, sees) == {
        "benchmark": ["runs"] * 2, "run": ["runs.R0.D0", "runs.R0.D1"],
        "n": [STEPS] * 2, "items": [STEPS * ITEMS] * 2, "s": [0.1, 0.2],
    }  # fmt: skip
    sql = "select benchmark, avg(value) mean from values where name = 'rate' group by all"
    assert run_query(sql, sees) == {"benchmark": ["ended"], "mean": [20.0]}
    sql = "select run, device, max(load) l from devices group by all order by l"
    assert run_query(sql, sees)["l"] == [0.5, 0.75]
    assert run_query("select run from runs", sees)["run"] == [
        "ended.R0.D0", "broken.R0.D0", "runs.R0.D0", "runs.R0.D1",
    ]  # fmt: skip


@pytest.fixture
def several(tmp_path, monkeypatch):
    """The folder of a suite of one process and of two runs, which record rates."""
    monkeypatch.chdir(tmp_path)
    made = SuiteFolder(tmp_path / ".inject/suite/runs/toy.20260104T000000.000003")
    made.process("x", rates=[4.0, 5.0])
    made.write()
    for name in ("one.20260102T000000.000001", "two.20260103T000000.000002"):
        write_run(tmp_path / ".inject/runs" / name, [1.0, 2.0, 3.0])
    return tmp_path / ".inject/runs"


def asked(capsys, *words: str) -> tuple[int, list[dict], str]:
    code = query.main([*words, "--format", "json"])
    answer = capsys.readouterr()
    return code, json.loads(answer.out) if answer.out else [], answer.err


def test_all_runs_and_suites_at_once(several, capsys):
    """Beside one that cannot be read; a row says of which run it is."""
    sql = "select suite, benchmark, run, count(*) n from values where name = 'rate' group by all order by run"
    one, two = (
        {"suite": None, "benchmark": None, "run": f"{name}.000{n}", "n": 3}
        for n, name in (("001", "one.20260102T000000"), ("002", "two.20260103T000000"))
    )
    inside = {"suite": "toy.20260104T000000.000003", "benchmark": "x", "run": "x.R0.D0", "n": 2}
    assert asked(capsys, "--all", sql) == (0, [one, two, inside], "")
    assert asked(capsys, str(several), sql, "--all") == (0, [one, two], "")
    assert asked(capsys, "toy", sql, "--all") == (0, [inside], "")
    assert asked(capsys, "--all", "select run from runs")[1][2] == {"run": "x.R0.D0"}
    (several / str(one["run"]) / "run.json").write_text("{")
    code, rows, message = asked(capsys, "--all", sql)
    assert (code, rows) == (1, [two, inside]) and str(one["run"]) in message


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_of_all_says_which_run_a_row_is_of(several, capsys, view):
    code, rows, _ = asked(capsys, "--all", f"select column_name from (describe {view})")
    assert code == 0
    assert [row["column_name"] for row in rows][:3] == ["suite", "benchmark", "run"]


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_of_a_suite_has_its_labels_first(made, view):
    sees = views_of_all(runs_of(made))
    assert list(run_query(f"select * from {view} limit 1", sees))[:2] == ["benchmark", "run"]


def test_the_course_of_a_suite_is_the_sum_over_processes():
    """Runs of one benchmark that lie over each other add up; devices are as they were."""
    line = [(float(t), 10.0) for t in range(11)]
    course = {
        "rate": {"train": line, "evaluation": line[:2]},
        "load": {"0": line},
        "rss": {"h": line},
    }
    found = combined(
        [("a", 5.0, course), ("a", 5.0, course), ("a", 30.0, course), ("b", -5.0, course)]
    )
    rate = dict(found["rate"]["a"])
    assert rate[5.0] == rate[min(rate, key=lambda t: abs(t - 10))] == 20.0
    assert rate[min(rate, key=lambda t: abs(t - 22))] == 0.0, "between two repeats"
    assert rate[40.0] == 10.0
    assert min(t for t, _ in found["rate"]["b"]) >= 0.0, "before the suite began"
    assert len(found["load"]["0"]) == 4 * 11 - 5 and found["load"]["0"] == sorted(
        found["load"]["0"]
    )
    assert "evaluation" not in found["rate"]


def test_the_course_of_a_run_calls_devices_as_their_host_does(made):
    for slot in (0, 1):
        found = of_run(open_run(str(made.path / "jobs" / f"runs.R0.D{slot}")))
        assert list(found["load"]) == [f"h {slot}"]


def test_devices_of_a_suite_have_their_hosts_where_these_are_several():
    """Each host counts its devices from 0: two of them were one line, which went up and down."""
    courses = [{"load": {f"{host} 0": [(0.0, load)]}} for host, load in (("g", 0.2), ("h", 0.9))]
    both = combined([("a", 0.0, courses[0]), ("a", 0.0, courses[1])])
    assert both["load"] == {"g 0": [(0.0, 0.2)], "h 0": [(0.0, 0.9)]}
    assert combined([("a", 0.0, courses[0])])["load"] == {"0": [(0.0, 0.2)]}


def test_the_time_of_a_suite_that_was_resumed_is_that_in_which_it_ran(made, held):
    """Of all calls: the panel and the plots began anew with the one that resumed it."""
    made.process("seen", devices_seen=[[state(load=0.25), state(load=0.5)]])
    made.write()
    before = time_series(str(made.path))
    made.journal.append({"event": "interrupted", "time": UNIX + 20})
    made.journal.append({"event": "resume", "time": UNIX + 1020})
    made.write()
    assert watched(str(made.path), UNIX + 1030).elapsed == 30.0
    made.journal.append({"event": "end", "time": UNIX + 1030, "code": 0})
    made.write()
    [row] = status.listed(str(made.path.parent))
    assert row.duration == 30.0
    after = time_series(str(made.path))
    assert after["load"] == before["load"] == {"0": [(0.0, 0.25), (1.0, 0.5)]}
