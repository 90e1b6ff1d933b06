"""docs/suites.md: its examples expand to what stands below them, its tables are the code's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from injector.suite.config.functions import FUNCTIONS
from injector.suite.config.keys import schema
from injector.suite.config.scope import TABLE

PAGE = (Path(__file__).parents[3] / "docs" / "suites.md").read_text()
EXAMPLES = re.findall(
    r"```yaml\n(.*?)```\n(?:[^`]*`[^`]*`[^`]*\n)??\s*```(\S+)\n(.*?)```", PAGE, re.S
)
SWEPT = ['exp.gpus=["0", "0,1", "0,1,2,3"]']


@pytest.mark.parametrize(("text", "what", "expected"), EXAMPLES)
def test_an_example_is_what_stands_below_it(text, what, expected, suites):
    if what == "mistakes":
        found = suites.problems(text)
    else:
        options = {"variables": SWEPT} if what == "expands-swept" else {}
        found = [f"{name}: {words}" for name, words in suites.argv(text, **options).items()]
    assert found == expected.splitlines()


def test_every_example_was_found():
    assert len(EXAMPLES) == PAGE.count("```yaml") == 9
    assert f"-V '{SWEPT[0]}'" in PAGE


def shown(default):
    return default if isinstance(default, str) else json.dumps(default)


def rows(*cells):
    return "| " + " | ".join(cells) + " |"


def test_the_tables_are_those_of_the_code():
    made = schema()
    wanted = [
        rows(f"`{name}`", key["description"], shown(key.get("default", "")))
        for name, key in made["$defs"]["EntryKeys"]["properties"].items()
    ]
    wanted += [rows(f"`{name}`", key["description"]) for name, key in made["properties"].items()]
    wanted += [rows(f"`{{{each.name}}}`", each.text, each.source) for each in TABLE]
    wanted += [rows(f"`{name}()`", each[3]) for name, each in FUNCTIONS.items()]
    there = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert there == wanted
