"""Steps counted as they happen: loops of every shape, as what the hooks tell of them."""

from __future__ import annotations

import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.measure.agree import AT_ONCE, SharedStep
from injector.measure.pace import MANY, Pace

# A capital letter is a fetch from that loader, a small one an update of that optimizer, "." a fetch
# that finds the loader fetched last exhausted, "!" the end of an explicit step of training, "?" of one
# of another task, a digit a call of a model that is not trained, "~" a backward without an optimizer.


def play(pace, text, upto=None):
    """Tell ``pace`` of what happens in ``text``; how many events there were until it stopped."""
    fetched = None
    for number, event in enumerate(islice(text, upto), 1):
        if event == "!":
            over = pace.step(number)
        elif event == "?":
            over = pace.step(number, task="evaluation")
        elif event == ".":
            over = pace.end(fetched)
        elif event.isdigit():
            over = pace.predict(event)
        elif event == "~":
            over = pace.update_by_hand("line")
        elif event.isupper():
            fetched = event
            over = pace.fetch(event)
        else:
            over = pace.update(event)
        if over:
            return number
    return None


def test_steps_within_others_are_parts_of_them():
    """A library's own step within one that the program or a voirfile marks, several in each."""
    pace = Pace(stop=5)
    for turn in range(4):
        begin = 100 * turn
        inner = [pace.step(begin + at, "inner") for at in (1, 2, 3)]
        assert inner == [False] * 3 and pace.steps == (turn or 3)
        assert not pace.step(begin, "outer") and pace.steps == turn + 1
    assert pace.step(400, "outer")


def test_a_step_that_calls_itself_is_one():
    pace = Pace()
    for turn in range(3):
        for depth in (2, 1, 0):
            pace.step(10 * turn + depth, "f")
        assert pace.steps == turn + 1


LATE = [(2, "AoA", True), (3, "AoA", False), (2, "AoAo", True), (4, "AoAoA.o", True)]


def test_what_is_known_late_is_counted_where_it_was():
    """Updates that were not known to be any: the step that a loader paces ends with its next fetch."""
    for stop, text, over in LATE:
        pace, steps = Pace(stop=stop), []
        pace.on_step.append(steps.append)
        assert play(pace, "BoB") is None  # the end of the first: this thread has made a step
        state = pace.state()
        assert play(pace, text.replace("o", "")) is None
        told = partial(play, pace, text)
        assert pace.recount(state, told) is over
        assert not pace.recount(state, told)  # nothing is counted twice
        assert pace.steps == steps[-1] == counted("BoB" + text)
        assert len(steps) == pace.steps


def counted(text):
    pace = Pace()
    assert play(pace, text) is None
    return pace.steps


SHAPES = {
    "a loader loop": ("AoAoAoA", 3),
    "epochs": ("AoAoAoA." * 4, 12),
    "accumulation": ("AAAAo" * 3 + "A", 3),
    "accumulation over the end of an epoch": ("AAoAA.AAoAA.AA", 2),
    "what is left over at the end of an epoch": ("AAoAAoAA.o" * 2, 6),
    "two optimizers in a turn": ("Ado" * 4 + "A", 4),
    "several updates of one in a turn": ("Adddddo" * 3 + "A", 3),
    "two loaders zipped": ("ABoABoABoA", 3),
    "two loaders with an update each": ("AdBoAdBoAdBoA", 3),
    "a loader in a loader": ("ABoBoB.ABoBoB.A.", 4),
    "a loader in a loader, left by break": ("ABoBoABoBoAB", 4),
    "evaluation between epochs": ("AoAoA.VVVV." * 3, 6),
    "evaluation in the middle": ("AoAoVVV.AoAoVVV.A", 4),
    "evaluation left by break": ("AoAoVVVAoAoVVVA", 4),
    "evaluation first": ("VVVV.AoAoA", 2),
    "one loop after another": ("AoAoA.BoBoB.", 4),
    "one loop after another, left by break": ("AoAoBoBoB", 4),
    "no loader": ("ooooo", 5),
    "no loader, evaluation": ("oooVVV.ooVVV.o", 6),
    "no loader, evaluation left by break": ("oooVVVooVVVo", 6),
    "no loader, alternating": ("dgdgdg", 3),
    "no loader, alternating, in the middle": ("dgdgd", 2),
    "no loader, three": ("abcabcabc", 3),
    "no loader, five and one": ("dddddg" * 4, 4),
    "no loader, delayed": ("ccaccaccac", 3),
    "no loader, one loop after another": ("a" * 100 + "b" * 50, 150),
    "no loader, a short loop first": ("a" * 3 + "b" * 50, 53),
    "no loader, then a loader": ("oo" + "AoAoA", 4),
    "one batch for ever": ("A" + "o" * 200, 200),
    "fetched, never updated": ("AAAAAAA.", 0),
    "explicit": ("AAo!AAo!AAo!", 3),
    "explicit, evaluated": ("Ao!VV??Ao!VV??", 2),
    "explicit, no update": ("!!!", 3),
    "explicit, of many updates each": (("o" * 200 + "!") * 3, 3),
    "explicit, and then a loop": ("!" * 5 + "Ao" * (MANY + 10) + "A", 15),
    "explicit, and then a loop without a loader": ("o!" * 5 + "p" * (MANY + 10), 15),
    "explicit, a loop, explicit": ("!" * 5 + "o" * (MANY + 10) + "!" * 3, 3),
    "nothing": ("", 0),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_how_many_steps(shape):
    text, steps = SHAPES[shape]
    assert counted(text) == steps


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("~~~~", 4),
        ("A~A~A~.", 3),
        ("A~A~~A~.", 3),
        ("~~~o", 1),  # gradients were accumulated, or an attack tried, before the optimizer
        ("~~~oo", 2),
        ("A~A~A~oAoAoA", 3),
    ],
)
def test_a_backward_is_an_update_until_an_optimizer_makes_one(text, steps):
    assert counted(text) == steps


def test_one_optimizer_used_in_two_places():
    pace = Pace()
    for _ in range(5):
        pace.update("o", "warm-up")
    for _ in range(5):
        pace.update("o", "training")
    assert pace.steps == 10


def test_two_updates_of_one_optimizer_are_a_step_if_they_alternate():
    pace, steps = Pace(), []
    for _ in range(20):
        pace.update("o", "first")
        pace.update("o", "second")
        steps.append(pace.steps)
    assert [after - before for before, after in pairwise(steps[2:])] == [1] * 17


@pytest.mark.parametrize(
    ("text", "skip", "stop", "events"),
    [
        ("Ao" * 9, 0, 3, "AoAoAoA"),
        ("Ao" * 9, 2, 3, "AoAoAoAoAoA"),
        ("o" * 9, 1, 3, "oooo"),
        ("dg" * 9, 0, 3, "dgdgdg"),
        ("dg" * 9, 0, 2, "dgdg"),
        ("Adg" * 9, 0, 2, "AdgAdgA"),
        ("AoAoA.VVV." * 9, 0, 2, "AoAoA"),
        ("AoVVV." * 9, 0, 2, "AoVVV.AoVVV.A"),
        ("Ao!" * 9, 0, 2, "Ao!Ao!"),
        ("Ao?!" * 9, 0, 2, "Ao?!Ao?!"),
    ],
)
def test_where_it_stops(text, skip, stop, events):
    pace = Pace(skip, stop)
    assert play(pace, text) == len(events)
    assert (pace.why, pace.steps) == ("stop", skip + stop)
    assert counted(events) == skip + stop, "what the record will hold"


def test_it_says_so_once():
    pace = Pace(0, 1)
    assert pace.update("o")
    assert not any(pace.update("o") for _ in range(5))
    assert pace.steps == 6


@given(st.text("ABo.d", max_size=40), st.integers(1, 9))
def test_it_stops_when_that_many_are_counted(text, stop):
    pace = Pace(0, stop)
    at = play(pace, text)
    if at is not None:
        assert pace.steps >= stop
        assert counted(text[:at]) == pace.steps
    else:
        assert pace.steps < stop


@given(st.text("ABCabc.!?", max_size=200))
def test_whatever_happens_is_counted_somehow(text):
    updates = sum(event.islower() for event in text)
    assert 0 <= counted(text) <= updates + text.count("!") + MANY


def test_all_that_want_to_hear_of_steps_do():
    """The profiler of ``--torch-profile``, and a voirfile: neither takes the other's place."""
    pace, first, second = Pace(), [], []
    pace.on_step += [first.append, second.append]
    play(pace, "AoAoAo")
    assert first == second == [1, 2]


def test_threads_that_only_fetch_do_not_count():
    pace = Pace()
    fetching = threading.Thread(target=play, args=(pace, "A" * 50))
    play(pace, "AoAoA", 3)
    fetching.start()
    fetching.join()
    play(pace, "oA")
    assert pace.steps == 2


def test_a_forked_child_counts_from_zero():
    pace = Pace(0, 3)
    play(pace, "oo")
    pace.renew()
    assert play(pace, "ooo") == 3


def test_without_others_a_deadline_is_the_end_of_the_step():
    pace = Pace(deadline=0)
    assert play(pace, "AAoA") == 4
    assert (pace.why, pace.steps) == ("max-duration", 1)
    assert Pace(deadline=1 << 62).update("o") is False


def ranks(path, deadlines):
    return [Pace(deadline=deadline, agree=SharedStep(str(path))) for deadline in deadlines]


NEVER = 1 << 62


def test_ranks_stop_at_the_same_step(tmp_path):
    """Two ranks in step with each other, of which only one sees that it is late."""
    first, second = ranks(tmp_path / "raw" / "pace", [NEVER, 0])
    stopped = []
    for number in range(1, 9):
        stopped += [(number, pace) for pace in (first, second) if pace.update("o")]
    assert stopped == [(3, first), (3, second)]
    assert {first.why, second.why} == {"max-duration"}


def test_the_first_proposal_counts(tmp_path):
    first, second = ranks(tmp_path / "pace", [0, 0])
    assert not first.update("o")  # proposes 3
    for number in range(2):
        assert not second.update("o"), number
    assert second.update("o")
    assert not first.update("o")
    assert first.update("o")


def test_a_rank_that_comes_later_sees_what_was_agreed(tmp_path):
    first, _ = ranks(tmp_path / "pace", [0, 0])
    play(first, "ooo")
    late = SharedStep(str(tmp_path / "pace"))
    assert late.look() == 3


def test_a_proposer_that_died_is_replaced(tmp_path):
    (tmp_path / "pace.by").touch()
    [pace] = ranks(tmp_path / "pace", [0])
    assert play(pace, "o" * 20) is not None


def test_without_a_folder_each_stops_for_itself(tmp_path):
    (tmp_path / "file").touch()
    [pace] = ranks(tmp_path / "file" / "pace", [0])
    assert play(pace, "o" * 20) == 3


def wanting(path, when):
    """What each rank that wants to stop in step 5, so many seconds later, is told."""
    shared = [SharedStep(path) for _ in when]
    for rank, each in enumerate(shared):
        each.join(rank)

    def want(rank):
        if when[rank] is None:
            return 0
        time.sleep(when[rank])
        return shared[rank].want(rank, 5, 2)

    with ThreadPoolExecutor(len(when)) as pool:
        return list(pool.map(want, range(len(when)))), shared[0].asker


def test_ranks_that_all_want_to_stop_do_so_where_they_are(tmp_path):
    assert wanting(str(tmp_path / "pace"), [0, 0.05, 0.1]) == ([AT_ONCE] * 3, None)


def test_a_rank_that_alone_wants_to_stop_goes_on_to_where_all_do(tmp_path):
    assert wanting(str(tmp_path / "pace"), [None, 0]) == ([0, 6], (1, 5))


def test_a_rank_that_wants_to_stop_late_does_what_was_decided(tmp_path):
    assert wanting(str(tmp_path / "pace"), [1.0, 0]) == ([6, 6], (1, 5))


def test_who_trains_nothing_stops_where_it_is(tmp_path):
    shared = SharedStep(str(tmp_path / "pace"))
    shared.join(1)
    pace = Pace(agree=shared)
    assert not pace.goes_on(0)
    pace.update("o")
    assert pace.goes_on(0)
    assert [pace.update("o"), pace.update("o"), pace.why] == [False, True, "rank"]


def run_rank(path, barrier, deadline, results):
    pace = Pace(deadline=deadline, agree=SharedStep(path))
    over = False
    while not over:
        barrier.wait()  # as collectives keep ranks in step
        over = pace.update("o")
    results.put(pace.steps)


def test_processes_agree(tmp_path):
    context = multiprocessing.get_context("fork")
    for attempt in range(5):
        barrier, results = context.Barrier(4), context.Queue()
        path = str(tmp_path / str(attempt) / "pace")
        ranks = [
            context.Process(target=run_rank, args=(path, barrier, deadline, results))
            for deadline in (0, 0, 0, NEVER)
        ]
        for rank in ranks:
            rank.start()
        assert [results.get(timeout=60) for _ in ranks] == [3] * 4
        for rank in ranks:
            rank.join()


@pytest.mark.parametrize(
    ("text", "skip", "stop", "events"),
    [
        ("0123", 1, 2, None),  # four models, each called once: no turn is complete
        ("0000", 1, 2, 3),
        ("A0A0A0A0", 0, 2, 5),
        ("A0A00A0.", 1, 2, 8),
        ("A0A0xA0A0", 0, 3, None),  # an update: what came before was an evaluation
        ("A0A0AxAxAxA", 0, 3, 11),
    ],
)
def test_batches_are_steps_where_nothing_is_trained(text, skip, stop, events):
    assert play(Pace(skip, stop, infers=lambda: True), text) == events
    assert play(Pace(skip, stop, infers=lambda: False), text) == (events if "x" in text else None)


def test_whether_a_training_may_follow_is_looked_up_once():
    calls = []
    pace = Pace(0, 2, infers=lambda: bool(calls.append(1)))
    assert play(pace, "A0A0A0A0A0") is None and calls == [1]
    assert play(Pace(0, 2, infers=lambda: bool(calls.append(1))), "A0AxAxAx") and calls == [1]


def test_a_deadline_ends_an_inference():
    pace = Pace(deadline=time.monotonic_ns(), infers=lambda: True)
    assert play(pace, "A0A0") == 3 and pace.why == "max-duration" and not pace.trains
    assert pace.steps == 1


LEFT_OVER = "9 of one, one of the other", ("x" * 9 + "y") * 5, 50
AT_FIRST = "one, and then 9 of the other", ("y" + "x" * 9) * 5, 50
PLACES = [LEFT_OVER, AT_FIRST]


@pytest.mark.parametrize(
    ("text", "steps"), [each[1:] for each in PLACES], ids=[each[0] for each in PLACES]
)
def test_each_update_of_one_optimizer_is_a_step_where_a_place_often_comes_twice_in_a_row(
    text, steps
):
    """What is left over at an epoch's end, and a warm-up before each: no steps of ten updates."""
    pace, seen = Pace(), []
    for place in text:
        pace.update("o", place)
        seen.append(pace.steps)
    assert seen == list(range(1, steps + 1))
