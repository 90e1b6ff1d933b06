"""The suite that tells a newcomer whether everything works: from its installation to its scores."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")


@pytest.mark.release
def test_smoke(tmp_path):
    def suite(*words):
        command = [sys.executable, "-m", "injector", "suite", *words, "--base", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    suite("install", "smoke")
    suite("prepare", "smoke")
    # How long it takes says how busy the machine is.
    suite("run", "smoke", "--devices", "cpu:2", "--override", "*.max_duration=1800")
    told = json.loads(suite("report", "--format", "json"))
    rows = {row["benchmark"]: row for row in told["benchmarks"]}
    assert set(rows) == {"stanza-charlm", "flops-fp32", "memory", "collectives"}
    for row in rows.values():
        assert row["fail"] == 0 and row["perf"] > 0 and row["score"] > 0
    assert told["score"] > 1
