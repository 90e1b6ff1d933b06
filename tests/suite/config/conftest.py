"""Suites written for one test each."""

from __future__ import annotations

from textwrap import dedent

import pytest

from injector.suite.config import load
from injector.suite.config.problems import SuiteError

MACHINE = {"arch": "cuda", "gpu_count": 8, "cpu_count": 64}
JOB = {"base": "/b", "data": "/b/data/x", "out": "/o", "source": "/s", "device_count": 1}


class Suites:
    """Writes files and loads them."""

    context = {**MACHINE, **JOB, "devices": ["cuda:0"]}

    def __init__(self, folder):
        self.folder = folder

    def write(self, **files):
        for name, text in files.items():
            path = self.folder / name.replace("__", "/")
            path = path.with_name(path.name + ".yaml")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
        return self

    def load(self, text="", name="suite", facts=MACHINE, **options):
        if text:
            self.write(**{name: text})
        return load(self.folder / f"{name}.yaml", facts, **options)

    def one(self, text, **options):
        """The only benchmark."""
        (found,) = self.load(text, **options).benchmarks
        return found

    def argv(self, text, context=None, **options):
        """Each benchmark's arguments, as one text."""
        made = self.load(text, **options).benchmarks
        context = {**self.context, **(context or {})}
        return {each.name: " ".join(each.argv(context)) for each in made}

    def problems(self, text="", name="suite", **options):
        """What is wrong: each problem's file, line, key and text."""
        with pytest.raises(SuiteError) as caught:
            self.load(text, name, **options)
        return self.messages(caught.value)

    def messages(self, error):
        folder = f"{self.folder}/"
        return str(error).replace(folder, "").splitlines()


@pytest.fixture
def suites(tmp_path):
    return Suites(tmp_path)
