"""Regions that overlap: whole in the record, divided in a step, named in the report."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import MS, Program, only, report
from tries import tries

from injector.analysis import tracks
from injector.analysis.columns import read_rows, sources
from injector.analysis.excerpts import excerpts_of
from injector.analysis.tables import StepTable
from injector.analysis.traces import LoopTrace, threads_of
from injector.analysis.tracks import Track
from injector.analysis.training_loop import Node, TrainingLoop
from injector.report.training_loops import overlaps, whole
from injector.store.folder import open_run


def ms(milliseconds: float, **more: float) -> object:
    """So many seconds, about."""
    return pytest.approx(milliseconds / 1e3, **(more or {"rel": 1e-4}))


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 25)), min_size=1, max_size=30)


def track_of(made: list[tuple[int, int]]) -> Track:
    """One site a span; recorded in the order of their ends."""
    made = sorted(made, key=lambda each: (each[0] + each[1], -each[0]))
    start = np.array([start for start, _ in made], np.int64)
    end = start + np.array([length for _, length in made], np.int64)
    numbers = np.arange(len(made), dtype=np.int32)
    return Track({}, start, end, np.zeros(len(made), np.int64), numbers)


def own_times(track: Track) -> dict[int, int]:
    """By site, what its rows take without the rows in them."""
    length = track.until - track.start
    inner = np.flatnonzero(track.parent >= 0)
    own = length - np.bincount(track.parent[inner], length[inner], len(track)).astype(np.int64)
    return {int(n): int(own[track.site == n].sum()) for n in np.unique(track.site)}


@given(spans)
def test_each_moment_belongs_to_the_span_that_began_last(made: list[tuple[int, int]]) -> None:
    track = track_of(made)
    first = np.arange(len(track)) if track.begun is None else track.begun
    begins = np.flatnonzero(first == np.arange(len(track)))
    assert sorted(
        zip(track.start[begins], track.end[begins] - track.start[begins], strict=True)
    ) == sorted(made)
    expected = dict.fromkeys(range(len(made)), 0)
    order = {int(row): place for place, row in enumerate(begins)}
    for moment in range(70):
        opened = [row for row in begins if track.start[row] <= moment < track.end[row]]
        if opened:
            # Of those that began at once, the one that the others enclose.
            last = max(opened, key=lambda row: (track.start[row], order[int(row)]))
            expected[int(track.site[last])] += 1
    assert own_times(track) == expected


@given(spans)
def test_spans_are_whole_in_lanes_and_in_the_rows_they_began_with(
    made: list[tuple[int, int]],
) -> None:
    track = track_of(made)
    lanes = track.lanes()
    assert sorted(track.site[np.concatenate(lanes)].tolist()) == list(range(len(made)))
    for lane in lanes:
        opened: list[int] = []
        for start, end in zip(track.start[lane].tolist(), track.end[lane].tolist(), strict=True):
            while opened and opened[-1] <= start:
                opened.pop()
            assert not opened or end <= opened[-1]
            opened.append(end)


def test_more_at_once_than_can_be_divided_still_adds_up() -> None:
    track = track_of([(n, 100) for n in range(80)])
    assert sum(own_times(track).values()) == 179
    assert set((track.end - track.start)[track.start < 80].tolist()) == {100}


REGIONS = {"load": 40, "compute": 41, "log": 42, "io": 10, "forward": 12, "h2d": 11}
calls = st.lists(
    st.tuples(
        st.sampled_from(sorted(REGIONS)), st.integers(0, 95), st.integers(1, 60), st.integers(0, 1)
    ),
    max_size=9,
)


def times(spans: list[tuple[int, int]]) -> set[int]:
    return {moment for start, end in spans for moment in range(start, end)}


@settings(max_examples=tries(120), deadline=None)
@given(st.lists(calls, min_size=2, max_size=4))
def test_steps_add_up_and_regions_are_whole(steps: list[list[tuple[str, int, int, int]]]) -> None:
    """Nested, crossing, side by side, beyond the end of a step, in two threads."""
    p = Program()
    recorded: dict[str, list[tuple[int, int]]] = {}
    for number, regions in enumerate(steps):
        begin = number * 100
        for name, start, length, thread in regions:
            span = (begin + start, begin + start + length)
            p.row(name, span[0] * MS, span[1] * MS, line=REGIONS[name], thread=thread)
            if thread == 0:
                recorded.setdefault(name, []).append(span)
        p.row("step", begin * MS, (begin + 100) * MS)
    p.wait(len(steps) * 100 + 200)
    with tempfile.TemporaryDirectory() as folder:
        report(Path(folder), p)
        [source] = sources(open_run(folder))
        threads = threads_of(source, read_rows(source))
    [trace] = next(thread for thread in threads if thread.number == 0).traces
    table = trace.table
    parts = sum(each.astype(np.float64) for each in table.regions().values())
    assert parts == pytest.approx(table.seconds, rel=1e-5) and len(table.seconds) == len(steps)
    for number in range(len(steps)):
        inside = set(range(number * 100, number * 100 + 100))
        for name, found in recorded.items():
            own = times(found) & inside
            assert seconds(table, name, number) == ms(len(own), abs=1e-6), (name, number)


def seconds(table: StepTable, name: str, step: int) -> float:
    """What a region takes of a step wherever it lies in others, within itself once."""
    lines = [[place.line for _, place in path if place] for path in table.columns]
    return sum(
        float(column.seconds[step])
        for column, path in zip(table.columns.values(), lines, strict=True)
        if path[-1] == REGIONS[name] and REGIONS[name] not in path[:-1]
    )


def program(first: tuple[str, int], second: tuple[str, int], shared: int = 102) -> Program:
    """Steps of two regions of 208 ms, the second of which begins before the first has ended."""
    p = Program()
    for _ in range(6):
        begin = p.now
        for (name, line), start in ((first, 0), (second, 208 - shared)):
            p.row(name, begin + start * MS, begin + (start + 208) * MS, line=line)
        p.row("step", begin, begin + 400 * MS)
        p.wait(400)
    return p


def overlapping(tmp_path: Path, *regions: tuple[str, int]) -> tuple[TrainingLoop, LoopTrace]:
    loop = only(report(tmp_path / "r", program(*regions)))
    [source] = sources(open_run(str(tmp_path / "r")))
    [thread] = threads_of(source, read_rows(source))
    return loop, thread.traces[0]


@pytest.mark.parametrize("second", ["compute", "forward", "io", "backward"])
def test_an_overlap_is_named_and_both_are_whole(tmp_path: Path, second: str) -> None:
    loop, _ = overlapping(tmp_path, ("io" if second == "forward" else "load", 40), (second, 41))
    [found] = loop.overlaps
    assert (found.later.name, found.later.host.median, found.later.calls) == (second, ms(208), 1)
    assert (found.earlier.host.median, found.shared.median) == (ms(208), ms(102))
    shares = [child.share for child in loop.tree.children]
    assert sum(shares) == pytest.approx(1) and loop.tree.children[-1].host.median == ms(86)
    [text] = overlaps(loop)
    assert text == (
        f"{second} (train.py:41) overlaps {found.earlier.name} (train.py:40) for 102.0 ms of a step; "
        "whole, they take 208.0 ms and 208.0 ms"
    )
    assert "overlaps" in "\n".join(whole(loop))


def test_a_timeline_shows_both_whole_below_each_other(tmp_path: Path) -> None:
    _, trace = overlapping(tmp_path, ("load", 40), ("compute", 41))
    [source] = sources(open_run(str(tmp_path / "r")))
    threads = threads_of(source, read_rows(source))
    [excerpt] = excerpts_of([trace], threads, (), 0.0)
    [rank] = excerpt.ranks
    boxes = [tuple(rank.spans[at : at + 4]) for at in range(0, len(rank.spans), 4)]
    names = [name for name, _ in excerpt.names]
    by_name = {name: [box for box in boxes if names[box[3]] == name] for name in names}
    assert {box[1] for name in ("load", "compute") for box in by_name[name]} == {208_000}
    assert [box[2] for box in by_name["load"] + by_name["compute"]] == [1] * 6 + [2] * 6


def test_a_step_that_a_region_crosses_is_whole(tmp_path: Path) -> None:
    """What begins before a step and ends in it takes nothing of the step away, nor does the next step."""
    p = Program()
    for n in range(6):
        begin = n * 100
        p.row("load", (begin + 90) * MS, (begin + 120) * MS, line=40)
        p.row("step", begin * MS, (begin + 95) * MS)
    p.wait(700)
    loop = only(report(tmp_path / "r", p))
    assert loop.step.median == ms(95) and loop.steps == 6
    [load] = [child for child in loop.tree.children if child.name == "load"]
    assert load.host.median == ms(25)  # 5 at the end of a step, 20 at the begin of the next one


def test_steps_that_overlap_end_where_the_next_one_begins(tmp_path: Path) -> None:
    p = Program()
    for n in range(6):
        p.row("step", n * 100 * MS, (n * 100 + 130) * MS)
    p.wait(700)
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.step.median) == (6, ms(100))


def test_outside_of_steps_a_call_is_one_and_whole(tmp_path: Path) -> None:
    found = report(tmp_path / "r", overlapping_without_steps())
    rows: dict[str, Node] = {node.name: node for node in found.others}
    assert {name: (rows[name].calls, rows[name].host.median) for name in rows} == {
        "load": (4, ms(208)),
        "compute": (4, ms(208)),
    }


def overlapping_without_steps() -> Program:
    p = Program()
    for _ in range(4):
        p.row("load", p.now, p.now + 208 * MS, line=40)
        p.row("compute", p.now + 106 * MS, p.now + 314 * MS, line=41)
        p.wait(400)
    return p


def test_what_a_probe_saw_within_counts_and_not_the_region_around_it(tmp_path: Path) -> None:
    """A Timer around the model and the loader hides neither their items nor their phases."""
    p = Program()
    for _ in range(10):
        with p.around("io", line=50, selector="injector.region"):
            p.io(2, items=16, of=1)
        with p.around("forward", line=51, selector="injector.region"):
            p.forward(3, items=16, phase="train", of=2)
        with p.around("optimizer", line=53, selector="injector.region"):
            p.update(1)
    loop = only(report(tmp_path / "r", p))
    assert (loop.paced_by, loop.steps, loop.items_per_step) == ("loader", 10, 16)


@given(st.lists(st.booleans(), max_size=60))
def test_spans_that_lie_whole_in_each_other_need_no_search(opens: list[bool]) -> None:
    opened: list[int] = []
    made: list[list[int]] = []
    for now, opening in enumerate([*opens, *[False] * len(opens)]):
        if opening:
            opened.append(len(made))
            made.append([now, now])
        elif opened:
            made[opened.pop()][1] = now
    start, end = np.array(made, np.int64).reshape(-1, 2).T
    found = tracks._nested(start, end)
    depth = tracks._depths(start, end)
    assert found is not None and found[0].tolist() == depth.tolist()
    assert found[1].tolist() == tracks._parents(depth).tolist()
