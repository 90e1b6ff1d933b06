"""Counting training steps while the program runs, to end it after enough of them.

How steps are found is what analysis does afterwards with everything in hand (docs/run.md):
explicit steps win; a loader paces the updates that fall between two of its fetches; updates that no
fetch separates pace themselves. Here the same is found out as it happens, so what is counted in a
loop's first turns may be corrected in the next. Nothing here is active unless a stop, or a
profile of some steps, was requested.
"""

from __future__ import annotations

from _thread import get_ident
from time import monotonic_ns

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from .agree import SharedStep

    Update = tuple[Hashable, Hashable]
    """An optimizer and the place of an update."""
    State = tuple["ThreadSteps", "ThreadSteps | None"]
    """Of one thread: its training, and what it predicts as long as nothing was trained."""

AHEAD = 2
"""Steps between a proposal and the stop: no synchronised rank is further ahead than one."""
FEW = 8
"""Updates of one optimizer in a row that may still be part of one step with another's."""
MANY = 64
"""Updates since a loader's only fetch after which that fetch was no step's, and since the last explicit
step after which they are those of a loop without explicit steps."""


class Cycle:
    """Steps of updates that no fetch separates: the rarest of those that alternate ends one.

    Updates differ by optimizer and by place. Two optimizers are expected to alternate, two
    places of one optimizer are not, until they do: where one of them often comes twice in a row, each
    update is a step (what is left over at an epoch's end, a warm-up before each).
    """

    __slots__ = ("_base", "_counts", "_known", "_last", "_longest", "_places", "_returns", "_run")

    def __init__(self) -> None:
        self._base = 0
        self._counts: dict[Update, int] = {}
        self._known: set[Update] = set()
        self._last: Update | None = None
        # Of each optimizer: its first place, its last one, how often it stayed more than it changed.
        self._places: dict[Hashable, tuple[Hashable, Hashable, int]] = {}
        self._run = self._longest = self._returns = 0

    @property
    def steps(self) -> int:
        """How many have ended."""
        return self._base + min(self._counts.values(), default=0)

    def update(self, update: Update) -> None:
        """One update has ended."""
        update = self._placed(update)
        if update != self._last:
            self._change(update)
        self._run += 1
        counts = self._counts
        counts[update] = counts.get(update, 0) + 1
        if len(counts) > 1 and self._run > self._patience():
            # It goes on alone: the others belonged to a loop that is over.
            del counts[update]
            self._base = self.steps + self._run
            self._counts = {update: 0}

    def _placed(self, update: Update) -> Update:
        """``update`` at the first place of its optimizer, unless its places take turns."""
        optimizer, place = update
        first, last, stayed = self._places.get(optimizer, (place, place, -1))
        stayed += 1 if place == last else -1
        self._places[optimizer] = first, place, stayed
        return update if stayed < 0 else (optimizer, first)

    def _change(self, update: Update) -> None:
        """Another update than the last one was made."""
        self._returns += update in self._known
        self._longest = max(self._longest, self._run)
        self._known.add(update)
        self._last, self._run = update, 0
        if update not in self._counts and self._is_apart(update):
            self._base = self.steps  # a loop of its own: what came before is over
            self._counts = {}

    def _is_apart(self, update: Update) -> bool:
        if self._returns < 2 and any(update[0] == other[0] for other in self._counts):
            return True
        return min(self._counts.values(), default=0) > self._patience()

    def _patience(self) -> int:
        """How many updates in a row may be part of one step."""
        return 4 * self._longest if self._returns > 1 else FEW


class ThreadSteps:
    """The steps of one thread."""

    __slots__ = (
        "_beside",
        "_cycle",
        "_ended",
        "_free",
        "_here",
        "_inner",
        "_open",
        "_paced",
        "_turns",
        "_within",
        "explicit",
        "steps",
    )

    def __init__(self) -> None:
        self.explicit = False
        self.steps = 0
        self._beside = 0  # updates since an explicit step ended
        self._within = 0  # the most that there were before one ended
        self._cycle = Cycle()
        self._ended: list[tuple[int, Hashable]] = []  # the last explicit steps: begin, and site
        self._inner: set[Hashable] = set()  # sites of explicit steps within others
        self._here = 0  # steps before those of the cycle
        self._free = 0  # steps that an update ended, in a row
        self._paced = False  # whether a loader ever paced
        self._open = 0  # updates since the last step that are not counted yet
        self._turns: dict[Hashable, int] = {}  # loaders fetched since; `_open` as it was then

    def fetch(self, loader: Hashable) -> bool:
        """A fetch begins; whether a step ended with that."""
        if self.explicit:
            return False
        if self._free < 2 or self._paced:
            self._free = 0
        before = self._turns.get(loader)
        if before is None:
            self._turns[loader] = self._open
            return False
        if self._open == before:
            return False
        # What was updated before this loader was first fetched ended a turn of another, which
        # was not fetched from again.
        self._settle(self.steps + 1 + (before > 0))
        self._turns = {loader: 0}
        self._paced = True
        return True

    def end(self, loader: Hashable) -> bool:
        """A loader was found to be exhausted; whether a step ended with that."""
        # Looking for a batch ends a step as fetching one does. A loader that reads ahead is exhausted
        # before its last batch is trained with: that step would be counted twice, here and then.
        ended = self.fetch(loader)
        self._turns.pop(loader, None)
        return ended

    def update(self, update: Update) -> bool:
        """An update has ended; whether a step ended with that."""
        self._beside += 1
        if self.explicit and not self._is_beside():
            return False
        cycle = self._cycle
        cycle.update(update)
        if self._turns and self._free < 2:
            self._open += 1
            if self._paced or self._open < MANY:
                return False
            self._open, self._free = 0, 2  # the fetch was not for these
        self._free += 1
        before, self.steps = self.steps, self._here + cycle.steps
        return self.steps > before

    def step(self, start: int | None = None, site: Hashable = None) -> None:
        """An explicit step of ``site`` has ended: from the first on, they are the steps.

        Those of a site that were seen to lie in others are parts of these.
        """
        if site in self._inner:
            return
        if not self.explicit:
            self.explicit = True
            self.steps = 0
        ended = self._ended
        while start is not None and ended and ended[-1][0] >= start:
            _, inner = ended.pop()
            self.steps -= 1
            if inner != site:
                self._inner.add(inner)
        ended.append((start or 0, site))
        if len(ended) > MANY:
            del ended[: MANY // 2]
        self._within = max(self._within, self._beside)
        self._beside = 0
        self.steps += 1

    def _is_beside(self) -> bool:
        """Whether so many updates were in no explicit step that they are another loop's."""
        if self._beside <= max(MANY, 4 * self._within):
            return False
        self.explicit = False
        self._settle(self.steps)
        self._turns = {}
        return True

    def _settle(self, steps: int) -> None:
        self.steps = self._here = steps
        self._cycle = Cycle()
        self._open = 0


class Pace:
    """Says when the program has made enough training steps.

    ``skip`` and ``stop`` are numbers of steps: the program ends after the ``stop`` that follow the
    first ``skip``; without ``stop`` only time ends it. ``deadline`` is nanoseconds of the monotonic
    clock, after which it ends at a step's end, at the same on all ranks where ``agree`` has them agree.

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
        """``stop``, ``max-duration`` or ``rank`` (the voirfile of one wanted it), once it is over."""
        self._limit = None if stop is None else skip + stop
        self._deadline = deadline
        self._by_thread: dict[int, ThreadSteps] = {}
        self._predicting: dict[int, ThreadSteps] | None = None if infers is None else {}
        """Until something is trained."""
        self._infers = infers
        self._recounting = 0
        """The thread that counts once more what has been, if one does."""
        self.on_step: list[Callable[[int], None]] = []
        """Called at the end of each step, in the thread that made it, with the number of its steps."""

    @property
    def steps(self) -> int:
        """Steps of the thread that made the most; those that were skipped count."""
        threads = self._by_thread if self._predicting is None else self._predicting
        return max((thread.steps for thread in threads.values()), default=0)

    @property
    def trains(self) -> bool:
        """Whether the steps are those of a training."""
        return self._predicting is None

    def train(self) -> bool:
        """Something is trained: what was predicted before was an evaluation. Never stops."""
        self._predicting = None
        return False

    def predict(self, model: Hashable, place: Hashable = None) -> bool:
        """A ``model`` that is not trained was called at ``place``; whether to stop now."""
        if self._predicting is None:
            return False
        thread = _of_this_thread(self._predicting)
        return thread.update((model, place)) and self._enough(thread.steps)

    def predicted(self, start: int | None = None, site: Hashable = None) -> bool:
        """An explicit step in which nothing is trained has ended, as in :meth:`step`; whether to stop now."""
        if self._predicting is None:
            return False
        thread = _of_this_thread(self._predicting)
        thread.step(start, site)
        return self._enough(thread.steps)

    def fetch(self, loader: Hashable) -> bool:
        """A fetch from ``loader`` begins; whether to stop before it."""
        if self._predicting is not None:
            thread = _of_this_thread(self._predicting)
            if thread.fetch(loader) and self._enough(thread.steps):
                return True
        thread = _of_this_thread(self._by_thread)
        return thread.fetch(loader) and self._over(thread.steps)

    def end(self, loader: Hashable) -> bool:
        """A fetch finds ``loader`` exhausted; whether to stop."""
        if self._predicting is not None:
            thread = _of_this_thread(self._predicting)
            if thread.end(loader) and self._enough(thread.steps):
                return True
        thread = _of_this_thread(self._by_thread)
        return thread.end(loader) and self._over(thread.steps)

    def update(self, optimizer: Hashable, place: Hashable = None) -> bool:
        """An update of ``optimizer``, made at ``place``, has ended; whether to stop now."""
        self._predicting = None
        thread = _of_this_thread(self._by_thread)
        return thread.update((optimizer, place)) and self._over(thread.steps)

    def step(self, start: int | None = None, site: Hashable = None, task: str = "train") -> bool:
        """An explicit step of ``task``, which began at ``start`` (nanoseconds) in ``site``, has ended.

        Whether to stop now. Only training is counted.
        """
        if task != "train":
            return False
        self._predicting = None
        thread = _of_this_thread(self._by_thread)
        thread.step(start, site)
        return self._over(thread.steps)

    def state(self) -> State:
        """A copy of how the steps of this thread stand, for :meth:`recount`."""
        from copy import deepcopy

        predicting = self._predicting
        return (
            deepcopy(_of_this_thread(self._by_thread)),
            None if predicting is None else deepcopy(_of_this_thread(predicting)),
        )

    def recount(self, state: State, events: Callable[[], object]) -> bool:
        """Count this thread's steps once more from ``state`` on, now that more is known of what has been.

        ``events`` tells of all that came after it; whether to stop now.
        """
        from copy import deepcopy

        me, before = get_ident(), self.steps
        trained, predicted = deepcopy(state)
        self._by_thread[me] = trained
        if self._predicting is not None and predicted is not None:
            self._predicting[me] = predicted
        self._recounting = me
        try:
            events()
        finally:
            self._recounting = 0
        is_over, over = False, self._over if self._predicting is None else self._enough
        for steps in range(before + 1, self.steps + 1):
            is_over |= over(steps)
        return is_over

    def goes_on(self, rank: int) -> bool:
        """Whether ``rank``, which a voirfile wants to stop here, goes on to where all ranks stop."""
        if self.agree is None or self.why or not self._by_thread:
            return False  # nothing is trained: no step is to come
        return self.agree.want(rank, self.steps + 1, AHEAD) > 0

    def renew(self) -> None:
        """Count from zero: this is the child of a fork."""
        self._by_thread = {}
        if self._predicting is not None:
            self._predicting = {}
        self.why = ""

    def _enough(self, steps: int) -> bool:
        """Whether the program ends with this step, in which nothing was trained."""
        if self._recounting == get_ident():
            return False
        reached = self._limit is not None and steps >= self._limit
        if not reached and (self._deadline is None or monotonic_ns() < self._deadline):
            return False
        infers, self._infers = self._infers, None
        if infers is not None and not infers():
            return self.train()
        return self._over(steps)

    def _over(self, steps: int) -> bool:
        """Whether the program ends with this step: called once a step, and true once."""
        if self._recounting == get_ident():
            return False
        for call in self.on_step:
            call(steps)
        if self.why:
            return False  # it is on its way out, and may train on that
        if self._limit is not None and steps >= self._limit:
            self.why = "stop"
        elif self._late(steps):
            asker = None if self.agree is None else self.agree.asker
            self.why = "max-duration" if asker is None else "rank"
        return bool(self.why)

    def _late(self, steps: int) -> bool:
        agree, deadline = self.agree, self._deadline
        agreed = 0 if agree is None else agree.look()
        if agreed:
            return steps >= agreed
        if deadline is None or monotonic_ns() < deadline:
            return False
        if agree is not None:
            agree.propose(steps + AHEAD)
        return agree is None


def _of_this_thread(threads: dict[int, ThreadSteps]) -> ThreadSteps:
    me = get_ident()
    thread = threads.get(me)
    if thread is None:
        thread = threads[me] = ThreadSteps()
    return thread
