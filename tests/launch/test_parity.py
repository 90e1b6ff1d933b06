"""Every program behaves under ``inject run`` as under ``python``."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from .cases import CASES, STARTED, WRITTEN, Case
from .parity import observe

EVERYTHING = str(Path(__file__).with_name("everything.py"))
WAYS = {"plain": [], "probed": ["--voirfile", EVERYTHING]}

SUGGESTION = re.compile(r"(NameError: name '\w+' is not defined)\. Did you mean: '\w+'\?")
"""Python offers none where builtins, names of hooks among them, are many (docs/selectors.md)."""


def check(
    case: Case,
    ways: list[str],
    inject,
    environ,
    folder: Path,
    neighbours: Mapping[str, str] = MappingProxyType({}),
) -> None:
    missing = [name for name in case.needs if importlib.util.find_spec(name) is None]
    assert not missing, f"install the extra 'test': {missing}"
    expected = observe(case, [sys.executable, *case.flags], folder, environ, neighbours)
    for way in ways:
        command = [inject[0], *case.flags, *inject[1:], "run", "--quiet", *WAYS[way]]
        seen = observe(case, command, folder, environ, neighbours)
        for what, value in expected.items():
            found = seen[what]
            if way == "probed" and sys.version_info >= (3, 12) and isinstance(value, str):
                value, found = (SUGGESTION.sub(r"\1", text) for text in (value, found))
            assert (way, what, found) == (way, what, value)


ONCE = [case for number, case in enumerate(STARTED) if number % 3 and case.probed]
"""Of what starting could change, two in three are run with a probe as well before a release alone."""
OFTEN = [
    pytest.param(case, marks=[pytest.mark.release] if case.heavy else [], id=case.name)
    for case in CASES
]


@pytest.mark.parametrize("case", OFTEN)
def test_parity(case: Case, inject, environ, tmp_path):
    """With a probe everywhere; where how it is started counts, or no probe can be, also without one."""
    alone = case in STARTED or not case.probed
    probed = case.probed and case not in ONCE
    ways = [*(["plain"] if alone else []), *(["probed"] if probed else [])]
    check(case, ways, inject, environ, tmp_path / "p")


@pytest.mark.release
@pytest.mark.parametrize("case", ONCE, ids=lambda case: case.name)
def test_parity_with_a_probe(case: Case, inject, environ, tmp_path):
    check(case, ["probed"], inject, environ, tmp_path / "p")


@pytest.mark.release
@pytest.mark.parametrize("case", WRITTEN, ids=lambda case: case.name)
def test_parity_without_a_probe(case: Case, inject, environ, tmp_path):
    check(case, ["plain"], inject, environ, tmp_path / "p")


@pytest.mark.release
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_parity_beside_a_module_of_the_standard_library_s_name(
    case: Case, inject, environ, tmp_path
):
    """Without a probe nothing of ours is imported into the program, but for such a neighbour."""
    check(case, ["plain"], inject, environ, tmp_path / "p", {"tty.py": ""})
