"""The report of one run, for a terminal."""

from __future__ import annotations

import os

from ..analysis.conclusion import conclude
from ..analysis.losses import summary_of
from ..analysis.machines import Machine, machines, memory_of
from ..analysis.profile import Fate, Profile
from ..analysis.rates import Summary
from ..store import packed
from ..store.folder import Run, open_run
from ..store.layout import SPANS_SUFFIX
from . import card, fates, header, machine, probes, values
from .text import bullets, clean, labelled


def render(run: Run | str, keep: bool = False) -> str:
    """What a run (a folder, or one that was opened) has to tell, in lines for where they go (:mod:`.layout`).

    With ``keep``, what it comes to is written into its ``run.json``. Raises NotARunError for a folder
    that is none, OSError for one that cannot be read.
    """
    run = open_run(run) if isinstance(run, str) else run
    summary = summary_of(run)
    problem = ""
    profile: Profile | None = None
    broken: tuple[Fate, ...] = ()
    watched: list[Machine] = []
    try:
        watched = machines(run)
        profile = with_losses(profile_of(run, watched), summary)
        broken = profile.fates if profile else fates_of(run)
        if keep and run.info and (profile is not None or broken):
            run = conclude(run, profile, broken, fates.sentences(broken))
    except Exception as error:
        problem = f"no profile: {type(error).__name__}: {error}"
    lines = [
        *header.missing(run),
        *header.lines(run, summary, profile),
        "",
        *([*labelled("", [problem], indent=0, width=0), ""] if problem else []),
        *fates.lines(broken),
        *(card.lines(profile) if profile else []),
        *(values.no_rates(run, summary) if not (summary.rates or profile) else []),
        *machine.lines(watched, profile),
        *values.rates(run, summary),
        *values.losses(summary),
        *values.values(summary),
        *values.regions(summary),
        *probes.probes(run),
        *_unmeasured(run, profile, watched),
        *probes.warnings(run, summary),
        # A path that is cut could not be pasted.
        f"run: {clean(run.path)}",
    ]
    return "\n".join(lines) + "\n"


def _unmeasured(run: Run, profile: Profile | None, watched: list[Machine]) -> list[str]:
    """What could not be measured, and why."""
    texts = list(profile.unmeasured if profile else probes.auto_missed(run))
    texts += [problem for each in watched for problem in each.problems]
    return ["not measured", *bullets(texts), ""] if texts else []


def fates_of(run: Run) -> tuple[Fate, ...]:
    """What became of the ranks of a run without spans. Raises OSError, NotARunError."""
    ranked = any(each.get("rank") is not None for each in run.info.get("processes") or ())
    if not ranked:
        return ()
    from ..analysis.profiling import fates

    return fates(run)


def profile_of(run: Run, watched: list[Machine]) -> Profile | None:
    """What the spans of ``run`` say; None when it has none."""
    if not has_spans(run.content):
        return None
    # numpy is only loaded for runs that need it.
    from ..analysis.profiling import profile

    return profile(run, memory_of(watched, run.info), watched)


def with_losses(profile: Profile | None, summary: Summary) -> Profile | None:
    """The profile whose verdict knows of losses that are not finite."""
    if profile is None or not profile.loops or not any(s.odd for s in summary.series):
        return profile
    from ..analysis import verdict

    return profile._replace(verdict=verdict.with_losses(profile.verdict, summary.series))


def has_spans(folder: str) -> bool:
    """Whether the run in ``folder`` has recorded regions or steps, so far."""
    try:
        names = os.listdir(os.path.join(folder, "raw"))
    except OSError:
        return False
    return any(name.endswith((SPANS_SUFFIX, packed.SUFFIX)) for name in names)
