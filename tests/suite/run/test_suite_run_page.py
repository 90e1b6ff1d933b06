"""The example of docs/suite-run.md does what stands there."""

from __future__ import annotations

import re

from suite_runs import ROOT, last

PROGRAM = """
def main():
    loader = [[i, i + 1] for i in range(12)]
    for batch in loader:
        loss = 1 / (1 + batch[0])

main()
"""


def test_the_small_suite(suites):
    page = (ROOT / "docs" / "suite-run.md").read_text()
    [text] = re.findall(r"```yaml\n# small.yaml\n(.*?)```", page, re.S)
    [voirfile] = re.findall(r"```python\n# x.py\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    (suites.folder / "small.yaml").write_text(text)
    (suites.folder / "x.py").write_text(voirfile)
    (suites.folder / "train.py").write_text(PROGRAM)
    done = suites.call("run", "small.yaml", devices="cpu:2")
    assert done.returncode == 0, done.stderr

    [shown] = re.findall(r"```\n\$ inject suite run small.yaml [^\n]*\n(.*?)```", page, re.S)
    assert words(done.stderr) == words(shown)
    assert last(suites.run())["train.R0"]["ok"] is True


def words(message):
    """What is said, without times and places."""
    return [re.sub(r"\d+\.\d s|/\S+", "…", line) for line in message.splitlines()]


def test_every_option_is_reported():
    from injector.cli.suite.run import parser

    page = (ROOT / "docs" / "suite-run.md").read_text()
    options = {name for each in parser()._actions for name in each.option_strings}
    missing = {name for name in options - {"-h", "--help"} if f"`{name}" not in page}
    assert missing <= {"--batch", "--sizing"}  # docs/sizing.md has them
