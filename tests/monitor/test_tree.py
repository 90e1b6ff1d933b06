"""Which processes belong to a program."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from injector.monitor import processes as tree

FAMILY = """
import subprocess, sys, threading
sleeper = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
started = []
def start():
    started.append(subprocess.Popen(sleeper, stdin=-1, stdout=-1))
    started[-1].stdout.readline()
    ready.set()
    done.wait()
ready, done = threading.Event(), threading.Event()
thread = threading.Thread(target=start)
thread.start()
ready.wait()
shell = subprocess.Popen(["sh", "-c", "echo $$; cat; :"], stdin=-1, stdout=-1)
shell.stdout.readline()
print(started[0].pid, shell.pid, flush=True)
sys.stdin.readline()
started[0].communicate()
print(flush=True)
sys.stdin.readline()
done.set()
shell.communicate()
"""


@pytest.fixture
def family():
    process = subprocess.Popen(
        [sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.communicate("\n\n")


def pids(found):
    return [entry["pid"] for entry in found.sample()]


def test_children_of_any_thread_and_grandchildren(family, monkeypatch):
    children = list(map(int, family.stdout.readline().split()))
    found = tree.Tree(family.pid)
    seen = pids(found)
    assert seen[0] == family.pid and set(children) < set(seen)
    if sorted(seen[1:]) != sorted(children):  # the shell's own child, unless it came later
        assert len(seen) == 4

    family.stdin.write("\n")
    family.stdin.flush()
    family.stdout.readline()
    assert children[0] not in pids(found), "who has ended is left out at once"

    monkeypatch.setattr(tree, "SEARCH", 0)
    found = tree.Tree(family.pid)
    kept = {each.pid: each for each in found._processes()}
    assert {each.pid: each for each in found._processes()} == kept
    assert all(found._known[pid] is each for pid, each in kept.items())


def test_a_kernel_without_lists_of_children(family, monkeypatch):
    children = list(map(int, family.stdout.readline().split()))

    def missing(pid):
        raise FileNotFoundError(pid)

    monkeypatch.setattr(tree, "_children", missing)
    assert set(children) < set(pids(tree.Tree(family.pid)))


def test_nobody(family):
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(OSError):
        tree.below(process.pid)
    assert tree.Tree(process.pid).sample() == []
    assert tree.below(os.getpid()).count(family.pid) == 1
