"""Stops the program after enough steps: counts each span as it is recorded, by :class:`Pace`.

What a span means for the count depends on its site alone, so that for each site one function is made
(:meth:`Pacing._counter_of`) and called with each of its spans, as they end. The last span is stored, too: so
the fetch that closes the last step is in the record, and the analysis finds as many steps as were counted.

Some libraries, such as JAX, hand steps to a device and do not wait. Then the device is waited for where
``--skip`` has passed, and at the end: else a run would measure how fast work is queued.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import get_ident, start_new_thread
from time import perf_counter_ns

from ..mpi import launcher_number
from ..probe.stop import StopProgram
from ..store.call_sites import INFERENCE
from ..store.spans import is_loaders, updates
from .agree import SharedStep
from .pace import Pace
from .regions import EXHAUSTED, FETCH

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .pace import State
    from .regions import Spans
    from .torch_profile import TorchProfile

    Counter = Callable[[int], bool]
    """Counts a span that has ended, by its start in nanoseconds. Returns whether to stop."""

STEP, FORWARD, PREDICT = "step", "forward", "predict"
COMPILED, GRADIENTS, BACKWARD = "compiled", "gradients", "backward"
TRAINING = ("fit", COMPILED, "boost", "grow")
"""Regions that show that something is trained, or may be: no span tells what compiled code does inside."""
TRYING = ("eval", "predict")
MOST = 512
"""How many spans of a thread are kept, from the first call of a function on that may turn out to train."""
PATIENCE, USUAL = 10.0, 5
"""After so many seconds, and so many steps of the usual length, without the end of a step, a rank that wants
to stop will not get to the step at which all ranks stop."""


class EnoughSteps(StopProgram):
    """The program has made the steps that were requested. Its ``value`` goes into the record."""


class Pacing:
    """Counts the steps of one process, and ends it after enough of them.

    ``limits`` holds ``skip``, ``stop`` and ``until`` (the deadline of :class:`Pace`), and as ``phase`` what
    the user has declared of the program: ``training`` or ``inference``. Where that is None, ``infers`` says
    whether the program's text trains nothing.
    """

    def __init__(
        self,
        spans: Spans,
        limits: Mapping[str, Any],
        folder: str | None,
        infers: Callable[[], bool] | None = None,
    ) -> None:
        self._spans = spans
        self._folder = folder
        self._counters: dict[int, Counter] = {}
        self._undecided: dict[int, _UndecidedSpans] = {}
        """By thread, its spans since the first call that may turn out to have trained."""
        self._has_learnt = False
        """Whether more has become known of sites whose spans were counted already."""
        spans.sites.on_site.append(self._note_site)
        declared = limits.get("phase")
        self._declared = declared == INFERENCE
        if self._declared:
            infers = lambda: True
        elif declared:
            infers = None
        self._skip = limits["skip"]
        self._pace = Pace(limits["skip"], limits["stop"], limits["until"], infers=infers)
        self._has_optimizer = False
        self._synchronizes: list[Callable[[], None]] = []
        self._agree: SharedStep | None = None
        self._rank = -1
        self._began = time.monotonic()
        self._goes_on_to_stop = False
        self._profile: TorchProfile | None = None
        # From now on, each span comes through here. Without limits, hooks store spans by themselves.
        self._add = spans.room.add
        spans.room.add = self.add
        rank = launcher_number("RANK")
        self.ranked(-1 if rank is None else rank, launcher_number("WORLD_SIZE") or 0)

    def add(self, start: int, end: int, payload: int, site: int) -> None:
        """Store a span that has ended, and count it. Raises EnoughSteps when it was the last.

        Once a rank wants to stop, no span is stored: that others wait for it is not the program's doing.
        """
        stored = self._agree is None or self._agree.asker is None
        count = self._counters.get(site)
        if count is None:
            count = self._counters[site] = self._counter_of(self._spans.sites.data(site))
        profile = self._profile
        if profile is not None and profile.sees:
            about = self._spans.sites.data(site)
            if about["clock"] == "host":
                profile.saw(start, end, about["region"])
        pace = self._pace
        if self._synchronizes:
            # The span that ends the skipped steps, and the last one, last until the device is done.
            before = pace.steps
            enough = count(start)
            if enough or before < self._skip <= pace.steps:
                start, end = self._synchronized(start, end, site)
        else:
            enough = count(start)
        if self._undecided and count is not _never:
            self._keep_undecided(start, site)
        if stored:
            self._add(start, end, payload, site)
        if enough:
            raise self._enough()

    def _enough(self) -> EnoughSteps:
        """Return what ends the program, with why, after how many steps, and of what they are."""
        pace = self._pace
        task = "train" if pace.trains else INFERENCE
        value: dict[str, Any] = {"task": task, "steps": pace.steps, "why": pace.why}
        if pace.why == "rank" and self._agree is not None and self._agree.asker is not None:
            value["rank"], value["step"] = self._agree.asker
            value["steps"] = value["step"] - 1
        return EnoughSteps(value)

    def _note_site(self, site: Mapping[str, Any]) -> None:
        """Note a site that is new, or of which more is known than when its spans were counted."""
        if self._counters.pop(site["site"], None) is not None:
            self._has_learnt = True

    def _keep_undecided(self, start: int, site: int) -> None:
        """Keep a span that may have to be counted anew; all are given up where there are too many."""
        undecided = self._undecided.get(get_ident())
        if undecided is not None and undecided.spans is not None:
            undecided.spans.append((start, site))
            if len(undecided.spans) > MOST:
                undecided.spans = None

    def recount(self) -> None:
        """Count the kept spans of this thread anew, where more is known of their sites by now.

        Raises EnoughSteps when these were enough.
        """
        undecided, learnt = self._undecided.get(get_ident()), self._has_learnt
        self._has_learnt = False
        spans = None if undecided is None else undecided.spans
        if not learnt or undecided is None or spans is None:
            return
        if self._pace.recount(undecided.state, lambda: [self._replay(*span) for span in spans]):
            for synchronize in self._synchronizes:
                synchronize()
            raise self._enough()

    def _replay(self, start: int, site: int) -> bool:
        count = self._counters.get(site)
        if count is None:
            count = self._counters[site] = self._counter_of(self._spans.sites.data(site))
        return count(start)

    def _synchronized(self, start: int, end: int, site: int) -> tuple[int, int]:
        """Wait for devices, and return the times of a span that ends a step, which lasts until now.

        The fetch that follows a step begins only when the step has ended, so it is moved, as long as it was.
        """
        for synchronize in self._synchronizes:
            synchronize()
        now = perf_counter_ns()
        follows = self._spans.sites.data(site)["region"] in (FETCH, EXHAUSTED)
        return (now - (end - start), now) if follows else (start, now)

    def synchronize(self, function: Callable[[], None]) -> None:
        """Call ``function``, which waits for a device, where measuring begins and where it ends."""
        self._synchronizes.append(function)

    def on_step(self, call: Callable[[int], None]) -> None:
        """Call ``call`` at the end of each step with the number of steps of its thread so far."""
        self._pace.on_step.append(call)

    def profile(self, profile: TorchProfile) -> None:
        """Have some of the steps profiled by ``profile``."""
        self._profile = profile
        profile.rank = max(self._rank, 0)
        self._pace.on_step.append(profile.at)

    def close(self) -> None:
        """End the profile, if the program ends before the last step of it."""
        if self._profile is not None:
            self._profile.end()

    def ranked(self, rank: int, world: int) -> None:
        """Stop together with the other ranks: this process is one of ``world`` that train together."""
        if rank >= 0 and self._profile is not None:
            self._profile.rank = rank
        if world <= 1 or self._folder is None:
            return
        if self._agree is None:
            # A program may run several jobs side by side. Each has a port of its own, and so a file.
            job = launcher_number("MASTER_PORT") or 0
            self._agree = SharedStep(os.path.join(self._folder, "raw", f"pace.{job}"))
            self._pace.agree = self._agree
        self._agree.join(rank)
        self._rank = rank

    def goes_on(self, give_up: Callable[[], None]) -> bool:
        """Whether this rank, which a voirfile wants to stop here, goes on to where all ranks stop.

        If it stopped here, others that wait for it in a collective would end with an error. Should it never
        get to the common step, ``give_up`` is called, from another thread.
        """
        if self._goes_on_to_stop:
            return not self._pace.why
        self._goes_on_to_stop = self._rank >= 0 and self._pace.goes_on(self._rank)
        if self._goes_on_to_stop:
            start_new_thread(self._watch_progress, (give_up,))
        return self._goes_on_to_stop

    def _watch_progress(self, give_up: Callable[[], None]) -> None:
        """Call ``give_up`` once no step has ended for too long; return when the last step has."""
        steps, since = self._pace.steps, time.monotonic()
        patience = max(PATIENCE, USUAL * (since - self._began) / max(steps, 1))
        while not self._pace.why:
            time.sleep(PATIENCE / 50)
            if self._pace.steps != steps:
                steps, since = self._pace.steps, time.monotonic()
            if time.monotonic() > since + patience:
                give_up()
                return

    def renew(self) -> None:
        """Begin anew in the child of a fork, whose sites have numbers of their own."""
        self._counters.clear()
        self._undecided.clear()
        if self._profile is not None:
            self._profile.renew()
        self._pace.renew()

    def _counter_of(self, site: Mapping[str, Any]) -> Counter:
        """Return the function that counts each span of ``site``.

        These are the rules of the analysis (:mod:`injector.analysis`) for single spans: which end an update,
        which draw a batch, and which show that something is trained.
        """
        pace, region = self._pace, site["region"]
        line = site["place"] or {}
        place = line.get("file"), line.get("line")
        of = place if site["of"] is None else site["of"]
        phase, task = site["phase"], site["task"] or "train"
        if site["clock"] != "host":  # what a device did, or memory, repeats a span of the host
            return _never
        if region == STEP and (phase == "eval" or task == INFERENCE):
            return lambda start: pace.predicted(start, (of, place))
        # A model at work that is not trained. If inference was declared, a model in training mode is one too.
        predicts = phase in TRYING or (self._declared and not updates(region, phase))
        if region == PREDICT or (region in (FORWARD, COMPILED) and predicts):
            return lambda start: pace.predict(of, place)
        if phase == "eval":
            return _never
        if updates(region, phase):
            self._has_optimizer = True
            return lambda start: pace.update(of, place)
        # Whether such a call trains is only learnt after some of them.
        if region in (COMPILED, GRADIENTS) and site["of"] is not None:
            return self._note_undecided
        if region == BACKWARD:
            return lambda start: self._derived(place)
        if region in TRAINING or (region == FORWARD and phase == "train"):
            return lambda start: pace.train()
        # A function that makes a batch paces no steps: it may be called several times in one.
        if region in (FETCH, EXHAUSTED) and not is_loaders(site["of"], site["selector"]):
            return _never
        if region == FETCH:
            return lambda start: pace.fetch((of, place))
        if region == EXHAUSTED:
            return lambda start: pace.end((of, place))
        if region == STEP:
            return lambda start: pace.step(start, (of, place), task)
        return _never

    def _derived(self, place: tuple[object, object]) -> bool:
        """Count a backward at ``place``: an update, as long as there is no optimizer that makes any."""
        if self._has_optimizer or _has_torch_optimizer():
            self._has_optimizer = True
            return self._pace.train()
        return self._pace.update_by_hand(place)

    def _note_undecided(self, start: int) -> bool:
        """Count a call of an object that a voirfile may later learn to train, and keep what follows.

        Once it is known, :meth:`recount` counts all from this call on anew.
        """
        me = get_ident()
        if me not in self._undecided:
            self._undecided[me] = _UndecidedSpans(self._pace.state())
        return False


class _UndecidedSpans:
    """The spans of a thread since ``state``: start and site of each; None once they are too many."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.spans: list[tuple[int, int]] | None = []


def _has_torch_optimizer() -> bool:
    """Whether the program has created an optimizer of PyTorch.

    The first one of a class marks the ``step`` of the class (``Optimizer._patch_step_function``).
    """
    module = sys.modules.get("torch.optim.optimizer")
    kinds = [getattr(module, "Optimizer", None)]
    for kind in kinds:
        if isinstance(kind, type):
            if getattr(vars(kind).get("step"), "hooked", False):
                return True
            kinds += kind.__subclasses__()
    return False


def _never(start: int) -> bool:
    """Count nothing."""
    return False
