"""What holds whatever was recorded."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from layouts import EPOCH, MS, Program, check, only, report
from tries import tries

from injector.analysis.columns import read_rows, sources
from injector.analysis.profiling import profile
from injector.analysis.traces import threads_of
from injector.analysis.tracks import Track
from injector.analysis.training_loop import Node
from injector.analysis.views import regions
from injector.bus.readable import repair
from injector.store.folder import Run, open_run
from injector.store.run_json import NotARunError

ms = pytest.approx


def test_no_spans(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    (folder / "raw").mkdir(parents=True)
    assert profile(open_run(str(folder))) is None
    (folder / "raw" / "h.1.log").write_text('{"event":"process","data":{"schema":1},"t":0}\n')
    assert profile(open_run(str(folder))) is None
    (folder / "raw" / "h.1.spans").write_bytes(b"\0" * 1024)
    assert profile(open_run(str(folder))) is None


def test_a_later_schema(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    (folder / "raw").mkdir(parents=True)
    (folder / "raw" / "h.1.log").write_text('{"event":"process","data":{"schema":99},"t":0}\n')
    with pytest.raises(NotARunError):
        profile(open_run(str(folder)))


def test_holes_torn_ends_and_sites_that_nobody_knows(tmp_path: Path) -> None:
    p = Program()
    for _ in range(20):
        p.turn()
    rows = np.array(p.rows, np.int64)
    hole = np.zeros((3, 4), np.int64)
    stray = np.array([[1, 2, 0, 999], [1, 2, 0, -7], [5, 2, 0, 1]], np.int64)
    rows = np.concatenate((hole, rows[:30], hole, stray, rows[30:], hole))
    p.rows.append((0, 160 * MS, 0, 1))
    folder = tmp_path / "r"
    p.write(folder, tail=b"\1" * 27, spans=rows)
    found = profile(open_run(str(folder)))
    assert found
    check(found)
    assert only(found).steps == 20 and only(found).step.max == ms(8e-3)
    assert "3 spans were left out: their call site was not recorded" in found.unmeasured


def test_a_run_that_nobody_collected(tmp_path: Path) -> None:
    p = Program()
    for _ in range(20):
        p.turn()
    p.write(tmp_path / "r")
    found = profile(open_run(str(tmp_path / "r")))
    assert found and found.wall == ms(0.16) and only(found).steps == 20


def test_a_training_is_profiled_without_masked_arrays(tmp_path: Path) -> None:
    """NumPy imports them late, and they take a tenth of what it takes itself."""
    p = Program()
    for _ in range(20):
        p.turn()
    p.write(tmp_path / "r")
    words = (
        "import sys; from injector.analysis.profiling import profile\n"
        "from injector.store.folder import open_run\n"
        "found = profile(open_run(sys.argv[1]))\n"
        "print(len(found.loops), 'numpy.ma' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", words, str(tmp_path / "r")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1", "False"]


def test_clocks_of_one_host_are_tied_once(tmp_path: Path) -> None:
    first, second = Program(pid=1), Program(pid=2, origin=8_000 * MS, time=1_700_009_999.0)
    for p in (first, second):
        for _ in range(10):
            p.turn()
    found = report(tmp_path / "r", first, second)
    # By the clock that both share, the second began three seconds later.
    tracks = sources(open_run(str(tmp_path / "r")))
    assert tracks[1].began - tracks[0].began == 3_000 * MS
    assert found.wall == ms(3.08)


def forest(spans: list[tuple[int, int]]) -> Track:
    order = sorted(range(len(spans)), key=lambda i: (spans[i][1], -spans[i][0]))
    start, end = (np.array([spans[i][side] for i in order], np.int64) for side in (0, 1))
    return Track({}, start, end, np.zeros(len(spans), np.int64), np.ones(len(spans), np.int32))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=25))
def test_any_spans_become_a_forest(made: list[tuple[int, int]]) -> None:
    track = forest([(start, start + length) for start, length in made])
    for i in range(len(track)):
        j = int(track.parent[i])
        assert j < i
        if j >= 0:
            assert track.start[j] <= track.start[i] <= track.until[i] <= track.until[j]
    for parent in set(track.parent.tolist()):
        children = np.flatnonzero(track.parent == parent)
        if parent >= 0:
            assert (track.until[children[:-1]] <= track.start[children[1:]]).all()


actions = st.sampled_from(
    ["io", "io2", "dry", "dry2", "forward", "predict", "backward", "update", "update2", "other",
     "region", "h2d", "comm", "step", "evaluation", "thread"]
)  # fmt: skip


def lay_out(p: Program, actions_: list[tuple[str, int]], depth: int = 0) -> None:
    queue = list(actions_)
    while queue:
        name, length = queue.pop(0)
        if name in ("region", "step", "evaluation") and depth < 3:
            inner, queue = queue[: length * 2], queue[length * 2 :]
            with p.around(name, line=40 + depth, **({"phase": "eval"} if name[0] == "e" else {})):
                lay_out(p, inner, depth + 1)
        elif name == "io2":
            p.io(length, of=2, line=21)
        elif name == "dry2":
            p.dry(length, of=2, line=21)
        elif name in ("update", "update2"):
            # It takes time: two of one thread never begin at the same nanosecond.
            p.update(max(length, 0.001), **({"of": 2, "line": 34} if name[-1] == "2" else {}))
        elif name == "thread":
            start = max(0, p.now - length * MS)
            p.row("comm", start, p.now, thread=1)
        elif name in ("h2d", "comm"):
            p.span(name, length)
        elif name == "other":
            p.wait(length)
        elif name in ("io", "dry", "forward", "predict", "backward"):
            getattr(p, name)(length)


@settings(max_examples=tries(100), deadline=None)
@given(st.lists(st.tuples(actions, st.integers(0, 5)), max_size=70))
@example([("io", 0), ("update", 0)] * 2 + [("step", 1), ("update", 0), ("update", 0)])
def test_everything_adds_up(made: list[tuple[str, int]]) -> None:
    p = Program()
    lay_out(p, made)
    if not p.rows:
        return
    with tempfile.TemporaryDirectory() as folder:
        report(Path(folder) / "r", p, start=3, end=4)  # which checks the sums
        [source] = sources(open_run(str(Path(folder) / "r")))
        for thread in threads_of(source, read_rows(source)):
            steps, marks = thread.steps, thread.marks
            assert (steps.end >= steps.start).all()
            assert (steps.start[1:] >= steps.end[:-1]).all()
            assert (thread.passes.start[1:] >= thread.passes.end[:-1]).all()
            updates = marks.track.start[marks.updates]
            held = np.array([((steps.start <= u) & (u < steps.end)).sum() for u in updates])
            assert (held <= 1).all() and steps.updates.sum() <= len(updates) + len(marks.steps)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 40),
    st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0]), min_size=5, max_size=5),
    st.integers(1, 3),
    st.booleans(),
)
def test_a_regular_loop_is_found_exactly(
    steps: int, times: list[float], accumulate: int, loader: bool
) -> None:
    p = Program()
    io, forward, backward, update, other = times
    for _ in range(steps):
        for _ in range(accumulate):
            if loader:
                p.io(io)
            p.forward(forward + 0.5)
            p.backward(backward + 0.25)
        p.wait(other)
        p.update(update + 0.5)
    with tempfile.TemporaryDirectory() as folder:
        loop = only(report(Path(folder) / "r", p))
    assert loop.steps == steps
    assert loop.paced_by == ("loader" if loader and steps > 1 else loop.paced_by)
    length = accumulate * ((io if loader else 0) + forward + 0.75 + backward) + other + update + 0.5
    assert loop.step.max == ms(length / 1e3, rel=1e-5) and loop.step.min == ms(
        length / 1e3, rel=1e-5
    )
    assert loop.items_per_step == 8 * accumulate


def test_a_process_that_ended_before_its_first_record_has_no_time(tmp_path: Path) -> None:
    """It leaves an empty log; the run did not begin in 1970 for that."""
    p = Program()
    for _ in range(10):
        p.turn()
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "h.99999.log").touch()
    p.write(tmp_path)
    for info in ({}, {"started": EPOCH, "ended": EPOCH + 1}):
        found = profile(Run(str(tmp_path), info, ()))
        assert found is not None and 0.079 < found.wall < 5000  # its clock's origin is 5 s
        assert [source.pid for source in sources(Run(str(tmp_path), info, ()))] == [1, 99999]
    collected = repair(str(tmp_path), str(tmp_path))
    assert [process["pid"] for process in collected["processes"]] == [1, 99999]
    assert collected["started"] == EPOCH
    # Until it last recorded something, whatever the times of its files.
    assert collected["duration"] == ms(0.08, abs=1e-3)


@settings(max_examples=tries(150), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("ABCD"), st.integers(0, 60), st.integers(1, 60)),
        max_size=6,
        unique_by=lambda each: each[0],
    ),
    st.sampled_from(["", "comm"]),
)
def test_overlapping_regions_are_whole_in_the_tree_and_in_sql(
    spans: list[tuple[str, int, int]], other: str
) -> None:
    """Nested, side by side or overlapping: what the tree has of a region is what its spans took."""
    p = Program()
    for _ in range(6):
        begin = p.now
        for name, start, length in spans:
            name = other if other and name == "A" else name
            end = begin + (start + length) * MS
            p.row(name, begin + start * MS, end, line=ord(name[0]))
        p.wait(120)
        p.train()
    with tempfile.TemporaryDirectory() as folder:
        loop = only(report(Path(folder), p))
        rows = regions(open_run(folder))
    names = [rows["region"].words[code] for code in rows["region"].codes]
    for name in {name for name in names if name in ("comm", *"ABCD")}:
        whole = [s for s, each in zip(rows["seconds"], names, strict=True) if each == name]
        assert total(loop.tree, name) == ms(np.median(whole), rel=1e-4), name


def total(node: Node, name: str) -> float:
    """Seconds of all nodes of a name, those within each other once."""
    if node.name == name:
        return node.host.median
    return sum(total(child, name) for child in node.children)


@pytest.mark.parametrize("loads", [True, False])
def test_parts_of_a_model_that_are_called_by_themselves_are_no_models(
    tmp_path: Path, loads: bool
) -> None:
    """A head, for the size of its result; and a block, that a backward computes once more."""
    p = Program()
    p.forward(of=2, line=5, what="Head")
    for _ in range(10):
        if loads:  # else the first step begins with the head
            p.io()
        p.forward(what="Net")
        with p.around("backward"):
            p.forward(of=3, what="Block")
        p.update()
    for name, size in (("Head", 10), ("Net", 100), ("Block", 20), ("Named otherwise", 7)):
        p.records.append(("model", {"name": name, "parameters": size, "trainable": size}))
    found = report(tmp_path / "r", p)
    assert [model.name for model in found.models] == ["Net", "Named otherwise"]
