"""Prepare steps, which make the data of benchmarks: each is run once, in the environment of its benchmark.

A folder of data is there as a whole or not at all: it is filled under another name. That a step has
finished is recorded in ``BASE/extra/.prepared``, with a digest of what made the data: the script, its
arguments and its variables. If one of these changes, the step is run again. Its output is logged there too.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.model import Benchmark, Facts
from . import commands, folders, images
from .commands import (
    STAGED,
    CommandFailed,
    Failed,
    Say,
    call,
    locked,
    put_in_place,
    read_record,
    write,
)
from .context import OWN_ARGUMENT, Preparation, placeholders, preparation_of, variables
from .install_groups import python_of

SCHEMA = 1
"""The version of the record of a finished step."""

CORES = {"cpu_count": 1, "cpu_per_gpu": 1, "n_worker": 1}
"""What placeholders of the processor mean in the digest of a step."""
MACHINE = {
    **CORES,
    "arch": "cpu",
    "gpu_count": 1,
    "gpu": {"count": 1, "arch": "cpu", "name": "", "capacity": "0 MiB"},
}
"""What all placeholders of a machine mean in the digest of a step, as far as its program's arguments go."""


def is_prepared(benchmark: Benchmark, base: Path, facts: Facts, use_current: bool = False) -> bool:
    """Whether the prepare step of ``benchmark`` has finished, or it has none.

    Raises SuiteError if a value of its prepare step has no meaning here.
    """
    step = prepare_step(benchmark, base, facts, use_current)
    return step is None or step.finished()


def prepare_step(
    benchmark: Benchmark, base: Path, facts: Facts, use_current: bool = False
) -> PrepareStep | None:
    """The prepare step of ``benchmark``, its placeholders filled in; None if it has none.

    Raises SuiteError if a value of it has no meaning here.
    """
    preparation = preparation_of(benchmark, base)
    if preparation is None:
        return None
    context = {**_job_facts(benchmark, base, facts), **facts, **placeholders(benchmark, base)}
    written = [OWN_ARGUMENT] if preparation.arguments is None else preparation.arguments
    env = {**(benchmark.settings.get("env") or {}), **preparation.env}
    own = benchmark.with_settings(argv=written, env=env)
    arguments = own.argv(context)
    if preparation.own_arguments:
        arguments += benchmark.argv(context)
    made_by = own.argv({**context, **CORES})
    if preparation.own_arguments:
        made_by += benchmark.argv({**context, **_job_facts(benchmark, base, MACHINE), **MACHINE})
    environ = variables(benchmark, base, benchmark.filled(context), use_current)
    given = own.filled(context).get("env") or {}
    environ |= {str(name): str(value) for name, value in given.items()}
    image = images.image_of(benchmark, {**facts, **placeholders(benchmark, base)}, base)
    python = "python3" if image else str(python_of(benchmark, base, use_current))
    start = [python] if preparation.script.suffix == ".py" else []
    words = (*start, str(preparation.script), *arguments)
    text = preparation.script.read_bytes() if preparation.script.is_file() else b""
    # Data that were made for one machine are those of another: of the program's own arguments nothing
    # counts that follows from the devices, and of the step's nothing that follows from the cores.
    # The base folder may be moved: what it is called changes nothing in what was made.
    made_from = [
        hashlib.sha256(text).hexdigest(),
        made_by,
        dict(preparation.env),
        str(preparation.data),
    ]
    identity = json.dumps(made_from, default=str).replace(str(base), "BASE")
    digest = hashlib.sha256(identity.encode()).hexdigest()
    return PrepareStep(benchmark, preparation, base, words, environ, digest, image)


def _job_facts(benchmark: Benchmark, base: Path, facts: Facts) -> Facts:
    """What placeholders of a job mean without a job: all devices, and the folder that the group shares.

    A prepare step may get the program's arguments (``with_argv``), and these may have such placeholders.
    """
    count = facts.get("gpu_count", 1)
    devices = [f"{facts.get('arch', 'cpu')}:{number}" for number in range(int(str(count)))]
    out = str(folders.extra(base, benchmark.group))
    return {"out": out, "device_count": count, "devices": devices}


@dataclass(frozen=True)
class PrepareStep:
    """A prepare step that can be run. Steps with the same ``digest`` make the same data."""

    benchmark: Benchmark
    preparation: Preparation
    base: Path
    words: tuple[str, ...]
    environ: Mapping[str, str]
    """Variables that it is run with, besides those of `inject` itself."""
    digest: str
    image: images.ContainerImage | None = None
    """The image of the container that it runs in; None if it runs in an environment."""

    @property
    def key(self) -> str:
        """The name of the data folder as a file name: its path below ``BASE/data`` with ``~`` for ``/``."""
        name = str(self.preparation.data.relative_to(folders.data(self.base))).replace("/", "~")
        return "all" if name == "." else name

    @property
    def record(self) -> Path:
        """The file that records the finished step. A shared folder has one for each step that fills it."""
        ending = f"-{self.digest[:12]}" if self.preparation.shared else ""
        return folders.records(self.base) / f"{self.key}{ending}.json"

    @property
    def log(self) -> Path:
        """The file with the output of the step."""
        return self.record.with_suffix(".log")

    def finished(self) -> bool:
        """Whether the step has been run as it is now, and its data are still there."""
        record = read_record(self.record, SCHEMA)
        return (
            record is not None
            and record["digest"] == self.digest
            and self.preparation.data.is_dir()
        )

    def run(self, say: Say, force: bool = False) -> bool:
        """Run the step unless it has finished; returns whether it was run.

        Raises Failed if the command failed, and the data folder is what it was before; or another step owns
        it.
        """
        if not force and self.finished():
            return False
        what = f"the data folder {self.key}"
        with locked(folders.locks(self.base) / f"data-{self.key}", what, say):
            if not force and self.finished():
                return False  # another process has done it meanwhile
            self._check_owner()
            say(f"prepare {self.benchmark.name}: {self.preparation.data}")
            self._run()
        return True

    @property
    def _maker(self) -> str:
        """The script that fills the folder, named alike wherever its definition lies."""
        return f"{self.preparation.code.name}/{self.preparation.script.name}"

    def _check_owner(self) -> None:
        """Raise Failed if another step has filled the folder: its benchmark would find other data there."""
        record = None if self.preparation.shared else read_record(self.record, SCHEMA)
        if record is None or not self.preparation.data.is_dir():
            return
        if record["made_by"] != self._maker:
            raise Failed(
                f"{self.preparation.data} is what {record['made_by']} has made for {record['benchmark']}: "
                "name another folder with `prepare.data`, or remove that one"
            )

    def _run(self) -> None:
        preparation = self.preparation
        # First, so that a step which is killed half-way does not count as finished.
        self.record.unlink(missing_ok=True)
        folder = preparation.data
        # Some data hold their own absolute path, such as an index of files: these are made in place.
        if not preparation.in_place:
            folder = folder.with_name(folder.name + STAGED)
        if not preparation.shared:
            folders.remove(folder)
        extra = folders.extra(self.base, self.benchmark.group)
        for needed in (folder, folders.cache(self.base), extra):
            needed.mkdir(parents=True, exist_ok=True)
        began = time.time()
        try:
            self._call(folder)
            if folder != preparation.data:
                put_in_place(folder, preparation.data)
        finally:
            if folder != preparation.data:
                folders.remove(folder)
        record: dict[str, Any] = {"schema": SCHEMA, "digest": self.digest}
        record |= {"benchmark": self.benchmark.name, "data": str(preparation.data)}
        record |= {"made_by": self._maker, "command": self.words}
        write(self.record, json.dumps(record | {"began": began, "ended": time.time()}, indent=1))

    def _call(self, folder: Path) -> None:
        """Run the command so that it fills ``folder`` instead of the data folder. Raises Failed."""
        old, new = str(self.preparation.data), str(folder)
        words = [folders.with_path(word, old, new) for word in self.words]
        environ = {
            name: value if name.startswith("MILABENCH_") else folders.with_path(value, old, new)
            for name, value in self.environ.items()
        }
        environ, code = {**os.environ, **environ}, self.preparation.code
        if self.image is not None:
            words, environ = images.command(self.image, words, code, environ, self.base)
        try:
            call(words, folder=code, environ=environ, log=self.log)
        except CommandFailed as error:
            lines = [f"{error}", f"(all of it: {self.log})"]
            if commands.network_missing(error.tail):
                lines.append(
                    "It seems to want a network that is not there. Prepare where there is one, with "
                    "the same --base, and bring BASE/data, BASE/cache and BASE/extra here."
                )
            raise Failed("\n".join(lines)) from None
