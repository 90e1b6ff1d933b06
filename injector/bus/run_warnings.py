"""The warnings of a run: sentences on the misses, failures and losses that its ``run.json`` has."""

from __future__ import annotations

from ..store.event import REASONS

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

HARMLESS = ("auto-missed", "remark")
"""Kinds of warnings that are no failure of the run."""


def warnings(info: dict[str, Any]) -> list[dict[str, Any]]:
    """The warnings of the run that ``run.json`` (``info``) describes: misses, silent probes, failures,
    losses.

    Each is ``{"kind": …, "text": …}`` with kind ``missed unattached never-fired failure lost torn
    problem auto-missed remark``; of the last two (:data:`HARMLESS`) neither the user nor the program is the
    cause. The text is one line or more.
    """
    result = [{"kind": "problem", "text": text} for text in info.get("problems", ())]
    result += [{"kind": "remark", "text": text} for text in info.get("remarks", ())]
    if info["voirfiles"] and not info["processes"] and info["exit"]["code"] == 0:
        result.append({"kind": "unattached", "text": _UNREACHED})
    missed = {miss["selector"] for miss in info["misses"]}
    result += [{"kind": "missed", "text": _miss_text(miss)} for miss in info["misses"]]
    for probe in info["probes"]:
        if probe["fired"] == 0 and probe["selector"] not in missed:
            result.append(_silent_probe(probe))
    result += [{"kind": "failure", "text": _failure_text(failure)} for failure in info["failures"]]
    for voirfile in info.get("automatic", ()):
        if voirfile["missed"]:
            result.append({"kind": "auto-missed", "text": _auto_missed_text(voirfile)})
    for process in info["processes"]:
        who = f"process {process['pid']} on {process['host']}"
        if process["lost"]:
            why = f" ({REASONS.get(process['why'], process['why'])})" if process["why"] else ""
            text = f"{_records(process['lost'], 'record', who)} lost{why}"
            result.append({"kind": "lost", "text": text})
        if process["torn"]:
            text = f"{_records(process['torn'], 'torn record', who)} left out"
            result.append({"kind": "torn", "text": text})
    return result


def _records(number: int, what: str, who: str) -> str:
    """The subject and the verb of a sentence about ``number`` records (``what``) of the process ``who``."""
    return f"1 {what} of {who} was" if number == 1 else f"{number} {what}s of {who} were"


_UNREACHED = (
    "no voirfile was loaded: the program started no Python that could be reached "
    "(-I, -E and -S keep it from that; a free-threaded Python is probed with PYTHON_GIL=1 only)"
)


def _miss_text(miss: dict[str, Any]) -> str:
    text = f"{miss['selector']}: {miss['reason'] or 'found nothing'}"
    if miss["nearest"]:
        text += "\nnearest: " + ", ".join(str(name) for name in miss["nearest"])
    return text


def _auto_missed_text(voirfile: dict[str, Any]) -> str:
    names = ", ".join(str(miss.get("what")) for miss in voirfile["missed"])
    versions = " – ".join(dict.fromkeys(map(str, voirfile.get("tested") or ())))
    tested = f" (tested with {versions})" if versions else ""
    version = f"{voirfile['library']} {voirfile['version'] or ''}".strip()
    return f"{version} lacks what its shipped voirfile probes{tested}: {names}"


def _silent_probe(probe: dict[str, Any]) -> dict[str, str]:
    selector = probe["selector"]
    kind, text = "never-fired", f"{selector}: never fired"
    if not probe["places"]:
        kind = "unattached"
        text = f"{selector}: attached nowhere, as the program never loaded the code it names"
    elif probe.get("compiled"):
        text += "\nits function was compiled (torch.compile, Numba), and runs without hooks"
    if not probe["exact"]:
        text += "\nas far as is known: a process ended before it could say"
    return {"kind": kind, "text": text}


def _failure_text(failure: dict[str, Any]) -> str:
    if failure.get("type") == "UserError":  # its message is a sentence that names the place
        return f"{failure.get('where')}: {failure.get('message')}"
    text = f"{failure.get('where')}: {failure.get('type')}: {failure.get('message')}"
    innermost = _innermost_frame(failure.get("trace"))
    return f"{text}\n{innermost}" if innermost else text


def _innermost_frame(trace: object) -> str:
    """The last line ``File "…", line …`` of a trace; empty if there is none."""
    lines = trace.splitlines() if isinstance(trace, str) else []
    frames = [line.strip() for line in lines if line.lstrip().startswith('File "')]
    return frames[-1] if frames else ""
