from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from importlib import metadata
from pathlib import Path

import pytest

from injector.bus.surroundings import KEPT, WorkTree, git_commit, machine, packages
from injector.store.place import UNCOMMITTED as DIFF
from injector.store.place import create_into


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


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A work tree with one file in its one commit."""
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "a.py").write_text("one\n")
    git(root, "add", "a.py")
    git(root, "commit", "-q", "-m", "one")
    (tmp_path / "run").mkdir()
    return root


def state(tree: Path) -> tuple[dict[str, object], bytes | None]:
    run = tree.parent / "run"
    found = WorkTree(str(tree), str(run))
    found.end(running=True)
    assert found.info is not None and not os.path.exists(run / f"{DIFF}.part")
    return found.info, (run / DIFF).read_bytes() if (run / DIFF).exists() else None


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_uncommitted_changes(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("injector.bus.surroundings.PATIENCE", 60)
    info, diff = state(tree)
    assert (info["dirty"], info["sha256"], diff) == (False, None, None)
    (tree / "a.py").write_text("two\n")
    info, diff = state(tree)
    assert info["dirty"] and diff and b"-one\n+two\n" in diff
    assert info["sha256"] == sha256(diff).hexdigest()
    assert info["commit"] == git(tree, "rev-parse", "HEAD")
    (tree / "a.py").write_text("two, and more\n" * 100_000)
    before, (info, diff) = info, state(tree)
    assert diff and len(diff) == KEPT and info["sha256"] not in (None, before["sha256"])
    (tree.parent / "run" / DIFF).unlink()
    (tree / "a.py").write_text("two, and much more\n" * 2_500_000)
    info, diff = state(tree)
    assert (info["dirty"], info["sha256"], diff) == (True, None, None)


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_git_that_does_not_answer_is_not_waited_for(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree.parent / "git").write_text("#!/bin/sh\nexec sleep 600\n")
    (tree.parent / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tree.parent}:{os.environ['PATH']}")
    info, diff = state(tree)
    assert info["commit"] and (info["dirty"], diff) == (None, None)


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_a_run_has_the_commit_that_it_began_with(tree: Path) -> None:
    head = git(tree, "rev-parse", "HEAD")
    (tree / "a.py").write_text(
        "import subprocess, time\ntime.sleep(2)\n"
        "subprocess.run(['git', '-c', 'user.name=n', '-c', 'user.email=e@x', 'commit', '-qam', 'two'])"
    )
    words = [sys.executable, "-m", "injector", "run", "--into", str(tree.parent / "run"), "a.py"]
    done = subprocess.run(words, cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    info = json.loads((tree.parent / "run" / "run.json").read_text())
    assert git(tree, "rev-parse", "HEAD") != head
    assert info["git"]["commit"] == head and info["git"]["dirty"] is True
    assert not info["outlived"] and b"-one\n" in (tree.parent / "run" / DIFF).read_bytes()


def test_a_folder_that_no_run_was_made_in_keeps_no_changes(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    place = create_into(str(tmp_path))
    (tmp_path / DIFF).write_text("")
    place.discard()
    assert os.listdir(tmp_path) == ["mine"]


def test_a_broken_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all")
    assert git_commit(str(tmp_path)) is None


def test_machine() -> None:
    found = machine()
    assert found["cpu"]["count"] == os.cpu_count()
    assert 0 < found["cpu"]["usable"] <= os.cpu_count()
    assert found["os"]["machine"] == os.uname().machine
