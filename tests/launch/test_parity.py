"""Every program behaves under ``inject run`` as under ``python``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from .cases import CASES, Case
from .parity import observe

EVERYTHING = str(Path(__file__).with_name("everything.py"))
WAYS = {"plain": [], "probed": ["--voirfile", EVERYTHING]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_parity(case: Case, inject, environ, tmp_path):
    missing = [name for name in case.needs if importlib.util.find_spec(name) is None]
    assert not missing, f"install the extra 'test': {missing}"
    folder = tmp_path / "p"
    expected = observe(case, [sys.executable, *case.flags], folder, environ)
    for way, options in WAYS.items():
        if way == "probed" and not case.probed:
            continue
        command = [inject[0], *case.flags, *inject[1:], "run", "--quiet", *options]
        seen = observe(case, command, folder, environ)
        for what, value in expected.items():
            assert (way, what, seen[what]) == (way, what, value)
