"""Hyper-parameter studies: ``ov.trial``, ``ov.record_study``, ``ov.record_trial``, and what is recorded."""

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
"""Letters of a hyper-parameter that is no number: it may be an estimator, or an array."""


class StudyMeasures(Measures):
    """What a voirfile has measured, the trials of studies among it."""

    def trial(
        self,
        where: Any,
        get: Callable[..., Any],
        *,
        study: str = "study",
        goal: str = "minimize",
    ) -> None:
        """Each call of the function ``where`` is a trial of a hyper-parameter study, such as a plain grid.

        ``get`` is called as in :meth:`value`, and makes a mapping: ``value`` is what the trial came to, all
        else are hyper-parameters. A trial that raises, or leaves no such mapping, has failed; where it
        raises, ``result`` is None. ``goal`` is ``"minimize"`` or ``"maximize"``.

        Raises:
            UserError: ``goal`` is another word, or ``get`` names what ``where`` does not have.
        """
        if goal not in ("minimize", "maximize"):
            raise UserError(f"ov.trial: goal is 'minimize' or 'maximize', not {goal!r}")

        def ended(found: Any, error: Exception | None) -> None:
            params = dict(found)
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

        ``study`` is its name, where there are several; ``goals`` a list of ``"minimize"`` and
        ``"maximize"``, one for each value of a trial; ``metric`` the name of the first; ``sampler`` and
        ``pruner`` names; ``best`` the number or name of the trial that the framework found best; ``trials``
        what is known of each, by the ``id`` that its own process records, as in :meth:`record_trial`.
        """
        self._recorder.emit("study", _recorded({"framework": framework, **facts}))

    def record_trial(self, framework: str, **facts: Any) -> None:
        """Record what a trial came to, in the thread that ran it, as it ends.

        ``study`` and ``goals`` are as in :meth:`record_study`; ``number`` counts the trials of the study from
        0; ``params`` are its hyper-parameters by name; ``values`` a number, several, or a mapping;
        ``state`` ``"complete"``, ``"pruned"`` or ``"failed"``, or ``"running"`` as it begins, and where more
        of its ``params`` become known: that is all of a trial whose process dies; ``error`` why it failed;
        ``reports`` how many intermediate values it gave; ``seconds`` how long ago it began: without that, it
        is the call last begun in this thread of those in the region ``trial``. A trial that runs in parts
        (the folds of a cross-validation) has a record of each, with ``part``, from 0, of ``parts``, and
        ``of``, how many trials there are. ``id`` is the framework's own name of the trial.
        """
        thread = self._spans.sites.thread()
        self._recorder.emit("study", _recorded({"framework": framework, "thread": thread, **facts}))


class TrialEnds(Store):
    """As a store of mappings, each of what a trial came to, which ``ended`` is called with."""

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
    """As those of a value, and one on what a call raises: then ``get`` is called with the result None."""

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
                    found = self._get(None, *values) if self._late else self._get(*values)
                except Exception:  # it makes something of the result
                    found = {}
                try:
                    self._ended(found or {}, error)
                except BaseException as mistake:
                    failed(point, mistake)
            return error

        return point, {**hooks, "#error": raised}


def _recorded(facts: dict[str, Any]) -> dict[str, Any]:
    """``facts`` of a study or of a trial as they are recorded: what has none is left out.

    Hyper-parameters stay numbers, texts and truth values; of anything else it is the text. Values of a trial
    that are no numbers are left out.
    """
    made = {key: value for key, value in facts.items() if value is not None}
    if "trials" in made:
        made["trials"] = {name: _recorded(each) for name, each in made["trials"].items()}
    if "params" in made:
        params = dict(made["params"])
        made["params"] = {str(name): _constant(value) for name, value in params.items()}
    if "values" in made:
        values = made["values"]
        if hasattr(values, "items") and hasattr(values, "keys"):
            named = {str(name): _constant(value) for name, value in values.items()}
        else:
            several = list(values) if isinstance(values, (list, tuple)) else [values]
            names = map(str, range(len(several))) if len(several) > 1 else [""]
            named = dict(zip(names, map(_constant, several), strict=False))
        made["values"] = {n: v for n, v in named.items() if isinstance(v, (int, float))}
    return made


def _constant(value: Any) -> Any:
    """``value`` where JSON has it, as numpy's numbers and tensors of one are; else its text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if not isinstance(value, str) and hasattr(value, "item") and not getattr(value, "shape", ()):
        found = value.item()
        if isinstance(found, (bool, int, float)):
            return found
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\u2026"
