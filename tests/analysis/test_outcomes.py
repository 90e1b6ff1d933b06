"""What became of ranks: members put together by hand, and read from the files of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from layouts import EPOCH, Program

from injector.analysis.outcome_words import is_broken, sentences
from injector.analysis.outcomes import SECOND, LastSpan, RankProcess, RegionCall, outcomes_of
from injector.analysis.profiling import profile
from injector.store.folder import open_run

TERM, KILL = -15, -9
UPDATE = RegionCall("optimizer", None, None)
REDUCE = RegionCall("comm", "all_reduce", None)


def member(
    rank: int,
    last: float,
    gone: float | None = None,
    *,
    code: int | None = None,
    own_end: float | None = None,
    error: str = "",
    inside: tuple[RegionCall, ...] = (),
    torn: float | None = None,
    attempt: int = 0,
    steps: int = 12,
    usual: float = 0.1,
) -> RankProcess:
    """A rank with its last span, of length ``torn``, up to ``last``; ``own_end``: when it recorded its end.

    Times are seconds since the run began.
    """
    ended = None if own_end is None else round(own_end * SECOND)
    began = last - (torn or 0.05)
    return RankProcess(
        rank=rank,
        process=rank,
        host="h",
        pid=rank,
        attempt=attempt,
        began=1,
        own_end=ended,
        gone=None if gone is None else round(gone * SECOND),
        code=code,
        error=error,
        in_order=ended is not None,
        last=LastSpan(
            round(began * SECOND), round(last * SECOND), UPDATE if torn is None else REDUCE
        ),
        opened=inside,
        steps=steps,
        usual=usual,
    )


def broken_ranks(
    *members: RankProcess, ended: float = 100.0, exit: int = 1, **info: Any
) -> list[str]:
    """The kind of each fate, with its rank."""
    return [f"{fate.kind} {fate.rank}" for fate in found(*members, ended=ended, exit=exit, **info)]


def found(*members: RankProcess, ended: float = 100.0, exit: int = 1, **info: Any) -> Any:
    exits = {"code": exit if exit >= 0 else None, "signal": -exit if exit < 0 else None}
    return outcomes_of({"started": 0.0, "ended": ended, "exit": exits, **info}, members)


def fine(rank: int, end: float = 99.0) -> RankProcess:
    return member(rank, end - 1, end, code=0, own_end=end)


TIMED_OUT = {"timed_out": True, "limits": {"timeout": 90.0}, "ended": 95.0}


def test_ranks_that_end_in_order() -> None:
    assert broken_ranks(fine(0), fine(1), exit=0) == []


def test_who_was_killed_comes_before_who_was_torn_down() -> None:
    killed = member(1, 50.0, 50.4, code=KILL)
    torn_down = member(0, 49.9, 50.3, code=TERM, inside=(REDUCE,))
    assert broken_ranks(torn_down, killed) == ["died 1", "followed 0"]
    raised = member(0, 50.2, 50.3, code=1, own_end=50.25, error="RuntimeError: closed")
    assert broken_ranks(raised, killed) == ["died 1", "followed 0"], (
        "a watcher may see both at once"
    )


def test_who_was_torn_down_at_its_exit_did_not_die_first() -> None:
    killed = member(1, 50.0, 50.2, code=-6)
    over = member(0, 49.8, 50.3, code=TERM, own_end=49.9)
    assert broken_ranks(over, killed) == ["died 1", "followed 0"]


def test_who_left_with_an_exit_code() -> None:
    left = member(1, 49.0, 50.5, code=3, own_end=50.0)
    ended = member(0, 49.5, 50.5, code=TERM)
    assert broken_ranks(ended, left) == ["died 1", "followed 0"]


def test_the_others_go_on() -> None:
    one = found(fine(0), member(2, 50.0, 50.1, code=KILL), fine(1), exit=0)
    assert [(fate.rank, fate.kind, fate.how) for fate in one] == [(2, "died", "killed by SIGKILL")]


def test_who_vanished_without_a_word() -> None:
    [one] = found(fine(0), member(1, 50.0), exit=0)
    assert (one.kind, one.how, one.ended) == ("died", "exit not known", None)


def test_two_that_died_by_themselves() -> None:
    assert broken_ranks(member(0, 50, 50, code=KILL), member(1, 51, 51, code=-11)) == [
        "died 0",
        "died 1",
    ]


def test_what_a_time_limit_ended_did_not_die() -> None:
    ranks = [member(n, 89.9, 90.1, code=TERM) for n in range(2)]
    assert broken_ranks(*ranks, **TIMED_OUT) == []
    early = member(1, 50.0, 50.1, code=KILL)
    assert broken_ranks(ranks[0], early, **TIMED_OUT) == ["died 1"]


def test_what_somebody_interrupted_did_not_die() -> None:
    ranks = [member(n, 59.9, 60.1, code=TERM) for n in range(2)]
    assert broken_ranks(*ranks, interrupted={"signal": 15, "time": 60.0}) == []
    assert broken_ranks(*ranks) == ["died 0", "followed 1"], "somebody ended one of them"


def test_what_is_left_when_the_program_is_killed_did_not_die() -> None:
    assert broken_ranks(member(0, 99.9, 100.1, code=KILL), exit=KILL) == []
    assert broken_ranks(member(0, 99.9, 99.999, code=-11), exit=-11) == ["died 0"], (
        "it was the program"
    )


def test_a_stop_on_purpose_is_no_death() -> None:
    assert broken_ranks(fine(0), member(1, 50.0), exit=0, stopped=True) == []


def test_who_hangs_while_others_wait() -> None:
    hangs = member(1, 50.0, 90.1, code=TERM)
    waits = member(0, 49.9, 90.2, code=TERM, inside=(REDUCE,))
    one, other = found(waits, hangs, **TIMED_OUT)
    assert (one.kind, one.rank, one.seconds) == ("hung", 1, pytest.approx(40.1))
    assert (other.kind, other.rank, other.seconds) == ("waited", 0, pytest.approx(40.3))
    assert other.inside == (("comm (all_reduce)", None),)


def test_who_waited_may_have_been_torn_out_of_it() -> None:
    hangs = member(1, 50.0, 90.1, code=TERM)
    waits = member(0, 90.0, 90.2, code=1, own_end=90.1, error="SystemExit", torn=40.0)
    assert broken_ranks(waits, hangs, **TIMED_OUT) == ["hung 1", "waited 0"]


def test_who_waits_gives_up_at_last() -> None:
    """Nobody ended the run from outside: the collective itself ran out of time."""
    hangs = member(1, 50.0, 90.5, code=TERM)
    waits = member(0, 90.0, 90.2, code=1, own_end=90.1, error="RuntimeError: timed out", torn=40.0)
    assert broken_ranks(waits, hangs) == ["hung 1", "waited 0"]


def test_who_hangs_while_others_go_on() -> None:
    hangs = member(1, 50.0, 90.1, code=TERM)
    assert broken_ranks(member(0, 90.0, 90.1, code=TERM), hangs, **TIMED_OUT) == ["hung 1"]


def test_who_is_slow_does_not_hang() -> None:
    slow = [member(n, 50.0 - n, 90.1, code=TERM, usual=5.0) for n in range(2)]
    assert broken_ranks(*slow, **TIMED_OUT) == []


def test_all_are_silent_and_nobody_knows_for_whom() -> None:
    ranks = [member(n, 50.0 - n, 90.1, code=TERM) for n in range(3)]
    assert broken_ranks(*ranks, **TIMED_OUT) == ["stuck 2", "stuck 1", "stuck 0"], (
        "the first is named first"
    )


def test_a_rank_without_a_step_does_not_hang() -> None:
    starting = member(1, 50.0, 90.1, code=TERM, steps=0)
    waits = member(0, 49.9, 90.2, code=TERM, inside=(REDUCE,))
    assert broken_ranks(waits, starting, **TIMED_OUT) == []


def test_nobody_saw_the_end() -> None:
    killed = member(1, 50.0)
    assert outcomes_of({"exit": {"code": None, "signal": None}, "ended": 60.0}, [killed]) == ()
    assert outcomes_of({}, [killed]) == ()


def test_attempts_are_told_one_by_one() -> None:
    first = [member(1, 50.0, 50.1, code=KILL), member(0, 50.0, 50.3, code=TERM)]
    second = [fine(0), fine(1)]
    for each in second:
        each.attempt = 1
    each_attempt = found(*first, *second, exit=0)
    assert [(f.rank, f.attempt, f.kind, f.restarted) for f in each_attempt] == [
        (1, 0, "died", 1),
        (0, 0, "followed", 1),
    ]
    assert not is_broken(each_attempt)
    assert sentences(each_attempt) == [
        "attempt 0: rank 1 died at step 12: killed by SIGKILL; its last span: optimizer; "
        "started again as attempt 1",
        "attempt 0: rank 0 ended after that, at step 12: killed by SIGTERM; "
        "started again as attempt 1",
    ]


def test_sentences_of_many_ranks_are_few() -> None:
    killed = member(3, 50.0, 50.1, code=KILL)
    others = [member(n, 49.9, 50.3, code=TERM, inside=(REDUCE,)) for n in range(64) if n != 3]
    message = sentences(found(killed, *others))
    assert len(message) == 2
    assert message[1].startswith("ranks 0, 1, 2, 4, ") and message[1].endswith(
        ", … ended after that, at step 12: killed by SIGTERM, in comm (all_reduce)"
    )
    apart = found(*(member(n, 50 + n, code=KILL) for n in range(40)))
    assert is_broken(apart) and len(sentences(apart)) == 40
    assert sentences(apart)[0].startswith("rank 0 died at step 12")


# --- from files -----------------------------------------------------------------------------------


def rank(number: int | None, steps: int = 30, **more: Any) -> Program:
    program = Program(pid=more.pop("pid", 10 + (number or 0)), rank=number, **more)
    for _ in range(steps):
        program.turn()
    return program


def profiled(folder: Path, *programs: Program, **facts: Any) -> Any:
    """The profile of a run in which each process ended as ``facts`` of its number say."""
    for program in programs:
        program.write(folder)
    processes = [
        {"ppid": p.process.get("ppid", 1), "exit": None, "gone": None, "error": None}
        | facts.get(f"p{p.pid}", {"exit": {"code": 0, "signal": None}})
        for p in sorted(programs, key=lambda p: p.origin)
    ]
    times = {"started": EPOCH - 1.0, "ended": EPOCH + 60.0, "exit": {"code": 1, "signal": None}}
    info = {"schema": 1, **times, "processes": processes}
    (folder / "run.json").write_text(json.dumps(info))
    return profile(open_run(str(folder)))


KILLED = {"exit": {"code": None, "signal": 9}, "gone": EPOCH + 2.0}


def test_a_rank_that_died_is_read_from_a_run(tmp_path: Path) -> None:
    made = profiled(tmp_path, rank(0), rank(1, 7), p11=KILLED)
    [fate] = made.outcomes
    assert (fate.rank, fate.steps, fate.how) == (1, 7, "killed by SIGKILL")
    assert (fate.last, fate.place.line, fate.ended) == ("optimizer", 14, EPOCH + 2.0)


def test_what_a_rank_starts_is_not_the_rank(tmp_path: Path) -> None:
    """Workers are told the rank of whoever starts them; that one may be killed is their launcher's affair."""
    worker = Program(pid=99, rank=1, ppid=11, origin=6_000_000_000)
    made = profiled(tmp_path, rank(0), rank(1), worker, p99=KILLED)
    assert made.outcomes == ()


def test_who_trains_is_the_rank_not_who_wraps_it(tmp_path: Path) -> None:
    wrapper = Program(pid=50, rank=1, origin=4_000_000_000)
    trains = rank(1, 7, ppid=50)
    made = profiled(tmp_path, rank(0), wrapper, trains, p11=KILLED)
    assert [(fate.rank, fate.steps) for fate in made.outcomes] == [(1, 7)]


def test_attempts_that_a_launcher_numbers_are_loops_of_their_own(tmp_path: Path) -> None:
    again = [rank(n, 20, pid=20 + n, attempt=1, origin=9_000_000_000) for n in range(2)]
    first = [rank(n, 7, attempt=0) for n in range(2)]
    made = profiled(tmp_path, *first, *again, p11=KILLED)
    assert [(loop.attempt, loop.steps, len(loop.ranks)) for loop in made.loops] == [
        (1, 20, 2),
        (0, 7, 2),
    ]
    assert [(fate.rank, fate.attempt, fate.restarted) for fate in made.outcomes] == [(1, 0, 1)]
    assert made.segments[0].name == "other attempts"
    assert sum(each.seconds for each in made.segments) == pytest.approx(made.wall)


def test_attempts_that_nobody_numbers(tmp_path: Path) -> None:
    again = rank(1, 20, pid=20, origin=9_000_000_000)
    made = profiled(tmp_path, rank(0), rank(1, 7), again, p11=KILLED)
    assert [(fate.rank, fate.attempt, fate.restarted) for fate in made.outcomes] == [(1, 0, 1)]


def test_a_program_that_became_another_one_did_not_die(tmp_path: Path) -> None:
    first, again = rank(1, 3), rank(1, 9, origin=9_000_000_000)
    first.write(tmp_path)
    raw = tmp_path / "raw"
    for suffix in ("log", "spans"):
        (raw / f"h.11.{suffix}").rename(raw / f"h.11.0.{suffix}")
    processes = [{"ppid": 1, "exit": None}, {"ppid": 1, "exit": {"code": 0, "signal": None}}]
    again.write(tmp_path)
    times = {"started": EPOCH, "ended": EPOCH + 60.0, "exit": {"code": 0, "signal": None}}
    (tmp_path / "run.json").write_text(json.dumps({"schema": 1, **times, "processes": processes}))
    assert profile(open_run(str(tmp_path))).outcomes == ()
