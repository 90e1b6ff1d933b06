"""A run as one of MLflow's: tags, parameters, figures, series by step, and its page as an artifact.

A suite is a run that holds the others. What MLflow shows of where a run came from (command, user, commit) has
names of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from getpass import getuser
from itertools import islice
from typing import Any, TypeVar

from ..errors import UserError
from .content import Content, Destination, clean, missing_library

EXPERIMENT = "injector"
METRICS, PARAMS, TAGS = 1000, 100, 100
"""The most that MLflow takes of each in one request."""
LONGEST_PARAM, LONGEST_TAG = 6000, 8000
Item = TypeVar("Item")


def export(contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Make a run of each; the sentences that say which. Raises UserError."""
    store = MlflowStore(target.uri, target.project)
    parent = None
    for content in contents:
        with store.failing():
            if target.suite is not None and parent is None:
                tags = {"injector.suite": target.suite}
                parent = store.create(target.suite, tags, content.summary.started)
            own = {} if parent is None else {"mlflow.parentRunId": parent}
            run = store.create(content.name, own, content.summary.started)
            store.fill(run, content)
        yield f"{content.name}: run {run} of experiment {store.project} in {store.uri}"
    if parent is not None:
        with store.failing():
            store.client.set_terminated(parent)
        yield f"{target.suite}: run {parent}, which holds these"


class MlflowStore:
    """An experiment in MLflow's store or server. Raises UserError where it cannot be had."""

    def __init__(self, uri: str | None, project: str | None) -> None:
        # MLflow would ask a server that is away for minutes, and tell its makers that it was used.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        try:
            import mlflow
            from mlflow.entities import Metric, Param, RunTag
        except ImportError as error:
            raise missing_library(error, "mlflow") from None
        self.uri: str = uri or mlflow.get_tracking_uri()
        self.project = project or os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
        self._metric: Callable[..., Any] = Metric
        self._param: Callable[..., Any] = Param
        self._tag: Callable[..., Any] = RunTag
        with self.failing():
            self.client: Any = mlflow.MlflowClient(self.uri)
            self.experiment = self._experiment()

    def _experiment(self) -> str:
        found = self.client.get_experiment_by_name(self.project)
        if found is None:
            return str(self.client.create_experiment(self.project))
        if found.lifecycle_stage != "active":
            raise UserError(
                f"experiment {self.project} of {self.uri} was deleted: --project names another"
            )
        return str(found.experiment_id)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """What MLflow, its database or the network refuse becomes a UserError."""
        try:
            yield
        except UserError:
            raise
        except Exception as error:  # of MLflow, of requests, of SQLAlchemy: each has its own
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise UserError(f"MLflow at {self.uri} did not take it: {lines[0]}") from None

    def create(self, name: str, tags: Mapping[str, str], started: float | None) -> str:
        """The id of a new run; ``started`` is unix seconds."""
        made = self.client.create_run(
            self.experiment,
            start_time=None if started is None else round(started * 1000),
            tags=dict(tags),
            run_name=name,
        )
        return str(made.info.run_id)

    def fill(self, run: str, content: Content) -> None:
        """Put all of ``content`` into ``run``, and end it as the program ended."""
        summary = content.summary
        ended = round((summary.ended or summary.started or 0.0) * 1000)
        tags = [
            self._tag(clean(key), _cut(text, LONGEST_TAG)) for key, text in tags_of(content).items()
        ]
        params = [
            self._param(clean(key), _cut(text, LONGEST_PARAM))
            for key, text in content.params.items()
        ]
        for some in _parts(tags, TAGS):
            self.client.log_batch(run, tags=some)
        for some in _parts(params, PARAMS):
            self.client.log_batch(run, params=some)
        figures = (self._metric(name, one.value, ended, 0) for name, one in content.figures.items())
        self.log(run, figures)
        self.log(run, self._points(content))
        for name, made in content.pages.items():
            self.client.log_text(run, made(), name)
        self.client.set_terminated(run, status_of(content), ended or None)

    def _points(self, content: Content) -> Iterator[Any]:
        for one in content.series:
            columns = (one.values.tolist(), (one.times * 1000).tolist(), one.steps.tolist())
            for value, time, step in zip(*columns, strict=True):
                yield self._metric(one.name, value, round(time), step)

    def log(self, run: str, metrics: Iterable[Any]) -> None:
        """Log them, so many in each request."""
        for some in _parts(metrics, METRICS):
            self.client.log_batch(run, metrics=some)


def tags_of(content: Content) -> dict[str, str]:
    """The tags of the run, and those by which MLflow shows where it came from."""
    tags = content.tags
    known = {
        "mlflow.source.name": tags.get("injector.command"),
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": tags.get("injector.git.commit"),
        "mlflow.source.git.branch": tags.get("injector.git.branch"),
        "mlflow.user": getuser(),
        "mlflow.note.content": tags.get("injector.verdict"),
    }
    return {**tags, **{key: value for key, value in known.items() if value}}


def status_of(content: Content) -> str:
    """MLflow's word for how it ended; a run that was stopped on purpose has finished."""
    ended = content.summary.exit or {}
    if ended.get("signal"):
        return "KILLED"
    return "FINISHED" if ended.get("code") == 0 else "FAILED"


def _parts(items: Iterable[Item], size: int) -> Iterator[Sequence[Item]]:
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
