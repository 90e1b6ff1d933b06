"""A suite's benchmarks, sized one after the other, and what was learnt written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ...analysis.wording import count
from ...errors import UserError
from ...store.place import create_unique
from ..config.model import Benchmark, Suite
from ..environments.resources import Resources
from ..plan import observations
from ..plan.batch_sizes import batch_of, capacity_of, default_of, kind_of, resizable
from ..plan.machine import Machine
from ..plan.observations import CPU
from .search import MOST_PROBES, STEPS, Interrupted, Prober, Search, TrialError, TrialRun

DONE, FAILED, INTERRUPTED = 0, 1, 130
GB = 1e9


@dataclass(frozen=True)
class MeasureOptions:
    """How benchmarks are measured."""

    steps: int = STEPS
    probes: int = MOST_PROBES
    timeout: float | None = None
    """Seconds that a probe may take."""
    use_current: bool = False
    say: Callable[[str], None] = field(default=print)


def measure(
    suite: Suite,
    machine: Machine,
    base: str,
    resources: Callable[[Benchmark], Resources],
    folder: str,
    options: MeasureOptions,
) -> int:
    """Measure every benchmark of ``suite`` whose batch can be changed; the exit code.

    What a benchmark came to is written into ``folder`` as soon as it is known: who stops in the middle
    keeps it.

    Raises:
        UserError: there is no such benchmark, a plan has mistakes, ``folder`` cannot be written.
    """
    chosen = [each for each in suite.benchmarks if resizable(each)]
    if not chosen:
        raise UserError(
            f"{suite.file}: no benchmark declares how its batch can be changed: batch: {{arg: --batch-size}}"
        )
    place = create_unique(str(Path(base) / "sizing"), suite.name)
    failed: list[str] = []
    try:
        for benchmark in chosen:
            prober = Prober(
                suite, benchmark, machine, base, resources, place,
                options.steps, options.timeout, options.use_current,
            )  # fmt: skip
            if not _measure_one(benchmark, machine, prober, folder, options):
                failed.append(benchmark.name)
    except Interrupted:
        options.say("interrupted; what was measured is kept")
        return INTERRUPTED
    options.say(f"probes: {place}")
    return FAILED if failed else DONE


def _measure_one(
    benchmark: Benchmark, machine: Machine, prober: Prober, folder: str, options: MeasureOptions
) -> bool:
    """Whether all was learnt of ``benchmark`` that can be."""
    batch = batch_of(benchmark)
    search = Search(
        default_of(benchmark),
        multiple=batch.get("multiple"),
        power=batch.get("power"),
        capacity=capacity_of(machine),
        careful=machine.arch == CPU,
        most=options.probes,
    )

    def probe(size: int) -> TrialRun:
        found = prober(size)
        options.say(f"{benchmark.name} {size}: {'; '.join(_probe_text(found))}")
        return found

    whole = True
    try:
        search.run(probe)
    except TrialError as error:
        whole = False
        options.say(f"{benchmark.name} cannot be measured any further: {error}")
    finally:
        known = search.known()
        if known.observations or known.limits:
            path = observations.add_observations(folder, kind_of(machine), benchmark.name, known)
            options.say(f"{benchmark.name}: {count(len(known.observations), 'size')} known; {path}")
    return whole and bool(known.observations)


def _probe_text(probe: TrialRun) -> Iterator[str]:
    if not probe.fits:
        yield f"does not fit ({probe.reason})"
        return
    yield f"{probe.memory / GB:.2f} GB" if probe.memory is not None else "memory is not known"
    yield f"{probe.rate:.4g} items/s" if probe.rate is not None else "no rate"
