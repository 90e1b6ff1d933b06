"""``inject watch``, ``query``, ``runs`` and ``report`` on a suite that runs, and after its end."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from suite_runs import PATIENCE, until

PROGRAM = """
import os, sys, time, injector
enough = sys.argv[1]
number = 0
while not os.path.exists(enough):
    with injector.region("step"):
        time.sleep(0.01)
    number += 1
if "fail" in sys.argv:
    raise ValueError("no luck")
"""


@pytest.fixture
def inject(suites):
    # A folder of runs of its own: what other tests have run would be newer than a suite that begins.
    environ = {**suites.environ, "INJECT_RUNS": str(suites.folder / "no_runs")}

    def call(*words):
        return subprocess.run(
            [sys.executable, "-m", "injector", *words, "--base", str(suites.base)],
            cwd=suites.folder, env=environ, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip

    return call


def test_a_suite_is_watched_while_it_runs_and_read_when_it_is_over(suites, inject):
    run = suites.program("train.py", PROGRAM)
    suite = suites.write({
        "two": {"run": run, "argv": [str(suites.folder / "one")], "max_duration": 100},
        "bad": {"run": run, "argv": [str(suites.folder / "one"), "fail"], "max_duration": 100},
    })  # fmt: skip
    process = suites.start(suite, devices="cpu:2")
    try:

        def both_train():
            done = inject("watch", "--once", "--json")
            if done.returncode:
                return None
            rows = {each["name"]: each for each in json.loads(done.stdout)["benchmarks"]}
            some = rows["two"]["processes"]
            return rows if all(each["rate"] for each in some) else None

        rows = until(both_train, "a rate of both processes")
        assert (rows["two"]["state"], rows["bad"]["state"]) == ("running", "queued")
        assert [each["devices"] for each in rows["two"]["processes"]] == [["cpu:0"], ["cpu:1"]]
        total = sum(each["rate"] for each in rows["two"]["processes"])
        assert rows["two"]["rate"] == pytest.approx(total)
        text = inject("watch", suite.name, "--once").stdout
        assert text.startswith("suite suite · running · 0 of 2 jobs") and "queued: bad" in text
        assert "suite running: 0 of 2 jobs passed" in inject("runs").stdout
    finally:
        (suites.folder / "one").touch()
        process.communicate(timeout=PATIENCE)
    found = inject("watch", "LAST")
    assert found.returncode == 0
    assert "ended · 2 of 2 jobs · 1 failed" in found.stdout and "no luck" in found.stdout
    lines = inject("watch", "--json").stdout.splitlines()
    assert json.loads(lines[-1])["state"] == "ended"
    sql = "select benchmark, run, count(*) > 1 many from steps group by all order by all"
    found = json.loads(inject("query", "suite", sql, "--format", "json").stdout)
    assert [(row["benchmark"], row["run"]) for row in found if row["many"]] == [
        ("two", "two.R0.D0"), ("two", "two.R0.D1"),
    ]  # fmt: skip
    assert inject("report").stdout.startswith("suite suite ")
    assert "suite ended: 1 of 2 jobs passed, 1 failed" in inject("runs").stdout
