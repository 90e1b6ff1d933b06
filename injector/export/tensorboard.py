"""A run as event files of TensorBoard: its series as scalars, its parameters as those of its HParams page,
its properties as a text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from .content import Content, Destination, file_of, missing_library

SUFFIX = ".injector"
"""Of event files that are ours: those of an earlier export are replaced."""
FOLDER = "tensorboard"


def export(contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Write each run into a folder of its own; the sentences that say where. Raises UserError, OSError."""
    try:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from tensorboard.plugins.text.summary_v2 import text_pb
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        raise missing_library(error, "tensorboard") from None
    for content in contents:
        folder = file_of(content, target, "", FOLDER)
        os.makedirs(folder, exist_ok=True)
        before = [name for name in os.listdir(folder) if name.endswith(SUFFIX)]
        writer: Any = EventFileWriter(folder, filename_suffix=SUFFIX)
        began = content.summary.started or 0.0
        texts = "".join(f"- **{key}**: {text}\n" for key, text in content.tags.items())
        for summary in (
            hparams_pb(
                content.params, trial_id=content.tags["injector.folder"], start_time_secs=began
            ),
            text_pb("properties", texts),
        ):
            writer.add_event(event_pb2.Event(wall_time=began, summary=summary))
        count = 0
        for name, value, time, step in points_of(content):
            one = summary_pb2.Summary.Value(tag=name, simple_value=value)
            summary = summary_pb2.Summary(value=[one])
            writer.add_event(event_pb2.Event(wall_time=time, step=step, summary=summary))
            count += 1
        writer.close()
        for name in before:
            os.unlink(os.path.join(folder, name))
        yield f"{folder}: {count} values; tensorboard --logdir {os.path.dirname(folder) or '.'}"


def points_of(content: Content) -> Iterator[tuple[str, float, float, int]]:
    """Name, value, unix seconds and step of every figure and of every point of a series."""
    ended = content.summary.ended or content.summary.started or 0.0
    for name, figure in content.figures.items():
        yield name, figure.value, ended, 0
    for one in content.series:
        columns = (one.values.tolist(), one.times.tolist(), one.steps.tolist())
        for value, time, step in zip(*columns, strict=True):
            yield one.name, value, time, step
