"""What docs/environments.md and docs/new-benchmark.md say holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from injector.cli import new
from injector.cli.suite import install
from injector.suite import config

ROOT = Path(__file__).parents[3]
PAGES = {"environments": install.parser, "new-benchmark": new.parser}


def page(name):
    return (ROOT / "docs" / f"{name}.md").read_text()


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", page("environments"), re.S))
def test_the_settings_of_the_page_are_understood(block, tmp_path):
    for name in ("requirements.txt", "requirements.cuda.txt", "prepare.py"):
        (tmp_path / name).write_text("")
    settings = {"run": "train.py", **yaml.safe_load(block)}
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump({"bench": settings}))
    (found,) = config.load(tmp_path / "suite.yaml").benchmarks
    assert set(settings) <= set(found.settings)


@pytest.mark.release  # test_new tries a program in every `make test`
def test_the_voirfile_of_the_page_is_what_the_example_gets(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert new.main(["ex", "--script", str(ROOT / "examples" / "train.py")]) == 0
    (block,) = re.findall(r"```python\n(.*?)```", page("new-benchmark"), re.S)
    assert block in (tmp_path / "benchmarks" / "ex" / "voirfile.py").read_text()


@pytest.mark.parametrize("name", PAGES)
def test_the_options_of_the_page_are_those_of_the_command(name):
    told = set(re.findall(r"^\| `(--[a-z-]+)", page(name), re.M))
    has = {word for action in PAGES[name]()._actions for word in action.option_strings}
    common = {"--help", "--select", "--exclude", "--override", "--commit"}
    assert told <= has
    assert {word for word in has if word.startswith("--")} - told <= common
