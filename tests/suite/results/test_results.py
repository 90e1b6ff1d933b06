"""From folders to results: whatever is torn or missing is a failure that is said, and no crash."""

from __future__ import annotations

import json
import shutil
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from suitefolders import GB, UNIX, SuiteFolder, failures, only, state, watched, write_run
from tries import tries

from injector.errors import UserError
from injector.suite.results import run_record, scores, suite_reader
from injector.suite.results.status import SuiteStatus
from injector.suite.run.journal import Journal, numbered
from injector.suite.run.suite_folder import find_suite_run

SIX = [10.0, 11.0, 12.0, 13.0, 14.0, 60.0]


def made_suite(path):
    made = SuiteFolder(path)
    made.benchmark("good", weight=2)
    made.process("good", SIX, slot=0)
    made.process("good", SIX, slot=1)
    made.benchmark("half")
    made.process("half", SIX, repeat=0)
    made.process("half", SIX, repeat=1, code=1)
    made.benchmark("absent")
    made.leave_out("absent", "no environment: pip failed", failure=True)
    made.benchmark("elsewhere")
    made.leave_out("elsewhere", "needs 2 machines; this is one")
    return made


def test_a_whole_suite(tmp_path):
    suite = made_suite(tmp_path).read()
    assert (suite.name, suite.origin, suite.notes) == ("toy", "injector", ())
    rows = {row.benchmark: row for row in scores.rows(suite)}
    assert list(rows) == ["good", "half", "absent"], "what is left out on purpose is no failure"
    good, half, absent = rows.values()
    # Of all rates one 10 and one 60 are left out; of those of a device likewise: 11 12 13 14.
    assert (good.fail, good.n, good.ngpu, good.perf, good.score) == (0, 2, 1, 17, 25)
    assert (half.fail, half.n, half.perf, half.score) == (1, 2, 17, 8.5)
    assert (absent.fail, absent.n, absent.perf, absent.score) == (1, 1, None, 0)
    assert failures(suite.benchmarks[2]) == ["error: it did not run: no environment: pip failed"]
    # weights 2, 1, 1: (26² · 9.5 · 1)^¼
    total = scores.total(suite)
    assert total.score == pytest.approx((26**2 * 9.5) ** 0.25)
    assert (total.fail, total.n, total.weight) == (2, 5, 4)


def test_a_job_that_never_started_is_a_failure_of_each_of_its_processes(tmp_path):
    made = SuiteFolder(tmp_path)
    made.process("a", SIX)
    made.process("a", repeat=1, slot=0, state="planned")
    made.process("a", repeat=1, slot=1, state="planned")
    made.closed = False
    found = only(made.read())
    assert (found.runs, found.failures) == (3, 2)
    assert failures(found) == ["error: it never ran: the suite did not come to its end"] * 2


def test_a_job_that_never_finished_is_a_failure_whatever_it_left(tmp_path):
    made = SuiteFolder(tmp_path)
    made.process("a", SIX, state="started")
    found = only(made.read())
    assert found.processes[0].state == "started"
    assert failures(found) == ["error: it was begun and has not finished"]
    assert found.rates == SIX


def test_why_a_job_could_not_start_is_reported(tmp_path):
    made = SuiteFolder(tmp_path)
    made.process("a", state="failed-to-start", reason="cuda:0 is held by process 7 (x.py)")
    assert failures(only(made.read())) == ["error: cuda:0 is held by process 7 (x.py)"]


def test_the_last_attempt_counts(tmp_path):
    made = SuiteFolder(tmp_path)
    made.process("a", [], code=1)
    write_run(tmp_path / "jobs/a.R0.D0.a2", SIX)
    again = json.loads(json.dumps(made.journal[-1]))
    again["attempt"] = 2
    again["processes"]["a.R0.D0"].update(code=0, run="jobs/a.R0.D0.a2")
    made.journal.append(again)
    found = only(made.read())
    assert (found.failures, found.rates) == (0, SIX)


def test_a_run_without_its_folder_is_a_failure(tmp_path):
    made = SuiteFolder(tmp_path)
    made.process("a", SIX)
    shutil.rmtree(tmp_path / "jobs")
    assert failures(only(made.read())) == ["error: it left no record"]


def test_a_run_whose_supervisor_was_killed_is_a_failure(tmp_path):
    made = SuiteFolder(tmp_path)
    made.process("a", SIX, collected=False, code=None)
    [sentence] = failures(only(made.read()))
    assert "never finished" in sentence
    made = SuiteFolder(tmp_path / "lost")
    made.process("a", SIX, collected=False)
    assert failures(only(made.read())) == ["error: its run.json is missing"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=tries(60))
@given(st.integers(0, 10**6))
def test_any_beginning_of_a_journal_reads(tmp_path, cut):
    made = made_suite(tmp_path / "s")
    made.write()
    whole = "".join(made.lines()).encode()
    (tmp_path / "s" / "journal.jsonl").write_bytes(whole[: cut % (len(whole) + 1)])
    suite = suite_reader.summarise(str(tmp_path / "s"))
    for benchmark in suite.benchmarks:
        for process in benchmark.processes:
            answer = process.state == "finished"
            assert process.failed or answer, "what the journal does not tell has failed"
    rows = scores.rows(suite)
    assert [row.n for row in rows] == [2, 2, 1]
    score = scores.total(suite).score
    assert score is None or score <= (26**2 * 9.5) ** 0.25 * (1 + 1e-12)


def test_torn_lines_are_counted_and_reported(tmp_path):
    made = SuiteFolder(tmp_path)
    made.process("a", SIX)
    folder = made.write()
    text = (folder / "journal.jsonl").read_text()
    (folder / "journal.jsonl").write_text(text + '{"event": "jo')
    assert suite_reader.summarise(str(folder)).missing == [
        "journal.jsonl: 1 line not as written, and left out"
    ]
    interrupted = numbered({"event": "interrupted", "time": UNIX}, text.count("\n"))
    (folder / "journal.jsonl").write_text(text + interrupted + '{"event": "jo')
    assert any(
        "1 line of journal.jsonl truncated" in n for n in suite_reader.summarise(str(folder)).notes
    )


@pytest.mark.parametrize("name", ["run.json", "x.D0.data", "raw/node7.9.monitor", "result.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b'{"exit": 3, "limits": []}', b"\xff\0"])
def test_a_broken_file_breaks_nothing(tmp_path, name, content):
    made = SuiteFolder(tmp_path)
    key = made.process("a", SIX, devices=["cuda:0"])
    write_run(tmp_path / "jobs" / key, SIX, devices=[[state()]])
    made.read()
    (tmp_path / "jobs" / key / name).write_bytes(content)
    found = only(made.read())
    assert found.runs == 1
    if name == "run.json":
        assert found.failures == 1


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ("", "no plan of a suite: "),
        ("[]", "no plan of a suite: it holds no JSON object"),
        ('{"jobs": 3}', "no plan of a suite: it holds no JSON object with a schema"),
        ('{"schema": 99}', "schema is 99"),
        ('{"schema": 1, "jobs": 3}', "no plan of a suite: "),
        (None, "is missing: what was to run is not known"),
    ],
)
def test_a_plan_that_is_none_is_refused(tmp_path, plan, why):
    """So is a run that has lost it, which is no other program's folder because of that."""
    SuiteFolder(tmp_path).write()
    if plan is None:
        (tmp_path / "plan.json").unlink()
    else:
        (tmp_path / "plan.json").write_text(plan)
    with pytest.raises(UserError, match=f"plan.json.*{why}"):
        suite_reader.summarise(str(tmp_path))


def test_what_a_run_says_is_kept_beside_it_until_it_changes(tmp_path):
    folder = tmp_path / "run"
    write_run(folder, SIX, losses=[3.0, "NaN", 1.0], devices=[[state(0.5), state(1.0)]])
    first = run_record.read(str(folder))
    assert run_record.read(str(folder)) == first
    assert first.losses["loss"] == (3, 1, (3.0, 1.0))
    [device] = first.devices
    assert (device.load, device.peak_load, device.power, device.driver) == (0.75, 1, 300, "575.51")
    assert (first.memory, first.energy) == (40 * GB, 300)
    kept = json.loads((folder / "result.json").read_text())
    kept["record"]["rates"] = [1.0]
    (folder / "result.json").write_text(json.dumps(kept))
    assert run_record.read(str(folder)) == first, "it is not what was kept"
    kept["crc32"] = crc32(json.dumps(kept["record"]).encode())
    (folder / "result.json").write_text(json.dumps(kept))
    assert run_record.read(str(folder)).rates == (1.0,), "it is read from there"
    write_run(folder, [*SIX, 7.0])
    assert len(run_record.read(str(folder)).rates) == 7, "the run is another one"


def test_a_folder_that_cannot_be_written_is_read(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    write_run(folder, SIX)

    def full(*words):
        raise OSError("no space")

    monkeypatch.setattr(run_record, "replace_file", full)
    assert run_record.read(str(folder)).rates == tuple(SIX)
    assert not (folder / "result.json").exists()


def test_long_losses_are_thinned(tmp_path):
    write_run(tmp_path, losses=[float(n) for n in range(10_000)])
    losses = run_record.read(str(tmp_path)).losses["loss"]
    assert losses.n == 10_000 and 2_000 < len(losses.values) <= 3_000
    assert losses.values[0] == 0


def test_rates_of_several_processes_of_a_job_add_up(tmp_path):
    write_run(tmp_path)
    lines = [
        {"event": "data", "data": {"task": "train", "rate": rate, "process": process}}
        for rate, process in ((1.0, 0), (10.0, 1), (2.0, 0), (20.0, 1), (3.0, 0))
    ]
    (tmp_path / "x.D0.data").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run_record.read(str(tmp_path)).rates == (11.0, 22.0)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("ChildFailedError", "rank 1 died: killed by SIGABRT"),
        ("ValueError", "ValueError: train.py FAILED"),
        ("RuntimeError", "rank 1 died: killed by SIGABRT"),
        (None, "rank 1 died: killed by SIGABRT"),
    ],
)
def test_where_no_rank_gives_a_reason_it_is_how_the_first_died(tmp_path, kind, error):
    write_run(tmp_path, code=1)
    if kind:
        event = {"event": "error", "data": {"type": kind, "message": "\n=====\ntrain.py FAILED"}}
        with (tmp_path / "x.D0.data").open("a") as file:
            file.write(json.dumps(event) + "\n")
    info = json.loads((tmp_path / "run.json").read_text())
    info["broken"] = [
        {"rank": 0, "kind": "followed", "how": "RuntimeError: train.py FAILED"},
        {"rank": 1, "kind": "died", "how": "killed by SIGABRT"},
    ]
    (tmp_path / "run.json").write_text(json.dumps(info))
    assert run_record.read(str(tmp_path)).error == error
    if kind is None:  # it was started again, and all was well
        (tmp_path / "run.json").write_text(json.dumps({**info, "exit": {"code": 0}}))
        assert run_record.read(str(tmp_path)).error == ""


class TestWhichFolder:
    @pytest.fixture()
    def base(self, tmp_path):
        for name in ("a.2026-01-01_10-00-00.000001", "a.2026-01-02_10-00-00.000001",
                     "b.2026-01-03_10-00-00.000001"):  # fmt: skip
            made = SuiteFolder(tmp_path / "runs" / name)
            made.process("x", SIX)
            made.write()
        return str(tmp_path)

    @pytest.mark.parametrize(
        ("which", "name"),
        [
            (None, "b.2026-01-03"),
            ("LAST", "b.2026-01-03"),
            ("suites/a.yaml", "a.2026-01-02"),
            ("a.2026-01-01", "a.2026-01-01"),
            ("a", "a.2026-01-02"),
            ("a.2026-01-01_10-00-00.000001", "a.2026-01-01"),
        ],
    )
    def test_the_newest_of_what_is_named(self, base, which, name):
        assert find_suite_run(which, base).startswith(f"{base}/runs/{name}")

    def test_a_path_is_itself_and_of_a_folder_of_runs_it_is_the_newest(self, base):
        path = f"{base}/runs/a.2026-01-01_10-00-00.000001"
        assert find_suite_run(path, "/nowhere") == path
        assert find_suite_run(f"{base}/runs", "/nowhere").startswith(f"{base}/runs/b.")
        with pytest.raises(suite_reader.NoResultsError):
            find_suite_run("suites/.yaml", base)

    def test_a_file_is_a_suite_whatever_its_runs_are_called(self, base, tmp_path):
        files = [tmp_path / "one/a.yaml", tmp_path / "two/a.yaml"]
        for day, (name, file) in enumerate(
            zip(("a", "night", "a"), (*files, files[0]), strict=True)
        ):
            file.parent.mkdir(exist_ok=True)
            file.touch()
            made = SuiteFolder(tmp_path / "runs" / f"{name}.2026-02-0{day + 1}_10-00-00.000001")
            made.plan["suite"]["file"] = str(file)
            made.write()
        assert find_suite_run(str(files[0]), base).startswith(f"{base}/runs/a.2026-02-03")
        assert find_suite_run(str(files[1]), base).startswith(f"{base}/runs/night.2026-02-02")
        other = tmp_path / "a.yaml"
        assert find_suite_run(str(other), base).startswith(f"{base}/runs/a.2026-01-02"), (
            "moved here"
        )

    @pytest.mark.parametrize("which", [None, "LAST", "x.yaml", "nothing"])
    def test_where_it_was_looked_for_is_reported(self, tmp_path, which):
        with pytest.raises(suite_reader.NoResultsError, match=r"runs"):
            find_suite_run(which, str(tmp_path / "empty"))


def test_one_run_is_no_suite(tmp_path):
    write_run(tmp_path / "run", SIX)
    (tmp_path / "run" / "x.D0.data").unlink()
    with pytest.raises(suite_reader.NoResultsError, match="it is one run: inject report"):
        suite_reader.summarise(str(tmp_path / "run"))
    with pytest.raises(suite_reader.NoResultsError, match="no such folder"):
        suite_reader.summarise(str(tmp_path / "nothing"))


def test_a_journal_that_makes_no_sense_is_reported(tmp_path):
    made = SuiteFolder(tmp_path)
    made.process("a", SIX)
    with open(made.write() / "journal.jsonl", "a") as file:
        file.write('{"event": "job", "time": 5.0, "state": 3}\n')
    sentence = "journal.jsonl: 1 line not as written, and left out"
    assert sentence in suite_reader.summarise(str(made.path)).missing[0]
    assert watched(str(made.path)).missing[0] == sentence


def test_lines_lost_and_doubled_and_a_run_without_its_line_are_reported(tmp_path):
    made = SuiteFolder(tmp_path / "suite")
    made.process("a", SIX)
    made.process("b", SIX)
    folder = made.write()
    path = folder / "journal.jsonl"
    path.unlink()
    written = Journal(str(folder))
    written.write("begin")
    for key in ("a.R0", "b.R0"):
        written.job(key, "finished", 1, ok=True, seconds=1.0)
    written.write("end", code=0)
    written.close()
    whole = path.read_text().splitlines(keepends=True)
    assert not list(SuiteStatus(str(folder)).damage())
    for lines, sentence in (
        (whole * 2, ["journal.jsonl: 4 lines there twice"]),
        (whole[1:], ["journal.jsonl: 1 line not as written, and left out"]),
        (
            whole[:2],
            ["journal.jsonl: no line of b.R0, which has run"],
        ),
        (whole[:3], []),  # so ends the journal of a suite that was killed
    ):
        path.write_text("".join(lines))
        assert list(SuiteStatus(str(folder)).damage()) == sentence


def test_memory_is_what_was_sampled_and_no_less_than_the_kernel_counted(tmp_path):
    assert run_record._peak_memory(10e6, None) == 10e6
    assert run_record._peak_memory(0, None) is None
    assert run_record._peak_memory(0, 20e6) == 20e6, "it was over before the first sample"
    assert run_record._peak_memory(10e6, 20e6) == 10e6, "of so little a part may be ours"
    assert run_record._peak_memory(100e6, 300e6) == 300e6
    assert run_record._peak_memory(900e6, 300e6) == 900e6, "several processes"
