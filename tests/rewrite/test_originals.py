"""A function that leaves the process leaves as it was written."""

from __future__ import annotations

import importlib
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from weaving import boot, python

TEXT = """
import functools
SCALE = 2
def f(x):
    y = x + SCALE
    return y
def outer(a):
    def inner(b):
        total = a + b
        return total
    return inner
class A:
    def m(self, x):
        z = [x * n for n in range(2)]
        return sum(z)
double = lambda v: v * 2
"""

PLACES = [("f", "y"), ("outer.inner", "total"), ("A.m", "n"), ("double", "v"), ("outer", "a")]


def elsewhere(data, call, *extra):
    """What ``call`` gives in a python that knows nothing of us; the function is ``f`` there."""
    program = f"""
import builtins, pickle, sys
{"; ".join(extra)}
f = pickle.loads(sys.stdin.buffer.read())
assert not [n for n in vars(builtins) if n.startswith("injector")]
assert not [m for m in sys.modules if m.partition(".")[0] in ("injector", "leaving")]
print({call})
"""
    done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, cwd="/")
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


@pytest.fixture
def leaving(woven, module):
    """A rewritten module whose things are pickled by value."""
    module("leaving", TEXT)
    for path, variable in PLACES:
        woven.add("leaving", path, variable)
    made = importlib.import_module("leaving")
    assert made.f(1) == 3 and made.outer(1)(2) == 3 and made.A().m(2) == 2 and made.double(2) == 4
    assert len(woven.take()) == 6 and len(woven.landings()) == 5
    return made


CALLS = {
    "f": ("f(1)", "3"),
    "outer": ("f(1)(2)", "3"),
    "double": ("f(4)", "8"),
    "closure": ("f(5)", "6"),
    "method": ("f(3)", "3"),
    "class": ("f().m(3)", "3"),
}


def things(made):
    return {
        "f": made.f,
        "outer": made.outer,
        "double": made.double,
        "closure": made.outer(1),
        "method": made.A().m,
        "class": made.A,
    }


@pytest.mark.parametrize("name", CALLS)
def test_cloudpickle(leaving, woven, name):
    cloudpickle = pytest.importorskip("cloudpickle")
    cloudpickle.register_pickle_by_value(leaving)
    try:
        data = cloudpickle.dumps(things(leaving)[name])
    finally:
        cloudpickle.unregister_pickle_by_value(leaving)
    assert b"injector" not in data
    call, result = CALLS[name]
    assert elsewhere(data, call) == result
    assert leaving.f(1) == 3 and woven.take()


def test_a_copy_that_was_made_live_leaves_as_written(woven, module):
    cloudpickle = pytest.importorskip("cloudpickle")
    made = module("leaving", TEXT, load=True)
    woven.add("leaving", "f", "y")
    woven.add("leaving", "f", "x")
    woven.engine.attach(made.double, woven.request("", "", "v"))
    cloudpickle.register_pickle_by_value(made)
    for name in ("f", "double"):
        data = cloudpickle.dumps(things(made)[name])
        assert b"injector" not in data and elsewhere(data, *CALLS[name][:1]) == CALLS[name][1]
    cloudpickle.unregister_pickle_by_value(made)


def test_a_copy_inside_another_package(leaving, tmp_path, monkeypatch):
    """As Ray and older joblibs have it."""
    cloudpickle = pytest.importorskip("cloudpickle")
    package = tmp_path / "vendor"
    shutil.copytree(Path(cloudpickle.__file__).parent, package / "cloudpickle")
    (package / "__init__.py").write_text("")
    vendored = importlib.import_module("vendor.cloudpickle")
    vendored.register_pickle_by_value(leaving)
    data = vendored.dumps(leaving.outer(1))
    assert b"injector" not in data and b"vendor.cloudpickle" in data
    assert elsewhere(data, "f(5)", f"sys.path.append({str(tmp_path)!r})") == "6"


def test_joblib(tmp_path):
    pytest.importorskip("joblib")
    text = """
import joblib
def work(x):
    y = x + 1
    return y
if __name__ == "__main__":
    print(joblib.Parallel(n_jobs=2)(joblib.delayed(work)(n) for n in range(3)))
"""
    (tmp_path / "main.py").write_text(text)
    done = python("-m", "main", cwd=tmp_path, before=boot([("__main__", "work", "y")]))
    assert (done.stdout, done.stderr) == ("[1, 2, 3]\n", "")


def test_dill(leaving):
    dill = pytest.importorskip("dill")
    if sys.version_info >= (3, 15) and not hasattr(test_dill.__code__, "co_lnotab"):
        pytest.skip("this dill pickles no function on this Python")
    data = dill.dumps(leaving.outer(1), recurse=True, byref=False)
    assert b"injector" not in data
    assert elsewhere(data, "f(5)", "import dill") == "6"


def test_what_is_not_ours_is_pickled_as_ever(woven, module):
    cloudpickle = pytest.importorskip("cloudpickle")
    made = module("untouched", TEXT, load=True)
    cloudpickle.register_pickle_by_value(made)
    woven.engine.uninstall()
    try:
        before = cloudpickle.dumps(made.f)
    finally:
        woven.engine.install()
    assert cloudpickle.dumps(made.f) == before
    cloudpickle.unregister_pickle_by_value(made)
    assert pickle.loads(pickle.dumps(made.f)) is made.f


def test_nothing_is_loaded_for_it(tmp_path):
    (tmp_path / "main.py").write_text(
        "import sys; print(sorted(m for m in sys.modules if 'pickle' in m))"
    )
    assert python("main.py", cwd=tmp_path, before=boot()).stdout == "[]\n"
