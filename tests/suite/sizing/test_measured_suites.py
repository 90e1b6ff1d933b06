"""Suites that really run: what they come to, and which batches fit."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]

PROGRAM = """
import argparse, os, signal

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--rising", action="store_true")
parser.add_argument("--fail", default="")
options = parser.parse_args()


def train_step(batch):
    held = bytearray(batch * 1_000_000)
    if options.fail == "memory" and batch > 20:
        raise MemoryError
    if options.fail == "kill" and batch > 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return sum(range(20_000))


def main():
    loss = 5.0
    for number in range(options.steps):
        train_step(options.batch_size)
        loss *= 1.1 if options.rising else 0.9
        if options.fail == "late" and number == 10:
            raise ValueError("no luck")


main()
"""

VOIRFILE = """
def instrument_steps(ov):
    ov.step("//train_step", items=lambda batch: batch)
    ov.value("//main > loss")
"""

SUITE = """
_base:
  run: train.py
  folder: {folder}
  voirfile: voirfile.py
  voir: {{options: {{stop: 20, skip: 2}}}}
  batch: {{arg: --batch-size, default: 8, multiple: 4}}

good: {{inherits: _base, weight: 2, argv: {{--batch-size: 4}}}}
late: {{inherits: _base, argv: {{--fail: late}}}}
short: {{inherits: _base, argv: {{--steps: 12}}}}
rising: {{inherits: _base, argv: {{--rising: true}}, validation: {{loss: {{falls: true}}}}}}
elsewhere: {{inherits: _base, num_machines: 2}}
"""

SIZED = """
_base:
  run: train.py
  folder: {folder}
  voirfile: voirfile.py
  batch: {{arg: --batch-size, default: 16, multiple: 4}}

memory: {{inherits: _base, argv: {{--fail: memory}}}}
kill: {{inherits: _base, argv: {{--fail: kill, --batch-size: auto_batch(32)}}, batch: {{arg: null}}}}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    (folder / "train.py").write_text(PROGRAM)
    (folder / "voirfile.py").write_text(VOIRFILE)
    (folder / "toy.yaml").write_text(SUITE.format(folder=folder))
    (folder / "sized.yaml").write_text(SIZED.format(folder=folder))
    return folder


@pytest.fixture(scope="module")
def suite(home, inject, environ):
    """Calls `inject suite VERB`."""

    def call(*words, code=0):
        done = subprocess.run(
            [*inject, "suite", *words],
            cwd=home,
            env={**environ, "PYTHONPATH": str(ROOT), "INJECT_BASE": str(home / "base")},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return call


@pytest.fixture(scope="module")
def ran(suite):
    return suite("run", "toy.yaml", "--use-current-env", "--devices", "cpu:2", code=1)


@pytest.fixture(scope="module")
def report(ran, suite):
    return json.loads(suite("report", "toy.yaml", "--format", "json").stdout)


@pytest.mark.xdist_group("suite-score")
class TestARealSuite:
    def test_what_passed_and_what_failed(self, report):
        found = {each["benchmark"]: (each["fail"], each["n"]) for each in report["benchmarks"]}
        assert found == {"good": (0, 2), "late": (2, 2), "short": (2, 2), "rising": (2, 2)}
        assert [each["benchmark"] for each in report["left_out"]] == ["elsewhere"]
        assert (report["fail"], report["n"], report["passed"]) == (6, 8, False)

    def test_there_is_a_rate_for_each_step_that_was_requested(self, report):
        good = report["benchmarks"][0]
        assert [len(run["rates"]) for run in good["runs"]] == [20, 20]
        assert (good["unit"], good["ngpu"]) == ("items/s", 1)
        rates = [rate for run in good["runs"] for rate in run["rates"]]
        kept = sorted(rates)[1:-1]
        assert good["perf"] == pytest.approx(sum(kept) / len(kept))
        each = [sorted(run["rates"])[1:-1] for run in good["runs"]]
        assert good["score"] == pytest.approx(sum(sum(kept) / len(kept) for kept in each))
        assert report["score"] == pytest.approx((good["score"] + 1) ** (2 / 6))
        assert report["score_of_run"] == pytest.approx((good["score"] + 1) ** (2 / 5))
        assert good["peak_memory"] > 5e6

    def test_the_reasons(self, report, suite):
        message = {
            # That a busy machine stalls steps of milliseconds is a warning of its own, and none of these.
            each["benchmark"]: [
                f
                for f in each["runs"][0]["findings"]
                if not f["ok"] and "a few steps take most of the time" not in f["sentence"]
            ]
            for each in report["benchmarks"]
        }
        assert message["good"] == []
        [late] = message["late"]
        assert late["sentence"] == "exit code 1: ValueError: no luck"
        assert late["lines"][-1] == "ValueError: no luck"
        assert [f["sentence"] for f in message["short"]] == [
            "10 rates came, at least 20 were expected (voir.options.stop)"
        ]
        [rising] = message["rising"]
        assert rising["layer"] == "loss" and "did not fall" in rising["sentence"]

    def test_the_report_in_every_form(self, ran, suite, home):
        text = suite("report", "toy").stdout
        assert "FAIL: 6 of 8 runs failed, 75.0 %" in text
        assert "| ValueError: no luck" in text and "elsewhere: needs 2 machines" in text
        assert text.startswith(f"suite toy  {home}/toy.yaml")
        table = suite("report", "--format", "csv").stdout.splitlines()
        assert table[0].startswith("benchmark,fail,n,ngpu,perf,unit,sem,std")
        assert [line.split(",")[:3] for line in table[1:3]] == [
            ["good", "0", "2"],
            ["late", "2", "2"],
        ]
        markdown = suite("report", "--format", "md", "--output", "report.md")
        assert markdown.stdout == ""
        assert "| good | 0 | 2 | 1 |" in (home / "report.md").read_text()
        suite("report", "--check", code=1)
        assert "there is no such folder" in suite("report", "nothing", code=2).stderr


@pytest.mark.xdist_group("suite-score")
def test_batches_that_fit_are_measured_and_chosen(suite, home):
    done = suite("size", "sized.yaml", "--use-current-env", "--devices", "cpu:1", "--probes", "3",
                 "--steps", "4")  # fmt: skip
    known = yaml.safe_load((home / "sizing" / "cpu.yaml").read_text())
    assert known["device"] == "cpu"
    sizes = {
        name: [each["batch_size"] for each in known[name]["observations"]]
        for name in ("memory", "kill")
    }
    # 16 fits, 32 does not, 24 does not; 32 does not, 16 does, 24 does not.
    assert sizes == {"memory": [16], "kill": [16]}
    limits = {name: {each["batch_size"] for each in known[name]["limits"]} for name in sizes}
    assert limits == {"memory": {24, 32}, "kill": {24, 32}}
    assert "memory 32: does not fit (MemoryError)" in done.stderr
    assert "kill 32: does not fit (killed by SIGKILL" in done.stderr
    report = suite("plan", "sized.yaml", "--use-current-env", "--devices", "cpu:1", "--batch", "auto",
                 "--json")  # fmt: skip
    plan = json.loads(report.stdout)
    commands = {job["benchmark"]: job["processes"][0]["command"] for job in plan["jobs"]}
    for name in ("memory", "kill"):
        words = commands[name]
        assert words[words.index("--batch-size") + 1] == "16"
    report = suite("plan", "sized.yaml", "--batch", "9", "--json", "--use-current-env")
    words = json.loads(report.stdout)["jobs"][0]["processes"][0]["command"]
    assert words[words.index("--batch-size") + 1] == "9"


def test_bad_input(suite, home):
    assert "auto, fastest" in suite("plan", "toy.yaml", "--batch", "big", code=2).stderr
    (home / "fixed.yaml").write_text("a: {run: train.py}\n")
    message = suite("size", "fixed.yaml", "--use-current-env", code=2).stderr
    assert "no benchmark declares how its batch can be changed" in message
    assert "at least 1" in suite("size", "toy.yaml", "--steps", "0", code=2).stderr
    os.makedirs(home / "broken", exist_ok=True)
    (home / "broken" / "default.yaml").write_text("a: [")
    message = suite("plan", "toy.yaml", "--batch", "auto", "--sizing", "broken", code=2).stderr
    assert "broken/default.yaml: is not YAML" in message
