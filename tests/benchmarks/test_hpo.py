"""The suite `hpo`: each framework, with one worker and two, with and without pruning, makes its study."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.release, pytest.mark.xdist_group("hpo")]

FRAMEWORKS = ("grid", "optuna", "sklearn", "ray")
STUDIES = [(each, "") for each in FRAMEWORKS] + [(each, "-pruned") for each in FRAMEWORKS[1:]]
"""A plain grid prunes nothing."""


def inject(*words):
    words = [sys.executable, "-m", "injector", *map(str, words)]
    return subprocess.run(words, capture_output=True, text=True, timeout=3000)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """What the suite's report has of its studies, in environments of their own."""
    base = tmp_path_factory.mktemp("hpo")
    done = inject("suite", "install", "hpo", "--base", base)
    if "cannot be reached" in done.stdout:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stdout
    short = ("-P", "epochs=9", "--override", "*.max_duration=1500")
    done = inject("suite", "run", "hpo", "--base", base, "--devices", "cpu:1", *short)
    assert done.returncode == 0, done.stderr
    [run] = (base / "runs").iterdir()
    return json.loads(inject("suite", "report", run, "--json").stdout)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("framework", "pruned"), STUDIES)
def test_a_study(report, framework, pruned, workers):
    name = f"{framework}{pruned}-{workers}"
    [study] = [each for each in report["studies"] if each["benchmark"] == name]
    assert (study["framework"], study["workers"]) == (framework, workers)
    assert study["trials"] >= 12 and study["failed"] == 0
    assert (study["pruned"] > 0) == (bool(pruned) and framework != "sklearn")
