"""The standard library, rewritten with hooks at every place: it compiles, and its own tests pass."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from rewriting import differences, everything, library, plainly

from injector.rewrite.transform import rewrite

SHARDS = 16
LEAST = 1_500 if importlib.util.find_spec("test.test_grammar") else 600
"""The standard library of each supported version has more modules than this, its tests included where
they are: Debian's Python comes without.
"""
EVERY = int(os.environ.get("INJECT_STDLIB", "3"))
"""Of the library's own tests, long and much alike, one in so many is rewritten: 1 has all of them."""

WOVEN = (
    "abc", "argparse", "ast", "asyncio.base_events", "asyncio.tasks", "collections", "contextlib",
    "copy", "dataclasses", "enum", "functools", "heapq", "inspect", "json.decoder", "json.encoder",
    "pickle", "types", "typing", "weakref",
)  # fmt: skip
TESTS = (
    "test_argparse", "test_asyncgen", "test_class", "test_collections", "test_contextlib",
    "test_coroutines", "test_dataclasses", "test_decorators", "test_descr", "test_enum",
    "test_except_star", "test_functools", "test_generators", "test_grammar", "test_heapq",
    "test_json", "test_listcomps", "test_named_expressions", "test_patma",
    "test_scope", "test_super", "test_type_aliases", "test_type_params", "test_typing",
    "test_unpack_ex", "test_with", "test_yield_from",
)  # fmt: skip
"""Test modules of CPython, each rewritten as a whole beside the modules that it tests.

Not among them is what looks at code objects, and so at hooks: ``test_inspect``, ``test_dis`` and such.
"""

NOT_OVERRIDDEN = ("test_enum",)
"""Overriding what was unpacked sets it once more, which the body of an ``Enum`` forbids."""


def modules() -> list[str]:
    """The files of the standard library, its tests with it."""
    found = []
    for folder, folders, files in os.walk(library()):
        folders[:] = [f for f in folders if f not in ("site-packages", "lib2to3")]
        found += [os.path.join(folder, file) for file in files if file.endswith(".py")]
    return sorted(found)


def chosen() -> list[str]:
    """Every module of the library, and some of its tests."""
    tests = os.path.join(library(), "test") + os.sep
    found = modules()
    some = [path for path in found if path.startswith(tests)][::EVERY]
    return [path for path in found if not path.startswith(tests)] + some


def texts(paths: list[str]) -> Iterator[tuple[str, str]]:
    """What of them compiles as it is: some files of the tests are broken on purpose."""
    for path in paths:
        try:
            with tokenize.open(path) as file:
                text = file.read()
            plainly(text, path)
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue
        yield path, text


def often(values: Iterable[object], every: int) -> Iterator[object]:
    """``values`` as parameters: one of ``every`` in each `make test`, the others for a release."""
    for number, value in enumerate(values):
        yield pytest.param(
            value, marks=[pytest.mark.release] if number % every != every // 2 else []
        )


def test_there_is_a_library() -> None:
    assert len(modules()) > LEAST
    assert LEAST / 2 < len(chosen()) <= len(modules())


@pytest.mark.parametrize("shard", [*often(range(SHARDS), 16)])
def test_every_module_compiles_and_keeps_its_lines(shard: int) -> None:
    wrong, count = [], 0
    for number, (path, text) in enumerate(texts(chosen()[shard::SHARDS])):
        tree = ast.parse(text, path)
        requests = everything(override=bool(number % 2))  # every second one observed, or overridden
        landings, _ = rewrite(tree, requests, module="m", filename=path, source=text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            woven = compile(tree, path, "exec", dont_inherit=True)
        wrong += [f"{path}{each}" for each in differences(plainly(text, path), woven)]
        count += bool(landings)
    assert wrong == []
    assert count > LEAST / SHARDS / 4


def outcomes(test: str, flags: list[str], folder: Path) -> dict[str, str]:
    """How each test of a module of CPython's ``test`` package went, in a process of its own."""
    script = str(Path(__file__).with_name("run_rewritten.py"))
    done = subprocess.run(
        [sys.executable, script, *flags, test, *WOVEN],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
    )
    _, mark, last = done.stdout.rpartition("\nOUTCOME ")
    assert mark, done.stdout[-2000:] + done.stderr[-4000:]
    found: dict[str, str] = json.loads(last)
    return found


@pytest.mark.parametrize("test", [*often(TESTS, 8)])
def test_cpythons_own_tests_go_as_they_do_without_hooks(test: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(f"test.{test}") is None:
        pytest.skip("this Python has no such test")
    plain = outcomes(test, ["--plain"], tmp_path)
    if not plain:
        pytest.skip("this Python has nothing but doctests there")
    assert "ok" in plain.values()
    # To override is to observe as well: every second one is only observed.
    overridden = test not in NOT_OVERRIDDEN and TESTS.index(test) % 2 == 0
    assert outcomes(test, ["--override"] if overridden else [], tmp_path) == plain
