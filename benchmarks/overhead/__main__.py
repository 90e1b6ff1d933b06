"""``python -m benchmarks.overhead``: measure, print tables, and name the goals that were missed."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from .. import guard
from . import loops, machine, measures, peers, suites, table, third_party, truth

PROBES = ("events", "startup", "imports")
LOOPS = ("steps", "small", "regions", "boosting", "studies", "starts", "every")
DEFAULT = (*PROBES, *LOOPS, "suites", "truth")
PARTS = (*DEFAULT, "programs")
"""All parts. `programs` installs gigabytes, and is measured only if ``--only`` names it."""


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the chosen parts; return 1 under ``--strict`` if a goal was missed."""
    options = _parser().parse_args(arguments)
    parts = options.only or list(DEFAULT)
    peers_ = loops.Peers(None, {}) if options.no_peers else _peers(parts, options.peers)
    about = machine.describe(*peers_)
    with tempfile.TemporaryDirectory(prefix="injector-overhead-") as folder:
        measured = _measure(parts, peers_, Path(folder), options.rounds, options.part)
    # It compares within one process, so that fewer rounds are enough.
    times = _times(max(options.rounds // 2, 1), options.part) if "truth" in parts else []
    for key, value in about.items():
        print(f"{key}: {value}")
    print()
    if measured:
        print("\n".join(table.lines(measured)))
    if times:
        print("\n".join(["", *truth.lines(times)]))
    misses = table.missed(measured) + [miss for row in times for miss in row.missed()]
    if "programs" in parts:
        costs, failed = _programs(options)
        misses += third_party.missed(costs)
        about |= {"programs": costs, "programs that were not run": failed}
    print()
    print("\n".join(_verdict(misses, table.unmeasured(measured))))
    if options.json:
        _write(options.json, about, measured, misses)
    return 1 if misses and options.strict else 0


def _peers(parts: list[str], named: str | None) -> loops.Peers:
    # Profilers are installed only for the parts that compare with them.
    watched = set(parts) & {"steps", "starts", "every"}
    return loops.Peers(peers.find(named), peers.profilers() if watched else {})


def _programs(options: argparse.Namespace) -> tuple[third_party.Costs, dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="injector-programs-") as folder:
        against = options.against
        roots = {against: guard.checkout(against, Path(folder))} if against else {}
        base = options.base or Path(folder) / "base"
        return third_party.measure(base, options.select or [], options.rounds, roots)


def _times(rounds: int, part: float) -> list[truth.Row]:
    lengths = {length: max(int(count * part), 20) for length, count in truth.LENGTHS.items()}
    return [truth.measure(length, count, rounds) for length, count in lengths.items()]


def _verdict(misses: list[str], unmeasured: list[str]) -> list[str]:
    lines = [f"MISSED {miss}" for miss in misses] or ["every goal that was measured is met"]
    return lines + [f"not measured: {title}" for title in unmeasured]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.overhead", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="turns each tool gets (default 9)")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure only this part")
    parser.add_argument(
        "--part",
        type=float,
        default=1.0,
        help="how much of each loop is run, to try it (default 1)",
    )
    parser.add_argument(
        "--select",
        action="append",
        metavar="NAME",
        help="of `programs`, only this (as often as wanted)",
    )
    parser.add_argument(
        "--base",
        type=Path,
        help="a folder that keeps the environments of `programs` for the next time",
    )
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help="measure `programs` with the package of this commit as well",
    )
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has voir and ptera")
    parser.add_argument("--no-peers", action="store_true", help="leave the peers' columns out")
    parser.add_argument("--json", metavar="FILE", help="write what was measured there as well")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is missed")
    return parser


def _measure(
    parts: list[str], peers_: loops.Peers, folder: Path, rounds: int, part: float
) -> measures.Table:
    """Measure ``parts``, which are not measured elsewhere, and return all their rows."""
    # A process that measures pairs within itself needs few repetitions, a whole start-up needs many.
    few = max(rounds // 3, 1)
    measure: dict[str, Callable[[], measures.Table]] = {
        "events": lambda: measures.events(peers_.voir, folder, few),
        "startup": lambda: measures.startup(peers_.voir, folder, 2 * rounds),
        "imports": lambda: measures.imports(folder, 2 * rounds),
        "steps": lambda: loops.steps(peers_, folder, rounds, part),
        "small": lambda: loops.small(folder, few, part),
        "regions": lambda: (
            loops.calls(folder, few, part)
            | loops.submodules(folder, rounds, part)
            | loops.methods(folder, few, part)
        ),
        "boosting": lambda: loops.boosting(folder, rounds, part),
        "studies": lambda: loops.studies(folder, rounds, part),
        "starts": lambda: loops.starts(peers_, folder, rounds),
        "every": lambda: loops.every(peers_, folder, 1, part),
        "suites": lambda: suites.suites(folder, rounds),
    }
    measured: measures.Table = {}
    for name in parts:
        if name in measure:
            measured |= measure[name]()
    return measured


def _write(
    file: str, about: dict[str, object], measured: measures.Table, misses: list[str]
) -> None:
    rows = {row: {c: s._asdict() for c, s in cells.items()} for row, cells in measured.items()}
    text = json.dumps({"machine": about, "measured": rows, "missed": misses}, indent=1)
    Path(file).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
