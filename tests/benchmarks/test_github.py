"""The repositories of the suite `github` really train, and their steps have as many items as they were given.

They come from where git reaches them: GitHub, or mirrors that git's `insteadOf` names.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.release, pytest.mark.xdist_group("github")]

ITEMS = {
    "nanogpt": 12,
    "mingpt-adder": 64,
    "examples-mnist": 64,
    "examples-imagenet": 4,
    "examples-dcgan": 16,
    "cifar10": 128,
    "dlrm": 256,
    "ppo": 128,
}
"""What each is told its batch is: by its arguments, or in its own text."""
VISION = {"examples-mnist", "examples-imagenet", "examples-dcgan", "cifar10"}
STEPS = 12


def inject(*words):
    words = [sys.executable, "-m", "injector", *map(str, words)]
    return subprocess.run(words, capture_output=True, text=True, timeout=1800)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A base folder with everything that the suite needs."""
    base = tmp_path_factory.mktemp("github")
    done = inject("suite", "install", "github", "--base", base, "--arch", "cpu")
    if "cannot be reached" in done.stdout:
        pytest.skip("a repository or the package index cannot be reached")
    assert done.returncode == 0, done.stdout
    done = inject("suite", "prepare", "github", "--base", base)
    assert done.returncode == 0, done.stdout
    return base


@pytest.mark.parametrize("name", ITEMS)
def test_a_repository_trains_and_its_items_are_those_of_its_batches(base, name):
    python = base / "venv" / "torch" / "bin" / "python"
    if name in VISION and subprocess.run([python, "-c", "import torchvision"]).returncode:
        pytest.skip("torchvision is for another build of PyTorch than the one that is installed")
    options = (f"{name}.voir.options.stop={STEPS}", f"{name}.voir.options.skip=2")
    words = [word for option in options for word in ("--override", option)]
    words += ["--base", base, "--devices", "cpu:1", "--name", name]
    done = inject("suite", "run", "github", "--select", name, *words)
    assert done.returncode == 0, done.stderr
    [run] = (base / "runs").glob(f"{name}.*/jobs/*")
    done = inject("query", run, "select items from steps where measured", "--format", "json")
    items = [row["items"] for row in json.loads(done.stdout)]
    assert len(items) >= STEPS and set(items) == {ITEMS[name]}
