"""Ray Tune: trials in the processes that run them."""

from __future__ import annotations

from signal import SIGKILL

import pytest
from boosted import inside, run, studies
from trained import needs

needs("ray", "pyarrow")
pytestmark = pytest.mark.release  # Ray takes half a minute to start

PROGRAM = "ray_tune.py"


def test_trials_of_a_function(tmp_path):
    found = run(tmp_path, PROGRAM, "function")
    assert found.out.splitlines()[-1] == "[3.0, 4.0, 5.0]"
    assert len(found.of("trial")) == 3
    # Three reports of each, and the one that says that it is over.
    assert len(found.of("report")) == 3 * 4
    assert inside(found.of("report"), found.of("trial"))
    assert sorted(found.values("trial/loss")) == [1, 2, 2, 3, 3, 3, 4, 4, 5]
    assert found.of("iteration") == []


def test_iterations_of_a_class(tmp_path):
    found = run(tmp_path, PROGRAM, "class")
    assert found.out.splitlines()[-1] == "[14, 14]"
    assert len(found.of("iteration")) == 4 + 3
    assert {span.site["what"] for span in found.of("iteration")} == {"Counter"}
    assert sorted(found.values("trial/loss")) == [11, 12, 12, 13, 13, 14, 14]
    assert found.of("trial") == []
    [study] = studies(tmp_path)
    assert [len(trial.runs) for trial in study.trials] == [4, 3]
    assert [trial.values["loss"] for trial in study.trials] == [14, 14]


def test_a_study(tmp_path):
    run(tmp_path, PROGRAM, "best")
    [study] = studies(tmp_path)
    assert (study.framework, study.workers, study.goals) == ("ray", 1, ("minimize",))
    assert [trial.params for trial in study.trials] == [{"x": 1.0}, {"x": -1.0}, {"x": 3.0}]
    assert [trial.values.get("loss") for trial in study.trials] == [3.0, None, 5.0]
    assert [trial.state for trial in study.trials] == ["complete", "failed", "complete"]
    assert study.trials[1].error == "ValueError: x is negative"
    assert study.best == (0,) and study.metric == "loss"
    phases = {phase.name: phase for phase in study.phases}
    assert {"deploy", "setup", "result collection", "un-deploy"} <= set(phases)
    assert all(0 < trial.seconds < 30 and trial.setup > 0 for trial in study.trials)


def test_a_trial_that_fails_says_why_wherever_it_did(tmp_path):
    """In what makes its process, in a step, and with the process itself."""
    found = run(tmp_path, PROGRAM, "broken")
    assert found.out.splitlines()[-1] == "3"
    [study] = studies(tmp_path)
    assert [trial.state for trial in study.trials] == ["failed", "failed", "failed", "complete"]
    made, stepped, died, _ = (trial.error for trial in study.trials)
    assert (made, stepped) == ("RuntimeError: no such device", "ValueError: x is 2")
    assert "worker process has died" in died


def test_of_a_study_that_is_killed_the_trials_are_known(tmp_path):
    """The program itself would have said so after the last one."""
    run(tmp_path, PROGRAM, "killed", exits=-SIGKILL)
    [study] = studies(tmp_path)
    assert study.metric == "loss" and study.goals == ("minimize",)
    assert [trial.state for trial in study.trials] == ["complete", "complete", "failed"]
    assert [trial.params for trial in study.trials] == [{"x": 2.0}, {"x": 1.0}, {"x": 3.0}]
    assert [trial.values.get("loss") for trial in study.trials[:2]] == [2.0, 1.0]
    assert (study.best, study.aborted) == ((1,), True)


def test_a_program_that_only_imports_ray_undeploys_nothing(tmp_path):
    """Ray shuts itself down at the end of each."""
    (tmp_path / "only_import.py").write_text("import ray\n")
    assert run(tmp_path, str(tmp_path / "only_import.py")).of("undeploy") == []
