"""What docs/scores.md and docs/sizing.md say is so."""

from __future__ import annotations

import re
from math import sin
from pathlib import Path

import yaml
from suitefolders import SuiteFolder, state

from injector.suite.config.keys import problems
from injector.suite.config.rules import RULES
from injector.suite.plan import batch_sizes, observations
from injector.suite.results import scores
from injector.suite.results.cells import HEADS
from injector.suite.results.scores import Row
from injector.suite.results.suite_report import render

DOCS = Path(__file__).parents[3] / "docs"
SCORES, SIZING = ((DOCS / name).read_text() for name in ("scores.md", "sizing.md"))


def tables(text):
    """The rows of all tables, as cells."""
    lines = re.findall(r"^\|(.*)\|$", text, re.M)
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def test_every_column_is_defined():
    rows = {row[0]: row[1] for row in tables(SCORES) if len(row) == 3}
    assert [head for head in HEADS if head not in rows] == []
    named = {name for cell in rows.values() for name in re.findall(r"`(\w+)`", cell)}
    assert set(Row._fields) - {"benchmark"} <= named


def test_every_rule_stands_in_the_table():
    found, layer = {}, ""
    for cells in tables(SCORES):
        if len(cells) == 4 and cells[0] != "layer" and not cells[0].startswith("---"):
            layer = cells[0].strip("`") or layer
            if cells[1]:
                found[layer, cells[1].strip("`")] = (cells[2], cells[3])
    wanted = {
        (layer, key): rule
        for layer, rules in RULES.items()
        for key, rule in rules.items()
        if key != "severity"
    }
    assert set(found) == set(wanted)
    for key, (default, text) in found.items():
        rule = wanted[key]
        assert text == rule.text
        shown = "" if rule.default is None else str(rule.default).lower()
        assert default == (shown if not isinstance(rule.default, float) else f"{rule.default:.2g}")


def test_the_validation_of_the_docs_is_right():
    [block] = [b for b in re.findall(r"```yaml\n(.*?)```", SCORES, re.S) if "validation" in b]
    answer = yaml.safe_load(block)["resnet50"]["validation"]
    assert problems({"validation": answer}) == []
    assert problems({"validation": {"rate": {"mni": 3}}}) != []


def test_the_example_of_a_score(tmp_path):
    message = re.search(
        r"rates of ([\d ]+) each.*?: ([\d.]+)\. The score is ([\d.]+)\. Had one .* is ([\d.]+)\.",
        SCORES,
        re.S,
    )
    assert message is not None
    rates = [float(each) for each in message[1].split()]
    made = SuiteFolder(tmp_path)
    for slot in (0, 1):
        made.process("good", rates, slot=slot)
        made.process("bad", rates, slot=slot, code=slot)
    good, bad = scores.rows(made.read())
    assert (good.score / 2, good.score, bad.score) == tuple(map(float, message.groups()[1:]))


def shown_suite(path):
    """The suite whose report docs/scores.md shows."""
    made = SuiteFolder(path, "standard")
    made.plan["suite"]["file"] = "/home/me/suites/standard.yaml"
    device = {"name": "NVIDIA L40S", "memory": 48.3e9}
    made.plan["machine"].update(cpu_count=48, memory=270.2e9, devices=[device, device])
    made.benchmark("resnet50", weight=2)
    packages = {"torch": "2.13.0", "numpy": "2.4.6", "overlay-injector": "0.1.0"}
    for slot in (0, 1):
        rates = [1139 + slot + 60 * sin(n) for n in range(60)]
        samples = [state(0.9, 13.94e9, 48.3e9, 258.7 + slot)] * 37
        made.process("resnet50", rates, slot=slot, devices=[f"cuda:{slot}"], packages=packages,
                     devices_seen=[samples])  # fmt: skip
    rates = [295.9 + 20 * sin(n) for n in range(60)]
    samples = [state(0.8, 28.52e9, 48.3e9, 271.5)] * 65
    trace = (
        "Traceback (most recent call last):\n"
        '  File "main.py", line 12, in <module>\n    loss.backward()\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 80.00 MiB\n"
    )
    made.process("llama", rates, devices=["cuda:0"], devices_seen=[samples], packages=packages)
    made.process("llama", [], slot=1, devices=["cuda:1"], code=1, stderr=trace, packages=packages)
    made.leave_out("ppo", "its environment is not installed", failure=True)
    made.benchmark("ppo")
    made.leave_out("dinov2-nodes", "needs 2 machines; this is one", weight=1.0)
    return made.read()


def test_the_report_of_the_docs_is_what_is_printed(tmp_path):
    """But for the time of day and the folder, which are this machine's."""
    [shown] = re.findall(r"```\n(suite standard.*?)```", SCORES, re.S)

    def same(text):
        return re.sub(r"(?m)^(  ran |run: ).*$", r"\1", text)

    assert same(render(shown_suite(tmp_path))) == same(shown)


def test_the_observations_of_the_docs(tmp_path):
    [block] = [b for b in re.findall(r"```yaml\n(.*?)```", SIZING, re.S) if "observations" in b]
    (tmp_path / "NVIDIA-L40S.yaml").write_text(block)
    known = observations.known_batches([str(tmp_path)], "NVIDIA L40S")["resnet50"]
    capacity = 24_000 * observations.MIB
    found = re.search(r"gets (\d+) with `multiple: 8`, (\d+) with `power: 2`; with `fastest` it\ngets (\d+)",
                     SIZING)  # fmt: skip
    assert found is not None
    assert [int(number) for number in found.groups()] == [
        batch_sizes.largest(known, capacity, multiple=8),
        batch_sizes.largest(known, capacity, power=2),
        batch_sizes.fastest(known, capacity),
    ]
