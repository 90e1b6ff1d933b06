"""The report of one run, for a terminal: how it ended, what broke, the verdict, then the figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..analysis.outcomes import is_broken
from ..analysis.profile import LoopRank, Profile, Verdict
from ..analysis.recorded import number
from ..analysis.summary import Summary
from ..analysis.wording import signal_name
from . import extras, segments, stack_lines, studies, training_loops, values
from .text import (
    LIMIT,
    bullets,
    clean,
    count,
    crop,
    duration,
    figure,
    joined,
    labelled,
    wrapped,
)

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

    from ..analysis.columns import RecordedProcess  # and with it numpy

_LISTED = 4
"""Hosts and devices named, at most."""
_SENTENCES = 8
"""Sentences about ranks beyond which only their number is given."""
_LONGEST = 400
"""Columns of such a sentence: an exception may be long."""


def render(summary: Summary, details: Iterable[RecordedProcess] = ()) -> str:
    """``summary`` in lines for where they go (:mod:`.output`); ``details``: the processes to show in full."""
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
        # A path that is cut could not be pasted.
        f"run: {clean(summary.run)}",
    ]
    return "\n".join(lines) + "\n"


def profile(found: Profile, currency: str = "") -> list[str]:
    """What the spans of a run say, verdict first; sections without content are left out."""
    return [
        *_verdict(found.verdict),
        *studies.lines(found.studies),
        *training_loops.lines(found.loops, currency),
        *extras.layer_lines(found.layers),
        *extras.memory_lines(found.memory),
        *training_loops.models(found.models),
        *segments.evaluations(found.evaluations),
        *segments.latencies(found.latencies, bool(found.loops)),
        *segments.outside(found.others, whole=not found.loops),
        *segments.wall(found.segments, found.wall),
    ]


# --- what was run, how it ended, on what ----------------------------------------------------------


def _missing(summary: Summary) -> list[str]:
    more = ["everything below, including the verdict, is about the rest"]
    return as_missing(summary.missing, more if summary.incomplete else [])


def as_missing(missing: Sequence[str], more: Sequence[str] = ()) -> list[str]:
    """What is missing of a record, as many sentences as fit, and ``more``; nothing of a whole record."""
    if not missing:
        return []
    rest = [f"… and {len(missing) - LIMIT} more"] if len(missing) > LIMIT else []
    return [*labelled("missing", [*missing[:LIMIT], *rest, *more], indent=0, width=9), ""]


def _header(summary: Summary) -> list[str]:
    """The command, then how it ended and where it ran."""
    if summary.foreign:
        return _foreign(summary)
    processes = len(summary.processes)
    facts = [
        _exit(summary),
        duration(number(summary.duration) or 0.0),
        count(processes, "process") if processes else "nothing recorded",
        *(machine(summary.host, summary.profile) if summary.profile else []),
        f"Python {summary.python}",
        *cost(summary),
    ]
    words = [str(word) for word in summary.command or ()]
    # A command that is ours needs no further sign of who reports.
    command = " ".join(words if words[:1] == ["inject"] else ["inject:", *words])
    return [*wrapped(command), *joined("  ", facts), *_properties(summary), *_error(summary)]


def cost(summary: Summary) -> list[str]:
    """What the run cost, where its price is known."""
    price = summary.price
    if price is None or summary.duration is None:
        return []
    return [f"cost {figure(price.of(summary.duration))} {clean(price.currency)}".rstrip()]


def _properties(summary: Summary) -> list[str]:
    """Its tags, parameters and artifacts, each kind on a line of its own."""
    tags = [f"{clean(key)}={clean(value)}" for key, value in summary.tags.items()]
    params = [f"{clean(key)}={clean(value)}" for key, value in summary.params.items()]
    return [
        *(joined("  ", tags) if tags else []),
        *(joined("  params  ", params) if params else []),
        *(joined("  artifacts  ", artifacts(summary)) if summary.artifacts else []),
    ]


def artifacts(summary: Summary) -> list[str]:
    """The files that the program added, and where those are that were too large to copy."""
    return [
        f"{clean(each['name'])} ({segments.size(each['size'])})"
        + ("" if each["copied"] else f" at {clean(each['path'])}, not copied")
        for each in summary.artifacts
    ]


def ending(summary: Summary) -> list[str]:
    """How the run ended, in a line or two."""
    if summary.foreign:
        return [line.strip() for line in _foreign(summary)[1:]]
    ended = [_exit(summary), *(["ended by --timeout"] if summary.timed_out else [])]
    return [" · ".join(ended), *(line.strip() for line in _error(summary))]


def machine(host: str | None, found: Profile) -> list[str]:
    """How many ranks, on which hosts and devices."""
    tracks = [track for loop in found.loops for track in loop.ranks]
    ranks = {track.rank for track in tracks if track.rank is not None}
    hosts = _distinct(track.host for track in tracks) or _distinct([str(host or "")])
    devices = _distinct(_device(track, len(hosts) > 1) for track in tracks)
    return [
        *([count(len(ranks), "rank")] if len(ranks) > 1 else []),
        *([f"on {_listed(hosts, 'host')}"] if hosts else []),
        *([_listed(devices, "device")] if devices else []),
    ]


def _device(track: LoopRank, several: bool) -> str:
    device = track.device or ""
    return f"{track.host} {device}" if device and several else device


def _distinct(names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(map(clean, names)) if name]


def _listed(names: list[str], thing: str) -> str:
    return ", ".join(names) if len(names) <= _LISTED else count(len(names), thing)


def _error(summary: Summary) -> list[str]:
    """The exception that ended the program, if it did not end well."""
    if _mapping(summary.exit).get("code") == 0:
        return []
    failure = summary.summary.failure
    return wrapped(failure, 2, 2) if failure else []


def _foreign(summary: Summary) -> list[str]:
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


def _exit(summary: Summary) -> str:
    ended = _mapping(summary.exit)
    if ended.get("signal") is not None:
        return exit_code(-int(ended["signal"]))
    if ended.get("code") is None:
        return "exit not known"
    stopped = f"stopped on request{_asker(summary)}, " if summary.stopped else ""
    return stopped + exit_code(int(ended["code"]))


def _asker(summary: Summary) -> str:
    """Which rank wanted the stop that all made, and when."""
    by = _mapping(_mapping(summary.exit).get("stopped_by"))
    if by.get("rank") is None:
        return ""
    return f" of rank {by['rank']}" + ("" if by.get("step") is None else f" in step {by['step']}")


def exit_code(code: int) -> str:
    """``exit 1``, ``killed by SIGKILL``; of a code that is minus a signal."""
    return f"exit {code}" if code >= 0 else f"killed by {signal_name(-code)}"


# --- what broke, what limits it, what is not known ------------------------------------------------


def _outcomes(summary: Summary) -> list[str]:
    """Ranks that died, hung or waited; nothing of a run whose ranks all ended in order."""
    if not summary.broken:
        return []
    found = summary.outcomes
    texts = [crop(text, _LONGEST) for text in found[:_SENTENCES]]
    if len(found) > _SENTENCES:
        texts.append(f"… and {len(found) - _SENTENCES} more")
    broken = is_broken(summary.broken)
    if broken:
        texts.append(
            "everything below, including the verdict, is about what was recorded until then"
        )
    else:
        texts.append("steps of different attempts are kept apart: each is a loop of its own")
    return [*labelled("broken" if broken else "restarted", texts, indent=0, width=11), ""]


def sentence(found: Verdict) -> str:
    """The sentence of a verdict, with its kind and how severe it is."""
    text = found.sentence.strip() or "nothing limits it"
    known = found.kind not in ("", "none")
    if known and not text.lower().startswith(found.kind.lower()):
        text = f"{found.kind}: {text}"
    if known and found.severity in ("critical", "warning"):
        text += f"  ({found.severity})"
    return text


def _verdict(found: Verdict) -> list[str]:
    """The verdict: its sentence, what is larger, how sure it is and why, what to try."""
    return [
        *labelled("verdict", [sentence(found)], indent=0, width=9),
        *labelled("besides", [each for each in found.besides if each not in found.sentence]),
        *labelled("certainty", [found.confidence]),
        *labelled("because", found.evidence),
        *labelled("threshold", [found.threshold]),
        *labelled("try", found.tries()),
        "",
    ]


def _unmeasured(summary: Summary) -> list[str]:
    texts = unmeasured(summary)
    return ["not measured", *bullets(texts), ""] if texts else []


def unmeasured(summary: Summary) -> list[str]:
    """What could not be measured, and why."""
    texts = list(summary.profile.unmeasured if summary.profile else values.auto_missed(summary))
    return texts + [problem for each in summary.machines for problem in each.problems]
