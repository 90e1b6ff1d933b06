"""Reads offline runs of Weights & Biases with the classes of its client."""

from __future__ import annotations

import json
import struct
from pathlib import Path


def records(path):
    """The records of a ``.wandb`` file: the log format of LevelDB, behind a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    data = path.read_bytes()
    assert data.startswith(b":W&B")
    at, whole = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part of one
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""


class ReadRun:
    """What is in an offline run."""

    def __init__(self, folder):
        self.folder = Path(folder)
        [path] = self.folder.glob("run-*.wandb")
        self.config, self.summary, self.history, self.axes = {}, {}, [], {}
        self.files = set()
        for one in records(path):
            kind = one.WhichOneof("record_type")
            if kind == "run":
                self.run = one.run
                self._update(self.config, one.run.config.update)
            elif kind == "config":
                self._update(self.config, one.config.update)
            elif kind == "summary":
                self._update(self.summary, one.summary.update)
            elif kind == "history":
                self.history.append(self._update({}, one.history.item))
            elif kind == "metric":
                self.axes[one.metric.name] = one.metric.step_metric
            elif kind == "files":
                self.files |= {each.path for each in one.files.files}
            elif kind == "exit":
                self.exit = one.exit.exit_code
            elif kind == "tbrecord":
                raise AssertionError(kind)

    @staticmethod
    def _update(found, items):
        for each in items:
            key = each.key or "/".join(each.nested_key)
            found[key] = json.loads(each.value_json)
        return found

    def points(self, name):
        axis = self.axes[name]
        return [(row[axis], row[name]) for row in self.history if name in row]
