"""The report card of profiles written by hand."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from card_profiles import (
    FETCH,
    FORWARD,
    GAN,
    INPUT_BOUND,
    LOOP,
    NOTHING,
    PLAIN,
    RANKS,
    SHAPES,
    TRACK,
    node,
    sample,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from injector.analysis.profile import Evaluation, Profile, SourceLine, TimeSegment, Verdict
from injector.analysis.statistics import Statistics
from injector.analysis.training_loop import (
    LoopRank,
    Node,
    Straggler,
    Throughput,
    TrainingLoop,
    Warmup,
)
from injector.analysis.wording import line_of
from injector.json_types import plain
from injector.report import ranks, segments, step_tree, terminal, training_loops
from injector.report.output import ENDLESS, WIDTH, laid_out
from injector.report.text import bullets, columns
from injector.value_class import fields, replace

CARDS = Path(__file__).parent / "cards"


def shown(profile: Profile) -> str:
    return "\n".join(terminal.profile(profile))


@pytest.mark.parametrize(
    ("fetches", "updates", "text"),
    [
        (1.0, 1.0, "one per batch fetched"),
        (1.03, 0.98, "one per batch fetched"),
        (3.25, 1.0, "one per 3.2 batches fetched"),
        (4.02, 1.2, "one per 4 batches fetched, 1.2 updates in each,"),
    ],
)
def test_what_a_step_is_has_no_digits_that_were_rounded_away(
    fetches: float, updates: float, text: str
) -> None:
    loop = replace(LOOP, fetches_per_step=fetches, updates_per_step=updates)
    assert training_loops.paced(loop) == text


@pytest.mark.parametrize("shape", SHAPES)
def test_golden(shape: str) -> None:
    """With INJECT_GOLDEN set, the cards are written anew, to be read before they are committed."""
    path, text = CARDS / f"{shape}.txt", shown(SHAPES[shape])
    if os.environ.get("INJECT_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_sections_without_content_are_left_out() -> None:
    text = shown(NOTHING)
    for word in ("evaluation", "throughput", "warm-up", "ranks", "because", "threshold", "try"):
        assert word not in text


def test_the_verdict_comes_first() -> None:
    for profile in SHAPES.values():
        assert terminal.profile(profile)[0].startswith("verdict  ")
    text = shown(replace(PLAIN, verdict=replace(INPUT_BOUND, sentence="io takes it all")))
    assert text.startswith("verdict  input-bound: io takes it all (critical)\n")


def test_items_that_cannot_be_told() -> None:
    text = shown(GAN)
    assert "throughput  12.62 steps/s" in text
    assert "items       not known: no module was called with a tensor" in text


def test_a_single_item_is_one() -> None:
    text = shown(replace(PLAIN, loops=(replace(LOOP, items_per_step=1.0, tokens_per_step=1.5),)))
    assert "1 item, 1.500 tokens a step" in text and "1 items" not in text


def test_other_is_last_and_the_shares_are_shown() -> None:
    names = [text.split()[1] for text in step_tree.lines(LOOP.tree)[2:-2]]
    assert names == ["io", "forward", "backward", "optimizer", "other"]


def test_a_region_of_no_measured_step_is_left_out() -> None:
    never = node("io", 0.0, 0.03, calls=0.2)
    names = [
        text.split()[1] for text in step_tree.lines(replace(LOOP.tree, children=(never,)))[2:-1]
    ]
    assert names == []


def test_a_region_of_several_lines_has_one_row_and_the_lines_below() -> None:
    two = [
        node("forward", 0.002 * at, 0.03, place=replace(FORWARD, line=at), children=())
        for at in (1, 2)
    ]
    sums = (node("forward", 0.006, 0.03, calls=2.0),)
    children = (two[0], node("io", 0.02, 0.03, place=FETCH), two[1])
    found = step_tree.lines(replace(LOOP.tree, children=children, together=sums))
    rows = [(text.split("  ")[1].split(), text.rpartition("1  ")[2]) for text in found[2:-1]]
    code = "loss = F.cross_entropy(model(x), y)"
    assert [" ".join(words[:2]) for words, _ in rows] == [
        "├─ forward",
        "│",
        "│",
        "└─ io",
    ]
    assert found[2].split()[2:] == ["6.00", "6.60", "20.0", "%", "██", "2", "2", "lines"]
    assert [text.split()[2] for text in found[3:5]] == ["train.py:1", "train.py:2"]
    assert all(code[:20] in text for text in found[3:5])


def test_the_row_that_the_smallest_lines_share_is_one_of_other_lines() -> None:
    """Their lines are known; that of calls which no line of the program makes is not."""
    places = (FORWARD, replace(FORWARD, line=2), None)
    nodes = [node("forward", 0.01, 0.03, place=place, children=()) for place in places]
    sums = (node("forward", 0.03, 0.03, calls=3.0),)
    found = step_tree.lines(replace(LOOP.tree, children=tuple(nodes), together=sums))
    assert found[2].endswith("2 lines and others") and "other lines" in found[5]
    alone = step_tree.lines(replace(LOOP.tree, children=(nodes[2], nodes[2]), together=sums))
    assert "(no line known)" in alone[3]


def test_many_regions_and_levels_are_cut_with_a_word() -> None:
    wide = replace(
        LOOP.tree, children=tuple(node(f"r{n}", 0.0001 * (n + 1), 0.03) for n in range(40))
    )
    found = [text.split() for text in step_tree.lines(wide)]
    assert found[-2] == ["└─", "29", "smaller", "ones", "145.0", "%", "██████████"]
    assert [words[1] for words in found[2:-2]] == [f"r{n}" for n in range(29, 40)]  # the largest
    deep = LOOP.tree
    for level in range(2000):
        deep = node(f"n{level}", 0.03, 0.03, children=(deep,))
    assert len(step_tree.lines(deep)) < 12


def test_many_ranks_show_the_ends_and_the_culprit() -> None:
    tracks = [
        replace(TRACK, rank=rank, process=rank, step=sample(0.03 + rank * 1e-5))
        for rank in range(256)
    ]
    loop = replace(LOOP, ranks=tuple(tracks), straggler=Straggler(100, 0.3, "io", 0.01))
    text = "\n".join(ranks.rank_table(loop))
    assert "rank 0 " in text and "rank 100 " in text and "rank 255 " in text
    assert "… and 239 ranks between these" in text
    assert "the other ranks wait for rank 100 for 30.0 % of a step; it is slow in io" in text


def test_a_rank_is_longer_than_the_others_in_its_own_region() -> None:
    rows = [text for text in ranks.rank_table(RANKS.loops[0]) if text.startswith("    rank ")]
    assert [("io +6.8" in row) for row in rows] == [False, True, False]


def test_the_segments_add_up_to_the_run() -> None:
    rows = segments.wall(PLAIN.segments, PLAIN.wall)[1:-1]
    assert len(rows) == 8
    figures = [float(row[2:].replace("the run", "run").split()[1]) for row in rows]
    assert math.isclose(sum(figures[:-1]), figures[-1])
    assert "  not accounted for" not in "\n".join(rows)
    rows = segments.wall(PLAIN.segments, PLAIN.wall + 1)
    assert any(row.split()[:4] == ["not", "accounted", "for", "1.00"] for row in rows)


def test_many_segments_are_joined_and_still_add_up() -> None:
    many = [TimeSegment("gap", 0.5 + n / 100, f"after line {n}") for n in range(100)]
    total = sum(each.seconds for each in many)
    rows = segments.wall(many, total)
    assert len(rows) == 15
    assert any(row.startswith("  shorter ones") for row in rows)
    assert not any("not accounted for" in row for row in rows)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("/home/me/train.py", "train.py:3"),
        ("C:\\me\\train.py", "train.py:3"),
        ("/v/lib/python3.11/site-packages/keras/src/fit.py", "keras/src/fit.py:3"),
        ("", ":3"),
    ],
)
def test_places(file: str, message: str) -> None:
    assert line_of(SourceLine(file, 3, "f", "")) == message


def test_data() -> None:
    data = plain(replace(PLAIN, wall=math.nan))
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["wall"] == "NaN"
    assert data["verdict"]["kind"] == "input-bound"
    assert data["loops"][0]["step"]["median"] == LOOP.step.median
    assert set(data) == set(fields(Profile))


# --- anything at all ------------------------------------------------------------------------------

TEXT = st.one_of(st.text(max_size=30), st.text("ｆ体\u0301\x1b\n\t -", max_size=200))
NUMBER = st.one_of(st.floats(), st.floats(0, 1), st.integers(0, 10**30).map(float))
WHOLE = st.integers(0, 10**18)
PLACE = st.none() | st.builds(SourceLine, TEXT, WHOLE, TEXT, TEXT)
STATISTICS = st.builds(Statistics, WHOLE, *[NUMBER] * 6)


def made(cls: Any, **given: Any) -> Any:
    return st.builds(cls, **given)


NODE: Any = st.deferred(
    lambda: made(
        Node,
        name=TEXT | st.just("other"),
        place=PLACE,
        host=STATISTICS,
        share=NUMBER,
        calls=NUMBER,
        device=st.none() | STATISTICS,
        nbytes=st.none() | NUMBER,
        children=st.lists(NODE, max_size=2).map(tuple),
        what=st.none() | TEXT,
    )
)
THROUGHPUT = made(
    Throughput,
    steps=NUMBER,
    items=st.none() | NUMBER,
    tokens=st.none() | NUMBER,
    rate=st.none() | STATISTICS,
    why_no_items=st.none() | TEXT,
)
TRACKS = made(
    LoopRank,
    process=WHOLE,
    rank=st.none() | WHOLE,
    host=TEXT,
    device=st.none() | TEXT,
    steps=WHOLE,
    step=STATISTICS,
    throughput=THROUGHPUT,
    waits=NUMBER,
    regions=st.dictionaries(TEXT, NUMBER, max_size=3),
)
LOOPS = made(
    TrainingLoop,
    task=TEXT,
    paced_by=st.sampled_from(["loader", "optimizer", "step", "?"]),
    place=PLACE,
    steps=WHOLE,
    warmup=made(Warmup, steps=WHOLE, seconds=NUMBER, slowest=NUMBER, skipped=WHOLE),
    step=STATISTICS,
    tree=NODE,
    throughput=THROUGHPUT,
    items_per_step=st.none() | NUMBER,
    tokens_per_step=st.none() | NUMBER,
    fetches_per_step=NUMBER,
    updates_per_step=NUMBER,
    ranks=st.lists(TRACKS, max_size=3).map(tuple),
    straggler=st.none()
    | made(Straggler, rank=WHOLE, score=NUMBER, slow_at=st.none() | TEXT, excess=NUMBER),
)
EVALUATION = made(
    Evaluation,
    place=PLACE,
    passes=WHOLE,
    batches=WHOLE,
    seconds=NUMBER,
    items=st.none() | NUMBER,
    throughput=st.none() | NUMBER,
    regions=st.dictionaries(TEXT, NUMBER, max_size=3),
)
VERDICT = made(
    Verdict,
    kind=TEXT,
    severity=st.sampled_from(["critical", "warning", "info"]),
    sentence=TEXT,
    evidence=st.lists(TEXT, max_size=3).map(tuple),
    threshold=TEXT,
    advice=st.lists(TEXT, max_size=3).map(tuple),
)
PROFILES = made(
    Profile,
    loops=st.lists(LOOPS, max_size=3).map(tuple),
    evaluations=st.lists(EVALUATION, max_size=14).map(tuple),
    segments=st.lists(
        made(TimeSegment, name=TEXT, seconds=NUMBER, note=TEXT, place=PLACE), max_size=15
    ).map(tuple),
    wall=NUMBER,
    verdict=VERDICT,
    others=st.lists(NODE, max_size=14).map(tuple),
    unmeasured=st.lists(TEXT, max_size=14).map(tuple),
)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(PROFILES, st.sampled_from([40, 60, 80, WIDTH, 120, 200, ENDLESS]))
def test_any_profile_makes_a_card(profile: Profile, width: int) -> None:
    with laid_out(width):
        for text in [*terminal.profile(profile), *bullets(profile.unmeasured)]:
            assert columns(text) <= width, text
            assert text.isprintable(), text
    json.dumps(plain(profile), allow_nan=False)


def test_a_region_of_which_only_other_is_left_has_no_branch() -> None:
    """Compiling is in the warm-up only: what is left of the call is the call."""
    never = Statistics(216, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    compiling = replace(node("compile", 0.0, 0.03), host=never)
    inside = (compiling, node("other", 0.01, 0.03, calls=0.0))
    assert step_tree.entries_of(node("compiled", 0.01, 0.03, children=inside)) == []
    both = (*inside, node("sync", 0.01, 0.03))
    kept = step_tree.entries_of(node("compiled", 0.02, 0.03, children=both))
    assert [entry.name for entry in kept] == ["sync", "other"]
