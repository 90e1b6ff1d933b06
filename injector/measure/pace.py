"""Counting training steps while the program runs, to end it after enough of them.

The analysis finds steps afterwards, with all spans at hand (docs/run.md): explicit steps win; a loader paces
the updates that fall between two of its fetches; updates that no fetch separates pace themselves. This module
finds the same steps one event at a time, as they happen, so that a count of a loop's first iterations may be
corrected in the next. :class:`Cycle` finds the steps of updates without a loader, :class:`ThreadSteps` those
of one thread, and :class:`Pace` decides when the program has made enough of them.

Nothing here is active unless a stop was requested, or a profile of some steps.
"""

from __future__ import annotations

from _thread import get_ident
from time import monotonic_ns

from ..probe.stop import stops_again

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from .agree import SharedStep

    Update = tuple[Hashable, Hashable]
    """An optimizer and the place of an update."""
    State = tuple["ThreadSteps", "ThreadSteps | None"]
    """A thread's steps of training, and as long as nothing was trained its steps of inference."""

AHEAD = 2
"""Steps between the proposal to stop and the stop. A synchronised rank is at most one step ahead."""
FEW = 8
"""How many updates of one optimizer in a row may be part of one step with another optimizer's update."""
MANY = 64
"""After so many updates since a loader's only fetch, that fetch paced none of them; after so many since the
last explicit step, they belong to a loop without explicit steps."""


class Cycle:
    """Counts the steps of updates that no fetch separates: of those that alternate, the rarest ends a step.

    A GAN that updates its critic five times for each update of its generator makes one step of the six.

    Updates differ by optimizer and by place. Two optimizers are expected to alternate. Two places of one
    optimizer are taken for one place unless they do alternate: where one of them often comes twice in a row,
    each update is a step, as where what is left at the end of an epoch is updated for at a line of its own.
    """

    __slots__ = ("_base", "_counts", "_known", "_last", "_longest", "_places", "_returns", "_run")

    def __init__(self) -> None:
        self._base = 0  # steps of loops that are over
        self._counts: dict[Update, int] = {}  # of the loop that goes on
        self._known: set[Update] = set()
        self._last: Update | None = None
        # By optimizer: its first place, its last place, how often it stayed at a place minus how often not.
        self._places: dict[Hashable, tuple[Hashable, Hashable, int]] = {}
        # Length of the present run of equal updates, of the longest run; how often a known update came back.
        self._run = self._longest = self._returns = 0

    @property
    def steps(self) -> int:
        """The number of steps that have ended."""
        return self._base + min(self._counts.values(), default=0)

    def update(self, update: Update) -> None:
        """Count one update that has ended."""
        update = self._at_common_place(update)
        if update != self._last:
            self._change(update)
        self._run += 1
        counts = self._counts
        counts[update] = counts.get(update, 0) + 1
        if len(counts) > 1 and self._run > self._patience():
            # This update goes on alone: the others belonged to a loop that is over. Its run began after
            # their last step, so each update of the run was a step.
            del counts[update]
            self._base = self.steps + self._run
            self._counts = {update: 0}

    def _at_common_place(self, update: Update) -> Update:
        """Return ``update`` at the first place of its optimizer, or as it is where its places alternate."""
        optimizer, place = update
        first, last, stayed = self._places.get(optimizer, (place, place, -1))
        stayed += 1 if place == last else -1
        self._places[optimizer] = first, place, stayed
        return update if stayed < 0 else (optimizer, first)

    def _change(self, update: Update) -> None:
        """Note that ``update`` is another one than the last."""
        self._returns += update in self._known
        self._longest = max(self._longest, self._run)
        self._known.add(update)
        self._last, self._run = update, 0
        if update not in self._counts and self._begins_loop(update):
            self._base = self.steps
            self._counts = {}

    def _begins_loop(self, update: Update) -> bool:
        """Whether a new ``update`` belongs to another loop than those before it."""
        # An optimizer at another place, before any updates have alternated: a second stage of training.
        if self._returns < 2 and any(update[0] == other[0] for other in self._counts):
            return True
        # The loop made many steps without it.
        return min(self._counts.values(), default=0) > self._patience()

    def _patience(self) -> int:
        """How many equal updates in a row may be part of one step."""
        return 4 * self._longest if self._returns > 1 else FEW


class ThreadSteps:
    """Counts the steps of one thread."""

    __slots__ = (
        "_cycle",
        "_ended",
        "_fetched",
        "_free_updates",
        "_inner_sites",
        "_loader_paced",
        "_most_in_step",
        "_settled",
        "_since_step",
        "_uncounted",
        "by_hand",
        "explicit",
        "steps",
    )

    def __init__(self) -> None:
        self.explicit = False
        self.by_hand = False  # whether backwards count as updates
        self.steps = 0
        self._since_step = 0  # updates since the last explicit step ended
        self._most_in_step = 0  # the most of them that there were when one ended
        self._cycle = Cycle()
        self._ended: list[tuple[int, Hashable]] = []  # the last explicit steps: begin, and site
        self._inner_sites: set[Hashable] = set()  # sites of explicit steps inside of others
        self._settled = 0  # steps before those of the cycle
        self._free_updates = 0  # updates in a row that no loader paced
        self._loader_paced = False  # whether a loader has ever paced a step
        self._uncounted = 0  # updates that the step going on has made, where a loader may pace it
        # Loaders fetched from in the step going on, each with `_uncounted` as it was then.
        self._fetched: dict[Hashable, int] = {}

    def fetch(self, loader: Hashable) -> bool:
        """Note that a fetch begins. Returns whether a step ended before it."""
        if self.explicit:
            return False
        # After two steps without a fetch, only a loader that has paced steps before may pace the next.
        if self._free_updates < 2 or self._loader_paced:
            self._free_updates = 0
        uncounted = self._fetched.get(loader)
        if uncounted is None:
            self._fetched[loader] = self._uncounted
            return False
        if self._uncounted == uncounted:  # gradients are accumulated
            return False
        # Updates before this loader's first fetch were a step of another loader, which has not been fetched
        # from again.
        self._settle(self.steps + 1 + (uncounted > 0))
        self._fetched = {loader: 0}
        self._loader_paced = True
        return True

    def end(self, loader: Hashable) -> bool:
        """Note that a loader was found to be exhausted. Returns whether a step ended with that."""
        # Looking for a batch ends a step as fetching one does. A loader that reads ahead is exhausted
        # before its last batch is trained with: that step would be counted twice, here and then.
        ended = self.fetch(loader)
        self._fetched.pop(loader, None)
        return ended

    def update(self, update: Update) -> bool:
        """Note that an update has ended. Returns whether a step ended with it."""
        self._since_step += 1
        if self.explicit and not self._has_left_explicit():
            return False
        cycle = self._cycle
        cycle.update(update)
        if self._fetched and self._free_updates < 2:
            # The next fetch tells whether a step has ended, so this update is not counted yet.
            self._uncounted += 1
            if self._loader_paced or self._uncounted < MANY:
                return False
            # The only fetch was long ago and paced none of these: from now on, updates pace.
            self._uncounted, self._free_updates = 0, 2
        self._free_updates += 1
        before, self.steps = self.steps, self._settled + cycle.steps
        return self.steps > before

    def step(self, start: int | None = None, site: Hashable = None) -> None:
        """Note that an explicit step of ``site`` has ended, which began at ``start`` in nanoseconds.

        From the first one on, only explicit steps are counted. Those of a site that were seen inside of other
        steps are parts of these.
        """
        if site in self._inner_sites:
            return
        if not self.explicit:
            self.explicit = True
            self.steps = 0
        ended = self._ended
        # Inner steps end first, and were counted before it could be known that they lie in this one.
        while start is not None and ended and ended[-1][0] >= start:
            _, inner = ended.pop()
            self.steps -= 1
            if inner != site:
                self._inner_sites.add(inner)
        ended.append((start or 0, site))
        if len(ended) > MANY:
            del ended[: MANY // 2]
        self._most_in_step = max(self._most_in_step, self._since_step)
        self._since_step = 0
        self.steps += 1

    def _has_left_explicit(self) -> bool:
        """Whether so many updates came since the last explicit step that another loop makes them.

        Then steps are found without explicit ones from now on.
        """
        if self._since_step <= max(MANY, 4 * self._most_in_step):
            return False
        self.explicit = False
        self._settle(self.steps)
        self._fetched = {}
        return True

    def _settle(self, steps: int) -> None:
        """Take ``steps`` for certain, and begin to count the next ones."""
        self.steps = self._settled = steps
        self._cycle = Cycle()
        self._uncounted = 0


class Pace:
    """Decides when the program has made enough training steps.

    ``skip`` and ``stop`` are numbers of steps: the program ends after the ``stop`` steps that follow the
    first ``skip``; without ``stop`` only time ends it. After ``deadline``, in nanoseconds of the monotonic
    clock, it ends with the step that goes on, which is the same one on all ranks that share ``agree``.

    As long as nothing was trained, the batches that models predict count as steps. Since a training may
    follow, they end the program only if ``infers``, which is called once, says that none will; without it
    they are not counted.
    """

    def __init__(
        self,
        skip: int = 0,
        stop: int | None = None,
        deadline: int | None = None,
        agree: SharedStep | None = None,
        infers: Callable[[], bool] | None = None,
    ) -> None:
        self.agree = agree
        self.why = ""
        """Why the program ends, once it does: ``stop``, ``max-duration``, or ``rank`` where one rank's
        voirfile wanted it."""
        self._limit = None if stop is None else skip + stop
        self._deadline = deadline
        self._by_thread: dict[int, ThreadSteps] = {}
        self._predicting: dict[int, ThreadSteps] | None = None if infers is None else {}
        """The steps of inference by thread; None as soon as something is trained."""
        self._infers = infers
        self._recounting = 0
        """The thread that counts its steps anew, if one does."""
        self.on_step: list[Callable[[int], None]] = []
        """Called at the end of each step, in the thread that made it, with the number of its steps so far."""

    @property
    def steps(self) -> int:
        """The number of steps of the thread that made the most, those that are skipped included."""
        threads = self._by_thread if self._predicting is None else self._predicting
        return max((thread.steps for thread in threads.values()), default=0)

    @property
    def trains(self) -> bool:
        """Whether the steps are those of a training, not of inference."""
        return self._predicting is None

    def train(self) -> bool:
        """Note that something is trained: what was predicted before was an evaluation. Returns False."""
        self._predicting = None
        return False

    def predict(self, model: Hashable, place: Hashable = None) -> bool:
        """Note that a ``model`` that is not trained was called at ``place``. Returns whether to stop now."""
        if self._predicting is None:
            return False
        thread = _of_this_thread(self._predicting)
        return thread.update((model, place)) and self._ends_after_inference(thread.steps)

    def predicted(self, start: int | None = None, site: Hashable = None) -> bool:
        """Note that an explicit step in which nothing is trained has ended, as :meth:`step` does."""
        if self._predicting is None:
            return False
        thread = _of_this_thread(self._predicting)
        thread.step(start, site)
        return self._ends_after_inference(thread.steps)

    def fetch(self, loader: Hashable) -> bool:
        """Note that a fetch from ``loader`` begins. Returns whether to stop before it."""
        if self._predicting is not None:
            thread = _of_this_thread(self._predicting)
            if thread.fetch(loader) and self._ends_after_inference(thread.steps):
                return True
        thread = _of_this_thread(self._by_thread)
        return thread.fetch(loader) and self._ends_after(thread.steps)

    def end(self, loader: Hashable) -> bool:
        """Note that a fetch finds ``loader`` exhausted. Returns whether to stop now."""
        if self._predicting is not None:
            thread = _of_this_thread(self._predicting)
            if thread.end(loader) and self._ends_after_inference(thread.steps):
                return True
        thread = _of_this_thread(self._by_thread)
        return thread.end(loader) and self._ends_after(thread.steps)

    def update(self, optimizer: Hashable, place: Hashable = None) -> bool:
        """Note that an update of ``optimizer`` at ``place`` has ended. Returns whether to stop now."""
        self._predicting = None
        thread = _of_this_thread(self._by_thread)
        if thread.by_hand:  # there is an optimizer after all: what came before was no training
            thread = self._by_thread[get_ident()] = ThreadSteps()
        return thread.update((optimizer, place)) and self._ends_after(thread.steps)

    def update_by_hand(self, place: Hashable) -> bool:
        """Note a backward at ``place`` of a program that has no optimizer, and so moves weights by hand.

        It counts as an update until an optimizer makes one. Returns whether to stop now.
        """
        self._predicting = None
        thread = _of_this_thread(self._by_thread)
        thread.by_hand = True
        return thread.update((None, place)) and self._ends_after(thread.steps)

    def step(self, start: int | None = None, site: Hashable = None, task: str = "train") -> bool:
        """Note that an explicit step of ``task`` in ``site`` has ended, begun at ``start`` (nanoseconds).

        Returns whether to stop now. Only steps of training are counted.
        """
        if task != "train":
            return False
        self._predicting = None
        thread = _of_this_thread(self._by_thread)
        thread.step(start, site)
        return self._ends_after(thread.steps)

    def state(self) -> State:
        """Return a copy of what is known of this thread's steps, for :meth:`recount`."""
        from copy import deepcopy  # rarely needed, and costs time to import

        predicting = self._predicting
        return (
            deepcopy(_of_this_thread(self._by_thread)),
            None if predicting is None else deepcopy(_of_this_thread(predicting)),
        )

    def recount(self, state: State, events: Callable[[], object]) -> bool:
        """Count this thread's steps anew from ``state`` on, now that more is known of its spans.

        ``events()`` repeats all that came after ``state``. Returns whether to stop now.
        """
        from copy import deepcopy

        me, before = get_ident(), self.steps
        trained, predicted = deepcopy(state)
        self._by_thread[me] = trained
        if self._predicting is not None and predicted is not None:
            self._predicting[me] = predicted
        # Most of these steps have been counted already: neither `on_step` nor the end is due for them again.
        self._recounting = me
        try:
            events()
        finally:
            self._recounting = 0
        ends, ends_after = (
            False,
            self._ends_after if self._predicting is None else self._ends_after_inference,
        )
        for steps in range(before + 1, self.steps + 1):
            ends |= ends_after(steps)
        return ends

    def goes_on(self, rank: int) -> bool:
        """Whether ``rank``, which a voirfile wants to stop here, goes on to where all ranks stop."""
        if self.agree is None or self.why or not self._by_thread:
            return False  # nothing is trained: no step is to come
        return self.agree.want(rank, self.steps + 1, AHEAD) > 0

    def renew(self) -> None:
        """Count from zero in the child of a fork."""
        self._by_thread = {}
        if self._predicting is not None:
            self._predicting = {}
        self.why = ""

    def _ends_after_inference(self, steps: int) -> bool:
        """Whether the program ends with this step of inference."""
        if self._recounting == get_ident():
            return False
        reached = self._limit is not None and steps >= self._limit
        if not reached and (self._deadline is None or monotonic_ns() < self._deadline):
            return False
        # Only now, since it reads the program's files: few runs get here without any training.
        infers, self._infers = self._infers, None
        if infers is not None and not infers():
            return self.train()
        return self._ends_after(steps)

    def _ends_after(self, steps: int) -> bool:
        """Whether the program ends with this step. It is called once for each step.

        Once it has returned True, it does so again only for what a pool trains as if nothing had happened.
        """
        if self._recounting == get_ident():
            return False
        for call in self.on_step:
            call(steps)
        if self.why:
            return stops_again()  # a program may train while it ends, in a `finally` for instance
        if self._limit is not None and steps >= self._limit:
            self.why = "stop"
        elif self._is_time_up(steps):
            asker = None if self.agree is None else self.agree.asker
            self.why = "max-duration" if asker is None else "rank"
        return bool(self.why)

    def _is_time_up(self, steps: int) -> bool:
        """Whether the time is up, or the ranks have agreed to stop with this step."""
        agree, deadline = self.agree, self._deadline
        agreed = 0 if agree is None else agree.look()
        if agreed:
            return steps >= agreed
        if deadline is None or monotonic_ns() < deadline:
            return False
        # The rank that notices first must not stop at once: others would wait for it in a collective.
        if agree is not None:
            agree.propose(steps + AHEAD)
        return agree is None


def _of_this_thread(threads: dict[int, ThreadSteps]) -> ThreadSteps:
    me = get_ident()
    thread = threads.get(me)
    if thread is None:
        thread = threads[me] = ThreadSteps()
    return thread
