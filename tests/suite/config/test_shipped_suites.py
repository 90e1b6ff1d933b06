"""The shipped suites come to what `shipped_suites.txt` lists: a change of the language shows there first.

Where a suite or a definition was changed on purpose, `python test_shipped_suites.py` writes the list anew.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from injector import origin
from injector.suite.config import load
from injector.suite.config.definitions import shipped_suites

EXPECTED = Path(__file__).with_name("shipped_suites.txt")
MACHINE = {"arch": "cuda", "gpu_count": 8, "cpu_count": 64, "gpu": {"count": 8, "name": "X"}}
JOB = {"base": "/b", "data": "/d", "out": "/o", "source": "/s", "device_count": 1, "devices": ["d"]}
FOLDERS = {"benchmark_folder": "/f", "milabench_code": "/f"}
CONTEXT = {**MACHINE, **JOB, **FOLDERS}


def expansions():
    """A line for each benchmark: its name, its arguments, a digest of its filled settings."""
    for name, file in shipped_suites().items():
        for each in load(file, MACHINE).benchmarks:
            settings = json.dumps(each.filled(CONTEXT), default=str)
            settings = settings.replace(origin.shipped("benchmarks"), "BENCHMARKS")
            digest = hashlib.sha256(settings.encode()).hexdigest()[:12]
            yield " ".join([f"{name}:", each.name, digest, *each.argv(CONTEXT)])


def test_the_shipped_suites_expand_as_listed():
    assert list(expansions()) == EXPECTED.read_text().splitlines()


if __name__ == "__main__":
    EXPECTED.write_text("\n".join(expansions()) + "\n")
