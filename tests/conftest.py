"""What all tests share."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is, and nothing about us.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")

# A job in the background of a script ignores Ctrl-C, one of nohup a hang-up, and so would all that is
# started by it.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(
            number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        )

ROOT = Path(__file__).parents[1]

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
        "INJECT_RUNS": str(base / "runs"),
    }
