"""Every shape of training loop: its steps, parts, evaluation, verdict, found without a word."""

from __future__ import annotations

import json
import subprocess

import pytest

from injector.analysis.profiling import profile
from injector.store.folder import open_run

from . import drawn, sources
from .cases import ENDS, EVALUATIONS, LOADERS, RANKS, STEPS, UPDATES, Case
from .truth import Ran, problems, run

pytest.importorskip("torch")

OFTEN = [
    "loader_for",
    "loader_workers",
    "no_loader",
    "gan_loader",
    "by_hand",
    "eval_epoch",
    "trains_nothing",
]
"""One program of each shape, run by every `make test`: a start of PyTorch each. `make test-all` runs all of
them; how their spans are read is tested on synthetic ones in tests/analysis, compiled steps and several
ranks in tests/voirfiles."""


def each(cases: list[Case]):
    """``cases`` as parameters: those that repeat a shape are for a release."""
    seen = set()
    for case in cases:
        program = next(word for word in case.words.split() if word.endswith(".py"))[:-3]
        repeats = program not in OFTEN or program in seen
        seen.add(program)
        yield pytest.param(case, id=case.name, marks=[pytest.mark.release] if repeats else [])


def check(case: Case, inject, environ, tmp_path, text: str = "") -> Ran:
    ran = run(case, inject, environ, tmp_path, text)
    wrong = problems(ran, case)
    assert not wrong, "\n".join([f"{case.words}:", *wrong, "", ran.output[-1500:], text])
    return ran


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.release] if n > 2 else []) for n in range(60)]
)
def test_a_loop_of_idioms_that_were_drawn(seed, inject, environ, tmp_path):
    """Every dimension of a loop with every other one, in time."""
    check(Case("drawn.py"), inject, environ, tmp_path, drawn.program(drawn.draw(seed)))


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.release] if n > 1 else []) for n in range(55)]
)
def test_batches_from_everywhere(seed, inject, environ, tmp_path):
    """Each way to draw batches, with each way to evaluate, at each place."""
    d = sources.draw(seed)
    program, truth, runs = (tmp_path / name for name in ("program.py", "truth.json", "runs"))
    program.write_text(sources.program(d))
    command = [*inject, "run", "--quiet", "--runs", str(runs), str(program)]
    subprocess.run(command, env={**environ, "LOOP_TRUTH": str(truth)}, check=True)
    counted = json.loads(truth.read_text())
    (folder,) = runs.iterdir()
    found = profile(open_run(str(folder)))
    (loop,) = found.loops
    measured = counted["items"][loop.warmup.steps :]
    assert loop.steps == counted["steps"], d
    assert loop.items_per_step == pytest.approx(sum(measured) / len(measured)), d
    assert len(loop.epochs) == (counted["epochs"] if d.has_epochs else 0), d
    evaluated = [
        sum(getattr(e, key) for e in found.evaluations) for key in ("passes", "batches", "items")
    ]
    assert evaluated == [counted[key] for key in ("passes", "batches", "evaluated")], d


@pytest.mark.parametrize("case", [*each(LOADERS)])
def test_what_paces_a_loop_that_fetches(case, inject, environ, tmp_path):
    check(case, inject, environ, tmp_path)


@pytest.mark.parametrize("case", [*each(UPDATES)])
def test_what_an_update_is(case, inject, environ, tmp_path):
    check(case, inject, environ, tmp_path)


@pytest.mark.parametrize(
    ("fetches", "named"),
    [
        (1, False),
        *(
            pytest.param(*each, marks=pytest.mark.release)
            for each in ((1, True), (4, False), (4, True))
        ),
    ],
)
def test_batches_made_by_hand_are_io_with_and_without_a_voirfile(
    fetches, named, inject, environ, tmp_path
):
    voirfile = tmp_path / "batches.py"
    voirfile.write_text('def instrument_batches(ov): ov.region("//get_batch", "io")\n')
    options = f"--voirfile {voirfile} " if named else ""
    ran = check(Case(f"{options}get_batch.py {fetches} named"), inject, environ, tmp_path)
    (made,) = ran.marks["made"]
    io = [node for node in ran.profile.loops[0].tree.children if node.name == "io"]
    (calls,) = [node.calls for node in io if node.place.line == made]
    # The batch that was made before the loop is the first step's, which is the warm-up. Without a
    # voirfile the function is known from the first backward on.
    assert calls == fetches
    assert "makes the batch" not in (ran.profile.loops[0].tree.children[-1].what or "")


@pytest.mark.release
def test_the_line_of_a_batch_that_no_function_makes_is_named(inject, environ, tmp_path):
    ran = check(Case("get_batch.py 1 partial"), inject, environ, tmp_path)
    (made,) = ran.marks["made"]
    assert f"where line {made} makes the batch" in ran.profile.verdict.sentence
    assert any("io" in text for text in ran.profile.verdict.advice)


@pytest.mark.parametrize("case", [*each(EVALUATIONS)])
def test_evaluation_is_kept_apart(case, inject, environ, tmp_path):
    check(case, inject, environ, tmp_path)


@pytest.mark.parametrize("case", [*each(STEPS)])
def test_what_steps_hold(case, inject, environ, tmp_path):
    check(case, inject, environ, tmp_path)


@pytest.mark.parametrize("case", [*each(RANKS)])
def test_every_rank_is_recorded_and_the_slow_one_named(case, inject, environ, tmp_path):
    check(case, inject, environ, tmp_path)


@pytest.mark.parametrize("case", [*each(ENDS)])
def test_a_program_that_ends_early_or_never_trains(case, inject, environ, tmp_path):
    ran = check(case, inject, environ, tmp_path)
    if ran.profile is not None and not ran.profile.loops:
        assert ran.profile.verdict.sentence
