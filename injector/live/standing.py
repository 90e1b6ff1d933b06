"""How each rank of a run stands: at work, waiting for others, hung, dead, started again.

Everything is read from the run folder, where each process says what it is in and the monitor says who has
ended; numbers of processes are never looked up, since the run may be another machine's. What is said here
of a rank is what the report will say of it (:mod:`injector.analysis.fates`), as far as it is known by now.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..bus import spans
from .process import Process

LEAST = 10.0
"""Seconds without a sign after which a rank may be said to hang."""
TIMES = 20.0
"""So many of its usual steps have to fit in there."""
SILENT = 60.0
"""Seconds without a sign after which a process that nobody waits for is called silent."""
WAITING = "comm"


class Standing(NamedTuple):
    """One process that has a row."""

    process: Process
    attempt: int
    state: str
    notes: tuple[str, ...]


def standings(raw: str, processes: Sequence[Process], now: float, over: bool) -> list[Standing]:
    """The processes that have a row, of each rank that of the latest attempt, in the order of ranks.

    ``raw`` is the folder of their files, ``now`` is unix seconds, ``over`` says that the run has ended.
    """
    rows = _latest(_attempts(_own(processes)))
    quiet = {id(p): _silence(p, now) for attempts in rows for p, _ in attempts}
    waits = {}
    for attempts in rows:
        process = attempts[-1][0]
        if not (over or gone(process)) and quiet[id(process)] > limit(process):
            waits[id(process)] = _opened(raw, process)
    last = [attempts[-1][0] for attempts in rows]
    found = []
    for attempts in rows:
        process, attempt = attempts[-1]
        state, note = _state(process, quiet, waits, last, over)
        earlier = tuple(_earlier(p, at) for p, at in attempts[:-1])
        found.append(Standing(process, attempt, state, (*([note] if note else []), *earlier)))
    return sorted(found, key=_order)


def _order(standing: Standing) -> tuple[bool, int, int]:
    process = standing.process
    return process.rank is None, process.rank or 0, process.facts.get("pid") or 0


def limit(process: Process) -> float:
    """Seconds of silence from which on it is not just slow."""
    return max(LEAST, TIMES * process.usual)


def gone(process: Process) -> bool:
    """Whether it has ended, as somebody saw or it said."""
    return process.ended or process.gone


def died(process: Process) -> bool:
    """Whether it ended otherwise than in order."""
    if process.code is not None:
        return process.code != 0
    return process.gone and not process.ended


# --- who is who -----------------------------------------------------------------------------------


def _own(processes: Sequence[Process]) -> list[Process]:
    """Those that have a row: who has a task, and ranks that have none yet, or died before.

    Not what another one of them has started and is told the same rank (workers, helpers).
    """
    by_number = {(p.facts.get("host"), p.facts.get("pid")): p for p in processes}
    found = []
    for process in processes:
        above = by_number.get((process.facts.get("host"), process.facts.get("ppid")))
        helps = process.rank is not None and above is not None and above.rank == process.rank
        if above is None or above is process or not (helps and (above.shown or not process.shown)):
            found.append(process)
    reached: dict[int | None, int] = {}
    for process in found:
        if process.shown:
            reached[process.rank] = max(reached.get(process.rank, 0), _told(process))
    return [p for p in found if p.shown or _is_a_rank_without_steps(p, reached)]


def _is_a_rank_without_steps(process: Process, reached: dict[int | None, int]) -> bool:
    """Whether it was to be a rank: it died before it did anything, or has just been started again."""
    if process.rank is None or not (died(process) or _told(process) > 0):
        return False
    return _told(process) > reached.get(process.rank, -1)


def _told(process: Process) -> int:
    attempt = process.facts.get("attempt")
    return attempt if isinstance(attempt, int) else 0


def _attempts(processes: Iterable[Process]) -> list[tuple[Process, int]]:
    """Each with its attempt: as its launcher says, or how many of its rank had ended when it began."""
    found: list[tuple[Process, int]] = []
    for process in sorted(processes, key=lambda p: p.facts.get("monotonic_ns") or 0):
        attempt = process.facts.get("attempt")
        if not isinstance(attempt, int):
            before = [
                at
                for other, at in found
                if process.rank is not None and _follows(process, other) and gone(other)
            ]
            attempt = 1 + max(before, default=-1)
        found.append((process, attempt))
    return found


def _follows(process: Process, other: Process) -> bool:
    """Whether it is the same rank of the same host, begun after the last that is heard of the other."""
    same = (process.rank, process.facts.get("host")) == (other.rank, other.facts.get("host"))
    return same and other.latest <= (process.facts.get("monotonic_ns") or 0)


def _latest(found: list[tuple[Process, int]]) -> list[list[tuple[Process, int]]]:
    """For each row its attempts in order: the last one is shown."""
    rows: dict[object, list[tuple[Process, int]]] = {}
    for number, (process, attempt) in enumerate(found):
        key: object = ("process", number) if process.rank is None else process.rank
        mine = rows.setdefault(key, [])
        if mine and mine[-1][1] >= attempt:  # two of one rank at once: jobs of their own
            rows[key, number] = [(process, attempt)]
        else:
            mine.append((process, attempt))
    return list(rows.values())


# --- how it stands --------------------------------------------------------------------------------


def _state(
    process: Process,
    quiet: dict[int, float],
    waits: dict[int, list[dict[str, Any]]],
    others: Sequence[Process],
    over: bool,
) -> tuple[str, str]:
    """The state, and why."""
    if died(process):
        return "died", f"{how(process)}; {_after(process)}"
    if over or gone(process):
        return "ended", ""
    if not process.shown:
        return "restarted", "no step yet"
    silence = quiet[id(process)]
    opened = waits.get(id(process))
    if opened is None:
        return ("evaluating" if process.evaluating else "training"), ""
    collective = next((site for site in opened if site.get("region") == WAITING), None)
    if collective is not None:
        return "waiting", f"in {_site(collective)} for {silence:.0f} s"
    if process.steps and _others_wait_or_go_on(process, waits, others):
        inside = [f"in {_site(site)}" for site in opened]
        where = " and ".join(inside) or _after(process)
        return "hung", f"no step for {silence:.0f} s, of usually {process.usual:.3g} s; {where}"
    if silence > SILENT:
        return "silent", f"nothing for {silence:.0f} s; {_after(process)}"
    return ("evaluating" if process.evaluating else "training"), ""


def _others_wait_or_go_on(
    process: Process, waits: dict[int, list[dict[str, Any]]], others: Sequence[Process]
) -> bool:
    mine = unix(process, process.latest)
    for other in others:
        if other is process or gone(other):
            continue
        if any(site.get("region") == WAITING for site in waits.get(id(other), ())):
            return True
        theirs = unix(other, other.latest)
        if mine is not None and theirs is not None and theirs > mine + limit(process):
            return True
    return False


def unix(process: Process, moment: int) -> float | None:
    """A moment of its monotonic clock in unix seconds."""
    time, monotonic = process.facts.get("time"), process.facts.get("monotonic_ns")
    if not isinstance(time, (int, float)) or not isinstance(monotonic, int):
        return None
    return time + (moment - monotonic) / 1e9


def _silence(process: Process, now: float) -> float:
    last = unix(process, process.latest) if process.latest else process.facts.get("time")
    return max(now - last, 0.0) if isinstance(last, (int, float)) else 0.0


def _opened(raw: str, process: Process) -> list[dict[str, Any]]:
    """The sites of what it is in."""
    try:
        numbers = spans.opened(os.path.join(raw, process.name + spans.SUFFIX))
    except Exception:  # the folder is on its way out; or it was packed, and nothing reads Parquet
        return []
    return [site for number in numbers if (site := process.site(number)) is not None]


def how(process: Process) -> str:
    """How it ended, in words."""
    if process.error:
        return process.error
    if process.code is None:
        return "nobody knows how"
    if process.code >= 0:
        return f"exit code {process.code}"
    try:
        return f"killed by {signal.Signals(-process.code).name}"
    except ValueError:
        return f"killed by signal {-process.code}"


def _after(process: Process) -> str:
    if process.last is None:
        return "before its first region"
    return f"after step {process.steps} and {_site(process.last)}"


def _earlier(process: Process, attempt: int) -> str:
    what = "died" if died(process) else "ended" if gone(process) else "was left"
    why = f" ({how(process)})" if died(process) else ""
    return f"restarted: attempt {attempt} {what} at step {process.steps}{why}"


def _site(site: dict[str, Any]) -> str:
    """``comm (all_reduce) at train.py:41``."""
    text = str(site.get("region"))
    if site.get("what") and site.get("region") == WAITING:
        text += f" ({site['what']})"
    place = site.get("place")
    if not isinstance(place, dict):
        return text
    return f"{text} at {os.path.basename(str(place.get('file')))}:{place.get('line')}"
