"""The report of one run, for a terminal: how it ended, what broke, the verdict, then the figures.

A renderer takes a :class:`~..analysis.summary.Summary` and returns text; it decides nothing and reads no
file. The parts are made as lists of lines, each section ending with an empty line, or nothing if it has no
content. How long a line may be is that of the stream which the text is for (:mod:`.output`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..analysis.outcome_words import is_broken
from ..analysis.profile import Profile, Verdict
from ..analysis.statistics import number
from ..analysis.summary import Summary
from ..analysis.wording import signal_name
from ..exit_status import code_of
from . import extras, segments, stack_lines, studies, training_loops, values
from .text import (
    LIMIT,
    bullets,
    clean,
    command_line,
    count,
    crop,
    duration,
    figure,
    joined,
    labelled,
    size,
    wrapped,
)

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

    from ..analysis.columns import RecordedProcess  # and with it numpy
    from ..analysis.training_loop import LoopRank

_LISTED = 4
"""The most hosts or devices that are named. Of more, their number is given."""
_SENTENCES = 8
"""The most sentences about ranks. Of more, their number is given."""
_REQUESTED = (-2, -15)  # SIGINT, SIGTERM
_LONGEST = 400
"""The most columns of such a sentence, as an exception may be long."""


def render(summary: Summary, details: Iterable[RecordedProcess] = ()) -> str:
    """The report of a run as text. ``details`` are the processes to show in full, for ``--verbose``."""
    problem = [*labelled("", [summary.problem], indent=0, width=0), ""]
    currency = summary.price.currency if summary.price else ""
    lines = [
        *_missing(summary),
        *_header(summary),
        "",
        *(problem if summary.problem else []),
        *_outcomes(summary),
        *(profile(summary.profile, currency) if summary.profile else []),
        *extras.flops_lines(summary.flops),
        *stack_lines.lines(summary),
        *(values.no_rates(summary) if not (summary.summary.rates or summary.profile) else []),
        *segments.machines(summary),
        *values.rates(summary),
        *values.losses(summary.summary),
        *values.values(summary.summary),
        *values.regions(summary.summary),
        *values.probes(summary),
        *values.in_each_process(summary, details),
        *_unmeasured(summary),
        *values.warnings(summary),
        # Never cut, so that the path can be pasted.
        f"run: {clean(summary.run)}",
    ]
    return "\n".join(lines) + "\n"


def profile(profile: Profile, currency: str = "") -> list[str]:
    """The sections on the spans of a run, the verdict first. ``currency`` is that of the costs of epochs."""
    return [
        *_verdict(profile.verdict),
        *studies.lines(profile.studies),
        *training_loops.lines(profile.loops, currency),
        *extras.layer_lines(profile.layers),
        *extras.memory_lines(profile.memory),
        *training_loops.models(profile.models),
        *segments.evaluations(profile.evaluations),
        *segments.latencies(profile.latencies, bool(profile.loops)),
        *segments.outside(profile.others, whole=not profile.loops),
        *segments.wall(profile.segments, profile.wall),
    ]


# --- the run: its command, its end, its machine ---------------------------------------------------


def _missing(summary: Summary) -> list[str]:
    """The section about damage of the record."""
    more = ["everything below, including the verdict, is about the rest"]
    return as_missing(summary.missing, more if summary.incomplete else [])


def as_missing(missing: Sequence[str], more: Sequence[str]) -> list[str]:
    """The section with the sentences ``missing`` about a damaged record, as many as fit, then ``more``."""
    if not missing:
        return []
    rest = [f"… and {len(missing) - LIMIT} more"] if len(missing) > LIMIT else []
    return [*labelled("missing", [*missing[:LIMIT], *rest, *more], indent=0, width=9), ""]


def _header(summary: Summary) -> list[str]:
    """The command, how it ended, where it ran, and its properties."""
    if summary.foreign:
        return _foreign(summary)
    facts = [
        *_ends(summary),
        duration(number(summary.duration) or 0.0),
        processes(summary),
        *(machine(summary.host, summary.profile) if summary.profile else []),
        f"Python {summary.python}",
        *cost(summary),
    ]
    words = summary.command or ()
    # A line that begins with "inject" shows that the report is ours, not the program's output.
    before = "" if list(words[:1]) == ["inject"] else "inject: "
    return [
        *wrapped(before + command_line(words)),
        *joined("  ", facts),
        *_properties(summary),
        *_error(summary),
    ]


def cost(summary: Summary) -> list[str]:
    """The fact of what the run cost, if its price is known."""
    price = summary.price
    if price is None or summary.duration is None:
        return []
    return [f"cost {figure(price.of(summary.duration))} {clean(price.currency)}".rstrip()]


def _properties(summary: Summary) -> list[str]:
    """Tags, parameters and artifacts, each kind on a line of its own."""
    tags = [f"{clean(key)}={clean(value)}" for key, value in summary.tags.items()]
    params = [f"{clean(key)}={clean(value)}" for key, value in summary.params.items()]
    return [
        *(joined("  ", tags) if tags else []),
        *(joined("  params  ", params) if params else []),
        *(joined("  artifacts  ", artifacts(summary)) if summary.artifacts else []),
    ]


def artifacts(summary: Summary) -> list[str]:
    """The files that the program added, with sizes, and the paths of those too large to copy."""
    return [
        f"{clean(artifact['name'])} ({size(artifact['size'])})"
        + ("" if artifact["copied"] else f" at {clean(artifact['path'])}, not copied")
        for artifact in summary.artifacts
    ]


def ending(summary: Summary) -> list[str]:
    """How the run ended, in one line, and in another one the exception, if there was one."""
    if summary.foreign:
        return [line.strip() for line in _foreign(summary)[1:]]
    return [" · ".join(_ends(summary)), *(line.strip() for line in _error(summary))]


def processes(summary: Summary) -> str:
    """The number of processes, and the ends of those that failed in a program that did not.

    Of ranks, a section of its own tells. A signal to end is what a pool sends to its workers.
    """
    number = len(summary.processes)
    if summary.stopped or summary.timed_out or code_of(summary.exit) != 0:
        return count(number, "process") if number else "nothing recorded"
    failed: dict[str, int] = {}
    for process in summary.processes:
        code = code_of(process.get("exit"))
        if code and process.get("rank") is None and code not in _REQUESTED:
            how = f"ended with exit {code}" if code > 0 else f"killed by {signal_name(-code)}"
            failed[how] = failed.get(how, 0) + 1
    ends = [f"{many} {how}" for how, many in failed.items()]
    return ", ".join([count(number, "process") if number else "nothing recorded", *ends])


def machine(host: str | None, profile: Profile) -> list[str]:
    """The facts of how many ranks there were, and on which hosts and devices. ``host`` is that of the run."""
    tracks = [track for loop in profile.loops for track in loop.ranks]
    ranks = {track.rank for track in tracks if track.rank is not None}
    hosts = _distinct(track.host for track in tracks) or _distinct([str(host or "")])
    devices = _distinct(_device(track, len(hosts) > 1) for track in tracks)
    return [
        *([count(len(ranks), "rank")] if len(ranks) > 1 else []),
        *([f"on {_listed(hosts, 'host')}"] if hosts else []),
        *([_listed(devices, "device")] if devices else []),
    ]


def _device(track: LoopRank, several: bool) -> str:
    """The name of a rank's device, with its host if there are ``several``."""
    device = track.device or ""
    return f"{track.host} {device}" if device and several else device


def _distinct(names: Iterable[str]) -> list[str]:
    """``names`` without repetition and empty ones, in their order."""
    return [name for name in dict.fromkeys(map(clean, names)) if name]


def _listed(names: list[str], thing: str) -> str:
    """``names`` in a list, or if they are many, how many things they are."""
    return ", ".join(names) if len(names) <= _LISTED else count(len(names), thing)


def _error(summary: Summary) -> list[str]:
    """The exception that ended the program, if it failed; none that only followed from the end of a rank."""
    if code_of(summary.exit) == 0:
        return []
    failure = summary.summary.failure
    cause, *followed = [each.how for each in summary.broken] or [""]
    if not failure or (
        not _begins(failure, cause) and any(_begins(failure, how) for how in followed)
    ):
        return []
    return wrapped(failure, 2, 2)


def _begins(failure: str, how: str) -> bool:
    """Whether an exception is that of a rank's end, of which the beginning is kept."""
    return bool(how) and failure.startswith(how)


def _foreign(summary: Summary) -> list[str]:
    """The header for a run of another tool: of each benchmark, how it ended and how long it took."""
    lines = wrapped(f"inject: {summary.run.rpartition('/')[2]}")
    for bench, events in summary.summary.benches.items():
        start, end = _mapping(events.get("start")), _mapping(events.get("end"))
        began, ended = number(start.get("time")), number(end.get("time"))
        took = duration(ended - began) if began is not None and ended is not None else "no end"
        code = end.get("return_code")
        how = exit_code(code) if isinstance(code, int) else "exit not known"
        lines += wrapped(f"{bench + ': ' if bench else ''}{how} · {took}", 2)
    return lines


def _mapping(data: object) -> Mapping[str, Any]:
    return data if isinstance(data, dict) else {}


def _ends(summary: Summary) -> list[str]:
    """How the program ended, and the limit that ended it, if one did."""
    return [_exit(summary), *(["ended by --timeout"] if summary.timed_out else [])]


def _exit(summary: Summary) -> str:
    """How the program ended: its exit code or signal, and whether it was stopped on request."""
    code = code_of(summary.exit)
    if code is None:
        return "exit not known"
    stopped = summary.stopped and code >= 0
    return (f"stopped on request{_stopped_by(summary)}, " if stopped else "") + exit_code(code)


def _stopped_by(summary: Summary) -> str:
    """The rank that requested the stop of all, and in which of its steps, if that is known."""
    by = (summary.exit or {}).get("stopped_by") or {}
    if by.get("rank") is None:
        return ""
    return f" of rank {by['rank']}" + ("" if by.get("step") is None else f" in step {by['step']}")


def exit_code(code: int) -> str:
    """``exit 1`` for an exit code, ``killed by SIGKILL`` for minus a signal."""
    return f"exit {code}" if code >= 0 else f"killed by {signal_name(-code)}"


# --- rank outcomes, the verdict, and what could not be measured -----------------------------------


def _outcomes(summary: Summary) -> list[str]:
    """The section about ranks that did not end in order, or were started again; empty if there are none."""
    if not summary.broken:
        return []
    outcomes = summary.outcomes
    texts = [crop(text, _LONGEST) for text in outcomes[:_SENTENCES]]
    if len(outcomes) > _SENTENCES:
        texts.append(f"… and {len(outcomes) - _SENTENCES} more")
    broken = is_broken(summary.broken)
    if broken:
        texts.append(
            "everything below, including the verdict, is about what was recorded until then"
        )
    else:
        texts.append("steps of different attempts are kept apart: each is a loop of its own")
    return [*labelled("broken" if broken else "restarted", texts, indent=0, width=11), ""]


def sentence(verdict: Verdict) -> str:
    """The sentence of a verdict, with its kind before it and its severity after it."""
    text = verdict.sentence.strip() or "nothing limits it"
    has_kind = verdict.kind not in ("", "none")
    if has_kind and not text.lower().startswith(verdict.kind.lower()):
        text = f"{verdict.kind}: {text}"
    if has_kind and verdict.severity in ("critical", "warning"):
        text += f"  ({verdict.severity})"
    return text


def _verdict(verdict: Verdict) -> list[str]:
    """The section of the verdict: its sentence, what limits besides, its certainty, reasons, what to try."""
    return [
        *labelled("verdict", [sentence(verdict)], indent=0, width=9),
        *labelled("besides", [text for text in verdict.besides if text not in verdict.sentence]),
        *labelled("certainty", [verdict.confidence]),
        *labelled("because", verdict.evidence),
        *labelled("threshold", [verdict.threshold]),
        *labelled("try", verdict.tries()),
        "",
    ]


def _unmeasured(summary: Summary) -> list[str]:
    """The section about what could not be measured."""
    texts = unmeasured(summary)
    return ["not measured", *bullets(texts), ""] if texts else []


def unmeasured(summary: Summary) -> list[str]:
    """Sentences on what could not be measured, and why."""
    texts = list(summary.profile.unmeasured if summary.profile else values.auto_missed(summary))
    return texts + [problem for machine in summary.machines for problem in machine.problems]
