"""Ray Tune: trials in the processes that run them."""

from __future__ import annotations

from boosted import inside, run
from trained import needs

needs("ray", "pyarrow")

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
