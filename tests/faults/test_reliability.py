"""docs/reliability.md names every test of a fault, and no other."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reliability.md"


def rows():
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def names_of_tests():
    found = []
    for file in HERE.glob("test_*.py"):
        if file.name != Path(__file__).name:
            found += re.findall(r"^def (test_\w+)", file.read_text(), re.M)
    return found


def test_the_table_is_what_is_tested():
    assert sorted(row[-1].strip("` ") for row in rows()) == sorted(names_of_tests())


def test_every_row_says_what_was_noticed_and_lost():
    assert all(len(row) == 4 and all(row) for row in rows())
