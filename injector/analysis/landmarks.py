"""Landmarks: the rows of a track that tell where its steps are.

Fetches, forwards, backwards, updates, and what marks steps and evaluations by itself, each without what only
looks like one: a model that transforms data while a batch is made, a loss that is called without gradients,
an update within an evaluation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..store.call_sites import OWN, CallSite
from ..store.spans import updates
from .arrays import counts, kinds_of, next_moment, owners, places
from .columns import COMPILED, PREDICT, UNTRAINED, Flags, Ints, evaluates
from .tracks import Track, object_number

GRADIENTS_ALONE = "/torch.autograd/grad"
"""The selector of backwards that return gradients and accumulate none."""


def _is_update(site: CallSite) -> bool:
    """Whether the weights of a model are updated in the spans of ``site``."""
    return updates(site.region, site.phase)


def _is_forward(site: CallSite) -> bool:
    """Whether a model is called in the spans of ``site``. Code compiled with its update calls it too, and so
    does what derives the gradients for an optimizer.
    """
    if site.region == "gradients" and site.phase == "gradients":
        return True
    return site.region == "forward" or (
        site.region in ("compiled", "gradients") and _is_update(site)
    )


class Landmarks:
    """The rows of a track that tell where steps are, by what they mean.

    Each attribute is an array of rows in the order of time, none of which lies in another of the same array.
    """

    def __init__(self, track: Track) -> None:
        self.track = track
        self.steps = _not_enclosed(
            track, track.where(lambda site: site.region == "step" and not evaluates(site))
        )
        """Steps that a voirfile marks. Those that overlap without nesting are all kept."""
        # Evaluations that a voirfile marks, or a library's own loop for them.
        self.passes = track.outermost(track.where(_is_marked_pass))
        self.fetches = track.outermost(_observed(track, lambda site: site.region == "io"))
        self.ends = track.region("io.end")
        self.starts = track.region("io.start")
        # A module that is called while a batch is made transforms the data; it is not being trained. One that
        # is called while a model is built tells the shapes of its weights; it evaluates nothing.
        forward = _not_inside(track, track.outermost(_observed(track, _is_forward)), self.fetches)
        forward = _not_inside(track, forward, track.region("build"))
        forward = _not_in_making(track, forward)
        self.backward = _not_inside(
            track,
            track.outermost(_observed(track, lambda site: site.region == "backward")),
            forward,
        )
        """Backwards of losses. A model that differentiates its own output within its forward, as for forces
        on atoms, trains nothing by that."""
        # Activations that backward computes once more, and adjoint equations that it solves, call the
        # model again: they are parts of the backward.
        self.forward = forward = _not_inside(track, forward, self.backward)
        self.predicting = track.only(forward, lambda site: site.phase in UNTRAINED)
        """Forwards of models in evaluation mode or without gradients."""
        self.may_train = track.only(forward, lambda site: site.phase not in UNTRAINED)
        """All other forwards, those of losses and functions without a mode included."""
        self.training = track.only(forward, lambda site: site.phase == "train")
        """Forwards of models in training mode, with gradients."""
        self.updates = self._updates()

    def without_optimizers(self) -> None:
        """Take each backward for an update: the program moves weights by hand. One alone is no loop.

        Where gradients are clipped once after each, that is nearer to the update, and in the same step.
        """
        if len(self.backward) > 1:
            track = self.track
            clips = track.outermost(track.region("clip_grad"))
            before = places(track.start[self.backward], track.start[clips])
            is_clipped = np.array_equal(before, np.arange(1, len(self.backward) + 1))
            self.updates = clips if is_clipped else self.backward

    def without_training(self) -> None:
        """Take all calls of models for work of steps, and nothing for training: the run only predicts.

        Its steps are the batches of its passes over data (:mod:`.inference`).
        """
        track = self.track
        predictions = track.region(PREDICT, COMPILED)
        rows = np.concatenate((self.of_models(self.forward), predictions))
        self.may_train = track.outermost(np.sort(rows))
        self.steps = track.outermost(track.where(lambda site: site.region == "step"))
        self.training = self.predicting = self.passes = self.updates = rows[:0]

    def of_models(self, calls: Ints) -> Ints:
        """Those of ``calls``, made in an evaluation, that are calls of models and not of losses.

        A loss has no mode. Called without gradients it looks as if it predicted, as does a model that was
        left in training mode. A call counts as one of a model if that object was trained, or says that it
        evaluates, or is called what a trained one is called (a checkpoint of it that is loaded for a test);
        of the probes that see such models, all other objects are taken for losses. So are functions, such as
        losses and distributions, where models are seen as objects.
        """
        track, sites = self.track, self.track.sites
        trained = [sites[n] for n in kinds_of(track.site[self.training])]
        trained_objects = {site.object_id for site in trained}
        trained_kinds = {(site.selector, site.label) for site in trained if site.label is not None}
        model_sites = {
            n
            for n, site in sites.items()
            if site.phase == "eval"
            or site.object_id in trained_objects
            or (site.selector, site.label) in trained_kinds
        }
        called = [sites[n] for n in kinds_of(track.site[calls]) if n in model_sites]
        model_selectors = {site.selector for site in called}
        are_objects = any(site.object_id is not None for site in called)
        loss_sites = [
            n
            for n, site in sites.items()
            if (n not in model_sites and site.selector in model_selectors)
            or (are_objects and site.object_id is None)
        ]
        return calls[~np.isin(track.site[calls], loss_sites)]

    def evaluates_by_parts(self, site: CallSite) -> bool:
        """Whether ``site`` calls what is in evaluation mode, and of a class of which no model is trained.

        An agent plays with what it trains, if not with that very model. A method of a model, such as one that
        ranks items, may call nothing but a function at its end.
        """
        trained = {
            _class(self.track.sites[n].label) for n in kinds_of(self.track.site[self.training])
        }
        unknown = site.label is None or None in trained
        return site.phase == "eval" and not unknown and _class(site.label) not in trained

    def learning(self) -> Ints:
        """Those of :attr:`backward` that a model may learn from.

        A model in its mode for evaluation may give gradients of its input (an attack in an adversarial
        evaluation): no update follows before a model is called again.
        """
        track = self.track
        models = np.sort(np.concatenate((self.training, self.predicting)))
        if not (len(self.training) and len(self.predicting)):
            return self.backward
        called, begun = track.start[models], track.start[self.backward]
        before = models[np.maximum(places(called, begun) - 1, 0)]
        of_input = track.table(lambda site: site.phase == "predict", before) == 1
        of_input &= counts(track.start[self.updates], begun, next_moment(called, begun)) == 0
        learning: Ints = self.backward[~of_input]
        return learning

    def learnt_from(self, start: Ints, end: Ints) -> Flags:
        """Which of :attr:`predicting` the steps from ``start`` to ``end`` learn from all the same.

        A model may be left in its mode for evaluation, and trained: where a step calls no model in training
        mode, its backward is of the calls before it, with gradients, of a model that other steps train.
        """
        track, rows = self.track, self.predicting
        object_of = track.table(object_number)
        is_learnt = np.isin(object_of[rows], object_of[self.training])
        is_learnt &= track.table(lambda site: site.phase == "predict", rows) == 1
        if not is_learnt.any():
            return is_learnt
        step = owners(start, end, track.start[rows])
        trains = np.append(counts(track.start[self.training], start, end) > 0, True)
        is_learnt &= ~trains[step]  # a row in no step has the step -1
        until = np.append(end, 0)[step]
        is_learnt &= counts(track.start[self.backward], track.start[rows], until) > 0
        return is_learnt

    def only_act(self, rows: Ints) -> Flags:
        """Which of the calls ``rows`` only choose actions for an environment.

        These are followed by a step of the environment, and that by calls of which the next backward learns.
        Where no call lies between the environment and the backward, it learns of those that acted.
        """
        track = self.track
        env = track.start[track.region("env")]
        if not len(env):
            return np.zeros(len(rows), np.bool_)
        backward = track.start[self.backward]
        piece = places(backward, track.start[rows])
        acts = counts(env, track.start[rows], next_moment(backward, track.start[rows])) > 0
        learns = np.bincount(piece[~acts], minlength=len(backward) + 1) > 0
        result: Flags = acts & learns[piece]
        return result

    @property
    def optimizes(self) -> bool:
        """Whether an optimizer was stepped at all, be it in an evaluation."""
        return len(self.track.where(_is_update)) > 0

    def _updates(self) -> Ints:
        track = self.track
        rows = _observed(track, _is_update)
        rows = track.outermost(track.only(rows, lambda site: not evaluates(site)))
        # An update within an evaluation, such as that of a linear probe on frozen features, is no step of the
        # training.
        return _not_inside(track, rows, self.passes)


def _class(label: str | None) -> str | None:
    """The class of a model by its call site's label, without what wraps it (``DataParallel of Net``)."""
    return label and label.rpartition(" ")[2]


def _observed(track: Track, test: Callable[[CallSite], bool]) -> Ints:
    """The spans whose sites pass ``test``, without the program's own that tell less than a probe's.

    If the program wraps a call in ``injector.region`` or a ``Timer`` and a probe has recorded the call
    inside, the probe's span counts: it knows the object, its phase and the items.
    """
    rows = track.where(test)
    by_probes = track.only(rows, lambda site: site.selector != OWN)
    if 0 < len(by_probes) < len(rows):
        is_own = track.table(lambda site: site.selector == OWN, rows) == 1
        holds_none = counts(track.start[by_probes], track.start[rows], track.end[rows]) == 0
        rows = rows[~is_own | holds_none]
    return rows


def _not_enclosed(track: Track, rows: Ints) -> Ints:
    """Those of ``rows``, in order, that lie completely in no other of them."""
    if track.apart(rows):
        return rows
    latest = np.maximum.accumulate(track.end[rows])[:-1]
    not_enclosed = np.ones(len(rows), np.bool_)
    not_enclosed[1:] = track.end[rows[1:]] > latest
    kept: Ints = rows[not_enclosed]
    return kept


def _not_inside(track: Track, rows: Ints, of: Ints) -> Ints:
    """Those of ``rows`` that lie in none of ``of``, which do not overlap one another."""
    if not len(of) or not len(rows) or track.apart(rows):
        return rows
    last = places(track.start[of], track.start[rows], "right") - 1
    return rows[(last < 0) | (track.end[rows] > track.end[of[last]])]


def _not_in_making(track: Track, rows: Ints) -> Ints:
    """Those of ``rows`` that are not a part's only call by the constructor that makes it.

    Such a call is for the size of the result, as of a convolution before the first linear layer.
    """
    in_making = track.table(
        lambda site: site.place is not None and site.place.function == "__init__", rows
    )
    if not in_making.any():
        return rows
    sites = track.site[rows]
    kept: Ints = rows[(in_making == 0) | (np.bincount(sites)[sites] > 1)]
    return kept


def _is_marked_pass(site: CallSite) -> bool:
    """Whether the spans of ``site`` are passes over data in which nothing is trained, by their own word."""
    return site.region == "evaluation" or (site.region in ("step", "epoch") and evaluates(site))
