"""A log of the Deep Learning Benchmarking Suite: what one benchmark printed.

Some of its lines are parameters, a key and JSON: ``__exp.model__= "resnet50"``. If a key comes several times,
the last one counts (``python/dlbs/logparser.py`` of DLBS). ``results.time`` and ``results.time_data`` are
milliseconds of a batch.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from ...errors import UserError

PARAMETERS = {
    "exp.framework": "the framework that a benchmark measures; a suite names its entry by it",
    "exp.model": "the model that is measured, such as resnet50",
    "exp.gpus": "the GPUs that a benchmark uses, by number, with commas (0,1,2,3), or with colons where they "
    "hold one replica together (0:1,2:3); empty for the processor",
    "exp.num_gpus": "how many GPUs a benchmark uses: devices of a run",
    "exp.num_replicas": "how many replicas of the model they hold, in the suite dlbs: 1 on the processor",
    "exp.replica_batch": "the batch size of each replica, or device: weak scaling keeps it",
    "exp.effective_batch": "the batch size of all replicas, the items of a step: strong scaling keeps it",
    "exp.num_warmup_batches": "batches that are left out of the numbers, as --skip of inject run",
    "exp.num_batches": "batches that are measured, as --stop of inject run",
    "exp.phase": "training or inference, as --phase of inject run",
    "exp.log_file": "the log of a job: inject suite run writes it there, with the parameters and results",
    "exp.docker": "whether a benchmark runs in a container, of the image exp.docker_image",
    "exp.docker_image": "the image of the container, or the Dockerfile that it is built from",
    "exp.status": "ok or success, in a log, or how its benchmark failed; exp.status_msg has the reason",
    "exp.node_id": "the name of the host, in a log",
    "results.time": "milliseconds of a batch, on average: step_time in milliseconds",
    "results.time_data": "milliseconds of each batch, in a log: a rate for each",
    "results.throughput": "items per second of all devices together: throughput",
    "results.start_time": "when the benchmark began, in a log; results.end_time when it ended",
}
"""The meaning of each parameter here, for ``inject help``."""
SUFFIXES = (".log", ".log.gz")
_PARAMETER = re.compile(r"[ \t]*__(.+?)__[ \t]*=(.*)")
SUCCEEDED = ("ok", "success")
"""The values of ``exp.status`` for success, by the suite's configuration and by scripts that read logs."""
TOLERANCE = 0.01
"""The fraction by which the mean of ``results.time_data`` may differ from ``results.time``."""


@dataclass
class BenchmarkLog:
    """One log: its parameters, and sentences on what is wrong with it."""

    path: str
    parameters: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def phase(self) -> str:
        return "inference" if self.parameters.get("exp.phase") == "inference" else "training"

    @property
    def seconds(self) -> float | None:
        """The mean seconds of a batch; None if the log has no result."""
        for key in ("results.time", f"results.{self.phase}_time"):
            if (milliseconds := _positive(self.parameters.get(key))) is not None:
                return milliseconds / 1e3
        rate, items = _positive(self.parameters.get("results.throughput")), self.items
        return items / rate if rate and items else None

    @property
    def items(self) -> float | None:
        """The items of a batch, of all replicas together."""
        effective = _positive(self.parameters.get("exp.effective_batch"))
        if effective is not None:
            return effective
        per_replica = _positive(self.parameters.get("exp.replica_batch"))
        return None if per_replica is None else per_replica * max(self.replicas, 1)

    @property
    def batches(self) -> list[float]:
        """The seconds of each batch if the log has those of the mean, else the mean alone."""
        mean, data = self.seconds, self.parameters.get("results.time_data")
        if mean is None:
            return []
        values = [_positive(value) for value in data] if isinstance(data, list) else []
        seconds = [value / 1e3 for value in values if value is not None]
        if (
            seconds
            and len(seconds) == len(values)
            and abs(sum(seconds) / len(seconds) - mean) < TOLERANCE * mean
        ):
            return seconds
        return [mean]

    @property
    def devices(self) -> tuple[str, ...]:
        """``cuda:0`` and so on, or ``cpu:0`` if it used none."""
        gpus = self.parameters.get("exp.gpus")
        numbers = re.findall(r"\d+", str(gpus)) if gpus not in (None, "") else []
        count = self.parameters.get("exp.num_gpus")
        if not numbers and isinstance(count, int):
            numbers = [str(number) for number in range(min(count, 1 << 16))]
        return tuple(f"cuda:{number}" for number in numbers) or ("cpu:0",)

    @property
    def replicas(self) -> int:
        """The number of replicas of the model. GPUs that are joined by a colon hold one together."""
        gpus = str(self.parameters.get("exp.gpus") or "")
        return len(re.findall(r"\d+(?::\d+)*", gpus)) or len(self.devices)

    @property
    def failure(self) -> str:
        """How the benchmark failed, if the log says that it did; else empty."""
        for key in ("exp.status", "results.status"):
            if (status := self.parameters.get(key)) is not None:
                if status in SUCCEEDED:
                    return ""
                message = self.parameters.get("exp.status_msg")
                return f"{key}: {status}{f': {message}' if message else ''}"
        return ""

    @property
    def code(self) -> int | None:
        """0 if the benchmark succeeded and has a result, else None: logs have no exit codes."""
        return 0 if self.seconds is not None and not self.failure else None


def logs_in(places: Iterable[str]) -> list[str]:
    """The logs that ``places`` name: files as they are, and all ``*.log`` and ``*.log.gz`` below folders.

    Raises UserError if a place does not exist, or a folder has no logs.
    """
    logs: dict[str, None] = {}
    for place in places:
        if not os.path.exists(place):
            raise UserError(f"{place}: there is no such file or folder")
        if not os.path.isdir(place):
            logs[place] = None
            continue
        walked = sorted(os.walk(place))
        inside = [os.path.join(at, name) for at, _, files in walked for name in sorted(files)
                  if name.endswith(SUFFIXES)]  # fmt: skip
        if not inside:
            raise UserError(f"{place}: no {' or '.join(SUFFIXES)} file is in it, nor below it")
        logs.update(dict.fromkeys(inside))
    return list(logs)


def read_log(path: str) -> BenchmarkLog:
    """The log in the file ``path``, as far as it can be read. What cannot is among its problems."""
    log = BenchmarkLog(path)
    invalid = object()
    torn: int | None = None
    number = 0
    for number, line, whole in _lines(log):
        stripped = line.lstrip(" \t")
        match = _PARAMETER.match(line) if stripped.startswith("__") else None
        if not whole:
            torn = number
        if match is None:
            continue
        key, text = match[1].strip(), match[2].strip()
        # Surrogates stand for bytes that are no UTF-8. They do not matter in other lines, the program's own.
        if any("\udc80" <= letter <= "\udcff" for letter in key + text):
            readable = key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            log.problems.append(f"{path}:{number}: {readable} is no UTF-8")
            continue
        try:
            value = json.loads(text) if text else None
        except (ValueError, RecursionError):
            value = invalid
        # A file that is cut off may end within a number, and what is left is still one.
        if not whole and (value is invalid or type(value) in (int, float)):
            log.problems.append(f"{path}:{number}: cut off within the value of {key}")
        elif value is invalid:
            log.problems.append(f"{path}:{number}: {key} is no JSON: {text[:40]}")
        else:
            log.parameters[key] = value
    log.problems += _incomplete(log, f"after line {number}" if torn is None else f"in line {torn}")
    return log


def _incomplete(log: BenchmarkLog, end: str) -> Iterator[str]:
    """What a log lacks that has been read to its ``end``."""
    if not log.parameters:
        if not log.problems:
            yield f'{log.path}: no line of it is a parameter, such as __exp.model__= "resnet50"'
    elif log.code is None and not log.failure:
        yield (
            f"{log.path}: it ends {end} without results.time or results.throughput: it was cut off, or its "
            "benchmark did not end"
        )


def _lines(log: BenchmarkLog) -> Iterator[tuple[int, str, bool]]:
    """Number and text of each line, and whether it ends in a newline.

    What cannot be read is added to the problems of ``log``.
    """
    open_file = gzip.open if log.path.endswith(".gz") else open
    number = 0
    try:
        with open_file(log.path, "rb") as file:
            for number, line in enumerate(file, 1):
                text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
                yield number, text, line.endswith(b"\n")
    except gzip.BadGzipFile as error:
        after = f"damaged after line {number}: {error}" if number else "no gzip archive"
        log.problems.append(f"{log.path}: it is {after}")
    except (EOFError, zlib.error) as error:
        log.problems.append(f"{log.path}: the archive is cut off after line {number}: {error}")
    except OSError as error:
        log.problems.append(f"{log.path}: it cannot be read: {error.strerror or error}")


def _positive(value: object) -> float | None:
    """``value`` if it is a finite number above 0, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if isfinite(value) and value > 0 else None
