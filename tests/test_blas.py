"""NumPy is loaded without threads of OpenBLAS and without docstrings, and nothing else notices."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from injector.blas import DOCSTRINGS, VARIABLE, WithoutThreads

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


LEFT = """
import sys
from injector.blas import DOCSTRINGS, WithoutThreads
with WithoutThreads():
    if {early}:
        import numpy
    with WithoutThreads():
        pass
    assert all(not hasattr(sys.modules[name], "__file__") for name in DOCSTRINGS), "taken away"
import numpy
print(any(name in sys.modules for name in DOCSTRINGS), bool(numpy.ndarray.sum.__doc__), numpy.arange(4).sum())
"""


@pytest.mark.parametrize("early", [True, False])
def test_docstrings_are_left_out_of_what_is_loaded_within_it_and_of_nothing_else(early):
    numpy = pytest.importorskip("numpy")
    if int(numpy.__version__.partition(".")[0]) < 2:
        pytest.skip("NumPy 1 has them in a package of another name")
    done = subprocess.run(
        [sys.executable, "-c", LEFT.format(early=early)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(not early), str(not early), "6"]
    assert all(name.startswith("numpy.") for name in DOCSTRINGS)
