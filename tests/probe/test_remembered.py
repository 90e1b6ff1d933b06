"""What is remembered of a call by identity: each call is found as if nothing were remembered."""

from __future__ import annotations

import sys
from array import array
from itertools import count
from weakref import ref

from hypothesis import given, settings
from hypothesis import strategies as st

from injector.probe import compiled
from injector.probe.calls import Call, Calls
from injector.probe.points import Point
from injector.probe.room import Room

_numbers = count(1)


class Recorded:
    """The calls of one region, with the sites that they were found to be of."""

    def __init__(self, find, near, **answers):
        self.memory = array("q", bytes(32 * 4096))
        room = Room(lambda: memoryview(self.memory).cast("B"), lambda number, error: None)
        self.calls = Calls(room)
        call = Call("forward", find, near)
        for name, answer in answers.items():
            setattr(call, name, answer)
        hooks = self.calls.hooks(Point(f"remembered {next(_numbers)}"), call).by_variable
        self.enter, self.leave = hooks["#enter"], hooks["#exit"]

    @property
    def sites(self):
        rows = zip(*[iter(self.memory)] * 4, strict=True)
        return [site for _, _, _, site in rows if site]


def place(frame):
    return frame.f_code.co_name, frame.f_lasti


# --- the way to the program -----------------------------------------------------------------------

FUNCTION = """
def {name}(path):
    (function, first), rest = path[0], path[1:]
    if first:
        return function(rest)
    return function(rest)
"""
SPACE: dict[str, object] = {}
for _name in ("program_a", "program_b", "library_a", "library_b", "library_c"):
    exec(FUNCTION.format(name=_name), SPACE)
STEPS = st.tuples(st.sampled_from(sorted(name for name in SPACE if name[0] != "_")), st.booleans())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(STEPS, min_size=1, max_size=5), min_size=1, max_size=12))
def test_every_call_is_of_the_nearest_line_of_the_program(paths):
    expected: list[tuple[str, int]] = []
    known: dict[tuple[str, int], int] = {}

    def nearest(frame):
        outer = frame
        while outer is not None and not outer.f_code.co_name.startswith("program"):
            outer = outer.f_back
        return place(outer or frame)

    def find(frame, of, phase, values):
        return known.setdefault(nearest(frame), len(known) + 1)

    judged = compiled.Nearest(lambda frame: frame.f_code.co_name.startswith("program"), 100)
    recorded = Recorded(find, judged)

    def hooked(_):
        expected.append(nearest(sys._getframe(1)))
        recorded.enter(True)
        recorded.leave(True)

    for path in [*paths, *paths]:
        steps = [*((SPACE[name], first) for name, first in path), (hooked, True)]
        steps[0][0]([(each[0], steps[at][1]) for at, each in enumerate(steps[1:])])
    names = {number: where for where, number in known.items()}
    assert [names[site] for site in recorded.sites] == expected


# --- what a call is -------------------------------------------------------------------------------


class Model:
    def __init__(self):
        self.training = True
        self._modules = {"inner": 1}
        self.number = next(_numbers)


ACTIONS = st.sampled_from(["call", "nested", "train", "freeze", "gradients", "replace", "swap"])


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIONS, max_size=60))
def test_every_call_is_what_it_is_then(actions):
    """Modes, what the model is made of, gradients, a model at the address of one that is gone."""
    state = {"gradients": True}
    expected: list[tuple[object, ...]] = []
    known: dict[tuple[object, ...], int] = {}
    watched = []

    def phase(model):
        if not model._modules:
            return None
        return "train" if model.training and state["gradients"] else "eval"

    def find(frame, of, phase, values):
        watched.append(ref(of, lambda _: recorded.calls.forget()))
        return known.setdefault((place(frame)[0], of.number, phase), len(known) + 1)

    recorded = Recorded(
        find,
        lambda frame: None,
        of=compiled.Path(0, None, -1, False),
        phase=phase,
        when=lambda model: True,
        depends=(
            compiled.Path(0, "training", -1, False),
            compiled.Path(0, "_modules", -1, True),
            lambda: state["gradients"],
        ),
    )

    def hooked(model, within=()):
        expected.append((sys._getframe(1).f_code.co_name, model.number, phase(model)))
        recorded.enter(True, model)
        for each in within:
            hooked(each)
        recorded.leave(True)

    models = [Model(), Model()]
    for action in actions:
        if action == "train":
            models[0].training = not models[0].training
        elif action == "freeze":
            models[0]._modules = {} if models[0]._modules else {"inner": 1}
        elif action == "gradients":
            state["gradients"] = not state["gradients"]
        elif action == "replace":
            models[0] = None
            models[0] = Model()
        elif action == "swap":
            models.reverse()
        elif action == "call":
            hooked(models[0])
        else:
            hooked(models[0], within=models[1:])
    names = {number: what for what, number in known.items()}
    # A call within another one ends before it.
    assert sorted(map(repr, expected)) == sorted(repr(names[site]) for site in recorded.sites)
