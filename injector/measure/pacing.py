"""Stops the program after enough steps: tells :class:`Pace` of the spans that are recorded.

Pace hears of a span when it ends. It is stored even if it was the last: so the fetch that closes the last
step is in the record too, and its reader finds as many steps as were counted here.

Where a library hands steps to a device and does not wait, what was handed over before ``--skip`` has passed
is waited for there, and what has been since, at the end: else a run would measure how fast work is queued.
"""

from __future__ import annotations

import os
import time
from _thread import get_ident, start_new_thread
from time import perf_counter_ns

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

    Tell = Callable[[int], bool]
    """Receives the begin of a span that has ended, in nanoseconds; whether to stop."""

STEP, FORWARD, PREDICT = "step", "forward", "predict"
COMPILED, GRADIENTS = "compiled", "gradients"
TRAINING = ("backward", "fit", COMPILED, "boost", "grow")
"""Regions after which something is trained, or may be: inside of what is compiled nothing is seen."""
TRYING = ("eval", "predict")
MOST = 512
"""Spans of a thread that are kept from the first call on of a function that may turn out to train."""
PATIENCE, USUAL = 10.0, 5
"""Seconds, and steps of the usual length, after which a rank that wants to stop, and in which no other
step has ended, will not get to where all ranks do."""


class EnoughSteps(StopProgram):
    """The program has made the steps that were requested; ``value`` is what the record says."""


class Pacing:
    """Watches the spans of one process.

    ``limits`` holds ``skip``, ``stop`` and ``until`` (see Pace), and as ``phase`` what was declared of the
    program, if anything: ``training`` or ``inference``. Else ``infers`` says whether its text trains nothing.
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
        self._tells: dict[int, Tell] = {}
        self._unsure: dict[int, _Unsure] = {}
        """By thread, what has been since its first call of which nothing says whether it trains."""
        self._learnt = False
        """Whether more is known of spans that were counted already."""
        spans.sites.on_site.append(self._learn)
        declared = limits.get("phase")
        self._declared = declared == INFERENCE
        if self._declared:
            infers = lambda: True
        elif declared:
            infers = None
        self._skip = limits["skip"]
        self._pace = Pace(limits["skip"], limits["stop"], limits["until"], infers=infers)
        self._synchronizes: list[Callable[[], None]] = []
        self._agree: SharedStep | None = None
        self._rank = -1
        self._began = time.monotonic()
        self._wanted = False
        self._profile: TorchProfile | None = None
        self._add = spans.room.add
        spans.room.add = self.add
        rank = os.environ.get("RANK")
        self.ranked(_number(rank) if rank else -1, _number(os.environ.get("WORLD_SIZE")))

    def add(self, start: int, end: int, payload: int, site: int) -> None:
        """Store a span, which has ended. Raises EnoughSteps when that was the last.

        None is stored once a rank wants to stop: what the others wait for it then is not the program's.
        """
        stored = self._agree is None or self._agree.asker is None
        tell = self._tells.get(site)
        if tell is None:
            tell = self._tells[site] = self._tell(self._spans.sites.data(site))
        profile = self._profile
        if profile is not None and profile.sees:
            about = self._spans.sites.data(site)
            if about["clock"] == "host":
                profile.saw(start, end, about["region"])
        pace = self._pace
        if self._synchronizes:
            before = pace.steps
            enough = tell(start)
            if enough or before < self._skip <= pace.steps:
                start, end = self._synchronized(start, end, site)
        else:
            enough = tell(start)
        if self._unsure and tell is not _never:
            self._keep(start, site)
        if stored:
            self._add(start, end, payload, site)
        if enough:
            raise self._enough()

    def _enough(self) -> EnoughSteps:
        pace = self._pace
        task = "train" if pace.trains else INFERENCE
        stop: dict[str, Any] = {"task": task, "steps": pace.steps, "why": pace.why}
        if pace.why == "rank" and self._agree is not None and self._agree.asker is not None:
            stop["rank"], stop["step"] = self._agree.asker
            stop["steps"] = stop["step"] - 1
        return EnoughSteps(stop)

    def _learn(self, site: Mapping[str, Any]) -> None:
        """A site is new, or more is known of it than when its spans were counted."""
        if self._tells.pop(site["site"], None) is not None:
            self._learnt = True

    def _keep(self, start: int, site: int) -> None:
        unsure = self._unsure.get(get_ident())
        if unsure is not None and unsure.spans is not None:
            unsure.spans.append((start, site))
            if len(unsure.spans) > MOST:
                unsure.spans = None

    def recount(self) -> None:
        """Count what this thread has done as it is known now. Raises EnoughSteps where that was enough."""
        unsure, learnt = self._unsure.get(get_ident()), self._learnt
        self._learnt = False
        spans = None if unsure is None else unsure.spans
        if not learnt or unsure is None or spans is None:
            return
        if self._pace.recount(unsure.state, lambda: [self._replay(*span) for span in spans]):
            for synchronize in self._synchronizes:
                synchronize()
            raise self._enough()

    def _replay(self, start: int, site: int) -> bool:
        tell = self._tells.get(site)
        if tell is None:
            tell = self._tells[site] = self._tell(self._spans.sites.data(site))
        return tell(start)

    def _synchronized(self, start: int, end: int, site: int) -> tuple[int, int]:
        """The times of a span that ends a step, once devices are done: the step lasts until then.

        The fetch that follows a step begins when it has ended.
        """
        for synchronize in self._synchronizes:
            synchronize()
        now = perf_counter_ns()
        follows = self._spans.sites.data(site)["region"] in (FETCH, EXHAUSTED)
        return (now - (end - start), now) if follows else (start, now)

    def synchronize(self, function: Callable[[], None]) -> None:
        """Have ``function`` wait for a device where measuring begins, and where it ends."""
        self._synchronizes.append(function)

    def on_step(self, call: Callable[[int], None]) -> None:
        """Call ``call`` at the end of each step with the number of steps of its thread."""
        self._pace.on_step.append(call)

    def profile(self, profile: TorchProfile) -> None:
        """Have some of the steps profiled."""
        self._profile = profile
        profile.rank = max(self._rank, 0)
        self._pace.on_step.append(profile.at)

    def close(self) -> None:
        """The program ends."""
        if self._profile is not None:
            self._profile.end()

    def ranked(self, rank: int, world: int) -> None:
        """This process is one of ``world`` that train together: they have to stop together."""
        if rank >= 0 and self._profile is not None:
            self._profile.rank = rank
        if world <= 1 or self._folder is None:
            return
        if self._agree is None:
            # Jobs of the same program, one beside the other, meet at different ports.
            job = _number(os.environ.get("MASTER_PORT"))
            self._agree = SharedStep(os.path.join(self._folder, "raw", f"pace.{job}"))
            self._pace.agree = self._agree
        self._agree.join(rank)
        self._rank = rank

    def goes_on(self, give_up: Callable[[], None]) -> bool:
        """Whether this rank, which a voirfile wants to stop here, goes on to where all ranks stop.

        The others may wait for it in a collective: they would end with an error. Where it never gets
        there, ``give_up`` is called, from another thread.
        """
        if self._wanted:
            return not self._pace.why
        self._wanted = self._rank >= 0 and self._pace.goes_on(self._rank)
        if self._wanted:
            start_new_thread(self._watch, (give_up,))
        return self._wanted

    def _watch(self, give_up: Callable[[], None]) -> None:
        """Wait for the end of the last step, as long as others end before it."""
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
        """In the child of a fork."""
        self._tells.clear()
        self._unsure.clear()
        if self._profile is not None:
            self._profile.renew()
        self._pace.renew()

    def _tell(self, site: Mapping[str, Any]) -> Tell:
        pace, region = self._pace, site["region"]
        where = site["place"] or {}
        place = where.get("file"), where.get("line")
        of = place if site["of"] is None else site["of"]
        phase, task = site["phase"], site["task"] or "train"
        if site["clock"] != "host":
            return _never
        if region == STEP and (phase == "eval" or task == INFERENCE):
            return lambda start: pace.predicted(start, (of, place))
        predicts = phase in TRYING or (self._declared and not updates(region, phase))
        if region == PREDICT or (region in (FORWARD, COMPILED) and predicts):
            return lambda start: pace.predict(of, place)
        if phase == "eval":
            return _never
        if updates(region, phase):
            return lambda start: pace.update(of, place)
        if region in (COMPILED, GRADIENTS) and site["of"] is not None:
            return self._wonder
        if region in TRAINING or (region == FORWARD and phase == "train"):
            return lambda start: pace.train()
        if region in (FETCH, EXHAUSTED) and not is_loaders(site["of"], site["selector"]):
            return _never
        if region == FETCH:
            return lambda start: pace.fetch((of, place))
        if region == EXHAUSTED:
            return lambda start: pace.end((of, place))
        if region == STEP:
            return lambda start: pace.step(start, (of, place), task)
        return _never

    def _wonder(self, start: int) -> bool:
        """A call of an object that more may be known of later: what follows is counted anew then."""
        me = get_ident()
        if me not in self._unsure:
            self._unsure[me] = _Unsure(self._pace.state())
        return False


class _Unsure:
    """What a thread did since ``state``; ``spans`` are the begin and the site of each, None of too many."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.spans: list[tuple[int, int]] | None = []


def _never(start: int) -> bool:
    return False


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
