"""What we allocate does not bring the program's garbage collections forward."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from injector import gc_padding


@pytest.fixture
def padding():
    collects = gc.isenabled()
    gc.disable()
    gc_padding._padding.clear()
    try:
        gc_padding.allocate(100)
        yield gc_padding._padding
    finally:
        gc_padding._padding.clear()
        if collects:
            gc.enable()


def test_what_was_allocated_before_still_counts(padding):
    assert 80 <= gc.get_count()[0] < 200  # a few objects of pytest go meanwhile
    assert len(padding) >= gc_padding.SIZE


def test_what_is_kept_from_within_does_not_count(padding):
    before = gc.get_count()[0]
    with gc_padding.UncountedAllocations():
        assert not gc.isenabled()
        kept = [[number] for number in range(3000)]
    assert abs(gc.get_count()[0] - before) < 20
    assert len(kept) == 3000 and len(padding) < gc_padding.SIZE


def test_what_is_freed_within_does_not_count_either(padding):
    before, size = gc.get_count()[0], len(padding)
    with gc_padding.UncountedAllocations():
        [[number] for number in range(3000)].clear()
    assert abs(gc.get_count()[0] - before) < 20
    assert len(padding) > size - 300, "what is kept for the next objects, not those themselves"


def test_within_one_another(padding):
    before = gc.get_count()[0]
    with gc_padding.UncountedAllocations():
        first = [[number] for number in range(1000)]
        with gc_padding.UncountedAllocations():
            second = [[number] for number in range(1000)]
    assert abs(gc.get_count()[0] - before) < 20
    assert len(first) == len(second) == 1000


def test_more_than_was_padding(padding):
    before = gc.get_count()[0]
    with gc_padding.UncountedAllocations():
        kept = [[number] for number in range(2 * gc_padding.SIZE)]
    assert not padding and gc.get_count()[0] > before
    with gc_padding.UncountedAllocations():
        kept += [[0]]


def test_collections_go_on_as_they_did(padding):
    with gc_padding.UncountedAllocations():
        pass
    assert not gc.isenabled()
    gc.enable()
    try:
        with gc_padding.UncountedAllocations():
            assert not gc.isenabled()
        assert gc.isenabled()
    finally:
        gc.disable()


PROGRAM = """\
import gc
held = len([each for each in gc.get_objects() if type(each) is dict and not each])
print(gc.isenabled(), gc.get_threshold(), gc.get_count()[1:], held)
"""


def test_a_program_is_collected_as_without_us(tmp_path):
    """Up to one young collection; and it does not find what was laid in among its objects."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    message = []
    for words in ([sys.executable], [sys.executable, "-m", "injector", "run", "--quiet"]):
        done = subprocess.run(
            [*words, str(script)], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        enabled, threshold, counts, held = done.stdout.replace(", ", ",").split()
        young, old = map(int, counts.strip("()").split(","))
        message.append((enabled, threshold, 11 * old + young, int(held)))
    (*plain, seen, _), (*probed, also, held) = message
    assert plain == probed
    assert abs(also - seen) <= 3 and held < 1000


IMPORTING = """\
import dataclasses, gc, inspect, json, sys, typing  # as such libraries do
gc.disable()
before = gc.get_count()[0]
import lightgbm
print(gc.get_count()[0] - before, "injector.overseer" in sys.modules)
"""


def test_a_library_that_is_probed_counts_as_without_us(tmp_path):
    """Not what we import when it is about to be imported, nor what its voirfile makes."""
    (tmp_path / "lightgbm.py").write_text("")
    script = tmp_path / "program.py"
    script.write_text(IMPORTING)
    words = [sys.executable, "-m", "injector", "run", "--quiet", str(script)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    count, opened = done.stdout.split()
    assert opened == "True" and int(count) < 300


def test_a_voirfile_may_turn_the_collector_off(tmp_path):
    """As programs that are to be timed do."""
    (tmp_path / "voirfile.py").write_text(
        "import gc\n\n\ndef instrument_nothing(ov):\n    gc.disable()\n"
    )
    script = tmp_path / "program.py"
    script.write_text("import gc\n\nprint(gc.isenabled())\n")
    words = [sys.executable, "-m", "injector", "run", "--quiet", str(script)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
