"""What a run comes to: one summary, which every report is made of.

:func:`summarise` alone decides on the verdict, the training figures and what broke. After the collection it
also keeps them in ``run.json``, so that lists of runs need not read spans.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import isfinite, isnan

from ..store import spans
from ..store.folder import Run
from ..store.place import UNCOMMITTED
from ..store.run_json import write_info
from ..value_class import field, fields, replace, value_class
from .flops import Flops, flops_of
from .machines import HostUsage, machines, memory_of
from .outcomes import sentences
from .profile import LoopSamples, Profile, RankOutcome, SourceLine, TrainingLoop
from .recorded import Recorded, number, recorded
from .runs import missing_of, missing_or_uncollected

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

    from .columns import RecordedProcess
    from .losses import Processes
    from .traces import Recording

RANKS = "ranks"
"""The kind of warning about ranks that died or hung."""


@value_class
class Environment:
    """What a run was run with, as its ``run.json`` has it; empty where it has none."""

    platform: str
    cpu: Mapping[str, Any]
    """``count``, ``usable``, ``brand``, ``frequency`` (MHz when it ended), ``architecture``."""
    git: Mapping[str, Any]
    """``root``, ``branch``, ``commit`` around the program, and whether it was ``dirty``."""
    packages: Mapping[str, str]
    """By name, the version of what the program could import."""


@value_class
class Price:
    """What an hour of a run costs."""

    per_hour: float
    currency: str
    """As it was written; may be empty."""

    def of(self, seconds: float) -> float:
        """What so many seconds cost."""
        return seconds / 3600 * self.per_hour


@value_class
class Summary:
    """One run. Seconds, bytes, fractions 0…1, items per second; moments are unix seconds.

    Facts of its ``run.json`` are as docs/run-folder.md has them, and None or empty where it has none.
    """

    missing: tuple[str, ...]
    """What is damaged or lost of the record, and whether it was collected, as sentences."""
    run: str
    """The path of the run folder."""
    name: str | None
    command: tuple[str, ...] | None
    started: float | None
    ended: float | None
    duration: float | None
    exit: Mapping[str, Any] | None
    """``{"code": …, "signal": …}``, one of both None; ``stopped_by`` where one rank's voirfile did it."""
    stopped: bool | None
    """Whether it was ended on purpose, after so many steps or so much time."""
    host: str | None
    python: str | None
    profile: Profile | None
    """What its spans say; None where it has none."""
    broken: tuple[RankOutcome, ...]
    """Ranks that died, hung or waited for those; attempt by attempt, the cause first."""
    machines: tuple[HostUsage, ...]
    summary: Recorded
    """What its events say: rates, losses and other values, regions."""
    warnings: tuple[Mapping[str, Any], ...]
    """``{"kind": …, "text": …}``."""
    foreign: bool = False
    """Whether it has no ``run.json``: a run of milabench."""
    incomplete: bool = False
    """Whether parts of the record are missing, so that all figures are of the rest."""
    problem: str = ""
    """Why there is no profile, where reading the spans failed."""
    timed_out: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    """Properties that it was given, by ``--tag`` or a voirfile."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the program recorded (``injector.param``)."""
    artifacts: tuple[Mapping[str, Any], ...] = ()
    """Files that it added (``injector.artifact``): ``name path size copied``."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """``stop``, ``skip``, ``timeout``, … as given."""
    processes: tuple[Mapping[str, Any], ...] = ()
    probes: tuple[Mapping[str, Any], ...] = ()
    """Each probe: its selector, where it was attached, how often it fired."""
    misses: tuple[Any, ...] = ()
    """Selectors that matched nothing."""
    voirfiles: tuple[str, ...] = ()
    automatic: tuple[Mapping[str, Any], ...] | None = None
    """Libraries that shipped voirfiles watched; None where those were switched off."""
    sampled: tuple[LoopSamples, ...] = ()
    """Where the host was in its loops, as sampled stacks tell (``--sample``)."""
    sampling: int = 0
    """Stacks that were sampled in a second; 0 for none."""
    price: Price | None = None
    """Of ``--price``."""
    flops: Flops | None = None
    """Of ``--flops``."""
    environment: Environment | None = field(default=None, internal=True)
    goes_on: bool = field(default=False, internal=True)
    """Whether it is a summary of what there was of a run that was not over."""

    @property
    def outcomes(self) -> list[str]:
        """What became of its ranks, as sentences."""
        return sentences(self.broken)

    @property
    def title(self) -> str:
        """Its name, else what its folder is called without the time."""
        return str(self.name or os.path.basename(self.run).rsplit(".", 2)[0])


def summarise(
    run: Run,
    keep: bool = False,
    price: tuple[float, str] | None = None,
    goes_on: bool = False,
    recording: Recording | None = None,
) -> Summary:
    """The summary of ``run``; with ``keep``, its figures are written into ``run.json``.

    ``price``, of an hour and its currency, is used instead of the one that the run was given. Of a run that
    ``goes_on`` it is what has been recorded so far, without what only its end will show. What is found in
    its spans is kept in ``recording``.

    What cannot be analysed is the summary's ``problem``. Raises OSError where the run cannot be read, or
    ``run.json`` not be written.
    """
    if goes_on:
        run = unfinished(run)
    known: list[list[RecordedProcess]] = []

    def processes() -> list[RecordedProcess]:
        """Whose logs are read once for all that is made of them."""
        if not known:
            known.append(recording.sources if recording else _sources(run))
        return known[0]

    events = recorded(run, processes)
    seen: list[HostUsage] = []
    profile: Profile | None = None
    broken: tuple[RankOutcome, ...] = ()
    problem = ""
    sampled: tuple[LoopSamples, ...] = ()
    sampling: Mapping[str, Any] = {}
    try:
        seen = machines(run)
        profile, broken = _profile(run, seen, events, goes_on, recording, processes)
        sampled, sampling = _sampled(run, profile)
    except Exception as error:
        problem = f"no profile: {type(error).__name__}: {error}"
    info = run.info
    hourly = price_of(info, price)
    if hourly is not None and profile is not None:
        from .epochs import with_cost

        loops = tuple(with_cost(loop, hourly.per_hour) for loop in profile.loops)
        profile = replace(profile, loops=loops)
    if info and not problem and (profile is not None or broken):
        info = {**info, **_kept(info, profile, broken)}
        if sampling:
            info["sampling"] = sampling
        if keep:
            write_info(run.path, {key: value for key, value in info.items() if key != "schema"})
    return Summary(
        missing=missing_of(run) if goes_on else missing_or_uncollected(run),
        run=run.path,
        profile=profile,
        broken=broken,
        machines=tuple(seen),
        summary=events,
        incomplete=bool(missing_of(run)),
        problem=problem,
        sampled=sampled,
        sampling=int(sampling.get("rate") or 0),
        price=hourly,
        flops=flops_of(info, profile),
        goes_on=goes_on,
        **_facts(info),
    )


CERTAIN = ("problem", "failure", "lost", "remark")
"""Kinds of warnings about what has happened: what has not may still happen while a run goes on."""


def unfinished(run: Run) -> Run:
    """``run``, which goes on, without what is not known before its end.

    That is what has not happened so far (a probe that never fired), and damage: files that are read while
    they are written may look damaged.
    """
    warnings = [each for each in run.info.get("warnings") or () if each.get("kind") in CERTAIN]
    info = {**run.info, "ended": None, "duration": None, "misses": [], "warnings": warnings}
    return run._replace(damage=(), info=info)


_PLAIN = ("name", "command", "started", "ended", "duration", "exit", "stopped", "host", "python")
_LISTS = ("warnings", "artifacts", "processes", "probes", "misses", "voirfiles")
_MAPPINGS = ("tags", "params", "limits")


def _facts(info: Mapping[str, Any]) -> dict[str, Any]:
    """What of ``run.json`` a :class:`Summary` has under the same names, and what follows from it alone."""
    automatic = info.get("automatic")
    return {
        **{key: info.get(key) for key in _PLAIN},
        **{key: tuple(info.get(key) or ()) for key in _LISTS},
        **{key: info.get(key) or {} for key in _MAPPINGS},
        "foreign": not info,
        "timed_out": bool(info.get("timed_out")),
        "automatic": None if automatic is None else tuple(automatic),
        "environment": Environment(
            str(info.get("platform") or ""),
            info.get("cpu") or {},
            info.get("git") or {},
            info.get("packages") or {},
        ),
    }


def price_of(info: Mapping[str, Any], given: tuple[float, str] | None) -> Price | None:
    """What an hour costs: as ``given``, else as ``run.json`` has it."""
    known = info.get("price")
    if given is None and isinstance(known, dict):
        per_hour = number(known.get("per_hour"))
        return None if per_hour is None else Price(per_hour, str(known.get("currency") or ""))
    return None if given is None else Price(*given)


CHANGES = 128 << 10
"""Bytes of uncommitted changes that are shown."""


@value_class
class Uncommitted:
    """What was not committed of the program's work tree when a run began."""

    text: str
    """The diff, or the beginning of it."""
    size: int | None
    """Bytes that the run has of it; None where it has none."""


def uncommitted(run: Run) -> Uncommitted | None:
    """The uncommitted changes that ``run`` kept; None where all was committed, as far as is known."""
    if not (run.info.get("git") or {}).get("dirty"):
        return None
    try:
        with open(os.path.join(run.path, UNCOMMITTED), "rb") as file:
            content, size = file.read(CHANGES), os.fstat(file.fileno()).st_size
    except OSError:
        return Uncommitted("", None)
    return Uncommitted(content.decode("utf-8", "ignore"), size)


def _sources(run: Run) -> list[RecordedProcess]:
    from .columns import sources  # numpy, only where there are spans

    return sources(run)


def _profile(
    run: Run,
    seen: list[HostUsage],
    events: Recorded,
    goes_on: bool,
    recording: Recording | None,
    processes: Processes,
) -> tuple[Profile | None, tuple[RankOutcome, ...]]:
    """What the spans say, and what became of the ranks."""
    if spans.has_spans(run.content):
        from . import profiling  # numpy, half of what a short run costs, only where there are spans

        memory, series, losses = memory_of(seen, run.info), events.series, events.losses
        found = profiling.profile(
            run, memory, seen, series, losses, goes_on, recording, processes()
        )
        if found is not None:
            return found, found.outcomes
    if any(each.get("rank") is not None for each in run.info.get("processes") or ()):
        from . import profiling

        return None, profiling.outcomes_without_spans(run)
    return None, ()


def _sampled(
    run: Run, profile: Profile | None
) -> tuple[tuple[LoopSamples, ...], Mapping[str, Any]]:
    """What stacks tell of its loops, and ``sampling`` for run.json."""
    if profile is None or not run.info.get("sampling"):
        return (), {}
    from .stack_regions import sampled_loops

    return sampled_loops(run, profile.loops)


# --- what is kept in run.json ---------------------------------------------------------------------


def _kept(
    info: Mapping[str, Any], profile: Profile | None, broken: tuple[RankOutcome, ...]
) -> dict[str, Any]:
    """``verdict``, ``training``, ``broken`` and ``warnings``."""
    others = [each for each in info.get("warnings") or () if each.get("kind") != RANKS]
    kept: dict[str, Any] = {}
    if profile is not None:
        verdict = profile.verdict
        kept["verdict"] = {
            "kind": verdict.kind,
            "severity": verdict.severity,
            "sentence": verdict.sentence,
        }
        kept["training"] = [_training(loop) for loop in profile.loops]
    kept["broken"] = [_broken(each) for each in broken]
    kept["warnings"] = [*({"kind": RANKS, "text": text} for text in sentences(broken)), *others]
    return kept


def _broken(one: RankOutcome) -> dict[str, Any]:
    return {
        "rank": one.rank,
        "attempt": one.attempt,
        "process": one.process,
        "kind": one.kind,
        "how": one.how,
        "steps": one.steps,
        "last": _region(one.last, one.place) if one.last else None,
        "inside": [_region(name, place) for name, place in one.inside],
        "silent": one.seconds,
        "ended": one.ended,
        "restarted": one.restarted,
    }


def _region(name: str, place: SourceLine | None) -> dict[str, Any]:
    return {
        "region": name,
        "file": place.file if place else None,
        "line": place.line if place else None,
    }


def _training(loop: TrainingLoop) -> dict[str, Any]:
    """Seconds and per second; null for what is not known."""
    speed = loop.throughput
    return {
        "task": loop.task,
        "attempt": loop.attempt,
        "ranks": len(loop.ranks),
        "steps": loop.steps,
        "warmup": loop.warmup.steps,
        "step": _known(loop.step.median),
        "steps_per_second": _known(speed.steps),
        "items_per_second": _known(speed.items),
        "tokens_per_second": _known(speed.tokens),
    }


def _known(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


# --- as data --------------------------------------------------------------------------------------


def plain(value: object) -> Any:
    """``value`` of what JSON has: value classes and named tuples as objects, NaN and infinities as text."""
    known = fields(value) or getattr(value, "__dataclass_fields__", {})
    if known and not isinstance(value, type):
        shown = [name for name, each in known.items() if not getattr(each, "internal", False)]
        return {name: plain(getattr(value, name)) for name in shown}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        # Long lists of numbers are most of a page.
        if {float, int, str, type(None)}.issuperset(map(type, value)):
            odd = any(each.__class__ is float and not isfinite(each) for each in value)
            return [plain(each) for each in value] if odd else list(value)
        return [plain(each) for each in value]
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
