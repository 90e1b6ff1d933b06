"""Exports to TensorBoard's event files: series as scalars, hyper-parameters, properties as a text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from .content import Content
from .series import Series
from .tracked import Beginning, Destination, exported, missing_library, path_of

SUFFIX = ".injector"
"""The end of the names of our event files, by which those of an earlier export are found and replaced."""
FOLDER = "tensorboard"
"""The folder if none is named."""


def export(contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Write each run into a folder of its own. Yields sentences on where. Raises UserError, OSError."""
    return exported(begin, contents, target)


def begin(target: Destination, run: Beginning) -> TensorBoardRun:
    """A new event file in the folder of the run. Raises UserError, OSError."""
    try:
        import tensorboard.summary.writer.event_file_writer  # noqa: F401
    except ImportError as error:
        raise missing_library(error, "tensorboard") from None
    return TensorBoardRun(path_of(run.folder, target, folder=FOLDER), run)


class TensorBoardRun:
    """A run with an event file that is open."""

    def __init__(self, folder: str, run: Beginning) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        os.makedirs(folder, exist_ok=True)
        self._outdated = [name for name in os.listdir(folder) if name.endswith(SUFFIX)]
        self._folder, self._run = folder, run
        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        self._writer: Any = EventFileWriter(folder, filename_suffix=SUFFIX)
        self._count = 0

    def log(self, series: Iterable[Series]) -> None:
        """Add points as scalars."""
        for one in series:
            for step, time, value in one.points():
                self._add(one.name, value, time, step)
        self._writer.flush()

    def end(self, content: Content) -> str:
        """Add parameters, tags and figures, and remove the event files of earlier exports."""
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from tensorboard.plugins.text.summary_v2 import text_pb

        began = self._run.started or 0.0
        texts = "".join(f"- **{key}**: {text}\n" for key, text in content.tags.items())
        for summary in (
            hparams_pb(content.params, trial_id=self._run.folder, start_time_secs=began),
            text_pb("properties", texts),
        ):
            self._writer.add_event(self._event(wall_time=began, summary=summary))
        ended = content.summary.ended or began
        for name, figure in content.figures.items():
            self._add(name, figure.value, ended, 0)
        self._writer.close()
        for name in self._outdated:
            os.unlink(os.path.join(self._folder, name))
        parent = os.path.dirname(self._folder) or "."
        return f"{self._folder}: {self._count} values; tensorboard --logdir {parent}"

    def _add(self, name: str, value: float, time: float, step: int) -> None:
        summary = self._summary(value=[self._summary.Value(tag=name, simple_value=value)])
        self._writer.add_event(self._event(wall_time=time, step=step, summary=summary))
        self._count += 1
