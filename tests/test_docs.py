"""The examples in README.md and docs/ run as they stand there."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PROGRAM = """
import sys

def make_loader():
    return [[i, i + 1] for i in range(12)]

def train_step(batch):
    return 1 / (1 + batch[0])

def train(epoch, loader):
    for batch in loader:
        loss = train_step(batch)
    return loss

def main():
    loader = make_loader()
    for batch in loader:
        loss = train_step(batch)
    for epoch in range(2):
        train(epoch, loader)
    sys.stdout.write("done")

main()
"""


def voirfiles():
    for page in (ROOT / "README.md", ROOT / "docs" / "voirfiles.md"):
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S)):
            if "def instrument_" in block:
                yield pytest.param(block, id=f"{page.stem}-{number}")


def run(tmp_path, *words):
    return subprocess.run(
        [sys.executable, "-m", "injector", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize("voirfile", list(voirfiles()))
def test_a_voirfile_of_the_docs_runs_and_fires(voirfile, tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "x.py").write_text(voirfile)
    done = run(tmp_path, "run", "--runs", "runs", "train.py", "--voirfile", "x.py")
    assert done.returncode == 0, done.stderr
    [folder] = (tmp_path / "runs").glob("*")
    record = json.loads((folder / "run.json").read_text())
    assert record["failures"] == [], record["failures"]
    assert record["misses"] == [], record["misses"]
    assert record["probes"]
    assert all(probe["fired"] for probe in record["probes"]), record["probes"]


def test_the_config_of_the_docs_sets_its_option(tmp_path):
    text = (ROOT / "docs" / "voirfiles.md").read_text()
    [config] = re.findall(r"```yaml\n# options.yaml\n(.*?)```", text, re.S)
    [voirfile] = [b for b in re.findall(r"```python\n(.*?)```", text, re.S) if "configurable" in b]
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "x.py").write_text(voirfile)
    (tmp_path / "options.yaml").write_text(config)
    done = run(
        tmp_path,
        "run",
        "--runs",
        "runs",
        "--voirfile",
        "x.py",
        "--config",
        "options.yaml",
        "train.py",
    )
    assert done.returncode == 0, done.stderr
    [data] = (tmp_path / "runs").glob("*/*.data")
    losses = [line for line in data.read_text().splitlines() if '"loss"' in line]
    assert len(losses) == 20


def test_every_link_between_pages_leads_somewhere():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_glossary_is_short_sorted_and_of_words_that_are_used():
    text = (ROOT / "docs" / "glossary.md").read_text()
    entries = re.findall(r"^- \*\*(.+?)\*\*: (.+)$", text, re.M)
    assert len(entries) == text.count("\n- ") > 0, "an entry is one line: - **term**: meaning."
    terms = [term for term, _ in entries]
    assert len(terms) <= 40
    assert terms == sorted(set(terms), key=str.casefold)
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    modules = (ROOT / "injector").rglob("*.py")
    used = "\n".join(path.read_text() for path in (*pages, *modules) if path.name != "glossary.md")
    # `CallSite` and `call_site` are uses of "call site".
    used = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", used).casefold()
    unused = [term for term in terms if not re.search(rf"\b{re.escape(term)}s?\b", used)]
    assert unused == []
    for term, meaning in entries:
        assert meaning.endswith("."), term
        assert len(re.findall(r"[.?!](?= [A-Z]|$)", meaning)) <= 2, (
            f"{term}: more than two sentences"
        )


# --- the report of README.md ----------------------------------------------------------------------


def essence(report: str) -> list[str]:
    """What of a report depends on the program alone, whatever the machine and its load.

    The names of its parts in order; the regions with their lines of the program; counted steps,
    passes and batches. Figures, the verdict and the host are the machine's, and so is what takes long
    enough outside of steps to be shown.
    """
    found = []
    for line in report.splitlines():
        words = line.split()
        if line[:1].strip():
            found.append(words[0] if words[0] != "train:" else " ".join(words[:9]))
        elif re.match(r"  [├└]", line):
            found.append(" ".join(re.findall(r"^\w+|\S+\.py:\d+.{0,12}", line[5:])))
        elif re.match(r"  (train\.py|train loss)", line):
            found.append(" ".join(words[:3]))
    return [
        each
        for each in found
        if not each.startswith(("inject", "run:", "epoch", "host", "outside"))
    ]


def test_the_report_of_the_readme_is_what_the_example_gets(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "train.py").write_bytes((ROOT / "examples/train.py").read_bytes())
    [shown] = re.findall(
        r"```\n\$ inject run examples/train.py\n(.*?)```", (ROOT / "README.md").read_text(), re.S
    )
    done = run(tmp_path, "run", "examples/train.py")
    assert done.returncode == 0, done.stderr
    assert essence(shown) == essence(done.stderr)
    # And what the README shows after it, of the same program and run.
    readme = (ROOT / "README.md").read_text()
    [voirfile] = re.findall(r"```python\n# x.py\n(.*?)```", readme, re.S)
    (tmp_path / "x.py").write_text("# x.py\n" + voirfile)
    commands = re.findall(r"```\n\$ inject ((?:functions|check|query) .*)\n((?:.*\n)+?)```", readme)
    assert [line.split()[0] for line, _ in commands] == ["query", "functions", "check"]
    for line, output in commands:
        done = run(tmp_path, *shlex.split(line))
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(output), line
