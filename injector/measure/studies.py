"""Hyper-parameter studies: ``ov.trial``, ``ov.record_study`` and ``ov.record_trial``.

A voirfile for a library of studies records each trial by ``ov.record_trial``; in a plain grid of the program,
``ov.trial`` names the function of which each call is one.
"""

from __future__ import annotations

from ..errors import UserError
from ..probe.points import failed
from .measures import Measures
from .values import Store, ValueHooks

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..bus.writer import Writer
    from ..probe.points import Point
    from .regions import Function

LONGEST = 200
"""How many letters are kept of a hyper-parameter that is no number: it may be an estimator, or an array."""


class StudyMeasures(Measures):
    """What voirfiles have measured in one process, and the trials of studies."""

    def trial(
        self, where: Any, get: Callable[..., Any], *, study: str = "study", goal: str = "minimize"
    ) -> None:
        """Record each call of the function ``where`` as a trial of a hyper-parameter study.

        ``get`` is called as in :meth:`value`, and returns a mapping: ``value`` is the result of the trial,
        all else are hyper-parameters. A trial that raises, or gives no such mapping, has failed; where it
        raises, ``result`` is None. ``goal`` is ``"minimize"`` or ``"maximize"``. Raises UserError if ``goal``
        is another word, or ``get`` names a variable that ``where`` does not have.
        """
        if goal not in ("minimize", "maximize"):
            raise UserError(f"ov.trial: goal is 'minimize' or 'maximize', not {goal!r}")

        def ended(answer: Any, error: Exception | None) -> None:
            params = dict(answer)
            values = params.pop("value", None)
            facts: dict[str, Any] = {"study": study, "goals": [goal], "params": params}
            if error is None:
                facts["values"] = values
            else:
                facts |= {"state": "failed", "error": f"{type(error).__name__}: {error}"}
            self.record_trial(study, **facts)

        self.region(where, "trial", what=study)
        store = TrialEnds(self._recorder, self._late.keep, ended)
        try:
            self._ask(where, calls=TrialHooks(get, store))
        except TypeError as error:
            raise UserError(f"trial of {where!r}: {error}") from None

    def record_study(self, framework: str, **facts: Any) -> None:
        """Record what is known of a hyper-parameter study that ``framework`` makes.

        The facts, all of them optional, are:

        - ``study``: its name, where there are several;
        - ``goals``: a list of ``"minimize"`` and ``"maximize"``, one for each value of a trial;
        - ``metric``: the name of the first value;
        - ``sampler`` and ``pruner``: their names;
        - ``best``: the number or name of the trial that the framework found best;
        - ``trials``: the facts of each trial (as in :meth:`record_trial`), by the ``id`` that the trial's own
          process records.
        """
        self._recorder.emit("study", _recorded({"framework": framework, **facts}))

    def record_trial(self, framework: str, **facts: Any) -> None:
        """Record the result of a trial as it ends, in the thread that ran it.

        The facts, all of them optional, are:

        - ``study`` and ``goals``: as in :meth:`record_study`;
        - ``number``: the trial's number in the study, from 0;
        - ``params``: its hyper-parameters by name;
        - ``values``: a number, several numbers, or a mapping;
        - ``state``: ``"complete"``, ``"pruned"`` or ``"failed"``; or ``"running"``, recorded as the trial
          begins and as more of its ``params`` become known, which is all there is of one whose process dies;
        - ``error``: why it failed;
        - ``reports``: how many intermediate values it gave;
        - ``seconds``: how long ago it began; without that, the trial is the last call in this thread of the
          region ``trial``;
        - ``part`` and ``parts``: of a trial that runs in parts, such as the folds of a cross-validation, the
          number of the part that is recorded, from 0, and how many there are;
        - ``of``: how many trials there are;
        - ``id``: the framework's own name of the trial.
        """
        thread = self._spans.sites.thread()
        self._recorder.emit("study", _recorded({"framework": framework, "thread": thread, **facts}))


class TrialEnds(Store):
    """A store whose values are mappings, one for each trial, with which ``ended`` is called."""

    def __init__(
        self,
        recorder: Writer,
        late: Callable[[str, Any], None],
        ended: Callable[[Any, Exception | None], None],
    ) -> None:
        super().__init__("trial", recorder, late)
        self.ended = ended

    def number(self, value: Any) -> float | None:
        if value is not None:
            self.ended(value, None)
        return None


class TrialHooks(ValueHooks):
    """The hooks of a value, and one on what a call raises, which calls ``get`` with the result None."""

    def __init__(self, get: Function, store: TrialEnds) -> None:
        super().__init__(get, store)
        self._ended = store.ended
        self.variables = (*self.variables, "#error")

    def make(
        self, names: dict[str, str], selector: str, library: str
    ) -> tuple[Point, dict[str, Function]]:
        first = self.variables[0]
        point, hooks = super().make({first: names[first]}, selector, library)

        def raised(error: BaseException, *values: Any) -> BaseException:
            if isinstance(error, Exception):
                try:
                    facts = self._get(None, *values) if self._late else self._get(*values)
                except Exception:  # `get` reads something of the result, which is None
                    facts = {}
                try:
                    self._ended(facts or {}, error)
                except BaseException as mistake:
                    failed(point, mistake)
            return error

        return point, {**hooks, "#error": raised}


def _recorded(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the ``facts`` of a study or of a trial as they are recorded; those that are None are left out.

    Hyper-parameters stay numbers, texts and truth values; of anything else the text is recorded. Values of a
    trial that are no numbers are left out.
    """
    recorded = {key: value for key, value in facts.items() if value is not None}
    if "trials" in recorded:
        recorded["trials"] = {name: _recorded(trial) for name, trial in recorded["trials"].items()}
    if "params" in recorded:
        params = dict(recorded["params"])
        recorded["params"] = {str(name): _constant(value) for name, value in params.items()}
    if "values" in recorded:
        values = recorded["values"]
        if hasattr(values, "items") and hasattr(values, "keys"):
            named = {str(name): _constant(value) for name, value in values.items()}
        else:
            # Several values are named by their indices, a single one by the empty name.
            several = list(values) if isinstance(values, (list, tuple)) else [values]
            names = map(str, range(len(several))) if len(several) > 1 else [""]
            named = dict(zip(names, map(_constant, several), strict=False))
        recorded["values"] = {n: v for n, v in named.items() if isinstance(v, (int, float))}
    return recorded


def _constant(value: Any) -> Any:
    """Return ``value`` as JSON can hold it: a number (also one of NumPy, or a tensor of one), or a text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if not isinstance(value, str) and hasattr(value, "item") and not getattr(value, "shape", ()):
        number = value.item()
        if isinstance(number, (bool, int, float)):
            return number
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\u2026"
