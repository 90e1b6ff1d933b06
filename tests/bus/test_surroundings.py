from __future__ import annotations

import os
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from injector.bus.surroundings import git_commit, machine, packages


def test_packages_are_those_that_metadata_names() -> None:
    found = packages()
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"].replace("_", "-").replace(".", "-").lower()
        version = found.get(name) or found[distribution.metadata["Name"].lower()]
        assert version == distribution.version


def test_the_first_on_the_path_counts(tmp_path: Path) -> None:
    for folder, version in (("a", "2.0"), ("b", "1.0")):
        (tmp_path / folder / f"some_thing-{version}.dist-info").mkdir(parents=True)
    (tmp_path / "b" / "old-0.5-py3.11.egg-info").mkdir()
    (tmp_path / "b" / "noise.dist-info").mkdir()
    path = [str(tmp_path / name) for name in ("a", "missing", "b")]
    assert packages(path) == {"old": "0.5", "some-thing": "2.0"}


def git(folder: Path, *arguments: str) -> str:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for role in ("AUTHOR", "COMMITTER"):
        environ |= {f"GIT_{role}_NAME": "n", f"GIT_{role}_EMAIL": "e@x"}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environ, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_git_commit(tmp_path: Path) -> None:
    root = tmp_path / "work"
    (root / "sub" / "deep").mkdir(parents=True)
    assert git_commit(str(root)) is None
    git(root, "init", "-q", "-b", "feature/x")
    found = git_commit(str(root))
    assert found == {"root": str(root), "branch": "feature/x", "commit": None}
    git(root, "commit", "-q", "--allow-empty", "-m", "one")
    head = git(root, "rev-parse", "HEAD")
    expected = {"root": str(root), "branch": "feature/x", "commit": head}
    assert git_commit(str(root / "sub" / "deep")) == expected
    git(root, "pack-refs", "--all")
    assert git_commit(str(root)) == expected
    git(root, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    found = git_commit(str(tmp_path / "tree"))
    assert found and (found["branch"], found["commit"]) == ("other", head)
    git(root, "checkout", "-q", head)
    assert git_commit(str(root)) == {"root": str(root), "branch": None, "commit": head}


def test_a_broken_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all")
    assert git_commit(str(tmp_path)) is None


def test_machine() -> None:
    found = machine()
    assert found["cpu"]["count"] == os.cpu_count()
    assert 0 < found["cpu"]["usable"] <= os.cpu_count()
    assert found["os"]["machine"] == os.uname().machine
