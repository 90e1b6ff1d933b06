"""The log that a job leaves for readers of the Deep Learning Benchmarking Suite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from suitefolders import SuiteFolder

from injector.suite.plan.jobs import read_plan
from injector.suite.results import job_log
from injector.suite.run.processes import ProcessEnd


def logged(folder: Path, end: dict[str, Any]) -> dict[str, Any]:
    """The lines of the log of a job whose only process ended so."""
    made = SuiteFolder(folder / "suite")
    made.benchmark("resnet")
    log = folder / "resnet.log"
    made.plan["benchmarks"]["resnet"]["parameters"] = {"exp.log_file": str(log)}
    key = made.process("resnet", rates=[10.0] * 6, code=end.get("code"), stderr="it broke\n")
    plan = read_plan(str(made.write()))
    ended = {key: ProcessEnd(f"jobs/{key}", **end)}
    assert job_log.write(str(made.path), plan, plan.jobs[0], ended) == []
    lines = [line.split("= ", 1) for line in log.read_text().splitlines() if "= " in line]
    return {name.strip("_"): json.loads(value) for name, value in lines}


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ({"code": None, "signal": 9}, "killed by SIGKILL"),
        ({"code": None, "signal": 15, "timed_out": True}, "ended by its time limit"),
        ({"code": 3}, "exit code 3 (it broke)"),
        ({"code": 0, "recorded": False}, "left no record"),
    ],
)
def test_a_log_says_how_its_job_failed(tmp_path: Path, end: dict[str, Any], message: str) -> None:
    lines = logged(tmp_path, end)
    assert (lines["exp.status"], lines["exp.status_msg"]) == ("failure", message)


def test_a_log_of_a_job_that_ended_well_has_no_message(tmp_path: Path) -> None:
    lines = logged(tmp_path, {"code": 0})
    assert lines["exp.status"] == "ok" and "exp.status_msg" not in lines
