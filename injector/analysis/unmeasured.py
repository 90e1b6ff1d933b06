"""What could not be measured, and why, as sentences."""

from __future__ import annotations

from typing import Any

from .columns import Source
from .findings import Findings
from .profile import Loop, Node
from .wording import line_of

TRANSFER = "h2d"
"""The region of moving batches to a device; not every way of doing so is seen."""


def unmeasured_of(
    info: dict[str, Any],
    sources: list[Source],
    findings: list[Findings],
    loops: list[Loop],
    unknown: int,
) -> tuple[str, ...]:
    """Everything a reader has to know before trusting the numbers."""
    said = [*_devices(findings, loops), *_items(loops), *_losses(loops)]
    said += _ranks(sources, findings, loops)
    said += _missed(info)
    lost = sum(source.lost for source in sources)
    if lost:
        said.append(f"{lost} records were lost: where they are missing, steps are longer or fewer")
    if unknown:
        said.append(f"{unknown} spans were left out: what they belong to was not recorded")
    return tuple(dict.fromkeys(said))


def _devices(findings: list[Findings], loops: list[Loop]) -> list[str]:
    if not loops:
        return []
    sites = [
        site
        for source in {id(each.source): each.source for each in findings}.values()
        for site in source.sites.values()
    ]
    said = []
    if not any(site.clock == "device" for site in sites):
        said.append("device time: no device clock was recorded; all times are the host's")
    used = any(site.device not in (None, "cpu") for site in sites)
    if used and not any(site.region == TRANSFER for site in sites):
        said.append(
            "transfers to devices: none were seen; what libraries move by themselves, `copy_` and tensors "
            "made on the device are part of what is around them, unless a region h2d is asked for"
        )
    return said


def _items(loops: list[Loop]) -> list[str]:
    return [
        f"items per second: {loop.throughput.why_no_items}; rates are steps per second"
        for loop in loops
        if loop.throughput.items is None and loop.throughput.why_no_items
    ]


def _losses(loops: list[Loop]) -> list[str]:
    """Where gradients are accumulated, what backward starts from may be a part of what is meant."""
    said = []
    for loop in loops:
        calls = max(
            (each.calls for each in loop.tree.children if each.name == "backward"), default=0
        )
        if calls >= 1.5 * max(loop.updates_per_step, 1):
            where = f" at {line_of(loop.place)}" if loop.place else ""
            said.append(
                f"the loss of a step{where}: {calls:.3g} calls of backward make one; where the program "
                "divides its loss among them, the part is shown"
            )
    return said


def _ranks(sources: list[Source], findings: list[Findings], loops: list[Loop]) -> list[str]:
    known = {source.rank for source in sources if source.rank is not None}
    world = max((source.world or 0 for source in sources), default=0)
    said = []
    if absent := sorted(set(range(world)) - known):
        said.append(f"{_some('rank', absent)} of {world} recorded nothing")
    if not loops:
        return said
    stepping = {track.rank for loop in loops for track in loop.tracks}
    if idle := sorted(known - stepping):
        said.append(f"{_some('rank', idle)} made no steps")
    for loop in loops[:1]:
        said += _uneven(loop)
        if len({t.rank for t in loop.tracks} - {None}) > 1 and not _has(loop.tree, "comm"):
            said.append("collectives: none were seen; waiting for other ranks is part of backward")
    return said


def _uneven(loop: Loop) -> list[str]:
    by_rank: dict[int, list[int]] = {}
    for track in loop.tracks:
        if track.rank is not None:
            by_rank.setdefault(track.rank, []).append(track.steps)
    said = [
        f"rank {rank} was started {len(steps)} times: its processes are shown one by one"
        for rank, steps in by_rank.items()
        if len(steps) > 1
    ]
    single = {rank: steps[0] for rank, steps in by_rank.items() if len(steps) == 1}
    if len(set(single.values())) > 1:
        few = min(single, key=lambda rank: single[rank])
        most = max(single.values())
        said.append(
            f"ranks made different numbers of steps (rank {few}: {single[few]}, others up to "
            f"{most}); they are compared over those that all made"
        )
    return said


def _has(node: Node, name: str) -> bool:
    return node.name == name or any(_has(child, name) for child in node.children)


def _some(what: str, numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")
    return f"{what}{'s' if len(numbers) > 1 else ''} {shown}"


def _missed(info: dict[str, Any]) -> list[str]:
    warnings = info.get("warnings")
    return [
        " ".join(str(each.get("text")).split())
        for each in (warnings if isinstance(warnings, list) else [])
        if isinstance(each, dict) and each.get("kind") == "auto-missed"
    ]
