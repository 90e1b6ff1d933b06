"""Exports to MLflow: a run with tags, parameters, figures, series by step, and files as artifacts.

A suite becomes a parent run. What MLflow shows about the origin of a run (command, user, commit) are tags
with names of MLflow's own.
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
from urllib.parse import unquote

from ..errors import UserError
from ..exit_status import code_of
from .content import Content
from .series import Series, clean
from .tracked import Beginning, Destination, beginning_of, missing_library, refusing

EXPERIMENT = "injector"
METRICS, PARAMS, TAGS = 1000, 100, 100
"""The most of each that MLflow accepts in one request."""
LONGEST_PARAM, LONGEST_TAG = 6000, 8000
"""The most characters of a value."""
Item = TypeVar("Item")


def export(contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Create a run for each of ``contents``. Yields sentences that name them. Raises UserError."""
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
    """A new run, open. Raises UserError."""
    return MlflowStore(target).begin(run)


class MlflowStore:
    """An experiment in MLflow's store or server."""

    def __init__(self, target: Destination) -> None:
        """Raises UserError if MLflow is not installed, or the experiment cannot be opened."""
        # By default MLflow tries for minutes to reach a server, and reports its use to its makers.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        try:
            import mlflow
            from mlflow.entities import Metric, Param, RunTag

            self.uri: str = target.uri or mlflow.get_tracking_uri()
            # Without these MLflow would complain of the address.
            if self.uri.startswith("sqlite:"):
                import_module("sqlalchemy")
                import_module("alembic")
        except ImportError as error:
            raise missing_library(error, "mlflow") from None
        self.project = target.project or os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
        self.metric: Callable[..., Any] = Metric
        self.param: Callable[..., Any] = Param
        self.tag: Callable[..., Any] = RunTag
        with self.refusing():
            _check_database(self.uri)
            self.client: Any = mlflow.MlflowClient(self.uri)
            self.experiment = self._experiment()

    def _experiment(self) -> str:
        """The id of the experiment, which is created if there is none of that name."""
        experiment = self.client.get_experiment_by_name(self.project)
        if experiment is None:
            files = artifact_location(self.uri, self.project)
            return str(self.client.create_experiment(self.project, files))
        if experiment.lifecycle_stage != "active":
            raise UserError(
                f"experiment {self.project} of {self.uri} was deleted: --project names another"
            )
        return str(experiment.experiment_id)

    def refusing(self) -> AbstractContextManager[None]:
        """A context in which errors of MLflow, its database or the network become UserErrors."""
        return refusing(f"MLflow at {self.uri}")

    def create(self, name: str, tags: Mapping[str, str], started: float | None) -> str:
        """Create a run that started at ``started`` (unix seconds), and return its id."""
        with self.refusing():
            run = self.client.create_run(
                self.experiment,
                start_time=None if started is None else round(started * 1000),
                tags=dict(tags),
                run_name=name,
            )
        return str(run.info.run_id)

    def begin(self, run: Beginning, tags: Mapping[str, str] | None = None) -> MlflowRun:
        """A new run, open."""
        return MlflowRun(self, self.create(run.name, tags or {}, run.started), run.name)


def _database(uri: str) -> str:
    """The path of the file that ``uri`` names, in which spaces may be ``%20``; empty if it names none."""
    kind, _, path = uri.partition("?")[0].partition(":///")
    return unquote(path) if kind == "sqlite" else ""


def _check_database(uri: str) -> None:
    """Raise OSError if the database's file cannot be opened, which MLflow tries for two minutes."""
    if path := _database(uri):
        is_new = not os.path.exists(path)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o666))
        if is_new:
            os.remove(path)


def artifact_location(uri: str, project: str) -> str | None:
    """The address for the files of an experiment; None for MLflow's own choice.

    They lie beside a database that ``uri`` names with its folder. MLflow's choice would be the current
    folder, which may be the program's.
    """
    folder = os.path.dirname(_database(uri))
    if not folder:
        return None
    return Path(os.path.abspath(folder), "mlruns", clean(project)).as_uri()


class MlflowRun:
    """A run in MLflow that is open."""

    def __init__(self, store: MlflowStore, run: str, name: str) -> None:
        self._store, self._run, self._name = store, run, name
        self._last: dict[str, int] = {}
        """By series, the largest step that was sent, whose value MLflow shows as that of the run."""

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
            for name, render in content.pages.items():
                client.log_text(run, render(), name)
            for name, path in content.files.items():
                client.log_artifact(run, path, os.path.join("artifacts", os.path.dirname(name)))
            client.set_terminated(run, status_of(content), ended or None)
        return f"{self._name}: run {run} of experiment {store.project} in {store.uri}"

    def _points(self, series: Iterable[Series]) -> Iterator[Any]:
        """The points of ``series`` as objects of MLflow."""
        for one in series:
            if len(one.steps):
                self._last[one.name] = max(self._last.get(one.name, 0), int(one.steps.max()))
            for step, time, value in one.points():
                yield self._store.metric(one.name, value, round(time * 1000), step)

    def _log(self, metrics: Iterable[Any]) -> None:
        """Send ``metrics``, as many in one request as MLflow accepts."""
        with self._store.refusing():
            for some in _parts(metrics, METRICS):
                self._store.client.log_batch(self._run, metrics=some)


def tags_of(content: Content) -> dict[str, str]:
    """The tags of the run, and those by which MLflow shows its origin."""
    tags = content.tags
    origin = {
        "mlflow.source.name": tags.get("injector.command"),
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": tags.get("injector.git.commit"),
        "mlflow.source.git.branch": tags.get("injector.git.branch"),
        "mlflow.user": getuser(),
        "mlflow.note.content": tags.get("injector.verdict"),
    }
    return {**tags, **{key: value for key, value in origin.items() if value}}


def status_of(content: Content) -> str:
    """MLflow's status for how the run ended."""
    code = code_of(content.summary.exit)
    if code is not None and code < 0:
        return "KILLED"
    return "FINISHED" if code == 0 else "FAILED"


def _parts(items: Iterable[Item], size: int) -> Iterator[Sequence[Item]]:
    """``items`` in parts of at most ``size``."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
