"""The registry of every number that is recorded, derived or exported: name, unit, definition, places.

Values are kept in the units of :data:`UNITS` everywhere. Only a display converts them, into
:attr:`Unit.shown`: a peak of 8e9 B is shown as 8 GB. A place is where a user finds the number, such as
``query steps.seconds``; displays and exports look up the unit of what they show by its place, so that no unit
is written down twice. docs/metrics.md is made from this module, and a test holds both against each other and
against what exports really have.
"""

from __future__ import annotations

from collections.abc import Iterator

from .errors import UserError
from .named_tuple import NamedTuple


class Unit(NamedTuple):
    """A unit, and how values in it are displayed."""

    name: str
    """In words: ``items per second``."""
    shown: str = ""
    """The unit of displays, such as ``GB``; empty if it is the same."""
    factor: float = 1.0
    """What a value is multiplied by to be displayed."""


UNITS = {
    "s": Unit("seconds"),
    "B": Unit("bytes", "GB", 1e-9),
    "W": Unit("watts"),
    "J": Unit("joules", "kJ", 1e-3),
    "1": Unit("fraction", "%", 100.0),
    "items/s": Unit("items per second"),
    "tokens/s": Unit("tokens per second"),
    "steps/s": Unit("steps per second"),
    "items/J": Unit("items per joule"),
    "Cel": Unit("degrees Celsius", "°C"),
    "unix": Unit("seconds since 1970, UTC"),
    "us": Unit("microseconds", "µs"),
    "%": Unit("percent"),
    "h": Unit("hours"),
    "cores": Unit("processors"),
    "steps": Unit("steps"),
    "items": Unit("items"),
    "tokens": Unit("tokens"),
    "passes": Unit("passes"),
    "batches": Unit("batches"),
    "FLOP": Unit("floating-point operations"),
    "FLOP/s": Unit("floating-point operations per second"),
    "count": Unit("a count"),
    "": Unit("that of the program"),
}
"""By the short form in records and exports, which is UCUM's if UCUM has the unit."""


class Metric(NamedTuple):
    """One metric."""

    name: str
    unit: str
    """A key of :data:`UNITS`."""
    definition: str
    source: str
    """Which records it is computed from."""
    places: tuple[str, ...]
    """Where a user finds it: ``query VIEW.COLUMN``, ``export NAME``, ``suite COLUMN`` (of `inject suite
    report
    --json`), ``compare FIGURE``, ``report KEY`` (of `inject report --json`), ``page PLOT``."""


SPANS = "spans of the training processes"
EVENTS = "values that voirfiles and the program record"
MONITOR = "samples of the monitor"
COUNTED = "growth of the kernel's counters between the first and the last sample of the monitor"
RUN = "run.json"
SUITE = "the records of a suite's runs"


def _from(source: str, *rows: tuple[str, str, str, str]) -> tuple[Metric, ...]:
    """Metrics of one source; each row is a name, a unit, a definition, and places separated by commas."""
    return tuple(
        Metric(name, unit, definition, source, tuple(filter(None, places.split(", "))))
        for name, unit, definition, places in rows
    )


STEPS = _from(
    SPANS,
    ("step_time", "s", "Wall time of one step, without evaluation in it.",
     "query steps.seconds, export LOOP/step_time, report profile.loops.step, page step, compare step_time"),
    ("step_time_median", "s", "Median step time over the measured steps.", "export LOOP/step_time/median"),
    ("step_time_mean", "s", "Mean step time over the measured steps.", "export LOOP/step_time/mean"),
    ("step_time_p95", "s",
     "Step time that 95 % of the measured steps do not exceed, linear between neighbours.",
     "export LOOP/step_time/p95"),
    ("step_start", "unix", "When a step began.", "query steps.start"),
    ("step_items", "items", "Items of a step on one rank: the size of its batches.",
     "query steps.items, report profile.loops.items_per_step"),
    ("step_tokens", "tokens", "Tokens of a step on one rank, where the model is given integers.",
     "query steps.tokens, report profile.loops.tokens_per_step"),
    ("step_waits", "s", "What a step waits for other ranks in collectives.", "query steps.waits"),
    ("rate", "items/s", "Items of one step divided by the seconds of that step; of several ranks, the sum.",
     "export LOOP/rate, report profile.loops.throughput.rate, page rate"),
    ("token_rate", "tokens/s", "Tokens of one step divided by the seconds of that step.",
     "export LOOP/token_rate"),
    ("throughput", "items/s", "All items of the measured steps by all of their seconds; the sum over ranks.",
     "export LOOP/throughput, report profile.loops.throughput.items, compare throughput"),
    ("token_throughput", "tokens/s", "All tokens of the measured steps by all of their seconds; the sum over "
     "ranks.", "export LOOP/token_throughput, report profile.loops.throughput.tokens"),
    ("steps_per_second", "steps/s", "Measured steps by all of their seconds.",
     "export LOOP/steps_per_second, report profile.loops.throughput.steps"),
    ("steps", "steps", "Steps of a loop, those of the warm-up included.",
     "export LOOP/steps, report profile.loops.steps"),
    ("warmup_steps", "steps", "Leading steps that are in no statistics.",
     "report profile.loops.warmup.steps"),
    ("warmup_seconds", "s", "What the steps of the warm-up took.", "report profile.loops.warmup.seconds"),
    ("region_time", "s",
     "Seconds of a step in one region (io, h2d, forward, backward, optimizer, comm, wait, "
     "other, …), without the regions in it.", "export LOOP/regions/REGION, report profile.loops.tree.host"),
    ("region_share", "1", "Part of a step that a region takes, over the measured steps; the shares of a step "
     "add up to 1.", "export LOOP/share/REGION, report profile.loops.tree.share"),
    ("region_device_time", "s",
     "Seconds that a device took for what a region started, by the device's clock, in steps that were "
     "timed.",
     "report profile.loops.tree.device"),
    ("epochs", "count", "Passes of a loop over its data.", "export LOOP/epochs"),
    ("epoch_time_mean", "s", "Mean seconds of a pass, with the evaluations in it.",
     "export LOOP/epoch_time/mean"),
    ("marked_time", "s", "Seconds of one call of a region that the program marks outside of steps, with all "
     "that lies in it: of an epoch its steps.", "export regions/REGION/time"),
    ("outside_calls", "count", "Calls of a region in no step and no evaluation.",
     "export regions/REGION/calls"),
    ("outside_seconds", "s", "Seconds of all these calls, without the steps and evaluations in them.",
     "export regions/REGION/seconds"),
    ("outside_mean", "s", "Mean seconds of one of these calls.", "export regions/REGION/mean"),
    ("call_seconds", "s", "Length of one span: a whole call of a region.", "query regions.seconds"),
    ("call_start", "unix", "When a span began.", "query regions.start"),
    ("call_items", "items", "Items that the call worked on.", "query regions.items"),
    ("call_tokens", "tokens", "Tokens that the call worked on.", "query regions.tokens"),
    ("call_bytes", "B", "Bytes that the call moved.", "query regions.bytes"),
    ("region_memory_change", "B", "By how much a call of a region changes the memory of the process, or of a "
     "device, from begin to end: the median (`--memory`).", "report profile.memory.change"),
    ("region_memory", "B", "The most memory at the end of any call of a region (`--memory`).",
     "report profile.memory.largest"),
)  # fmt: skip
_BATCH = "where a model only predicts, from when its batch is there until the next one is fetched"
_LATENCIES = (
    *((f"batch_latency_p{n}", "s", f"Time of a batch, {_BATCH}, that {n} % of the batches do not exceed.",
       f"export latency/WHAT/batch/p{n}, report profile.latencies.batch.p{n}, "
       f"suite runs.latencies.batch.p{n}")
      for n in (50, 75, 90, 95, 99)),
    *((f"query_latency_p{n}", "s", f"Time of a batch divided by its items, that {n} % of the batches do not "
       "exceed.", f"export latency/WHAT/query/p{n}, report profile.latencies.query.p{n}, "
       f"suite runs.latencies.query.p{n}")
      for n in (50, 75, 90, 95, 99)),
    ("query_latency_mean", "s", "Time of all batches divided by all their items.",
     "export latency/WHAT/query/mean, report profile.latencies.mean, suite runs.latencies.mean"),
    ("latency_batches", "batches", "Batches that latencies are of.",
     "export latency/WHAT/batches, report profile.latencies.batches"),
    ("latency_queries", "items", "Items of all these batches; a query is an item.",
     "export latency/WHAT/queries, report profile.latencies.queries"),
)  # fmt: skip
EVALUATION = _from(
    SPANS,
    ("evaluation_passes", "passes", "Passes over data in which nothing is trained.",
     "export evaluation/passes, report profile.evaluations.passes"),
    ("evaluation_batches", "batches", "Batches of all passes.", "report profile.evaluations.batches"),
    ("evaluation_seconds", "s", "Wall time of all passes, on the first rank that evaluates.",
     "export evaluation/seconds, report profile.evaluations.seconds"),
    ("evaluation_throughput", "items/s", "Items of all passes by their seconds, without a first batch that "
     "compiles.", "export evaluation/throughput, report profile.evaluations.throughput"),
    *_LATENCIES,
)  # fmt: skip
VALUES = _from(
    EVENTS,
    ("loss", "", "A value whose name calls it a loss, such as the one that backward starts from.",
     "query values.value, export TASK/NAME, page loss"),
    ("value", "", "Any other value: of `ov.value`, `ov.give`, `injector.metric(\"f1\", 0.9)`.",
     "query values.value, export TASK/NAME, compare NAME"),
    ("value_last", "", "The last one of a series.", "export TASK/NAME/last"),
    ("value_min", "", "The least finite one of a series.", "export TASK/NAME/min"),
    ("value_time", "unix", "When a value was recorded.", "query values.time, query events.time"),
    ("recorded_rate", "items/s", "A rate that a voirfile gives itself; its `units` may name another unit.",
     "report summary.rates"),
)  # fmt: skip
DEVICES = _from(
    MONITOR,
    ("device_load", "1", "Part of the time since the last sample in which the device worked.",
     "query devices.load, export devices/HOST/DEVICE/load, suite load, page load"),
    ("device_memory_load", "1",
     "Part of the time since the last sample in which its memory was read or written.",
     "query devices.memory_load"),
    ("device_memory", "B", "Memory of a device that is in use.",
     "query devices.memory_used, export devices/HOST/DEVICE/memory_used, page memory"),
    ("device_memory_total", "B", "Memory that a device has.", "query devices.memory_total"),
    ("device_memory_peak", "B", "The most memory in use in any sample.",
     "export devices/HOST/DEVICE/peak_memory, compare device_memory"),
    ("device_temperature", "Cel", "Temperature of a device.",
     "query devices.temperature, export devices/HOST/DEVICE/temperature"),
    ("device_power", "W", "Power that a device draws; of a run, the mean over the samples.",
     "query devices.power, export devices/HOST/DEVICE/power, page power"),
    ("device_power_limit", "W", "The most power that a device may draw.", "query devices.power_limit"),
    ("device_energy", "J", "What a device's own counter grew by, else power over time.",
     "query devices.energy, export devices/HOST/DEVICE/energy, compare energy"),
    ("device_sample_time", "unix", "When a device was sampled.", "query devices.time"),
)  # fmt: skip
HOST = _from(
    MONITOR,
    ("cpu", "1", "Part of all cores' time since the last sample that was in use.",
     "query host.cpu, export hosts/HOST/cpu, page cpu"),
    ("busiest_core", "1", "The same of the core that was used most.", "query host.busiest_core"),
    ("idlest_core", "1", "The same of the core that was used least.", "query host.idlest_core"),
    ("host_memory", "B", "Memory of the host that is in use.", "query host.memory_used"),
    ("host_memory_share", "1", "Part of the host's memory that is in use.",
     "query host.memory, export hosts/HOST/memory"),
    ("load_average", "count", "Processes that ran or waited to, on average over the last minute.",
     "query host.load"),
    ("disk_share", "1", "Part of the file system of the run that is in use.", "query host.disk"),
    ("disk_read", "B", "Read from disks since the host's boot.", "query host.disk_read"),
    ("disk_written", "B", "Written to disks since the host's boot.", "query host.disk_written"),
    ("net_sent", "B", "Sent over all interfaces since the host's boot.", "query host.net_sent"),
    ("net_received", "B", "Received over all interfaces since the host's boot.", "query host.net_received"),
    ("program_processes", "count", "Processes of the program.", "query host.processes"),
    ("program_cpu", "s", "Processor time that the processes of the program have used.",
     "query host.tree_cpu"),
    ("program_memory", "B", "Resident memory of all processes of the program together.",
     "query host.tree_rss, export hosts/HOST/tree_rss, page rss"),
    ("program_memory_peak", "B", "The most of it in any sample.",
     "export hosts/HOST/peak_memory, compare memory"),
    ("host_sample_time", "unix", "When a host was sampled.", "query host.time"),
)  # fmt: skip
_HOST_PLACES = "report machines.metrics, export METRIC, suite runs.values"
_LEVELS = tuple(
    (f"cpu_avg_utilization_over{level}_pct", "%",
     f"Share of the samples in which the mean over cores was {level} % or more.", _HOST_PLACES)
    for level in (20, 40, 80, 100)
)  # fmt: skip
LIGHTGBM = _from(
    MONITOR,
    ("cpu_avg_utilization_pct", "%", "Mean utilisation of all cores over all samples.",
     _HOST_PLACES),
    *_LEVELS,
    ("max_t_cpu_pct_per_cpu_avg", "%", "The most over time of the mean over cores.",
     _HOST_PLACES),
    ("max_t_cpu_pct_per_cpu_min", "%", "The most over time of the least used core.",
     _HOST_PLACES),
    ("max_t_cpu_pct_per_cpu_max", "%", "The most over time of the most used core.",
     _HOST_PLACES),
    ("node_cpu_hours", "h", "Hours watched times cores.", _HOST_PLACES),
    ("node_unused_cpu_hours", "h",
     "Of those, what was not used: times (100 - cpu_avg_utilization_pct) / 100.",
     _HOST_PLACES),
    ("node_max_memory_utilization_pct", "%", "The most of the host's memory in use.",
     _HOST_PLACES),
    ("node_max_disk_utilization_pct", "%", "The most of the file system in use.", _HOST_PLACES),
) + _from(
    COUNTED,
    ("total_disk_io_read", "B", "Read from disks during the run.", _HOST_PLACES),
    ("total_disk_io_write", "B", "Written to disks during the run.", _HOST_PLACES),
    ("total_net_lo_sent", "B", "Sent over loopback during the run.", _HOST_PLACES),
    ("total_net_lo_receive", "B", "Received over loopback during the run.", _HOST_PLACES),
    ("total_net_ext_sent", "B", "Sent over all other interfaces during the run.", _HOST_PLACES),
    ("total_net_ext_receive", "B", "Received over all other interfaces during the run.",
     _HOST_PLACES),
)  # fmt: skip
_TASK_PLACES = "export METRIC, suite runs.values"
LIGHTGBM_TASKS = _from(
    SPANS,
    ("time_data_loading", "s", "Seconds in which a library reads and bins data (region `dataset`).",
     _TASK_PLACES),
    ("time_data_generation", "s", "Seconds in which scikit-learn makes data (region `generate`).",
     _TASK_PLACES),
    ("time_training", "s", "Seconds of training (region `fit`), without loading in it.", _TASK_PLACES),
    ("time_inferencing", "s", "Seconds of predicting (region `predict`).", _TASK_PLACES),
    ("time_inferencing_per_query", "s", "Of these, by the rows that were predicted.", _TASK_PLACES),
    ("prediction_batches", "batches", "Calls that predict.", _TASK_PLACES),
    ("prediction_queries", "items", "Rows of all these calls.", _TASK_PLACES),
    ("prediction_latency_avg", "us", "Time of all these calls by all their rows.", _TASK_PLACES),
    *((f"{kind}_latency_p{n}_usecs", "us", f"{what} that {n} % of the calls do not exceed.", _TASK_PLACES)
      for kind, what in (("batch", "Time of a call"), ("prediction", "Time of a call by its rows,"))
      for n in (50, 75, 90, 95, 99)),
    ("train_data.length", "items", "Rows of the data set that is trained on, of each node.", _TASK_PLACES),
    ("train_data.width", "count", "Its features.", _TASK_PLACES),
    ("inference_data_length", "items", "Rows of the data set that a process loads which trains nothing.",
     _TASK_PLACES),
    ("inference_data_width", "count", "Its features.", _TASK_PLACES),
) + _from(
    EVENTS,
    ("node_metric", "", "Any of these of a node, and those of an iteration: `node_0/valid_0.rmse`.",
     "query metrics.value, export node_NODE/DATA.METRIC"),
    ("node_metric_time", "unix", "When it was recorded; of a whole run null.", "query metrics.time"),
)  # fmt: skip
RUNS = _from(
    RUN,
    ("started", "unix", "When a run began.", "query runs.started, report started"),
    ("duration", "s", "Wall time of a run, from the start of the program to its end.",
     "query runs.duration, export duration, report duration, compare duration"),
    ("exit_code", "count", "The program's exit code.", "query runs.exit, export exit_code"),
    ("processes", "count", "Python processes that recorded something.", "query runs.processes"),
    ("records", "count", "Events in the record.", "query runs.records"),
    ("lost", "count", "Events that were lost.", "query runs.lost"),
)  # fmt: skip
SUITES = _from(
    SUITE,
    ("perf", "items/s", "Mean of a benchmark's rates, without the smallest and the largest where there are "
     "five or more; another unit stands in `unit`. In charts and with `--target` it is the sum over "
     "processes that ran side by side.", "suite perf"),
    ("sem", "1", "Standard error of perf, as a part of it.", "suite sem"),
    ("std", "1", "Sample standard deviation of the rates that are left, as a part of perf.", "suite std"),
    ("peak_memory", "B", "The most held on any device; on a processor, by the program's processes together.",
     "suite peak_memory"),
    ("energy", "J", "Joules of the devices of one run, on average over runs.", "suite energy"),
    ("perf_per_watt", "items/J", "perf by the watts of one run.", "suite perf_per_watt"),
    ("score", "items/s",
     "(Sum of perf over its devices) x (1 - fail / n); of a suite exp(sum(w ln(score + 1)) "
     "/ sum(w)), the weighted geometric mean.", "suite score"),
    ("weight", "count", "What a benchmark counts in the suite's score.", "suite weight"),
    ("fail", "count", "Runs that failed; one for a benchmark that should have run and did not.",
     "suite fail"),
    ("n", "count", "Runs that there should have been.", "suite n"),
    ("ngpu", "count", "Devices of one run.", "suite ngpu"),
)  # fmt: skip

FLOPS = _from(
    "PyTorch's counter in one step of a second run, and " + SPANS,
    ("flops_per_step", "FLOP", "Floating-point operations of a step, of all ranks; without a formula, 0.",
     "report flops.step"),
    ("flops_rate", "FLOP/s", "Operations of a step by the mean seconds of the measured steps; the sum over "
     "ranks.", "report flops.rate"),
    ("flops_peak", "FLOP/s", "What one device can do at best, by `--peak-flops`.", "report flops.peak"),
    ("mfu", "1", "Operations a second by those that the devices of all ranks, one each, can do at best.",
     "report flops.mfu"),
)  # fmt: skip

STUDIES = _from(
    SPANS + ", and records of trials",
    ("study_seconds", "s", "From the begin of a study until its best trial was known.",
     "report profile.studies.seconds, export STUDY/seconds, compare study"),
    ("study_in_trials", "s", "Time of all workers in trials, without the framework's functions that they "
     "call.",
     "report profile.studies.in_trials, export STUDY/in_trials"),
    ("study_in_framework", "s", "Time of all workers in the framework: setup of trials, its functions within "
     "them, storing of results.", "report profile.studies.in_framework, export STUDY/in_framework"),
    ("study_idle", "s", "Time of workers that had no more trials to run.",
     "report profile.studies.idle, export STUDY/idle"),
    ("study_workers", "count", "Threads that ran trials, or trials at once where one thread had several.",
     "report profile.studies.workers, export STUDY/workers"),
    ("study_trials", "count", "Trials of a study that were completed, pruned, or have failed.",
     "export STUDY/trials/complete, export STUDY/trials/pruned, export STUDY/trials/failed"),
    ("trial_seconds", "s", "A trial from its first line to its last; of folds, the sum.",
     "report profile.studies.trials.seconds"),
    ("trial_setup", "s", "For which a trial's worker was free before it, while the study went on.",
     "report profile.studies.trials.setup"),
    ("trial_load", "s", "Of a trial, until it first trained or evaluated.",
     "report profile.studies.trials.load"),
    ("trial_train", "s", "Training in a trial.", "report profile.studies.trials.train"),
    ("trial_validate", "s", "Evaluation in a trial.", "report profile.studies.trials.validate"),
    ("trial_framework", "s", "Functions of the framework in a trial.",
     "report profile.studies.trials.framework"),
    ("trial_store", "s", "Storing what a trial came to, after it.",
     "report profile.studies.trials.store"),
    ("trial_other", "s", "The rest of a trial.", "report profile.studies.trials.other"),
    ("trial_value", "", "What a trial came to, in the program's unit; the mean of its folds.",
     "report profile.studies.trials.values, export STUDY/best/VALUE, compare best"),
    ("phase_seconds", "s", "A phase of a study: of all workers together.",
     "report profile.studies.phases.seconds, export STUDY/phases/PHASE/seconds"),
    ("phase_cpu", "s", "Processor time in a phase, as sampled; workers that do different things at the same "
     "moment share it evenly.", "report profile.studies.phases.cpu, export STUDY/phases/PHASE/cpu"),
    ("phase_peak_rss", "B", "What the program's processes held together at most in a phase.",
     "report profile.studies.phases.peak_rss, export STUDY/phases/PHASE/peak_rss"),
    ("phase_energy", "J", "Energy of the devices in a phase, divided as its processor time is.",
     "report profile.studies.phases.energy, export STUDY/phases/PHASE/energy"),
)  # fmt: skip

GROUPS = {
    "Steps, rates and regions": STEPS,
    "FLOPs": FLOPS,
    "Evaluation": EVALUATION,
    "Hyper-parameter studies": STUDIES,
    "Losses and other values": VALUES,
    "Devices": DEVICES,
    "Hosts": HOST,
    "Hosts, as lightgbm-benchmark names them": LIGHTGBM,
    "Tasks, as lightgbm-benchmark names them": LIGHTGBM_TASKS,
    "Runs": RUNS,
    "Suites": SUITES,
}
"""All metrics by the heading that docs/metrics.md has for them."""
METRICS = {metric.name: metric for group in GROUPS.values() for metric in group}
"""All metrics by name."""
_PLACES = {place: metric for metric in METRICS.values() for place in metric.places}


def metric_at(place: str) -> Metric:
    """The metric at ``place``, which is one of :attr:`Metric.places`. Raises KeyError if there is none."""
    return _PLACES[place]


def unit_of(place: str) -> str:
    """The unit of the metric at ``place``. Raises KeyError if there is none."""
    return _PLACES[place].unit


def shown_at(place: str) -> tuple[str, float]:
    """The unit in which the metric at ``place`` is displayed, and the factor. Raises KeyError."""
    return shown(unit_of(place))


def shown(unit: str) -> tuple[str, float]:
    """The unit in which values of ``unit`` are displayed, and the factor to multiply them by."""
    # A metric of the program's own may have any unit.
    known = UNITS.get(unit)
    return (known.shown or unit, known.factor) if known else (unit, 1.0)


def matching(pattern: str) -> Iterator[Metric]:
    """The metrics whose name, unit, definition or a place matches a regular expression, in any case.

    Raises UserError if ``pattern`` is no regular expression.
    """
    import re  # every report imports this module, and few look for a metric

    try:
        regex = re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise UserError(f"{pattern!r} is no regular expression: {error}") from None
    for metric in METRICS.values():
        texts = (metric.name, UNITS[metric.unit].name, metric.definition, *metric.places)
        if any(map(regex.search, texts)):
            yield metric


def as_markdown() -> str:
    """The text of docs/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "Every number that injector records, derives or exports. `inject metrics [REGEX]` lists them,",
        "`--json` as data. This page is made from the same registry (`injector/metrics.py`), by",
        "`inject metrics --format md`.",
        "",
        "Everything is kept in the units below and converted where it is displayed only: bytes as GB, joules",
        "as kJ, fractions as percent. Names in capitals stand for those of a run: `LOOP` for `train`,",
        "`REGION` for `io`, `WHAT` for `evaluation` or `predict`, `METRIC` for the metric's own name.",
        "`query` names a column of a",
        "[view](query.md), `export` a metric in a",
        "[tracker](export.md), `suite` a column of `inject suite report --json`, `report` a key of",
        "`inject report --json`, `compare` a figure of [`inject compare`](compare.md), `page` a plot.",
    ]
    for title, group in GROUPS.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| metric | unit | what | from | where |",
            "|---|---|---|---|---|",
        ]
        for metric in group:
            places = "<br>".join(_place_as_code(place) for place in metric.places)
            unit = UNITS[metric.unit].name
            cells = (f"`{metric.name}`", unit, metric.definition, metric.source, places)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _place_as_code(place: str) -> str:
    kind, _, name = place.partition(" ")
    return f"{kind} `{name}`"
