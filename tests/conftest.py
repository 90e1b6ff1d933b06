"""What all tests share."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import search_path

# Pytest rewrites its modules too, which takes a second where it may not keep what it made.
NO_BYTECODE, sys.dont_write_bytecode = sys.dont_write_bytecode, False
from hypothesis import settings  # noqa: E402
from tries import RELEASE  # noqa: E402

sys.dont_write_bytecode = NO_BYTECODE

# How long an example takes says how busy the machine is, and nothing about us. Where a test does not
# say how many it needs, every commit tries a sixth of what a release does.
settings.register_profile("commit", deadline=None, max_examples=25)
settings.register_profile("release", deadline=None, max_examples=RELEASE)

# A job in the background of a script ignores Ctrl-C, one of nohup a hang-up, and so would all that is
# started by it.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(
            number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        )

# A PyTorch with as many threads as cores in each of several processes of tests: threads that wait for a
# core, and spin. Whatever tests how many threads a program has sets this itself.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parents[1]
pytest_plugins = ["ray_cluster", "slurm_cluster"]


def pytest_configure(config: pytest.Config) -> None:
    """Settings of hypothesis have to be there before the first module of tests is imported.

    A compiled part of older sources would record less, and tests would fail for no reason that they show.
    """
    often = "not release" in config.option.markexpr
    settings.load_profile("commit" if often else "release")
    search_path.sooner = often
    probe = ROOT / "injector" / "probe"
    made = [each.stat().st_mtime for each in probe.glob("_native*.so")]
    if made and max(made) < max(each.stat().st_mtime for each in probe.glob("native/*.[ch]")):
        pytest.exit("the compiled part is older than its sources: pip install --no-deps -e .", 2)


FIRST = ("voirfiles", "loops", "launch")
"""Folders with many tests that take seconds each: at the end, one core would wait for the other."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.parent.name not in FIRST)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the rewritten code of tests for the next time, even where an image has Python keep none.

    Rewriting takes ten seconds in each process of tests. Only while tests are collected: those that
    write a module, import it and write another one in its place must find no bytecode.
    """
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    gc.disable()  # nothing of what is imported is garbage
    try:
        return (yield)
    finally:
        gc.enable()
        sys.dont_write_bytecode = before


LAUNCHER = f"""\
import sys
sys.path.insert(0, {str(ROOT)!r})
from injector.cli import main
sys.exit(main())
"""


@pytest.fixture(scope="session")
def inject(tmp_path_factory):
    """The words that start ``inject`` as an installed console script would, path untouched."""
    script = tmp_path_factory.mktemp("bin") / "inject"
    script.write_text(LAUNCHER)
    return [sys.executable, str(script)]


@pytest.fixture(scope="session")
def environ(tmp_path_factory):
    """A small environment that is the same on every machine."""
    base = tmp_path_factory.mktemp("environment")
    return {
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "/bin")]),
        "HOME": str(base),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "INJECT_RUNS": str(base / "runs"),
    }
