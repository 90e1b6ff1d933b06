"""`docs/selectors.md`: every selector on the page is read, and lands in the page's own program."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from injector.rewrite import selector
from injector.rewrite.locate import ProgramSources, Source
from injector.rewrite.ptera_tree import converted
from injector.rewrite.request import Request
from injector.rewrite.selector import SelectorError
from injector.rewrite.selector_reader import parse
from injector.rewrite.survey import survey

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "selectors.md").read_text()
PROGRAM = re.search(r"```python\n(.*?)```", PAGE, re.S).group(1)  # type: ignore[union-attr]
CODE = re.compile(r"`([^`\n]+)`")


def first_cells(text: str) -> list[str]:
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    return [cell for row in rows for cell in CODE.findall(row.split(" | ")[0])]


FUNCTIONS, EXAMPLES = PAGE.split("\n## Variables", 1)
TARGETS = first_cells(FUNCTIONS)
SELECTORS = first_cells(EXAMPLES)
REFUSED = CODE.findall(EXAMPLES.split("A few more: ")[1].split("\n\n")[0])


def requests(text: str) -> list[Request]:
    """One request for every variable that a selector names."""
    found = []
    for call in selector.calls(parse(text)):
        for element in call.captures:
            where = (call.module or "", call.path)
            event = {"enter": "#enter", "exit": "#exit"}.get(str(element.tag).lstrip("@"))
            about = (event, None) if event else (element.name, element.tag)
            found.append(Request(f"h:{len(found)}", *where, about[0], category=about[1]))
    return found


def test_the_page_has_examples() -> None:
    assert (len(TARGETS), len(REFUSED)) == (9, 7) and len(SELECTORS) > 45
    ast.parse(PROGRAM)


@pytest.mark.parametrize("text", TARGETS)
def test_target_is_read(text: str) -> None:
    assert parse(f"{text} > x").target == text


@pytest.mark.parametrize("text", SELECTORS)
def test_selector_is_read(text: str) -> None:
    assert parse(str(parse(text))) == parse(text)


@pytest.mark.parametrize("text", REFUSED)
def test_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse(text)


@pytest.mark.parametrize("text", [text for text in SELECTORS if text.startswith("/")])
def test_selector_lands(text: str, tmp_path: Path) -> None:
    program = ProgramSources(Source("__main__", "train.py", PROGRAM), [], str(tmp_path))
    wanted = requests(text)
    landings, misses = survey(program, [(request, None) for request in wanted])
    assert [miss.reason for miss in misses] == []
    assert {landing.request.hook for landing in landings} == {one.hook for one in wanted}


def test_caret_of_the_page() -> None:
    with pytest.raises(SelectorError) as caught:
        parse("//train >")
    assert f"x.py:5: {caught.value}\n" in PAGE


def test_ptera_reads_every_example_so() -> None:
    reference = pytest.importorskip("ptera.selector")
    for text in SELECTORS:
        assert converted(reference._select(text)) == parse(text)


VOIRFILE = """
import math
first = 1
def positive(x): return x > 0
def above(n): return lambda x: x > n
def instrument_all(ov):
    yield ov.phases.load_script
    for text in {selectors!r}:
        ov.probe(text).subscribe(lambda data: None)
"""

NEVER = {
    "//train > #error",  # nothing raises
    "//train > loss=0",
    "//train() = 0",
    "//Trainer/step(x='a')",
}


def test_every_example_fires(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "x.py").write_text(VOIRFILE.format(selectors=SELECTORS))
    done = subprocess.run(
        [sys.executable, "-m", "injector", "run", "train.py", "--voirfile", "x.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "INJECT_RUNS": str(tmp_path / "runs")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    [record] = (tmp_path / "runs").glob("*/run.json")
    info = json.loads(record.read_text())
    assert (info["failures"], info["misses"]) == ([], [])
    fired = {probe["selector"] for probe in info["probes"] if probe["fired"]}
    assert set(SELECTORS) - NEVER <= fired
