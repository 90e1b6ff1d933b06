"""Exports to Weights & Biases in its offline mode: it writes a folder, which ``wandb sync FOLDER`` sends.

The history of such a run numbers its rows itself. So steps, samples and so on are metrics there, over which
the others are drawn.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

from .content import Content
from .series import Series
from .tracked import Beginning, Destination, exported, missing_library, refusing

PROJECT = "injector"


def export(contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Write an offline run for each of ``contents``. Yields sentences on where. Raises UserError, OSError."""
    yield from exported(begin, contents, target)
    import wandb

    wandb.teardown()  # its service may not write the last records before it ends


def begin(target: Destination, run: Beginning) -> WandbRun:
    """A new offline run, in ``wandb/`` in the folder ``target.output``. Raises UserError, OSError."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # no reports to its makers
    try:
        import wandb
    except ImportError as error:
        raise missing_library(error, "wandb") from None
    folder = os.path.abspath(target.output or os.curdir)  # its service has another current folder
    os.makedirs(folder, exist_ok=True)
    with refusing("Weights & Biases"):
        # By default it records arguments, packages and machine of this process, which is not the program's.
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
        wandb_run = wandb.init(
            # Not those of $WANDB_RUN_ID and $WANDB_RESUME, which are for the program's own run.
            id=secrets.token_hex(4),
            resume="never",
            project=target.project or os.environ.get("WANDB_PROJECT") or PROJECT,
            name=run.name,
            group=target.suite,
            dir=folder,
            reinit="create_new",
            settings=settings,
        )
    return WandbRun(wandb_run, run.name)


class WandbRun:
    """A run of Weights & Biases that is open."""

    def __init__(self, run: Any, name: str) -> None:
        self._run = run
        self._name = name
        self._defined: set[str] = set()

    def log(self, series: Iterable[Series]) -> None:
        """Add points. Those of one step are one row of the history."""
        rows: dict[tuple[str, int], dict[str, float]] = {}
        for one in series:
            name = _name(one.name)
            if name not in self._defined:
                self._defined.add(name)
                self._run.define_metric(name, step_metric=one.axis)
            for step, time, value in one.points():
                row = rows.setdefault((one.axis, step), {})
                row[name] = value
                # The earliest: a value may be recorded later for this step.
                row["_timestamp"] = min(time, row.get("_timestamp", time))
        with refusing("Weights & Biases"):
            for (axis, step), row in sorted(rows.items()):
                self._run.log({axis: step, **row})

    def end(self, content: Content) -> str:
        """Add properties, figures and files, and close the run with the program's exit code."""
        end = content.summary.exit or {}
        with refusing("Weights & Biases"):
            self._run.config.update(content.params)
            self._run.config.update({"tags": content.tags})
            self._run.tags = tuple(
                f"{key}={value}"[:64] for key, value in content.summary.tags.items()
            )
            for name, figure in content.figures.items():
                self._run.summary[_name(name)] = figure.value
            for name, render in content.pages.items():
                self._add(name, render().encode())
            for name, path in content.files.items():
                self._add(f"artifacts/{name}", path)
            folder = os.path.dirname(self._run.dir)
            failed = end.get("signal") or end.get("code") != 0
            self._run.finish(exit_code=int(end.get("code") or bool(failed)))
        return f"{self._name}: {folder}; wandb sync {folder}"

    def _add(self, name: str, source: bytes | str) -> None:
        """Add a file to the run, from its contents or from its path."""
        target = os.path.join(self._run.dir, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if isinstance(source, bytes):
            with open(target, "wb") as file:
                file.write(source)
        else:
            shutil.copyfile(source, target)
        self._run.save(target, base_path=self._run.dir, policy="now")


def _name(name: str) -> str:
    return name.replace(".", "_")  # a dot would begin a nested key
