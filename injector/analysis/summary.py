"""The summary of a run: the one object from which every report is made.

:func:`summarise` puts it together from what a run folder holds: ``run.json``, the events that the program
recorded (:mod:`.recorded`), the samples of the monitor (:mod:`.machines`) and the spans (:mod:`.profiling`).
It alone decides on the verdict, the training figures and what broke; renderers only show these. After the
collection, ``inject run`` lets it write them into ``run.json`` as well, so that a list of runs does not have
to read any spans.

Every ``inject run`` loads this module, those of programs without a single step too. Modules that cost much to
import (numpy, above all) are therefore imported inside the functions that need them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..store import spans
from ..store.folder import Run
from ..store.place import UNCOMMITTED
from ..store.run_json import write_info
from ..value_class import field, replace, state_class, value_class
from .flops import Flops, flops_of
from .machines import HostUsage, machines, memory_of
from .outcome_words import sentences
from .profile import LoopSamples, Profile, RankOutcome
from .recorded import Recorded, recorded
from .runs import missing_of, missing_or_uncollected
from .statistics import number

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

    from .columns import RecordedProcess
    from .losses import Processes
    from .traces import Recording


@value_class
class Environment:
    """What a run ran on and with, as its ``run.json`` has it; values are empty where it has none."""

    platform: str
    cpu: Mapping[str, Any]
    """``count``, ``usable``, ``brand``, ``frequency`` (MHz when it ended), ``architecture``."""
    git: Mapping[str, Any]
    """``root``, ``branch``, ``commit`` of the program's work tree, and whether it was ``dirty``."""
    packages: Mapping[str, str]
    """The version of each distribution that the program could import, by name."""


@value_class
class Price:
    """The price of an hour of a run."""

    per_hour: float
    currency: str
    """As the user wrote it; may be empty."""

    def of(self, seconds: float) -> float:
        """The price of a duration in seconds."""
        return seconds / 3600 * self.per_hour


@value_class
class Summary:
    """What the analysis found out about one run.

    Units are seconds, bytes, fractions 0…1 and items per second; moments are unix seconds. Facts that are
    copied from ``run.json`` are described in docs/run-folder.md; they are None or empty where it lacks them.
    """

    missing: tuple[str, ...]
    """Sentences that say which parts of the record are damaged, lost or not collected."""
    run: str
    """The path of the run folder."""
    name: str | None
    command: tuple[str, ...] | None
    started: float | None
    ended: float | None
    duration: float | None
    exit: Mapping[str, Any] | None
    """``{"code": …, "signal": …}``, one of both None; ``stopped_by`` where a voirfile stopped one rank."""
    stopped: bool | None
    """Whether it was stopped on purpose, at a limit of steps or of time."""
    host: str | None
    python: str | None
    profile: Profile | None
    """What the spans say; None for a run without spans."""
    broken: tuple[RankOutcome, ...]
    """Ranks that died, hung, or waited for those that did; in order of attempts, in each the cause first."""
    machines: tuple[HostUsage, ...]
    summary: Recorded
    """What the events say: rates, losses and other values, regions."""
    warnings: tuple[Mapping[str, Any], ...]
    """``{"kind": …, "text": …}``."""
    foreign: bool = False
    """Whether the folder has no ``run.json``: milabench wrote it."""
    incomplete: bool = False
    """Whether parts of the record are missing, so that all figures are of the rest only."""
    problem: str = ""
    """Why there is no profile, where the analysis failed."""
    timed_out: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    """Properties that ``--tag`` or a voirfile gave to the run."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the program recorded (``injector.param``)."""
    artifacts: tuple[Mapping[str, Any], ...] = ()
    """Files that the program added (``injector.artifact``): ``name path size copied``."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """``stop``, ``skip``, ``timeout``, … as the user gave them."""
    processes: tuple[Mapping[str, Any], ...] = ()
    probes: tuple[Mapping[str, Any], ...] = ()
    """For each probe: its selector, where it was attached, how often it fired."""
    misses: tuple[Any, ...] = ()
    """Selectors that matched nothing."""
    voirfiles: tuple[str, ...] = ()
    automatic: tuple[Mapping[str, Any], ...] | None = None
    """Libraries that shipped voirfiles watched; None where those were switched off."""
    sampled: tuple[LoopSamples, ...] = ()
    """Where the host spent the time of each loop, according to sampled stacks (``--sample``)."""
    sampling: int = 0
    """How many stacks a second were sampled; 0 if none were."""
    price: Price | None = None
    """From ``--price``."""
    flops: Flops | None = None
    """From ``--flops``."""
    environment: Environment | None = field(default=None, internal=True)
    goes_on: bool = field(default=False, internal=True)
    """Whether the run was not over yet when this summary was made."""

    @property
    def outcomes(self) -> list[str]:
        """Sentences that say what became of ranks that did not end in order."""
        return sentences(self.broken)

    @property
    def title(self) -> str:
        """The name of the run, else the name of its folder without the time stamp."""
        # The folder of a run is called NAME.DATE.MICROSECONDS.
        return str(self.name or os.path.basename(self.run).rsplit(".", 2)[0])


def summarise(
    run: Run,
    keep: bool = False,
    price: tuple[float, str] | None = None,
    goes_on: bool = False,
    recording: Recording | None = None,
) -> Summary:
    """Analyse ``run`` and return its summary.

    With ``keep``, the main figures are written into ``run.json`` as well. ``price`` is that of an hour, with
    its currency; it replaces the one that ``run.json`` has. With ``goes_on``, the run is not over: the
    summary is of what has been recorded so far and leaves out what only the end of the run will show.
    ``recording`` keeps what is read from the spans, for a caller that analyses the run further.

    An error of the analysis becomes the ``problem`` of the summary. Raises OSError if the run folder cannot
    be read, or ``run.json`` cannot be written.
    """
    if goes_on:
        run = unfinished(run)
    processes = _read_once(run, recording)
    events = recorded(run, processes)
    found = _analysed(run, events, goes_on, recording, processes)
    info, profile = run.info, found.profile
    hourly = price_of(info, price)
    if hourly is not None and profile is not None:
        profile = _with_cost(profile, hourly)
    if info and not found.problem and (profile is not None or found.broken):
        # The summary has the warnings about ranks too, whether or not they are written.
        info = _with_figures(info, profile, found)
        if keep:
            # `write_info` writes the version of the schema itself.
            write_info(run.path, {key: value for key, value in info.items() if key != "schema"})
    return Summary(
        # A run that goes on cannot have been collected yet, and needs no sentence about that.
        missing=missing_of(run) if goes_on else missing_or_uncollected(run),
        run=run.path,
        profile=profile,
        broken=found.broken,
        machines=tuple(found.hosts),
        summary=events,
        incomplete=bool(missing_of(run)),
        problem=found.problem,
        sampled=found.sampled,
        sampling=int(found.sampling.get("rate") or 0),
        price=hourly,
        flops=flops_of(info, profile),
        goes_on=goes_on,
        **_facts(info),
    )


def _with_figures(
    info: dict[str, Any], profile: Profile | None, found: _Analysis
) -> dict[str, Any]:
    """``info`` with the main figures of what was found."""
    from .main_figures import main_figures

    sampling = {"sampling": found.sampling} if found.sampling else {}
    return {**info, **main_figures(info, profile, found.broken), **sampling}


CERTAIN = ("problem", "failure", "lost", "remark")
"""Kinds of warnings about something that has happened, which the rest of the run cannot take back."""


def unfinished(run: Run) -> Run:
    """Return ``run``, which is not over, without what only its end decides.

    Left out are warnings about something that has not happened so far (a probe that never fired), and
    damage: a file that is read while it is written may look damaged.
    """
    warnings = [
        warning for warning in run.info.get("warnings") or () if warning.get("kind") in CERTAIN
    ]
    info = {**run.info, "ended": None, "duration": None, "misses": [], "warnings": warnings}
    return run._replace(damage=(), info=info)


_COPIED = ("name", "command", "started", "ended", "duration", "exit", "stopped", "host", "python")
_LISTS = ("warnings", "artifacts", "processes", "probes", "misses", "voirfiles")
_MAPPINGS = ("tags", "params", "limits")


def _facts(info: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a :class:`Summary` that follow from ``run.json`` alone."""
    automatic = info.get("automatic")
    return {
        **{key: info.get(key) for key in _COPIED},
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
    """The price of an hour: the one that the caller gave, else the one in ``run.json``, else None."""
    stored = info.get("price")
    if given is None and stored:
        per_hour = number(stored.get("per_hour"))
        return None if per_hour is None else Price(per_hour, str(stored.get("currency") or ""))
    return None if given is None else Price(*given)


def _with_cost(profile: Profile, price: Price) -> Profile:
    """``profile`` with what each of its loops cost."""
    from .epochs import with_cost

    loops = tuple(with_cost(loop, price.per_hour) for loop in profile.loops)
    return replace(profile, loops=loops)


CHANGES = 128 << 10
"""Bytes of uncommitted changes that are shown."""


@value_class
class Uncommitted:
    """Changes in the program's work tree that were not committed when the run began."""

    text: str
    """The diff, cut off after :data:`CHANGES` bytes."""
    size: int | None
    """Bytes of the whole diff; None where the run folder does not have it."""


def uncommitted(run: Run) -> Uncommitted | None:
    """The uncommitted changes in the folder of ``run``; None where all was committed, as far as is known."""
    if not (run.info.get("git") or {}).get("dirty"):
        return None
    try:
        with open(os.path.join(run.path, UNCOMMITTED), "rb") as file:
            content, size = file.read(CHANGES), os.fstat(file.fileno()).st_size
    except OSError:
        return Uncommitted("", None)
    # The last character may be cut in half: that is left out.
    return Uncommitted(content.decode("utf-8", "ignore"), size)


def _read_once(run: Run, recording: Recording | None) -> Processes:
    """A function that returns the processes of ``run``, and reads them when it is first called.

    Losses and the profile both need them; many runs have neither.
    """
    read: list[list[RecordedProcess]] = []

    def processes() -> list[RecordedProcess]:
        if not read and recording is None:
            from .columns import sources  # imports numpy

            read.append(sources(run))
        return recording.sources if recording else read[0]

    return processes


@state_class
class _Analysis:
    """What is found out beyond events, as far as the analysis got."""

    hosts: list[HostUsage] = field(default_factory=list)
    profile: Profile | None = None
    broken: tuple[RankOutcome, ...] = ()
    sampled: tuple[LoopSamples, ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """The entry ``sampling`` of run.json."""
    problem: str = ""


def _analysed(
    run: Run, events: Recorded, goes_on: bool, recording: Recording | None, processes: Processes
) -> _Analysis:
    """Analyse the samples and the spans of ``run``."""
    found = _Analysis()
    try:
        found.hosts = machines(run)
        found.profile, found.broken = _profile(
            run, found.hosts, events, goes_on, recording, processes
        )
        found.sampled, found.sampling = _sampled(run, found.profile)
    except Exception as error:  # the rest of the report is worth having without a profile
        found.problem = f"no profile: {type(error).__name__}: {error}"
    return found


def _profile(
    run: Run,
    hosts: list[HostUsage],
    events: Recorded,
    goes_on: bool,
    recording: Recording | None,
    processes: Processes,
) -> tuple[Profile | None, tuple[RankOutcome, ...]]:
    """The profile that the spans give, or None, and what became of the ranks."""
    if spans.has_spans(run.content):
        from . import profiling  # imports numpy, which is half of what a short run costs

        memory, series, losses = memory_of(hosts, run.info), events.series, events.losses
        profile = profiling.profile(
            run, memory, hosts, series, losses, goes_on, recording, processes()
        )
        if profile is not None:
            return profile, profile.outcomes
    # Ranks that died before their first span (at a failed import, say) have an outcome all the same.
    if any(process.get("rank") is not None for process in run.info.get("processes") or ()):
        from .recorded_ranks import outcomes_without_spans

        return None, outcomes_without_spans(run)
    return None, ()


def _sampled(
    run: Run, profile: Profile | None
) -> tuple[tuple[LoopSamples, ...], Mapping[str, Any]]:
    """What sampled stacks say about each loop, and the ``sampling`` entry for run.json."""
    if profile is None or not run.info.get("sampling"):
        return (), {}
    from .stack_regions import sampled_loops

    return sampled_loops(run, profile.loops)
