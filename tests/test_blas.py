"""NumPy is loaded without threads of OpenBLAS, and nothing else notices."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from injector.blas import VARIABLE, WithoutThreads

LOADED = """
import os
import injector.analysis.columns
print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))
"""


@pytest.mark.parametrize("given", [None, "3"])
def test_what_the_user_has_set_holds_and_nothing_is_left_behind(monkeypatch, given):
    monkeypatch.delenv(VARIABLE, raising=False)
    if given:
        monkeypatch.setenv(VARIABLE, given)
    with pytest.raises(ImportError), WithoutThreads(), WithoutThreads():
        assert os.environ[VARIABLE] == (given or "1")
        raise ImportError
    assert os.environ.get(VARIABLE) == given


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_a_report_has_one_thread():
    environ = {key: text for key, text in os.environ.items() if key != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", LOADED], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "None"]
