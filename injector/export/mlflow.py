"""A run as one of MLflow's: tags, parameters, figures, series by step, and its page as an artifact.

A suite is a run that holds the others. What MLflow shows of where a run came from (command, user, commit) has
names of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from getpass import getuser
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from ..errors import UserError
from .content import Content, Series, clean
from .tracked import Beginning, Destination, beginning_of, missing_library, refusing

EXPERIMENT = "injector"
METRICS, PARAMS, TAGS = 1000, 100, 100
"""The most that MLflow takes of each in one request."""
LONGEST_PARAM, LONGEST_TAG = 6000, 8000
Item = TypeVar("Item")


def export(contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Make a run of each; the sentences that say which. Raises UserError."""
    store = MlflowStore(target)
    parent = None
    for content in contents:
        if target.suite is not None and parent is None:
            tags = {"injector.suite": target.suite}
            parent = store.create(target.suite, tags, content.summary.started)
        own = {} if parent is None else {"mlflow.parentRunId": parent}
        run = store.begin(beginning_of(content), own)
        run.log(content.series)
        yield run.end(content)
    if parent is not None:
        with store.refusing():
            store.client.set_terminated(parent)
        yield f"{target.suite}: run {parent}, which holds these"


def begin(target: Destination, run: Beginning) -> MlflowRun:
    """A new run. Raises UserError."""
    return MlflowStore(target).begin(run)


class MlflowStore:
    """An experiment in MLflow's store or server. Raises UserError where it cannot be had."""

    def __init__(self, target: Destination) -> None:
        # MLflow would ask a server that is away for minutes, and tell its makers that it was used.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        try:
            import mlflow
            from mlflow.entities import Metric, Param, RunTag

            self.uri: str = target.uri or mlflow.get_tracking_uri()
            if self.uri.startswith("sqlite:"):  # without, MLflow complains of the address
                import_module("sqlalchemy")
                import_module("alembic")
        except ImportError as error:
            raise missing_library(error, "mlflow") from None
        self.project = target.project or os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
        self.metric: Callable[..., Any] = Metric
        self.param: Callable[..., Any] = Param
        self.tag: Callable[..., Any] = RunTag
        with self.refusing():
            self.client: Any = mlflow.MlflowClient(self.uri)
            self.experiment = self._experiment()

    def _experiment(self) -> str:
        found = self.client.get_experiment_by_name(self.project)
        if found is None:
            return str(self.client.create_experiment(self.project, beside(self.uri, self.project)))
        if found.lifecycle_stage != "active":
            raise UserError(
                f"experiment {self.project} of {self.uri} was deleted: --project names another"
            )
        return str(found.experiment_id)

    def refusing(self) -> AbstractContextManager[None]:
        """What MLflow, its database or the network refuse becomes a UserError."""
        return refusing(f"MLflow at {self.uri}")

    def create(self, name: str, tags: Mapping[str, str], started: float | None) -> str:
        """The id of a new run; ``started`` is unix seconds."""
        with self.refusing():
            made = self.client.create_run(
                self.experiment,
                start_time=None if started is None else round(started * 1000),
                tags=dict(tags),
                run_name=name,
            )
        return str(made.info.run_id)

    def begin(self, run: Beginning, tags: Mapping[str, str] | None = None) -> MlflowRun:
        """A new run, open."""
        return MlflowRun(self, self.create(run.name, tags or {}, run.started), run.name)


def beside(uri: str, project: str) -> str | None:
    """Where the files of an experiment lie, as an address, where its store is a database in a folder that
    ``uri`` names: beside it. MLflow would put them into the current folder, which may be the program's.
    """
    kind, _, path = uri.partition(":///")
    folder = os.path.dirname(path)
    if not folder or kind != "sqlite":
        return None
    return Path(os.path.abspath(folder), "mlruns", clean(project)).as_uri()


class MlflowRun:
    """A run of MLflow's that is open."""

    def __init__(self, store: MlflowStore, run: str, name: str) -> None:
        self._store, self._run, self._name = store, run, name
        self._last: dict[str, int] = {}
        """By series, the last step sent: MLflow shows the point of the largest one as the run's."""

    def log(self, series: Iterable[Series]) -> None:
        """Add points."""
        self._log(self._points(series))

    def end(self, content: Content) -> str:
        """Add its properties, figures and files, and end it as the program ended."""
        store, client, run = self._store, self._store.client, self._run
        summary = content.summary
        ended = round((summary.ended or summary.started or 0.0) * 1000)
        tags = [
            store.tag(clean(key), _cut(text, LONGEST_TAG)) for key, text in tags_of(content).items()
        ]
        params = [
            store.param(clean(key), _cut(text, LONGEST_PARAM))
            for key, text in content.params.items()
        ]
        with store.refusing():
            for some in _parts(tags, TAGS):
                client.log_batch(run, tags=some)
            for some in _parts(params, PARAMS):
                client.log_batch(run, params=some)
        self._log(
            store.metric(name, one.value, ended, self._last.get(name, -1) + 1)
            for name, one in content.figures.items()
        )
        with store.refusing():
            for name, made in content.pages.items():
                client.log_text(run, made(), name)
            for name, path in content.files.items():
                client.log_artifact(run, path, os.path.join("artifacts", os.path.dirname(name)))
            client.set_terminated(run, status_of(content), ended or None)
        return f"{self._name}: run {run} of experiment {store.project} in {store.uri}"

    def _points(self, series: Iterable[Series]) -> Iterator[Any]:
        for one in series:
            if len(one.steps):
                self._last[one.name] = max(self._last.get(one.name, 0), int(one.steps.max()))
            for step, time, value in one.points():
                yield self._store.metric(one.name, value, round(time * 1000), step)

    def _log(self, metrics: Iterable[Any]) -> None:
        """So many in each request."""
        with self._store.refusing():
            for some in _parts(metrics, METRICS):
                self._store.client.log_batch(self._run, metrics=some)


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
