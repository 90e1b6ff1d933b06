"""A run as one of Weights & Biases, written in its offline mode: ``wandb sync FOLDER`` sends it.

A point of the history has no step of its own choosing there: steps, and samples of the monitor, are two
metrics that the others are drawn over.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

from .content import Content, Series
from .tracked import Beginning, Destination, exported, missing_library, refusing

PROJECT = "injector"


def export(contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Make an offline run of each; the sentences that say where. Raises UserError, OSError."""
    yield from exported(begin, contents, target)
    import wandb

    wandb.teardown()  # its service may write the last records only when it ends


def begin(target: Destination, run: Beginning) -> WandbRun:
    """A new offline run, in ``wandb/`` in the folder ``target.output``. Raises UserError, OSError."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # its makers need not hear of it
    try:
        import wandb
    except ImportError as error:
        raise missing_library(error, "wandb") from None
    folder = os.path.abspath(target.output or os.curdir)  # its service has a folder of its own
    os.makedirs(folder, exist_ok=True)
    with refusing("Weights & Biases"):
        # It would describe this process: its arguments, its packages, its machine.
        settings = wandb.Settings(
            mode="offline",
            silent=True,
            console="off",
            disable_git=True,
            disable_code=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
        )
        made = wandb.init(
            # $WANDB_RUN_ID and $WANDB_RESUME are meant for a run of the program's own.
            id=secrets.token_hex(4),
            resume="never",
            project=target.project or os.environ.get("WANDB_PROJECT") or PROJECT,
            name=run.name,
            group=target.suite,
            dir=folder,
            reinit="create_new",
            settings=settings,
        )
    return WandbRun(wandb, made, run.name)


class WandbRun:
    """A run of Weights & Biases that is open."""

    def __init__(self, library: Any, run: Any, name: str) -> None:
        self._library = library
        self._run = run
        self._name = name
        self._defined: set[str] = set()

    def log(self, series: Iterable[Series]) -> None:
        """Add points: those of one step in one row of the history."""
        rows: dict[tuple[str, int], dict[str, float]] = {}
        for one in series:
            name = _name(one.name)
            if name not in self._defined:
                self._defined.add(name)
                self._run.define_metric(name, step_metric=one.axis)
            for step, time, value in one.points():
                row = rows.setdefault((one.axis, step), {})
                row[name] = value
                # The first of them: a value that is given later for an earlier step is of that step.
                row["_timestamp"] = min(time, row.get("_timestamp", time))
        with refusing("Weights & Biases"):
            for (axis, step), row in sorted(rows.items()):
                self._run.log({axis: step, **row})

    def end(self, content: Content) -> str:
        """Add its properties, figures and files, and close it with the program's exit code."""
        ended = content.summary.exit or {}
        with refusing("Weights & Biases"):
            self._run.config.update(content.params)
            self._run.config.update({"tags": content.tags})
            self._run.tags = tuple(
                f"{key}={value}"[:64] for key, value in content.summary.tags.items()
            )
            for name, figure in content.figures.items():
                self._run.summary[_name(name)] = figure.value
            for name, made in content.pages.items():
                self._add(name, made().encode())
            for name, path in content.files.items():
                self._add(f"artifacts/{name}", path)
            folder = os.path.dirname(self._run.dir)
            failed = ended.get("signal") or ended.get("code") != 0
            self._run.finish(exit_code=int(ended.get("code") or bool(failed)))
        return f"{self._name}: {folder}; wandb sync {folder}"

    def _add(self, name: str, made: bytes | str) -> None:
        """Keep a file, by its contents or its path, among the run's own."""
        target = os.path.join(self._run.dir, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if isinstance(made, bytes):
            with open(target, "wb") as file:
                file.write(made)
        else:
            shutil.copyfile(made, target)
        self._run.save(target, base_path=self._run.dir, policy="now")


def _name(name: str) -> str:
    return name.replace(".", "_")  # a dot would be a level of its own there
