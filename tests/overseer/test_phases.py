"""Instruments and phases: order, priorities, values, mistakes, and agreement with voir."""

from __future__ import annotations

import pytest

from injector.overseer.phases import Phases, Schedule
from injector.probe.stop import StopProgram

NAMES = ("init", "load", "run")


@pytest.fixture
def ov():
    return Overseer()


class Overseer:
    def __init__(self):
        self.phases = Phases(*NAMES)
        self.errors = []
        self.schedule = Schedule(self, self.phases, self._error)
        self.require = self.schedule.require

    def _error(self, instrument, error):
        self.errors.append((instrument.__name__, str(error)))

    def run(self, *instruments):
        for instrument in instruments:
            self.require(instrument)
        self.schedule.start()
        for name in NAMES:
            self.schedule.end(getattr(self.phases, name), name)


def test_a_generator_is_resumed_after_each_phase_with_its_value(ov):
    seen = []

    def instrument(ov):
        seen.append("called")
        seen.append((yield ov.phases.init))
        seen.append((yield ov.phases.run))

    ov.run(instrument)
    assert seen == ["called", "init", "run"]


def test_higher_priorities_are_resumed_first_then_in_order_of_requiring(ov):
    seen = []

    def make(name, priority):
        def instrument(ov):
            yield ov.phases.init(priority=priority)
            seen.append(name)

        return instrument

    ov.run(make("a", 0), make("b", 5), make("c", 0), make("d", -1))
    assert seen == ["b", "a", "c", "d"]


def test_a_phase_that_is_done_resumes_at_once(ov):
    seen = []

    def late(ov):
        yield ov.phases.init
        seen.append("late, after init")
        yield ov.phases.IMMEDIATE
        seen.append("at once")

    def instrument(ov):
        yield ov.phases.load
        ov.require(late)
        seen.append("required")

    ov.run(instrument)
    assert seen == ["late, after init", "at once", "required"]


def test_an_instrument_runs_once_and_gives_its_state(ov):
    calls = []

    def instrument(ov):
        calls.append(ov)

    instrument.__state__ = "state"
    assert ov.require(instrument) == "state"
    ov.run(instrument)
    assert len(calls) == 1


def test_an_exception_of_the_phase_is_thrown_in(ov):
    seen = []
    error = RuntimeError("the program's")

    def instrument(ov):
        try:
            yield ov.phases.run
        except RuntimeError as caught:
            seen.append(caught)

    def careless(ov):
        yield ov.phases.run
        seen.append("not reached")

    ov.require(instrument)
    ov.require(careless)
    ov.schedule.start()
    ov.schedule.end(ov.phases.run, None, error)
    assert seen == [error]
    assert ov.errors == []


def test_mistakes_are_reported_and_the_others_go_on(ov):
    seen = []

    def broken(ov):
        yield ov.phases.init
        raise ValueError("mine")

    def broken_at_once(ov):
        raise KeyError("early")

    def wrong(ov):
        yield "init"

    def good(ov):
        yield ov.phases.init
        seen.append("good")

    ov.run(broken, broken_at_once, wrong, good)
    assert seen == ["good"]
    assert sorted(name for name, _ in ov.errors) == ["broken", "broken_at_once", "wrong"]
    assert "phases" in dict(ov.errors)["wrong"]


def test_a_stop_passes_through(ov):
    def instrument(ov):
        yield ov.phases.init
        raise StopProgram

    with pytest.raises(StopProgram):
        ov.run(instrument)


def test_stop_is_thrown_into_what_still_waits(ov):
    seen = []

    def instrument(ov):
        try:
            yield ov.phases.run
        finally:
            seen.append("closed")

    ov.require(instrument)
    ov.schedule.start()
    ov.schedule.stop(StopProgram())
    assert seen == ["closed"]


def test_a_wrong_phase_name_says_which_exist(ov):
    with pytest.raises(AttributeError, match="there is no phase 'nope'; the phases are init, load"):
        ov.phases.nope


def test_run_phase_is_a_context_manager_that_takes_a_value(ov):
    seen = []

    def instrument(ov):
        seen.append((yield ov.phases.init))

    ov.require(instrument)
    ov.schedule.start()
    with ov.schedule.run_phase(ov.phases.init) as set_value:
        set_value(42)
    assert seen == [42]


PROGRAM = """
def make(base):
    log = []

    def first(ov):
        log.append("first")
        yield ov.phases.init(priority=1)
        log.append("first init")
        ov.require(second)
        yield ov.phases.run(priority=-3)
        log.append("first run")

    def second(ov):
        log.append("second")
        value = yield ov.phases.init(priority=10)
        log.append(("second init", value))
        value = yield ov.phases.run
        log.append(("second run", value))

    def third(ov):
        yield ov.phases.load(priority=0.5)
        log.append("third load")
        yield ov.phases.init
        log.append("third init again")
        yield ov.phases.run(priority=7)
        log.append("third run")

    return log, [first, third, second]
"""


def test_the_order_is_voirs():
    phase = pytest.importorskip("voir.phase")
    namespace: dict = {}
    exec(PROGRAM, namespace)

    theirs, instruments = namespace["make"](None)
    runner = phase.BaseOverseer(NAMES)
    runner.handler_args = (runner,)
    runner.require(*instruments)
    runner._prepare()
    for name in NAMES:
        with runner.run_phase(getattr(runner.phases, name)) as set_value:
            set_value(name)

    ours, instruments = namespace["make"](None)
    Overseer().run(*instruments)
    assert ours == theirs
