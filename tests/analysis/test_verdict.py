"""What limits a program, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from layouts import EPOCH, MS, Program, only, report

from injector.analysis.profiling import profile
from injector.analysis.verdict import UNCOUNTED
from injector.json_types import plain
from injector.report import terminal
from injector.store.folder import open_run

ms = pytest.approx


def test_input_bound(tmp_path: Path) -> None:
    p = Program()
    for _ in range(50):
        p.io(14, what="DataLoader of MNIST")
        p.train()
    verdict = report(tmp_path / "r", p).verdict
    assert (verdict.kind, verdict.severity) == ("input-bound", "critical")
    assert verdict.sentence == "input-bound: 67 % of a step waits at train.py:10"
    assert "20 %" in verdict.threshold and "MNIST" in verdict.advice[0]
    assert verdict.confidence == "high: the same in 6 of 6 parts of the run"
    assert "median 14 ms" in verdict.evidence[1]


def test_modules_that_make_the_batch_are_no_model_at_work(tmp_path: Path) -> None:
    p = Program()
    for _ in range(40):
        with p.around("io", of=1):
            for _ in range(4):
                p.forward(2, items=1, of=3, line=10)
            p.wait(1)
        p.train()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert loop.items_per_step == 8
    io = loop.tree.children[0]
    assert [(node.name, node.host.median) for node in io.children] == [
        ("transform", ms(8e-3)),
        ("other", ms(1e-3)),
    ]
    assert found.verdict.sentence.startswith("input-bound: 56 % of a step waits")


@pytest.mark.parametrize(
    ("data", "stacked"), [("TensorDataset", True), ("list", False), ("tuple", False)]
)
def test_advice_fits_what_lies_in_memory(data: str, stacked: bool, tmp_path: Path) -> None:
    """A list may hold what no index takes a batch of, as graphs of different sizes."""
    p = Program()
    for _ in range(40):
        p.io(9, what=f"DataLoader of {data}")
        p.train()
    first, *others = report(tmp_path / "r", p).verdict.advice[:2]
    assert first.startswith("its examples are in memory: ") and "with one index" in first
    assert ("where they can be stacked" in first) != stacked
    assert any("num_workers" in each for each in others) != stacked


def test_batches_that_come_in_bursts(tmp_path: Path) -> None:
    p = Program()
    for step in range(400):
        p.turn(io=64 if step % 8 == 0 else 0)
    verdict = report(tmp_path / "r", p).verdict
    assert verdict.kind == "input-bound" and "53 %" in verdict.sentence


@pytest.mark.parametrize("often", [40, 10], ids=["once", "now and then"])
@pytest.mark.parametrize("region", ["compiled", "forward"])
def test_steps_that_hand_work_over_say_nothing_of_what_they_take(
    tmp_path: Path, region: str, often: int
) -> None:
    """Of compiled functions it is not known whether they return before their work is done."""
    p = Program()
    for step in range(1, 61):
        p.io(0.2)
        p.span(region, 0.3, 8, of=1, phase="train", what="Model.train_step")
        if region == "forward":
            p.update(0.1)
        if step % often == 0:
            p.span("sync", 200, what="all steps")
    found = report(tmp_path / "r", p)
    assert only(found).steps == 60
    if region == "forward":
        assert found.verdict.kind != "none"
    else:
        assert found.verdict.kind == "none" and not found.verdict.advice
        assert "what one step takes is not known" in found.verdict.sentence
        assert "all steps" in found.verdict.evidence[0]


@pytest.mark.parametrize("also", ["", "gradients"])
def test_what_computes_is_named_as_it_was_recorded(tmp_path: Path, also: str) -> None:
    p = Program()
    for _ in range(60):
        p.io(0.2)
        if also:
            p.span(also, 8, of=1, phase="train", what="loss_fn")
            p.update(1)
        else:
            p.span("compiled", 8, of=1, phase="train", what="step")
            p.span("sync", 1, what="all steps")
    verdict = report(tmp_path / "r", p).verdict
    named = "gradients and optimizer" if also else "compiled functions"
    assert verdict.sentence == f"compute-bound: 98 % of a step is {named}"


def test_calls_of_a_compiled_function_alone_are_no_steps(tmp_path: Path) -> None:
    """As torch.compile's of all that a step does: tests/voirfiles/test_compiled_steps.py records some."""
    p = Program()
    for _ in range(12):
        p.span("compiled", 5, what="functional")
        p.wait(1)
    found = report(tmp_path / "r", p)
    assert not found.loops and not found.evaluations
    assert [each.note for each in found.segments] == ["no steps and no evaluation were recorded"]
    assert found.verdict.kind == "none"
    assert found.verdict.sentence.endswith("compiled of functional, train.py:30")
    assert found.verdict.evidence == (UNCOUNTED,)
    shown = "\n".join(terminal.profile(found))
    assert "no steps and no evaluation were recorded" in shown
    assert "steps inside of a compiled function are not recorded" in shown


def test_one_slow_step_makes_no_verdict(tmp_path: Path) -> None:
    p = Program()
    p.turn(io=3000, other=3000)
    for step in range(60):
        p.turn(io=0.1, other=500 if step == 30 else 0.1)
    found = report(tmp_path / "r", p)
    assert found.verdict.kind == "compute-bound"
    loop = only(found)
    assert loop.warmup.steps == 1 and loop.warmup.slowest == ms(6.007)
    assert loop.exceptional and (loop.exceptional.steps, loop.exceptional.mostly) == (1, "other")
    assert loop.tree.share == ms(1) and sum(c.share for c in loop.tree.children) == ms(1)
    slow, pause = found.verdict.besides[:2]
    assert slow.startswith("one warm-up step takes 6.0 s")
    assert pause.startswith("1 step takes 507 ms") and "all shares exclude it" in pause
    assert slow in found.verdict.sentence
    assert "shares exclude 1 step of 507 ms, mostly other" in "\n".join(terminal.profile(found))


def test_what_comes_back_is_no_exception(tmp_path: Path) -> None:
    p = Program()
    for step in range(300):
        p.turn(io=0.1, other=1000 if step % 50 == 49 else 0)
    verdict = report(tmp_path / "r", p).verdict
    assert verdict.kind == "overhead-bound" and "74 %" in verdict.sentence


def test_a_program_that_changes_is_not_sure(tmp_path: Path) -> None:
    p = Program()
    for step in range(160):
        p.turn(io=20 if step < 80 else 0.1)
    verdict = report(tmp_path / "r", p).verdict
    assert verdict.kind == "input-bound" and verdict.severity == "warning"
    why = "the same in only 7 of 16 parts of the run, compute-bound in 9"
    assert verdict.sentence.endswith(f"uncertain: {why}") and verdict.confidence == f"low: {why}"


@pytest.mark.parametrize(("until", "doubt"), [(30, "10 steps were recorded"), (25, "")])
def test_steps_under_a_profiler_make_a_verdict_uncertain(
    tmp_path: Path, until: int, doubt: str
) -> None:
    """They take longer for it, so that nothing is sure of the program where they are many."""
    p = Program()
    for _ in range(80):
        p.turn(io=20)
    verdict = report(tmp_path / "r", p, profiled={"first": 20, "until": until}).verdict
    assert verdict.severity == ("warning" if doubt else "critical")
    assert (f"uncertain: {doubt} with torch.profiler" in verdict.sentence) == bool(doubt)
    assert verdict.confidence.startswith("low" if doubt else "high")


def test_a_few_steps_make_nothing_critical(tmp_path: Path) -> None:
    p = Program()
    for _ in range(8):
        p.turn(io=50)
    verdict = report(tmp_path / "r", p).verdict
    assert (verdict.kind, verdict.severity) == ("input-bound", "warning")
    assert verdict.sentence.endswith("uncertain: only 7 steps were measured")


def test_blocked(tmp_path: Path) -> None:
    p = Program()
    for _ in range(50):
        p.io(0.1)
        p.span("wait", 9, line=33, what="Event.wait")
        p.train()
    verdict = report(tmp_path / "r", p).verdict
    text = "wait-bound: 56 % of a step is blocked in Event.wait at train.py:33"
    assert (verdict.sentence, verdict.severity) == (text, "critical")


def test_a_host_that_waits_for_its_device_computes(tmp_path: Path) -> None:
    p = Program()
    for _ in range(50):
        p.io(0.1)
        p.span("compiled", 0.5, 8, of=1, phase="train", what="step")
        p.span("sync", 9, line=33, what="block_until_ready")
    verdict = report(tmp_path / "r", p).verdict
    text = (
        "compute-bound: 99 % of a step is computing: the host waits for the device at train.py:33"
    )
    assert (verdict.sentence, verdict.severity) == (text, "info")
    assert {bound.kind for bound in verdict.bounds} <= {"io", "other"}
    assert verdict.advice[0].startswith("what the device computes")


def test_a_queue_that_is_empty(tmp_path: Path) -> None:
    p = Program()
    for _ in range(50):
        p.span("wait", 9, line=33, what="Queue.get")
        p.train()
    verdict = report(tmp_path / "r", p).verdict
    assert verdict.sentence == "input-bound: 56 % of a step waits at train.py:33"
    assert verdict.advice[0].endswith("training waits for them in Queue.get")


def test_regions_of_a_voirfile_are_named(tmp_path: Path) -> None:
    p = Program()
    for _ in range(50):
        p.io(0.1)
        p.span("simulate", 20, line=33)
        p.train()
    verdict = report(tmp_path / "r", p).verdict
    assert verdict.sentence == "simulate-bound: 74 % of a step is simulate at train.py:33"


def test_what_is_spread_is_not_mostly_anywhere(tmp_path: Path) -> None:
    p = Program()
    for _ in range(50):
        p.io(0.1)
        for line in (12, 22, 32):
            p.wait(3)
            p.forward(1, line=line)
        p.backward(1)
        p.wait(3)
        p.update()
    found = report(tmp_path / "r", p)
    assert found.verdict.kind == "overhead-bound" and "mostly" not in found.verdict.sentence
    assert "mostly" not in "\n".join(terminal.profile(found))


def test_estimators_alone(tmp_path: Path) -> None:
    p = Program()
    p.span("fit", 8100, line=10, of=1, what="RandomForestClassifier")
    p.span("predict", 900, line=11, of=1, what="RandomForestClassifier")
    verdict = report(tmp_path / "r", p, start=9000).verdict
    assert verdict.sentence == "8.1 s, 45 %: fit of RandomForestClassifier, train.py:10"
    predicted, unseen = verdict.evidence
    assert predicted == "900 ms, 5 %: predict of RandomForestClassifier, train.py:11"
    assert unseen.startswith("nothing was recorded inside that fit")


def test_trees_in_threads_are_a_part_of_the_fit(tmp_path: Path) -> None:
    p = Program()
    p.span("fit", 4000, line=10, of=1, what="RandomForestClassifier")
    for _ in range(3):
        p.span("grow", 2000, line=11)
    verdict = report(tmp_path / "r", p, start=9000).verdict
    assert "fit of RandomForestClassifier" in verdict.sentence
    assert [each.split(": ")[1] for each in verdict.evidence] == ["grow, train.py:11"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("boost", "boost: the inside of compiled code is not recorded"),
        ("grow", "grow: the inside of compiled code is not recorded"),
        ("predict", "predict at train.py:12: its inside is not recorded"),
    ],
)
def test_what_libraries_compute_is_computed(tmp_path: Path, name: str, words: str) -> None:
    p = Program()
    for _ in range(40):
        with p.around("step", items=8, task="train", how="items"):
            p.span(name, 9, line=12)
            p.wait(1)
    verdict = report(tmp_path / "r", p).verdict
    assert verdict.kind == "compute-bound" and verdict.severity == "info"
    assert f"is {words}" in verdict.sentence
    assert "compiled model" not in " ".join(verdict.advice)


def test_outside_of_steps_holds_only_what_is_outside(tmp_path: Path) -> None:
    p = Program()
    with p.around("fit", line=9):
        p.wait(30)
        for _ in range(50):
            p.turn()
        p.wait(20)
    [fit] = report(tmp_path / "r", p).others
    assert (fit.name, fit.host.mean) == ("fit", ms(0.05))


def test_outside_of_steps_a_call_in_another_at_its_line_is_a_part_of_it(tmp_path: Path) -> None:
    """Of an environment the program's call is recorded, and in it the library's method."""
    p = Program()
    with p.around("env", line=9, of=3):
        for _ in range(2):
            p.span("env", 10, line=9, of=4)
        p.span("env", 5, line=8, of=3)
    p.wait(10)
    p.span("env", 10, line=9, of=4)
    for _ in range(20):
        p.turn()
    outside = {
        each.place.line: each.host for each in report(tmp_path / "r", p).others if each.place
    }
    assert (outside[9].n, outside[9].max, outside[8].n) == (2, ms(0.025), 1)


def test_outside_of_steps_a_share_is_of_one_rank(tmp_path: Path) -> None:
    ranks = [Program(pid=rank + 1, rank=rank) for rank in range(2)]
    for p in ranks:
        p.span("connect", 600, line=9)
        for _ in range(20):
            p.turn()
    found = report(tmp_path / "r", *ranks, start=1240)
    [connect] = found.others
    assert (connect.host.n, connect.share) == (2, ms(0.3, abs=0.01))
    assert found.verdict.besides[0].startswith(
        "outside of steps 600 ms, 30 %: connect, train.py:9;"
    )


def test_processes_that_wait_for_the_one_that_trains_take_nothing_of_the_run(
    tmp_path: Path,
) -> None:
    """The program waits for a process that trains, whose environments wait for its actions."""
    parent, trainer, *environments = (Program(pid=number) for number in range(1, 5))
    parent.span("wait", 900, line=9, what="BaseProcess.join")
    for _ in range(20):
        trainer.turn()
    for p in environments:
        p.span("wait", 600, line=40, what="_ConnectionBase.recv")
        p.span("env", 300, line=41)
    found = report(tmp_path / "r", parent, trainer, *environments)
    waits = [(n.place.line, n.share) for n in found.others if n.name == "wait" and n.place]
    assert waits == [(9, ms(0.9 / found.wall)), (40, ms(0.6 / found.wall))]
    [outside] = [text for text in found.verdict.besides if "outside of steps" in text]
    assert outside.startswith("outside of steps 300 ms") and "env, train.py:41" in outside


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((12,), "the gap between evaluation (train.py:20) and forward (train.py:12) takes 1.0 s"),
        ((12, 16), "gaps between steps take 2.0 s"),
    ],
)
def test_what_takes_longer_than_training_says_which_gap(
    tmp_path: Path, lines: tuple[int, ...], expected: str
) -> None:
    p = Program()
    for line in lines:
        for _ in range(20):
            p.forward(line=line)
            p.backward()
            p.update()
        p.span("evaluation", 10)
        p.wait(1000)
        p.forward(line=line)
        p.backward()
        p.update()
    found = report(tmp_path / "r", p)
    assert any(text.startswith(expected) for text in found.verdict.besides), found.verdict.besides


@pytest.mark.parametrize(("stop", "updates"), [(5, False), (60, False), (5, True)])
def test_a_training_without_an_optimizer_says_that_stop_did_not_end_it(
    tmp_path: Path, stop: int, updates: bool
) -> None:
    p = Program()
    for _ in range(40):
        p.forward()
        p.backward()
        if updates:
            p.update()
    found = report(tmp_path / "r", p, limits={"stop": stop})
    assert only(found).steps == 40
    expected = [f"--stop {stop} did not end the training"] if stop < 40 and not updates else []
    assert [text.partition(":")[0] for text in found.unmeasured if "--stop" in text] == expected


def test_what_other_threads_do_takes_nothing_from_the_training(tmp_path: Path) -> None:
    """Threads of a pool that fetch, decode or wait for a device beside it come to more than the run."""
    p = Program()
    for thread in range(1, 4):
        p.now, p.thread = 0, thread
        p.span("decode", 150, line=7)
    p.now, p.thread = 0, 0
    for _ in range(20):
        p.turn()
    found = report(tmp_path / "r", p)
    assert found.others[0].name == "decode" and found.others[0].share > 1
    assert not [text for text in found.verdict.besides if "decode" in text]


def test_a_slow_first_step_of_a_few(tmp_path: Path) -> None:
    p = Program()
    p.turn(io=3000)
    for _ in range(3):
        p.turn(io=0.1)
    found = report(tmp_path / "r", p)
    assert found.verdict.kind == "compute-bound" and only(found).warmup.steps == 0


@pytest.mark.parametrize(
    ("steps", "slow", "warm"), [(4, 1, 0), (5, 0, 1), (100, 7, 7), (100, 30, 10), (6, 3, 1)]
)
def test_how_long_the_warm_up_is(tmp_path: Path, steps: int, slow: int, warm: int) -> None:
    p = Program()
    for step in range(steps):
        p.turn(other=100 if step < slow else 0)
    assert only(report(tmp_path / "r", p)).warmup.steps == warm


def test_steps_that_were_to_be_skipped(tmp_path: Path) -> None:
    p = Program()
    for _ in range(100):
        p.turn()
    warmup = only(report(tmp_path / "r", p, limits={"skip": 20})).warmup
    assert (warmup.steps, warmup.skipped, warmup.seconds) == (20, 20, ms(0.16))


@pytest.mark.parametrize(("skip", "skipped"), [(70, 70), (99, 99), (100, 50), (500, 50)])
def test_most_steps_were_to_be_skipped(tmp_path: Path, skip: int, skipped: int) -> None:
    """None of them is in a figure, unless the loop has no others."""
    p = Program()
    for step in range(100):
        p.turn(io=20 if step < skip else 1)
    loop = only(report(tmp_path / "r", p, limits={"skip": skip}))
    assert (loop.warmup.steps, loop.warmup.skipped, loop.step.n) == (
        skipped,
        skipped,
        100 - skipped,
    )
    assert skip != 70 or loop.step.max == ms(8e-3)


def test_transfer_bound(tmp_path: Path) -> None:
    p = Program()
    for _ in range(50):
        p.io(0.1)
        p.span("h2d", 3, nbytes=6_000_000)
        p.train()
    found = report(tmp_path / "r", p)
    assert found.verdict.kind == "transfer-bound"
    assert (
        found.verdict.sentence
        == "transfer-bound: 30 % of a step copies to the device at train.py:11"
    )
    assert "2 GB/s" in found.verdict.advice[-1]
    [h2d] = [n for n in only(found).tree.children if n.name == "h2d"]
    assert h2d.nbytes == 6_000_000


def test_overhead_is_told_by_lines(tmp_path: Path) -> None:
    p = Program()
    for _ in range(50):
        p.io(0.1)
        p.train()
        p.wait(5)
    verdict = report(tmp_path / "r", p).verdict
    assert (verdict.kind, verdict.severity) == ("overhead-bound", "critical")
    assert "41 %" in verdict.sentence
    assert "between train.py:14 (optimizer) and train.py:10 (the next fetch)" in verdict.sentence


def test_most_of_the_rest_is_where_the_shares_have_it(tmp_path: Path) -> None:
    """Neither the warm-up nor a step that stands for nothing but itself says where time passes."""
    p = Program()
    for number in range(50):
        p.io(0.1)
        p.forward(1)
        p.wait(400 if number in (0, 25) else 0)
        p.backward(1)
        p.update()
        p.wait(3)
    between = "between train.py:14 (optimizer) and train.py:10 (the next fetch)"
    assert between in report(tmp_path / "r", p).verdict.sentence


def test_steps_that_wait_within_what_is_compiled_are_not_few(tmp_path: Path) -> None:
    """Where each call of it waits for its result, a wait now and then beside it changes nothing."""
    p = Program()
    for step in range(1, 61):
        with p.around("compiled", 8, of=1, phase="train", what="step"):
            p.wait(2)
            p.span("sync", 3)
        if step % 20 == 0:
            p.span("sync", 0.1, line=31)
    verdict = report(tmp_path / "r", p).verdict
    assert verdict.kind == "compute-bound" and "few of the steps" not in verdict.sentence


@pytest.mark.parametrize(("solver", "rest", "most"), [(3, 2, True), (3, 4, False)])
def test_a_solver_between_two_models(
    solver: float, rest: float, most: bool, tmp_path: Path
) -> None:
    p = Program()
    for _ in range(50):
        p.io(0.1)
        p.forward(1)
        p.wait(solver)
        p.forward(1, line=22)
        p.backward(1)
        p.wait(rest / 2)
        p.update(1)
        p.wait(rest / 2)
    verdict = report(tmp_path / "r", p).verdict
    where = "between train.py:12 (forward) and train.py:22 (forward)"
    assert (f", mostly {where}" in verdict.sentence) == most == ("mostly" in verdict.sentence)
    assert any(f"passes {where}" in fact for fact in verdict.evidence)


def test_models_made_anew_are_between_the_same_lines(tmp_path: Path) -> None:
    """A solver wraps the function it integrates in a module of its own, each time it is called."""
    p = Program()
    for step in range(50):
        for _ in range(5):
            p.forward(1, of=2 + step)
            p.wait(2)
        p.backward(1)
        p.update(1)
    verdict = report(tmp_path / "r", p).verdict
    between = "between one call of forward at train.py:12 and the next"
    assert verdict.sentence.endswith(f"is in no region, mostly {between}")
    assert any(f"80 % of that passes {between}" in fact for fact in verdict.evidence)


@pytest.mark.parametrize("exit", [{"code": 1, "signal": None}, {"code": None, "signal": 9}, None])
def test_a_program_that_fails_before_its_first_step(tmp_path: Path, exit: object) -> None:
    """It is to be mended first: that its loop was not recognised would be wrong, and no advice to it."""
    p = Program()
    p.io(1)
    p.forward(1)
    verdict = report(tmp_path / "r", p, exit=exit).verdict
    assert verdict.kind == "none" and bool(verdict.advice) == (exit is None)
    assert verdict.sentence.startswith("no training steps were recorded")
    assert ("before the program failed" in verdict.sentence) == (exit is not None)


def test_balanced(tmp_path: Path) -> None:
    p = Program()
    for _ in range(50):
        p.io(0.5)
        p.span("augment", 2)
        p.train()
    assert report(tmp_path / "r", p).verdict.kind == "balanced"


@pytest.mark.parametrize("device", [0.5, 3.9])
def test_device_clocks(tmp_path: Path, device: float) -> None:
    p = Program()
    for _ in range(50):
        p.io(0.1)
        p.train()
    p.rows.sort(key=lambda row: row[1])
    for region, of in (("forward", 1), ("backward", None), ("optimizer", 1)):
        phase = {"phase": "train"} if region == "forward" else {}
        of_ = {} if of is None else {"of": of}
        host = p.site(region, **of_, **phase)
        for start, end, _, site in list(p.rows):
            if site == host:
                length = round((end - start) * device / 4)
                p.row(region, start + 5 * MS, start + 5 * MS + length, clock="device",
                      device="cuda:0", **of_, **phase)  # fmt: skip
    found = report(tmp_path / "r", p)
    assert found.verdict.kind == "compute-bound"  # 5 ms after the host, the device has work queued
    loop = only(found)
    assert loop.step.median == ms(7.1e-3)
    assert loop.tree.device and loop.tree.device.median == ms(7e-3 * device / 4)
    forward = next(n for n in loop.tree.children if n.name == "forward")
    assert forward.device and forward.device.median == ms(2e-3 * device / 4)
    assert loop.ranks[0].device == "cuda:0"
    assert not any("device clock" in text for text in found.unmeasured)


@pytest.mark.parametrize(
    ("device", "asked", "message"),
    [("cuda:0", False, True), ("xpu:1", False, True), ("cuda:0", True, False),
     ("cpu", False, False), (None, False, False)],
)  # fmt: skip
def test_transfers_that_nobody_sees(
    tmp_path: Path, device: str | None, asked: bool, message: bool
) -> None:
    p = Program()
    for _ in range(10):
        p.io()
        if asked:
            p.span("h2d", 1, nbytes=1000)
        start = p.now
        p.train()
        if device:
            p.row("forward", start, start + MS, clock="device", device=device, of=1, phase="train")
    found = report(tmp_path / "r", p)
    texts = [
        text for text in found.unmeasured if "transfers to devices: none were recorded" in text
    ]
    assert len(texts) == message


def test_memory_that_grows(tmp_path: Path) -> None:
    p = Program()
    for _ in range(300):
        p.io(0)
        p.train()
    report(tmp_path / "r", p)
    times = [EPOCH + i * 0.01 for i in range(210)]
    run = open_run(str(tmp_path / "r"))
    grows = {0: (times, [i * 2.0e7 for i in range(210)])}
    found = profile(run, grows)
    assert found and found.verdict.kind == "memory-growth"
    assert "process 0 grew by 2.6 GiB" in found.verdict.sentence
    steady = {0: (times, [1e9 + i % 2 for i in range(210)])}
    found = profile(run, steady)
    assert found and found.verdict.kind == "compute-bound"


def test_what_could_not_be_measured(tmp_path: Path) -> None:
    p = Program(rank=0, world=3)
    for _ in range(10):
        p.io()
        p.update()
    p.records.append(("lost", {"records": 4, "why": "ENOSPC"}))
    warnings = [{"kind": "auto-missed", "text": "torch: Optimizer.step\nwas not found"},
                {"kind": "torn", "text": "no"}]  # fmt: skip
    found = report(tmp_path / "r", p, warnings=warnings)
    message = found.unmeasured
    assert "device time: no device clock was recorded; all times are the host's" in message
    assert (
        "items per second: no call of a model was recorded in its steps; rates are steps per second"
        in message
    )
    assert "ranks 1, 2 of 3 recorded nothing" in message
    assert "torch: Optimizer.step was not found" in message
    assert any(text.startswith("4 records were lost") for text in message)
    assert only(found).throughput.items is None and only(found).throughput.steps == ms(500)


def test_as_plain_words(tmp_path: Path) -> None:
    p = Program()
    for _ in range(10):
        p.turn()
    found = plain(report(tmp_path / "r", p))
    assert json.loads(json.dumps(found)) == found
    assert found["loops"][0]["tree"]["host"]["n"] == 9


@pytest.mark.parametrize(
    ("line", "forward", "late", "kind"),
    [
        (12, 0, 0, "none"),  # a method of the model computes
        (12, 0.1, 0, "none"),  # it calls a small part of it
        (12, 4, 0, "overhead-bound"),
        (12, 0, 30, "overhead-bound"),  # most of it follows the update
    ],
)
@pytest.mark.parametrize("loader", [True, False])
def test_what_a_method_of_the_model_computes_is_no_overhead(
    tmp_path: Path, line: int, forward: float, late: float, kind: str, loader: bool
) -> None:
    p = Program()
    for _ in range(60):
        if loader:
            p.io(0.2)
        p.wait(12)
        if forward:
            p.forward(forward, line=line)
        p.span("zero_grad", 0.1)
        p.backward(5)
        p.update(0.5)
        if loader:
            p.wait(late)
    verdict = report(tmp_path / "r", p).verdict
    if late and not loader:
        kind = "none"  # it comes before the next step's work, as the forward does
    assert verdict.kind == kind, verdict
    assert ("no call of it was recorded" in verdict.sentence) == (kind == "none")
    assert (verdict.severity == "info") == (kind == "none")
